"""View ops show the operand's memory: later writes, its writeability, the owner's permission."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.backends import BACKENDS
from tests.backend.calls import LAYOUTS, calls, operands, values
from tests.backend.laws import assert_means

from einloom.backend.catalogue import CATALOGUE
from einloom.backend.spec import ArraySpec

CPU = BACKENDS["cpu"]
VIEWS = [op for op in CPU.capabilities() if CATALOGUE[op].is_view]
MAYBE = [op for op in CPU.capabilities() if CATALOGUE[op].view == "maybe"]


@pytest.mark.parametrize("op", VIEWS)
def test_later_writes_show(op: str, rng: np.random.Generator) -> None:
    for call in calls(op):
        arrays = operands(call, "int64", "transposed", rng)
        got = CPU.apply(op, call.attrs, *arrays)
        arrays[0][...] = values(rng, arrays[0].shape, np.dtype("int64"))
        assert_means(got, op, call.attrs, arrays, call.outputs(np.dtype("int64")))


@pytest.mark.parametrize("op", [op for op in VIEWS if op != "broadcast_in_dim"])
def test_as_writeable_as_the_operand(op: str, rng: np.random.Generator) -> None:
    for call in calls(op):
        for layout in ("C", "sliced", "readonly"):
            x, *others = operands(call, "float64", layout, rng)
            got = CPU.apply(op, call.attrs, x, *others)
            for one in got if isinstance(got, tuple) else (got,):
                assert one.flags.writeable == x.flags.writeable
                if one.flags.writeable:
                    one[...] = 5
            assert_means(got, op, call.attrs, [x, *others], call.outputs(x.dtype))


def test_broadcasts_are_not_written_to() -> None:
    """One element of memory stands for many."""
    got = CPU.apply("broadcast_in_dim", {"shape": (3, 2), "axes": (1,)}, np.ones(2))
    assert not got.flags.writeable


def test_diagonal_of_foreign_memory() -> None:
    """Memory that NumPy does not own: writeable only if the owner allows it."""
    for memory, writeable in ((bytearray(72), True), (bytes(72), False)):
        x = np.frombuffer(memory).reshape(3, 3)
        diagonal = CPU.apply("extract_diagonal", {"axes": (0, 1)}, x)
        assert diagonal.flags.writeable == writeable
        if writeable:
            diagonal[...] = 7
            assert x.trace() == 21


@pytest.mark.parametrize("op", MAYBE)
def test_maybe(op: str, rng: np.random.Generator) -> None:
    """A row-major operand is never copied; the result is right either way."""
    for call in calls(op):
        for layout in LAYOUTS:
            (x,) = operands(call, "float64", layout, rng)
            got = CPU.apply(op, call.attrs, x)
            if x.flags.c_contiguous and x.flags.writeable and x.size:
                assert np.shares_memory(got, x)
            assert_means(got, op, call.attrs, [x], call.outputs(x.dtype))


@pytest.mark.parametrize("op", ["copy", "contiguous"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_row_major(op: str, layout: str, rng: np.random.Generator) -> None:
    for call in calls(op):
        arrays = operands(call, "float64", layout, rng)
        assert CPU.apply(op, {}, *arrays).flags.c_contiguous, call


def test_view_tells_strides_and_offset() -> None:
    """In elements of the buffer, through chains of views."""
    x = np.zeros((4, 6), np.float32)
    got = CPU.apply("slice", {"starts": (1, 2), "stops": (4, 6), "steps": (2, 1)}, x)
    got = CPU.apply("reverse", {"axes": (1,)}, got)
    assert CPU.view(got) == ((2, 4), (12, -1), 6 + 5)
    assert CPU.view(CPU.empty(ArraySpec(np.dtype("f8"), ()))) == ((), (), 0)

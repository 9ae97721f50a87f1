"""Every kernel of the CPU does what its row of the catalogue says, for every dtype and layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.laws import (
    CALLS,
    LAYOUTS,
    OUT_LAYOUTS,
    Call,
    assert_means,
    junk,
    layouts_of,
    operands,
    values,
)
from tests.cases import lay_out

from einloom._base.errors import Unsupported
from einloom.backend.catalogue import CATALOGUE
from einloom.backend.cpu import cpu
from einloom.backend.spec import ArraySpec, dtype_from_name

BACKEND = cpu()
DTYPES = {op: sorted(names) for op, names in BACKEND.capabilities().items()}
KERNELS = [op for op, row in CATALOGUE.items() if not row.is_view]


def calls(op: str) -> list[Call]:
    return [call for call in CALLS if call.op == op]


def bound(call: Call, dtype: np.dtype) -> Any:
    return BACKEND.bind(call.op, call.attrs, call.specs(dtype), call.output(dtype))


def legal(ops: list[str]) -> list[tuple[str, str]]:
    """Every dtype that the backend claims for each op."""
    return [(op, name) for op in ops for name in DTYPES[op]]


FROM_TABLE = [op for op in CATALOGUE if op not in ("convert", "constant")]


@pytest.mark.parametrize(("op", "name"), legal(FROM_TABLE))
def test_law(op: str, name: str, rng: np.random.Generator) -> None:
    """For every layout of the operands; they stay as they were."""
    dtype = dtype_from_name(name)
    for call in calls(op):
        kernel, output = bound(call, dtype), call.output(dtype)
        for layout in layouts_of(dtype, LAYOUTS):
            arrays = operands(call, dtype, layout, rng)
            before = [x.tolist() for x in arrays]
            try:
                got = kernel(*arrays)
                assert_means(got, op, call.attrs, arrays, output)
                assert [x.tolist() for x in arrays] == before, "an operand was modified"
                if CATALOGUE[op].is_view:
                    assert got.size == 0 or np.may_share_memory(got, arrays[0])
                else:
                    assert not any(np.shares_memory(got, x) for x in arrays)
                    assert got.flags.writeable
            except AssertionError as error:
                error.add_note(f"{call}, layout {layout}")
                raise


@pytest.mark.parametrize(("op", "name"), legal([op for op in FROM_TABLE if op in KERNELS]))
def test_out(op: str, name: str, rng: np.random.Generator) -> None:
    """`out` of any strides is written completely and returned."""
    dtype = dtype_from_name(name)
    for call in calls(op):
        kernel, output = bound(call, dtype), call.output(dtype)
        arrays = operands(call, dtype, "C", rng)
        for layout in layouts_of(dtype, OUT_LAYOUTS):
            out = junk(output, layout, rng)
            try:
                assert kernel(*arrays, out=out) is out
                assert_means(out, op, call.attrs, arrays, output)
            except AssertionError as error:
                error.add_note(f"{call}, out {layout}")
                raise


@pytest.mark.parametrize("name", DTYPES["convert"])
def test_convert(name: str, rng: np.random.Generator) -> None:
    """To every dtype that NumPy casts to without losing the kind of number."""
    dtype = dtype_from_name(name)
    for target in DTYPES["convert"]:
        output = ArraySpec(dtype_from_name(target), (2, 3))
        if dtype.kind == "O" or output.dtype.kind == "V" or dtype.kind == "V":
            if {dtype.kind, output.dtype.kind} & set("c"):
                continue  # from complex to what is not: NumPy warns
        elif not np.can_cast(dtype, output.dtype, "same_kind"):
            continue
        for layout in layouts_of(dtype, LAYOUTS):
            x = lay_out(values(rng, (2, 3), dtype, np.dtype("float16")), layout, rng)
            attrs = {"dtype": target}
            assert_means(BACKEND.apply("convert", attrs, x), "convert", attrs, [x], output)
            out = junk(output, "transposed", rng)
            assert BACKEND.apply("convert", attrs, x, out=out) is out
            assert_means(out, "convert", attrs, [x], output)


@pytest.mark.parametrize("name", DTYPES["constant"])
def test_constant(name: str) -> None:
    for value in (True, 0, 1, 100, 0.5, -0.0, 1 - 2j):
        dtype = dtype_from_name(name)
        if isinstance(value, complex) and dtype.kind not in "cO":
            continue
        attrs = {"value": value, "dtype": name}
        got = BACKEND.apply("constant", attrs)
        assert_means(got, "constant", attrs, [], ArraySpec(dtype, ()))
        assert not got.flags.writeable  # all calls share it


@pytest.mark.parametrize("op", [op for op in CATALOGUE if CATALOGUE[op].is_view])
def test_views_show_later_writes(op: str, rng: np.random.Generator) -> None:
    for call in calls(op):
        arrays = operands(call, "int64", "transposed", rng)
        got = BACKEND.apply(op, call.attrs, *arrays)
        arrays[0][...] = values(rng, arrays[0].shape, np.dtype("int64"))
        assert_means(got, op, call.attrs, arrays, call.output(np.dtype("int64")))


@pytest.mark.parametrize("op", ["transpose", "squeeze", "expand_dims", "extract_diagonal"])
def test_views_are_as_writeable_as_the_operand(op: str, rng: np.random.Generator) -> None:
    for call in calls(op):
        for layout in ("C", "sliced", "readonly"):
            (x,) = operands(call, "float64", layout, rng)
            got = BACKEND.apply(op, call.attrs, x)
            assert got.flags.writeable == x.flags.writeable
            if got.flags.writeable:
                got[...] = 5
                assert_means(got, op, call.attrs, [x], call.output(x.dtype))


def test_diagonal_of_foreign_memory() -> None:
    """Memory that NumPy does not own: writeable only if the owner allows it."""
    for memory, writeable in ((bytearray(72), True), (bytes(72), False)):
        x = np.frombuffer(memory).reshape(3, 3)
        diagonal = BACKEND.apply("extract_diagonal", {"axes": (0, 1)}, x)
        assert diagonal.flags.writeable == writeable
        if writeable:
            diagonal[...] = 7
            assert x.trace() == 21


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_are_row_major(layout: str, rng: np.random.Generator) -> None:
    for call in calls("copy"):
        arrays = operands(call, "float64", layout, rng)
        assert BACKEND.apply("copy", {}, *arrays).flags.c_contiguous, call


# ---- what it cannot do -------------------------------------------------------------------------


def test_op_without_kernel() -> None:
    with pytest.raises(Unsupported, match=r"'fft' has no kernel on the CPU; .*dot_general"):
        BACKEND.bind("fft", {}, (), ArraySpec(np.dtype("f8"), ()))


ARITHMETIC = sorted(op for op in DTYPES if "float16" not in DTYPES[op])


def test_arithmetic_ops_are_those_that_round() -> None:
    assert ARITHMETIC == ["add", "dot_general", "multiply", "reduce_sum", "sum_product"]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "datetime64[s]", "timedelta64[s]", "<U3"])
@pytest.mark.parametrize("op", ARITHMETIC)
def test_dtype_not_claimed(op: str, name: str) -> None:
    """The error names op, dtype, device and remedy."""
    dtype = dtype_from_name(name)
    call = calls(op)[0]
    with pytest.raises(Unsupported, match="CPU") as caught:
        bound(call, dtype)
    message = str(caught.value)
    assert repr(op) in message
    assert dtype.name in message or dtype.str in message
    assert "convert" in message


@pytest.mark.parametrize("op", ARITHMETIC)
def test_foreign_byte_order(op: str, rng: np.random.Generator) -> None:
    """Converted by the fronts, refused by the ops."""
    call = calls(op)[3]
    arrays = operands(call, np.dtype("float64").newbyteorder(), "C", rng)
    with pytest.raises(Unsupported, match="byte order") as caught:
        BACKEND.apply(op, call.attrs, *arrays)
    assert repr(op) in str(caught.value)
    assert "convert" in str(caught.value)

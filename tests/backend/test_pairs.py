"""A real operand beside a complex one: on either side, in any order, with conjugates, and without a copy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.backend.calls import LAYOUTS, OUT_LAYOUTS, Call, dot, junk, lay_out
from tests.tolerance import assert_close, tolerance

import einloom
from einloom import DTypeError
from einloom.backend.cpu import cpu, pairs
from einloom.backend.spec import ArraySpec
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.passes import stages

BACKEND = cpu()
MIXED = [("float32", "complex64"), ("float64", "complex128"), ("longdouble", "clongdouble")]
CALLS = [
    dot((4, 5), (5, 6), contracting=((1,), (0,))),
    dot((5, 4), (6, 5), contracting=((0,), (1,))),
    dot((5,), (5,), contracting=((0,), (0,))),
    dot((4, 5), (5,), contracting=((1,), (0,))),
    dot((3,), (4,)),
    dot((), (2, 3)),
    dot((3, 4, 5), (3, 5, 6), ((0,), (0,)), ((2,), (1,))),
    dot((5, 4, 3), (6, 3, 5), ((2,), (1,)), ((0,), (2,))),
    dot((2, 3, 4), (4, 3, 2), ((0, 1, 2), (2, 1, 0))),
    dot((0, 5), (5, 6), contracting=((1,), (0,))),
    dot((4, 0), (0, 6), contracting=((1,), (0,))),
]


def draw(call: Call, dtypes: tuple[str, str], rng: np.random.Generator) -> list[np.ndarray]:
    arrays = []
    for shape, name in zip(call.shapes, dtypes, strict=True):
        x = rng.standard_normal(shape).astype(name)
        arrays.append(
            x + 1j * rng.standard_normal(shape).astype(x.real.dtype) if x.dtype.kind == "c" else x
        )
    return [np.asarray(x, name) for x, name in zip(arrays, dtypes, strict=True)]


@pytest.mark.parametrize("real", [0, 1], ids=["real on the left", "real on the right"])
@pytest.mark.parametrize("names", MIXED, ids=str)
@pytest.mark.parametrize("least", [0, 1 << 60], ids=["pairs", "converted"])
def test_products(
    names: tuple[str, str],
    real: int,
    least: int,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with both operands complex, for every layout of operands and result, with and without flags."""
    monkeypatch.setattr(pairs, "LEAST", least)
    monkeypatch.setattr(pairs, "LEAST_MOVED", least)
    dtypes = names if real == 0 else names[::-1]
    flags = itertools.cycle(itertools.product((False, True), repeat=2))
    outs = itertools.cycle(OUT_LAYOUTS)
    for call in CALLS:
        for layout in LAYOUTS:
            arrays = [lay_out(x, layout, rng) for x in draw(call, dtypes, rng)]
            attrs = {**call.attrs, "conj": next(flags)}
            whole = [x.astype(names[1]) for x in arrays]
            want = BACKEND.apply("dot_general", attrs, *whole)
            scale = BACKEND.apply("dot_general", call.attrs, *map(abs, arrays))
            out = junk(ArraySpec(want.dtype, want.shape), next(outs), rng)
            got = BACKEND.apply("dot_general", attrs, *arrays)
            assert got.dtype == want.dtype
            assert BACKEND.apply("dot_general", attrs, *arrays, out=out) is out
            for each in (got, out):
                assert_close(each, want, scale, 2 * tolerance(names[1], 5, 2))


def test_only_the_same_precision_mixes() -> None:
    for names in (("float32", "complex128"), ("float64", "complex64"), ("float16", "complex64"),
                  ("int64", "complex128"), ("float32", "float64")):  # fmt: skip
        with pytest.raises(DTypeError, match="differ"):
            BACKEND.apply(
                "dot_general", CALLS[0].attrs, *draw(CALLS[0], names, np.random.default_rng(0))
            )


def test_programs_keep_real_operands_real(rng: np.random.Generator) -> None:
    """Through a whole network: what is real stays so until it meets what is complex."""
    shapes = (30, 20), (20, 40), (40, 10), (10, 30)
    arrays: list[Any] = [rng.standard_normal(shape) for shape in shapes]
    arrays[2] = arrays[2] + 1j * rng.standard_normal(shapes[2])
    equation = "ij,jk,kl,lm->im"
    plan = einloom.plan(equation, *arrays)
    assert plan.program.op_counts["convert"] == plan.program.op_counts["cast"] == 0
    got = einloom.einsum(equation, *arrays)
    want = np.linalg.multi_dot(arrays)
    scale = np.linalg.multi_dot([abs(x) for x in arrays])
    assert_close(got, want, scale, tolerance("complex128", 20 * 40 * 10, 4))
    assert einloom.einsum("ij,jk->ik", *arrays[:2], dtype="complex128").dtype == np.complex128


@pytest.mark.parametrize("real", [0, 1])
def test_passes_keep_the_product(real: int, rng: np.random.Generator) -> None:
    """Transposes and conjugates are folded into it as into any other."""
    build = Builder()
    dtypes = ("float64", "complex128") if real == 0 else ("complex128", "float64")
    x, y = build.input(dtypes[0], (70, 40, 30)), build.input(dtypes[1], (30, 60, 70))
    moved = build.transpose(build("conj", x), (1, 0, 2))
    product = build(
        "dot_general", moved, build("conj", y), contracting=((2, 1), (0, 2)), batch=((), ())
    )
    again = build("dot_general", product, x, contracting=((0,), (1,)), batch=((), ()))
    program = build.finish(again)
    arrays = draw(Call("dot_general", {}, ((70, 40, 30), (30, 60, 70))), dtypes, rng)
    want = np.einsum(
        "ajk,kna,bjc->nbc", arrays[0].conj(), arrays[1].conj(), arrays[0], optimize=True
    )
    for name, each in stages(program):
        got = Executable(each, BACKEND)(*arrays)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-6, err_msg=name)


def test_no_complex_copy() -> None:
    """Scratch beside a complex operand on the right is that of real matrices."""
    attrs = {"contracting": ((1,), (0,)), "batch": ((), ())}
    real, other = ArraySpec(np.dtype("f8"), (500, 500)), ArraySpec(np.dtype("c16"), (500, 500))
    assert BACKEND.engine("dot_general", attrs, (real, other)) == "gemm"
    assert BACKEND.scratch_bytes("dot_general", attrs, (real, other)) <= real.nbytes + other.nbytes


def test_as_many_axes_as_there_can_be() -> None:
    """Where an array can have no axis more, the real operand is converted."""
    most = pairs.MOST_AXES
    x = np.ones((2,) * 12 + (1,) * (most - 12))
    y = np.full((2,) * 12, 1j)
    attrs = {"contracting": (tuple(range(12)), tuple(range(12))), "batch": ((), ())}
    for arrays in ((x, y), (y, x)):
        got = BACKEND.apply("dot_general", attrs, *arrays)
        assert got.shape == (1,) * (most - 12)
        assert got.ravel()[0] == 4096j
    x = np.ones((1,) * (most - 1) + (5000,), complex)
    got = BACKEND.apply(
        "dot_general", {"contracting": ((), ()), "batch": ((), ())}, x, np.array(2.0)
    )
    assert got.shape == x.shape
    assert (got == 2).all()

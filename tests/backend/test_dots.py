"""Inner products of rows: any order in memory, short and long rows, and when they are chosen."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.calls import LAYOUTS, OUT_LAYOUTS, Call, dot, junk, operands
from tests.backend.test_blocked import near

import einloom
from einloom._base.options import options
from einloom.backend.contraction import Contraction, Orders
from einloom.backend.cost_model import CostModel
from einloom.backend.cpu import cpu, dots
from einloom.backend.dots import (
    FEWEST,
    LONG,
    one_suffices,
    reading_seconds,
    rows_seconds,
    takes_rows,
)
from einloom.backend.products import plan_products
from einloom.backend.spec import ArraySpec

BACKEND = cpu()
DTYPES = [
    "float64",
    "complex64",
    *(pytest.param(x, marks=pytest.mark.slow) for x in ("float32", "complex128")),
]
CALLS: list[tuple[str, Call]] = [
    ("rows", dot((70, 9), (70, 9), ((0,), (0,)), ((1,), (1,)))),
    ("rows of two axes", dot((70, 3, 5), (70, 3, 5), ((0,), (0,)), ((1, 2), (1, 2)))),
    ("axes in another order", dot((70, 3, 5), (70, 5, 3), ((0,), (0,)), ((1, 2), (2, 1)))),
    ("batches apart", dot((7, 11, 6), (11, 7, 6), ((0, 1), (1, 0)), ((2,), (2,)))),
    ("rows first", dot((9, 70), (9, 70), ((1,), (1,)), ((0,), (0,)))),
    ("axes of one element", dot((1, 40, 1, 6), (40, 6, 1), ((1,), (0,)), ((3,), (1,)))),
    ("one row", dot((40,), (40,), contracting=((0,), (0,)))),
]
MODEL = CostModel()


def in_rows(call: Call, *arrays: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """By this engine, whatever the sizes."""
    with options(engine="dots"):
        assert BACKEND.engine(call.op, call.attrs, call.specs(arrays[0].dtype)) == "dots"
        return np.asarray(BACKEND.apply(call.op, call.attrs, *arrays, out=out))


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_order_in_memory(dtype: str, rng: np.random.Generator) -> None:
    """Operands and results; what has no rows is BLAS's."""
    for k, (what, call) in enumerate(CALLS):
        layouts = LAYOUTS if k < 2 else LAYOUTS[:: len(LAYOUTS) - 1]
        for at, layout in enumerate(layouts):
            arrays = operands(call, dtype, layout, rng)
            out = junk(call.output(np.dtype(dtype)), OUT_LAYOUTS[at % len(OUT_LAYOUTS)], rng)
            near(in_rows(call, *arrays), call, *arrays)
            assert in_rows(call, *arrays, out=out) is out, what
            near(out, call, *arrays)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_length(dtype: str, rng: np.random.Generator) -> None:
    """Whole vectors, one and several at once, and what is left of them; nothing beyond a row is read."""
    for k in (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 129):
        call = dot((40, k), (40, k), ((0,), (0,)), ((1,), (1,)))
        wide = [np.full((40, k + 3), np.nan, dtype) for _ in range(2)]
        for x, y in zip(wide, operands(call, dtype, "C", rng), strict=True):
            x[:, 1 : 1 + k] = y
        near(
            in_rows(call, *(x[:, 1 : 1 + k] for x in wide)), call, *(x[:, 1 : 1 + k] for x in wide)
        )


def test_infinite_and_nan_reach_their_rows_alone() -> None:
    x, y = np.ones((50, 13)), np.ones((50, 13))
    x[3, 12], x[7, 0], y[9, 5] = np.inf, np.nan, -np.inf
    want = np.full(50, 13.0)
    want[3], want[7], want[9] = np.inf, np.nan, -np.inf
    call = dot(x.shape, y.shape, ((0,), (0,)), ((1,), (1,)))
    np.testing.assert_array_equal(in_rows(call, x, y), want)


def test_layouts_of_the_result(rng: np.random.Generator) -> None:
    """The result lies as its spec says."""
    call = CALLS[3][1]
    turned = ArraySpec(np.dtype("f8"), (7, 11), (1, 0))
    with options(engine="dots"):
        kernel = BACKEND.bind(call.op, call.attrs, call.specs(np.dtype("f8")), (turned,))
        arrays = operands(call, "float64", "C", rng)
        got = kernel(*arrays)
    assert got.T.flags.c_contiguous
    near(got, call, *arrays)


def test_unaligned_arrays_change_no_later_call(rng: np.random.Generator) -> None:
    """Of the same strides."""
    call = CALLS[0][1]
    with options(engine="dots"):
        specs, result = call.specs(np.dtype("f8")), ArraySpec(np.dtype("f8"), (70,))
        kernel = BACKEND.bind(call.op, call.attrs, specs, (result,))
        x, y = operands(call, "float64", "C", rng)
        room = np.zeros(x.nbytes + 1, np.uint8)
        odd = room[1:].view("f8").reshape(x.shape)
        odd[...] = x
        assert not odd.flags.aligned
        near(kernel(odd, y), call, x, y)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dots, "empty_as", lambda spec: seen.append(spec) or np.empty(spec.shape))
            seen: list[ArraySpec] = []
            near(kernel(x, y), call, x, y)
            assert len(seen) == 1, "the kernel's own way"


def test_threads_change_no_bit(rng: np.random.Generator) -> None:
    """Each row is one thread's."""
    x, y = rng.standard_normal((2, 40001, 23))
    found = []
    for threads in (1, 2, 3):
        with options(engine="dots", threads=threads):
            found.append(einloom.einsum("ij,ij->i", x, y))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


# ---- when they are chosen ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("orders", "is_chosen"),
    [
        (((0, 1, 2, 3), (0, 1, 2, 3), (0, 1)), True),
        (((1, 0, 2, 3), (0, 1, 2, 3), (0, 1)), True),  # rows may lie anywhere
        (((0, 1, 3, 2), (0, 1, 3, 2), (0, 1)), True),
        (((0, 1, 3, 2), (0, 1, 2, 3), (0, 1)), False),  # the elements of a row do not
        (((2, 3, 0, 1), (2, 3, 0, 1), (0, 1)), False),
        (((0, 2, 1, 3), (0, 2, 1, 3), (0, 1)), False),
        (((0, 1, 2, 3, 4), (0, 1, 2, 3, 4), (0, 1, 4)), True),  # label 4 has one element
    ],
)
def test_where_there_are_rows(orders: Orders, is_chosen: bool) -> None:
    ones = {4: 1} if len(orders[2] or ()) == 3 else {}
    step = Contraction({0: 90, 1: 90, 2: 8, 3: 8} | ones, (0, 1, *ones), (), (), (2, 3))
    found = plan_products(step, orders, MODEL)
    assert (found.by == "dots") is is_chosen
    assert found.copied_bytes == 0 or not is_chosen


def test_where_there_is_work_enough() -> None:
    def by(rows: int, k: int) -> str:
        step = Contraction({0: rows, 1: k}, (0,), (), (), (1,))
        return plan_products(step, ((0, 1), (0, 1), (0,)), MODEL).by

    assert by(1 << 15, 8) == "dots"
    assert by((1 << 15) - 1, 8) != "dots"
    assert by(FEWEST - 1, 1 << 20) != "dots"
    with options(small=0):
        assert by(FEWEST, 8) == "dots"


def test_long_rows_are_left_to_blas_unless_they_come_from_memory() -> None:
    assert takes_rows(1000, LONG, 8)
    assert not takes_rows(300, LONG + 1, 8)
    assert takes_rows(10000, LONG + 1, 8)


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_more_take_longer(threads: int) -> None:
    """With all threads from where they are worth waking."""
    for k in (2, 24, 500):
        seconds = [rows_seconds(rows, k, 8, threads, 3e10) for rows in range(100, 200000, 100)]
        assert seconds == sorted(seconds)
    assert one_suffices(1000, 24, 8, threads)
    assert one_suffices(10**6, 24, 8, threads) is (threads == 1)
    assert reading_seconds(1000, 24, 8) < reading_seconds(1000, 25, 8)


def test_explain_names_the_engine(rng: np.random.Generator) -> None:
    x, y = rng.standard_normal((2, 20000, 24))
    expression = einloom.compile("ij,ij->i", x, y)
    assert "dots" in str(expression.explain(x, y))
    np.testing.assert_allclose(expression(x, y), (x * y).sum(1), rtol=1e-10, atol=1e-12)

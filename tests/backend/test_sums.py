"""Sums of products beside an operand that has all labels: any order in memory, and when they are chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.backend.calls import LAYOUTS, OUT_LAYOUTS, Call, dot, junk, operands
from tests.backend.test_blocked import near

import einloom
from einloom._base.options import options
from einloom.backend.contraction import Contraction, Orders
from einloom.backend.cost_model import CostModel
from einloom.backend.cpu import cpu
from einloom.backend.products import plan_products
from einloom.backend.spec import ArraySpec

BACKEND = cpu()
DTYPES = [
    "float64",
    *(pytest.param(x, marks=pytest.mark.slow) for x in ("float32", "complex64", "complex128")),
]
CALLS: list[tuple[str, Call]] = [
    ("contracted axes apart", dot((5, 7, 6, 9), (7, 9), contracting=((1, 3), (0, 1)))),
    ("a row on the left", dot((7, 9), (5, 7, 6, 9), contracting=((0, 1), (1, 3)))),
    ("turned in the vector", dot((5, 7, 6, 9), (9, 7), contracting=((1, 3), (1, 0)))),
    ("a vector for each batch", dot((7, 4, 6, 9), (4, 9, 7), ((1,), (0,)), ((0, 3), (2, 1)))),
    ("axes of one element", dot((1, 40, 1), (40, 1), contracting=((1,), (0,)))),
    ("one number", dot((8, 5), (5, 8), contracting=((0, 1), (1, 0)))),
    ("one for each batch", dot((60, 3), (3, 60), ((0,), (1,)), ((1,), (0,)))),
]
MODEL = CostModel()


def in_sums(call: Call, *arrays: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """By this engine, whatever the sizes."""
    with options(engine="sums"):
        assert BACKEND.engine(call.op, call.attrs, call.specs(arrays[0].dtype)) == "sums"
        return np.asarray(BACKEND.apply(call.op, call.attrs, *arrays, out=out))


@pytest.mark.parametrize("small", [0, math.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_order_in_memory(dtype: str, small: float, rng: np.random.Generator) -> None:
    """Operands and results, by the kernel and by NumPy."""
    for k, (what, call) in enumerate(CALLS):
        layouts = LAYOUTS if k == 0 else LAYOUTS[:: len(LAYOUTS) - 1]
        for at, layout in enumerate(layouts):
            arrays = operands(call, dtype, layout, rng)
            out = junk(call.output(np.dtype(dtype)), OUT_LAYOUTS[at % len(OUT_LAYOUTS)], rng)
            with options(small=small):
                near(in_sums(call, *arrays), call, *arrays)
                assert in_sums(call, *arrays, out=out) is out, what
            near(out, call, *arrays)


def test_layouts_of_the_result(rng: np.random.Generator) -> None:
    """The result lies as its spec says."""
    call = CALLS[0][1]
    specs = call.specs(np.dtype("f8"))
    turned = ArraySpec(np.dtype("f8"), (5, 6), (1, 0))
    with options(engine="sums", small=0):
        kernel = BACKEND.bind(call.op, call.attrs, specs, (turned,))
        arrays = operands(call, "float64", "C", rng)
        got = kernel(*arrays)
    assert got.T.flags.c_contiguous
    near(got, call, *arrays)


def test_infinite_and_nan_reach_their_sums_alone() -> None:
    x, y = np.ones((4, 30, 3, 20)), np.ones((30, 20))
    x[1, 2, 2, 3], x[3, 0, 0, 0] = np.inf, np.nan
    want = np.full((4, 3), 600.0)
    want[1, 2], want[3, 0] = np.inf, np.nan
    call = dot(x.shape, y.shape, contracting=((1, 3), (0, 1)))
    for small in (0, math.inf):
        with options(small=small):
            np.testing.assert_array_equal(in_sums(call, x, y), want)


# ---- when they are chosen ------------------------------------------------------------------------

SIZES = {0: 72, 1: 72, 2: 72, 3: 72}
STEP = Contraction(SIZES, (), (0, 1), (), (2, 3))


@pytest.mark.parametrize(
    ("orders", "is_chosen"),
    [
        (((0, 2, 1, 3), (2, 3), (0, 1)), True),
        (((2, 0, 3, 1), (2, 3), (0, 1)), True),
        (((0, 1, 2, 3), (2, 3), (0, 1)), False),  # BLAS reads it where it lies
        (((2, 3, 0, 1), (2, 3), (0, 1)), False),
        ((None, (2, 3), (0, 1)), False),  # nobody has chosen how it lies
    ],
)
def test_where_blas_would_need_a_copy(orders: Orders, is_chosen: bool) -> None:
    found = plan_products(STEP, orders, MODEL)
    assert (found.by == "sums") is is_chosen
    assert found.copied_bytes == 0
    turned = Contraction(SIZES, (), (), (0, 1), (2, 3))
    lhs, rhs, out = orders
    assert (plan_products(turned, (rhs, lhs, out), MODEL).by == "sums") is is_chosen


@pytest.mark.parametrize(
    ("sizes", "order", "is_chosen"),
    [
        # few kept elements last
        ({0: 72, 1: 8, 2: 30, 3: 50}, (2, 0, 3, 1), True),
        ({0: 72, 1: 5, 2: 30, 3: 80}, (2, 0, 3, 1), False),
        # few contracted ones, behind many kept ones and behind few
        ({0: 72, 1: 72, 2: 72, 3: 3}, (0, 2, 1, 3), True),
        ({0: 800, 1: 8, 2: 60, 3: 3}, (0, 2, 1, 3), False),
        ({0: 8, 1: 8, 2: 1500, 3: 3}, (2, 0, 1, 3), True),
        # more of them, as the vector has them and otherwise
        ({0: 800, 1: 8, 2: 30, 3: 20}, (2, 0, 1, 3), True),
        ({0: 800, 1: 8, 2: 20, 3: 20}, (3, 0, 1, 2), False),
        ({0: 800, 1: 8, 2: 80, 3: 20}, (3, 0, 1, 2), True),
    ],
)
def test_where_vectors_are_long_enough(
    sizes: dict[int, int], order: tuple[int, ...], is_chosen: bool
) -> None:
    """Lines of a few elements take a loop each."""
    step = Contraction(sizes, (), (0, 1), (), (2, 3))
    assert (plan_products(step, (order, (2, 3), (0, 1)), MODEL).by == "sums") is is_chosen


@pytest.mark.parametrize(
    ("itemsize", "rate", "is_chosen"),
    [(8, 1, True), (4, 2, False), (16, 0.25, True), (8, 0.5, False)],
)
def test_rows_of_single_precision_are_longer(itemsize: int, rate: float, is_chosen: bool) -> None:
    """They are accumulated in double precision."""
    sizes = {0: 800, 1: 8, 2: 60, 3: 20}
    step = Contraction(sizes, (), (0, 1), (), (2, 3), itemsize, rate)
    assert (plan_products(step, ((2, 0, 1, 3), (2, 3), (0, 1)), MODEL).by == "sums") is is_chosen
    # labels that are one axis count as one
    sizes = {0: 800, 1: 40, 2: 12, 3: 3, 4: 6}
    step = Contraction(sizes, (), (0, 1), (), (2, 3, 4), itemsize, rate)
    orders = (2, 0, 1, 3, 4), (2, 3, 4), (0, 1)
    assert (plan_products(step, orders, MODEL).by == "sums") is is_chosen


@pytest.mark.parametrize(
    ("sizes", "order", "out", "is_chosen"),
    [
        (
            {0: 72, 1: 72, 2: 72, 3: 72, 4: 1},
            (0, 2, 1, 3, 4),
            (0, 1, 4),
            True,
        ),  # kept, behind a run
        ({0: 72, 1: 72, 2: 72, 3: 3, 4: 1}, (0, 2, 1, 3, 4), (0, 1, 4), True),  # and behind few
        ({0: 800, 1: 8, 2: 60, 3: 3, 4: 1}, (0, 2, 1, 3, 4), (0, 1, 4), False),
        ({0: 1, 1: 1, 2: 1, 3: 1, 4: 1}, (0, 2, 1, 3, 4), (0, 1, 4), False),
    ],
)
def test_axes_of_one_element_are_none(
    sizes: dict[int, int], order: tuple[int, ...], out: tuple[int, ...], is_chosen: bool
) -> None:
    step = Contraction(sizes, (), (0, 1, 4), (), (2, 3))
    assert (plan_products(step, (order, (2, 3), out), MODEL).by == "sums") is is_chosen


def test_a_contracted_axis_of_one_element_is_none() -> None:
    """Behind 8 kept ones."""
    sizes = {0: 72, 1: 8, 2: 30, 3: 50, 4: 1}
    step = Contraction(sizes, (), (0, 1), (), (2, 3, 4))
    assert plan_products(step, ((2, 0, 3, 1, 4), (2, 3, 4), (0, 1)), MODEL).by == "sums"


@pytest.mark.parametrize(("last", "is_chosen"), [(8, False), (16, True)])
def test_a_batch_that_lies_last(last: int, is_chosen: bool) -> None:
    """The vector is read along it, too."""
    sizes = {0: last, 1: 72, 2: 30, 3: 800 // last}
    step = Contraction(sizes, (0,), (1,), (), (2, 3))
    orders = (2, 1, 3, 0), (2, 3, 0), (1, 0)
    assert (plan_products(step, orders, MODEL).by == "sums") is is_chosen


@pytest.mark.parametrize(("rows", "is_chosen"), [(8, False), (40, True)])
def test_axes_of_a_batch_and_of_rows_are_two(rows: int, is_chosen: bool) -> None:
    """The vector has those of the batch alone."""
    sizes = {0: 100, 1: rows, 2: 400, 3: 3}
    step = Contraction(sizes, (0,), (1,), (), (2, 3))
    orders = (2, 0, 1, 3), (2, 0, 3), (0, 1)
    assert (plan_products(step, orders, MODEL).by == "sums") is is_chosen


@pytest.mark.parametrize(
    ("kept", "orders", "is_chosen"),
    [
        (8, ((1, 0), (1, 0), (0,)), True),  # vectors run along both
        (3, ((1, 0), (1, 0), (0,)), True),
        (8, ((1, 2, 0), (1, 2, 0), (2, 0)), True),
        (8, ((1, 0), (0, 1), (0,)), False),  # they lie otherwise
        (8, ((2, 1, 0), (1, 2, 0), (2, 0)), False),
    ],
)
def test_few_sums_side_by_side(kept: int, orders: Orders, is_chosen: bool) -> None:
    sizes = {0: kept, 1: 100000} | ({2: 4} if len(orders[2] or ()) == 2 else {})
    step = Contraction(sizes, tuple(x for x in sizes if x != 1), (), (), (1,))
    assert (plan_products(step, orders, MODEL).by == "sums") is is_chosen


def test_not_where_little_is_read() -> None:
    step = Contraction(dict.fromkeys(range(4), 8), (), (0, 1), (), (2, 3))
    assert plan_products(step, ((0, 2, 1, 3), (2, 3), (0, 1)), MODEL).by == "products"


def test_nothing_is_copied(rng: np.random.Generator) -> None:
    """Of what explain says, and the peak, which counts strides that are no whole elements."""
    x, y = rng.random((40, 40, 40, 40)), rng.random((40, 40))
    expression = einloom.compile("aebf,ef->ab", x, y)
    assert "sums" in expression.explain()
    np.testing.assert_allclose(expression(x, y), np.tensordot(x, y, ((1, 3), (0, 1))), rtol=1e-12)

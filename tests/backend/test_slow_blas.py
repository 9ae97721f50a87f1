"""Where our kernels multiply faster than BLAS: what strips are chosen for then, and results."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import einloom
from einloom._base.options import options
from einloom.backend.contraction import Contraction
from einloom.backend.cost_model import FAR, MODELS, CostModel
from einloom.backend.matrices import Products
from einloom.backend.products import plan_products
from einloom.backend.strips import plan_strips

SLOW = CostModel(products=6e10, stream=3.5e10, strips=1.6, blocks=1.4)
"""As measured with OpenBLAS's kernels for Haswell on a processor with units of 512 bits."""


def square(n: int) -> Contraction:
    return Contraction({0: n, 1: n, 2: n}, (), (0,), (1,), (2,))


def found(step: Contraction, *orders: Any, model: CostModel = SLOW) -> Products:
    return plan_products(step, orders, model)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [160, 300, 1024])
@pytest.mark.parametrize("lhs", [(0, 2), (2, 0)])
@pytest.mark.parametrize("rhs", [(2, 1), (1, 2)])
def test_products_of_matrices(n: int, lhs: Any, rhs: Any) -> None:
    assert found(square(n), lhs, rhs, (0, 1)).by == "strips"
    assert found(square(n), lhs, rhs, (0, 1), model=CostModel()).by == "products"


@pytest.mark.parametrize("strips", [0.9, 1.0, 1.1])
def test_what_is_hardly_faster_changes_nothing(strips: float) -> None:
    """A rate that was measured is right to some percent."""
    model = CostModel(strips=strips)
    for n in (80, 300, 1024):
        assert found(square(n), (0, 2), (2, 1), (0, 1), model=model).by == "products"


def test_small_ones_are_left_to_blas() -> None:
    assert found(square(48), (0, 2), (2, 1), (0, 1)).by == "products"


def test_operands_are_copied_for_them_as_for_blas() -> None:
    """Contracted labels that take turns with others, in both operands."""
    sizes = {0: 28, 1: 28, 2: 28, 3: 28, 4: 28, 5: 28}
    step = Contraction(sizes, (), (0, 1), (2, 3), (4, 5))
    orders = (4, 0, 5, 1), (2, 5, 3, 4), (0, 1, 2, 3)
    assert found(step, *orders).by == "strips"
    assert sum(found(step, *orders).packed) > 0
    assert plan_strips(step, orders, CostModel()) is None


def test_short_runs_of_the_result_are_written_element_by_element() -> None:
    """Rows and columns take turns in it; runs of less than 16 elements are not for strips."""

    def chosen(n: int) -> bool:
        sizes = {0: 30, 1: 30, 2: 30, 3: n, 4: 800}
        step = Contraction(sizes, (), (0, 1), (2, 3), (4,))
        return found(step, (0, 1, 4), (4, 2, 3), (2, 0, 1, 3)).by == "strips"

    assert chosen(28)
    assert not chosen(12)


def test_few_rows_and_contracted_elements_for_each_strip_cost_time() -> None:
    few = Contraction({0: 4, 1: 1 << 20, 2: 4}, (), (0,), (1,), (2,))
    many = Contraction({0: 64, 1: 1 << 16, 2: 4}, (), (0,), (1,), (2,))
    seconds = [plan_strips(x, ((0, 2), (2, 1), (0, 1)), SLOW) for x in (few, many)]
    assert seconds[0] is not None
    assert seconds[1] is not None
    assert seconds[0].seconds > 1.1 * seconds[1].seconds


@pytest.mark.parametrize("model", [SLOW, CostModel()])
@pytest.mark.parametrize("n", [9, 90])
def test_a_large_operand_in_small_pieces_costs_time(model: CostModel, n: int) -> None:
    """Contracted labels lie in another order beside columns than beside rows."""
    step = Contraction({0: 1000, 1: n, 2: 81, 3: 7, 4: 10, 5: 22}, (), (0,), (1, 2), (3, 4, 5))
    same = plan_strips(step, ((0, 3, 4, 5), (3, 4, 5, 1, 2), (0, 1, 2)), model)
    other = plan_strips(step, ((0, 4, 5, 3), (3, 4, 1, 5, 2), (0, 1, 2)), model)
    assert same is not None
    assert other is not None
    if step.nbytes[1] < FAR:  # it stays in the caches
        assert same.seconds == pytest.approx(other.seconds, rel=0.03)
    else:
        assert same.seconds < 0.92 * other.seconds


@pytest.fixture
def slow_blas() -> Iterator[None]:
    """Every product takes BLAS so long that a kernel is worth its start."""
    MODELS.use(SLOW._replace(products=1e7))
    yield
    MODELS.use(None)


@pytest.mark.parametrize("dtype", ["float64", pytest.param("complex64", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "equation",
    [
        "imjn,lnkm->ijkl",
        "imkn,jnlm->ijkl",
        "mink,jnlm->ijkl",
        "aib,bjc,ckd->ijka",
    ],
)
def test_results(equation: str, dtype: str, slow_blas: None, rng: np.random.Generator) -> None:
    sizes = {label: 14 + 3 * (ord(label) % 4) for label in equation if label.isalpha()}
    terms = equation.partition("->")[0].split(",")
    arrays = [
        (
            rng.standard_normal([sizes[x] for x in term]) * (1 + 0.5j if dtype[0] == "c" else 1)
        ).astype(dtype)
        for term in terms
    ]
    with options(small=0):
        expression = einloom.compile(equation, *arrays)
        result = expression(*arrays)
    assert {"strips", "blocked"} & {*str(expression.explain(*arrays)).split()}
    tolerance = 1e-12 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(
        result,
        np.einsum(equation, *arrays, optimize=True),
        rtol=tolerance,
        atol=tolerance * abs(result).max(),
    )


@pytest.mark.parametrize("equation", ["imkn,jnlm->ijkl", "mink,jnlm->ijkl"])
def test_threads_agree(equation: str, slow_blas: None, rng: np.random.Generator) -> None:
    """All bits, on one thread and two, and from eight threads of Python at once."""
    sizes = {label: 14 + 3 * (ord(label) % 4) for label in equation if label.isalpha()}
    terms = equation.partition("->")[0].split(",")
    arrays = [rng.standard_normal([sizes[x] for x in term]) for term in terms]
    with options(small=0, threads=1):
        alone = einloom.compile(equation, *arrays)
        expected = alone(*arrays)
        assert "strips" in str(alone.explain(*arrays))
    with options(small=0, threads=2):
        shared = einloom.compile(equation, *arrays)
        np.testing.assert_array_equal(shared(*arrays), expected)
        with ThreadPoolExecutor(8) as threads:
            results = threads.map(lambda _: shared(*arrays), range(16))
            assert all(np.array_equal(result, expected) for result in results)

"""Linear algebra on a GPU: the cases that NumPy in its place is tested with. Skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from tests import on_card
from tests.linalg import test_on_device as suite

pytestmark = on_card.MARKS


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "up", on_card.up)
    monkeypatch.setattr(suite, "down", on_card.down)
    monkeypatch.setattr(suite, "OTHER_PIVOTS", on_card.OTHER_PIVOTS)


@pytest.mark.parametrize("batch", suite.BATCHES, ids=str)
@pytest.mark.parametrize("dtype", suite.DTYPES)
@pytest.mark.parametrize("name", suite.SAME)
def test_as_on_the_host(name: str, dtype: str, batch: tuple[int, ...]) -> None:
    suite.test_as_on_the_host(name, dtype, batch)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 3), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("dtype", suite.DTYPES)
def test_rectangles(shape: tuple[int, int], dtype: str) -> None:
    for batch in ((), (4,)):
        suite.test_rectangles(shape, dtype, batch)


@pytest.mark.parametrize("shape", suite.ORDERS_OF_QR, ids=str)
@pytest.mark.parametrize("dtype", suite.DTYPES)
def test_orders_of_qr(shape: tuple[int, int], dtype: str) -> None:
    suite.test_orders_of_qr(shape, dtype)


@pytest.mark.parametrize("dtype", suite.DTYPES)
def test_eigenvectors(dtype: str) -> None:
    suite.test_eigenvectors(dtype)


@pytest.mark.parametrize("mode", ["relative", "absolute", "relative_weight", "weight"])
def test_truncated_svd(mode: str) -> None:
    suite.test_truncated_svd(mode)


def test_failures() -> None:
    suite.test_failures()


@pytest.mark.parametrize("n", [16, 32, 33, 64, 200])
@pytest.mark.parametrize("dtype", suite.DTYPES)
def test_orders_of_other_ways(n: int, dtype: str) -> None:
    """Kernels of our own end at 32, routines for batches go on, single matrices are large."""
    for name in ("solve", "inv", "det", "cholesky", "lu_factor", "eigvalsh", "svdvals"):
        call, make = suite.SAME[name]
        for batch in ((), (3,), (300,)) if n < 100 else ((), (3,)):
            a, b = make(dtype, batch, n), suite.columns(dtype, batch, n)
            if name in ("solve", "inv"):  # two ways differ by rounding times the condition
                a = a + (2 * np.sqrt(n) * np.eye(n)).astype(a.dtype)
            if name == "det":
                a = a / np.sqrt(n).astype(a.real.dtype)
            want, found = call(a, b), suite.down(call(suite.up(a), suite.up(b)))
            if name == "lu_factor" and dtype.startswith("complex"):
                suite.same_product(found, a, dtype)
            else:
                suite.same(found, want, dtype)

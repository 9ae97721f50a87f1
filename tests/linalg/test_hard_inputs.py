"""Inputs that failed in part before: factors of failed members, shared memory, infinities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import einloom
from einloom import linalg
from einloom.backend.cpu import cpu
from einloom.program.executable import Executable

# previously failed

WAYS = [np.inf, pytest.param(0, marks=pytest.mark.slow)]
"""The option `small`: plain, or lanes and LAPACK in a loop."""


@pytest.mark.parametrize("small", WAYS)
def test_lu_solve_of_failed_factors(rng: np.random.Generator, small: float) -> None:
    a = rng.standard_normal((3, 3, 3))
    a[1, 0, 0] = np.nan
    with einloom.options(small=small):
        factors = linalg.lu_factor(a, check_finite=True, on_error="nan")
        x, info = linalg.lu_solve(factors, np.ones(3), on_error="info")
    assert info.tolist() == [0, -1, 0]
    assert np.isnan(x[1]).all()
    np.testing.assert_allclose((a @ x[..., None])[[0, 2], :, 0], 1)


def test_lu_solve_of_one_failed_matrix() -> None:
    factors = linalg.lu_factor(np.full((2, 2), np.nan), check_finite=True, on_error="nan")
    x, info = linalg.lu_solve(factors, np.ones(2), on_error="info")
    assert info == -1
    assert np.isnan(x).all()


@pytest.mark.parametrize("pivot", [5_000_000, 3, -2, 2**32, 2**40 + 1])
def test_pivots_out_of_range(pivot: int) -> None:
    with pytest.raises(einloom.CallError, match="piv names rows"):
        linalg.lu_solve((np.eye(3) * 2, np.array([pivot, 1, 2])), np.ones(3))


def test_pivots_out_of_range_in_a_program() -> None:
    template = einloom.trace(
        lambda lu, piv, b: linalg.lu_solve((lu, piv), b),
        "float64[n,n]",
        "int32[n]",
        "float64[n]",
    )
    run = Executable(template.bind([(3, 3), (3,), (3,)]), cpu())
    bad = np.array([5_000_000, 1, 2], np.int32)
    with pytest.raises(einloom.EinloomError, match="piv names rows"):
        run(np.eye(3), bad, np.ones(3))


def test_full_piv_lu_solve_of_failed_factors(rng: np.random.Generator) -> None:
    a = rng.standard_normal((3, 3, 3))
    a[1, 0, 0] = np.inf
    factors = linalg.full_piv_lu(a, check_finite=True, on_error="nan")
    x = linalg.full_piv_lu_solve(factors, np.ones(3), on_error="nan")
    assert np.isnan(x[1]).all()
    np.testing.assert_allclose((a @ x[..., None])[[0, 2], :, 0], 1)
    _, info = linalg.full_piv_lu_solve(factors, np.ones(3), on_error="info")
    assert info.tolist() == [0, -1, 0]


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("small", WAYS)
def test_singular_values_of_infinities(
    rng: np.random.Generator, small: float, value: float
) -> None:
    for shape in ((2, 4, 4), (2, 70, 66)):
        a = rng.standard_normal(shape)
        a[0, 0, 0] = value
        with einloom.options(small=small):
            for run in (linalg.svd, linalg.svdvals, linalg.pinv, _least_squares):
                found, info = run(a, on_error="info")
                assert info.tolist() == [1, 0]
                for x in found if isinstance(found, tuple) else (found,):
                    if x.dtype.kind == "f":
                        assert np.isnan(x[0]).all()
                        assert np.isfinite(x[1]).all()


def _least_squares(a: Any, **options: Any) -> Any:
    return linalg.lstsq(a, np.ones((a.shape[-2], 1)), **options)


@pytest.mark.parametrize("order", ["C", "F"])
def test_overwriting_what_the_other_operand_holds(rng: np.random.Generator, order: Any) -> None:
    for n in (5, 80):
        a = np.array(rng.standard_normal((n, n)), order=order)
        np.testing.assert_allclose(linalg.solve(a, a, overwrite_a=True), np.eye(n), atol=1e-9)
        u = np.array(np.triu(a) + 2 * n * np.eye(n), order=order)
        x = linalg.solve_triangular(u, u, overwrite_b=True)
        np.testing.assert_allclose(x, np.eye(n), atol=1e-9)


@pytest.mark.parametrize("small", WAYS)
def test_lstsq_with_the_least_rcond(small: float) -> None:
    a = np.diag([1.0, 3e-16, 1e-16])
    with einloom.options(small=small):
        for x in (a, np.stack([a] * 40)):
            assert np.all(linalg.lstsq(x, np.ones((3, 1)), rcond=-1).rank == 2)


@pytest.mark.parametrize("small", WAYS)
def test_lstsq_of_one_matrix_that_fails(small: float) -> None:
    with einloom.options(small=small):
        found, info = linalg.lstsq(np.full((3, 2), np.nan), np.ones(3), on_error="info")
    assert info == 1
    assert found.rank == -1
    assert np.isnan(found.x).all()


@pytest.mark.parametrize("value", [0, np.nan, np.inf])
@pytest.mark.parametrize("small", WAYS)
def test_factors_with_a_bad_diagonal(small: float, value: float) -> None:
    factor = np.stack([np.diag([1.0, 2, 4])] * 3)
    factor[1, 1, 1] = value
    pivots = np.tile(np.arange(3, dtype=np.int32), (3, 1))
    runs: list[Callable[..., Any]] = [
        lambda **o: linalg.cho_solve((factor, True), np.ones(3), **o),
        lambda **o: linalg.lu_solve((factor, pivots), np.ones(3), **o),
    ]
    with einloom.options(small=small):
        for run in runs:
            x, info = run(on_error="info")
            assert info.tolist() == [0, 2 if value == 0 else -1, 0]
            assert np.isnan(x[1]).all()
            assert np.isfinite(x[[0, 2]]).all()
            with pytest.raises(einloom.LinAlgError, match="1 of 3"):
                run()


def test_a_singular_member_leaves_the_bits_of_others(rng: np.random.Generator) -> None:
    a = rng.standard_normal((6, 9, 9))
    h = a @ a.swapaxes(-1, -2)
    b = rng.standard_normal((6, 9, 2))
    runs: list[Callable[..., Any]] = [
        lambda at, **o: linalg.solve(a[at], b[at], **o),
        lambda at, **o: linalg.inv(a[at], **o),
        lambda at, **o: linalg.cholesky(h[at], **o),
        lambda at, **o: linalg.cholesky(h[at], upper=True, **o),
    ]
    with einloom.options(small=np.inf):
        good = [run(slice(5)) for run in runs]
        a[5, :, 3] = a[5, 3] = 0
        h[5, 3, 3] = -1
        for run, want in zip(runs, good, strict=True):
            found, info = run(slice(6), on_error="info")
            assert info.tolist() == [0] * 5 + [4]
            np.testing.assert_array_equal(found[:5], want)


def test_pinv_checks_on_error() -> None:
    with pytest.raises(einloom.OptionError, match="bogus"):
        linalg.pinv(np.eye(2), on_error="bogus")  # type: ignore[arg-type]


def test_gauges_of_lists() -> None:
    minus: list[list[float]] = [[-1, 0], [0, -1]]
    u, s, vh = linalg.canonical_svd(minus, [2, 1], [[1, 0], [0, 1]])
    assert u.tolist() == [[1, 0], [0, 1]]
    assert s.tolist() == [2, 1]
    assert vh.tolist() == minus
    assert linalg.canonical_vectors(minus).tolist() == [[1, 0], [0, 1]]
    assert linalg.positive_qr(minus, minus).R.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("small", WAYS)
def test_determinants_of_nan(rng: np.random.Generator, small: float) -> None:
    """A pivot that is NaN ended as a zero."""
    a = rng.standard_normal((3, 2, 2))
    a[1] = [[np.nan, 1], [1, 1]]
    with einloom.options(small=small):
        for _ in range(2):
            assert np.isnan(linalg.det(a)).tolist() == [False, True, False]
            assert np.isnan(linalg.slogdet(a).logabsdet).tolist() == [False, True, False]
            assert np.isnan(linalg.det(a[1]))


def test_least_squares_of_many_tiny_matrices(rng: np.random.Generator) -> None:
    """They went one by one through NumPy's function."""
    a, b = rng.standard_normal((200, 3, 2)), rng.standard_normal((200, 3, 1))
    a[7, :, 1] = a[7, :, 0]
    found = linalg.lstsq(a, b)
    for k in (0, 7, 199):
        x, _, rank, s = np.linalg.lstsq(a[k], b[k], rcond=None)
        np.testing.assert_allclose(found.x[k], x, rtol=1e-12)
        np.testing.assert_allclose(found.s[k], s, rtol=1e-12, atol=1e-15)
        assert found.rank[k] == rank
        np.testing.assert_allclose(found.residuals[k], ((a[k] @ x - b[k]) ** 2).sum(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_determinants_by_products_out_of_range(
    n: int, dtype: str, rng: np.random.Generator
) -> None:
    """Huge and tiny members of a batch of ordinary ones; det(c r) = c^n det r for powers of two."""
    far = 2.0**600 if dtype in ("float64", "complex128") else 2.0**80
    ordinary = rng.standard_normal((600, n, n)).astype(dtype)
    if dtype[0] == "c":
        ordinary += np.asarray(1j, dtype) * ordinary[::-1]
    a = ordinary.copy()
    a[3, 0], a[3, 1] = a[3, 0] * far, a[3, 1] / far
    a[5] *= far
    a[7] /= far
    a[9] = 0
    a[11, 0, 0] = np.nan
    a[599, 0] *= far
    with einloom.options(small=0):
        found, want = linalg.det(a), linalg.det(ordinary)
    close = {"rtol": 100 * np.finfo(dtype).eps}
    others = [k for k in range(599) if k not in (3, 5, 7, 9, 11)]
    np.testing.assert_array_equal(found[others], want[others])
    np.testing.assert_allclose(found[[3, 599]], want[[3, 599]] * [1, far], **close)
    assert not np.isfinite(found[5])
    assert abs(found[7]) < np.finfo(dtype).tiny
    assert found[9] == 0
    assert np.isnan(found[11])

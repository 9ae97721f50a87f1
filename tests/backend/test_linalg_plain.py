"""Factorisations and solves by NumPy and SciPy: residuals, and failures that stay with their member."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.tolerance import eps

from einloom.backend.cpu.linalg import plain

Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float64", "complex64", "complex128")
BATCHES = ((), (3,), (2, 0), (2, 1, 3))


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def adjoint(a: Array) -> Array:
    return a.swapaxes(-1, -2).conj()


def close(got: Array, want: Array) -> None:
    """To some hundred units of rounding of the largest element: matrices here are 5 by 5, say."""
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    scale = np.abs(want).max(initial=1.0)
    np.testing.assert_allclose(got, want, rtol=0, atol=1000 * eps(want.dtype) * scale)


def good(a: Array, rng: np.random.Generator) -> Array:
    """a made well conditioned: its diagonal grows."""
    return a + (4 * np.eye(a.shape[-1])).astype(a.dtype)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_square(rng: np.random.Generator, dtype: str, batch: tuple[int, ...], n: int) -> None:
    a = good(draw(rng, (*batch, n, n), dtype), rng)
    b = draw(rng, (*batch, n, 2), dtype)
    h = a @ adjoint(a)
    before = a.copy()
    eye = np.broadcast_to(np.eye(n, dtype=dtype), a.shape)
    x, info = plain.solve(a, b)
    close(a @ x, b)
    assert info.dtype == np.int32
    assert info.shape == batch
    assert not info.any()
    close(a @ plain.inv(a)[0], eye)
    sign, logabs = plain.slogdet(a)
    close(np.asarray(sign * np.exp(logabs), dtype), plain.det(a))
    for lower in (True, False):
        c, info = plain.cholesky(h, lower)
        assert not info.any()
        close(c @ adjoint(c) if lower else adjoint(c) @ c, h)
        assert (c == (np.tril(c) if lower else np.triu(c))).all()
        close(h @ plain.cho_solve(c, b, lower), b)
        w, v, info = plain.eigh(h, lower)
        assert v is not None
        close(h @ v, v * w[..., None, :])
        close(plain.eigh(h, lower, vectors=False)[0], w)
    lu, pivots, info = plain.lu(a)
    for trans, op in (("N", a), ("T", a.swapaxes(-1, -2)), ("C", adjoint(a))):
        close(op @ plain.lu_solve(lu, pivots, b, trans), b)  # type: ignore[arg-type]
    w, vl, vr, info = plain.eig(a, left=True)
    assert vl is not None
    assert vr is not None
    close(a @ vr, vr * w[..., None, :])
    close(adjoint(vl) @ a, w[..., None] * adjoint(vl))
    assert (before == a).all()


@pytest.mark.parametrize("trans", ["N", "T", "C"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_triangular(
    rng: np.random.Generator, dtype: str, trans: Any, left: bool, lower: bool
) -> None:
    a = good(draw(rng, (3, 5, 5), dtype), rng)
    t = np.tril(a) if lower else np.triu(a)
    op = {"N": t, "T": t.swapaxes(-1, -2), "C": adjoint(t)}[trans]
    b = draw(rng, (3, 5, 2) if left else (3, 2, 5), dtype)
    x, info = plain.triangular_solve(a, b, lower, trans, False, left)
    close(op @ x if left else x @ op, b)
    assert not info.any()
    a[1, 2, 2] = 0
    x, info = plain.triangular_solve(a, b, lower, trans, False, left)
    assert info.tolist() == [0, 3, 0]
    x, info = plain.triangular_solve(a, b[..., :0] if left else b[:, :0], lower, trans, False, left)
    assert info.tolist() == [0, 3, 0]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (0, 3), (3, 0), (1, 1)])
def test_any_shape(
    rng: np.random.Generator, dtype: str, batch: tuple[int, ...], shape: tuple[int, int]
) -> None:
    (m, n), k = shape, min(shape)
    a, b = draw(rng, (*batch, m, n), dtype), draw(rng, (*batch, m, 2), dtype)
    for mode, inner in (("reduced", k), ("complete", m)):
        q, r = plain.qr(a, mode)  # type: ignore[arg-type]
        close(q @ r, a)
        assert q.shape[-1] == inner
        assert q.flags.c_contiguous
    assert plain.qr(a, "r").shape == (*batch, k, n)
    h, tau = plain.qr(a, "raw")
    assert (h.shape, tau.shape) == ((*batch, n, m), (*batch, k))
    u, s, vh, _ = plain.svd(a)
    assert u is not None
    assert vh is not None
    close((u * s[..., None, :]) @ vh, a)
    u, _, vh, _ = plain.svd(a, full=True)
    assert u is not None
    assert u.shape == (*batch, m, m)
    close(plain.svd(a, vectors=False)[1], s)
    lu, pivots, _ = plain.lu(a)
    assert lu.shape == a.shape
    assert pivots.dtype == np.int32
    x, residuals, rank, values, _ = plain.lstsq(a, b, -1.0)
    close(adjoint(a) @ (a @ x - b), np.zeros((*batch, n, 2), dtype))
    close(residuals, (abs(a @ x - b) ** 2).sum(axis=-2))
    close(values, s)
    assert (rank == k).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_failure_stays_with_its_member(rng: np.random.Generator, dtype: str) -> None:
    a = good(draw(rng, (4, 3, 3), dtype), rng)
    b = draw(rng, (4, 3, 1), dtype)
    singular = a.copy()
    singular[2] = 0
    for got, want in (
        (plain.solve(singular, b), plain.solve(a, b)),
        (plain.inv(singular), plain.inv(a)),
        (plain.lu(singular)[::2], plain.lu(a)[::2]),
        (plain.cholesky(singular @ adjoint(singular)), plain.cholesky(a @ adjoint(a))),
    ):
        assert got[1].tolist() == [0, 0, 1, 0]
        close(np.delete(got[0], 2, 0), np.delete(want[0], 2, 0))
    wrong = a.copy()
    wrong[1, 0, 0] = np.nan
    for found in (plain.eigh(wrong), plain.svd(wrong), plain.eig(wrong), plain.eig(wrong, True)):
        assert not found[-1][[0, 2, 3]].any()
        close(np.delete(found[-2], 1, 0), np.delete(found[-2], 1, 0))
        assert np.isfinite(np.delete(found[-2], 1, 0)).all()

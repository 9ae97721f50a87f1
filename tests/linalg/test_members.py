"""Schur forms, pivoted QR and parts of spectra by the compiled loop and by SciPy's wrappers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.each import each
from tests.tolerance import eps

from einloom import options
from einloom.backend.cpu.linalg import members

DTYPES = ("float32", "float64", "complex64", "complex128")
dtypes = pytest.mark.parametrize("dtype", DTYPES)
ways = pytest.mark.parametrize("small", [0, float("inf")], ids=["compiled", "plain"])
batches = each("batch", [(), (5,), (2, 3), (0,)])


def random(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def near(x: Any, y: Any, dtype: str) -> None:
    assert x.shape == y.shape
    assert np.allclose(x, y, rtol=0, atol=200 * eps(dtype))


@dtypes
@ways
@batches
@each("shape", [(1, 1), (4, 4), (7, 3), (3, 7), (0, 3), (3, 0)])
@each("mode", ["reduced", "complete", "r"])
def test_qr_pivoted(dtype: str, small: float, batch: Any, shape: Any, mode: str) -> None:
    a = random((*batch, *shape), dtype)
    with options(small=small):
        q, r, p = members.qr_pivoted(a, mode)
    moved = np.take_along_axis(a, p[..., None, :], -1)
    assert (np.tril(r, -1) == 0).all()
    if q is not None:
        near(q @ r, moved, dtype)
        near(
            adjoint(q) @ q,
            np.broadcast_to(np.eye(q.shape[-1]), (*batch,) + q.shape[-1:] * 2),
            dtype,
        )


@dtypes
@ways
@batches
@pytest.mark.parametrize("n", [0, 1, 4, 9])
def test_schur(dtype: str, small: float, batch: Any, n: int) -> None:
    a = random((*batch, n, n), dtype)
    with options(small=small):
        t, z, w, info = members.schur(a)
    assert not info.any()
    near(z @ t @ adjoint(z), a, dtype)
    assert w.shape == (*batch, n)
    assert np.allclose(w.sum(-1), np.trace(a, axis1=-2, axis2=-1), atol=300 * eps(dtype))


@dtypes
@ways
@batches
@pytest.mark.parametrize("lower", [True, False])
def test_eigh_range(dtype: str, small: float, batch: Any, lower: bool) -> None:
    a = random((*batch, 6, 6), dtype)
    a = a + adjoint(a)
    every = np.linalg.eigvalsh(a)
    with options(small=small):
        w, v, counts, info = members.eigh_range(a, lower, "I", 1, 3)
        values, _, found, _ = members.eigh_range(a, lower, "V", -1.0, 1.0)
    assert not info.any()
    assert (counts == 3).all()
    near(w, every[..., 1:4], dtype)
    near(a @ v, v * w[..., None, :], dtype)
    inside = (every > -1) & (every <= 1)
    assert (found == inside.sum(-1)).all()
    for at in np.ndindex(*batch):
        near(values[at][: found[at]], every[at][inside[at]], dtype)


@ways
@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float32", 1e30), ("float32", 1e-30), ("float64", 1e250), ("float64", 1e-250)],
)
def test_schur_of_huge_and_tiny_matrices(dtype: str, size: float, small: float) -> None:
    a = random((4, 5, 5), dtype)
    with options(small=small):
        t, z, w, _ = members.schur(a * np.dtype(dtype).type(size))
    near(z @ (t / size) @ adjoint(z), a, dtype)
    near(np.sort(abs(w / size)), np.sort(abs(np.linalg.eigvals(a.astype("d")))), dtype)

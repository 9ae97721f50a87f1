"""Polar, Schur, QR and eigenvalue variants: what defines each factorisation, with errors beside SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from tests.each import each
from tests.linalg.hard import MATRICES
from tests.tolerance import eps

import einloom
from einloom import LinAlgError, OptionError, ShapeError
from einloom.linalg import (
    canonical_vectors,
    eig_two_sided,
    eigh_generalized,
    eigh_subset,
    polar,
    qr_pivoted,
    qr_positive,
    qr_rank_revealing,
    schur,
)

DTYPES = ("float32", "float64", "complex64", "complex128")
BATCHES = ((), (3,), (2, 3), (0,))
SHAPES = ((1, 1), (5, 5), (7, 3), (3, 7), (0, 4), (4, 0))
dtypes = pytest.mark.parametrize("dtype", DTYPES)
batches = each("batch", BATCHES)
shapes = each("shape", SHAPES)
names = pytest.mark.parametrize("name", MATRICES)


def random(shape: tuple[int, ...], dtype: str, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def close(x: Any, y: Any, dtype: str, factor: float = 60) -> None:
    assert np.shape(x) == np.shape(y)
    if np.size(x):
        assert abs(x - y).max() < factor * eps(dtype) * max(1, abs(y).max())


def unitary(q: Any, dtype: str) -> None:
    close(
        adjoint(q) @ q,
        np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2],) + q.shape[-1:] * 2),
        dtype,
    )


def error(product: Any, a: Any) -> float:
    """In spacings at the norm of a."""
    size = max(float(abs(a).max()), 1e-300)
    return float(abs(product - a).max() / size / eps(np.asarray(a).dtype))


# ---- QR -------------------------------------------------------------------------------------------


@dtypes
@batches
@shapes
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr_positive(dtype: str, batch: Any, shape: Any, mode: Any) -> None:
    a = random((*batch, *shape), dtype)
    q, r = qr_positive(a, mode)
    wanted = np.linalg.qr(a, mode)
    assert (q.shape, r.shape) == (wanted[0].shape, wanted[1].shape)
    assert q.dtype == r.dtype == dtype
    close(q @ r, a, dtype)
    unitary(q, dtype)
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    assert (diagonal.real >= 0).all()
    assert (diagonal.imag == 0).all()
    assert (np.tril(r, -1) == 0).all()


def test_qr_positive_is_the_only_one() -> None:
    a = random((4, 6, 3), "complex128")
    q, r = qr_positive(a)
    signs = np.exp(1j * np.arange(6))
    other = qr_positive(np.where(True, a, 0) * 1.0)
    close(other.Q, q, "complex128")
    close(qr_positive(q * signs[:3] @ (signs[:3, None].conj() * r)).R, r, "complex128")


@dtypes
@batches
@shapes
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr_pivoted(dtype: str, batch: Any, shape: Any, mode: Any) -> None:
    a = random((*batch, *shape), dtype)
    q, r, p = qr_pivoted(a, mode)
    assert p.shape == (*batch, shape[1])
    assert (np.sort(p, axis=-1) == np.arange(shape[1])).all()
    moved = np.take_along_axis(a, p[..., None, :], axis=-1)
    if q is None:
        close(adjoint(r) @ r, adjoint(moved) @ moved, dtype, 200)
    else:
        close(q @ r, moved, dtype)
        unitary(q, dtype)
    size = abs(np.diagonal(r, axis1=-2, axis2=-1))
    assert (size[..., 1:] <= size[..., :-1] * (1 + 20 * eps(dtype))).all()


@names
def test_qr_pivoted_is_as_accurate_as_scipys(name: str) -> None:
    a = MATRICES[name]
    q, r, p = qr_pivoted(a)
    q2, r2, p2 = scipy.linalg.qr(a, pivoting=True)
    assert error(q @ r, a[:, p]) <= 10 * error(q2 @ r2, a[:, p2]) + 1
    unitary(q, "float64")


@dtypes
def test_rank_revealing(dtype: str) -> None:
    ranks = [0, 1, 3, 4]
    a = np.stack([random((6, r), dtype, r) @ random((r, 4), dtype, r + 9) for r in ranks])
    q, r, p, rank = qr_rank_revealing(a)
    assert rank.tolist() == ranks
    for k, n in enumerate(ranks):
        close(q[k][:, :n] @ r[k][:n], a[k][:, p[k]], dtype)
    assert qr_rank_revealing(np.diag([1.0, 0.1, 0.01]), rtol=0.05).rank == 2
    assert qr_rank_revealing(np.ones((0, 3))).rank == 0
    with pytest.raises(OptionError, match="rtol"):
        qr_rank_revealing(a, rtol=-1)


# ---- polar and Schur ------------------------------------------------------------------------------


@dtypes
@batches
@shapes
@pytest.mark.parametrize("side", ["right", "left"])
def test_polar(dtype: str, batch: Any, shape: Any, side: Any) -> None:
    a = random((*batch, *shape), dtype)
    u, p = polar(a, side)
    assert u.dtype == p.dtype == dtype
    close(u @ p if side == "right" else p @ u, a, dtype)
    close(p, adjoint(p), dtype, 1)
    assert (np.linalg.eigvalsh(p) > -60 * eps(dtype)).all()
    unitary(u if shape[0] >= shape[1] else adjoint(u), dtype)


@names
def test_polar_is_as_accurate_as_scipys(name: str) -> None:
    a = MATRICES[name]
    u, p = polar(a)
    v, s = scipy.linalg.polar(a)
    assert error(u @ p, a) <= 10 * error(v @ s, a) + 2
    unitary(u, "float64")


@dtypes
@batches
@each("n", [0, 1, 2, 5, 12])
@pytest.mark.parametrize("output", ["real", "complex"])
def test_schur(dtype: str, batch: Any, n: int, output: Any) -> None:
    a = random((*batch, n, n), dtype)
    t, z = schur(a, output)
    assert t.dtype == z.dtype == (np.result_type(dtype, "F") if output == "complex" else dtype)
    close(z @ t @ adjoint(z), a, dtype, 150)
    unitary(z, dtype)
    below = np.tril(t, -1 if t.dtype.kind == "c" else -2)
    assert (below == 0).all()


@names
def test_schur_is_as_accurate_as_scipys(name: str) -> None:
    a = MATRICES[name]
    t, z = schur(a)
    t2, z2 = scipy.linalg.schur(a)
    assert error(z @ t @ z.T, a) <= 10 * error(z2 @ t2 @ z2.T, a) + 1
    for k in range(len(a) - 1):  # standard form of blocks
        if t[k + 1, k]:
            assert t[k, k] == t[k + 1, k + 1]
            assert t[k, k + 1] * t[k + 1, k] < 0


# ---- eigenvalues ----------------------------------------------------------------------------------


@dtypes
@batches
@pytest.mark.parametrize("kind", [1, 2, 3])
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_generalized(dtype: str, batch: Any, kind: Any, uplo: str) -> None:
    n = 5
    a = random((*batch, n, n), dtype)
    a = a + adjoint(a)
    c = random((*batch, n, n), dtype, 2)
    b = c @ adjoint(c) + n * np.eye(n, dtype=dtype)
    other = np.triu if uplo == "L" else np.tril  # what is not read
    spoil = other(np.full((n, n), 7, dtype), 1 if uplo == "L" else -1)
    w, v = eigh_generalized(a + spoil, b + spoil, uplo, type=kind)
    assert w.dtype == a.real.dtype
    assert v.dtype == dtype
    left, right = {1: (a @ v, b @ v), 2: (a @ b @ v, v), 3: (b @ a @ v, v)}[kind]
    close(left, right * w[..., None, :], dtype, 1000)
    metric = np.linalg.inv(b) if kind == 3 else b
    close(adjoint(v) @ metric @ v, np.broadcast_to(np.eye(n), v.shape), dtype, 200)
    assert (np.diff(w, axis=-1) >= 0).all()
    for k in np.ndindex(*batch):
        wanted = scipy.linalg.eigh(a[k], b[k], type=kind, eigvals_only=True)
        assert abs(w[k] - wanted).max() < 300 * eps(dtype) * abs(wanted).max()


def test_generalized_names_what_is_not_definite() -> None:
    b = np.stack([np.eye(3), np.diag([1.0, -1, 1]), np.eye(3)])
    with pytest.raises(LinAlgError, match="not positive definite") as caught:
        eigh_generalized(np.eye(3), b)
    assert caught.value.failed == ((1,),)
    assert caught.value.info.tolist() == [0, 5, 0]
    w, _ = eigh_generalized(np.eye(3), b, on_error="nan")
    assert np.isnan(w[1]).all()
    assert np.allclose(w[[0, 2]], 1)
    with pytest.raises(OptionError, match="type=4"):
        eigh_generalized(np.eye(2), np.eye(2), type=4)  # type: ignore[arg-type]
    with pytest.raises(ShapeError):
        eigh_generalized(np.eye(2), np.eye(3))


@dtypes
@batches
@pytest.mark.parametrize("n", [1, 6, 60])
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_subset_by_index(dtype: str, batch: Any, n: int, uplo: str) -> None:
    a = random((*batch, n, n), dtype)
    a = a + adjoint(a)
    first, last = n // 3, min(n - 1, n // 3 + 2)
    w, v, counts = eigh_subset(a, by_index=(first, last), UPLO=uplo)
    every = np.linalg.eigvalsh(a.astype(np.result_type(a, "D")))
    assert (counts == last - first + 1).all()
    assert counts.shape == batch
    close(w, every[..., first : last + 1], dtype, 300)
    close(a @ v, v * w[..., None, :], dtype, 1000)
    unitary(v, dtype)


@dtypes
@pytest.mark.parametrize("n", [4, 60])
def test_subset_by_value(dtype: str, n: int) -> None:
    a = random((3, n, n), dtype)
    a = a + adjoint(a)
    a[1] += 1000 * np.eye(n, dtype=dtype)  # has none
    every = np.linalg.eigvalsh(a.astype("D"))
    low, high = (every[0, 0] + every[0, 1]) / 2, (every[0, 2] + every[0, 3]) / 2
    w, v, counts = eigh_subset(a, by_value=(low, high))
    inside = (every > low) & (every <= high)
    assert counts.tolist() == inside.sum(-1).tolist()
    assert w.shape == (3, counts.max())
    for k, count in enumerate(counts):
        close(w[k, :count], every[k][inside[k]], dtype, 300)
        close(a[k] @ v[k], v[k] * w[k], dtype, 1000)
        assert not w[k, count:].any()
        assert not v[k, :, count:].any()


@pytest.mark.parametrize(
    "options",
    [{}, {"by_index": (0, 1), "by_value": (0, 1)}, {"by_index": (1, 0)}, {"by_index": (0, 3)},
     {"by_index": 2}, {"by_value": (1, 1)}, {"by_value": "ab"}, {"by_index": (0, 0), "UPLO": "X"}],
)  # fmt: skip
def test_subset_refuses(options: Any) -> None:
    with pytest.raises(OptionError, match="eigh_subset"):
        eigh_subset(np.eye(3), **options)


@dtypes
@batches
@pytest.mark.parametrize("biorthogonal", [False, True])
def test_two_sided(dtype: str, batch: Any, biorthogonal: bool) -> None:
    a = random((*batch, 6, 6), dtype)
    w, left, right = eig_two_sided(a, biorthogonal=biorthogonal)
    assert w.dtype == left.dtype == right.dtype == np.result_type(dtype, "F")
    close(a @ right, right * w[..., None, :], dtype, 200)
    scale = max(1, abs(left).max(initial=0))
    close(adjoint(left) @ a / scale, w[..., :, None] * adjoint(left) / scale, dtype, 500)
    overlap = np.einsum("...ij,...ij->...j", left.conj(), right)
    if biorthogonal:
        close(overlap, np.ones_like(overlap), dtype)
    else:
        close(np.linalg.norm(left, axis=-2), np.ones(w.shape), dtype)


def test_canonical_vectors() -> None:
    a = random((3, 5, 5), "complex128")
    v = np.linalg.eigh(a + adjoint(a))[1]
    phases = np.exp(1j * np.arange(5))
    close(canonical_vectors(v), canonical_vectors(v * phases), "complex128")


# ---- all of them ----------------------------------------------------------------------------------

FUNCTIONS: dict[str, Any] = {
    "polar": polar,
    "schur": schur,
    "qr_positive": qr_positive,
    "qr_pivoted": qr_pivoted,
    "qr_rank_revealing": qr_rank_revealing,
    "eig_two_sided": eig_two_sided,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_members_that_are_not_finite(name: str) -> None:
    a = random((4, 3, 3), "float64")
    a[2, 1, 1] = np.inf
    with pytest.raises(LinAlgError, match="infs or NaNs") as caught:
        FUNCTIONS[name](a, check_finite=True)
    assert caught.value.failed == ((2,),)
    result, info = FUNCTIONS[name](a, check_finite=True, on_error="info")
    assert info.tolist() == [0, 0, -1, 0]
    good = FUNCTIONS[name](a[[0, 1, 3]])
    for x, y in zip(result, good, strict=True):
        assert np.isnan(x[2]).all() if x.dtype.kind in "fc" else (x[2] == -1).all()
        close(x[[0, 1, 3]], y, "float64", 10)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_layouts_and_kinds(name: str) -> None:
    a = random((5, 6, 7), "float64")[:, ::2, :3]
    kept = a.copy()
    strided, packed = FUNCTIONS[name](a.swapaxes(1, 2)), FUNCTIONS[name](a.swapaxes(1, 2).copy())
    for x, y in zip(strided, packed, strict=True):
        close(x, y, "float64", 10)
    assert (a == kept).all()
    assert FUNCTIONS[name]([[1, 2], [3, 4]])[0].dtype.char in "dD"
    with pytest.raises(einloom.DTypeError, match=r"longdouble|float128"):
        FUNCTIONS[name](np.ones((2, 2), "longdouble"))

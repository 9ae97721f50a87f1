"""Nx's transforms and factorisations: known answers, dtypes, laws, and how they fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cases import lay_out

from einloom.backend import nx
from einloom.backend.cpu import cpu

NAN = float("nan")
Array = np.ndarray[Any, Any]


def empty(shape: Any, dtype: Any = np.float64) -> Array:
    return nx.buffer(cpu(), dtype, shape)


# ---- transforms -----------------------------------------------------------------------------------

R2 = 2.0**0.5


def test_known_transforms() -> None:
    got = nx.irfft(np.ones(9, complex), dtype="float64", axes=(0,), s=(8,))
    np.testing.assert_allclose(got, [8, 0, 0, 0, 0, 0, 0, 0], atol=1e-15)
    got = nx.irfft(np.ones(3, complex), dtype="float64", axes=(0,), s=(8,))
    want = [5, 1 + R2, -1, 1 - R2, 1, 1 - R2, -1, 1 + R2]
    np.testing.assert_allclose(got, want, rtol=1e-14)
    assert nx.fft(np.ones(4, complex), axes=(0,)).tolist() == [4, 0, 0, 0]


@pytest.mark.parametrize("axes", [(0,), (1,), (1, 0), (2, 0, 1)])
def test_transforms_are_not_divided(axes: tuple[int, ...], rng: np.random.Generator) -> None:
    x = rng.random((4, 7, 3)) + 1j * rng.random((4, 7, 3))
    count = np.prod([x.shape[axis] for axis in axes])
    there = nx.fft(x, axes=axes, out=empty(x.shape, x.dtype))
    np.testing.assert_allclose(there, np.fft.fftn(x, axes=axes), rtol=1e-12)
    np.testing.assert_allclose(nx.ifft(there, axes=axes), count * x, rtol=1e-12)
    real = x.real
    half = nx.rfft(real, dtype="complex128", axes=axes)
    np.testing.assert_allclose(half, np.fft.rfftn(real, axes=axes), rtol=1e-12, atol=1e-13)
    sizes = [x.shape[axis] for axis in axes]
    back = nx.irfft(half, dtype="float64", axes=axes, s=sizes, out=empty(x.shape))
    np.testing.assert_allclose(back, count * real, rtol=1e-12)


def test_sizes_cut_and_continue(rng: np.random.Generator) -> None:
    x = rng.random((4, 5)) + 1j * rng.random((4, 5))
    for s in ((4, 8), (6, 8), (3, 5), (2, 20), (4, 1)):
        want = np.fft.irfftn(x, s=s, axes=(0, 1), norm="forward")
        np.testing.assert_allclose(
            nx.irfft(x, dtype="float64", axes=(0, 1), s=s), want, rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("target", ["complex64", "complex128"])
def test_spectra_have_the_dtype_asked_for(
    source: str, target: str, rng: np.random.Generator
) -> None:
    x = rng.random(12).astype(source)
    got = nx.rfft(x, dtype=target, axes=(0,))
    assert got.dtype == target
    bound = 1e-6 if target == "complex64" else 1e-14  # in the wider precision of both
    np.testing.assert_allclose(got, np.fft.rfft(x.astype(float)), rtol=bound, atol=bound)
    real = "float32" if target == "complex64" else "float64"
    back = nx.irfft(got, dtype=real, axes=(0,), out=empty((12,), real))
    np.testing.assert_allclose(back, 12 * x.astype(float), rtol=5 * bound)


# ---- matrices -------------------------------------------------------------------------------------

MATRICES = ["float16", "float32", "float64", "complex64", "complex128"]
WIDE = {"float16": "float32"}


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    x = rng.random(shape) - 0.5
    return (x + 1j * rng.random(shape) if "complex" in dtype else x).astype(dtype)


def close(dtype: str, got: Array, want: Array) -> None:
    bound = {"float16": 2e-2, "float32": 1e-5, "complex64": 1e-5}.get(dtype, 1e-11)
    wide = np.complex128 if "complex" in dtype else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=bound, atol=bound)


def adjoint(x: Array) -> Array:
    return x.swapaxes(-1, -2).conj()


def wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


@pytest.mark.parametrize("dtype", MATRICES)
@pytest.mark.parametrize("layout", ["transposed", "reversed", "unaligned", "readonly"])
@pytest.mark.parametrize("batch", [(), (3,), (2, 0), (2, 2)])
def test_factors(dtype: str, layout: str, batch: tuple[int, ...], rng: np.random.Generator) -> None:
    """Products of the factors are the matrix; dtypes are Nx's."""
    a = lay_out(drawn(rng, (*batch, 5, 3), dtype), layout, rng)
    before = a.copy()
    for reduced, k in ((True, 3), (False, 5)):
        q, r = nx.qr(a, reduced=reduced)
        assert (q.shape, r.shape, q.dtype, r.dtype) == (
            (*batch, 5, k),
            (*batch, k, 3),
            a.dtype,
            a.dtype,
        )
        close(dtype, wide(q) @ wide(r), a)
        assert not np.tril(r, -1).any()
    for full, k in ((False, 3), (True, 5)):
        u, s, vh = nx.svd(a, full_matrices=full)
        assert (s.dtype, u.dtype, vh.dtype) == (np.float64, a.dtype, a.dtype)
        assert (u.shape, s.shape, vh.shape) == ((*batch, 5, k), (*batch, 3), (*batch, 3, 3))
        close(dtype, wide(u)[..., :3] * s[..., None, :] @ wide(vh), a)
        assert (np.diff(s) <= 0).all()
        assert not np.signbit(s).any()
    gram = (wide(adjoint(a)) @ wide(a) + np.eye(3)).astype(dtype)
    for upper in (False, True):
        c = nx.cholesky(gram, upper=upper)
        assert c.dtype == a.dtype
        assert not (np.tril(c, -1) if upper else np.triu(c, 1)).any()
        close(dtype, wide(adjoint(c)) @ wide(c) if upper else wide(c) @ wide(adjoint(c)), gram)
    w, v = nx.eigh(gram, vectors=True)
    assert v is not None
    assert (w.dtype, v.dtype) == (np.float64, a.dtype)
    close(dtype, wide(gram) @ wide(v), wide(v) * w[..., None, :])
    assert nx.eigh(gram, vectors=False)[1] is None
    close(dtype, nx.eigh(gram, vectors=False)[0], w)
    square = a[..., :3, :]
    w, v = nx.eig(square, vectors=True)
    assert v is not None
    assert w.dtype == v.dtype == np.complex128
    close(
        "complex128" if dtype in ("float64", "complex128") else "complex64",
        wide(square) @ v,
        v * w[..., None, :],
    )
    assert nx.eig(square, vectors=False)[1] is None
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("dtype", MATRICES)
def test_triangular_solve(dtype: str, rng: np.random.Generator) -> None:
    a = lay_out(drawn(rng, (2, 4, 4), dtype) + 2 * np.eye(4, dtype=dtype), "transposed", rng)
    for right in (drawn(rng, (2, 4), dtype), lay_out(drawn(rng, (2, 4, 3), dtype), "F", rng)):
        for upper in (False, True):
            for unit in (False, True):
                t = np.triu(wide(a)) if upper else np.tril(wide(a))
                if unit:
                    t[..., range(4), range(4)] = 1
                for transpose in (False, True):
                    x = nx.triangular_solve(
                        a, right, upper=upper, transpose=transpose, unit_diag=unit
                    )
                    assert (x.shape, x.dtype) == (right.shape, right.dtype)
                    op = t.swapaxes(-1, -2) if transpose else t
                    x = wide(x)
                    close(
                        dtype,
                        (op @ (x[..., None] if right.ndim == 2 else x)).reshape(x.shape),
                        right,
                    )


def test_known_triangles() -> None:
    """The transpose is not conjugated; conjugates of a or of b and x give the adjoint."""
    a, b = np.array([[1 + 1j, 0], [2 - 1j, 1 + 2j]]), np.array([1 + 0j, 4])
    how = {"upper": False, "transpose": True, "unit_diag": False}
    x = nx.triangular_solve(a.conj(), b, **how)  # type: ignore[arg-type]
    np.testing.assert_allclose(x, [2.5 - 1.5j, 0.8 + 1.6j], rtol=1e-14)
    plain = nx.triangular_solve(a, b, **how)  # type: ignore[arg-type]
    np.testing.assert_allclose(a.T @ plain, b, rtol=1e-14)


@pytest.mark.parametrize(
    ("a", "spectrum"),
    [
        ([[0, -1], [1, 0]], [-1j, 1j]),
        ([[2, 1], [0, 2]], [2, 2]),
        ([[2, -1, 0], [1, 3, -1], [0, 1, 2]], [2, 2.5 - 1j * 7**0.5 / 2, 2.5 + 1j * 7**0.5 / 2]),
        ([[0, 1, 1], [1j, 0, 1], [1, 1, 0]], None),
    ],
    ids=str,
)
def test_known_spectra(a: Any, spectrum: Any) -> None:
    if spectrum is None:
        root = np.sqrt(5 + 4j)
        spectrum = [-1, (1 + root) / 2, (1 - root) / 2]
    a = np.array(a, complex if np.iscomplexobj(a) else float)
    w, _ = nx.eig(a, vectors=False)
    order = np.lexsort((w.imag.round(6), w.real.round(6)))
    want = np.array(spectrum, complex)
    want = want[np.lexsort((want.imag.round(6), want.real.round(6)))]
    np.testing.assert_allclose(w[order], want, atol=1e-7)


def test_failures_name_the_matrix() -> None:
    good = np.eye(2)
    bad = np.stack([good, -good, good])
    with pytest.raises(
        np.linalg.LinAlgError, match=r"nx.cholesky: .*not positive definite at \(1,\)"
    ):
        nx.cholesky(bad, upper=False)
    singular = np.array([[1.0, 0.0], [1.0, 0.0]])
    how: dict[str, Any] = {"upper": False, "transpose": False}
    with pytest.raises(np.linalg.LinAlgError, match=r"nx.triangular_solve: Matrix is singular"):
        nx.triangular_solve(singular, np.ones(2), **how, unit_diag=False)
    assert nx.triangular_solve(singular, np.ones(2), **how, unit_diag=True).tolist() == [1, 0]
    for call in (
        lambda: nx.svd(np.full((2, 2), NAN), full_matrices=False),
        lambda: nx.eig(np.full((2, 2), NAN), vectors=True),
    ):
        with pytest.raises(np.linalg.LinAlgError, match=r"nx\.\w+: .*converge"):
            call()

"""Spectra and solutions that were worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import einloom
from einloom import linalg

ROOT7 = 7**0.5 / 2
ROOT = (5 + 4j) ** 0.5

SPECTRA: dict[str, tuple[list[list[complex]], list[complex], float]] = {
    "rotation": ([[0, -1], [1, 0]], [1j, -1j], 1e-14),
    "Jordan block": ([[2, 1], [0, 2]], [2, 2], 1e-7),
    "graded, badly scaled": ([[0, 1e8, 0], [0, 0, 1e8], [6e-16, -1.1e-7, 6]], [1, 2, 3], 1e-5),
    "clustered companion": (
        [[0, 1, 0], [0, 0, 1], [0.999 * 1.001, -(0.999 + 1.001 + 0.999 * 1.001), 3]],
        [0.999, 1, 1.001],
        1e-6,
    ),
    "companion of (x - 2)(x² + 1)": ([[0, 0, 2], [1, 0, -1], [0, 1, 2]], [2, 1j, -1j], 1e-13),
    "nearly symmetric": (
        [[2, -1, 0], [1, 3, -1], [0, 1, 2]],
        [2, 2.5 + 1j * ROOT7, 2.5 - 1j * ROOT7],
        1e-13,
    ),
    "complex": ([[0, 1, 1], [1j, 0, 1], [1, 1, 0]], [-1, (1 + ROOT) / 2, (1 - ROOT) / 2], 1e-13),
    "one by one": ([[3 - 2j]], [3 - 2j], 0),
}


def by_value(w: np.ndarray) -> np.ndarray:
    return np.asarray(sorted(w, key=lambda z: (round(z.real, 4), round(z.imag, 4))))


@pytest.mark.parametrize("name", SPECTRA)
def test_spectra(name: str) -> None:
    rows, want, tolerance = SPECTRA[name]
    a = np.asarray(rows)
    for dtype in (a.dtype, np.complex128):
        for w in (linalg.eigvals(a.astype(dtype)), linalg.eig(a.astype(dtype)).eigenvalues):
            assert w.dtype == np.complex128
            np.testing.assert_allclose(
                by_value(w), by_value(np.asarray(want, complex)), atol=tolerance
            )
    batch = linalg.eigvals(np.stack([a, a + np.eye(len(a)), 2 * a]))
    for w, shift, factor in zip(batch, (0, 1, 0), (1, 1, 2), strict=True):
        np.testing.assert_allclose(
            by_value((w - shift) / factor),
            by_value(np.asarray(want, complex)),
            atol=2 * tolerance + 1e-13,
        )


def test_wilkinson_pair() -> None:
    """The two largest eigenvalues of W21+ agree to 1e-13; the largest is 10.746194182903393."""
    n = 21
    w = np.diag(abs(np.arange(n) - 10.0)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    values = linalg.eigvalsh(w)
    np.testing.assert_allclose(values[-1], 10.746194182903393, atol=1e-13)
    np.testing.assert_allclose(values[-2], 10.746194182903322, atol=1e-13)
    np.testing.assert_allclose(np.sort(linalg.eigvals(w).real), values, atol=1e-12)


def test_second_differences() -> None:
    """Eigenvalues of the matrix (-1, 2, -1) are 2 - 2 cos(kπ / (n + 1))."""
    for n in (1, 2, 5, 31, 32, 33, 70):
        a = 2 * np.eye(n) - np.diag(np.ones(n - 1), 1) - np.diag(np.ones(n - 1), -1)
        want = 2 - 2 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1))
        np.testing.assert_allclose(linalg.eigvalsh(a), want, atol=1e-14 * n)
        np.testing.assert_allclose(linalg.svdvals(a), want[::-1], atol=1e-14 * n)
        np.testing.assert_allclose(linalg.det(a), n + 1, rtol=1e-13)


def test_hilbert() -> None:
    """det of the Hilbert matrix of order 4 is 1 / 6048000; its inverse is of integers."""
    h = 1.0 / (np.arange(4)[:, None] + np.arange(4) + 1)
    np.testing.assert_allclose(linalg.det(h), 1 / 6048000, rtol=1e-10)
    want = [[16, -120, 240, -140], [-120, 1200, -2700, 1680], [240, -2700, 6480, -4200],
            [-140, 1680, -4200, 2800]]  # fmt: skip
    np.testing.assert_allclose(linalg.inv(h), want, rtol=1e-10)


def test_adjoint_of_a_triangle() -> None:
    a = [[1 + 1j, 0], [2 - 1j, 1 + 2j]]
    x = linalg.solve_triangular(a, [1, 4], lower=True, trans="C")
    np.testing.assert_allclose(x, [2.5 - 1.5j, 0.8 + 1.6j], atol=1e-14)


def test_small_answers() -> None:
    assert linalg.slogdet([[2.0, 1], [1, 7.5]])[1] == pytest.approx(np.log(14))
    assert linalg.matrix_rank([[1.0, 2], [2, 4]]) == 1
    assert linalg.cond([[1.0, 0], [0, 0]]) == np.inf
    np.testing.assert_allclose(linalg.svdvals([[3.0, 0], [4, 5]]), [45**0.5, 5**0.5])
    x, residuals, rank, s = linalg.lstsq([[1.0, 1], [1, 2], [1, 3]], [1, 2, 2])
    np.testing.assert_allclose(x, [2 / 3, 1 / 2])
    np.testing.assert_allclose(residuals, [1 / 6])
    assert rank == 2
    assert len(s) == 2


@pytest.mark.parametrize("small", [np.inf, pytest.param(0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_eigenvalues_scale_with_the_matrix(
    rng: np.random.Generator, dtype: str, small: float
) -> None:
    """Previously failed: of huge and tiny matrices, LAPACK gave eigenvalues of scaled ones."""
    a = rng.standard_normal((3, 5, 5)).astype(dtype)
    powers = [2.0**60, 2.0**-60] if dtype in ("float32", "complex64") else [2.0**600, 2.0**-600]
    for power in powers:
        scaled = a.copy()
        scaled[1] *= scaled.real.dtype.type(power)
        with einloom.options(small=small):
            w, v = linalg.eig(scaled)
            w2, _, v2 = linalg.eig_two_sided(scaled)
        for values, vectors in ((w, v), (w2, v2)):
            values[1] /= values.real.dtype.type(power)
            error = abs(a @ vectors - vectors * values[:, None, :]).max()
            assert error < 1e-4 if a.real.dtype == np.float32 else error < 1e-12

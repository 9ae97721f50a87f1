"""LU of larger matrices by rows: backward errors beside LAPACK's, its failures, any shape and strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from tests.each import each
from tests.tolerance import eps

from einloom._base.options import options
from einloom.backend.cpu.linalg import batched, by_rows

Array = np.ndarray[Any, Any]
DTYPES = [
    "float64",
    *(pytest.param(x, marks=pytest.mark.slow) for x in ("float32", "complex64", "complex128")),
]
SHAPES = [(33, 33), (64, 64), (65, 65), (100, 40), (40, 100), (129, 97), (70, 71), (256, 256)]


def random(shape: tuple[int, ...], dtype: str, seed: int = 3) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def parts(packed: Array) -> tuple[Array, Array]:
    k = min(packed.shape)
    lower = np.tril(packed[:, :k], -1) + np.eye(len(packed), k, dtype=packed.dtype)
    return lower, np.triu(packed[:k])


def permuted(a: Array, pivots: Array) -> Array:
    a = a.copy()
    for k, p in enumerate(pivots):
        a[[k, p]] = a[[p, k]]
    return a


def error(a: Array, packed: Array, pivots: Array) -> float:
    lower, upper = (x.astype(np.result_type(x.dtype, "D")) for x in parts(packed))
    off = np.linalg.norm(lower @ upper - permuted(a, pivots))
    return float(off / (np.linalg.norm(a) or 1) / eps(a.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@each("shape", SHAPES)
def test_factors(dtype: str, shape: tuple[int, int]) -> None:
    """At most twice LAPACK's backward error on the same matrix, or ten units of rounding."""
    a = random((3, *shape), dtype)
    packed, pivots, info = batched.lu(a)
    assert by_rows.suits(a)
    assert not info.any()
    for x, lu, p in zip(a, packed, pivots, strict=True):
        theirs = error(x, *scipy.linalg.lu_factor(x, check_finite=False))
        assert error(x, lu, p) <= max(2 * theirs, 10)
        assert (abs(parts(lu)[0]) <= np.sqrt(2) + 1e-5).all()


def hard(n: int) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    random = rng.standard_normal((n, n))
    return {
        "graded": random * 10.0 ** -np.linspace(0, 30, n)[:, None],
        "graded by columns": random * 10.0 ** -np.linspace(0, 30, n),
        "hilbert": scipy.linalg.hilbert(n),
        "wilkinson": np.tril(-np.ones((n, n)), -1) + np.eye(n) + np.eye(n, k=n - 1),
        "huge": random * 1e300,
        "tiny": random * 1e-300,
        "subnormal": random * 1e-310,
        "subnormal pivots": np.diag(np.r_[1.0, np.full(n - 1, 1e-310)])
        + np.tril(random, -1) * 1e-310,
        "permutation": np.eye(n)[rng.permutation(n)],
        "ones": np.ones((n, n)),
        "rank one less": random - random.mean(axis=0),
    }


@each(("name", "a"), hard(70).items())
def test_hard_matrices(name: str, a: Array) -> None:
    """No more than ten times LAPACK's backward error."""
    with np.errstate(all="raise"):
        packed, pivots, _ = batched.lu(np.stack([a, a]))
    lift = -int(np.frexp(abs(a).max())[1])
    lower, upper = parts(np.asarray(packed[1], np.longdouble))
    want, p, _ = scipy.linalg.lapack.dgetrf(np.ldexp(a, lift))
    left, right = parts(np.asarray(want, np.longdouble))
    exact = np.asarray(a, np.longdouble)
    ours = np.ldexp(abs(lower @ upper - permuted(exact, pivots[1])).max(), lift)
    theirs = abs(left @ right - permuted(np.ldexp(exact, lift), p)).max()
    rounded = np.ldexp(np.longdouble(len(a)) * 5e-324, lift)  # of what is subnormal
    assert ours <= 10 * theirs + 10 * eps("float64") + rounded


def test_failures() -> None:
    """Each member's first pivot that is zero; NaN and infinity stay in their matrix."""
    a = random((5, 70, 70), "float64")
    a[1] = 0
    a[2, :, 40] = a[2, :, 39]
    a[2] = np.triu(a[2])
    a[2, 50, 50] = 0
    a[3, 5, 5] = np.nan
    a[4, 60, 2] = np.inf
    packed, pivots, info = batched.lu(a)
    assert info.tolist()[:3] == [0, 1, 51]
    assert (packed[1] == 0).all()
    assert (pivots[1] == np.arange(70)).all()
    alone = batched.lu(a[:1])
    assert np.array_equal(packed[0], alone[0][0])
    assert np.isfinite(packed[:3]).all()
    assert ((pivots >= 0) & (pivots < 70)).all()
    sign = batched.slogdet(a[:3])[0]
    assert sign.tolist()[1:] == [0, 0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_and_threads(dtype: str) -> None:
    """The same bits for any strides, any number of threads and any batch."""
    a = random((6, 50, 45), dtype)
    want = batched.lu(a)
    wide = np.zeros((12, 3, 2, 45, 50), dtype)
    given = wide[::-2, 1, 1].swapaxes(1, 2)
    given[...] = a
    for x in (given, np.asfortranarray(a)):
        for threads in (1, 2):
            with options(threads=threads):
                assert all(map(np.array_equal, batched.lu(x), want))
    several = batched.lu(a.reshape(2, 3, 50, 45))
    assert all(np.array_equal(x.reshape(y.shape), y) for x, y in zip(several, want, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants(dtype: str) -> None:
    a = random((4, 40, 40), dtype) / 6
    np.testing.assert_allclose(batched.det(a), np.linalg.det(a), rtol=1e4 * eps(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@each("columns", [1, 3, 70])
def test_solve(dtype: str, columns: int) -> None:
    """Backward errors of a few units of rounding; what fails is left as it was given."""
    a, b = random((4, 70, 70), dtype), random((4, 70, columns), dtype, 4)
    a[2, 3] = 0
    x, info = batched.solve(a, b)
    assert info.tolist() == [0, 0, 70, 0]
    assert np.array_equal(x[2], b[2])
    for k in (0, 1, 3):
        off = np.linalg.norm(a[k] @ x[k] - b[k])
        assert off <= 100 * eps(dtype) * np.linalg.norm(a[k]) * np.linalg.norm(x[k])


def test_inverses() -> None:
    a = random((2, 3, 40, 40), "float64")
    x, info = batched.inv(a)
    assert not info.any()
    np.testing.assert_allclose(a @ x, np.broadcast_to(np.eye(40), a.shape), atol=1e-9)

"""expm and sqrtm against long doubles, SciPy and their definitions, compiled and not."""

from __future__ import annotations

from fractions import Fraction
from math import factorial
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.linalg.hard import MATRICES
from tests.tolerance import eps

import einloom
from einloom import ShapeError, options
from einloom.backend.cpu.linalg import expm as by_steps
from einloom.linalg import expm, sqrtm

# kernels of double precision are compiled by default, the others only in the slow tests
DTYPES = (
    "float64",
    "complex128",
    pytest.param("float32", marks=pytest.mark.slow),
    pytest.param("complex64", marks=pytest.mark.slow),
)
SMALL = {"compiled": 0, "plain": float("inf")}
dtypes = pytest.mark.parametrize("dtype", DTYPES)
ways = pytest.mark.parametrize("small", SMALL.values(), ids=SMALL.keys())


def random(seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def long_expm(a: Any) -> Any:
    """Taylor's series of a / 2^s in long double, squared s times."""
    a = a.astype(np.clongdouble)
    s = max(0, int(np.ceil(np.log2(max(float(abs(a).sum(0).max()), 1e-30)))) + 3)
    x = term = np.eye(len(a), dtype=a.dtype)
    for k in range(1, 40):
        term = term @ (a / 2**s) / k
        x = x + term
    for _ in range(s):
        x = x @ x
    return x


def distance(x: Any, exact: Any) -> float:
    """In spacings of the dtype of x at the largest element."""
    return float(abs(x - exact).max() / abs(exact).max() / eps(x.dtype))


# ---- expm -----------------------------------------------------------------------------------------

EXPONENTS = [name for name in MATRICES if name not in ("huge",)]


@ways
@pytest.mark.parametrize("name", EXPONENTS)
def test_expm_is_as_accurate_as_scipys(name: str, small: float) -> None:
    a = MATRICES[name]
    exact = long_expm(a)
    with options(small=small):
        error = distance(expm(a), exact)
    assert error <= 10 * distance(scipy.linalg.expm(a), exact) + 20


@ways
@dtypes
@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 17])
def test_expm_of_batches_of_all_norms(n: int, dtype: str, small: float) -> None:
    count = 70
    a = random(n, (count, n, n), dtype)
    norms = 10.0 ** np.random.default_rng(n).uniform(-6, 1, count)
    a = (a * (norms / abs(a).sum(1).max(1))[:, None, None]).astype(dtype)
    with options(small=small):
        x = expm(a)
        alone = expm(a[3])
    assert x.dtype == dtype
    assert x.flags.c_contiguous
    exact = scipy.linalg.expm(a.astype("D"))
    for got, wanted in zip(x, exact, strict=True):
        assert distance(got, wanted) < 300
    assert distance(alone, x[3]) < 300  # a few small ones are done by SciPy


@ways
def test_expm_of_a_member_does_not_depend_on_the_others(small: float) -> None:
    a = random(5, (40, 4, 4), "float64") * np.geomspace(1e-3, 30, 40)[:, None, None]
    spoiled = a.copy()
    spoiled[7, 1, 2] = np.nan
    spoiled[8, 0, 0] = np.inf
    spoiled[9] *= 1e200
    others = [k for k in range(40) if k not in (7, 8, 9)]
    with options(small=small):
        x, y = expm(a), expm(spoiled)
    assert np.allclose(x[others], y[others], rtol=1e-14, atol=0)
    if not small:
        assert (x[others] == y[others]).all()
    assert np.isnan(y[7]).any()
    assert not np.isfinite(y[8]).all()


@ways
@dtypes
@pytest.mark.parametrize("n", [2, 3, 8, 20, 40])
def test_expm_of_triangles_with_a_large_corner(n: int, dtype: str, small: float) -> None:
    """Previously failed: they were scaled until nothing was left of the diagonal."""
    a = np.triu(random(n, (9, n, n), dtype) * 0.1)
    a[::2] = a[::2].swapaxes(-1, -2)
    far = np.where(np.arange(9) % 2 == 0, n - 1, 0), np.where(np.arange(9) % 2 == 0, 0, n - 1)
    a[np.arange(9), *far] = np.array([1e3, 1e6, 1e12, 1e20, 1e30, 1, 0, 1e8, 1e4])
    with options(small=small):
        x = expm(a)
    eps = np.finfo(dtype).eps
    diagonal = np.diagonal(a, axis1=-2, axis2=-1)
    np.testing.assert_allclose(np.diagonal(x, axis1=-2, axis2=-1), np.exp(diagonal), rtol=4e4 * eps)
    for got, one in zip(x, a, strict=True):
        want = scipy.linalg.expm(one.astype("D"))
        assert abs(got - want).max() <= 4e4 * eps * abs(want).max()


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 3, 3), (2, 0, 4, 4)])
def test_expm_of_nothing(shape: tuple[int, ...]) -> None:
    assert expm(np.ones(shape)).shape == shape


@ways
def test_expm_reads_any_strides(small: float) -> None:
    a = random(6, (5, 6, 7), "float64")
    with options(small=small):
        for view in (a[:, :5, ::-1][:, :, :5], a.transpose(2, 1, 0)[:, :5], a[:, ::2, ::3]):
            assert np.allclose(expm(view), scipy.linalg.expm(view))
        same = np.broadcast_to(a[0, :4, :4], (3, 4, 4))
        assert np.allclose(expm(same), scipy.linalg.expm(a[0, :4, :4]))


def test_expm_of_integers_lists_and_known_answers() -> None:
    assert np.allclose(expm([[0, -1], [1, 0]]), [[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])
    assert np.allclose(expm(np.diag([1, 2])), np.diag(np.exp([1, 2])))
    powers = [np.eye(4, k=k) / factorial(k) for k in range(4)]
    assert np.allclose(expm(np.eye(4, k=1)), sum(powers), rtol=1e-15, atol=0)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 6), st.floats(0.01, 5), st.integers(0, 1000))
def test_expm_laws(n: int, size: float, seed: int) -> None:
    """exp(-a) exp(a) = 1, exp(aᵀ) = exp(a)ᵀ, det exp(a) = exp(tr a)."""
    a = random(seed, (n, n), "float64") * (size / n)
    x = expm(a)
    scale = abs(x).max() * abs(expm(-a)).max()
    assert abs(expm(-a) @ x - np.eye(n)).max() < 1e-13 * scale * n
    assert np.allclose(expm(a.T), x.T, rtol=1e-12, atol=1e-12 * abs(x).max())
    assert np.isclose(np.linalg.slogdet(x)[1], np.trace(a), atol=1e-13 * scale * n)


def polynomial(steps: Any) -> list[Fraction]:
    """What a list of steps makes of A, as exact coefficients of its powers."""
    slots: dict[int, list[Fraction]] = {0: [Fraction(0), Fraction(1)]}
    for kind, (to, *read), factors in steps:
        total = [Fraction(0)] * 40
        if kind == by_steps.PRODUCT:
            for i, x in enumerate(slots[read[0]]):
                for j, y in enumerate(slots[read[1]]):
                    if x and y:
                        total[i + j] += x * y
        elif kind == by_steps.SUM:
            total[0] += Fraction(factors[4])
            for slot, factor in zip(read, factors, strict=False):
                for i, x in enumerate(slots[slot] if factor else ()):
                    total[i] += Fraction(factor) * x
        else:
            continue
        slots[to] = total
    return slots[0]


@pytest.mark.parametrize(
    ("degree", "steps"), list(zip((4, 8, 12, 18), by_steps.LISTS, strict=True))
)
def test_steps_are_taylors_polynomials(degree: int, steps: Any) -> None:
    found = polynomial(steps)
    for k in range(degree + 1):
        assert abs(found[k] * factorial(k) - 1) < 50 * 2.0**-52
    theta = Fraction(by_steps.THETA["d"][by_steps.LISTS.index(steps)])
    rest = sum(abs(x) * theta**k for k, x in enumerate(found) if k > degree)
    assert rest < 2.0**-52 * 4


@ways
def test_expm_gives_the_same_bits_on_any_number_of_threads(small: float) -> None:
    a = random(8, (300, 5, 5), "complex128")
    with options(small=small, threads=1):
        one = expm(a)
    with options(small=small, threads=3):
        assert (expm(a) == one).all()


# ---- sqrtm ----------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (0,)])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
def test_sqrtm(dtype: str, batch: tuple[int, ...], n: int) -> None:
    a = random(n, (*batch, n, n), dtype)
    a = a @ a  # a root exists
    x = sqrtm(a)
    assert x.shape == a.shape
    assert x.real.dtype == a.real.dtype
    if a.size:
        size = abs(x).max((-1, -2)) ** 2 * n
        assert (abs(x @ x - a).max((-1, -2)) < 50 * eps(dtype) * size).all()
        w = np.linalg.eigvals(x.astype("D"))
        assert (w.real > -200 * eps(dtype) * abs(w).max()).all()


def test_sqrtm_is_real_where_it_can_be() -> None:
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])  # complex eigenvalues, a real root
    assert sqrtm(turn).dtype == np.float64
    assert np.allclose(sqrtm(turn), np.array([[1, -1], [1, 1]]) / np.sqrt(2))
    assert sqrtm(np.stack([turn, np.diag([2.0, 3.0])])).dtype == np.float64
    mixed = sqrtm(np.stack([turn, np.diag([-4.0, 9.0])]))
    assert mixed.dtype == np.complex128
    assert np.allclose(mixed[1], np.diag([2j, 3]))


@pytest.mark.parametrize("name", ["random", "repeated", "jordan", "hilbert", "companion", "skew"])
def test_sqrtm_is_as_accurate_as_scipys(name: str) -> None:
    a = MATRICES[name].astype("D") + 0j
    x, y = sqrtm(a), scipy.linalg.sqrtm(a)
    error, other = (abs(r @ r - a).max() / abs(r).max() ** 2 for r in (x, y))
    assert error <= 10 * other + 10 * eps("d")


def test_sqrtm_of_singular_matrices() -> None:
    assert (sqrtm(np.zeros((3, 3))) == 0).all()
    assert np.allclose(sqrtm(np.diag([0.0, 4.0])), np.diag([0, 2]))
    a = np.stack([np.eye(2), np.eye(2, k=1), 4 * np.eye(2)])
    with pytest.raises(einloom.LinAlgError, match="No square root") as caught:
        sqrtm(a)
    assert caught.value.failed == ((1,),)
    x, info = sqrtm(a, on_error="info")
    assert info.tolist() == [0, 2, 0]
    assert np.allclose(x[2], 2 * np.eye(2))
    x = sqrtm(a, on_error="nan")
    assert np.isnan(x[1]).all()
    assert np.allclose(x[0], np.eye(2))


@dtypes
def test_sqrtm_of_semidefinite_matrices(dtype: str) -> None:
    b = random(3, (4, 6, 3), dtype)
    a = b @ b.conj().swapaxes(-1, -2)  # of rank 3
    x = sqrtm(a, hermitian=True)
    assert x.dtype == dtype
    assert abs(x @ x - a).max() < 100 * eps(dtype) * abs(a).max()
    bad = np.stack([np.eye(2), -np.eye(2)])
    with pytest.raises(einloom.LinAlgError, match="not positive semidefinite"):
        sqrtm(bad, hermitian=True)
    assert np.isnan(sqrtm(bad, hermitian=True, on_error="nan")[1]).all()


@pytest.mark.parametrize("function", [expm, sqrtm])
def test_refused(function: Any) -> None:
    with pytest.raises(ShapeError, match="square"):
        function(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="give a matrix"):
        function(np.ones(3))
    with pytest.raises(einloom.DTypeError, match="float16"):
        function(np.ones((2, 2), np.float16))
    with pytest.raises(einloom.LinAlgError, match="infs or NaNs"):
        function(np.full((2, 2), np.nan), check_finite=True)

"""General eigenvalues of many matrices of order 2: residuals, exact pairs, hard inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from einloom import linalg
from einloom.backend.cpu.linalg.ways import way

Array = np.ndarray[Any, Any]
COUNT = 4000


def random(rng: np.random.Generator, dtype: str, *shape: int) -> Array:
    x = rng.standard_normal((COUNT, *shape))
    if dtype in "FD":
        x = x + 1j * rng.standard_normal(x.shape)
    return x.astype(dtype)


def near_multiple(rng: np.random.Generator, dtype: str) -> Array:
    off = 10.0 ** rng.uniform(-18, 0, (COUNT, 1, 1))
    return (np.eye(2) + random(rng, dtype, 2, 2) * off).astype(dtype)


def graded(rng: np.random.Generator, dtype: str) -> Array:
    return (random(rng, dtype, 2, 2) * 10.0 ** rng.uniform(-12, 12, (COUNT, 2, 2))).astype(dtype)


def with_zeros(rng: np.random.Generator, dtype: str) -> Array:
    return random(rng, dtype, 2, 2) * (rng.random((COUNT, 2, 2)) < 0.5)


def integers(rng: np.random.Generator, dtype: str) -> Array:
    return rng.integers(-2, 3, (COUNT, 2, 2)).astype(dtype)


def nearly_defective(rng: np.random.Generator, dtype: str) -> Array:
    q = np.linalg.qr(random(rng, dtype, 2, 2))[0]
    t = np.zeros((COUNT, 2, 2), dtype)
    t[:, 0, 0] = t[:, 0, 1] = 1
    t[:, 1, 1] = 1 + 10.0 ** rng.uniform(-18, 0, COUNT)
    return (q @ t @ q.conj().swapaxes(-1, -2)).astype(dtype)


def huge_and_tiny(rng: np.random.Generator, dtype: str) -> Array:
    most = np.finfo(dtype).maxexp - 4
    powers = rng.integers(-most, most, (COUNT, 1, 1))
    return (random(rng, dtype, 2, 2) * 2.0**powers).astype(dtype)


FAMILIES: dict[str, Callable[[np.random.Generator, str], Array]] = {
    "random": lambda rng, dtype: random(rng, dtype, 2, 2),
    "near a multiple of 1": near_multiple,
    "graded": graded,
    "with zeros": with_zeros,
    "integers": integers,
    "nearly defective": nearly_defective,
    "huge and tiny": huge_and_tiny,
}


def scaled(a: Array, *others: Array) -> tuple[Array, ...]:
    """In extended precision, divided by the largest element of each matrix."""
    size = abs(a).max(axis=(-2, -1), keepdims=True).astype(np.longdouble)
    size[size == 0] = 1
    wide = np.clongdouble
    return a.astype(wide) / size, *(
        x.astype(wide) / size.reshape(-1, *[1] * (x.ndim - 1)) for x in others
    )


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("family", FAMILIES)
def test_residuals(family: str, dtype: str) -> None:
    """a v = v w to 8 roundings of the largest element, columns of norm 1, and conjugates exactly."""
    a = FAMILIES[family](np.random.default_rng(7), dtype)
    assert way("eig", a) == "interleaved"
    w, v = linalg.eig(a)
    eps = np.finfo(dtype).eps
    b, values = scaled(a, w)
    vectors = v.astype(np.clongdouble)
    left = abs(b @ vectors - vectors * values[:, None, :]).max(axis=(-2, -1))
    assert left.max() <= 8 * eps
    assert abs((abs(vectors) ** 2).sum(axis=-2) - 1).max() <= 8 * eps
    assert abs(values.sum(axis=-1) - np.trace(b, axis1=-2, axis2=-1)).max() <= 8 * eps
    assert np.array_equal(linalg.eigvals(a), w)
    if dtype in "fd":
        pair = w[:, 0].imag != 0
        assert np.array_equal(w[pair, 0], w[pair, 1].conj())
        assert (w[pair, 0].imag > 0).all()
        assert np.array_equal(v[pair, :, 0], v[pair, :, 1].conj())
        assert not w[~pair].imag.any()
        assert not v[~pair].imag.any()


@pytest.mark.parametrize("dtype", "fdFD")
def test_known_ones(dtype: str) -> None:
    """Diagonal, triangular and defective matrices, turns, and zero, exactly."""
    known = [
        ([[2, 0], [0, 3]], (2, 3)),
        ([[2, 5], [0, 3]], (2, 3)),
        ([[2, 0], [5, 3]], (2, 3)),
        ([[1, 1], [0, 1]], (1, 1)),
        ([[1, 0], [1, 1]], (1, 1)),
        ([[1, -1], [1, -1]], (0, 0)),
        ([[0, 0], [0, 0]], (0, 0)),
        ([[0, 4], [1, 0]], (2, -2)),
        ([[0, -1], [1, 0]], (1j, -1j)),
        ([[3, -4], [1, 3]], (3 + 2j, 3 - 2j)),
    ]
    a = np.array([matrix for matrix, _ in known] * 300, dtype)
    w, v = linalg.eig(a)
    for k, (matrix, want) in enumerate(known * 300):
        assert set(w[k].tolist()) == set(map(complex, want)), matrix
    np.testing.assert_allclose(a @ v, v * w[:, None, :], atol=4 * np.finfo(dtype).eps * 5)
    for k in (0, 6):  # vectors of a diagonal matrix are independent
        assert abs(np.linalg.det(v[k])) == 1


@pytest.mark.parametrize("dtype", "fdFD")
def test_members_that_are_not_finite(dtype: str) -> None:
    a = random(np.random.default_rng(3), dtype, 2, 2)
    want = linalg.eig(a)
    bad = a.copy()
    bad[5, 0, 1], bad[1000, 1, 1], bad[-1] = np.nan, np.inf, -np.inf
    with pytest.raises(np.linalg.LinAlgError) as error:
        linalg.eig(bad)
    assert sorted(error.value.failed) == [(5,), (1000,), (COUNT - 1,)]  # type: ignore[attr-defined]
    for check in (True, False):
        w, v = linalg.eig(bad, on_error="nan", check_finite=check)
        good = np.ones(COUNT, np.bool_)
        good[[5, 1000, -1]] = False
        assert np.array_equal(w[good], want.eigenvalues[good])
        assert np.array_equal(v[good], want.eigenvectors[good])
        assert np.isnan(w[~good]).all()
        assert np.isnan(v[~good]).all()


@pytest.mark.parametrize("dtype", "fdFD")
def test_any_strides(dtype: str) -> None:
    """Views, reversed, transposed, broadcast, of two batch axes, and a rest that fills no panel."""
    a = random(np.random.default_rng(5), dtype, 2, 2)
    for view in (
        a[::-2], a.swapaxes(-1, -2), a[:, ::-1, ::-1], a[: COUNT - 3].reshape(-1, 1, 2, 2),
        a[:3000].reshape(30, 100, 2, 2).swapaxes(0, 1), np.broadcast_to(a[0], (3777, 2, 2)),
    ):  # fmt: skip
        w, v = linalg.eig(view)
        same = linalg.eig(np.ascontiguousarray(view))
        assert np.array_equal(w, same.eigenvalues)
        assert np.array_equal(v, same.eigenvectors)


def test_left_vectors_agree() -> None:
    a = random(np.random.default_rng(9), "d", 2, 2)
    w, left, right = linalg.eig_two_sided(a)
    close: Callable[..., None] = np.testing.assert_allclose
    close(a @ right, right * w[:, None, :], atol=1e-12)
    close(
        left.conj().swapaxes(-1, -2) @ a, w[:, :, None] * left.conj().swapaxes(-1, -2), atol=1e-12
    )

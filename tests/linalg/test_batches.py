"""Lists of matrices of different sizes: each result is that of the matrix alone."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tolerance import eps

from einloom import CallError, DTypeError, LinAlgError, OptionError, ShapeError, options
from einloom.linalg import eigh_batch, solve_batch, svd_batch

DTYPES = ("float32", "float64", "complex64", "complex128")
SIZES = (3, 1, 7, 3, 0, 30, 3, 12, 7, 3, 3, 3, 3, 3, 3, 3)
WAYS = [
    ("float64", 0),
    *((dtype, float("inf")) for dtype in DTYPES),
]  # kernels have tests of their own
ways = pytest.mark.parametrize(("dtype", "small"), WAYS)


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


@ways
def test_solve(dtype: str, small: float) -> None:
    rng = np.random.default_rng(1)
    a = [random(rng, (n, n), dtype) + 3 * np.eye(n, dtype=dtype) for n in SIZES]
    b = [random(rng, (n,) if k % 3 else (n, 2), dtype) for k, n in enumerate(SIZES)]
    with options(small=small):
        found = solve_batch(a, iter(b))
    for x, matrix, right in zip(found, a, b, strict=True):
        assert x.shape == right.shape
        assert x.dtype == dtype
        assert (abs(matrix @ x - right) < 500 * eps(dtype)).all()


@ways
@pytest.mark.parametrize("full", [False, True])
def test_svd(dtype: str, small: float, full: bool) -> None:
    rng = np.random.default_rng(2)
    a = [random(rng, (n, (5 * n) % 11), dtype) for n in SIZES]
    with options(small=small):
        found = svd_batch(a, full)
        values = svd_batch(a, compute_uv=False)
    for (u, s, vh), only, x in zip(found, values, a, strict=True):
        k = min(x.shape)
        assert u.shape[1] == (len(x) if full else k)
        assert (abs(u[:, :k] * s @ vh[:k] - x) < 100 * eps(dtype)).all()
        assert np.allclose(s, only, atol=100 * eps(dtype))


@ways
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh(dtype: str, small: float, uplo: str) -> None:
    rng = np.random.default_rng(3)
    a = [random(rng, (n, n), dtype) for n in SIZES]
    a = [x + x.conj().T for x in a]
    with options(small=small):
        found = eigh_batch(a, uplo)
        values = eigh_batch(a, uplo, compute_vectors=False)
    for (w, v), only, x in zip(found, values, a, strict=True):
        assert (abs(x @ v - v * w) < 300 * eps(dtype)).all()
        assert np.allclose(w, only, atol=300 * eps(dtype))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20), st.integers(1, 3))
def test_any_list_on_any_threads(shapes: list[tuple[int, int]], threads: int) -> None:
    rng = np.random.default_rng(len(shapes))
    a = [rng.standard_normal(shape) for shape in shapes]
    with options(small=0, threads=threads):
        found = svd_batch(a)
    assert len(found) == len(a)
    for (u, s, vh), x in zip(found, a, strict=True):
        assert np.allclose(u * s @ vh, x)


def test_dtypes_may_differ() -> None:
    found = solve_batch([np.eye(2, dtype="f"), [[2, 0], [0, 2]], 1j * np.eye(2)], [np.ones(2)] * 3)
    assert [x.dtype.name for x in found] == ["float64", "float64", "complex128"]
    values = svd_batch([np.eye(2, dtype="f"), np.eye(2)], compute_uv=False)
    assert [x.dtype.name for x in values] == ["float32", "float64"]


def failing() -> list[Any]:
    return [np.eye(2), np.zeros((3, 3)), 2 * np.eye(2), np.zeros((2, 2)), np.full((1, 1), np.nan)]


def test_failures_are_named() -> None:
    b = [np.ones(len(x)) for x in failing()]
    with pytest.raises(LinAlgError, match="solve_batch: Singular matrix: 2 of 5") as caught:
        solve_batch(failing(), b)
    assert caught.value.failed == ((1,), (3,))
    found = solve_batch(failing(), b, on_error="nan")
    assert [bool(np.isnan(x).all()) for x in found] == [False, True, False, True, True]
    found, info = solve_batch(failing(), b, on_error="info", check_finite=True)
    assert (info > 0).tolist() == [False, True, False, True, False]
    assert info[4] == -1
    assert (found[2] == 0.5).all()


BAD: tuple[tuple[Any, Any, type[Exception], str], ...] = (
    ([np.ones((2, 3))], [np.ones(2)], ShapeError, "system 0"),
    ([np.eye(2), np.ones(3)], [np.ones(2)] * 2, ShapeError, "system 1"),
    ([np.eye(2)], [np.ones(3)], ShapeError, "do not fit"),
    ([np.eye(2)], [np.ones((1, 2, 2))], ShapeError, "do not fit"),
    ([np.eye(2)], [], CallError, "1 matrices and 0"),
    ([np.eye(2, dtype="float16")], [np.ones(2)], DTypeError, "float16"),
)


@pytest.mark.parametrize(("a", "b", "kind", "text"), BAD)
def test_refused(a: Any, b: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match="solve_batch") as caught:
        solve_batch(a, b)
    assert text in str(caught.value)


def test_options_are_refused() -> None:
    with pytest.raises(OptionError, match="on_error"):
        svd_batch([np.eye(2)], on_error="skip")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="UPLO"):
        eigh_batch([np.eye(2)], "lower")


def test_no_matrices() -> None:
    assert solve_batch([], []) == svd_batch([]) == eigh_batch([]) == []


# previously failed: values were read far behind the scratch that they are in
def test_from_several_threads() -> None:

    rng = np.random.default_rng(4)
    a = [rng.standard_normal((n, n)) for n in (5, 9, 20, 3, 3, 40)]
    wanted = svd_batch(a, compute_uv=False)
    wrong = []

    def work() -> None:
        for _ in range(5):
            with options(small=0, threads=2):
                for x, y in zip(svd_batch(a, compute_uv=False), wanted, strict=True):
                    if not np.allclose(x, y):
                        wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong

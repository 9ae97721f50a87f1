"""Convolutions against sums, structured products and solves against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fft.cases import numbers

import einloom
from einloom import OptionError, ShapeError, fft
from einloom.fft.convolution import blocks

some = settings(max_examples=30, deadline=None)


def close(got: Any, want: Any, scale: float, dtype: str) -> None:
    assert got.shape == want.shape
    assert np.max(np.abs(got - want), initial=0) <= 100 * np.finfo(dtype).eps * scale


@given(
    st.integers(1, 300), st.integers(1, 40), st.sampled_from(["full", "same", "valid"]),
    st.sampled_from(["float64", "complex64"]), st.sampled_from(["float64", "complex128"]),
    st.sampled_from(["auto", "fft", "overlap_add"]), st.booleans(),
)  # fmt: skip
@some
def test_one_axis(
    m: int, n: int, mode: Any, of_a: str, of_b: str, method: str, is_swapped: bool
) -> None:
    rng = np.random.default_rng(m * 1000 + n)
    a, b = numbers(rng, m, of_a), numbers(rng, n, of_b)
    if is_swapped:
        a, b = b, a
    scale = float(np.linalg.norm(a) * np.linalg.norm(b)) + 1
    precise = "float32" if "complex64" in (of_a, of_b) else "float64"
    want = scipy.signal.convolve(a, b, mode, method="direct")
    close(fft.convolve(a, b, mode, method=method), want, scale, precise)
    want = scipy.signal.correlate(a, b, "full", method="direct")
    close(fft.correlate(a, b, method=method), want, scale, precise)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_several_axes(mode: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = numbers(rng, (7, 9, 5), "float64"), numbers(rng, (3, 4, 2), "float64")
    want = scipy.signal.convolve(a, b, mode, method="direct")
    close(fft.convolve(a, b, mode), want, 50, "float64")
    a, b = numbers(rng, (3, 1, 20), "float64"), numbers(rng, (1, 4, 6), "complex128")
    want = scipy.signal.fftconvolve(np.broadcast_to(a, (3, 4, 20)), b, mode, axes=2)
    for method in ("fft", "overlap_add"):
        close(fft.convolve(a, b, mode, axes=2, method=method), want, 50, "float64")
    batch = np.moveaxis(numbers(rng, (500, 3), "float32"), 0, 1)
    kernel = numbers(rng, (3, 4), "float32")
    close(
        fft.convolve(batch.T, kernel.T, mode, axes=0, method="overlap_add"),
        scipy.signal.fftconvolve(batch.T, kernel.T, mode, axes=0),
        50,
        "float32",
    )


def test_no_axis_is_a_product() -> None:
    assert np.array_equal(fft.convolve([1.0, 2], [3.0, 4], axes=()), [3, 8])


def test_blocks_are_worth_it_for_long_signals() -> None:
    way = blocks(10**6, 100, True)
    assert way.length < 2000
    assert way.step == way.length - 99
    assert blocks(100, 100, False).length >= 199
    rng = np.random.default_rng(2)
    a, b = numbers(rng, 200_000, "float64"), numbers(rng, 33, "float64")
    want = np.convolve(a, b)
    close(fft.convolve(a, b), want, 200, "float64")


def test_bad_convolutions() -> None:
    x, y = np.ones((3, 4)), np.ones((3, 5))
    for args, keywords, error, match in (
        ((x, np.ones(3)), {}, ShapeError, "insert axes"),
        ((x, y), {"axes": 0}, ShapeError, "do not broadcast"),
        ((x, np.ones((0, 4))), {}, ShapeError, "empty along axis 0"),
        ((np.ones((3, 2)), np.ones((2, 3))), {"mode": "valid"}, ShapeError, "within the other"),
        ((x, y), {"mode": "half"}, OptionError, "modes are"),
        ((x, y), {"method": "direct"}, OptionError, "methods are"),
        ((x, y), {"method": "overlap_add"}, OptionError, "along one axis"),
    ):
        for function in (fft.convolve, fft.correlate):
            with pytest.raises(error, match=match):
                function(*args, **keywords)


# ---- structured matrices ------------------------------------------------------------------------


@given(st.integers(1, 30), st.booleans(), st.booleans())
@some
def test_circulant(n: int, of_c: bool, of_x: bool) -> None:
    rng = np.random.default_rng(n)
    c = numbers(rng, (4, n), "complex128" if of_c else "float64")
    c[:, 0] += 3 * n  # regular
    x = numbers(rng, (3, 1, n), "complex128" if of_x else "float64")
    matrices = np.stack([scipy.linalg.circulant(one) for one in c])
    want = np.einsum("kij,bkj->bki", matrices, np.broadcast_to(x, (3, 4, n)))
    got = fft.circulant_matmul(c, x)
    assert got.dtype == want.dtype
    close(got, want, 40 * n, "float64")
    close(fft.circulant_solve(c, want), np.broadcast_to(x, (3, 4, n)), 10, "float64")


@given(st.integers(1, 20), st.integers(1, 20), st.booleans())
@some
def test_toeplitz_product(m: int, n: int, is_complex: bool) -> None:
    rng = np.random.default_rng(30 * m + n)
    dtype = "complex128" if is_complex else "float64"
    c, r, x = (numbers(rng, shape, dtype) for shape in ((3, m), (3, n), (2, 1, n)))
    matrices = np.stack([scipy.linalg.toeplitz(*pair) for pair in zip(c, r, strict=True)])
    want = np.einsum("kij,bkj->bki", matrices, np.broadcast_to(x, (2, 3, n)))
    close(fft.toeplitz_matmul(c, r, x), want, 100, "float64")
    square = fft.toeplitz_matmul(c, None, np.broadcast_to(np.eye(m), (3, m, m)).swapaxes(0, 1))
    close(square[:, 0].T, scipy.linalg.toeplitz(c[0]), 100, "float64")


@given(st.integers(1, 40), st.booleans())
@some
def test_toeplitz_solve(n: int, is_complex: bool) -> None:
    rng = np.random.default_rng(n)
    dtype = "complex128" if is_complex else "float64"
    c, r, x = (numbers(rng, shape, dtype) for shape in ((3, n), (3, n), (2, 1, n)))
    c[:, 0] += 4 * n
    b = fft.toeplitz_matmul(c, r, x)
    close(fft.toeplitz_solve(c, r, b), np.broadcast_to(x, (2, 3, n)), 10, "float64")


def test_singular_and_misfitting() -> None:
    singular = np.array([[1.0, 0, 0], [1, 1, 1]])
    with pytest.raises(np.linalg.LinAlgError, match=r"singular at \(1,\)") as caught:
        fft.circulant_solve(singular, np.ones(3))
    assert isinstance(caught.value, einloom.EinloomError)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        fft.circulant_solve(np.ones(3), np.ones(3))
    with pytest.raises(np.linalg.LinAlgError, match="singular leading block"):
        fft.toeplitz_solve([0.0, 1], [0.0, 1], [1.0, 2])
    for function, args in (
        (fft.circulant_matmul, (np.ones(3), np.ones(4))),
        (fft.circulant_solve, (np.ones((2, 3)), np.ones((5, 3)))),
        (fft.toeplitz_matmul, (np.ones(3), np.ones(4), np.ones(3))),
        (fft.toeplitz_matmul, (np.ones(3), np.ones(0), np.ones(3))),
        (fft.toeplitz_solve, (np.ones(3), np.ones(4), np.ones(3))),
    ):
        with pytest.raises(ShapeError):
            function(*args)

"""Laws of the transforms, for lengths and shapes that are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dft import bound, relative_error
from tests.fft.cases import NORMS, numbers

from einloom import fft, options

lengths = st.integers(1, 400)
dtypes = st.sampled_from(["complex64", "complex128"])
seeds = st.integers(0, 2**32)
some = settings(max_examples=25, deadline=None)


def drawn(seed: int, shape: Any, dtype: str) -> Any:
    return numbers(np.random.default_rng(seed), shape, dtype)


@given(lengths, dtypes, seeds)
@some
def test_linear(n: int, dtype: str, seed: int) -> None:
    x, y = drawn(seed, (2, n), dtype)
    got = fft.fft(2 * x - 3j * y)
    want = 2 * fft.fft(x) - 3j * fft.fft(y)
    assert relative_error(got, want) <= 8 * bound(dtype, n)


@given(lengths, dtypes, seeds, st.sampled_from(NORMS))
@some
def test_round_trip(n: int, dtype: str, seed: int, norm: str) -> None:
    x = drawn(seed, (3, n), dtype)
    for forward, inverse in ((fft.fft, fft.ifft), (fft.ifft, fft.fft)):
        back = inverse(forward(x, norm=norm), norm=norm)
        assert relative_error(back, x) <= 4 * bound(dtype, n)
    real = x.real.copy()
    assert relative_error(fft.irfft(fft.rfft(real, norm=norm), n, norm=norm), real) <= 4 * bound(
        dtype, n
    )
    assert relative_error(fft.hfft(fft.ihfft(real, norm=norm), n, norm=norm), real) <= 4 * bound(
        dtype, n
    )


@given(lengths, dtypes, seeds)
@some
def test_parseval(n: int, dtype: str, seed: int) -> None:
    x = drawn(seed, n, dtype)
    before = np.linalg.norm(x.astype(np.complex128))
    after = np.linalg.norm(fft.fft(x, norm="ortho").astype(np.complex128))
    assert abs(after - before) <= 4 * bound(dtype, n) * before


@given(lengths, dtypes, seeds, st.integers(-500, 500))
@some
def test_shift(n: int, dtype: str, seed: int, by: int) -> None:
    """A signal that is rolled has the same spectrum, turned."""
    x = drawn(seed, n, dtype)
    turns = np.exp(-2j * np.pi * ((by * np.arange(n)) % n) / n)
    got = fft.fft(np.roll(x, by))
    assert relative_error(got, fft.fft(x) * turns) <= 8 * bound(dtype, n)


@given(lengths, dtypes, seeds)
@some
def test_hermitian(n: int, dtype: str, seed: int) -> None:
    """Of real numbers bin -k is the conjugate of bin k; the half spectrum is the first half."""
    x = drawn(seed, n, dtype).real.copy()
    full = fft.fft(x)
    mirrored = full[-np.arange(n) % n].conj()
    assert relative_error(full, mirrored) <= 4 * bound(dtype, n)
    assert relative_error(fft.rfft(x), full[: n // 2 + 1]) <= 4 * bound(dtype, n)
    assert relative_error(fft.ihfft(x) * n, full[: n // 2 + 1].conj()) <= 4 * bound(dtype, n)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), dtypes, seeds, st.data())
@some
def test_axis_by_axis(shape: list[int], dtype: str, seed: int, data: Any) -> None:
    """Along several axes is along one after another, in any order, with kernels and without."""
    x = drawn(seed, tuple(shape), dtype)
    axes = data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))]
    want = x
    for axis in axes:
        want = fft.fft(want, axis=axis)
    n = int(np.prod([shape[axis] for axis in axes]))
    assert relative_error(fft.fftn(x, axes=axes), want) <= 8 * bound(dtype, n)
    with options(small=0, threads=2):
        assert relative_error(fft.fftn(x, axes=axes), want) <= 8 * bound(dtype, n)


@given(st.integers(1, 3000), st.booleans())
@some
def test_fast_lengths(n: int, is_real: bool) -> None:
    good, before = fft.next_fast_len(n, is_real), fft.prev_fast_len(n, is_real)
    assert before <= n <= good
    assert fft.next_fast_len(good, is_real) == good
    assert fft.prev_fast_len(before, is_real) == before
    assert fft.next_fast_len(before + 1, is_real) > before


@given(st.integers(1, 50), st.floats(0.1, 10))
@some
def test_frequencies(n: int, d: float) -> None:
    k = fft.fftfreq(n, d) * n * d
    assert np.allclose(k, [j if j < (n + 1) // 2 else j - n for j in range(n)])
    assert np.allclose(fft.rfftfreq(n, d), np.abs(fft.fftfreq(n, d)[: n // 2 + 1]))
    assert np.all(np.diff(fft.fftshift(fft.fftfreq(n, d))) > 0)
    assert np.array_equal(fft.ifftshift(fft.fftshift(np.arange(n))), np.arange(n))

"""Transforms on a GPU by their definition, in long double. Skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from tests.dft import bound, dft, dftn, relative_error, whole_spectrum
from tests.fft.cases import COMPLEX_OF, NORMS, norm_factor, numbers
from tests.on_card import MARKS, ROUNDING_OF_FFT, down, up

from einloom import fft

pytestmark = MARKS
LENGTHS = (*range(1, 40), 64, 67, 101, 127, 251)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_complex_and_half_spectra(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for n in LENGTHS:
        x, y = numbers(rng, (2, n), COMPLEX_OF[dtype]), numbers(rng, (2, n), dtype)
        half = numbers(rng, (2, n // 2 + 1), COMPLEX_OF[dtype])
        real = dft(whole_spectrum(half, 1, n), 1, 1).real
        backward = dft(y, 1, 1)
        for name, got, want in (
            ("fft", fft.fft(up(x)), dft(x, 1, -1)),
            ("ifft", fft.ifft(up(x)), dft(x, 1, 1) / n),
            ("fft of real", fft.fft(up(y)), dft(y, 1, -1)),
            ("rfft", fft.rfft(up(y)), dft(y, 1, -1)[:, : n // 2 + 1]),
            ("ihfft", fft.ihfft(up(y)), backward[:, : n // 2 + 1] / n),
            ("irfft", fft.irfft(up(half), n), real / n),
            ("hfft", fft.hfft(up(half.conj()), n), real),
        ):
            found = down(got)
            assert relative_error(found, want) <= ROUNDING_OF_FFT * bound(dtype, n), (name, n)
            kind = dtype if name in ("irfft", "hfft") else COMPLEX_OF[dtype]
            assert found.dtype == np.dtype(kind)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "ihfft", "irfft", "hfft"])
def test_norms(name: str, norm: str) -> None:
    rng = np.random.default_rng(2)
    for n in (1, 2, 5, 8, 12, 17):
        is_whole = name in ("irfft", "hfft")
        x = numbers(rng, n // 2 + 1 if is_whole else n, "complex128" if is_whole else "float64")
        arguments = (up(x), n) if is_whole else (up(x),)
        none = "backward" if norm_factor(name, n, "backward") == 1 else "forward"
        want = down(getattr(fft, name)(*arguments, norm=none)) * norm_factor(name, n, norm)
        got = down(getattr(fft, name)(*arguments, norm=norm))
        assert relative_error(got, want) <= ROUNDING_OF_FFT * bound("float64", n)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (2, 1), (1, 0, 2), (-1, 0)], ids=str)
@pytest.mark.parametrize("layout", ["C", "F", "sliced"])
def test_several_axes(axes: tuple[int, ...], layout: str) -> None:
    rng = np.random.default_rng(5)
    x = numbers(rng, (8, 5, 6), "complex128")
    x = x[::2] if layout == "sliced" else np.asarray(x[:4], order=layout)
    y = x.real
    plain = tuple(axis % 3 for axis in axes)
    total = np.prod([x.shape[axis] for axis in plain])
    half = tuple(slice(0, x.shape[k] // 2 + 1) if k == plain[-1] else slice(None) for k in range(3))
    tight = ROUNDING_OF_FFT * bound("float64", int(total))
    whole = dftn(y, plain, -1)
    assert relative_error(down(fft.fftn(up(x), axes=axes)), dftn(x, plain, -1)) <= tight
    assert relative_error(down(fft.ifftn(up(x), axes=axes)), dftn(x, plain, 1) / total) <= tight
    assert relative_error(down(fft.rfftn(up(y), axes=axes)), whole[half]) <= tight
    s = [y.shape[axis] for axis in plain]
    back = fft.irfftn(fft.rfftn(up(y), axes=axes), s, axes)
    assert relative_error(down(back), y) <= 2 * tight


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 9, 12])
def test_cut_and_padded(n: int) -> None:
    rng = np.random.default_rng(7)
    x = numbers(rng, (3, 6, 2), "complex128")
    for name in ("fft", "ifft"):
        want = getattr(fft, name)(x, n, 1)
        assert relative_error(down(getattr(fft, name)(up(x), n, 1)), want) <= 1e-14
    want = fft.irfft(x, n, 1)
    assert relative_error(down(fft.irfft(up(x), n, 1)), want) <= 1e-14

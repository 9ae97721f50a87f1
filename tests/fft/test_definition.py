"""Every transform is what its definition says, in long double, within the stated error."""

from __future__ import annotations

import numpy as np
import pytest
from tests.dft import bound, dft, dftn, real_matrix, relative_error, whole_spectrum
from tests.fft.cases import COMPLEX_OF, LENGTHS, NORMS, REALS, norm_factor, numbers

from einloom import fft, options

FEW = (1, 2, 3, 5, 8, 12, 17, 30, 64, 101)


@pytest.mark.parametrize("dtype", REALS)
def test_complex_and_half_spectra(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for n in LENGTHS:
        x = numbers(rng, (2, n), COMPLEX_OF[dtype])
        y = numbers(rng, (2, n), dtype)
        half = numbers(rng, (2, n // 2 + 1), COMPLEX_OF[dtype])
        spectrum, backward = dft(y, 1, -1), dft(y, 1, 1)
        real = dft(whole_spectrum(half, 1, n), 1, 1).real
        for name, got, want in (
            ("fft", fft.fft(x), dft(x, 1, -1)),
            ("ifft", fft.ifft(x), dft(x, 1, 1) / n),
            ("fft of real", fft.fft(y), spectrum),
            ("rfft", fft.rfft(y), spectrum[:, : n // 2 + 1]),
            ("ihfft", fft.ihfft(y), backward[:, : n // 2 + 1] / n),
            ("irfft", fft.irfft(half, n), real / n),
            ("hfft", fft.hfft(half.conj(), n), real),
        ):
            assert relative_error(got, want) <= bound(dtype, n), (name, n)
            kind = dtype if name in ("irfft", "hfft") else COMPLEX_OF[dtype]
            assert got.dtype == np.dtype(kind)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "ihfft", "irfft", "hfft"])
def test_norms(name: str, norm: str) -> None:
    """Each is its unnormalised transform times a factor."""
    rng = np.random.default_rng(2)
    for n in FEW:
        is_whole = name in ("irfft", "hfft")
        x = numbers(rng, n // 2 + 1 if is_whole else n, "complex128" if is_whole else "float64")
        arguments = (x, n) if is_whole else (x,)
        none = "backward" if norm_factor(name, n, "backward") == 1 else "forward"
        want = getattr(fft, name)(*arguments, norm=none) * norm_factor(name, n, norm)
        got = getattr(fft, name)(*arguments, norm=norm)
        assert relative_error(got, want) <= bound("float64", n)


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("kind", ["dct", "dst"])
def test_cosine_and_sine(kind: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    forward, inverse = getattr(fft, kind), getattr(fft, f"i{kind}")
    for type_ in (1, 2, 3, 4):
        for n in FEW:
            if kind == "dct" and type_ == 1 and n < 2:
                continue
            x = numbers(rng, (3, n), dtype)
            want = x @ real_matrix(kind, type_, n).T
            assert relative_error(forward(x, type_), want) <= 2 * bound(dtype, n), (type_, n)
            length = 2 * (n + (0 if type_ != 1 else -1 if kind == "dct" else 1))
            got = forward(x, type_, norm="forward")
            assert relative_error(got, want / length) <= 2 * bound(dtype, n)
            for norm in NORMS:
                for ortho in (None, True, False):
                    how = {"norm": norm, "orthogonalize": ortho}
                    back = inverse(forward(x, type_, **how), type_, **how)
                    assert relative_error(back, x) <= 4 * bound(dtype, n), (type_, n, how)
            got = forward(np.eye(n, dtype=dtype), type_, norm="ortho")
            assert np.abs(got @ got.T - np.eye(n)).max() <= 40 * np.finfo(dtype).eps * n


def test_complex_cosines_are_those_of_both_parts() -> None:
    rng = np.random.default_rng(4)
    x = numbers(rng, (3, 5), "complex64")
    for name in ("dct", "idst", "dctn"):
        both = getattr(fft, name)
        got = both(x, norm="ortho")
        assert got.dtype == np.complex64
        assert np.array_equal(got.real, both(x.real.copy(), norm="ortho"))
        assert np.array_equal(got.imag, both(x.imag.copy(), norm="ortho"))


AXES = [(0,), (1,), (2,), (0, 2), (2, 1), (1, 0, 2), (-1, 0)]


@pytest.mark.parametrize("axes", AXES)
def test_several_axes(axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    x = numbers(rng, (4, 5, 6), "complex128")
    y = x.real.copy()
    plain = tuple(axis % 3 for axis in axes)
    total = np.prod([x.shape[axis] for axis in plain])
    whole = dftn(y, plain, -1)
    half = tuple(slice(0, x.shape[k] // 2 + 1) if k == plain[-1] else slice(None) for k in range(3))
    tight = bound("float64", int(total))
    assert relative_error(fft.fftn(x, axes=axes), dftn(x, plain, -1)) <= tight
    assert relative_error(fft.ifftn(x, axes=axes), dftn(x, plain, 1) / total) <= tight
    assert relative_error(fft.fftn(y, axes=axes), whole) <= tight
    assert relative_error(fft.rfftn(y, axes=axes), whole[half]) <= tight
    s = [y.shape[axis] for axis in plain]
    assert relative_error(fft.irfftn(fft.rfftn(y, axes=axes), s, axes), y) <= 2 * tight
    assert relative_error(fft.hfftn(fft.ihfftn(y, axes=axes), s, axes), y) <= 2 * tight
    for kind in ("dct", "dst"):
        want = y.astype(np.longdouble)
        for axis in plain:
            matrix = real_matrix(kind, 2, y.shape[axis])
            want = np.moveaxis(np.moveaxis(want, axis, -1) @ matrix.T, -1, axis)
        assert relative_error(getattr(fft, f"{kind}n")(y, axes=axes), want) <= 2 * tight
        back = getattr(fft, f"i{kind}n")(getattr(fft, f"{kind}n")(y, axes=axes), axes=axes)
        assert relative_error(back, y) <= 4 * tight


def test_two_axes_are_the_last_two() -> None:
    rng = np.random.default_rng(6)
    x = numbers(rng, (2, 4, 6), "float64")
    for name in ("fft", "ifft", "rfft", "ihfft"):
        pair, many = getattr(fft, f"{name}2"), getattr(fft, f"{name}n")
        assert np.array_equal(pair(x), many(x, axes=(1, 2)))
        assert np.array_equal(pair(x, (3, 8), (0, 1)), many(x, (3, 8), (0, 1)))
    for name in ("irfft", "hfft"):
        pair, many = getattr(fft, f"{name}2"), getattr(fft, f"{name}n")
        assert np.array_equal(pair(x), many(x, axes=(1, 2)))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 9, 12])
def test_cut_and_padded(n: int) -> None:
    rng = np.random.default_rng(7)
    x = numbers(rng, (3, 6, 2), "complex128")
    tight = bound("complex128", 2)  # of other strides, for which a library may take other ways
    fitted = np.zeros((3, n, 2), complex)
    fitted[:, : min(n, 6)] = x[:, :n]
    assert relative_error(fft.fft(x, n, 1), fft.fft(fitted, axis=1)) <= tight
    assert relative_error(fft.rfft(x.real, n, 1), fft.rfft(fitted.real, axis=1)) <= tight
    assert relative_error(fft.dst(x.real, 3, n, 1), fft.dst(fitted.real, 3, axis=1)) <= tight
    half = np.zeros((3, n // 2 + 1, 2), complex)
    half[:, : min(n // 2 + 1, 6)] = x[:, : n // 2 + 1]
    assert relative_error(fft.irfft(x, n, 1), fft.irfft(half, n, axis=1)) <= tight
    both = np.zeros((n, 6, 5), complex)
    both[: min(n, 3), :, :2] = x[:n]
    assert relative_error(fft.fftn(x, (n, 5), (0, 2)), fft.fftn(both, axes=(0, 2))) <= tight
    assert relative_error(fft.fftn(x, (n, -1, 5)), fft.fftn(both)) <= tight


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((40, 300), (0,)), ((40, 300), (1,)), ((40, 300), (0, 1)), ((30, 16, 48), (0, 2)),
        ((30, 16, 48), (1,)), ((30, 16, 48), (0, 1, 2)), ((400, 6, 6), (1, 2)), ((11, 2, 700), (2,)),
        ((2000, 9), (0,)), ((17000,), (0,)), ((3, 5, 70, 24), (2,)),
    ],
)  # fmt: skip
def test_all_steps(shape: tuple[int, ...], axes: tuple[int, ...], threads: int) -> None:
    """With kernels and threads wherever they can be: in place, into `out`, and of any strides."""
    import scipy.fft

    rng = np.random.default_rng(8)
    for dtype in ("complex128", "complex64"):
        x = numbers(rng, shape, dtype)
        y = x.real.copy()
        s = [shape[axis] for axis in axes]
        wide = x.astype(np.complex128)
        tight = 2 * bound(dtype, int(np.prod(s)))
        with options(small=0, threads=threads):
            want = scipy.fft.fftn(wide, axes=axes)
            assert relative_error(fft.fftn(x, axes=axes), want) <= tight
            out = np.empty_like(x)
            assert fft.fftn(x, axes=axes, out=out) is out
            assert relative_error(out, want) <= tight
            odd = np.empty((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
            assert relative_error(fft.fftn(x, axes=axes, out=odd), want) <= tight
            turned = np.asfortranarray(x)[..., ::-1]
            back = scipy.fft.ifftn(wide[..., ::-1], axes=axes, norm="ortho")
            assert relative_error(fft.ifftn(turned, axes=axes, norm="ortho"), back) <= tight
            same = x.copy()
            assert fft.ifftn(same, axes=axes, out=same) is same
            assert relative_error(same, scipy.fft.ifftn(wide, axes=axes)) <= tight
            half = fft.rfftn(y, axes=axes)
            assert relative_error(half, scipy.fft.rfftn(wide.real, axes=axes)) <= tight
            assert relative_error(fft.irfftn(half, s, axes), y) <= 2 * tight
            assert (
                relative_error(fft.fftn(y, axes=axes), scipy.fft.fftn(wide.real, axes=axes))
                <= tight
            )
            want = scipy.fft.dctn(wide.real, 2, axes=axes, norm="ortho")
            assert relative_error(fft.dctn(y, 2, axes=axes, norm="ortho"), want) <= 2 * tight

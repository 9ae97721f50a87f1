"""Discrete Fourier transforms under the names of scipy.fft: complex, real and Hermitian, along one axis."""

from __future__ import annotations

from typing import Any

from .apply import along_one


def fft(
    x: Any, n: int | None = None, axis: int = -1, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """X[k] = sum_j x[j] exp(-2 pi i j k / n), the discrete Fourier transform along one axis.

    Args:
        x: an array of numbers; float32 and complex64 give complex64, float16 is computed in float32,
            integers and bool in double precision, long double in long double.
        n: the length; x is cut or padded with zeros to it. Default: the length that x has.
        axis: along which to transform.
        norm: "backward" divides the inverse transform by n, "forward" the forward one, "ortho" both by
            sqrt(n).
        overwrite_x: whether the result may be written over x.
        workers: threads; default those of `einloom.options`, -1 as many as there are CPUs.
        plan: what `einloom.fft.plan` returned for such an array.
        out: an array of the result's shape and dtype, filled and returned; x itself will do.

    Returns:
        The transform, in row-major order; in O(n log n) for any n.

    Raises:
        ShapeError: n or the length is below 1, or the axis is none of x, or `out` does not fit.
        DTypeError: x is not made of numbers.
        OptionError: a norm or a number of workers has no meaning.

    As `scipy.fft.fft`.

    >>> import numpy as np
    >>> fft([1.0, 2, 4])[1:]
    array([-2.+1.73205081j, -2.-1.73205081j])
    >>> fft(np.ones((3, 5), np.float32), 8).dtype
    dtype('complex64')
    """
    return along_one("fft", "c2c", True, x, n, axis, norm, overwrite_x, workers, plan, out)


def ifft(
    x: Any, n: int | None = None, axis: int = -1, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """x[j] = 1/n sum_k X[k] exp(2 pi i j k / n), the inverse of `fft`, whose arguments it takes.

    As `scipy.fft.ifft`.

    >>> ifft([4.0, 0, 0, 0]).real
    array([1., 1., 1., 1.])
    """
    return along_one("ifft", "c2c", False, x, n, axis, norm, overwrite_x, workers, plan, out)


def rfft(
    x: Any, n: int | None = None, axis: int = -1, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """X[k] = sum_j x[j] exp(-2 pi i j k / n) of real x for k = 0 ... n // 2: the rest are conjugates.

    Arguments and errors are those of `fft`; complex x raises `DTypeError`. As `scipy.fft.rfft`.

    >>> rfft([1.0, 2, 4])
    array([ 7.+0.j        , -2.+1.73205081j])
    """
    return along_one("rfft", "r2c", True, x, n, axis, norm, overwrite_x, workers, plan, out)


def irfft(
    x: Any, n: int | None = None, axis: int = -1, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The n real numbers whose `rfft` is x: the inverse transform of a half spectrum of n // 2 + 1.

    Args:
        x: the half spectrum; the imaginary part of X[0], and of X[n/2] for even n, counts as 0.
        n: the length of the result; default 2 (m - 1) for m numbers along the axis. x is cut or padded
            to n // 2 + 1.

    The other arguments and the errors are those of `fft`. As `scipy.fft.irfft`.

    >>> irfft(rfft([1.0, 2, 4]), 3)
    array([1., 2., 4.])
    """
    return along_one("irfft", "c2r", False, x, n, axis, norm, overwrite_x, workers, plan, out)


def hfft(
    x: Any, n: int | None = None, axis: int = -1, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The real transform X[k] of a signal with x[n - j] = conj(x[j]), of which x holds n // 2 + 1.

    n is the length of the result, 2 (m - 1) by default; the other arguments and the errors are those of
    `fft`. As `scipy.fft.hfft`.

    >>> hfft([1.0, 2, 3])
    array([ 8., -2.,  0., -2.])
    """
    return along_one("hfft", "c2r", True, x, n, axis, norm, overwrite_x, workers, plan, out)


def ihfft(
    x: Any, n: int | None = None, axis: int = -1, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The first half of the Hermitian signal whose transform is the real x: the inverse of `hfft`.

    Arguments and errors are those of `rfft`. As `scipy.fft.ihfft`.

    >>> ihfft([8.0, -2, 0, -2]).real
    array([1., 2., 3.])
    """
    return along_one("ihfft", "r2c", False, x, n, axis, norm, overwrite_x, workers, plan, out)

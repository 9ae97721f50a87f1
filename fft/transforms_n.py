"""Discrete Fourier transforms along several axes under the names of scipy.fft."""

from __future__ import annotations

from typing import Any

from .apply import along_many

LAST_TWO = (-2, -1)


def fftn(
    x: Any, s: Any = None, axes: Any = None, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """X[k] = sum_j x[j] exp(-2 pi i sum_a j_a k_a / n_a), the transform along several axes.

    Args:
        x: an array of numbers; dtypes are those of `fft`.
        s: lengths along the axes, to which x is cut or padded with zeros; -1 keeps the length.
        axes: along which to transform, without repetition; default the last len(s), or all.
        norm: "backward" divides the inverse transform by the product of the lengths, "forward" the
            forward one, "ortho" both by its square root.
        overwrite_x: whether the result may be written over x.
        workers: threads; default those of `einloom.options`, -1 as many as there are CPUs.
        plan: what `einloom.fft.plan` returned for such an array.
        out: an array of the result's shape and dtype, filled and returned; x itself will do.

    Returns:
        The transform, in row-major order; x itself where `axes` is empty.

    Raises:
        ShapeError: a length is below 1, an axis is none of x or listed twice, or `s` does not fit.

    The other errors are those of `fft`. As `scipy.fft.fftn`.

    >>> import numpy as np
    >>> fftn(np.eye(2)).real
    array([[2., 0.],
           [0., 2.]])
    """
    return along_many("fftn", "c2c", True, x, s, axes, norm, overwrite_x, workers, plan, out)


def ifftn(
    x: Any, s: Any = None, axes: Any = None, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """x[j] = 1/N sum_k X[k] exp(2 pi i sum_a j_a k_a / n_a), N = prod n_a: the inverse of `fftn`.

    Arguments and errors are those of `fftn`. As `scipy.fft.ifftn`.

    >>> import numpy as np
    >>> bool(np.allclose(ifftn(fftn(np.eye(3))), np.eye(3)))
    True
    """
    return along_many("ifftn", "c2c", False, x, s, axes, norm, overwrite_x, workers, plan, out)


def rfftn(
    x: Any, s: Any = None, axes: Any = None, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """`fftn` of real x, of which the last of `axes` keeps n // 2 + 1: the rest are conjugates.

    Arguments and errors are those of `fftn`; complex x and empty `axes` are refused. As
    `scipy.fft.rfftn`.

    >>> import numpy as np
    >>> rfftn(np.ones((4, 6))).shape
    (4, 4)
    """
    return along_many("rfftn", "r2c", True, x, s, axes, norm, overwrite_x, workers, plan, out)


def irfftn(
    x: Any, s: Any = None, axes: Any = None, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The real array whose `rfftn` is x; `s` has the shape of the result along `axes`.

    The last length is 2 (m - 1) by default. Arguments and errors are those of `fftn`; empty `axes` are
    refused. As `scipy.fft.irfftn`.

    >>> import numpy as np
    >>> irfftn(rfftn(np.ones((2, 3))), (2, 3))
    array([[1., 1., 1.],
           [1., 1., 1.]])
    """
    return along_many("irfftn", "c2r", False, x, s, axes, norm, overwrite_x, workers, plan, out)


def hfftn(
    x: Any, s: Any = None, axes: Any = None, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The real transform of a Hermitian signal along several axes, of which x holds one half.

    `hfft` along the last of `axes`, `fft` along the others; arguments and errors are those of `irfftn`.
    As `scipy.fft.hfftn`.

    >>> import numpy as np
    >>> hfftn(np.ones((2, 2)))
    array([[4., 0.],
           [0., 0.]])
    """
    return along_many("hfftn", "c2r", True, x, s, axes, norm, overwrite_x, workers, plan, out)


def ihfftn(
    x: Any, s: Any = None, axes: Any = None, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The half of the Hermitian signal whose `hfftn` is the real x.

    Arguments and errors are those of `rfftn`. As `scipy.fft.ihfftn`.

    >>> import numpy as np
    >>> bool(np.allclose(hfftn(ihfftn(np.eye(4)), (4, 4)), np.eye(4)))
    True
    """
    return along_many("ihfftn", "r2c", False, x, s, axes, norm, overwrite_x, workers, plan, out)


def fft2(
    x: Any, s: Any = None, axes: Any = LAST_TWO, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """`fftn` along the last two axes.

    Arguments and errors are those of `fftn`. As `scipy.fft.fft2`.

    >>> import numpy as np
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> bool(np.array_equal(fft2(x), fftn(x, axes=(1, 2))))
    True
    """
    return along_many("fft2", "c2c", True, x, s, axes, norm, overwrite_x, workers, plan, out)


def ifft2(
    x: Any, s: Any = None, axes: Any = LAST_TWO, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """`ifftn` along the last two axes.

    Arguments and errors are those of `ifftn`. As `scipy.fft.ifft2`.

    >>> import numpy as np
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> bool(np.array_equal(ifft2(x), ifftn(x, axes=(1, 2))))
    True
    """
    return along_many("ifft2", "c2c", False, x, s, axes, norm, overwrite_x, workers, plan, out)


def rfft2(
    x: Any, s: Any = None, axes: Any = LAST_TWO, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """`rfftn` along the last two axes.

    Arguments and errors are those of `rfftn`. As `scipy.fft.rfft2`.

    >>> import numpy as np
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> bool(np.array_equal(rfft2(x), rfftn(x, axes=(1, 2))))
    True
    """
    return along_many("rfft2", "r2c", True, x, s, axes, norm, overwrite_x, workers, plan, out)


def irfft2(
    x: Any, s: Any = None, axes: Any = LAST_TWO, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """`irfftn` along the last two axes.

    Arguments and errors are those of `irfftn`. As `scipy.fft.irfft2`.

    >>> import numpy as np
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> bool(np.array_equal(irfft2(x), irfftn(x, axes=(1, 2))))
    True
    """
    return along_many("irfft2", "c2r", False, x, s, axes, norm, overwrite_x, workers, plan, out)


def hfft2(
    x: Any, s: Any = None, axes: Any = LAST_TWO, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """`hfftn` along the last two axes.

    Arguments and errors are those of `hfftn`. As `scipy.fft.hfft2`.

    >>> import numpy as np
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> bool(np.array_equal(hfft2(x), hfftn(x, axes=(1, 2))))
    True
    """
    return along_many("hfft2", "c2r", True, x, s, axes, norm, overwrite_x, workers, plan, out)


def ihfft2(
    x: Any, s: Any = None, axes: Any = LAST_TWO, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """`ihfftn` along the last two axes.

    Arguments and errors are those of `ihfftn`. As `scipy.fft.ihfft2`.

    >>> import numpy as np
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> bool(np.array_equal(ihfft2(x), ihfftn(x, axes=(1, 2))))
    True
    """
    return along_many("ihfft2", "r2c", False, x, s, axes, norm, overwrite_x, workers, plan, out)

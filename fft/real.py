"""Cosine and sine transforms of types 1 to 4 under the names of scipy.fft."""

from __future__ import annotations

from typing import Any

from .._base.errors import Unsupported
from .apply import along_many, along_one
from .plans import INVERSE


def _type(call: str, type: Any, forward: bool) -> int:
    if type not in INVERSE:
        raise Unsupported(f"{call}(type={type!r:.20}): types are 1, 2, 3 and 4")
    return int(type) if forward else INVERSE[type]


def dct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The cosine transform along one axis, for n points x[0] ... x[n - 1]:

        type 1: x[0] + (-1)^k x[n-1] + 2 sum_{0<j<n-1} x[j] cos(pi j k / (n - 1)), n > 1
        type 2: 2 sum_j x[j] cos(pi k (2 j + 1) / (2 n))
        type 3: x[0] + 2 sum_{j>0} x[j] cos(pi j (2 k + 1) / (2 n))
        type 4: 2 sum_j x[j] cos(pi (2 k + 1) (2 j + 1) / (4 n))

    Args:
        x: real numbers; of complex ones real and imaginary parts are transformed.
        type: 1, 2, 3 or 4.
        norm: "backward" as above, "forward" divides by the length N = 2 (n - 1) of the even extension
            for type 1 and 2 n for the others, "ortho" by sqrt(N).
        orthogonalize: scale the terms at the ends so that with "ortho" the matrix is orthogonal;
            default: with "ortho".

    The other arguments and the errors are those of `fft`. As `scipy.fft.dct`.

    >>> dct([1.0, 2, 3, 4], 1).round(12) + 0.0
    array([15., -4.,  0., -1.])
    """
    kind = _type("dct", type, True)
    return along_one("dct", "dct", True, x, n, axis, norm, overwrite_x, workers, plan, out, kind,
                     orthogonalize)  # fmt: skip


def idct(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `dct` of the same type, norm and `orthogonalize`: types 2 and 3 invert each other.

    Arguments and errors are those of `dct`. As `scipy.fft.idct`.

    >>> idct(dct([1.0, 2, 4], 4), 4)
    array([1., 2., 4.])
    """
    kind = _type("idct", type, False)
    return along_one("idct", "dct", False, x, n, axis, norm, overwrite_x, workers, plan, out, kind,
                     orthogonalize)  # fmt: skip


def dctn(
    x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """`dct` along several axes, default all; `s` and `axes` are those of `fftn`.

    As `scipy.fft.dctn`.

    >>> import numpy as np
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> bool(np.allclose(dctn(x), dct(dct(x, axis=0), axis=1)))
    True
    """
    kind = _type("dctn", type, True)
    return along_many("dctn", "dct", True, x, s, axes, norm, overwrite_x, workers, plan, out, kind,
                      orthogonalize)  # fmt: skip


def idctn(
    x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `dctn` of the same type, norm and `orthogonalize`. As `scipy.fft.idctn`.

    >>> import numpy as np
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> bool(np.allclose(idctn(dctn(x)), x))
    True
    """
    kind = _type("idctn", type, False)
    return along_many("idctn", "dct", False, x, s, axes, norm, overwrite_x, workers, plan, out, kind,
                      orthogonalize)  # fmt: skip


def dst(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The sine transform along one axis, for n points x[0] ... x[n - 1]:

        type 1: 2 sum_j x[j] sin(pi (j + 1) (k + 1) / (n + 1))
        type 2: 2 sum_j x[j] sin(pi (k + 1) (2 j + 1) / (2 n))
        type 3: (-1)^k x[n-1] + 2 sum_{j<n-1} x[j] sin(pi (j + 1) (2 k + 1) / (2 n))
        type 4: 2 sum_j x[j] sin(pi (2 k + 1) (2 j + 1) / (4 n))

    N is 2 (n + 1) for type 1 and 2 n for the others; arguments and errors are those of `dct`. As
    `scipy.fft.dst`.

    >>> dst([1.0, 0, 0], 1).round(6)
    array([1.414214, 2.      , 1.414214])
    """
    kind = _type("dst", type, True)
    return along_one("dst", "dst", True, x, n, axis, norm, overwrite_x, workers, plan, out, kind,
                     orthogonalize)  # fmt: skip


def idst(
    x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `dst` of the same type, norm and `orthogonalize`: types 2 and 3 invert each other.

    Arguments and errors are those of `dst`. As `scipy.fft.idst`.

    >>> idst(dst([1.0, 2, 4], 4), 4)
    array([1., 2., 4.])
    """
    kind = _type("idst", type, False)
    return along_one("idst", "dst", False, x, n, axis, norm, overwrite_x, workers, plan, out, kind,
                     orthogonalize)  # fmt: skip


def dstn(
    x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """`dst` along several axes, default all; `s` and `axes` are those of `fftn`.

    As `scipy.fft.dstn`.

    >>> import numpy as np
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> bool(np.allclose(dstn(x), dst(dst(x, axis=0), axis=1)))
    True
    """
    kind = _type("dstn", type, True)
    return along_many("dstn", "dst", True, x, s, axes, norm, overwrite_x, workers, plan, out, kind,
                      orthogonalize)  # fmt: skip


def idstn(
    x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: str | None = None,
    overwrite_x: bool = False, workers: int | None = None, orthogonalize: bool | None = None,
    *, plan: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The inverse of `dstn` of the same type, norm and `orthogonalize`. As `scipy.fft.idstn`.

    >>> import numpy as np
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> bool(np.allclose(idstn(dstn(x)), x))
    True
    """
    kind = _type("idstn", type, False)
    return along_many("idstn", "dst", False, x, s, axes, norm, overwrite_x, workers, plan, out, kind,
                      orthogonalize)  # fmt: skip

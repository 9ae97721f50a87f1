"""Norms, condition numbers, ranks and pseudoinverses."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import DTypeError, MatrixShapeError, OptionError
from ..backend.dims import maximum
from ..program.trace import Traced
from . import ops, recent
from .factor import svd
from .failures import OnError, check_on_error
from .norms_traced import COND, NORM, VECTOR_NORM, recorded_norm, recorded_rank
from .on_device import on_devices
from .op import apply
from .operands import matrix, operand, wrap_of
from .solving import inv, number

SINGULAR_ORDERS = (2, -2, "nuc")
"""Norms of matrices that are functions of singular values; NumPy computes the others."""


class _NoValue:
    """A default that None is not."""

    def __repr__(self) -> str:
        return "<no value>"


NO_VALUE = _NoValue()


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors or of matrices.

    Of vectors: `(Σ |x_i|^ord)^(1/ord)`, the largest `|x_i|` for inf, the least for -inf, how many are
    not zero for 0. Of matrices: "fro" `(Σ |x_ij|²)^½`; "nuc" the sum of the singular values, 2 the
    largest and -2 the least; 1 and -1 the largest and least sum of a column's `|x_ij|`, inf and -inf of
    a row's.

    Args:
        x: any array.
        ord: as above; None is 2 of all elements as one vector, or "fro" of matrices.
        axis: one axis for vectors, two for matrices; None is all axes of a vector or of a matrix.
        keepdims: leave the axes with size 1.

    Returns:
        A number, or an array of the other axes.

    Raises:
        OptionError: no such norm; AxisError (of NumPy): no such axis.

    As `numpy.linalg.norm`, whose sums it uses; singular values are those of `svdvals`.

    >>> norm([[3.0, 0.0], [0.0, 4.0]]), norm([[3.0, 0.0], [0.0, 4.0]], 2)
    (np.float64(5.0), np.float64(4.0))
    """
    given = operand("norm", x)
    if type(given) is Traced:
        return recorded_norm(NORM, given, ord, axis, keepdims)
    axes = _two_axes(given, axis)
    if axes is None or ord not in SINGULAR_ORDERS:
        try:
            return np.linalg.norm(x if isinstance(x, np.ndarray) else given, ord, axis, keepdims)
        except np.exceptions.AxisError:
            raise
        except ValueError as error:
            raise OptionError(f"norm(ord={ord!r}, axis={axis!r}): {error}") from None
    if given.dtype.kind not in "biufc":
        raise DTypeError(f"norm(ord={ord!r}): array type {given.dtype} is unsupported in linalg")
    moved = np.moveaxis(given, axes, (-2, -1))
    s = svd(_widened(moved), compute_uv=False)
    found = _of_singular_values(s, ord)
    for at in sorted(k % given.ndim for k in axes) if keepdims else ():
        found = np.expand_dims(found, at)
    return number(found)


def _of_singular_values(s: Any, ord: Any) -> Any:
    if ord == "nuc":
        return s.sum(axis=-1)
    return s.max(axis=-1, initial=0) if ord == 2 else s.min(axis=-1)


def _widened(x: Any) -> Any:
    """Half precision in single precision: its norm is a number of the narrow dtype's kind."""
    return x.astype(np.float32) if x.dtype.char == "e" else x


def _two_axes(x: Any, axis: Any) -> tuple[int, int] | None:
    """The two axes of matrices, if it is matrices whose norm is asked for."""
    if axis is None:
        return (0, 1) if x.ndim == 2 else None
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    if len(axes) != 2:
        return None
    rows, cols = (k + x.ndim if -x.ndim <= k < 0 else k for k in axes)
    if rows == cols:
        raise OptionError(f"norm(axis={axis!r}): Duplicate axes given.")
    return rows, cols


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norms of the matrices x [..., m, n]: `norm` over the last two axes.

    >>> matrix_norm(np.ones((2, 3, 3)))
    array([3., 3.])
    """
    return norm(operand("matrix_norm", x), ord, (-2, -1), keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """The norms of vectors along `axis`: one axis, several as one vector, or None for all elements.

    >>> vector_norm([[3.0, 4.0], [6.0, 8.0]], axis=-1)
    array([ 5., 10.])
    """
    x = operand("vector_norm", x)
    if type(x) is Traced:
        return recorded_norm(VECTOR_NORM, x, ord, axis, keepdims)
    if axis is None or isinstance(axis, (tuple, list)):
        axes = range(x.ndim) if axis is None else axis
        merged = tuple(np.atleast_1d(np.arange(x.ndim)[list(axes)]))
        others = tuple(k for k in range(x.ndim) if k not in merged)
        flat = x.transpose(merged + others).reshape(-1, *(x.shape[k] for k in others))
        found = norm(flat, ord, 0)
        shape = tuple(1 if k in merged else x.shape[k] for k in range(x.ndim))
        return np.reshape(found, shape) if keepdims else found
    return norm(x, ord, axis, keepdims)


def cond(x: Any, p: Any = None) -> Any:
    """The condition number of matrices, ‖x‖ ‖x⁻¹‖: infinite of a singular one.

    Args:
        x: [..., m, n]; square unless p is None, 2 or -2.
        p: the norm, as for `norm`; None and 2 are the ratio of the largest singular value to the
            least, -2 its reciprocal.

    As `numpy.linalg.cond`.

    >>> cond([[4.0, 0.0], [0.0, 2.0]])
    np.float64(2.0)
    """
    a = matrix("cond", x)
    if type(a) is Traced:
        return apply(COND, "cond", (a,), {} if p is None else {"p": p}, "raise")[0][0]
    if 0 in a.shape[-2:]:
        raise MatrixShapeError("cond is not defined on empty arrays")
    with np.errstate(all="ignore"):
        if p is None or p in (2, -2):
            s = svd(a, compute_uv=False)
            found = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
        else:
            inverse = inv(a, on_error="nan")
            found = norm(a, p, (-2, -1)) * norm(inverse, p, (-2, -1))
    found = np.asarray(found)
    undefined = np.isnan(found)
    if undefined.any():  # 0 / 0, and what has no inverse; NaN in x stays NaN
        found[undefined & ~np.isnan(a).any(axis=(-2, -1))] = np.inf
    return number(found)


def matrix_rank(
    A: Any,  # noqa: N803
    tol: Any = None,
    hermitian: bool = False,
    *,
    rtol: Any = None,
) -> Any:
    """How many singular values of matrices are above a threshold.

    Args:
        A: [..., m, n]; a vector has the rank 1 unless it is zero.
        tol: the threshold [...]; None is rtol times the largest singular value.
        hermitian: A is Hermitian; its eigenvalues are used.
        rtol: [...]; None is max(m, n) times the spacing of the dtype at 1.

    As `numpy.linalg.matrix_rank`.

    >>> matrix_rank([[1.0, 1.0], [1.0, 1.0]])
    np.int64(1)
    """
    if rtol is not None and tol is not None:
        raise OptionError("matrix_rank: `tol` and `rtol` can't be both set.")
    x = operand("matrix_rank", A)
    if type(x) is Traced:
        return recorded_rank(x, {"tol": tol, "rtol": rtol, "hermitian": hermitian or None})
    if x.ndim < 2:
        return int(not (x == 0).all())
    s = svd(x, compute_uv=False, hermitian=hermitian)
    if tol is None:
        eps = np.finfo(s.dtype).eps * max(x.shape[-2:])
        relative = eps if rtol is None else np.asarray(rtol)[..., None]
        tol = s.max(axis=-1, keepdims=True, initial=0) * relative
    else:
        tol = np.asarray(tol)[..., None]
    return np.count_nonzero(s > tol, axis=-1) if s.ndim > 1 else np.intp((s > tol).sum())


@recent.of_matrix(recent.pinv)
@on_devices
def pinv(
    a: Any,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    rtol: Any = NO_VALUE,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """The pseudoinverse a⁺ of Moore and Penrose: V diag(1/s) Uᴴ over singular values that count.

    Args:
        a: [..., m, n].
        rcond: [...]; singular values up to rcond times the largest count as zero; 1e-15 by default.
        hermitian: a is Hermitian; its eigenvalues are used.
        rtol: another name of rcond, whose default None is max(m, n) times the spacing of the dtype at 1.
        check_finite, on_error: as everywhere in this package.

    Returns:
        [..., n, m]. With on_error="info" (pseudoinverse, info).

    Raises:
        LinAlgError: the SVD did not converge.

    As `numpy.linalg.pinv`.

    >>> pinv([[2.0, 0.0], [0.0, 0.0]])
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    check_on_error("pinv", on_error)
    x, wrap = matrix("pinv", a), wrap_of(a)
    cutoff = _cutoff(x, rcond, rtol)
    if type(x) is Traced:
        attrs = {"rcond": float(cutoff)} if cutoff is not None else {}
        (found,), info = apply(ops.PINV, "pinv", (x,), attrs, on_error, check_finite)
        return (found, info) if on_error == "info" else found
    found, info = svd(x, False, True, hermitian, check_finite=check_finite, on_error="info")
    from .failures import failed

    if on_error == "raise" and info.any():
        raise failed("pinv", ops.NO_SVD, info)
    u, s, vh = found
    result = ops.pseudoinverse(u, s, vh, cutoff)
    result = result if wrap is None else wrap(result)
    return (result, info) if on_error == "info" else result


def _cutoff(x: Any, rcond: Any, rtol: Any) -> Any:
    """Relative to the largest singular value."""
    if rcond is None:
        if rtol is NO_VALUE:
            return ops.PINV_RCOND
        if rtol is not None:
            return rtol
        m, n = x.shape[-2:]
        return maximum(m, n) * np.finfo(x.dtype).eps
    if rtol is not NO_VALUE:
        raise OptionError("pinv: `rtol` and `rcond` can't be both set.")
    return rcond

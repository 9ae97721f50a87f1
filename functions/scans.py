"""Scans along an axis: running sums, products, largest and smallest elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import DTypeError
from ..backend.spec import dtype_name
from .values import Ops, Out, asked_dtype, last, one_axis, operands, widened


def cumsum(
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> Any:
    """Running sums: out[i] = a[0] + .. + a[i] along the axis.

    Args:
        a: array of numbers.
        axis: which; None: of all elements in row-major order.
        dtype: of the result; default that of a, and for bool and short integers int64 or uint64.
        out: where the result is written; it may be `a`.
        reverse: sums from the other end: out[i] = a[i] + .. + a[n-1].
        exclusive: sums without the element itself: out[0] = 0, or out[n-1] = 0 if reversed.

    Returns:
        array of the shape of a; `out` if given.

    Raises:
        ShapeError, CallError, DTypeError: no such axis, dtype, or `out` does not fit.

    As `numpy.cumsum`; half and single precision are summed in a wider one and every sum is rounded once.

    >>> cumsum([1, 2, 3, 4])
    array([ 1,  3,  6, 10])
    >>> cumsum([1, 2, 3, 4], reverse=True, exclusive=True)
    array([9, 7, 4, 0])
    """
    return _scan("cumsum", "sum", a, axis, dtype, out, reverse, 0 if exclusive else None)


def cumprod(
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    reverse: bool = False,
    exclusive: bool = False,
) -> Any:
    """Running products: out[i] = a[0] .. a[i] along the axis.

    Arguments, result and errors are those of `cumsum`; an exclusive product starts with 1.
    As `numpy.cumprod`.

    >>> cumprod([1, 2, 3, 4], exclusive=True)
    array([1, 1, 2, 6])
    """
    return _scan("cumprod", "prod", a, axis, dtype, out, reverse, 1 if exclusive else None)


def cummax(a: Any, axis: int | None = None, out: Any = None, *, reverse: bool = False) -> Any:
    """The largest element so far: out[i] = max(a[0], .., a[i]) along the axis; NaN from the first NaN on.

    Args:
        a: array of real numbers.
        axis, out, reverse: as in `cumsum`.

    Returns:
        array of the shape and dtype of a; `out` if given.

    Raises:
        DTypeError: complex numbers have no order. Others as `cumsum`.

    As `numpy.maximum.accumulate`.

    >>> cummax([3, 1, 4, 1, 5])
    array([3, 3, 4, 4, 5])
    """
    return _scan("cummax", "max", a, axis, None, out, reverse, None)


def cummin(a: Any, axis: int | None = None, out: Any = None, *, reverse: bool = False) -> Any:
    """The smallest element so far: out[i] = min(a[0], .., a[i]) along the axis; NaN from the first NaN on.

    Arguments, result and errors are those of `cummax`. As `numpy.minimum.accumulate`.

    >>> cummin([3, 1, 4, 1, 5], reverse=True)
    array([1, 1, 1, 1, 5])
    """
    return _scan("cummin", "min", a, axis, None, out, reverse, None)


def _scan(
    call: str, kind: str, a: Any, axis: Any, dtype: Any, out: Any, reverse: bool, start: Any
) -> Any:
    """`start` is what an exclusive scan begins with, None for an inclusive one."""
    ops, (x,) = operands(call, a)
    into = Out(call, out, ops)
    if axis is None and len(x.shape) != 1:
        total: Any = 1
        for n in x.shape:
            total = total * n
        x = ops.op("reshape", x, shape=(total,))
    place = one_axis(call, 0 if axis is None else axis, len(x.shape))
    if kind in ("max", "min"):
        if x.dtype.kind == "c":
            raise DTypeError(
                f"{call}: numbers of {dtype_name(x.dtype)} have no order; take a.real, say"
            )
    else:
        x = ops.convert(x, widened(x.dtype) if dtype is None else asked_dtype(call, dtype))
    target = into.array if into.fits(x.shape, x.dtype, x) else None
    if reverse:
        x = ops.op("reverse", x, axes=(place,))
        target = (
            None if target is None else target[(slice(None),) * place + (slice(None, None, -1),)]
        )
    result = _scanned(ops, into, target, kind, x, place, start)
    if target is not None:
        result = into.array
    elif reverse:
        result = ops.op("reverse", result, axes=(place,))
        result = result.copy() if isinstance(result, np.ndarray) and into.array is None else result
    return into.finished(result, a)


def _scanned(ops: Ops, into: Out, target: Any, kind: str, x: Any, axis: int, start: Any) -> Any:
    if start is None:
        return last(ops, into, target, "associative_scan", x, axis=axis, kind=kind)
    found = ops.op("associative_scan", x, axis=axis, kind=kind)
    one = tuple(int(k == axis) for k in range(len(x.shape)))
    attrs = {"low": one, "high": tuple(-k for k in one), "interior": (0,) * len(one)}
    return last(ops, into, target, "pad", found, **attrs, value=start)

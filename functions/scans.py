"""Scans along an axis: running sums, products, largest and smallest elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import DTypeError
from ..backend.cpu.buffers import empty
from ..backend.spec import Shape, dtype_name
from ..program.trace import Session, Traced
from .values import DType, Out, asked_dtype, evaluated, one_axis, operands, widened


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
    (x,) = operands(call, a)
    into = Out(call, out, (x,))
    is_flat = axis is None and len(x.shape) != 1
    shape = (_product(x.shape),) if is_flat else x.shape
    place = one_axis(call, 0 if axis is None else axis, len(shape))
    wanted = x.dtype
    if kind in ("sum", "prod"):
        wanted = widened(x.dtype) if dtype is None else asked_dtype(call, dtype)
    elif x.dtype.kind == "c":
        raise DTypeError(
            f"{call}: numbers of {dtype_name(x.dtype)} have no order; take a.real, say"
        )
    settings = (kind, place, wanted, is_flat, bool(reverse), start)
    if isinstance(x, Traced):
        found = evaluated(_recorded, (x,), *settings)
        return x.session.op("reverse", found, axes=(place,)) if reverse else found
    target = into.place(shape, wanted, x)
    if reverse and type(x) is not np.ndarray:  # on a device
        return into.finished(evaluated(_turned, (x,), *settings, out=target), a)
    if reverse:  # written backwards
        target = empty(shape, wanted) if target is None else target
        evaluated(_recorded, (x,), *settings, out=np.flip(target, place))
        return into.finished(target, a)
    return into.finished(evaluated(_recorded, (x,), *settings, out=target), a)


def _product(sizes: Shape) -> Any:
    total: Any = 1
    for n in sizes:
        total = total * n
    return total


def _turned(session: Session, x: Traced, *settings: Any) -> Traced:
    """A reversed scan as it is asked for."""
    found = _recorded(session, x, *settings)
    return session.op("reverse", found, axes=(settings[1],))


def _recorded(
    session: Session,
    x: Traced,
    kind: str,
    axis: int,
    dtype: DType,
    is_flat: bool,
    reverse: bool,
    start: Any,
) -> Traced:
    """The scan from its first element to its last one: a reversed one comes backwards."""
    x = session.convert(x, dtype)
    x = session.op("reshape", x, shape=(_product(x.shape),)) if is_flat else x
    x = session.op("reverse", x, axes=(axis,)) if reverse else x
    found = session.op("associative_scan", x, axis=axis, kind=kind)
    if start is None:
        return found
    one = tuple(int(k == axis) for k in range(len(x.shape)))
    none = (0,) * len(one)
    return session.op(
        "pad", found, low=one, high=tuple(-k for k in one), interior=none, value=start
    )

"""Diagonals of any two axes, and their sums."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from .._base.errors import CallError, ShapeError
from ..backend.dims import minimum
from ..program.trace import Session, Traced
from .values import DType, Out, asked_dtype, evaluated, one_axis, operands, widened


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements whose index on axis2 is `offset` more than that on axis1, along a last axis, as a view.

    Args:
        a: array with two axes at least.
        offset: which diagonal; one outside the array has no element.
        axis1, axis2: the axes of its rows and columns.

    Returns:
        [..., k], a view of `a`, which may be written; k = min(m - max(-offset, 0), n - max(offset, 0)) >= 0.

    Raises:
        ShapeError: fewer than two axes, or axes that are none or equal. CallError: no integers.

    As `numpy.diagonal`, whose view cannot be written. The main diagonals of square arrays are also
    `einsum("...ii->...i")`.

    >>> import numpy as np
    >>> diagonal(np.arange(6).reshape(2, 3), 1)
    array([1, 5])
    >>> diagonal(np.ones((2, 3, 4, 5)), axis1=1, axis2=-1).shape
    (2, 4, 3)
    """
    (x,) = operands("diagonal", a, native=False)
    rows, columns, offset = _asked("diagonal", x, offset, axis1, axis2)
    if type(x) is not np.ndarray:  # traced, or on a device
        found = evaluated(_recorded, (x,), rows, columns, offset)
        return Out("diagonal", None).finished(found, a)
    offset = min(max(offset, -x.shape[rows]), x.shape[columns])  # NumPy takes 32 bits
    found = np.diagonal(x, offset, rows, columns)
    if x.flags.writeable:
        found.flags.writeable = True
    return Out("diagonal", None).finished(found, a)


def _asked(call: str, x: Any, offset: Any, axis1: Any, axis2: Any) -> tuple[int, int, int]:
    ndim = len(x.shape)
    if ndim < 2:
        raise ShapeError(f"{call}: a has shape {x.shape}; a diagonal needs two axes")
    rows, columns = one_axis(call, axis1, ndim, "axis1"), one_axis(call, axis2, ndim, "axis2")
    if rows == columns:
        raise ShapeError(f"{call}(axis1={axis1}, axis2={axis2}): these are the same axis")
    try:
        return rows, columns, index(offset)
    except TypeError:
        raise CallError(f"{call}(offset={offset!r:.60}): give an integer") from None


def _recorded(session: Session, x: Traced, rows: int, columns: int, offset: int) -> Traced:
    """Cut to where the diagonal is the main one; that is taken, and its axis goes last."""
    ndim = len(x.shape)
    starts: list[Any] = [0] * ndim
    stops = list(x.shape)
    starts[rows] = minimum(max(-offset, 0), x.shape[rows])
    starts[columns] = minimum(max(offset, 0), x.shape[columns])
    length = minimum(x.shape[rows] - starts[rows], x.shape[columns] - starts[columns])
    stops[rows], stops[columns] = starts[rows] + length, starts[columns] + length
    if starts != [0] * ndim or stops != list(x.shape):
        x = session.op("slice", x, starts=tuple(starts), stops=tuple(stops), steps=(1,) * ndim)
    first, second = sorted((rows, columns))
    found = session.op("extract_diagonal", x, axes=(first, second))
    return found.permuted((*(axis for axis in range(ndim - 1) if axis != first), first))


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """The sum of a diagonal: the sum over i of a[i, i + offset] for the two axes.

    Args:
        a: array with two axes at least.
        offset, axis1, axis2: as in `diagonal`.
        dtype: in which it is summed; default that of a, and for bool and short integers int64 or uint64.
        out: where the result is written.

    Returns:
        array without the two axes, a number if there are no others; `out` if given.

    Raises:
        ShapeError, CallError, DTypeError: as `diagonal`; or `out` does not fit.

    As `numpy.trace`, with wide accumulators. `einloom.trace` is another function: it records programs.

    >>> trace([[1, 2], [3, 4]])
    np.int64(5)
    """
    (x,) = operands("trace", a)
    rows, columns, offset = _asked("trace", x, offset, axis1, axis2)
    into = Out("trace", out, (x,))
    wanted = widened(x.dtype) if dtype is None else asked_dtype("trace", dtype)
    shape = tuple(n for axis, n in enumerate(x.shape) if axis not in (rows, columns))
    place = into.place(shape, wanted, x)
    return into.finished(evaluated(_sum, (x,), rows, columns, offset, wanted, out=place), a)


def _sum(session: Session, x: Traced, rows: int, columns: int, offset: int, dtype: DType) -> Traced:
    found = session.convert(_recorded(session, x, rows, columns, offset), dtype)
    return session.op("reduce_sum", found, axes=(len(found.shape) - 1,))

"""Products and direct sums of spaces: kron and block_diag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base.errors import CallError, ShapeError
from ..backend.cpu.strided import MOST_AXES
from ..backend.spec import Shape
from ..program.trace import Session, Traced, broadcast_shape
from .values import Out, common, evaluated, operands


def kron(*factors: Any, out: Any = None) -> Any:
    """Kronecker product of two or more arrays: out[i1 n1 + i2, j1 m1 + j2, ..] = a[i1, j1, ..] b[i2, j2, ..].

    Here (n1, m1, ..) is the shape of b; of more factors the last one's indices vary fastest. Where one has
    fewer axes, axes of size 1 are put in front.

    Args:
        factors: arrays of any number of axes, numbers included.
        out: where the result is written.

    Returns:
        array whose sizes are the products of the factors' sizes, of their common dtype; `out` if given.

    Raises:
        CallError: no factor. ShapeError, DTypeError: `out` does not fit, or a factor has more than half of
            the axes that an array may have: 32 of 64, with NumPy before 2.0 16 of 32.

    As `numpy.kron`, for any number of factors. As many multiplications as the result has elements, and few
    more for the products of the first ones.

    >>> import numpy as np
    >>> kron([1, 10], [1, 2, 3])
    array([ 1,  2,  3, 10, 20, 30])
    >>> kron(np.eye(2), np.ones((1, 3)), [[1], [2]]).shape
    (4, 6)
    """
    if not factors:
        raise CallError("kron(): give at least one factor")
    values = operands("kron", *factors)
    dtype, into = common("kron", values), Out("kron", out, values)
    ndim = max(len(x.shape) for x in values)
    if len(values) > 1 and 2 * ndim > MOST_AXES:
        raise ShapeError(
            f"kron: a factor has {ndim} axes, and {MOST_AXES // 2} are the most; drop those of size 1, or "
            f"reshape the factors"
        )
    shape = _sizes(values, ndim)
    if isinstance(values[0], Traced):
        return values[0].session.op("reshape", _products(values[0].session, *values), shape=shape)
    if len(values) == 1:
        return into.finished(values[0].copy(), *factors)
    place = into.place(shape, dtype, *values)
    if place is not None:  # a view: axes are cut
        place = place.reshape(_between(_sizes(values[:-1], ndim), _sizes(values[-1:], ndim)))
    return into.finished(evaluated(_products, values, out=place).reshape(shape), *factors)


def _products(session: Session, *factors: Traced) -> Traced:
    """Factors in one dtype multiplied one after another; of the last product axes of both still alternate."""
    dtype, ndim = common("kron", factors), max(len(x.shape) for x in factors)
    first, *others = (_padded(session, session.convert(x, dtype), ndim) for x in factors)
    found = first
    for k, factor in enumerate(others):
        if k:
            found = session.op("reshape", found, shape=_sizes(factors[: k + 1], ndim))
        between = _between(found.shape, factor.shape)
        left = session.op("expand_dims", found, axes=tuple(range(1, 2 * ndim, 2)))
        right = session.op("expand_dims", factor, axes=tuple(range(0, 2 * ndim, 2)))
        left, right = session.broadcast(left, between), session.broadcast(right, between)
        found = session.op("multiply", left, right)
    return found


def _between(a: Shape, b: Shape) -> Shape:
    """The axes of both in turn."""
    return tuple(n for pair in zip(a, b, strict=True) for n in pair)


def _sizes(values: Sequence[Any], ndim: int) -> Shape:
    """Products of the sizes, axes of size 1 in front of those that have fewer."""
    found: list[Any] = [1] * ndim
    for x in values:
        for axis, n in enumerate(x.shape, ndim - len(x.shape)):
            found[axis] = found[axis] * n
    return tuple(found)


def _padded(session: Session, x: Traced, ndim: int) -> Traced:
    missing = tuple(range(ndim - len(x.shape)))
    return session.op("expand_dims", x, axes=missing) if missing else x


def block_diag(*arrays: Any, out: Any = None) -> Any:
    """The matrices along the diagonal of one that is zero elsewhere: the direct sum of linear maps.

    Args:
        arrays: matrices [..., m_k, n_k]; batch axes broadcast. A vector is one row, a number one element.
        out: where the result is written.

    Returns:
        [..., sum of m_k, sum of n_k], of their common dtype; `out` if given.

    Raises:
        CallError: no array. ShapeError, DTypeError: batch axes do not broadcast, or `out` does not fit.

    As `scipy.linalg.block_diag`.

    >>> block_diag([[1, 2]], 3, [[4], [5]])
    array([[1, 2, 0, 0],
           [0, 0, 3, 0],
           [0, 0, 0, 4],
           [0, 0, 0, 5]])
    """
    if not arrays:
        raise CallError("block_diag(): give at least one array")
    values = operands("block_diag", *arrays)
    dtype, into = common("block_diag", values), Out("block_diag", out, values)
    if isinstance(values[0], Traced):
        return _summed(values[0].session, values, dtype)
    values = [x[(None,) * (2 - x.ndim)] if x.ndim < 2 else x for x in values]
    shape = _whole(values)
    place = into.place(shape, dtype, *values)
    if type(values[0]) is not np.ndarray:  # on a device
        return into.finished(evaluated(_blocks, values, dtype, out=place), *arrays)
    result = np.empty(shape, dtype) if place is None else place
    result[...] = 0
    row = column = 0
    for x in values:
        m, n = x.shape[-2:]
        result[..., row : row + m, column : column + n] = x
        row, column = row + m, column + n
    return into.finished(result, *arrays)


def _blocks(session: Session, *rest: Any) -> Traced:
    *values, dtype = rest
    return _summed(session, values, dtype)


def _whole(values: Sequence[Any]) -> Shape:
    batch = broadcast_shape("block_diag", *(x.shape[:-2] for x in values))
    return (*batch, sum(x.shape[-2] for x in values), sum(x.shape[-1] for x in values))


def _summed(session: Session, values: Sequence[Traced], dtype: Any) -> Traced:
    values = [_padded(session, session.convert(x, dtype), max(2, len(x.shape))) for x in values]
    shape = _whole(values)
    batch = shape[:-2]
    values = [session.broadcast(x, (*batch, *x.shape[-2:])) for x in values]
    return session.op("concatenate", *_rows(session, values, shape), axis=len(batch))


def _rows(session: Session, values: Sequence[Traced], shape: Shape) -> list[Traced]:
    """Each with zeros to its left and right."""
    column: Any = 0
    rows = []
    for x in values:
        none, n = (0,) * (len(shape) - 1), x.shape[-1]
        high = (*none, shape[-1] - column - n)
        rows.append(
            session.op(
                "pad", x, low=(*none, column), high=high, interior=(0,) * len(shape), value=0
            )
        )
        column = column + n
    return rows

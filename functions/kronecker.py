"""Products and direct sums of spaces: kron and block_diag."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import CallError
from ..backend.spec import Shape
from ..program.trace import broadcast_shape
from .values import NOW, Ops, Out, common, last, operands


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
        CallError: no factor. ShapeError, DTypeError: `out` does not fit.

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
    ops, values = operands("kron", *factors)
    dtype, into = common("kron", values), Out("kron", out, ops)
    values = [ops.convert(x, dtype) for x in values]
    ndim = max(len(x.shape) for x in values)
    values = [_expanded(ops, x, tuple(range(ndim - len(x.shape)))) for x in values]
    result = values[0]
    for k, factor in enumerate(values[1:], 2):
        result = _pair(ops, result, factor, into if k == len(values) else None)
    if len(values) == 1 and ops is NOW:
        result = result.copy()
    return into.finished(result, *factors)


def _pair(ops: Ops, a: Any, b: Any, out: Out | None) -> Any:
    """Axes of a and b alternate while they are multiplied; neighbours are then one axis."""
    between = tuple(n for pair in zip(a.shape, b.shape, strict=True) for n in pair)
    shape = tuple(n * m for n, m in zip(a.shape, b.shape, strict=True))
    left = ops.broadcast(_expanded(ops, a, tuple(range(1, len(between), 2))), between)
    right = ops.broadcast(_expanded(ops, b, tuple(range(0, len(between), 2))), between)
    if out is not None and out.array is not None and out.fits(shape, a.dtype, a, b):
        last(ops, out, out.array.reshape(between), "multiply", left, right)  # a view: axes are cut
        return out.array
    return ops.op("reshape", ops.op("multiply", left, right), shape=shape)


def _expanded(ops: Ops, x: Any, axes: tuple[int, ...]) -> Any:
    return ops.op("expand_dims", x, axes=axes) if axes else x


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
    ops, values = operands("block_diag", *arrays)
    dtype, into = common("block_diag", values), Out("block_diag", out, ops)
    values = [_matrix(ops, x) for x in values]
    batch = broadcast_shape("block_diag", *(x.shape[:-2] for x in values))
    shape = (*batch, sum(x.shape[-2] for x in values), sum(x.shape[-1] for x in values))
    if ops is NOW:
        return into.finished(_placed(values, shape, dtype, into), *arrays)
    values = [ops.broadcast(ops.convert(x, dtype), (*batch, *x.shape[-2:])) for x in values]
    return ops.op("concatenate", *_rows(ops, values, shape), axis=len(batch))


def _matrix(ops: Ops, x: Any) -> Any:
    return _expanded(ops, x, tuple(range(2 - len(x.shape)))) if len(x.shape) < 2 else x


def _placed(values: list[Any], shape: Shape, dtype: Any, out: Out) -> Any:
    target = out.array if out.fits(shape, dtype, *values) else None
    result = np.empty(shape, dtype) if target is None else target
    result[...] = 0
    row = column = 0
    for x in values:
        m, n = x.shape[-2:]
        result[..., row : row + m, column : column + n] = x
        row, column = row + m, column + n
    return result


def _rows(ops: Ops, values: list[Any], shape: Shape) -> list[Any]:
    """Each with zeros to its left and right."""
    column: Any = 0
    rows = []
    for x in values:
        none, n = (0,) * (len(shape) - 1), x.shape[-1]
        high = (*none, shape[-1] - column - n)
        rows.append(
            ops.op("pad", x, low=(*none, column), high=high, interior=(0,) * len(shape), value=0)
        )
        column = column + n
    return rows

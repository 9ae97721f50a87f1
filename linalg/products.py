"""Products of vectors and matrices, under the names of numpy.linalg."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import functions
from .._base.errors import CallError, DTypeError, MatrixShapeError, ShapeError
from ..backend.door import is_torch
from ..program.trace import Traced
from .on_device import on_devices
from .operands import check_square, operand
from .solving import inv, number


def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> Any:
    """A₁ A₂ … A_k, multiplied in the order that takes the fewest multiplications.

    Args:
        arrays: two or more matrices whose sizes chain; the first and the last may be vectors.
        out: where the result is written; C-contiguous, of the result's dtype and shape.

    Returns:
        The product; a number if both ends are vectors.

    Raises:
        CallError: fewer than two arrays. ShapeError: a vector or more axes inside.

    The order costs k³ steps (Cormen, Leiserson, Rivest and Stein, Introduction to Algorithms, matrix
    chains). As `numpy.linalg.multi_dot`; `einloom.einsum` plans any network.

    >>> a, b, c = np.ones((100, 2)), np.ones((2, 100)), np.ones((100, 2))
    >>> multi_dot([a, b, c]).shape
    (100, 2)
    """
    given = list(arrays)
    if len(given) < 2:
        raise ShapeError(f"multi_dot: Expecting at least two arrays, got {len(given)}.")
    parts = [
        x if isinstance(x, np.ndarray) else operand("multi_dot", x, k) for k, x in enumerate(given)
    ]
    for k, x in enumerate(parts):
        if x.ndim != 2 and not (x.ndim == 1 and k in (0, len(parts) - 1)):
            raise MatrixShapeError(
                f"multi_dot: array {k} is {x.ndim}-dimensional, of shape {x.shape}; give matrices, and "
                f"vectors only at the ends"
            )
    sizes = [1 if parts[0].ndim == 1 else parts[0].shape[0]]
    sizes += [x.shape[0] for x in parts[1:]]
    sizes.append(1 if parts[-1].ndim == 1 else parts[-1].shape[1])
    tasks = (
        chain_order(sizes) if all(type(n) is int for n in sizes) else chain_order([1] * len(sizes))
    )
    values: dict[tuple[int, int], Any] = {(k, k): x for k, x in enumerate(parts)}
    for left, split, right in tasks:
        a, b = values.pop((left, split)), values.pop((split + 1, right))
        last = (left, right) == (0, len(parts) - 1)
        product = np.dot if type(a) is not Traced and type(b) is not Traced else operator.matmul
        values[left, right] = np.dot(a, b, out=out) if last and out is not None else product(a, b)
    return values[0, len(parts) - 1]


def chain_order(sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Products (i, s, j) of i..s with s+1..j, in an order in which operands come before results.

    >>> chain_order([10, 100, 5, 50])
    [(0, 0, 1), (0, 1, 2)]
    """
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    cut = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], cut[i][j] = min(
                (cost[i][s] + cost[s + 1][j] + sizes[i] * sizes[s + 1] * sizes[j + 1], s)
                for s in range(i, j)
            )
    order, open_ranges = [], [(0, n - 1)]
    while open_ranges:
        i, j = open_ranges.pop()
        if i < j:
            order.append((i, cut[i][j], j))
            open_ranges += [(i, cut[i][j]), (cut[i][j] + 1, j)]
    return order[::-1]


@on_devices
def matrix_power(a: Any, n: Any) -> Any:
    """aⁿ of square matrices, by repeated squaring; a⁻ⁿ is (a⁻¹)ⁿ, a⁰ the identity.

    Args:
        a: [..., m, m], of any dtype; for negative n one that `inv` takes.
        n: an integer.

    Raises:
        LinAlgError: not square, or singular and n < 0. DTypeError: n is no integer.

    At most 2 log₂ n products. As `numpy.linalg.matrix_power`.

    >>> matrix_power([[1, 1], [1, 0]], 10)
    array([[89, 55],
           [55, 34]])
    """
    x = a if isinstance(a, np.ndarray) else operand("matrix_power", a)
    if x.ndim < 2:
        raise MatrixShapeError(f"matrix_power: shape {x.shape} has no two axes")
    check_square("matrix_power", x)
    try:
        n = operator.index(n)
    except TypeError:
        raise DTypeError(f"matrix_power(n={n!r}): exponent must be an integer") from None
    if type(x) is not Traced and x.dtype == object and x.ndim > 2:
        raise DTypeError("matrix_power: stacks of arrays of objects have no product; one is taken")
    if n == 0:
        return _identity(x)
    x, n = (inv(x), -n) if n < 0 else (x, n)
    square, result = x, None
    while True:
        n, odd = divmod(n, 2)
        if odd:
            result = square if result is None else result @ square
        if not n:
            break
        square = square @ square
    return result.copy() if result is x and type(x) is not Traced else result


def _identity(x: Any) -> Any:
    if type(x) is Traced:
        raise CallError("matrix_power(n=0): inside trace there is no identity; pass it")
    found = np.empty_like(x)
    found[...] = np.eye(x.shape[-1], dtype=x.dtype)
    return found


@on_devices
def matmul(x1: Any, x2: Any, /) -> Any:
    """The product of matrices in the last two axes, over broadcast batch axes; as `numpy.matmul`."""
    if type(x1) is Traced or type(x2) is Traced:
        return x1 @ x2
    return np.matmul(x1, x2)


@on_devices
def matrix_transpose(x: Any, /) -> Any:
    """x [..., m, n] with its last two axes exchanged, as a view; as `numpy.linalg.matrix_transpose`.

    >>> matrix_transpose(np.ones((2, 3, 4))).shape
    (2, 4, 3)
    """
    x = x if isinstance(x, np.ndarray) else operand("matrix_transpose", x)
    if x.ndim < 2:
        raise MatrixShapeError(
            f"matrix_transpose: Input array must be at least 2-dimensional, but it is {x.ndim}"
        )
    if type(x) is Traced:
        return x.permuted((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return x.swapaxes(-1, -2)


@on_devices
def outer(x1: Any, x2: Any, /) -> Any:
    """x1_i x2_j of two vectors; as `numpy.linalg.outer`.

    >>> outer([1, 2], [3, 4])
    array([[3, 4],
           [6, 8]])
    """
    x, y = np.asanyarray(x1), np.asanyarray(x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(
            f"outer: Input arrays must be one-dimensional, but they are x1.ndim={x.ndim} and "
            f"x2.ndim={y.ndim}."
        )
    return np.outer(x, y)


@on_devices
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The vector products of vectors of three components along `axis`; as `numpy.linalg.cross`.

    >>> cross([1, 0, 0], [0, 1, 0])
    array([0, 0, 1])
    """
    x, y = np.asanyarray(x1), np.asanyarray(x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ShapeError(
            f"cross: Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{x.shape[axis]} and {y.shape[axis]} dimensional instead."
        )
    return np.cross(x, y, axis=axis)


@on_devices
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """The sum of products over pairs of axes; as `numpy.tensordot`. See also `einloom.tensordot`."""
    return np.tensordot(x1, x2, axes=axes)


@on_devices
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Σ_i conj(x1_i) x2_i along `axis`, over broadcast others; as `numpy.linalg.vecdot`.

    >>> vecdot([1j, 2], [1j, 2])
    np.complex128(5+0j)
    """
    x, y = np.moveaxis(np.asanyarray(x1), axis, -1), np.moveaxis(np.asanyarray(x2), axis, -1)
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(f"vecdot(axis={axis}): sizes {x.shape[-1]} and {y.shape[-1]} differ")
    return number(np.matmul(x.conj()[..., None, :], y[..., :, None])[..., 0, 0])


@on_devices
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices [..., m, n] as a view, `offset` above the main one; as NumPy's.

    `einloom.diagonal` takes any two axes.
    """
    if type(x) is Traced or is_torch(x):
        return functions.diagonal(x, offset, -2, -1)
    return np.diagonal(_stack("diagonal", x), offset=offset, axis1=-2, axis2=-1)


@on_devices
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of matrices [..., m, n]; as `numpy.linalg.trace`.

    `einloom.functions.trace` takes any two axes, and `out`.

    >>> trace([[1, 2], [3, 4]])
    np.int64(5)
    """
    if type(x) is Traced or is_torch(x):
        return functions.trace(x, offset, -2, -1, dtype)
    return np.trace(_stack("trace", x), offset=offset, axis1=-2, axis2=-1, dtype=dtype)


def _stack(call: str, x: Any) -> Any:
    x = np.asanyarray(x)
    if x.ndim < 2:
        raise MatrixShapeError(f"{call}: shape {x.shape} has no two axes for a matrix")
    return x

"""Products and solves with circulant and Toeplitz matrices, batched, in O(n log n) a product.

Vectors lie along the last axis, and batch axes in front of it broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import LinAlgError, ShapeError
from .arguments import numbers
from .grids import next_fast_len
from .transforms import fft, ifft, irfft, rfft


def circulant_matmul(c: Any, x: Any) -> Any:
    """y[i] = sum_j c[(i - j) mod n] x[j]: the product with the circulant matrix of first column c.

    Args:
        c: (..., n), the first columns.
        x: (..., n), the vectors.

    Returns:
        (..., n), real where both are.

    Raises:
        ShapeError: lengths differ, or batch axes do not broadcast.

    >>> circulant_matmul([1.0, 2, 3], [1.0, 0, 0])
    array([1., 2., 3.])
    """
    first, vector, n = _pair("circulant_matmul", c, x)
    forward, inverse = _transforms(first, vector)
    return inverse(forward(first) * forward(vector), n)


def circulant_solve(c: Any, b: Any) -> Any:
    """The x with sum_j c[(i - j) mod n] x[j] = b[i]: b's spectrum divided by that of c.

    Args:
        c: (..., n), the first columns.
        b: (..., n), the right-hand sides.

    Returns:
        (..., n), real where both are; in O(n log n).

    Raises:
        LinAlgError: an eigenvalue of a matrix is 0 to working precision.
        ShapeError: lengths differ, or batch axes do not broadcast.

    As `scipy.linalg.solve_circulant`.

    >>> circulant_solve([2.0, 1, 0], [5.0, 5, 8]).round(12)
    array([1., 2., 3.])
    """
    first, right, n = _pair("circulant_solve", c, b)
    forward, inverse = _transforms(first, right)
    eigenvalues = forward(first)
    sizes = np.abs(eigenvalues)
    least = n * np.finfo(sizes.dtype).eps * sizes.max(axis=-1, keepdims=True)
    if np.any(sizes <= least):
        bad = (sizes <= least).any(axis=-1)
        failed = tuple(tuple(map(int, k)) for k in np.argwhere(bad))
        where = f" at {', '.join(map(str, failed[:3]))} of the batch" if bad.ndim else ""
        raise LinAlgError(
            f"circulant_solve: the matrix is singular{where}, its transform has a 0; for the least "
            f"solution divide the spectra where there is none",
            bad.astype(np.int32),
            failed,
        )
    return inverse(forward(right) / eigenvalues, n)


def toeplitz_matmul(c: Any, r: Any, x: Any) -> Any:
    """y[i] = sum_j t[i - j] x[j], t[k] = c[k] for k >= 0 and r[-k] for k < 0: a Toeplitz matrix times x.

    Args:
        c: (..., m), the first columns.
        r: (..., n), the first rows, of which r[0] is not read; None: conj(c).
        x: (..., n), the vectors.

    Returns:
        (..., m), real where all are; by a circulant matrix of m + n - 1 rows or more.

    Raises:
        ShapeError: lengths differ, or batch axes do not broadcast.

    As `scipy.linalg.matmul_toeplitz`.

    >>> toeplitz_matmul([1.0, 2, 3], [1.0, 5], [1.0, 10]).round(12)
    array([51., 12., 23.])
    """
    column, row = _column_and_row("toeplitz_matmul", c, r)
    vector = numbers(x, "toeplitz_matmul")[0]
    m, n = column.shape[-1], row.shape[-1]
    if vector.ndim == 0 or vector.shape[-1] != n:
        raise ShapeError(f"toeplitz_matmul: the matrix has {n} columns, x has shape {vector.shape}")
    _broadcast("toeplitz_matmul", column, row, vector)
    forward, inverse = _transforms(column, row, vector)
    length = next_fast_len(m + n - 1, real=forward is rfft)
    batch = np.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    wrapped = np.zeros((*batch, length), np.result_type(column, row))
    wrapped[..., :m] = column
    if n > 1:
        wrapped[..., -(n - 1) :] = row[..., :0:-1]
    return inverse(forward(wrapped) * forward(vector, length), length)[..., :m]


def toeplitz_solve(c: Any, r: Any, b: Any) -> Any:
    """The x with sum_j t[i - j] x[j] = b[i] for a square Toeplitz matrix, by Levinson's recursion.

    Args:
        c: (..., n), the first columns.
        r: (..., n), the first rows, of which r[0] is not read; None: conj(c).
        b: (..., n), the right-hand sides.

    Returns:
        (..., n), after one step of refinement by `toeplitz_matmul`; in O(n^2) for each system.

    Raises:
        LinAlgError: a leading principal minor is 0, as it may be of a regular matrix too.
        ShapeError: lengths differ, or batch axes do not broadcast.

    As `scipy.linalg.solve_toeplitz`.

    >>> toeplitz_solve([2.0, 1, 0], None, [4.0, 8, 8])
    array([1., 2., 3.])
    """
    from scipy.linalg import solve_toeplitz

    column, row = _column_and_row("toeplitz_solve", c, r)
    right = numbers(b, "toeplitz_solve")[0]
    n = column.shape[-1]
    if row.shape[-1] != n or right.ndim == 0 or right.shape[-1] != n:
        raise ShapeError(
            f"toeplitz_solve: c of shape {column.shape}, r of {row.shape} and b of {right.shape} need "
            f"equal lengths"
        )
    dtype = np.result_type(column, row, right)
    shape = _broadcast("toeplitz_solve", column, row, right)
    columns, rows, rights = (np.broadcast_to(z, shape).reshape(-1, n) for z in (column, row, right))

    def solved(against: Any) -> Any:
        found = np.empty(against.shape, dtype)
        for k in range(against.shape[0]):
            try:
                found[k] = solve_toeplitz((columns[k], rows[k]), against[k], check_finite=False)
            except np.linalg.LinAlgError as error:
                where = tuple(map(int, np.unravel_index(k, shape[:-1]))) if shape[:-1] else ""
                raise LinAlgError(
                    f"toeplitz_solve: Levinson's recursion meets a singular leading block {where}"
                    f" ({error}); solve with the dense matrix"
                ) from None
        return found

    x = solved(rights)
    x += solved(rights - toeplitz_matmul(columns, rows, x))
    return x.reshape(shape)


def _pair(call: str, c: Any, x: Any) -> tuple[Any, Any, int]:
    first, vector = numbers(c, call)[0], numbers(x, call)[0]
    if not first.ndim or not vector.ndim or first.shape[-1] != vector.shape[-1]:
        raise ShapeError(f"{call}: shapes {first.shape} and {vector.shape} need equal last axes")
    _broadcast(call, first, vector)
    return first, vector, first.shape[-1]


def _column_and_row(call: str, c: Any, r: Any) -> tuple[Any, Any]:
    column = numbers(c, call)[0]
    row = column.conj() if r is None else numbers(r, call)[0]
    if not column.ndim or not row.ndim or not column.shape[-1] or not row.shape[-1]:
        raise ShapeError(f"{call}: c of shape {column.shape} and r of {row.shape} need a last axis")
    return column, row


def _broadcast(call: str, *arrays: Any) -> tuple[int, ...]:
    try:
        batch = np.broadcast_shapes(*(x.shape[:-1] for x in arrays))
    except ValueError:
        shapes = " and ".join(str(x.shape) for x in arrays)
        raise ShapeError(f"{call}: batch axes of shapes {shapes} do not broadcast") from None
    return (*batch, arrays[0].shape[-1])


def _transforms(*arrays: Any) -> tuple[Any, Any]:
    if any(x.dtype.kind == "c" for x in arrays):
        return fft, ifft
    return rfft, irfft

"""LU with full pivoting: the largest element of what is left is each step's pivot.

For matrices near singular ones, of which partial pivoting does not tell the rank. Golub and Van Loan,
Matrix Computations, section 3.4.8; LAPACK's getc2 does the same but changes small pivots.
"""

from __future__ import annotations

import math

import numpy as np

from .plain import Array, Trans, triangular_solve


def full_piv_lu(a: Array) -> tuple[Array, Array, Array]:
    """(packed, rows, cols) with a[rows][:, cols] = L @ U, L and U packed; indices [..., n] of the batch.

    All members take a step at once: n steps of a rank-one update of the whole batch.
    """
    n = a.shape[-1]
    work = a.reshape(math.prod(a.shape[:-2]), n, n).copy()
    rows, cols = (np.tile(np.arange(n), (len(work), 1)) for _ in range(2))
    member = np.arange(len(work))
    for k in range(n if len(work) else 0):
        size = abs(work[:, k:, k:]).reshape(len(work), -1)
        at = np.where(np.isnan(size), -1, size).argmax(axis=-1)
        row, col = k + at // (n - k), k + at % (n - k)
        for x, i in ((work, row), (rows, row)):
            x[member, i], x[:, k] = x[:, k].copy(), x[member, i]
        swapped = work[member, :, col]
        work[member, :, col] = work[:, :, k]
        work[:, :, k] = swapped
        cols[member, col], cols[:, k] = cols[:, k].copy(), cols[member, col]
        pivot = work[:, k, k, None]
        with np.errstate(all="ignore"):
            work[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)  # all that is left is zero
            work[:, k + 1 :, k + 1 :] -= work[:, k + 1 :, k, None] * work[:, k, None, k + 1 :]
    shape = a.shape[:-1]
    return work.reshape(a.shape), rows.reshape(shape), cols.reshape(shape)


def full_piv_lu_solve(
    lower: Array, upper: Array, rows: Array, cols: Array, b: Array, trans: Trans = "N"
) -> tuple[Array, Array]:
    """x of op(a) @ x = b where a[rows][:, cols] = lower @ upper.

    `info` is one plus the first pivot at most n eps times the largest: no factor on a changes it.
    """
    n = upper.shape[-1]
    size = abs(np.diagonal(upper, axis1=-2, axis2=-1))
    small = ~(size > n * np.finfo(size.dtype).eps * size.max(axis=-1, keepdims=True, initial=0))
    info = np.where(small.any(axis=-1), small.argmax(axis=-1) + 1, 0) if n else small.sum(axis=-1)
    first, last = (rows, cols) if trans == "N" else (cols, rows)
    y = np.take_along_axis(b, first[..., None], axis=-2)
    with np.errstate(all="ignore"):
        if trans == "N":
            y = triangular_solve(lower, y, True, "N", True)[0]
            y = triangular_solve(upper, y, False, "N", False)[0]
        else:
            y = triangular_solve(upper, y, False, trans, False)[0]
            y = triangular_solve(lower, y, True, trans, True)[0]
    x = np.empty_like(y)
    np.put_along_axis(x, np.broadcast_to(last[..., None], y.shape), y, axis=-2)
    return x, np.asarray(info).astype(np.int32)

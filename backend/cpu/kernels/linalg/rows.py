"""LU of matrices by rows, in panels of columns, with BLAS for what is left.

A panel lies by columns while it is factored, a few of its columns at a time. What a row-major matrix is by
columns is its transpose, so nothing else is transposed: rows are exchanged and solved for where they are,
and one product of matrices does the rest. This is the right-looking form of LAPACK's getrf.
"""

from __future__ import annotations

from typing import Any

from ...jit import kernel, part

call_routine: Any = None

WIDTH = 32  # columns of a panel
FEW = 8  # of these that are factored before the others follow
# pointers of arguments, in BLAS's order, and where the sizes and the matrices among them are
GEMM, TRSM = 13, 11
ROWS, COLUMNS, DEPTH = 0, 1, 2


@part
def size_of(x: Any) -> Any:
    """As LAPACK measures candidates for a pivot."""
    return abs(x.real) + abs(x.imag)


@part
def subtract(column: Any, other: Any, factor: Any) -> None:
    """column - other * factor."""
    for r in range(len(column)):
        column[r] -= other[r] * factor


@part
def exchange(one: Any, other: Any) -> None:
    """Two rows."""
    for c in range(len(one)):
        one[c], other[c] = other[c], one[c]


@part
def factor_column(panel: Any, c: int, rows: int, first: int, smallest: Any, pivots: Any) -> int:
    """The pivot and the factors of a column; one plus its number if the pivot is zero, or 0."""
    column = panel[c, c:rows]
    where, best = 0, size_of(column[0])
    for r in range(1, len(column)):
        size = size_of(column[r])
        if size > best:
            where, best = r, size
    pivots[first + c] = first + c + where
    if where > 0:
        for k in range(panel.shape[0]):
            panel[k, c], panel[k, c + where] = panel[k, c + where], panel[k, c]
    pivot, below = column[0], column[1:]
    if size_of(pivot) >= smallest:
        inverse = 1 / pivot
        for r in range(len(below)):
            below[r] *= inverse
    elif pivot != 0:
        for r in range(len(below)):
            below[r] /= pivot
    else:
        return first + c + 1
    return 0


@part
def factor_panel(
    panel: Any,
    rows: int,
    width: int,
    first: int,
    smallest: Any,
    pivots: Any,
    sizes: Any,
    pointers: Any,
    table: Any,
    gemm: int,
) -> int:
    """Pivots and factors of panel[column, row]; one plus the first column whose pivot is zero, or 0."""
    bad = 0
    for left in range(0, width, FEW):
        right = min(left + FEW, width)
        for c in range(left, right):
            found = factor_column(panel, c, rows, first, smallest, pivots)
            bad = bad if bad else found
            for k in range(c + 1, right):
                subtract(panel[k, c + 1 : rows], panel[c, c + 1 : rows], panel[k, c])
        if right == width:
            break
        for k in range(right, width):
            for c in range(left, right):
                subtract(panel[k, c + 1 : right], panel[c, c + 1 : right], panel[k, c])
        if right < rows:
            sizes[ROWS], sizes[COLUMNS], sizes[DEPTH] = rows - right, width - right, right - left
            pointers[6] = panel[left, right:].ctypes.data
            pointers[8] = panel[right, left:].ctypes.data
            pointers[11] = panel[right, right:].ctypes.data
            call_routine(gemm, GEMM, pointers, table, 0)
    return bad


@kernel
def lu_by_rows(
    packed: Any,
    diagonals: Any,
    pivots: Any,
    info: Any,
    panel: Any,
    smallest: Any,
    sizes: Any,
    pointers: Any,
    table: Any,
    gemm: int,
    trsm: int,
) -> None:
    """The factors of each matrix, in its place.

    Args:
        packed: [batch, m, n].
        diagonals: [batch, min(m, n)], of u.
        pivots: [batch, min(m, n)], counted from 0.
        info: one plus the first column whose pivot is zero, or 0.
        panel: WIDTH columns of m rows at least.
        smallest: the least size of a pivot whose inverse is a number.
        sizes: rows, columns and depth for BLAS.
        pointers: [3, GEMM], of BLAS's arguments: of a product within a panel, of one beside it, and of the
            triangular solve between them; those of matrices are put in here.
        table: 0, 1, 2, ...
        gemm, trsm: addresses of routines of BLAS.
    """
    m, n = packed.shape[1], packed.shape[2]
    k = min(m, n)
    for index in range(packed.shape[0]):
        matrix, code = packed[index], 0
        for left in range(0, k, WIDTH):
            width = min(WIDTH, k - left)
            right = left + width
            for r in range(left, m):
                row = matrix[r, left:right]
                for c in range(len(row)):
                    panel[c, r - left] = row[c]
            bad = factor_panel(
                panel, m - left, width, left, smallest, pivots[index], sizes, pointers[0], table,
                gemm,
            )  # fmt: skip
            code = code if code else bad
            for r in range(left, m):
                row = matrix[r, left:right]
                for c in range(len(row)):
                    row[c] = panel[c, r - left]
            for at in range(left, right):
                other = pivots[index, at]
                if other != at:
                    exchange(matrix[at, :left], matrix[other, :left])
                    exchange(matrix[at, right:], matrix[other, right:])
            if right < n:
                sizes[ROWS], sizes[COLUMNS] = n - right, width
                pointers[2, 9] = matrix[left, right:].ctypes.data
                call_routine(trsm, TRSM, pointers[2], table, 0)
            if right < m and right < n:
                sizes[ROWS], sizes[COLUMNS], sizes[DEPTH] = n - right, m - right, width
                pointers[1, 6] = matrix[left, right:].ctypes.data
                pointers[1, 8] = matrix[right, left:].ctypes.data
                pointers[1, 11] = matrix[right, right:].ctypes.data
                call_routine(gemm, GEMM, pointers[1], table, 0)
        for c in range(k):
            diagonals[index, c] = matrix[c, c]
        info[index] = code


@kernel
def solve_by_rows(
    packed: Any,
    pivots: Any,
    info: Any,
    x: Any,
    pointers: Any,
    table: Any,
    trsm: int,
) -> None:
    """x of a x = b for the factors of each a that has them; x is b before, and where there are none.

    Args:
        packed: [batch, n, n], as `lu_by_rows` leaves them.
        pivots: [batch, n], counted from 0.
        info: [batch], not 0 where a pivot is.
        x: [batch, n, k].
        pointers: [2, TRSM], of BLAS's arguments: a solve by l, then by u; matrices are put in here.
        table: 0, 1, 2, ...
        trsm: the address of BLAS's routine.
    """
    for index in range(x.shape[0]):
        if info[index] != 0:
            continue
        right = x[index]
        for at in range(x.shape[1]):
            other = pivots[index, at]
            if other != at:
                exchange(right[at], right[other])
        for call in range(2):
            pointers[call, 7] = packed[index].ctypes.data
            pointers[call, 9] = right.ctypes.data
            call_routine(trsm, TRSM, pointers[call], table, 0)

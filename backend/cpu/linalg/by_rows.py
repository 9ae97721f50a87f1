"""LU of batches of larger matrices, row-major from beginning to end.

LAPACK's getrf wants columns, and OpenBLAS's is slow for orders of some hundreds: in panels, by a kernel and
products of BLAS, the same takes half of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..blas import ONE_BLAS_THREAD
from ..kernels.linalg.rows import GEMM, TRSM, WIDTH, lu_by_rows, solve_by_rows
from ..threads import Run
from .plain import Array
from .routines import address
from .turns import in_turns

Follow = Callable[[slice, Array], None]
PADDING = 8  # rows of a panel beside a matrix's: its columns are not to share sets of a cache


def suits(a: Array) -> bool:
    """Whether matrices are large enough for more than one panel."""
    return bool(min(a.shape[-2:]) > WIDTH)


def factored(
    a: Array,
    packed: Array | None,
    pivots: Array,
    info: Array,
    follow: Callable[[], Follow] | None = None,
) -> Array:
    """The diagonals of u [batch, k] of a [batch, m, n]; the factors go to `packed` where there is one.

    pivots [batch, k] are counted from 0; info [batch] is one plus the first column whose pivot is zero. What
    `follow` makes for a thread sees which matrices were factored, and their factors.
    """
    count, m, n = a.shape
    dtype = a.dtype
    diagonals = np.empty((count, min(m, n)), dtype)
    gemm, trsm = _address("gemm", dtype), _address("trsm", dtype)
    smallest = np.finfo(dtype).tiny

    def begin() -> Run:
        scratch = np.empty((int(packed is None), m, n), dtype)
        panel = np.empty((WIDTH, m + PADDING), dtype)
        pointers, sizes, *kept = _arguments(panel, n)
        then = None if follow is None else follow()
        table = np.arange(GEMM)[None]

        def factor(at: slice, work: Array, kept: Any = kept) -> None:
            np.copyto(work, a[at])
            lu_by_rows(
                work, diagonals[at], pivots[at], info[at], panel, smallest, sizes, pointers, table,
                gemm, trsm,
            )  # fmt: skip
            if then is not None:
                then(at, work)

        def run(start: int, stop: int) -> None:
            if packed is not None:
                factor(slice(start, stop), packed[start:stop])
                return
            for k in range(start, stop):
                factor(slice(k, k + 1), scratch)

        return run

    with ONE_BLAS_THREAD:
        in_turns(begin, count)
    return diagonals


def solve(a: Array, b: Array, x: Array, info: Array) -> None:
    """x [batch, n, k] of a x = b; where info [batch] is not 0 afterwards, x is b."""
    count, n, k = x.shape
    pivots, trsm = np.empty((count, n), np.int32), _address("trsm", x.dtype)

    def follow() -> Follow:
        sizes, letters = np.array([k, n], np.int32), np.array([ord(x) for x in "RUNL"], np.uint8)
        one, table = np.ones(1, x.dtype), np.arange(TRSM)[None]
        columns, order = sizes, sizes[1:]
        right, upper, no, lower = (letters[at:] for at in range(4))
        calls = [
            (right, triangle, no, unit, columns, order, one, x, order, x, columns)
            for triangle, unit in ((upper, upper), (lower, no))  # U says unit, too
        ]
        pointers = np.array([[y.__array_interface__["data"][0] for y in call] for call in calls])

        def then(at: slice, packed: Array, kept: Any = (sizes, letters, one)) -> None:
            np.copyto(x[at], b[at])
            solve_by_rows(packed, pivots[at], info[at], x[at], pointers, table, trsm)

        return then

    factored(a, None, pivots, info, follow)


def _address(name: str, dtype: np.dtype[Any]) -> int:
    return address(dtype.char.translate(str.maketrans("fdFD", "sdcz")) + name)


def _arguments(panel: Array, n: int) -> tuple[Array, ...]:
    """Pointers of the arguments of all calls, what they point to, sizes first."""
    sizes = np.array([0, 0, 0, panel.shape[1], n], np.int32)
    letters = np.array([ord(letter) for letter in "NRLTU"], np.uint8)
    factors = np.array([-1, 1], panel.dtype)
    rows, columns, depth, column, row = (sizes[k:] for k in range(5))
    no, right, lower, transposed, unit = (letters[k:] for k in range(5))
    minus, one = factors, factors[1:]
    products = [
        (no, no, rows, columns, depth, minus, panel, lead, panel, lead, one, panel, lead)
        for lead in (column, row)
    ]
    solve = (right, lower, transposed, unit, rows, columns, one, panel, column, panel, row)
    calls: tuple[tuple[Array, ...], ...] = (*products, (*solve, *(one,) * (GEMM - TRSM)))
    pointers = [[x.__array_interface__["data"][0] for x in call] for call in calls]
    return np.array(pointers, np.int64), sizes, letters, factors

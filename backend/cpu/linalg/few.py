"""A few small matrices, again and again: NumPy's loops over batches, and nothing else that takes time.

Each function here makes one that takes a batch [k, ...] and gives what `plain` gives of it, but for
`info`: None where a matrix failed, and where `plain` does more than to call NumPy.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import own, prepared
from .plain import Array

Run = Callable[..., Any]
MOST = 64  # matrices: of more the work is longer than what is saved, and the looks at numbers below too


def solve(char: str) -> Run | None:
    """a, b -> x."""
    return _unscaled(own.run("solve", char))


def inv(char: str) -> Run | None:
    """a -> x."""
    return _unscaled(own.run("inv", char))


def det(n: int, char: str) -> Run | None:
    """a -> numbers [k]."""
    loop = own.run("det", char)
    if loop is None or n == 1:
        return _unscaled(loop)

    def run(a: Array) -> Any:
        found = loop(a)
        if found is None:
            return None
        # of a matrix that scaling.py lifts it is 0, infinite or NaN, and so is the product
        product = math.prod(found.tolist())
        return found if product and cmath.isfinite(product) else None

    return run


def cholesky(char: str) -> Run | None:
    """a -> l with a = l lᴴ."""
    loop = own.run("cholesky_lo", char)
    if loop is None:
        return None

    def run(a: Array) -> Any:
        factor = loop(a)
        if factor is None:
            return None
        last = sum(factor[:, -1, -1].tolist())
        return factor if last == last else None  # OpenBLAS goes on with NaN

    return run


def lu(m: int, n: int, char: str) -> Run:
    """a -> (packed, pivots); NumPy has no loop for it."""
    getrf, k = prepared.routine("getrf", char), min(m, n)

    def run(a: Array) -> Any:
        if _perhaps_tiny(a):
            return None
        work = a.swapaxes(1, 2).copy().swapaxes(1, 2)  # by columns: LAPACK overwrites it
        pivots = np.empty((len(a), k), np.int32)
        for x, steps in zip(work, pivots, strict=True):
            _, steps[...], _ = getrf(x, 1)
        return np.ascontiguousarray(work), pivots

    return run


def qr(char: str) -> Run | None:
    """a -> (q, r)."""
    return own.qr(char)


def eigh(char: str) -> Run | None:
    """a -> (w, v)."""
    return own.run("eigh_lo", char)


def svd(char: str, full: bool) -> Run | None:
    """a -> (u, s, vh)."""
    return _of_finite(own.run("svd_f" if full else "svd_s", char))


def eig(char: str) -> Run | None:
    """a -> (w, v)."""
    return _of_finite(own.run("eig", char))


def lstsq(m: int, n: int, char: str) -> Run | None:
    """a, b -> (x, residuals, rank, s) of matrices with m > n and full rank."""
    loop = own.run("lstsq", char)
    if loop is None or m <= n:
        return None
    rcond = float(np.finfo(char).eps * m)

    def run(a: Array, b: Array) -> Any:
        found = loop(a, b, rcond) if prepared.is_finite(a) else None
        if found is None or found[2].tolist().count(n) != len(a):
            return None
        return found

    return run


def stacked(run: Run) -> Run:
    """The same with any batch axes, all operands with the same."""

    def runs(*arrays: Array) -> Any:
        batch = arrays[0].shape[:-2]
        found = run(*(x.reshape(-1, *x.shape[-2:]) for x in arrays))
        if found is None:
            return None
        if isinstance(found, tuple):
            return tuple(x.reshape(*batch, *x.shape[1:]) for x in found)
        return found.reshape(*batch, *found.shape[1:])

    return runs


# ---- helpers -------------------------------------------------------------------------------------


def _unscaled(loop: Run | None) -> Run | None:
    """Only for matrices that scaling.py does not lift."""
    if loop is None:
        return None
    return lambda a, *b: None if _perhaps_tiny(a) else loop(a, *b)


def _of_finite(loop: Run | None) -> Run | None:
    if loop is None:
        return None
    return lambda a: loop(a) if prepared.is_finite(a) else None


def _perhaps_tiny(a: Array) -> bool:
    """Whether a first element is not far above what is tiny in single precision."""
    return not _least(a[:, 0, 0]) > prepared.FAR


def _least(numbers: Array) -> float:
    """Of few numbers the least real part, sooner than NumPy finds it; Python's modulus may overflow."""
    return min(map(abs, numbers.real.tolist()))

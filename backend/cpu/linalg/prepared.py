"""One small matrix, again and again: functions of which all that shape and dtype settle is settled before.

Each function here makes one that takes a matrix and gives what the package's function of that name gives;
`info` may be a number of Python. They call SciPy's wrappers of LAPACK with arguments by position, and
leave to `plain` what is not finite, or scaled before it is worked on.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from . import own, plain
from .plain import GOOD, Array
from .scaling import tiny

Run = Callable[..., Any]

FAR = 1e-20  # far above what is tiny in single precision
ASUM = {"f": "sasum", "d": "dasum", "F": "scasum", "D": "dzasum"}
UNDIVIDED = 25  # order of matrices that gesdd does not divide

_kept = lru_cache(1024)
_c_order = np.ascontiguousarray


@_kept
def routine(name: str, char: str) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(name, dtype=char)


@_kept
def solve(char: str) -> Run:
    """a, b -> (x, info)."""
    gesv = routine("gesv", char)

    def run(a: Array, b: Array) -> Any:
        if _perhaps_tiny(a):
            return plain.solve(a, b)
        _, _, x, info = gesv(a, b)
        return _c_order(x), info

    return run


@_kept
def inv(n: int, char: str) -> Run:
    """a -> (x, info)."""
    run, one = solve(char), np.eye(n, dtype=char, order="F")
    one.flags.writeable = False
    return lambda a: run(a, one)


@_kept
def det(n: int, char: str) -> Run:
    """a -> number."""
    loop = own.run("det", char)
    if n == 1:
        return lambda a: a[0, 0]

    def run(a: Array) -> Any:
        found = None if loop is None else loop(a)
        # 0, infinite or NaN: perhaps of a matrix that scaling.py lifts
        return found if found and cmath.isfinite(found) else plain.det(a)[()]

    return run


@_kept
def cholesky(char: str, lower: bool) -> Run:
    """a -> (factor, info): of the transpose, which lies by columns, the transposed factors."""
    potrf, other = routine("potrf", char), not lower

    def run(a: Array) -> Any:
        factor, info = potrf(a.T, other)
        last = factor.item(-1)
        if last != last and not info:  # OpenBLAS goes on with NaN
            return plain.cholesky(a, lower)
        return factor.T, info

    return run


@_kept
def lu(char: str) -> Run:
    """a -> (packed, pivots, info)."""
    getrf = routine("getrf", char)

    def run(a: Array) -> Any:
        if _perhaps_tiny(a):
            return plain.lu(a)
        packed, pivots, info = getrf(a)
        return packed.copy(), pivots, info

    return run


@_kept
def qr(m: int, n: int, char: str, vectors: bool = True) -> Run:
    """a -> (q, r), or r.

    Single precision is computed in double, as NumPy does: the error of geqrf itself depends on the kernels
    of a BLAS, and may be twice what NumPy's tests allow.
    """
    if char in "fF":
        return _single_qr(char, vectors)
    k = min(m, n)
    geqrf, to_q = routine("geqrf", char), routine("ungqr" if char == "D" else "orgqr", char)
    below = np.flatnonzero(~own.upper(k, n))
    zero, room = np.zeros(1, char), 3 * k

    def run(a: Array) -> Any:
        packed, tau, _, _ = geqrf(a)
        r = packed[:k].copy()
        r.put(below, zero)
        if not vectors:
            return r
        q, _, _ = to_q(packed[:, :k] if n > k else packed, tau, room, 1)
        return q.copy(), r

    return run


def _single_qr(char: str, vectors: bool) -> Run:
    loop = own.qr(char, vectors)

    def run(a: Array) -> Any:
        found = None if loop is None else loop(a)
        return plain.qr(a, "reduced" if vectors else "r") if found is None else found

    return run


@_kept
def eigh(char: str, lower: bool, vectors: bool) -> Run:
    """a -> (w, v or None, info)."""
    syevd = routine("heevd" if char in "FD" else "syevd", char)
    # the lower triangle is the upper one of the transpose, of which the reduction takes less time
    is_turned = lower and char in "fd"
    low = lower and not is_turned

    def run(a: Array) -> Any:
        w, v, info = syevd(a.T if is_turned else a, vectors, low)
        return w, v.copy() if vectors else None, info

    return run


@_kept
def svd(m: int, n: int, char: str, full: bool, vectors: bool) -> Run:
    """a -> (u or None, s, vh or None, info).

    gesdd may never return from infinity; of small matrices gesvd does the same and needs less. Single
    precision is NumPy's: its tests compare singular values of several routines to less than two units of
    rounding, and SciPy brings another build of LAPACK.
    """
    if char in "fF":
        return _single_svd(char, full, vectors)
    routine_of_size = routine("gesvd" if max(m, n) <= UNDIVIDED else "gesdd", char)
    total = _total(char)

    def run(a: Array) -> Any:
        if not math.isfinite(total(a.ravel())):
            return plain.svd(a, full, vectors)
        # of the transpose no result would be copied, but the errors of graded matrices are 25 times as large
        u, s, vh, info = routine_of_size(a, vectors, full)
        return (u.copy(), s, vh.copy(), info) if vectors else (None, s, None, info)

    return run


def _single_svd(char: str, full: bool, vectors: bool) -> Run:
    loop = own.run("svd_f" if full else "svd_s", char) if vectors else None

    def run(a: Array) -> Any:
        found = loop(a) if loop is not None and is_finite(a) else None
        return plain.svd(a, full, vectors) if found is None else (*found, GOOD)

    return run


@_kept
def eig(n: int, char: str, right: bool) -> Run:
    """a -> (w, None, vr or None, info); a matrix that LAPACK would scale is left to NumPy."""
    double = double_eig(n, char) if right and char in "dD" else None
    if double is None:
        return _in_range(_geev(char, right), n, char, lambda a: plain.eig(a, False, right))

    def run(a: Array) -> Any:
        found = double(a)
        return plain.eig(a) if found is None else (found[0], None, found[1], GOOD)

    return run


@_kept
def double_eig(n: int, char: str) -> Run | None:
    """a -> (w, vr), None of a matrix that is left to NumPy's function: its loop makes the vectors of complex
    pairs in compiled code."""
    loop = own.loop("eig", char)
    return None if loop is None else own.quiet(_in_range(loop, n, char, lambda a: None))


def _in_range(run: Run, n: int, char: str, other: Run) -> Run:
    """`run` where LAPACK's geev scales nothing, `other` elsewhere.

    The sum of |re| + |im| tells, which is at most 2 n² times the largest modulus.
    """
    limits, total = np.finfo(char), _total(char)
    high = float(limits.eps) / math.sqrt(limits.tiny) / 4
    low = 2 * n * n / high

    def runs(a: Array) -> Any:
        return run(a) if low < total(a.ravel()) < high else other(a)

    return runs


def _geev(char: str, right: bool) -> Run:
    geev = routine("geev", char)
    if char in "FD":

        def of_complex(a: Array) -> Any:
            w, _, v, info = geev(a, 0, right)
            return w, None, _c_order(v) if right else None, info

        return of_complex

    def of_real(a: Array) -> Any:
        re, im, _, pairs, info = geev(a, 0, right)
        w = np.empty(len(a), char.upper())
        w.real, w.imag = re, im
        return w, None, _paired(pairs, im.tolist()) if right else None, info

    return of_real


def is_finite(a: Array) -> bool:
    """Whether all elements are finite; False of some huge ones too.

    One sum of sizes says sooner than a look at each, and that of BLAS warns of nothing.
    """
    return math.isfinite(_total(a.dtype.char)(a.ravel()))


@_kept
def _total(char: str) -> Any:
    """a [k] -> the sum of |re a| + |im a|."""
    from scipy.linalg import blas

    return getattr(blas, ASUM[char])


# ---- helpers -------------------------------------------------------------------------------------


def _perhaps_tiny(a: Array) -> bool:
    """Whether a look at all elements must tell if the matrix is one that scaling.py lifts."""
    if not -FAR < a.item(0).real < FAR:
        return False
    return bool(np.vdot(a, a).real < tiny(a.dtype.char)[0])


def _paired(pairs: Array, im: list[float]) -> Array:
    """Complex vectors: of a pair the real parts are in its first column, the imaginary ones in the other."""
    n = len(im)
    parts = np.zeros((n, 2 * n), pairs.dtype)
    parts[:, ::2] = pairs
    for k, value in enumerate(im[:-1]):
        if value > 0:
            other = pairs[:, k + 1]
            parts[:, 2 * k + 1] = other
            parts[:, 2 * k + 2] = pairs[:, k]
            np.negative(other, parts[:, 2 * k + 3])
    return parts.view(pairs.dtype.char.upper())

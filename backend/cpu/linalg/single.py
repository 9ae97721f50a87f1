"""One small matrix: SciPy's wrappers of LAPACK without what NumPy's functions do around theirs.

A few microseconds each; the routines are looked up once for each dtype.
"""

from __future__ import annotations

import math
import operator
from functools import cache
from typing import Any

import numpy as np

from . import own, plain
from .plain import GOOD, Array, QRMode
from .scaling import tiny


@cache
def _routine(name: str, char: str) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(name, dtype=char)


@cache
def _one(n: int, char: str) -> Array:
    one = np.eye(n, dtype=char, order="F")
    one.flags.writeable = False
    return one


@cache
def _upper(m: int, n: int) -> Array:
    upper = np.tri(n, m, dtype=bool).T
    upper.flags.writeable = False
    return upper


def _told(info: int) -> Array:
    return np.array(info, np.int32) if info else GOOD


def _perhaps_tiny(a: Array) -> bool:
    """Whether a look at all elements must tell if the matrix is one that scaling.py lifts."""
    if not -1e-20 < a.item(0).real < 1e-20:  # far above what is tiny in single precision
        return False
    return bool(np.vdot(a, a).real < tiny(a.dtype.char)[0])


def solve(a: Array, b: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """x of a @ x = b."""
    if _perhaps_tiny(a):
        return plain.solve(a, b)
    _, _, x, info = _routine("gesv", a.dtype.char)(a, b)
    return np.ascontiguousarray(x), _told(info)


def inv(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """x of a @ x = 1."""
    return solve(a, _one(a.shape[0], a.dtype.char))


def det(a: Array, *, overwrite: bool = False) -> Any:
    """The product of the pivots, as numbers of Python: they overflow without a warning."""
    char = a.dtype.char
    if char in "fF" or _perhaps_tiny(a):
        return plain.det(a)
    packed, pivots, _ = _routine("getrf", char)(a)
    found = math.prod(packed.diagonal().tolist())
    is_odd = sum(map(operator.ne, pivots.tolist(), range(len(pivots)))) % 2
    return _TYPES[char](-found if is_odd else found)


def cholesky(a: Array, lower: bool = True, *, overwrite: bool = False) -> tuple[Array, Array]:
    """a = l lᴴ, or uᴴ u: of the transpose, which lies by columns, the transposed factors."""
    factor, info = _routine("potrf", a.dtype.char)(a.T, not lower)
    last = factor.item(-1)
    if last != last and not info:  # OpenBLAS goes on with NaN
        return plain.cholesky(a, lower)
    return factor.T, _told(info)


def lu(a: Array, *, overwrite: bool = False) -> tuple[Array, Array, Array]:
    """p l u = a, packed."""
    if _perhaps_tiny(a):
        return plain.lu(a)
    packed, pivots, info = _routine("getrf", a.dtype.char)(a)
    return np.ascontiguousarray(packed), pivots, _told(info)


def qr(a: Array, mode: QRMode, *, overwrite: bool = False) -> Any:
    """q r = a."""
    m, n = a.shape
    char = a.dtype.char
    if mode not in ("reduced", "r"):
        return plain.qr(a, mode)
    packed, tau, _, _ = _routine("geqrf", char)(a)
    k = min(m, n)
    r = np.zeros((k, n), char)
    np.copyto(r, packed[:k] if m > k else packed, where=_upper(k, n))
    if mode == "r":
        return r
    name = "ungqr" if char in "FD" else "orgqr"
    q, _, _ = _routine(name, char)(packed[:, :k] if n > k else packed, tau, overwrite_a=True)
    return np.ascontiguousarray(q), r


def eigh(
    a: Array, lower: bool = True, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array]:
    """a @ v = v * w."""
    char = a.dtype.char
    name = "heevd" if char in "FD" else "syevd"
    w, v, info = _routine(name, char)(a, compute_v=vectors, lower=lower)
    return w, np.ascontiguousarray(v) if vectors else None, _told(info)


def svd(
    a: Array, full: bool = False, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array | None, Array, Array | None, Array]:
    """u * s @ vh = a, s descending.

    gesdd may never return from infinity; the sum of squares says sooner than a look at each element
    whether there is one. Single precision is NumPy's: its tests compare singular values of several
    routines to less than two units of rounding, and SciPy brings another build of LAPACK.
    """
    if a.dtype.char in "fF" or not math.isfinite(np.vdot(a, a).real):
        return plain.svd(a, full, vectors)
    # of the transpose no result would be copied, but the errors of graded matrices are 25 times as large
    u, s, vh, info = _routine("gesdd", a.dtype.char)(a, vectors, full)
    if not vectors:
        return None, s, None, _told(info)
    return np.ascontiguousarray(u), s, np.ascontiguousarray(vh), _told(info)


def eig(
    a: Array, left: bool = False, right: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array | None, Array]:
    """a @ v = v * w; a matrix that scaling.py would scale is left to NumPy."""
    char = a.dtype.char
    low, high = _norms(char)
    if left or not low * len(a) < math.sqrt(np.vdot(a, a).real) < high:
        return plain.eig(a, left, right)
    if right and char in "dD":
        spectrum = own.eig(a)  # makes the vectors of complex pairs in compiled code
        if spectrum is None:
            return plain.eig(a, left, right)
        return spectrum[0], None, spectrum[1], GOOD
    found = _routine("geev", char)(a, False, right)
    info = _told(found[-1])
    if char in "FD":
        w, _, v, _ = found
        return w, None, np.ascontiguousarray(v) if right else None, info
    re, im, _, pairs, _ = found
    w = np.empty(len(a), char.upper())
    w.real, w.imag = re, im
    if not right:
        return w, None, None, info
    return w, None, _paired(pairs, im.tolist()), info


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


@cache
def _norms(char: str) -> tuple[float, float]:
    """Frobenius norms, the lower one for each row, between which geev scales nothing."""
    limits = np.finfo(char)
    high = float(limits.eps / np.sqrt(limits.tiny)) / 4
    return 1 / high, high


_TYPES = {"d": np.float64, "D": np.complex128}

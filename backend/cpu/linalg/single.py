"""One small matrix: SciPy's wrappers of LAPACK without what NumPy's functions do around theirs.

A few microseconds each; the routines are looked up once for each dtype.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .plain import Array

_GOOD = np.zeros((), np.int32)
_GOOD.flags.writeable = False


@cache
def _routine(name: str, char: str) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(name, dtype=char)


@cache
def _one(n: int, char: str) -> Array:
    one = np.eye(n, dtype=char, order="F")
    one.flags.writeable = False
    return one


def _told(info: int) -> Array:
    return np.array(info, np.int32) if info else _GOOD


def solve(a: Array, b: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """x of a @ x = b."""
    _, _, x, info = _routine("gesv", a.dtype.char)(a, b)
    return np.ascontiguousarray(x), _told(info)


def inv(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """x of a @ x = 1."""
    return solve(a, _one(a.shape[0], a.dtype.char))


def cholesky(a: Array, lower: bool = True, *, overwrite: bool = False) -> tuple[Array, Array]:
    """a = l lᴴ, or uᴴ u."""
    factor, info = _routine("potrf", a.dtype.char)(a, lower)
    return np.ascontiguousarray(factor), _told(info)


def eigh(
    a: Array, lower: bool = True, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array]:
    """a @ v = v * w."""
    char = a.dtype.char
    name = "heevd" if char in "FD" else "syevd"
    w, v, info = _routine(name, char)(a, compute_v=vectors, lower=lower)
    return w, np.ascontiguousarray(v) if vectors else None, _told(info)

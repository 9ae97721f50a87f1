"""One small matrix: SciPy's wrappers of LAPACK without what NumPy's functions do around theirs.

A few microseconds each; what runs is made in `prepared`, once for each dtype or shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import plain, prepared
from .plain import GOOD, Array, QRMode


def _told(info: Any) -> Array:
    return GOOD if info is GOOD or not info else np.asarray(info, np.int32)


def solve(a: Array, b: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """x of a @ x = b."""
    x, info = prepared.solve(a.dtype.char)(a, b)
    return x, _told(info)


def inv(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """x of a @ x = 1."""
    x, info = prepared.inv(len(a), a.dtype.char)(a)
    return x, _told(info)


def det(a: Array, *, overwrite: bool = False) -> Any:
    """The product of the pivots."""
    return prepared.det(len(a), a.dtype.char)(a)


def cholesky(a: Array, lower: bool = True, *, overwrite: bool = False) -> tuple[Array, Array]:
    """a = l lᴴ, or uᴴ u."""
    factor, info = prepared.cholesky(a.dtype.char, lower)(a)
    return factor, _told(info)


def lu(a: Array, *, overwrite: bool = False) -> tuple[Array, Array, Array]:
    """p l u = a, packed."""
    packed, pivots, info = prepared.lu(a.dtype.char)(a)
    return packed, pivots, _told(info)


def qr(a: Array, mode: QRMode, *, overwrite: bool = False) -> Any:
    """q r = a."""
    if mode not in ("reduced", "r"):
        return plain.qr(a, mode)
    return prepared.qr(*a.shape, a.dtype.char, mode == "reduced")(a)


def eigh(
    a: Array, lower: bool = True, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array]:
    """a @ v = v * w."""
    w, v, info = prepared.eigh(a.dtype.char, lower, vectors)(a)
    return w, v, _told(info)


def svd(
    a: Array, full: bool = False, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array | None, Array, Array | None, Array]:
    """u * s @ vh = a, s descending."""
    u, s, vh, info = prepared.svd(*a.shape, a.dtype.char, full, vectors)(a)
    return u, s, vh, _told(info)


def eig(
    a: Array, left: bool = False, right: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array | None, Array]:
    """a @ v = v * w."""
    if left:
        return plain.eig(a, left, right)
    w, _, v, info = prepared.eig(len(a), a.dtype.char, right)(a)
    return w, None, v, _told(info)

"""Matrices of huge or tiny norm, brought into the range in which LAPACK's geev does not scale.

geev scales such a matrix and is to undo that of the eigenvalues. LAPACK as OpenBLAS ships it with
SciPy 1.17 does not: eigenvalues of 1e15 times a matrix of float32, or 1e200 times one of float64, come
out as those of the scaled matrix. Powers of two are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def in_range(a: Array) -> tuple[Array, Array | None]:
    """(a / f, f): f [...] is a power of two, 1 where nothing need be done; None if that is everywhere."""
    if not a.size:
        return a, None
    limits = np.finfo(a.dtype)
    largest = limits.eps / np.sqrt(limits.tiny)
    top = np.maximum(abs(a.real), abs(a.imag)) if a.dtype.kind == "c" else abs(a)
    top = top.max(axis=(-2, -1))
    outside = np.isfinite(top) & (top > 0) & ((top > largest / 4) | (top < 4 / largest))
    if not outside.any():
        return a, None
    power = np.where(outside, np.frexp(top)[1] - 1, 0)
    factor = np.ldexp(np.ones_like(top), power)
    return a / factor[..., None, None], factor

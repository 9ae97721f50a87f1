"""Matrices of huge or tiny norm, brought into the range in which LAPACK's geev does not scale.

geev scales such a matrix and is to undo that of the eigenvalues. LAPACK as OpenBLAS ships it with
SciPy 1.17 does not: eigenvalues of 1e15 times a matrix of float32, or 1e200 times one of float64, come
out as those of the scaled matrix. Powers of two are exact.
"""

from __future__ import annotations

from functools import cache
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


def lifted(a: Array, triangle: str = "") -> tuple[Array, Array | None]:
    """(a times 2^p, p): p [...] is 0 but for tiny members; None if no one is tiny.

    The pivots of those may be subnormal, and have no finite inverse. OpenBLAS multiplies by inverses.
    Of factors "lower" or "upper" names the triangle that pivots are in; nothing else is scaled.
    """
    low, power = tiny(a.dtype.char)
    if not a.size or not (abs(a[..., 0, 0].real) < low).any():
        return a, None
    part = {"lower": np.tril, "upper": np.triu}.get(triangle, np.asarray)(a)
    with np.errstate(all="ignore"):
        top = abs(part).max(axis=(-2, -1))
    is_tiny = (top < low) & (top > 0)
    if not is_tiny.any():
        return a, None
    powers = np.where(is_tiny, power, 0)
    scaled = a.copy()
    mask = np.ones(a.shape[-2:], np.bool_)
    where = mask if not triangle else np.tril(mask) if triangle == "lower" else np.triu(mask)
    np.copyto(scaled, by_powers(part, powers[..., None, None]), where=where)
    return scaled, powers


def lifted_system(a: Array, b: Array, triangle: str = "") -> tuple[Array, Array, Array | None]:
    """Both sides lifted, and the powers for the solution. A tiny b has few digits, and so would have
    what is made of it on the way."""
    a, powers = lifted(a, triangle)
    if powers is None:
        return a, b, None
    b, others = lifted(b)
    return a, b, powers if others is None else powers - others


def by_powers(x: Array, powers: Array | None) -> Array:
    """x 2^powers, which need not be a number of the dtype itself."""
    if powers is None:
        return x
    with np.errstate(all="ignore"):
        if x.dtype.kind != "c":
            return np.asarray(np.ldexp(x, powers))
        found = np.empty(x.shape, x.dtype)
        found.real, found.imag = np.ldexp(x.real, powers), np.ldexp(x.imag, powers)
    return found


@cache
def tiny(char: str) -> tuple[float, int]:
    """A bound below which all elements of a matrix make pivots that may be subnormal, and a power of two
    by which such a matrix is well in range, as is its inverse."""
    limits = np.finfo(char)
    return float(limits.tiny) / float(limits.eps) ** 2, int(limits.maxexp) // 2

"""One contiguous matrix factored where it lies, as `overwrite=True` allows: SciPy's wrappers of LAPACK.

LAPACK reads columns. Row-major memory is, by columns, the transpose; where a factorisation of that will
not do, a square matrix is transposed in its own memory, by tiles.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from .scaling import lifted

Array = np.ndarray[Any, Any]
TILE = 128


def possible(a: Array) -> bool:
    """Whether these functions take it: tiny matrices have to be scaled first."""
    contiguous = a.flags.c_contiguous or a.flags.f_contiguous
    return a.ndim == 2 and a.size > 0 and contiguous and a.flags.aligned and lifted(a)[1] is None


def cholesky(a: Array, lower: bool) -> tuple[Array, Array]:
    """l or u, in the memory of a. By columns, row-major memory holds aᵀ = lᵀᴴ lᵀ."""
    if a.flags.f_contiguous:
        factor, info = _routine("potrf", a)(a, lower, overwrite_a=True)
        return by_rows(factor), _code(info)
    factor, info = _routine("potrf", a)(a.T, not lower, overwrite_a=True)
    return factor.T, _code(info)


def lu(a: Array) -> tuple[Array, Array, Array] | None:
    """(packed, pivots, info), packed in the memory of a; None for what cannot be transposed there."""
    is_square = a.shape[0] == a.shape[1]
    if not is_square and not a.flags.f_contiguous:
        return None
    packed, pivots, info = _routine("getrf", a)(by_columns(a), overwrite_a=True)
    return by_rows(packed) if is_square else packed, pivots, _code(info)


def solve(a: Array, b: Array) -> tuple[Array, Array]:
    """By columns, row-major memory holds aᵀ, and a @ x = (aᵀ)ᵀ @ x."""
    is_turned = not a.flags.f_contiguous
    packed, pivots, info = _routine("getrf", a)(a.T if is_turned else a, overwrite_a=True)
    x = np.empty(b.shape, b.dtype)
    if not info:
        x[...] = _routine("getrs", a)(packed, pivots, b, trans=int(is_turned))[0]
    return x, _code(info)


def inv(a: Array) -> tuple[Array, Array]:
    """In the memory of a. LAPACK's getri makes x @ a close to 1; of aᵀ, which is what it is given, that
    is the side which counts: a @ xᵀ."""
    turned = by_rows(a).T
    packed, pivots, info = _routine("getrf", a)(turned, overwrite_a=True)
    if info:
        return packed.T, _code(info)
    length = int(_routine("getri_lwork", a)(len(a))[0].real)
    found, info = _routine("getri", a)(packed, pivots, lwork=max(length, 1), overwrite_lu=True)
    return found.T, _code(info)


def qr(a: Array, with_q: bool) -> Any:
    """(q, r) with q in the memory of a, or r alone; None for wide matrices, and for tall ones by rows."""
    (m, n), is_square = a.shape, a.shape[0] == a.shape[1]
    if m < n or not (is_square or a.flags.f_contiguous):
        return None
    turned = by_columns(a)
    length = int(_routine("geqrf_lwork", a)(m, n)[0].real)
    packed, tau, _, _ = _routine("geqrf", a)(turned, lwork=max(length, n, 1), overwrite_a=True)
    r = np.triu(packed[:n])
    if not with_q:
        return r
    name = "ungqr" if a.dtype.kind == "c" else "orgqr"
    q, _, _ = _routine(name, a)(packed, tau, lwork=max(length, n, 1), overwrite_a=True)
    return (by_rows(q) if is_square else q), r


def eigh(a: Array, lower: bool, vectors: bool) -> tuple[Array, Array | None, Array]:
    """Vectors in the memory of a. By columns, row-major memory holds the conjugate of a."""
    is_turned, is_complex = not a.flags.f_contiguous, a.dtype.kind == "c"
    name = "heevd" if is_complex else "syevd"
    given, half = (a.T, not lower) if is_turned else (a, lower)
    w, v, info = _routine(name, a)(given, compute_v=vectors, lower=half, overwrite_a=True)
    if not vectors:
        return w, None, _code(info)
    if is_turned and is_complex:
        np.conjugate(v, out=v)
    return w, by_rows(v), _code(info)


def svd(
    a: Array, full: bool, vectors: bool
) -> tuple[Array | None, Array, Array | None, Array] | None:
    """What is in the memory of a is lost. None where gesdd might never return."""
    if not math.isfinite(np.vdot(a, a).real):
        return None
    is_turned = not a.flags.f_contiguous
    given = a.T if is_turned else a
    options = {"compute_uv": vectors, "full_matrices": full}
    length = int(_routine("gesdd_lwork", a)(*given.shape, **options)[0].real)
    u, s, vh, info = _routine("gesdd", a)(given, **options, lwork=length, overwrite_a=True)
    if not vectors:
        return None, s, None, _code(info)
    u, vh = (vh.T, u.T) if is_turned else (u, vh)  # of aᵀ = vhᵀ s uᵀ
    return np.ascontiguousarray(u), s, np.ascontiguousarray(vh), _code(info)


def by_columns(a: Array) -> Array:
    """The same matrix, column-major, in the memory of a; square unless it is that already."""
    if not a.flags.f_contiguous:
        _transpose(a)
        return a.T
    return a


def by_rows(a: Array) -> Array:
    """The same for row-major memory."""
    return a if a.flags.c_contiguous else by_columns(a.T).T


def _transpose(a: Array) -> None:
    """a becomes aᵀ, tile by tile."""
    n = len(a)
    for i in range(0, n, TILE):
        for j in range(i, n, TILE):
            here, there = a[i : i + TILE, j : j + TILE], a[j : j + TILE, i : i + TILE]
            kept = here.copy()
            here[...] = there.T  # NumPy sees where the two overlap
            if i != j:
                there[...] = kept.T


def _code(info: int) -> Array:
    return np.array(info, np.int32)


def _routine(name: str, a: Array) -> Any:
    return _found(name, a.dtype.char)


@cache
def _found(name: str, char: str) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs(name, dtype=char)

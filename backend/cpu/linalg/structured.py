"""Systems whose matrices have a form that is known: diagonal, banded, symmetric, positive definite.

Arrays as in the package; `info` is one plus the first pivot that is zero, or the order of the first
leading minor that is not positive. LAPACK is called for one matrix at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .plain import Array, Trans

_TRANS = {"N": 0, "T": 1, "C": 2}


def diagonal_solve(d: Array, b: Array, trans: Trans = "N") -> tuple[Array, Array]:
    """x of diag(d) @ x = b, d [..., n]."""
    zero = d == 0
    info = np.where(zero.any(axis=-1), zero.argmax(axis=-1) + 1, 0) if d.shape[-1] else None
    with np.errstate(all="ignore"):
        x = b / (d.conj() if trans == "C" else d)[..., None]
    return x, np.zeros(d.shape[:-1], np.int32) if info is None else info.astype(np.int32)


class Banded(NamedTuple):
    """PLU of banded matrices as LAPACK's gbtrf packs it: `packed` [..., 2 kl + ku + 1, n]."""

    packed: Array
    pivots: Array
    lower: int
    upper: int


def bandwidths(a: Array) -> tuple[int, int]:
    """How far below and above the diagonal some matrix of the batch [..., m, n] is not zero."""
    some = (a != 0).any(axis=tuple(range(a.ndim - 2)))
    rows, cols = np.nonzero(some)
    off = rows - cols
    return max(0, int(off.max(initial=0))), max(0, int(-off.min(initial=0)))


def banded_lu(a: Array, lower: int, upper: int) -> tuple[Banded, Array]:
    """Factors of matrices that are zero outside their bands; in n (lower + 1)(lower + upper + 1) steps."""
    from scipy.linalg import get_lapack_funcs

    n = a.shape[-1]
    packed = np.zeros((*a.shape[:-2], 2 * lower + upper + 1, n), a.dtype)
    for off in range(-lower, upper + 1):  # row lower + upper - off holds the diagonal `off` above
        band = np.diagonal(a, off, -2, -1)
        packed[..., lower + upper - off, max(off, 0) : max(off, 0) + band.shape[-1]] = band
    pivots, info = np.empty(a.shape[:-1], np.int32), np.zeros(a.shape[:-2], np.int32)
    if n:
        (gbtrf,) = get_lapack_funcs(("gbtrf",), (a,))
        for k in np.ndindex(info.shape):
            packed[k], pivots[k], info[k] = gbtrf(packed[k], lower, upper)
    return Banded(packed, pivots, lower, upper), info


def banded_lu_solve(factors: Banded, b: Array, trans: Trans = "N") -> Array:
    """x of a @ x = b, aᵀ @ x = b or aᴴ @ x = b."""
    from scipy.linalg import get_lapack_funcs

    packed, pivots, lower, upper = factors
    x = np.empty(b.shape, b.dtype)
    if x.size:
        (gbtrs,) = get_lapack_funcs(("gbtrs",), (packed,))
        for k in np.ndindex(b.shape[:-2]):
            x[k] = gbtrs(packed[k], lower, upper, b[k], pivots[k], trans=_TRANS[trans])[0]
    return x


def symmetric_solve(a: Array, b: Array, lower: bool, hermitian: bool) -> tuple[Array, Array]:
    """x of a @ x = b from one triangle of a, symmetric or Hermitian and perhaps indefinite."""
    from scipy.linalg import get_lapack_funcs

    x, info = np.empty(b.shape, b.dtype), np.zeros(a.shape[:-2], np.int32)
    name = "hesv" if hermitian and a.dtype.kind == "c" else "sysv"
    if a.shape[-1] and info.size:
        solve, query = get_lapack_funcs((name, f"{name}_lwork"), (a,))
        lwork = max(1, int(query(a.shape[-1], lower=lower)[0].real))
        for k in np.ndindex(info.shape):
            _, _, x[k], info[k] = solve(a[k], b[k], lwork=lwork, lower=lower)
    return x, info


def parity(pivots: Array) -> Array:
    """The determinant of the permutation that LAPACK's swaps make: 1 or -1, [...]."""
    swapped = (pivots != np.arange(pivots.shape[-1])).sum(axis=-1)
    result: Any = 1 - 2 * (swapped % 2)
    return np.asarray(result)

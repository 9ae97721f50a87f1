"""Factorisations and solves by NumPy and SciPy alone: right for every shape, and never compiled.

What these functions take and return, and what `info` says, is told in the package. Where the public
function of NumPy raises for a whole batch, the batch is done again member by member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from . import in_place, own
from .finite import cleared, spoil
from .scaling import by_powers, in_range, lifted, lifted_system

Array = np.ndarray[Any, Any]
Trans = Literal["N", "T", "C"]
QRMode = Literal["reduced", "complete", "r", "raw"]

GOOD = np.zeros((), np.int32)
"""The code of one matrix that did not fail; where it is this very array nobody need look inside."""
GOOD.flags.writeable = False

_TRANS = {"N": 0, "T": 1, "C": 2}


def cholesky(a: Array, lower: bool = True, *, overwrite: bool = False) -> tuple[Array, Array]:
    """a = l @ lᴴ, or uᴴ @ u; `info` is the order of the first leading minor that is not positive."""
    if overwrite and in_place.possible(a):
        factor, info = in_place.cholesky(a, lower)
        tell_nan(factor, info)
        return factor, info

    def run(a: Array) -> Array:
        return np.linalg.cholesky(a) if lower else _adjoint(np.linalg.cholesky(_adjoint(a))).copy()

    def code(a: Array) -> int:
        return int(_lapack("potrf", a)[0](a, lower=lower)[1])

    factor, info = _one_by_one(run, code, a)
    tell_nan(factor, info)
    return factor, info


def lu(a: Array, *, overwrite: bool = False) -> tuple[Array, Array, Array]:
    """p @ l @ u = a, packed; `info` is one plus the first diagonal element of u that is zero."""
    if overwrite and in_place.possible(a) and (found := in_place.lu(a)) is not None:
        return found
    info, packed = _good(a), np.empty(a.shape, a.dtype)
    pivots = np.empty((*a.shape[:-2], min(a.shape[-2:])), np.int32)
    a, powers = lifted(a)
    if pivots.size:
        (getrf,) = _lapack("getrf", a)
        for k in np.ndindex(info.shape):
            packed[k], pivots[k], info[k] = getrf(a[k])
    return lowered(packed, powers), pivots, info


def lu_solve(lu: Array, pivots: Array, b: Array, trans: Trans = "N") -> Array:
    """x of a @ x = b, aᵀ @ x = b or aᴴ @ x = b, from what `lu` made of a."""
    x = np.empty(b.shape, b.dtype)
    lu, b, powers = lifted_system(lu, b, "upper")
    if x.size:
        (getrs,) = _lapack("getrs", lu)
        for k in np.ndindex(b.shape[:-2]):
            x[k] = getrs(lu[k], pivots[k], b[k], trans=_TRANS[trans])[0]
    return risen(x, powers)


def solve(a: Array, b: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """x of a @ x = b."""
    if overwrite and b.size and in_place.possible(a):
        return in_place.solve(a, b)
    a, b, powers = lifted_system(a, b)
    x, info = _one_by_one(np.linalg.solve, _zero_pivot, a, b)
    return risen(x, powers), info


def inv(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """x of a @ x = 1."""
    if overwrite and in_place.possible(a):
        return in_place.inv(a)
    a, powers = lifted(a)
    x, info = _one_by_one(np.linalg.inv, _zero_pivot, a)
    return risen(x, powers), info


def det(a: Array, *, overwrite: bool = False) -> Array:
    """The product of the eigenvalues."""
    a, powers = lifted(a)
    with np.errstate(all="ignore"):
        found = np.asarray(np.linalg.det(a), order="C")
    _tell_of_nan(a, found == 0, found)
    return found if powers is None else by_powers(found, -a.shape[-1] * powers)


def slogdet(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """(sign, log|det|) with det = sign * exp(log|det|); (0, -inf) of a singular matrix."""
    a, powers = lifted(a)
    with np.errstate(all="ignore"):
        sign, logabsdet = np.linalg.slogdet(a)
    sign, logabsdet = np.asarray(sign, order="C"), np.asarray(logabsdet, order="C")
    _tell_of_nan(a, sign == 0, sign, logabsdet)
    return sign, shrunk(logabsdet, powers, a.shape[-1])


def triangular_solve(
    a: Array,
    b: Array,
    lower: bool,
    trans: Trans,
    unit_diagonal: bool,
    left: bool = True,
    *,
    overwrite: bool = False,
) -> tuple[Array, Array]:
    """x of op(a) @ x = b, or of x @ op(a) = b; `info` is one plus the first zero on the diagonal."""
    if not left and trans == "C":  # x @ aᴴ = b  <=>  a @ xᴴ = bᴴ
        x, info = triangular_solve(a, _adjoint(b), lower, "N", unit_diagonal)
        return _adjoint(x).copy(), info
    if not left:  # x @ a = b  <=>  aᵀ @ xᵀ = bᵀ
        other: Trans = "T" if trans == "N" else "N"
        x, info = triangular_solve(a, b.swapaxes(-1, -2), lower, other, unit_diagonal)
        return x.swapaxes(-1, -2).copy(), info
    info, x, powers = _good(a), np.empty(b.shape, b.dtype), None
    if not unit_diagonal:
        a, b, powers = lifted_system(a, b, "lower" if lower else "upper")
    if a.shape[-1] and info.size:
        (trtrs,) = _lapack("trtrs", a)
        # LAPACK looks for zeros after it has returned early for no right-hand sides
        right = b if b.shape[-1] else np.zeros((*b.shape[:-1], 1), b.dtype)
        for k in np.ndindex(info.shape):
            found, info[k] = trtrs(
                a[k], right[k], lower=lower, trans=_TRANS[trans], unitdiag=unit_diagonal
            )
            x[k] = found[:, : b.shape[-1]]
    return risen(x, powers), info


def cho_solve(c: Array, b: Array, lower: bool = True, *, overwrite: bool = False) -> Array:
    """x of a @ x = b, where a = c @ cᴴ, or cᴴ @ c if not `lower`; the other triangle is not read."""
    x = np.empty(b.shape, b.dtype)
    if x.size:
        (potrs,) = _lapack("potrs", c)
        for k in np.ndindex(b.shape[:-2]):
            x[k] = potrs(c[k], b[k], lower=lower)[0]
    return x


def qr(a: Array, mode: QRMode, *, overwrite: bool = False) -> Any:
    """q @ r = a. Mode "raw" gives NumPy's (h, tau), where h [..., n, m] holds the reflectors in rows."""
    if overwrite and mode in ("r", "reduced") and in_place.possible(a):
        found = in_place.qr(a, mode == "reduced")
        if found is not None:
            return found
    if mode == "r":
        return np.ascontiguousarray(np.linalg.qr(a, "r"))
    first, second = np.linalg.qr(a, mode)
    return np.ascontiguousarray(first), np.ascontiguousarray(second)


def eigh(
    a: Array, lower: bool = True, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array]:
    """a @ v = v * w, w ascending and real; reads one triangle of a."""
    if overwrite and in_place.possible(a):
        return in_place.eigh(a, lower, vectors)
    triangle: Literal["L", "U"] = "L" if lower else "U"

    def run(a: Array) -> tuple[Array, ...]:
        if vectors:
            return tuple(np.linalg.eigh(a, triangle))
        return (np.linalg.eigvalsh(a, triangle),)

    (w, *v), info = _by_members(run, a)
    return w, v[0] if vectors else None, info


def svd(
    a: Array, full: bool = False, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array | None, Array, Array | None, Array]:
    """u * s @ vh = a, s descending."""
    if overwrite and in_place.possible(a):
        given = in_place.svd(a, full, vectors)
        if given is not None:
            return given

    def run(a: Array) -> tuple[Array, ...]:
        if vectors:
            return tuple(np.linalg.svd(a, full_matrices=full))
        return (np.linalg.svd(a, compute_uv=False),)

    a, infinite = cleared(a)
    found, info = _by_members(run, a)
    spoil(infinite, info, *found)
    if not vectors:
        return None, found[0], None, info
    u, s, vh = found
    return u, s, vh, info


def eig(
    a: Array, left: bool = False, right: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array | None, Array]:
    """a @ vr = vr * w and vlᴴ @ a = w[:, None] * vlᴴ, columns of norm 1; always complex."""
    dtype = np.result_type(a.dtype, np.complex64)
    if left:
        return _eig_by_members(a, right, dtype)

    def run(a: Array) -> tuple[Array, ...]:
        found = tuple(np.linalg.eig(a)) if right else (np.linalg.eigvals(a),)
        return tuple(x.astype(dtype) for x in found)

    (w, *v), info = _by_members(run, a)
    return w, None, v[0] if right else None, info


def lstsq(
    a: Array, b: Array, rcond: float, *, overwrite: bool = False
) -> tuple[Array, Array, Array, Array, Array]:
    """x of least norm with |a @ x - b| least; `residuals` [..., k] are the sums of |a @ x - b|²."""
    a, infinite = cleared(a)
    (m, n), k = a.shape[-2:], b.shape[-1]
    batch, real = a.shape[:-2], np.finfo(a.dtype).dtype
    x, info = np.empty((*batch, n, k), a.dtype), _good(a)
    residuals, rank = np.empty((*batch, k), real), np.zeros(batch, np.int32)
    s = np.empty((*batch, min(m, n)), real)
    loop = own.run("lstsq", a.dtype.char) if a.ndim > 2 and a.size and b.size else None
    found = None if loop is None else loop(a, b, rcond)
    if found is not None:
        x, residuals, rank, s = (np.ascontiguousarray(part) for part in found)
        leftover(a, b, x, rank, residuals)
    for i in np.ndindex(batch) if found is None else ():
        try:
            x[i], sums, rank[i], s[i] = np.linalg.lstsq(a[i], b[i], rcond=rcond)
        except np.linalg.LinAlgError:
            info[i] = 1
            continue
        with np.errstate(all="ignore"):
            off = None if sums.size else abs(a[i] @ x[i] - b[i])
            residuals[i] = sums if off is None else (off * off).sum(axis=0)
    spoil(infinite, info, x, residuals, s)
    return x, residuals, rank, s, info


# ---- helpers -------------------------------------------------------------------------------------


def _tell_of_nan(a: Array, is_zero: Array, *results: Array) -> None:
    """NaN for members with NaN, where OpenBLAS's elimination passed by it and ended with a zero."""
    if is_zero.any():
        has_nan = is_zero & np.isnan(a).any(axis=(-2, -1))
        for x in results:
            x[has_nan] = np.nan


def leftover(a: Array, b: Array, x: Array, rank: Array, residuals: Array) -> None:
    """Fills in `residuals` where LAPACK has no rows that hold them: m <= n, or less than full rank."""
    m, n = a.shape[-2:]
    lacking = (rank < n) | (m <= n)
    if lacking.any():
        with np.errstate(all="ignore"):
            off = np.abs(a[lacking] @ x[lacking] - b[lacking])
            residuals[lacking] = (off * off).sum(axis=-2)


def tell_nan(factor: Array, info: Array) -> None:
    """The codes of LAPACK's own potrf, where OpenBLAS's finds NaN on the diagonal and goes on."""
    if not factor.size:
        return
    lost = np.isnan(factor[..., -1, -1]) & (info == 0)  # of NaN further up all that follows is NaN
    if lost.any():
        diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
        np.copyto(info, np.isnan(diagonal).argmax(axis=-1) + 1, where=lost, casting="unsafe")


def lowered(packed: Array, powers: Array | None) -> Array:
    """Packed factors of matrices that were lifted: the scale is that of u."""
    if powers is None:
        return packed
    upper = np.tri(*packed.shape[:-3:-1], dtype=np.bool_).T
    return np.where(upper, by_powers(packed, -powers[..., None, None]), packed)


def risen(x: Array, powers: Array | None) -> Array:
    """Solutions for matrices that were lifted."""
    return x if powers is None else by_powers(x, powers[..., None, None])


def shrunk(logabsdet: Array, powers: Array | None, n: int) -> Array:
    """Logarithms of determinants of matrices that were lifted."""
    if powers is None:
        return logabsdet
    return np.asarray(logabsdet - powers * n * np.log(2.0), logabsdet.dtype)


def _good(a: Array) -> Array:
    return np.zeros(a.shape[:-2], np.int32)


def _adjoint(a: Array) -> Array:
    return a.swapaxes(-1, -2).conj()


def _lapack(name: str, a: Array) -> Any:
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs((name,), (a,))


def _one_by_one(
    run: Callable[..., Array], code: Callable[..., int], *arrays: Array
) -> tuple[Array, Array]:
    """`run` on the batch; if it raises, on each member, and `code` tells of one that raises again.

    The good members come from one routine whether or not others fail: their bits stay the same.
    """
    info = _good(arrays[0])
    with np.errstate(all="ignore"):
        try:
            return np.ascontiguousarray(run(*arrays)), info
        except np.linalg.LinAlgError:
            pass
        found = np.zeros(arrays[-1].shape, arrays[-1].dtype)
        for k in np.ndindex(info.shape):
            try:
                found[k] = run(*(x[k] for x in arrays))
            except np.linalg.LinAlgError:
                info[k] = code(*(x[k] for x in arrays)) or 1  # another LAPACK may not fail
        return found, info


def _zero_pivot(a: Array, *others: Array) -> int:
    return int(_lapack("getrf", a)[0](a)[2])


def _by_members(
    run: Callable[[Array], tuple[Array, ...]], a: Array
) -> tuple[tuple[Array, ...], Array]:
    """`run` on the batch; if it raises, on each member, where `info` is 1 if it raises again."""
    info = _good(a)
    with np.errstate(all="ignore"):
        try:
            return tuple(np.ascontiguousarray(x) for x in run(a)), info
        except np.linalg.LinAlgError:
            pass
        one = run(np.zeros(a.shape[-2:], a.dtype))  # dtypes and shapes
        found = tuple(np.empty(info.shape + x.shape, x.dtype) for x in one)
        for k in np.ndindex(info.shape):
            try:
                for whole, x in zip(found, run(a[k]), strict=True):
                    whole[k] = x
            except np.linalg.LinAlgError:
                info[k] = 1
        return found, info


def _eig_by_members(
    a: Array, right: bool, dtype: np.dtype[Any]
) -> tuple[Array, Array, Array | None, Array]:
    """With left eigenvectors, which NumPy does not give."""
    from scipy.linalg import eig

    a, factor = in_range(a)
    info, w = _good(a), np.empty(a.shape[:-1], dtype)
    vl, vr = np.empty(a.shape, dtype), np.empty(a.shape, dtype)
    for k in np.ndindex(info.shape) if a.size else ():
        try:
            w[k], vl[k], vr[k] = eig(a[k], left=True, right=True)
        except (ValueError, np.linalg.LinAlgError):  # not finite, not converged
            info[k] = 1
    if factor is not None:
        w *= factor[..., None]
    return w, vl, vr if right else None, info

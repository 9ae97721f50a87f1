"""The families: each function of the CPU backend with its rule, and what to say when it fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._base.errors import CallError
from ..backend.catalogue import Attrs
from ..backend.cpu import linalg as cpu
from ..backend.cpu.linalg import full_pivot
from . import rules
from .failures import NOT_FINITE
from .op import Array, define
from .operands import adjoint

Outputs = tuple[tuple[Any, ...], Array | None]

SINGULAR = "Singular matrix"
NOT_DEFINITE = "Matrix is not positive definite"
NO_EIGENVALUES = "Eigenvalues did not converge"
NO_SVD = "SVD did not converge"
PINV_RCOND = 1e-15  # NumPy's


def _cholesky(attrs: Attrs, a: Array) -> Outputs:
    c, info = cpu.cholesky(a, not attrs.get("upper", False), overwrite=_free(attrs, a))
    return (c,), info


def _solve(attrs: Attrs, a: Array, b: Array) -> Outputs:
    x, info = cpu.solve(a, b, overwrite=_free(attrs, a, b))
    return (x,), info


def _inv(attrs: Attrs, a: Array) -> Outputs:
    x, info = cpu.inv(a, overwrite=_free(attrs, a))
    return (x,), info


def _det(attrs: Attrs, a: Array) -> Outputs:
    return (cpu.det(a),), None


def _slogdet(attrs: Attrs, a: Array) -> Outputs:
    return cpu.slogdet(a), None


def _lu_factor(attrs: Attrs, a: Array) -> Outputs:
    packed, pivots, _ = cpu.lu(a, overwrite=_free(attrs, a))
    return (packed, pivots), None


def _lu_solve(attrs: Attrs, lu: Array, pivots: Array, b: Array) -> Outputs:
    """Zeros on the diagonal of U, and members that failed before, are found here."""
    pivots, failed = _usable(pivots, "lu_solve: piv")
    info = _bad_diagonal(lu)
    if failed is not None:
        info = np.where(failed, np.int32(NOT_FINITE), 0 if info is None else info)
    with np.errstate(all="ignore"):
        x = cpu.lu_solve(lu, pivots, b, attrs.get("trans", "N"))
    return (x,), info


def _usable(index: Array, what: str) -> tuple[Array, Array | None]:
    """Indices [..., n] of rows, and which members failed before: -1 stands there, and LAPACK checks none."""
    n = index.shape[-1]
    outside = (index < 0) | (index >= n)
    if not outside.any():
        return index, None
    if (outside & (index != -1)).any():
        raise CallError(
            f"{what} names rows beyond the {n} there are; give what the factorisation gave"
        )
    failed = np.asarray(outside.any(axis=-1))
    return np.where(failed[..., None], np.arange(n, dtype=index.dtype), index), failed


def _bad_diagonal(factor: Array) -> Array | None:
    """The codes of triangular factors with zero, NaN or infinity on the diagonal; None if all are good."""
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
    zero, finite = diagonal == 0, np.isfinite(diagonal)
    if finite.all() and not zero.any():
        return None
    info = np.where(zero.any(axis=-1), zero.argmax(axis=-1) + 1, 0)
    return np.where(finite.all(axis=-1), info, NOT_FINITE).astype(np.int32)


def _cho_solve(attrs: Attrs, c: Array, b: Array) -> Outputs:
    info = _bad_diagonal(c)
    with np.errstate(all="ignore"):
        return (cpu.cho_solve(c, b, not attrs.get("upper", False)),), info


def _triangular_solve(attrs: Attrs, a: Array, b: Array) -> Outputs:
    x, info = cpu.triangular_solve(
        a,
        b,
        attrs.get("lower", False),
        attrs.get("trans", "N"),
        attrs.get("unit_diagonal", False),
        attrs.get("side", "left") == "left",
        overwrite=_free(attrs, b, a),
    )
    return (x,), info


def _lu(attrs: Attrs, a: Array) -> Outputs:
    packed, pivots, _ = cpu.lu(a, overwrite=_free(attrs, a))
    order = row_order(pivots, a.shape[-2])
    lower, upper = triangles(packed)
    if attrs.get("permute_l"):
        return (np.take_along_axis(lower, order[..., None], axis=-2), upper), None
    first = order if attrs.get("p_indices") else permutation(order, a.dtype)
    return (first, lower, upper), None


def _full_piv_lu(attrs: Attrs, a: Array) -> Outputs:
    packed, rows, cols = full_pivot.full_piv_lu(a)
    parity = (_sign(rows) * _sign(cols)).astype(rules.real(a.dtype))
    p, q = (permutation(order, a.dtype) for order in (rows, cols))
    return (p, *triangles(packed), q, np.asarray(parity)), None


def _full_piv_lu_solve(attrs: Attrs, *operands: Array) -> Outputs:
    p, lower, upper, q, b = operands
    index = np.arange(p.shape[-1], dtype=p.dtype)
    with np.errstate(all="ignore"):
        order = np.stack([x @ index for x in (p, q)])
    order = np.where(np.isfinite(order), order, -1).astype(np.intp)
    (rows, cols), failed = _usable(order, call := "full_piv_lu_solve: a permutation")
    if (np.sort((rows, cols), axis=-1) != np.arange(p.shape[-1])).any():
        raise CallError(f"{call} names a row twice; give what full_piv_lu returned")
    x, info = full_pivot.full_piv_lu_solve(lower, upper, rows, cols, b, attrs.get("trans", "N"))
    return (x,), info if failed is None else np.where(failed.any(axis=0), NOT_FINITE, info)


def _sign(order: Array) -> Array:
    """The determinants of permutations [..., n]: 1 or -1."""
    rows = order.reshape(math.prod(order.shape[:-1]), order.shape[-1]).copy()
    sign, member = np.ones(len(rows), np.intp), np.arange(len(rows))
    for k in range(
        rows.shape[1]
    ):  # swap k to its place; each swap that moves something changes sign
        at = (rows == k).argmax(axis=1)
        sign[at != k] *= -1
        rows[member, at] = rows[:, k]
        rows[:, k] = k
    return sign.reshape(order.shape[:-1])


def triangles(packed: Array) -> tuple[Array, Array]:
    """L [..., m, k] with ones on its diagonal and U [..., k, n], from what `lu_factor` packs."""
    k = min(packed.shape[-2:])
    lower = np.tril(packed[..., :, :k], -1)
    diagonal = np.arange(k)
    lower[..., diagonal, diagonal] = 1
    return lower, np.triu(packed[..., :k, :])


def row_order(pivots: Array, m: int) -> Array:
    """p [..., m] with a = (L @ U)[p], from the swaps of rows that LAPACK tells."""
    order = np.empty((*pivots.shape[:-1], m), np.intp)
    order[...] = np.arange(m)
    batch = math.prod(order.shape[:-1])
    rows, swaps = order.reshape(batch, m), pivots.reshape(batch, pivots.shape[-1])
    member = np.arange(batch)
    for k in range(swaps.shape[1]):
        other = swaps[:, k]
        moved = rows[member, other]
        rows[member, other] = rows[:, k]
        rows[:, k] = moved
    return np.argsort(order, axis=-1)


def permutation(order: Array, dtype: np.dtype[Any]) -> Array:
    """P [..., m, m] with P @ x = x[order], of the real dtype."""
    m = order.shape[-1]
    return (order[..., None] == np.arange(m)).astype(rules.real(dtype))


def _qr(attrs: Attrs, a: Array) -> Outputs:
    found = cpu.qr(a, attrs["mode"], overwrite=_free(attrs, a))
    return (found if isinstance(found, tuple) else (found,)), None


def _eigh(attrs: Attrs, a: Array) -> Outputs:
    vectors = attrs.get("vectors", True)
    w, v, info = cpu.eigh(a, not attrs.get("upper", False), vectors, overwrite=_free(attrs, a))
    return ((w, v) if vectors else (w,)), info


def _svd(attrs: Attrs, a: Array) -> Outputs:
    vectors = attrs.get("vectors", True)
    u, s, vh, info = cpu.svd(a, attrs.get("full", False), vectors, overwrite=_free(attrs, a))
    return ((u, s, vh) if vectors else (s,)), info


def _eig(attrs: Attrs, a: Array) -> Outputs:
    left, right = attrs.get("left", False), attrs.get("right", True)
    w, vl, vr, info = cpu.eig(a, left, right, overwrite=_free(attrs, a))
    return (w, *(v for v in (vl, vr) if v is not None)), info


def _pinv(attrs: Attrs, a: Array) -> Outputs:
    u, s, vh, info = cpu.svd(a)
    return (pseudoinverse(u, s, vh, attrs["rcond"]),), info


def pseudoinverse(u: Any, s: Array, vh: Any, rcond: Any) -> Array:
    """V diag(1/s) Uᴴ over the singular values above rcond times the largest, which is the first."""
    cutoff = rcond if type(rcond) is float else np.asarray(rcond)[..., None]
    large = s > cutoff * s[..., :1]
    inverse = np.divide(1, s, where=large, out=np.zeros_like(s))
    found: Array = adjoint(vh) @ (inverse[..., None] * adjoint(u))
    return found


def _lstsq(attrs: Attrs, a: Array, b: Array) -> Outputs:
    rcond = attrs.get("rcond", float(np.finfo(a.dtype).eps * max(a.shape[-2:])))
    *found, info = cpu.lstsq(a, b, rcond, overwrite=_free(attrs, a, b))
    return tuple(found), info


def triangle(a: Array, lower: bool, diagonal: bool = True) -> Array:
    """One triangle of a, zeros elsewhere."""
    off = 0 if diagonal else 1
    return np.tril(a, -off) if lower else np.triu(a, off)


def _read_cholesky(attrs: Attrs, a: Array) -> tuple[Array]:
    return (triangle(a, not attrs.get("upper", False)),)


def read_hermitian(attrs: Attrs, a: Array) -> tuple[Array, Array]:
    """Of the diagonal the real part."""
    lower = not attrs.get("upper", False)
    return triangle(a, lower, False), np.diagonal(a, axis1=-2, axis2=-1).real[..., None]


def _read_cho_solve(attrs: Attrs, c: Array, b: Array) -> tuple[Array, Array]:
    return triangle(c, not attrs.get("upper", False)), b


def _read_triangular(attrs: Attrs, a: Array, b: Array) -> tuple[Array, Array]:
    return triangle(a, attrs.get("lower", False), not attrs.get("unit_diagonal", False)), b


def _free(attrs: Attrs, x: Array, other: Array | None = None) -> bool:
    """Whether an operand may be overwritten: asked for, no element stands for several or is the other's."""
    if not attrs.get("overwrite") or not x.flags.writeable or 0 in x.strides:
        return False
    return other is None or not np.may_share_memory(x, other)


CHOLESKY = define("cholesky", rules.like_matrix, _cholesky, NOT_DEFINITE, _read_cholesky)
SOLVE = define("solve", rules.solution, _solve, SINGULAR)
INV = define("inv", rules.like_matrix, _inv, SINGULAR)
DET = define("det", rules.determinant, _det)
SLOGDET = define("slogdet", rules.sign_and_log, _slogdet)
LU_FACTOR = define("lu_factor", rules.packed_lu, _lu_factor)
LU = define("lu", rules.unpacked_lu, _lu)
FULL_PIV_LU = define("full_piv_lu", rules.fully_pivoted_lu, _full_piv_lu)
FULL_PIV_LU_SOLVE = define("full_piv_lu_solve", rules.solution, _full_piv_lu_solve, SINGULAR)
LU_SOLVE = define("lu_solve", rules.solution, _lu_solve, SINGULAR)
CHO_SOLVE = define("cho_solve", rules.solution, _cho_solve, SINGULAR, _read_cho_solve)
TRIANGULAR_SOLVE = define(
    "triangular_solve", rules.solution, _triangular_solve, SINGULAR, _read_triangular
)
QR = define("qr", rules.orthogonal, _qr)
EIGH = define("eigh", rules.hermitian_spectrum, _eigh, NO_EIGENVALUES, read_hermitian)
SVD = define("svd", rules.singular, _svd, NO_SVD)
EIG = define("eig", rules.general_spectrum, _eig, NO_EIGENVALUES)
PINV = define("pinv", rules.pseudoinverse, _pinv, NO_SVD)
LSTSQ = define("lstsq", rules.least_squares, _lstsq, "SVD did not converge in Linear Least Squares")

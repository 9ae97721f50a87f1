"""Factorisations and solves of batches of matrices over an array module.

Orders up to 32 of Cholesky and eigh, and to 160 of solve, have kernels of their own, one launch for the whole
batch, and so have svd and qr with min(m, n) up to 128: large ones as far as a block's memory holds one.
The others go to cuBLAS and cuSOLVER, by CuPy's functions or `routines`. Functions take the array module first
and then what those of `backend.cpu.linalg` take; dtypes are float32, float64, complex64 and complex128, batch
shapes are equal. Numerical failure is data: `info` is int32 of the batch shape, on the device, so that
nothing waits. What comes out for a failed member is unspecified, and no member spoils another.

Where a library keeps its code, a member counts as failed if it is not finite, or what came out is not.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np

from ..._base.caches import Quick
from ..._base.errors import Unsupported
from .arrays import operands_of
from .cuda import blocked, eigen, exchanges, finite, householder, matrices, singular
from .cuda.kernel import DECLINED, CudaKernel
from .launch import can_launch, launch, shared_memory
from .modules import Array, Module, companion
from .routines import routines

TRANSPOSED = {"N": "T", "T": "N"}


def cholesky(xp: Module, a: Array, lower: bool = True) -> tuple[Array, Array]:
    """a = l lᴴ, or uᴴ u, by that triangle; `info` is the order of the first minor that is not positive."""
    if not lower:
        factor, info = cholesky(xp, adjoint(a))
        return adjoint(factor), info
    if not a.size:
        return xp.zeros(a.shape, a.dtype), no_failure(xp, a)
    out, info = xp.empty(a.shape, a.dtype), xp.empty(a.shape[:-2], np.int32)
    if _launched(xp, matrices.cholesky, out, info, a):
        return out, info
    factor, info = routines(xp).potrf(flat(xp, a))
    return xp.tril(factor).reshape(a.shape), info.reshape(a.shape[:-2])


def lu(xp: Module, a: Array) -> tuple[Array, Array, Array]:
    """p l u = a, packed; int32 swaps of rows; `info` is one plus the first zero on u's diagonal."""
    packed, swaps = lu_factors(xp, a)
    return packed, swaps, zero_pivot(xp, packed)


def lu_factors(xp: Module, a: Array) -> tuple[Array, Array]:
    """The same without codes, which take six launches.

    Libraries factor squares. Of a tall matrix columns of zeros make one, which move no row of the others
    until those are done; of a wide one the square on the left is factored, and the rest is solved for.
    """
    *batch, m, n = a.shape
    k = min(m, n)
    if not a.size:
        return xp.zeros(a.shape, a.dtype), xp.zeros((*batch, k), np.int32)
    if m > n:
        a = xp.concatenate((a, xp.zeros((*batch, m, m - n), a.dtype)), axis=-1)
    packed, swaps = routines(xp).getrf(flat(xp, a[..., :, :m]))
    packed, swaps = packed.reshape(*batch, m, m), swaps.reshape(*batch, m)[..., :k]
    if m < n:
        rows = row_order(xp, swaps, m)[..., None]
        rest = xp.take_along_axis(a[..., m:], rows, axis=-2)
        rest, _ = triangular_solve(xp, packed, rest, True, "N", True)
        packed = xp.concatenate((packed, rest), axis=-1)
    return packed[..., :n], xp.ascontiguousarray(swaps.astype(np.int32, copy=False))


def row_order(xp: Module, swaps: Array, m: int) -> Array:
    """p [..., m] with a[p] = l u, from the swaps: one launch; else a step for each."""
    *batch, k = swaps.shape
    count = math.prod(batch)
    kernel = exchanges.row_order(count, m, k) if can_launch(xp) and count else None
    if kernel is not None:
        made = xp.empty((*batch, m), np.int64)
        launch(xp, kernel, made, xp.ascontiguousarray(swaps.astype(np.int32, copy=False)))
        return made
    order = xp.zeros((count, m), np.int64) + xp.arange(m, dtype=np.int64)
    member, others = xp.arange(count, dtype=np.int64), swaps.reshape(count, k).astype(np.int64)
    for row in range(k):
        other = others[:, row]
        moved = order[member, other]
        order[member, other] = order[:, row]
        order[:, row] = moved
    return order.reshape(*batch, m)


def lu_solve(xp: Module, packed: Array, swaps: Array, b: Array, trans: str = "N") -> Array:
    """x of op(a) x = b, from what `lu` made of a."""
    if not packed.size or not b.size:
        return xp.zeros(b.shape, b.dtype)
    n = packed.shape[-1]
    found = routines(xp).getrs(flat(xp, packed), swaps.reshape(-1, n), flat(xp, b), trans)
    return found.reshape(b.shape)


def solve(xp: Module, a: Array, b: Array) -> tuple[Array, Array]:
    """x of a x = b; `info` is one plus the first pivot that is zero."""
    if not a.size or not b.size:
        return xp.zeros(b.shape, b.dtype), no_failure(xp, a)
    out, info = xp.empty(b.shape, b.dtype), xp.empty(a.shape[:-2], np.int32)
    if _launched(xp, matrices.solve, out, info, a, b):
        return out, info
    if can_launch(xp) and _launched(xp, _within(blocked.solve, shared_memory(xp)), out, info, a, b):
        return out, info
    x, info = routines(xp).gesv(flat(xp, a), flat(xp, b))
    return x.reshape(b.shape), info.reshape(a.shape[:-2])


def inv(xp: Module, a: Array) -> tuple[Array, Array]:
    """x of a x = 1."""
    return solve(xp, a, xp.broadcast_to(_identity(xp, a.shape[-1], a.dtype), a.shape))


KEPT_ORDER = 160
_IDENTITIES: Quick[Array] = Quick("identity matrices on devices", 64)
"""By module, card, order and dtype: nobody writes to them."""


def _identity(xp: Module, n: int, dtype: Any) -> Array:
    """Small ones are made once. One is there when it is kept: other streams know nothing of this one."""
    if n > KEPT_ORDER:
        return xp.eye(n, dtype=dtype)
    key = (xp, xp.cuda.Device().id, n, dtype)
    found = _IDENTITIES.get(key)
    if found is None:
        found = xp.eye(n, dtype=dtype)
        xp.cuda.get_current_stream().synchronize()
        _IDENTITIES.put(key, found)
    return found


def det(xp: Module, a: Array) -> Array:
    """The determinant, a product of pivots."""
    packed, swaps = lu_factors(xp, a)
    return xp.prod(diagonal(xp, packed), axis=-1) * _sign_of(xp, swaps).astype(a.dtype)


def slogdet(xp: Module, a: Array) -> tuple[Array, Array]:
    """Its sign, of modulus 1 or 0, and the logarithm of its absolute value."""
    packed, swaps = lu_factors(xp, a)
    pivots = diagonal(xp, packed)
    size = xp.abs(pivots)
    signs = xp.where(size == 0, pivots, pivots / xp.where(size == 0, 1, size))
    return xp.prod(signs, axis=-1) * _sign_of(xp, swaps).astype(a.dtype), xp.sum(
        xp.log(size), axis=-1
    )


def _sign_of(xp: Module, swaps: Array) -> Array:
    moved = swaps != xp.arange(swaps.shape[-1], dtype=swaps.dtype)
    return 1 - 2 * (xp.sum(moved, axis=-1) % 2)


def triangular_solve(
    xp: Module, a: Array, b: Array, lower: bool, trans: str, unit_diagonal: bool, left: bool = True
) -> tuple[Array, Array]:
    """x of op(a) x = b, or of x op(a) = b; `info` is one plus the first zero on the diagonal."""
    if not left:  # the transpose of both sides; op(a)ᵀ is conj(a) where op is the adjoint
        columns = b.swapaxes(-1, -2)
        if trans == "C":
            x, info = triangular_solve(xp, a, columns.conj(), lower, "N", unit_diagonal)
            return x.conj().swapaxes(-1, -2), info
        x, info = triangular_solve(xp, a, columns, lower, TRANSPOSED[trans], unit_diagonal)
        return x.swapaxes(-1, -2), info
    info = no_failure(xp, a) if unit_diagonal else zero_pivot(xp, a)
    if not a.size or not b.size:
        return xp.zeros(b.shape, b.dtype), info
    found = companion(xp, "scipy.linalg").solve_triangular(
        flat(xp, a), flat(xp, b), trans=trans, lower=lower, unit_diagonal=unit_diagonal
    )
    return found.reshape(b.shape), info


def cho_solve(xp: Module, c: Array, b: Array, lower: bool = True) -> Array:
    """x of c cᴴ x = b, or of cᴴ c x = b."""
    first, second = ("N", "C") if lower else ("C", "N")
    y, _ = triangular_solve(xp, c, b, lower, first, False)
    return triangular_solve(xp, c, y, lower, second, False)[0]


def qr(xp: Module, a: Array, mode: str) -> tuple[Array, ...]:
    """(q, r), (r,) or (reflectors, factors)."""
    *batch, m, n = a.shape
    k = min(m, n)
    if not a.size:
        if mode == "raw":
            return xp.zeros((*batch, n, m), a.dtype), xp.zeros((*batch, k), a.dtype)
        rows = m if mode == "complete" else k
        r = xp.zeros((*batch, rows, n), a.dtype)
        return (r,) if mode == "r" else (_eyes(xp, batch, m, rows, a.dtype), r)
    if (made := _own_qr(xp, a, mode)) is not None:
        return made
    found = xp.linalg.qr(a, mode)
    parts = found if isinstance(found, tuple) else (found,)
    return tuple(x.astype(a.dtype, copy=False) for x in parts)


QR_ALONE = 128
"""Rows and columns up to which one matrix by itself goes to our own kernel, which gives it one block of a
card: cuSOLVER takes several launches, and copies before and after. Measured on an H200: two to five times as
fast, and no faster for one of 1000 x 16. Of two and more the library takes one after another, so these go to
the kernel whatever their order."""


def _own_qr(xp: Module, a: Array, mode: str) -> tuple[Array, ...] | None:
    """`qr` by one launch for the whole batch, or None."""
    *batch, m, n = a.shape
    k = min(m, n)
    rows = m if mode == "complete" else k
    if not can_launch(xp) or (math.prod(batch) == 1 and max(m, n) > QR_ALONE):
        return None
    most = shared_memory(xp)
    if k > householder.MOST or m * max(n, rows) * a.itemsize > most:  # before results are allocated
        return None
    make: Any
    made: tuple[Array, ...]
    if mode == "raw":
        make = householder.reflectors
        made = (xp.empty((*batch, n, m), a.dtype), xp.empty((*batch, k), a.dtype))
    elif mode == "r":
        make, made = householder.r_alone, (xp.empty((*batch, k, n), a.dtype),)
    else:
        make = householder.qr
        made = (xp.empty((*batch, m, rows), a.dtype), xp.empty((*batch, rows, n), a.dtype))
    return made if _launched(xp, _within(make, most), *made, a) else None


def eigh(
    xp: Module, a: Array, lower: bool = True, vectors: bool = True
) -> tuple[Array, Array | None, Array]:
    """a v = v diag(w) with w rising, by one triangle; no vectors, nothing that they cost.

    CuPy 14's gives NaN for a matrix of zeros (cupy#6539): one gets a diagonal of ones for the while.
    """
    if not lower:
        a = adjoint(a)
    real = np.dtype(a.dtype.char.lower())
    if not a.size:
        return xp.zeros(a.shape[:-1], real), xp.zeros(a.shape, a.dtype), no_failure(xp, a)
    if can_launch(xp) and a.shape[-1] <= matrices.MOST:
        w, info = xp.empty(a.shape[:-1], real), xp.empty(a.shape[:-2], np.int32)
        v = xp.empty(a.shape, a.dtype) if vectors else None
        if v is None:
            if _launched(xp, eigen.eigvalsh, w, info, a):
                return w, None, info
        elif _launched(xp, eigen.eigh, w, v, info, a):
            return w, v, info
    a, lost = cleared(xp, a)
    if a.ndim > 2 and (found := routines(xp).syev(flat(xp, a), vectors)) is not None:
        w, v, info = (None if x is None else x.reshape(*a.shape[:-2], *x.shape[1:]) for x in found)
        return w, v, judged(xp, lost, w, info)
    zero = xp.all(xp.tril(a) == 0, axis=(-2, -1))
    a = a + zero[..., None, None] * xp.eye(a.shape[-1], dtype=a.dtype)
    w, v = xp.linalg.eigh(a, "L") if vectors else (xp.linalg.eigvalsh(a, "L"), None)
    w = xp.where(zero[..., None], 0, w).astype(real, copy=False)
    return w, v, judged(xp, lost, w)


def svd(
    xp: Module, a: Array, full: bool = False, vectors: bool = True
) -> tuple[Array | None, Array, Array | None, Array]:
    """a = u diag(s) vh with s falling."""
    *batch, m, n = a.shape
    k, real = min(m, n), np.dtype(a.dtype.char.lower())
    if not a.size:
        rows, cols = (m, n) if full else (k, k)
        s = xp.zeros((*batch, k), real)
        u, vh = _eyes(xp, batch, m, rows, a.dtype), _eyes(xp, batch, cols, n, a.dtype)
        return u, s, vh, no_failure(xp, a)
    if can_launch(xp) and not (vectors and full and m != n):
        s, info = xp.empty((*batch, k), real), xp.empty(tuple(batch), np.int32)
        most = shared_memory(xp)
        if not vectors:
            if _launched(xp, _within(singular.svdvals, most), s, info, a):
                return None, s, None, info
        else:
            u, vh = xp.empty((*batch, m, k), a.dtype), xp.empty((*batch, k, n), a.dtype)
            if _launched(xp, _within(singular.svd, most), u, s, vh, info, a):
                return u, s, vh, info
    a, lost = cleared(xp, a)
    if not vectors:
        s = xp.linalg.svd(a, compute_uv=False)
        return None, s, None, judged(xp, lost, s)
    u, s, vh = xp.linalg.svd(a, full_matrices=full)
    return u, s, vh, judged(xp, lost, s)


def eig(xp: Module, a: Array, right: bool = True) -> tuple[Array, Array | None, Array]:
    """a v = v diag(w), always complex; cuSOLVER's Xgeev, where it is.

    Raises:
        Unsupported: this cuSOLVER has none (it came with CUDA 12.6); or it is AMD's library.
    """
    wide = np.dtype(a.dtype.char.upper())
    if not a.size:
        return xp.zeros(a.shape[:-1], wide), xp.zeros(a.shape, wide), no_failure(xp, a)
    a, lost = cleared(xp, a)
    try:
        w, v = xp.linalg.eig(a) if right else (xp.linalg.eigvals(a), None)
    except (AttributeError, NotImplementedError, RuntimeError) as error:
        is_missing = not isinstance(error, RuntimeError) or isinstance(error, NotImplementedError)
        if not is_missing and "geev" not in str(error):  # an error of the library at work
            raise
        raise Unsupported(
            f"eig on a GPU needs cuSOLVER's Xgeev, of CUDA 12.6 or later ({error}); download the matrices "
            f"first, to_host(a) of the GPU's backend, and call eig on the CPU"
        ) from error
    w = w.astype(wide, copy=False)
    v = None if v is None else v.astype(wide, copy=False)
    return w, v, judged(xp, lost, w)


def pseudoinverse(xp: Module, u: Array, s: Array, vh: Array, rcond: Any) -> Array:
    """v diag(1/s) uᴴ over the singular values above rcond times the largest."""
    if not s.shape[-1]:
        return xp.zeros((*s.shape[:-1], vh.shape[-1], u.shape[-2]), u.dtype)
    large = s > rcond * s[..., :1]
    inverse = xp.where(large, 1 / xp.where(large, s, 1), 0).astype(s.dtype, copy=False)
    return xp.matmul(adjoint(vh), inverse[..., None] * adjoint(u))


def lstsq(xp: Module, a: Array, b: Array, rcond: float) -> tuple[Array, Array, Array, Array, Array]:
    """x of least norm with |a x - b| least: x, |a x - b|² of each column, rank, singular values, info."""
    u, s, vh, info = svd(xp, a)
    x = xp.matmul(pseudoinverse(xp, u, s, vh, rcond), b)
    off = xp.abs(xp.matmul(a, x) - b)
    above = s > rcond * s[..., :1] if s.shape[-1] else s > 0
    rank = xp.sum(above, axis=-1).astype(np.int32)
    return x, xp.sum(off * off, axis=-2), rank, s, info


# ---- helpers -------------------------------------------------------------------------------------


def adjoint(x: Array) -> Array:
    return x.swapaxes(-1, -2).conj()


def flat(xp: Module, a: Array) -> Array:
    """The batch along one axis, contiguous."""
    return xp.ascontiguousarray(a).reshape(math.prod(a.shape[:-2]), *a.shape[-2:])


def diagonal(xp: Module, a: Array) -> Array:
    return xp.diagonal(a, axis1=-2, axis2=-1)


def no_failure(xp: Module, a: Array) -> Array:
    return xp.zeros(a.shape[:-2], np.int32)


def zero_pivot(xp: Module, packed: Array) -> Array:
    """One plus the place of the first zero on the diagonal, 0 where there is none."""
    zero = diagonal(xp, packed) == 0
    if not zero.shape[-1]:
        return no_failure(xp, packed)
    return xp.where(xp.any(zero, axis=-1), xp.argmax(zero, axis=-1) + 1, 0).astype(np.int32)


def cleared(xp: Module, a: Array) -> tuple[Array, Array]:
    """a with zeros for members that are not finite, which keep a library busy or worse; and codes, 1 for
    those."""
    if can_launch(xp):
        out, lost = xp.empty(a.shape, a.dtype), xp.empty(a.shape[:-2], np.int32)
        if _launched(xp, finite.cleared, out, lost, a):
            return out, lost
    good = xp.all(xp.isfinite(a), axis=(-2, -1))
    return xp.where(good[..., None, None], a, xp.zeros((), a.dtype)), _code(xp, good)


def judged(xp: Module, lost: Array, values: Array, info: Array | None = None) -> Array:
    """The codes of what a library gave for what `cleared` made: 1 where it was lost, or values [..., k] are
    not finite; elsewhere `info`. `lost` may be written over."""
    info = no_failure(xp, values[..., None]) if info is None else info
    dense = values.flags.c_contiguous and info.flags.c_contiguous and lost.flags.c_contiguous
    if can_launch(xp) and dense and values.size:
        kernel = finite.judged(values.dtype.name, lost.size, values.shape[-1])
        launch(xp, kernel, lost, info, values)
        return lost
    good = (lost == 0) & xp.all(xp.isfinite(values), axis=-1)
    return xp.where(good, info, 1).astype(np.int32)


def _code(xp: Module, good: Array) -> Array:
    return xp.where(good, 0, 1).astype(np.int32)


def _eyes(xp: Module, batch: list[int], rows: int, columns: int, dtype: Any) -> Array:
    return xp.zeros((*batch, rows, columns), dtype) + xp.eye(rows, columns, dtype=dtype)


@cache
def _within(make: Any, most: int) -> Any:
    """The same object every time, which `_launched` looks up by."""
    return partial(make, most=most)


_MADE: Quick[Any] = Quick("cuda kernels of matrices", 1024)
"""By how arrays lie: to describe them to a kernel takes longer than to launch it."""


def _launched(xp: Module, make: Any, *arrays: Array) -> bool:
    """Whether a kernel of our own did it."""
    if not can_launch(xp):
        return False
    key: list[Any] = [make]
    for x in arrays:
        if x.data.ptr % x.itemsize:
            return False
        key += (x.dtype, x.shape, x.strides)
    place = tuple(key)
    kernel: Any = _MADE.get(place)
    if kernel is None:
        operands = operands_of(arrays)
        made: CudaKernel | None = None if operands is None else make(*operands)
        kernel = DECLINED if made is None else made
        _MADE.put(place, kernel)
    if kernel is DECLINED:
        return False
    launch(xp, kernel, *arrays)
    return True

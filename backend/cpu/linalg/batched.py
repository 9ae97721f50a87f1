"""The surface of the package by LAPACK's routines in a loop over the batch, for matrices too large for lanes.

A row-major matrix is, by columns, its transpose. Where a routine gives the same of either, nothing is
transposed: singular vectors change places, a triangle changes its name. Elsewhere matrices are transposed in
cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dtypes import real_of
from ..kernels.linalg.steps import LOWER, UPPER
from . import by_rows
from .finite import cleared, spoil
from .panels import made
from .plain import Array, QRMode, Trans, leftover, lowered, risen, shrunk, tell_nan
from .routines import Steps
from .scaling import in_range, lifted, lifted_system


def stacked(x: Array, core: int = 2) -> Array:
    """[batch, ...]: a view, or a copy where the axes of the batch do not merge."""
    shape = x.shape[x.ndim - core :]
    count = int(np.prod(x.shape[: x.ndim - core], dtype=np.int64))
    x = x.reshape(count, *shape)
    whole = x.flags.aligned and not any(stride % x.itemsize for stride in x.strides)
    return x if whole else x.copy()


def _new(a: Array, *shape: int, dtype: Any = None) -> Array:
    return made((*a.shape[:-2], *shape), a.dtype if dtype is None else dtype)


def _info(a: Array) -> Array:
    return np.zeros(a.shape[:-2], np.int32)


def _packed(steps: Steps, a: Array, rows: int = 0) -> int:
    """A copy of each matrix by columns in scratch; with room for columns of so many rows."""
    m, n = a.shape[-2:]
    rows = max(rows, m)
    to = steps.scratch(rows * n)
    of, strides = steps.take(stacked(a))
    steps.copy(of, strides, to, (1, rows), (m, n))
    return to


def _unpacked(steps: Steps, of: int, rows: int, out: Array, which: int = 0) -> None:
    """The reverse."""
    m, n = out.shape[-2:]
    to, strides = steps.take(stacked(out))
    steps.copy(of, (1, rows), to, strides, (m, n), which)


def cholesky(a: Array, lower: bool = True, *, overwrite: bool = False) -> tuple[Array, Array]:
    factor, info, n = _new(a, *a.shape[-2:]), _info(a), a.shape[-1]
    steps = Steps(a.dtype)
    of, strides = steps.take(stacked(a))
    to = steps.array(stacked(factor))
    steps.copy(of, strides, to, (n, 1), (n, n), LOWER if lower else UPPER)
    # the lower triangle of aᵀ by columns is the upper one of a: aᵀ = lᵀᴴ lᵀ of the same memory
    uplo, size = steps.constant("U" if lower else "L"), steps.constant(n)
    steps.call("potrf", uplo, size, to, size, steps.array(stacked(info, 0)))
    steps.run(info.size)
    tell_nan(factor, info)
    return factor, info


def lu(a: Array, *, overwrite: bool = False) -> tuple[Array, Array, Array]:
    (m, n), info = a.shape[-2:], _info(a)
    packed, pivots = _new(a, m, n), _new(a, min(m, n), dtype=np.int32)
    a, powers = lifted(a)
    if by_rows.suits(a):
        by_rows.factored(stacked(a), stacked(packed), stacked(pivots, 1), stacked(info, 0))
        return lowered(packed, powers), pivots, info
    steps = Steps(a.dtype)
    work, rows = _packed(steps, a), steps.constant(m)
    found, code = steps.array(stacked(pivots, 1)), steps.array(stacked(info, 0))
    steps.call("getrf", rows, steps.constant(n), work, rows, found, code)
    _unpacked(steps, work, m, packed)
    steps.run(info.size)
    pivots -= 1
    return lowered(packed, powers), pivots, info


def lu_solve(lu: Array, pivots: Array, b: Array, trans: Trans = "N") -> Array:
    n, k = b.shape[-2:]
    x = _new(b, n, k)
    lu, b, powers = lifted_system(lu, b, "upper")
    steps = Steps(b.dtype)
    work, right = _packed(steps, lu), _packed(steps, b)
    size, columns = steps.constant(n), steps.constant(k)
    found = steps.array(stacked(pivots + np.int32(1), 1))
    code = steps.scratch(1, np.int32)
    steps.call("getrs", steps.constant(trans), size, columns, work, size, found, right, size, code)
    _unpacked(steps, right, n, x)
    steps.run(x.size // (n * k))
    return risen(x, powers)


def solve(a: Array, b: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    (n, k), info = b.shape[-2:], _info(a)
    x = _new(a, n, k)
    a, b, powers = lifted_system(a, b)
    if by_rows.suits(a):
        by_rows.solve(stacked(a), stacked(b), stacked(x), stacked(info, 0))
        return risen(x, powers), info
    steps = Steps(a.dtype)
    work, right = _packed(steps, a), _packed(steps, b)
    size, columns, pivots = steps.constant(n), steps.constant(k), steps.scratch(n, np.int32)
    code = steps.array(stacked(info, 0))
    steps.call("gesv", size, columns, work, size, pivots, right, size, code)
    _unpacked(steps, right, n, x)
    steps.run(info.size)
    return risen(x, powers), info


def inv(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """By `solve`, as NumPy does: a @ x is closer to 1 than by LAPACK's getri, which solves x @ l = u⁻¹."""
    return solve(a, np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape))


def _diagonal(a: Array) -> tuple[Array, Array]:
    """Diagonals of u, and the sign of the exchanges."""
    m, info = a.shape[-1], _info(a)
    diagonal, pivots = _new(a, m), _new(a, m, dtype=np.int32)
    if by_rows.suits(a):
        found = by_rows.factored(stacked(a), None, stacked(pivots, 1), stacked(info, 0))
        diagonal = found.reshape(diagonal.shape)
    else:
        steps = Steps(a.dtype)
        work, size = _packed(steps, a), steps.constant(m)
        steps.call(
            "getrf", size, size, work, size, steps.array(stacked(pivots, 1)),
            steps.array(stacked(info, 0)),
        )  # fmt: skip
        steps.copy(work, (m + 1, 0), steps.array(stacked(diagonal, 1)), (1, 0), (m, 1))
        steps.run(info.size)
        pivots -= 1
    odd = (pivots != np.arange(m, dtype=np.int32)).sum(axis=-1) % 2
    return diagonal, np.where(odd, -1.0, 1.0).astype(real_of(a.dtype))


def slogdet(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    a, powers = lifted(a)
    diagonal, sign = _diagonal(a)
    size = np.abs(diagonal)
    with np.errstate(all="ignore"):
        unit = np.where(size > 0, diagonal / size, diagonal)
        logabsdet = shrunk(np.asarray(np.log(size).sum(axis=-1)), powers, a.shape[-1])
        return np.asarray(sign * unit.prod(axis=-1)), logabsdet


def det(a: Array, *, overwrite: bool = False) -> Array:
    sign, logabsdet = slogdet(a)
    with np.errstate(all="ignore"):
        return np.asarray(sign * np.exp(logabsdet))


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
    if not left:  # x @ op(a) = b  <=>  op(a)ᵀ @ xᵀ = bᵀ; aᴴᵀ is conj(a)
        if trans == "C":
            a = a.conj() if a.dtype.kind == "c" else a
        other: Trans = "T" if trans == "N" else "N"
        x, info = triangular_solve(a, b.swapaxes(-1, -2), lower, other, unit_diagonal)
        return np.ascontiguousarray(x.swapaxes(-1, -2)), info
    (n, k), info = b.shape[-2:], _info(a)
    x, powers = _new(b, n, k), None
    if not unit_diagonal:
        a, b, powers = lifted_system(a, b, "lower" if lower else "upper")
    steps = Steps(b.dtype)
    work, right = _packed(steps, a), _packed(steps, b)
    letters = "L" if lower else "U", trans, "U" if unit_diagonal else "N"
    size, columns = steps.constant(n), steps.constant(k)
    steps.call(
        "trtrs", *map(steps.constant, letters), size, columns, work, size, right, size,
        steps.array(stacked(info, 0)),
    )  # fmt: skip
    _unpacked(steps, right, n, x)
    steps.run(info.size)
    return risen(x, powers), info


def cho_solve(c: Array, b: Array, lower: bool = True, *, overwrite: bool = False) -> Array:
    n, k = b.shape[-2:]
    x = _new(b, n, k)
    steps = Steps(b.dtype)
    work, right = _packed(steps, c), _packed(steps, b)
    size, columns, uplo = (
        steps.constant(n),
        steps.constant(k),
        steps.constant("L" if lower else "U"),
    )
    code = steps.scratch(1, np.int32)
    steps.call("potrs", uplo, size, columns, work, size, right, size, code)
    _unpacked(steps, right, n, x)
    steps.run(x.size // (n * k))
    return x


def qr(a: Array, mode: QRMode, *, overwrite: bool = False) -> Any:
    m, n = a.shape[-2:]
    k = min(m, n)
    columns = m if mode == "complete" else k
    steps = Steps(a.dtype)
    work = steps.scratch(m * max(n, columns))
    of, strides = steps.take(stacked(a))
    steps.copy(of, strides, work, (1, m), (m, n))
    rows, code = steps.constant(m), steps.scratch(1, np.int32)
    tau = _new(a, k)
    taus = steps.array(stacked(tau, 1))
    first = [rows, steps.constant(n), work, rows, taus]
    (length,) = steps.best("geqrf", [*first, -1, -1, code], {5: a.dtype})
    steps.call("geqrf", *first, steps.scratch(length), steps.constant(length), code)
    count = tau.size // k
    if mode == "raw":
        h = _new(a, n, m)
        _unpacked(steps, work, m, h.swapaxes(-1, -2))
        steps.run(count)
        return h, tau
    r = _new(a, columns, n)
    _unpacked(steps, work, m, r, UPPER)
    if mode == "r":
        steps.run(count)
        return r
    q = _new(a, m, columns)
    name = "ungqr" if steps.is_complex else "orgqr"
    first = [rows, steps.constant(columns), steps.constant(k), work, rows, taus]
    (length,) = steps.best(name, [*first, -1, -1, code], {6: a.dtype})
    steps.call(name, *first, steps.scratch(length), steps.constant(length), code)
    _unpacked(steps, work, m, q)
    steps.run(count)
    return q, r


def eigh(
    a: Array, lower: bool = True, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array]:
    n, info, real = a.shape[-1], _info(a), real_of(a.dtype)
    w = _new(a, n, dtype=real)
    steps = Steps(a.dtype)
    work = _packed(steps, a)
    size, code = steps.constant(n), steps.array(stacked(info, 0))
    letters = "V" if vectors else "N", "L" if lower else "U"
    first = [*map(steps.constant, letters), size, work, size, steps.array(stacked(w, 1))]
    works: dict[int, Any] = {6: a.dtype}
    works |= {8: real, 10: np.int32} if steps.is_complex else {8: np.int32}
    name = "heevd" if steps.is_complex else "syevd"
    _call_with(steps, name, first, works, code)
    v = None
    if vectors:
        v = _new(a, n, n)
        _unpacked(steps, work, n, v)
    steps.run(info.size)
    return w, v, info


def _call_with(steps: Steps, name: str, first: list[int], works: dict[int, Any], code: int) -> None:
    """A routine whose last arguments are workspaces, each with its length, and the code."""
    lengths = steps.best(name, [*first, *[-1] * (2 * len(works)), code], works)
    rest = []
    for length, dtype in zip(lengths, works.values(), strict=True):
        rest += [steps.scratch(length, dtype), steps.constant(length)]
    steps.call(name, *first, *rest, code)


def svd(
    a: Array, full: bool = False, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array | None, Array, Array | None, Array]:
    a, infinite = cleared(a)
    u, s, vh, info = _svd(a, full, vectors)
    spoil(infinite, info, u, s, vh)
    return u, s, vh, info


def _svd(a: Array, full: bool, vectors: bool) -> tuple[Array | None, Array, Array | None, Array]:
    (m, n), info, real = a.shape[-2:], _info(a), real_of(a.dtype)
    k = min(m, n)
    s = _new(a, k, dtype=real)
    steps = Steps(a.dtype)
    of, strides = steps.take(stacked(a))
    work = steps.scratch(m * n)
    steps.copy(of, strides, work, (n, 1), (m, n))
    # by columns aᵀ = v̄ s uᵀ: its left vectors are, by rows, vᴴ, and its right ones u
    u = vh = None
    left = right = steps.scratch(1)
    if vectors:
        u, vh = _new(a, m, m if full else k), _new(a, n if full else k, n)
        left, right = steps.array(stacked(vh)), steps.array(stacked(u))
    letter = steps.constant(("A" if full else "S") if vectors else "N")
    rows, code = steps.constant(n), steps.array(stacked(info, 0))
    ld = steps.constant(u.shape[-1] if u is not None else 1)
    first = [
        letter,
        rows,
        steps.constant(m),
        work,
        rows,
        steps.array(stacked(s, 1)),
        left,
        rows,
        right,
        ld,
    ]
    (length,) = steps.best(
        "gesdd", [*first, -1, -1, *([code] if steps.is_complex else []), code, code], {10: a.dtype}
    )
    rest = [steps.scratch(length), steps.constant(length)]
    if steps.is_complex:
        most = max(m, n)
        rest.append(steps.scratch(k * max(5 * k + 7, 2 * most + 2 * k + 1), real))
    steps.call("gesdd", *first, *rest, steps.scratch(8 * k, np.int32), code)
    steps.run(info.size)
    return u, s, vh, info


def eig(
    a: Array, left: bool = False, right: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array | None, Array]:
    a, factor = in_range(a)
    n, info, real = a.shape[-1], _info(a), real_of(a.dtype)
    dtype = np.result_type(a.dtype, np.complex64)
    w = _new(a, n, dtype=dtype)
    steps = Steps(a.dtype)
    work, size = _packed(steps, a), steps.constant(n)
    code = steps.array(stacked(info, 0))
    first = [
        steps.constant("V" if left else "N"),
        steps.constant("V" if right else "N"),
        size,
        work,
        size,
    ]
    parts = [w] if steps.is_complex else [_new(a, n, dtype=real), _new(a, n, dtype=real)]
    first += [steps.array(stacked(x, 1)) for x in parts]
    buffers = [steps.scratch(n * n if wanted else 1) for wanted in (left, right)]
    for buffer in buffers:
        first += [buffer, size]
    last = [steps.scratch(2 * n, real), code] if steps.is_complex else [code]
    (length,) = steps.best("geev", [*first, -1, -1, *last], {len(first): a.dtype})
    steps.call("geev", *first, steps.scratch(length), steps.constant(length), *last)
    found = []
    for buffer, wanted in zip(buffers, (left, right), strict=True):
        v = _new(a, n, n) if wanted else None
        if v is not None:
            _unpacked(steps, buffer, n, v)
        found.append(v)
    steps.run(info.size)
    if not steps.is_complex:
        w.real, w.imag = parts
        found = [None if v is None else _paired(v, w, dtype) for v in found]
    if factor is not None:
        w *= factor[..., None]
    return w, found[0], found[1], info


def _paired(v: Array, w: Array, dtype: Any) -> Array:
    """Complex vectors of a real matrix: columns j, j + 1 hold both parts of those of a conjugate pair."""
    out = made(v.shape, dtype)
    out.real, out.imag = v, 0
    n = v.shape[-1]
    # failed members may hold anything: a first of a pair in the last column is none
    first = (w.imag > 0)[..., None, : n - 1]
    if first.any():
        re, im = v[..., : n - 1], v[..., 1:]
        np.copyto(out.imag[..., : n - 1], im, where=first)
        np.copyto(out.real[..., 1:], re, where=first)
        np.copyto(out.imag[..., 1:], -im, where=first)
    return out


def lstsq(
    a: Array, b: Array, rcond: float, *, overwrite: bool = False
) -> tuple[Array, Array, Array, Array, Array]:
    a, infinite = cleared(a)
    x, residuals, rank, s, info = _lstsq(a, b, rcond)
    spoil(infinite, info, x, residuals, s)
    return x, residuals, rank, s, info


def _lstsq(a: Array, b: Array, rcond: float) -> tuple[Array, Array, Array, Array, Array]:
    (m, n), k = a.shape[-2:], b.shape[-1]
    info, real, rows = _info(a), real_of(a.dtype), max(m, n)
    s, rank = _new(a, min(m, n), dtype=real), np.zeros(a.shape[:-2], np.int32)
    steps = Steps(a.dtype)
    work, right = _packed(steps, a), _packed(steps, b, rows)
    code = steps.array(stacked(info, 0))
    size = steps.constant(m)
    first = [
        size, steps.constant(n), steps.constant(k), work, size, right, steps.constant(rows),
        steps.array(stacked(s, 1)), steps.constant(float(rcond)), steps.array(stacked(rank, 0)),
    ]  # fmt: skip
    own = np.zeros(2, real), np.zeros(2, np.int32)
    answers = [steps.array(held[None]) for held in own]
    last = answers if steps.is_complex else answers[1:]
    (length,) = steps.best("gelsd", [*first, -1, -1, *last, code], {10: a.dtype})
    sizes = [max(1, int(held[0])) for held in own]
    rest = [steps.scratch(sizes[1], np.int32)]
    if steps.is_complex:
        rest.insert(0, steps.scratch(sizes[0], real))
    steps.call("gelsd", *first, steps.scratch(length), steps.constant(length), *rest, code)
    found = _new(a, rows, k)
    _unpacked(steps, right, rows, found)
    steps.run(info.size)
    x = np.ascontiguousarray(found[..., :n, :])
    with np.errstate(all="ignore"):
        beyond = np.abs(found[..., n:, :])
        residuals = (beyond * beyond).sum(axis=-2)
    leftover(a, b, x, rank, residuals)
    return x, residuals, rank, s, info

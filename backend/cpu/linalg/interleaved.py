"""The surface of the package for many small matrices: as many at once as a vector has lanes.

Rows of scratch have an odd length: a column at a power of two would share few sets of the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dtypes import real_of
from ..kernels.linalg import cholesky as _cholesky
from ..kernels.linalg import expand, gauss, hermitian, householder, jacobi, two
from ..strided import readable
from . import batched
from .panels import Port, made, run_panels
from .plain import Array, QRMode, Trans
from .turns import in_turns

EXPANDED = {2: expand.expand_two, 3: expand.expand_three}
SHARE = 4096  # matrices that one call of such a kernel takes, where there are more


def odd(n: int) -> int:
    """n or n + 1."""
    return n | 1


def _info(a: Array) -> tuple[Array, Array]:
    """As it is returned, and as a kernel writes it."""
    info = np.zeros(a.shape[:-2], np.int32)
    return info, info.reshape(-1)


def _new(a: Array, *shape: int, dtype: Any = None) -> Array:
    return made((*a.shape[:-2], *shape), a.dtype if dtype is None else dtype)


def cholesky(a: Array, lower: bool = True, *, overwrite: bool = False) -> tuple[Array, Array]:
    n, factor, (info, codes) = a.shape[-1], _new(a, *a.shape[-2:]), _info(a)
    row = odd(n)
    # an upper triangle, transposed, is the lower one of conj(a), and uᵀ its factor
    steps = (row, 1) if lower else (1, row)
    ports = (Port(a, steps), Port(factor, steps))
    run_panels(_cholesky.cholesky_panels, ports, (row, n), n * row, 1, a.dtype, codes)
    return factor, info


def lu(a: Array, *, overwrite: bool = False) -> tuple[Array, Array, Array]:
    (m, n), packed, (info, codes) = a.shape[-2:], _new(a, *a.shape[-2:]), _info(a)
    pivots, row = _new(a, min(m, n), dtype=np.int32), odd(n)
    ports = (Port(a, (row, 1)), Port(packed, (row, 1)))
    found = pivots.reshape(-1, min(m, n))
    run_panels(gauss.lu_panels, ports, (row, m, n), m * row, max(m, n), a.dtype, codes, found)
    return packed, pivots, info


def solve(a: Array, b: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    (n, k), (info, codes) = b.shape[-2:], _info(a)
    x, row = _new(a, n, k), odd(n + k)
    ports = (Port(a, (row, 1)), Port(x, (row, 1), n), Port(b, (row, 1), n))
    run_panels(gauss.solve_panels, ports, (row, n, k, 0), n * row, n, a.dtype, codes)
    return x, info


def inv(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    n, (info, codes) = a.shape[-1], _info(a)
    x, row = _new(a, n, n), odd(2 * n)
    ports = (Port(a, (row, 1)), Port(x, (row, 1), n))
    run_panels(gauss.solve_panels, ports, (row, n, n, 1), n * row, n, a.dtype, codes)
    return x, info


def _determinants(a: Array, whole: bool) -> tuple[Array, Array]:
    """Numbers of size about 1, and the powers of two that they are multiplied by; or the products."""
    n, row = a.shape[-1], odd(a.shape[-1])
    found, powers = _new(a), np.empty((0,) if whole else a.shape[:-2], np.int32)
    parts = found.reshape(-1).view(real_of(a.dtype))
    run_panels(
        gauss.det_panels, (Port(a, (row, 1)),), (row, n, int(whole)), n * row, n, a.dtype, parts,
        powers.reshape(-1),
    )  # fmt: skip
    return found, powers


def det(a: Array, *, overwrite: bool = False) -> Array:
    if a.shape[-1] not in EXPANDED:
        return _determinants(a, True)[0]
    n, found, info = a.shape[-1], _new(a), np.finfo(a.dtype)
    matrices, results, kernel = readable(a).reshape(-1, n, n), found.reshape(-1), EXPANDED[n]
    flat = matrices.reshape(-1)
    integer = np.dtype(f"i{info.dtype.itemsize}")
    ends = np.array((info.tiny, info.max), info.dtype).view(integer)
    limits = np.array((np.iinfo(integer).max, *ends), integer)
    least = np.array((float(info.tiny) / float(info.eps),), info.dtype)
    bits, is_left = results.view(integer), np.zeros(1, np.int64)

    def run(start: int, stop: int) -> None:
        kernel(start, stop, flat, results, bits, least, limits, is_left)

    in_turns(lambda: run, len(results), SHARE)
    if is_left[0]:
        with np.errstate(over="ignore"):
            size = np.abs(results)
        left = ~((size >= info.tiny) & (size <= info.max))
        results[left] = _determinants(matrices[left], True)[0]
    return found


def slogdet(a: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    found, powers = _determinants(a, False)
    size = np.abs(found)
    with np.errstate(all="ignore"):
        logabsdet = np.log(size) + powers * np.log(np.asarray(2, size.dtype))
        sign = np.where(size > 0, found / size, found)
    return np.asarray(sign, a.dtype), np.asarray(logabsdet, size.dtype)


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
    """From the right: x op(a) = b is op(a)ᵀ xᵀ = bᵀ, and arrays may be read and written transposed."""
    is_turned = (trans == "N") != left
    is_conjugated = trans == "C" and a.dtype.kind == "c"
    return _triangular(a, b, lower, is_turned, (unit_diagonal, is_conjugated, False), left)


def cho_solve(c: Array, b: Array, lower: bool = True, *, overwrite: bool = False) -> Array:
    """uᴴ u with the lower triangle l = uᴴ: the transpose, conjugated."""
    return _triangular(c, b, lower, not lower, (False, not lower, True), True)[0]


def _triangular(
    a: Array, b: Array, lower: bool, is_turned: bool, flags: tuple[bool, bool, bool], left: bool
) -> tuple[Array, Array]:
    (info, codes), x = _info(a), _new(b, *b.shape[-2:])
    n, k = b.shape[-2:] if left else b.shape[:-3:-1]
    row = odd(n + k)
    steps = (row, 1) if left else (1, row)
    ports = (Port(a, (1, row) if is_turned else (row, 1)), Port(x, steps, n), Port(b, steps, n))
    sizes = (row, n, k, int(lower != is_turned), *map(int, flags))
    run_panels(_cholesky.triangular_panels, ports, sizes, n * row, 1, a.dtype, codes)
    return x, info


def qr(a: Array, mode: QRMode, *, overwrite: bool = False) -> Any:
    m, n = a.shape[-2:]
    k, row = min(m, n), odd(n)
    columns = {"reduced": k, "complete": m}.get(mode, 0)
    ports, row_q = [Port(a, (row, 1))], odd(columns)
    q = m * row + k  # scratch: a, tau, q
    if mode == "raw":
        results = [_new(a, n, m), _new(a, k)]
        ports += [Port(results[0], (1, row)), Port(results[1], (1,), m * row)]
    else:
        results = [_new(a, max(k, columns), n)]
        ports.append(Port(results[0], (row, 1)))
        if columns:
            results.insert(0, _new(a, m, columns))
            ports.append(Port(results[0], (row_q, 1), q))
    sizes = (row, m, n, row_q, columns, int(mode == "raw"))
    run_panels(householder.qr_panels, ports, sizes, q + m * row_q * (columns > 0), 1, a.dtype)
    return tuple(results) if len(results) > 1 else results[0]


def eigh(
    a: Array, lower: bool = True, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array]:
    n, row, (info, codes) = a.shape[-1], odd(a.shape[-1]), _info(a)
    w = _new(a, n, dtype=real_of(a.dtype))
    v = _new(a, n, n) if vectors else None
    ports = [Port(a, (row, 1) if lower else (1, row)), Port(w, (1,), in_reals=True)]
    if v is not None:
        ports.append(Port(v, (1, row), n * row + 2 * n))
    sizes = (row, n, int(vectors), int(not lower))
    size = n * row * (2 if vectors else 1) + 2 * n
    run_panels(hermitian.eigh_panels, ports, sizes, size, 4 * n, a.dtype, codes)
    return w, v, info


def svd(
    a: Array, full: bool = False, vectors: bool = True, *, overwrite: bool = False
) -> tuple[Array | None, Array, Array | None, Array]:
    """A wide one is read transposed, and u and vᴴ change places."""
    (m, n), (info, codes) = a.shape[-2:], _info(a)
    if full and vectors and m != n:
        return _full_svd(a)
    k = min(m, n)
    is_wide = n > m
    m, n = max(m, n), k
    row, row_v = odd(m), odd(n)
    s = _new(a, k, dtype=real_of(a.dtype))
    u = vh = None
    ports = [Port(a, (row, 1) if is_wide else (1, row)), Port(s, (1,), in_reals=True)]
    if vectors:
        u, vh = _new(a, a.shape[-2], k), _new(a, k, a.shape[-1])
        tall, square = (vh, u) if is_wide else (u, vh)
        ports.append(Port(tall, (row, 1) if is_wide else (1, row)))
        ports.append(Port(square, (1, row_v) if is_wide else (row_v, 1), n * row))
    sizes = (row, m, n, int(vectors), row_v)
    vectors_of_scratch = 3 * n * row + n * row_v + 3 * n
    run_panels(jacobi.svd_panels, ports, sizes, vectors_of_scratch, 4 * n, a.dtype, codes)
    return u, s, vh, info


def _full_svd(a: Array) -> tuple[Array, Array, Array, Array]:
    u, s, vh, info = svd(a)
    assert u is not None
    assert vh is not None
    if a.shape[-2] > a.shape[-1]:
        return _completed(u), s, vh, info
    return u, s, np.ascontiguousarray(adjoint(_completed(adjoint(vh)))), info


def _completed(q: Array) -> Array:
    """A basis of all vectors that begins with the columns of q: Householder's reflections add the others."""
    basis: Array = qr(q, "complete")[0]
    basis[..., : q.shape[-1]] = q
    return basis


def eig(
    a: Array, left: bool = False, right: bool = True, *, overwrite: bool = False
) -> tuple[Array, Array | None, Array | None, Array]:
    """In closed form, for order 2 alone."""
    if left or a.shape[-1] != 2:
        return batched.eig(a, left, right, overwrite=overwrite)
    dtype, (info, codes) = np.result_type(a.dtype, np.complex64), _info(a)
    w = _new(a, 2, dtype=dtype)
    v = _new(a, 2, 2, dtype=dtype) if right else None
    ports = [Port(a, (2, 1)), Port(w, (1,), two.VALUES)]
    if v is not None:
        ports.append(Port(v, (2, 1), two.VECTORS))
    kernel = two.eig_two_complex_panels if a.dtype.kind == "c" else two.eig_two_panels
    vectors = (two.VECTORS + 4) * dtype.itemsize // a.itemsize
    run_panels(kernel, ports, (int(right),), vectors, 1, a.dtype, codes)
    return w, None, v, info


def lstsq(
    a: Array, b: Array, rcond: float, *, overwrite: bool = False
) -> tuple[Array, Array, Array, Array, Array]:
    """By singular values: x = v s⁻¹ uᴴ b, of those that are large enough."""
    u, s, vh, info = svd(a)
    assert u is not None
    assert vh is not None
    with np.errstate(all="ignore"):
        is_kept = s > rcond * s[..., :1]
        inverse = np.where(is_kept, 1 / s, 0).astype(s.dtype)[..., None]
        x = adjoint(vh) @ (inverse * (adjoint(u) @ b))
        off = np.abs(b - a @ x)
        residuals = (off * off).sum(axis=-2)
    rank = np.asarray(is_kept.sum(axis=-1, dtype=np.int32))
    return np.asarray(x), np.asarray(residuals), rank, s, info


def adjoint(x: Array) -> Array:
    """xᴴ of each matrix."""
    return np.asarray(x.swapaxes(-1, -2).conj() if x.dtype.kind == "c" else x.swapaxes(-1, -2))

"""Nx's matrix operations: batches in the leading axes, results always new.

Singular values and the eigenvalues of eigh are float64, what eig gives is complex128; all are computed in
the precision of the operand.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

from .._base.errors import LinAlgError, MatrixShapeError, ProgramError, ShapeError, Unsupported
from .catalogue import infer
from .cpu import linalg
from .nx_calls import Array, call, compute, tensor
from .spec import ArraySpec, compute_dtype, dtype_name


def matmul(a: Array, b: Array, *, out: Array) -> Array:
    """out[.., m, n] = sum_k a[.., m, k] b[.., k, n].

    Args:
        a, b: [.., m, k] and [.., k, n] of one dtype; leading axes broadcast, as views of stride 0.
        out: [.., m, n].
    """
    a, b = tensor("matmul", a), tensor("matmul", b)
    if a.ndim >= 2 and b.ndim >= 2 and a.shape[:-2] != b.shape[:-2]:
        try:
            batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError:
            raise ShapeError(
                f"nx.matmul: the leading axes of {a.shape} and {b.shape} do not broadcast"
            ) from None
        a, b = (np.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b))
    return compute("matmul", "matmul", a, b, out=out)


def cholesky(t: Array, *, upper: bool) -> Array:
    """L with t = L Lᴴ, or U with t = Uᴴ U.

    Args:
        t: [.., n, n], Hermitian and positive definite; the triangle that `upper` names is read.

    Returns:
        [.., n, n] in the dtype of t, zero in the other triangle.

    Raises:
        LinAlgError: a matrix is not positive definite.
    """
    factor, info = linalg.cholesky(_matrices("cholesky", t), not upper)
    _raise("cholesky", "Matrix is not positive definite", info)
    return _back(factor, t)


def qr(t: Array, *, reduced: bool) -> tuple[Array, Array]:
    """(Q, R) with t = Q R, Q with orthonormal columns, R upper triangular.

    Args:
        t: [.., m, n].

    Returns:
        [.., m, k] and [.., k, n] in the dtype of t: k is min(m, n) if `reduced`, else m.
    """
    q, r = linalg.qr(_matrices("qr", t), "reduced" if reduced else "complete")
    return _back(q, t), _back(r, t)


def svd(t: Array, *, full_matrices: bool) -> tuple[Array, Array, Array]:
    """(U, S, Vᴴ) with t = U diag(S) Vᴴ, S falling.

    Args:
        t: [.., m, n].

    Returns:
        [.., m, k], [.., min(m, n)] and [.., l, n], S in float64 and the others in the dtype of t: k and l
        are min(m, n), or m and n with `full_matrices`.

    Raises:
        LinAlgError: no convergence, as for a matrix with NaN.
    """
    u, s, vh, info = linalg.svd(_matrices("svd", t), full_matrices)
    _raise("svd", "SVD did not converge", info)
    return _back(cast(Array, u), t), s.astype(np.float64), _back(cast(Array, vh), t)


def eig(t: Array, *, vectors: bool) -> tuple[Array, Array | None]:
    """(w, V) with t V = V diag(w).

    Args:
        t: [.., n, n].

    Returns:
        [.., n] and [.., n, n] in complex128, which Nx calls complex64 by the size of its parts; columns of V
        have norm 1. V is None without `vectors`.

    Raises:
        LinAlgError: no convergence, as for a matrix with NaN.
    """
    w, _, v, info = linalg.eig(_matrices("eig", t), right=vectors)
    _raise("eig", "Eigenvalues did not converge", info)
    return w.astype(np.complex128), None if v is None else v.astype(np.complex128)


def eigh(t: Array, *, vectors: bool) -> tuple[Array, Array | None]:
    """(w, V) with t V = V diag(w), w rising.

    Args:
        t: [.., n, n], Hermitian; the lower triangle is read.

    Returns:
        [.., n] in float64 and [.., n, n] in the dtype of t. V is None without `vectors`.

    Raises:
        LinAlgError: no convergence, as for a matrix with NaN.
    """
    w, v, info = linalg.eigh(_matrices("eigh", t), True, vectors)
    _raise("eigh", "Eigenvalues did not converge", info)
    return w.astype(np.float64), None if v is None else _back(v, t)


def triangular_solve(a: Array, b: Array, *, upper: bool, transpose: bool, unit_diag: bool) -> Array:
    """x with a x = b, or with `transpose` aᵀ x = b.

    The transpose is not conjugated: aᴴ x = b is solved by the conjugate of b, of which x is the conjugate.

    Args:
        a: [.., n, n], triangular; the other triangle is not read, nor with `unit_diag` the diagonal.
        b: [.., n] or [.., n, k], of the dtype of a.

    Returns:
        [.., n] or [.., n, k], as b is.

    Raises:
        LinAlgError: there is a zero on the diagonal.
    """
    a, b = tensor("triangular_solve", a), tensor("triangular_solve", b)
    is_vector = b.ndim == a.ndim - 1
    right = b[..., None] if is_vector else b
    attrs = {
        "lower": not upper,
        "trans": "T" if transpose else "N",
        "unit_diagonal": unit_diag,
        "side": "left",
    }
    wide = _matrices("triangular_solve", a, right, **attrs)
    trans: Literal["N", "T"] = "T" if transpose else "N"
    x, info = linalg.triangular_solve(wide, _wide(right), not upper, trans, unit_diag)
    _raise("triangular_solve", "Matrix is singular", info)
    return _back(x[..., 0] if is_vector else x, b)


def _matrices(op: str, *arrays: Array, **attrs: Any) -> Array:
    """The first operand in a dtype that LAPACK has, after the check of all by the catalogue's rule."""
    for x in arrays:
        if dtype_name(tensor(op, x).dtype) in ("longdouble", "clongdouble"):
            raise Unsupported(
                f"nx.{op} does not take {dtype_name(x.dtype)} on the CPU; cast it to float64 or complex128"
            )
    try:
        infer(op, attrs, tuple(ArraySpec(x.dtype, x.shape) for x in arrays))
    except ProgramError as error:
        raise MatrixShapeError(f"nx.{error}") from None
    return _wide(arrays[0])


def _wide(x: Array) -> Array:
    """Half precisions, and foreign byte orders, in the native dtype that they are computed in."""
    dtype = compute_dtype(x.dtype).newbyteorder("=")
    return x if dtype == x.dtype else x.astype(dtype)


def _back(x: Array, like: Array) -> Array:
    return x if x.dtype == like.dtype else call("cast", "cast", x, dtype=dtype_name(like.dtype))


def _raise(name: str, failure: str, info: Array) -> None:
    if info.any():
        members = tuple(tuple(map(int, at)) for at in np.argwhere(info))
        where = f" at {', '.join(map(str, members[:5]))}" if info.ndim else ""
        raise LinAlgError(f"nx.{name}: {failure}{where} (code {info[members[0]]})", info, members)

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
    """out[.., m, n] = sum_k a[.., m, k] b[.., k, n]; leading axes broadcast."""
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
    """L with t = L Lᴴ, or U with t = Uᴴ U; that triangle of t is read, the other of the result is 0.

    Raises:
        LinAlgError: a matrix is not positive definite.
    """
    factor, info = linalg.cholesky(_matrices("cholesky", t), not upper)
    _raise("cholesky", "Matrix is not positive definite", info)
    return _back(factor, t)


def qr(t: Array, *, reduced: bool) -> tuple[Array, Array]:
    """(Q, R) with t = Q R, Q with orthonormal columns, R upper triangular."""
    q, r = linalg.qr(_matrices("qr", t), "reduced" if reduced else "complete")
    return _back(q, t), _back(r, t)


def svd(t: Array, *, full_matrices: bool) -> tuple[Array, Array, Array]:
    """(U, S, Vᴴ) with t = U diag(S) Vᴴ; S is float64 and falls.

    Raises:
        LinAlgError: no convergence, as for a matrix with NaN.
    """
    u, s, vh, info = linalg.svd(_matrices("svd", t), full_matrices)
    _raise("svd", "SVD did not converge", info)
    return _back(cast(Array, u), t), s.astype(np.float64), _back(cast(Array, vh), t)


def eig(t: Array, *, vectors: bool) -> tuple[Array, Array | None]:
    """(w, V) with t V = V diag(w), complex128 both; V is None unless asked for.

    Nx's complex64 is a pair of 64-bit floats, which NumPy calls complex128.

    Raises:
        LinAlgError: no convergence, as for a matrix with NaN.
    """
    w, _, v, info = linalg.eig(_matrices("eig", t), right=vectors)
    _raise("eig", "Eigenvalues did not converge", info)
    return w.astype(np.complex128), None if v is None else v.astype(np.complex128)


def eigh(t: Array, *, vectors: bool) -> tuple[Array, Array | None]:
    """(w, V) with t V = V diag(w) for Hermitian t, of which the lower triangle is read; w is float64 and
    rises, V is None unless asked for.

    Raises:
        LinAlgError: no convergence, as for a matrix with NaN.
    """
    w, v, info = linalg.eigh(_matrices("eigh", t), True, vectors)
    _raise("eigh", "Eigenvalues did not converge", info)
    return w.astype(np.float64), None if v is None else _back(v, t)


def triangular_solve(a: Array, b: Array, *, upper: bool, transpose: bool, unit_diag: bool) -> Array:
    """x with a x = b, or aᵀ x = b, for triangular a [.., n, n] and b [.., n] or [.., n, k].

    The transpose is not conjugated: aᴴ x = b is solved by the conjugates of b and of x.

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

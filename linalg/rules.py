"""Dtypes and shapes of results: plain arithmetic, so that a size may be known later."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import MatrixShapeError, ShapeError
from ..backend.catalogue import Attrs
from ..backend.dims import differ, minimum, shapes_differ
from ..backend.spec import ArraySpec, Shape

Specs = tuple[ArraySpec, ...]
INT32 = np.dtype(np.int32)


def real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 of complex64, float64 of complex128."""
    return np.dtype({"F": "f", "D": "d"}.get(dtype.char, dtype.char))


def complexed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """complex64 of float32, complex128 of float64."""
    return np.dtype({"f": "F", "d": "D"}.get(dtype.char, dtype.char))


def parts(x: ArraySpec) -> tuple[Shape, Any, Any]:
    """Batch shape, rows and columns."""
    if len(x.shape) < 2:
        raise MatrixShapeError(f"linear algebra on {x}: there must be two axes at least")
    return x.shape[:-2], x.shape[-2], x.shape[-1]


def square_parts(x: ArraySpec) -> tuple[Shape, Any]:
    batch, m, n = parts(x)
    if differ(m, n):
        raise MatrixShapeError(f"linear algebra on {x}: the last two axes must be square")
    return batch, n


def like_matrix(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] -> [..., n, n]"""
    square_parts(inputs[0])
    return (ArraySpec(inputs[0].dtype, inputs[0].shape),)


def determinant(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] -> [...]"""
    return (ArraySpec(inputs[0].dtype, square_parts(inputs[0])[0]),)


def sign_and_log(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] -> [...], real [...]"""
    (det,) = determinant(attrs, inputs)
    return det, ArraySpec(real(det.dtype), det.shape)


def solution(attrs: Attrs, inputs: Specs) -> Specs:
    """a [..., n, n], b [..., n, k] -> [..., n, k]; from the right a [..., k, k] and b [..., n, k]"""
    a, b = inputs[0], inputs[-1]
    batch, n = square_parts(a)
    given = b.shape[-1] if attrs.get("side", "left") == "right" else b.shape[-2]
    if differ(n, given) or shapes_differ(batch, b.shape[:-2]):
        raise ShapeError(f"linear algebra: {a} and {b} do not fit each other")
    return (ArraySpec(b.dtype, b.shape),)


def packed_lu(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> [..., m, n], int32 [..., min(m, n)]"""
    (x,) = inputs
    batch, m, n = parts(x)
    return ArraySpec(x.dtype, x.shape), ArraySpec(INT32, (*batch, minimum(m, n)))


def unpacked_lu(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> real [..., m, m] or indices [..., m], [..., m, k], [..., k, n]; k = min(m, n)"""
    (x,) = inputs
    batch, m, n = parts(x)
    k = minimum(m, n)
    factors = ArraySpec(x.dtype, (*batch, m, k)), ArraySpec(x.dtype, (*batch, k, n))
    if attrs.get("permute_l"):
        return factors
    if attrs.get("p_indices"):
        return ArraySpec(np.dtype(np.intp), (*batch, m)), *factors
    return ArraySpec(real(x.dtype), (*batch, m, m)), *factors


def fully_pivoted_lu(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] -> real P, L, U, real Q, real parity [...]"""
    (x,) = inputs
    batch, _ = square_parts(x)
    same, moved = ArraySpec(x.dtype, x.shape), ArraySpec(real(x.dtype), x.shape)
    return moved, same, same, moved, ArraySpec(moved.dtype, batch)


def orthogonal(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> Q and R, R alone, or reflectors [..., n, m] and their factors [..., k]"""
    (x,) = inputs
    batch, m, n = parts(x)
    k, mode = minimum(m, n), attrs["mode"]
    shapes = {
        "reduced": ((m, k), (k, n)),
        "complete": ((m, m), (m, n)),
        "r": ((k, n),),
        "raw": ((n, m), (k,)),
    }[mode]
    return tuple(ArraySpec(x.dtype, (*batch, *shape)) for shape in shapes)


def singular(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> U, real S [..., k], Vh; S alone without vectors"""
    (x,) = inputs
    batch, m, n = parts(x)
    k = minimum(m, n)
    s = ArraySpec(real(x.dtype), (*batch, k))
    if not attrs.get("vectors", True):
        return (s,)
    rows, cols = (m, n) if attrs.get("full", False) else (k, k)
    return ArraySpec(x.dtype, (*batch, m, rows)), s, ArraySpec(x.dtype, (*batch, cols, n))


def hermitian_spectrum(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] -> real [..., n], and vectors [..., n, n] unless told otherwise"""
    (x,) = inputs
    batch, n = square_parts(x)
    w = ArraySpec(real(x.dtype), (*batch, n))
    return (w, ArraySpec(x.dtype, x.shape)) if attrs.get("vectors", True) else (w,)


def general_spectrum(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., n, n] -> complex [..., n], then left and right vectors as asked"""
    (x,) = inputs
    batch, n = square_parts(x)
    dtype = complexed(x.dtype)
    count = attrs.get("left", False) + attrs.get("right", True)
    return (ArraySpec(dtype, (*batch, n)), *(ArraySpec(dtype, x.shape),) * count)


def least_squares(attrs: Attrs, inputs: Specs) -> Specs:
    """a [..., m, n], b [..., m, k] -> x, residuals [..., k], rank [...], singular values"""
    a, b = inputs
    batch, m, n = parts(a)
    k = b.shape[-1]
    if differ(m, b.shape[-2]) or shapes_differ(batch, b.shape[:-2]):
        raise ShapeError(f"linear algebra: {a} and {b} do not fit each other")
    return (
        ArraySpec(a.dtype, (*batch, n, k)),
        ArraySpec(real(a.dtype), (*batch, k)),
        ArraySpec(INT32, batch),
        ArraySpec(real(a.dtype), (*batch, minimum(m, n))),
    )


def pseudoinverse(attrs: Attrs, inputs: Specs) -> Specs:
    """[..., m, n] -> [..., n, m]"""
    (x,) = inputs
    batch, m, n = parts(x)
    return (ArraySpec(x.dtype, (*batch, n, m)),)

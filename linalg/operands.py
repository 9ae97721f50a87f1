"""Operands of linear algebra: arrays of one of four dtypes, with matrices in the last two axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._base.errors import DTypeError, MatrixShapeError, ShapeError
from ..backend.dims import differ
from ..backend.door import as_ndarray, is_torch, to_torch
from ..backend.spec import Shape, dtype_name
from ..program.trace import Traced, broadcast_shape

Array = np.ndarray[Any, Any]
Wrap = Callable[[Array], Any]

NATIVE = frozenset(np.dtype(char) for char in "fdFD")


def operand(call: str, x: Any, position: int = 0) -> Any:
    """x as a plain array, or the traced value that it is."""
    if type(x) is np.ndarray or type(x) is Traced:
        return x
    return as_ndarray(x, call, position)


def wrap_of(x: Any) -> Wrap | None:
    """What makes results as `x` is: a subclass of ndarray, a torch tensor; None for plain arrays."""
    if type(x) is np.ndarray or type(x) is Traced:
        return None
    if isinstance(x, np.ndarray):
        return x.__array_wrap__
    return to_torch if is_torch(x) else None


def common(call: str, *arrays: Any) -> tuple[Any, ...]:
    """The arrays in one dtype of float32, float64, complex64, complex128; integers become float64."""
    first = arrays[0].dtype
    if first in NATIVE:
        for x in arrays:
            if x.dtype is not first and x.dtype != first:
                break
        else:
            return arrays
    dtype = common_dtype(call, [x.dtype for x in arrays])
    return tuple(_converted(x, dtype) for x in arrays)


def common_dtype(call: str, dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """As NumPy's linalg promotes: any integer, or any double precision, makes it double."""
    for dtype in dtypes:
        if dtype.char not in "fdFD" and dtype.kind not in "biu":
            raise DTypeError(
                f"{call}: array type {dtype_name(dtype)} is unsupported in linalg; convert it to "
                f"float32, float64, complex64 or complex128"
            )
    double = any(dtype.char not in "fF" for dtype in dtypes)
    is_complex = any(dtype.kind == "c" for dtype in dtypes)
    return np.dtype(("F" if is_complex else "f") if not double else ("D" if is_complex else "d"))


def matrices(call: str, *given: Any) -> tuple[Any, ...]:
    """Operands that all have two axes at least, in one dtype."""
    arrays = tuple(operand(call, x, k) for k, x in enumerate(given))
    for k, x in enumerate(arrays):
        if len(x.shape) < 2:
            raise MatrixShapeError(
                f"{call}: operand {k} is {x.ndim}-dimensional, of shape {x.shape}; give a matrix, or a "
                f"stack of matrices in the last two axes"
            )
    return common(call, *arrays)


def matrix(call: str, x: Any) -> Any:
    """One operand with matrices in its last two axes."""
    if type(x) is np.ndarray and x.ndim >= 2 and x.dtype in NATIVE:
        return x
    return matrices(call, x)[0]


def square(call: str, x: Any) -> Any:
    """One operand with square matrices in its last two axes."""
    x = matrix(call, x)
    check_square(call, x)
    return x


def check_square(call: str, x: Any) -> None:
    m, n = x.shape[-2:]
    if m != n and differ(m, n):
        raise MatrixShapeError(
            f"{call}: the last two axes must be square, got matrices of {m} by {n} in shape {x.shape}"
        )


def columns(call: str, a: Any, b: Any, b_given: Any) -> tuple[Any, Any, bool]:
    """a and b with equal batch axes, and whether b is one vector: then it has become one column."""
    plain = type(a) is np.ndarray and type(b) is np.ndarray
    if plain and a.ndim == 2 and b.ndim < 3 and a.shape[:1] == b.shape[:1]:  # nothing to broadcast
        return (a, b, False) if b.ndim == 2 else (a, b[:, None], True)
    is_vector = len(b.shape) == 1
    if len(b.shape) == 0:
        raise MatrixShapeError(f"{call}: b has no axis; give a vector, or a stack of matrices")
    if is_vector:
        b = expand(b)
    if a.shape[-2] != b.shape[-2] and differ(a.shape[-2], b.shape[-2]):
        hint = "; b[..., None] makes its vectors columns" if b_given.ndim == a.ndim - 1 > 1 else ""
        raise MatrixShapeError(
            f"{call}: Incompatible dimensions: matrices of {a.shape[-2]} by {a.shape[-1]}, of shape "
            f"{a.shape}, and a right-hand side of {b.shape[-2]} rows, of shape {b_given.shape}{hint}"
        )
    a, b = same_batch(call, a, b)
    return a, b, is_vector


def same_batch(call: str, *arrays: Any) -> tuple[Any, ...]:
    """The arrays with their batch axes broadcast, as views; matrices stay in the last two axes."""
    first = arrays[0].shape[:-2]
    for x in arrays:
        if x.shape[:-2] != first:
            break
    else:
        return arrays
    try:
        batch = broadcast_shape(call, *(x.shape[:-2] for x in arrays))
    except ShapeError:
        shapes = " and ".join(str(x.shape) for x in arrays)
        raise ShapeError(
            f"{call}: the batch axes of shapes {shapes} do not broadcast; all but the last two axes "
            f"of each must be equal, or 1"
        ) from None
    return tuple(broadcast(x, (*batch, *x.shape[-2:])) for x in arrays)


def broadcast(x: Any, shape: Shape) -> Any:
    if x.shape == shape:
        return x
    return x.session.broadcast(x, shape) if type(x) is Traced else np.broadcast_to(x, shape)


def expand(x: Any) -> Any:
    """x with a last axis of size 1."""
    if type(x) is Traced:
        return x.session.op("expand_dims", x, axes=(x.ndim,))
    return x[..., None]


def squeeze(x: Any) -> Any:
    """x without its last axis, of size 1."""
    if type(x) is Traced:
        return x.session.op("squeeze", x, axes=(x.ndim - 1,))
    return x[..., 0]


def adjoint(x: Array) -> Array:
    return x.swapaxes(-1, -2).conj()


def _converted(x: Any, dtype: np.dtype[Any]) -> Any:
    if type(x) is Traced:
        return x.session.convert(x, dtype)
    return x.astype(dtype, copy=False)

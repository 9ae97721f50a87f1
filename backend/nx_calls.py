"""How a function of `nx` calls its op: `out` where it must be given, axes kept, int32 indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from .._base.errors import (
    CallError,
    ConversionError,
    DTypeError,
    ShapeError,
    Unsupported,
    spoken_for,
)
from .catalogue import CATALOGUE
from .cpu import cpu
from .rules import check_axes
from .spec import dtype_from_name, dtype_name

Array = np.ndarray[Any, Any]
MOST_INDEX = int(np.iinfo(np.int32).max)


class Unary(Protocol):
    """A function of one tensor."""

    def __call__(self, x: Array, /, *, out: Array) -> Array: ...


class Binary(Protocol):
    """A function of two tensors of one shape and dtype."""

    def __call__(self, a: Array, b: Array, /, *, out: Array) -> Array: ...


class Reduction(Protocol):
    """A function of the elements along some axes."""

    def __call__(
        self, x: Array, /, *, axes: Sequence[int], keepdims: bool, out: Array
    ) -> Array: ...


def call(name: str, op: str, *arrays: Array, out: Array | None = None, **attrs: Any) -> Array:
    """What `op` makes of the arrays, in `out` if there is one; errors speak of `name`."""
    with spoken_for(f"nx.{name}", op):
        return cpu().apply(op, attrs, *arrays, out=out)


def compute(name: str, op: str, *arrays: Array, out: Array, **attrs: Any) -> Array:
    """The same, where there must be one."""
    if out is None:
        raise CallError(f"nx.{name}(out=None): give the tensor to write to; nx.buffer makes one")
    return call(name, op, *arrays, out=out, **attrs)


def tensor(name: str, x: Array) -> Array:
    """x itself, which must be an array, or be a NumPy scalar."""
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x)
    raise ConversionError(f"nx.{name}: a tensor is a {type(x).__name__}; pass a numpy.ndarray")


def tuple_of(name: str, what: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """The values of a list or tuple; a number alone is no list of one."""
    if isinstance(values, (tuple, list)):
        return tuple(values)
    raise CallError(f"nx.{name}: {what}={values!r} must be a tuple or a list")


def dtype_of(name: str, dtype: Any) -> np.dtype[Any]:
    """What NumPy makes of a dtype, or its name."""
    try:
        return dtype_from_name(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    except (DTypeError, TypeError) as error:
        raise DTypeError(f"nx.{name}: dtype={dtype!r} is no dtype ({error})") from None


def unary(name: str, op: str) -> Unary:
    def run(x: Array, /, *, out: Array) -> Array:
        return compute(name, op, x, out=out)

    return _told(run, name, op)


def binary(name: str, op: str) -> Binary:
    def run(a: Array, b: Array, /, *, out: Array) -> Array:
        return compute(name, op, a, b, out=out)

    return _told(run, name, op)


def reduction(name: str, **attrs: Any) -> Reduction:
    def run(x: Array, /, *, axes: Sequence[int], keepdims: bool, out: Array) -> Array:
        axes = tuple_of(name, "axes", axes)
        target = reduced(name, out, axes, keepdims, tensor(name, x))
        compute(name, name, x, out=target, axes=axes, **attrs)
        return out

    return _told(run, name, name)


def _told(run: Any, name: str, op: str) -> Any:
    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"{CATALOGUE[op].law}."
    run.__module__ = f"{__package__}.nx"
    return run


def reduced(name: str, out: Array, axes: tuple[int, ...], keepdims: bool, x: Array) -> Array:
    """`out` without the reduced axes, a view where they are kept."""
    if not isinstance(out, np.ndarray):
        raise CallError(f"nx.{name}: out is {type(out).__name__}; nx.buffer makes a tensor for it")
    if not keepdims:
        return out
    check_axes(f"nx.{name}", "axes", axes, x.ndim)
    want = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
    if out.shape != want:
        raise CallError(f"nx.{name}: out has shape {out.shape}, with axes kept it is {want}")
    return np.squeeze(out, axes)


def index_result(name: str, x: Array, axis: int, found: Array, out: Array) -> Array:
    """int64 positions along an axis of x written into an int32 `out`."""
    if x.shape[axis] > MOST_INDEX:
        raise Unsupported(
            f"nx.{name}: positions along {x.shape[axis]} elements are no int32; use the op {name!r} "
            f"of the catalogue, which gives int64"
        )
    return compute(name, "cast", found, out=as_int32(name, "out", out), dtype="int32")


def as_int32(name: str, what: str, x: Array) -> Array:
    """x itself, which must be int32, as Nx's indices and random words are."""
    if isinstance(x, np.ndarray) and x.dtype != np.int32:
        raise DTypeError(f"nx.{name}: {what} is {dtype_name(x.dtype)}, Nx has it in int32")
    return x


def pairs_of(
    name: str, what: str, pairs: Sequence[tuple[int, int]], ndim: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first of each pair, and the second."""
    pairs = tuple_of(name, what, pairs)
    if any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in pairs):
        raise CallError(f"nx.{name}: {what}={pairs!r} must be pairs of integers")
    if len(pairs) != ndim:
        raise ShapeError(f"nx.{name}: {what}={pairs!r} must be {ndim} pairs, one for each axis")
    return tuple(first for first, _ in pairs), tuple(second for _, second in pairs)

"""Nx's functions that move tensors and make them: views, copies, casts, buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base.errors import CallError, ConversionError, DTypeError, ShapeError, spoken_for
from .cpu import cpu
from .dtypes import check_number
from .nx_calls import Array, call, compute, dtype_of, pairs_of, tensor, tuple_of
from .protocol import Backend, View
from .rules import check_integers
from .spec import ArraySpec, dtype_name

# ---- properties, creation -------------------------------------------------------------------------


def view(t: Array) -> View:
    """Shape, strides and offset of t over its buffer, in elements."""
    return context(t).view(t)


def dtype(t: Array) -> np.dtype[Any]:
    """The dtype of t."""
    return tensor("dtype", t).dtype


def context(t: Array) -> Backend:
    """The backend on whose device t lies."""
    backend = cpu()
    with spoken_for("nx.context", "placement"):
        backend.placement(t)
    return backend


def to_host(t: Array) -> Array:
    """The buffer that t lies in, without a copy: `view(t)` says where in it.

    Raises:
        ConversionError: the buffer itself has gaps, as one from `as_strided` may have.

    >>> x = np.arange(6.0).reshape(2, 3)[:, ::2]
    >>> view(x), to_host(x)
    (View(shape=(2, 2), strides=(3, 2), offset=0), array([0., 1., 2., 3., 4., 5.]))
    """
    context(t)
    base = t
    while isinstance(base.base, np.ndarray):
        base = base.base
    if not (base.flags.c_contiguous or base.flags.f_contiguous) or base.nbytes % t.itemsize:
        raise ConversionError(
            f"nx.to_host: the buffer of {base.dtype}{list(base.shape)} with strides {base.strides} "
            f"is not contiguous; pass a copy"
        )
    return np.asarray(base.reshape(-1, order="A").view(t.dtype))


def buffer(ctx: Backend, dtype: Any, shape: Sequence[int]) -> Array:
    """A C-contiguous tensor with undefined contents."""
    return np.asarray(ctx.empty(ArraySpec(dtype_of("buffer", dtype), _sizes("buffer", shape))))


def full(ctx: Backend, dtype: Any, shape: Sequence[int], value: complex) -> Array:
    """A C-contiguous tensor of which every element is `value`, a Python number that the dtype has."""
    dtype = dtype_of("full", dtype)
    check_number("nx.full", "value", value, dtype, whole=True)
    return np.asarray(ctx.full(_sizes("full", shape), value, dtype))


def _sizes(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple_of(name, "shape", shape)
    check_integers(f"nx.{name}", "shape", sizes, len(sizes))
    return sizes


def from_host(ctx: Backend, buffer: Array) -> Array:
    """A tensor over a flat, C-contiguous buffer of the host; on the CPU they share memory."""
    buffer = tensor("from_host", buffer)
    if buffer.ndim != 1 or not buffer.flags.c_contiguous:
        raise ShapeError(
            f"nx.from_host: the buffer has shape {buffer.shape} and strides {buffer.strides}; pass a "
            f"flat, contiguous one: x.ravel()"
        )
    return np.asarray(ctx.to_device(buffer))


# ---- movement -------------------------------------------------------------------------------------


def expand(t: Array, shape: Sequence[int]) -> Array:
    """A view of t with axes of size 1 repeated, or a scalar along any axes."""
    t, shape = tensor("expand", t), tuple_of("expand", "shape", shape)
    if t.ndim not in (0, len(shape)):
        raise ShapeError(
            f"nx.expand: {shape} has not the {t.ndim} axes of {t.shape}; reshape it first"
        )
    axes = tuple(range(t.ndim))
    return call("expand", "broadcast_in_dim", t, shape=shape, axes=axes)


def reshape(t: Array, shape: Sequence[int]) -> Array:
    """The elements of t in row-major order under another shape: a view where strides allow."""
    return call("reshape", "reshape", t, shape=tuple_of("reshape", "shape", shape))


def permute(t: Array, axes: Sequence[int]) -> Array:
    """A view of t whose axis k is axis axes[k] of t."""
    return call("permute", "transpose", t, perm=tuple_of("permute", "axes", axes))


def shrink(t: Array, ranges: Sequence[tuple[int, int]]) -> Array:
    """A view of the elements of t from start up to stop, for the (start, stop) of each axis."""
    starts, stops = pairs_of("shrink", "ranges", ranges, tensor("shrink", t).ndim)
    return call("shrink", "slice", t, starts=starts, stops=stops, steps=(1,) * t.ndim)


def flip(t: Array, axes: Sequence[bool]) -> Array:
    """A view of t with those axes reversed that are marked."""
    t, axes = tensor("flip", t), tuple_of("flip", "axes", axes)
    if len(axes) != t.ndim or not all(isinstance(marked, (bool, np.bool_)) for marked in axes):
        raise CallError(f"nx.flip: axes={axes!r} must be {t.ndim} bools, one for each axis")
    return call("flip", "reverse", t, axes=tuple(np.flatnonzero(axes).tolist()))


def pad(t: Array, padding: Sequence[tuple[int, int]], fill_value: complex) -> Array:
    """t in a new tensor, with `before` and `after` elements of fill_value around each axis."""
    low, high = pairs_of("pad", "padding", padding, tensor("pad", t).ndim)
    return call("pad", "pad", t, low=low, high=high, interior=(0,) * t.ndim, value=fill_value)


def cat(tensors: Sequence[Array], *, axis: int, out: Array) -> Array:
    """out = the tensors one after another along axis."""
    tensors = tuple_of("cat", "tensors", tensors)
    if not tensors:
        raise CallError("nx.cat: there are no tensors; pass one at least")
    return compute("cat", "concatenate", *tensors, out=out, axis=axis)


# ---- conversion, memory ---------------------------------------------------------------------------


def cast(x: Array, *, out: Array) -> Array:
    """out = x in the dtype of out: floats saturate to integers, NaN becomes 0, integers wrap."""
    if not isinstance(out, np.ndarray):
        raise CallError("nx.cast: out is no array; its dtype says what x becomes")
    return compute("cast", "cast", x, out=out, dtype=dtype_name(out.dtype))


def contiguous(t: Array) -> Array:
    """t in row-major memory; t itself if it is."""
    return call("contiguous", "contiguous", t)


def copy(t: Array) -> Array:
    """t in fresh memory."""
    return call("copy", "copy", t)


def assign(dst: Array, src: Array) -> None:
    """dst[...] = src, through the strides of both, which may share memory."""
    dst, src = tensor("assign", dst), tensor("assign", src)
    if dst.dtype != src.dtype:
        raise DTypeError(f"nx.assign: dst is {dst.dtype}, src {src.dtype}; cast src first")
    with spoken_for("nx.assign", "assign"):
        context(dst).assign(dst, src.copy() if np.may_share_memory(dst, src) else src)

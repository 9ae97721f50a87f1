"""Further ops of ONNX that are few ops of the catalogue: indices, scans, order, padding, transforms."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..._base.errors import ShapeError, Unsupported
from ...contract.einsum import einsum as contraction
from ...program.trace import Traced
from .ops import (
    broadcast_to,
    cast,
    constant,
    joined,
    kept,
    node,
    one,
    padded,
    positive,
    positives,
    reshape,
    reversed_,
    size,
    taken,
)

COMBINED = {"mul": "multiply", "max": "maximum", "min": "minimum", "add": "add"}


@node("Einsum")
def einsum(*xs: Traced, count: int, equation: bytes) -> Traced:
    return contraction(equation.decode(), *xs)


# ---- indices --------------------------------------------------------------------------------------


@node("GatherElements")
def gather_elements(x: Traced, indices: Traced, count: int, axis: int = 0) -> Traced:
    return one("take_along_axis", x, indices, axis=positive(axis, x.ndim))


@node("ScatterElements")
def scatter_elements(
    x: Traced,
    indices: Traced,
    updates: Traced,
    count: int,
    axis: int = 0,
    reduction: bytes = b"none",
) -> Traced:
    axis, how = positive(axis, x.ndim), reduction.decode()
    if how in ("none", "add"):
        return scattered(x, indices, updates, axis, "set" if how == "none" else "add")
    for k in range(indices.shape[axis]):  # one after another, since indices may repeat
        at, update = taken(indices, axis, k, k + 1), taken(updates, axis, k, k + 1)
        found = one("take_along_axis", x, at, axis=axis)
        x = scattered(x, at, one(COMBINED[how], found, update), axis, "set")
    return x


def scattered(x: Traced, indices: Traced, updates: Traced, axis: int, mode: str) -> Traced:
    attrs = {"axis": axis, "mode": mode, "unique_indices": False}
    return one("scatter_along_axis", x, indices, updates, **attrs)


@node("GatherND")
def gather_nd(x: Traced, indices: Traced, count: int, batch_dims: int = 0) -> Traced:
    """Windows at index vectors; a batch becomes one axis more of the vectors."""
    if not 0 <= batch_dims < min(x.ndim, indices.ndim):
        raise ShapeError(f"batch_dims is {batch_dims}; operands have {x.ndim}, {indices.ndim} axes")
    for axis in reversed(range(batch_dims)):
        indices = joined(indices.ndim - 1, positions(indices, axis), indices)
    length = indices.shape[-1]
    indices = in_range(indices, x.shape[:length])
    rest = x.shape[length:]
    leading = indices.ndim - 1
    return one(
        "gather",
        x,
        indices,
        offset_dims=tuple(range(leading, leading + len(rest))),
        collapsed_slice_dims=tuple(range(length)),
        start_index_map=tuple(range(length)),
        index_vector_dim=leading,
        slice_sizes=(1,) * length + rest,
    )


def positions(indices: Traced, axis: int) -> Traced:
    """The place of each index vector along an axis, as another entry."""
    return counted(indices, (*indices.shape[:-1], 1), axis)


def counted(like: Traced, shape: Sequence[int], axis: int) -> Traced:
    """0, 1, ... along an axis, in the dtype of `like`: a running sum of ones."""
    ones = constant(like, 1, shape)
    return one("subtract", one("associative_scan", ones, axis=axis, kind="sum"), ones)


def in_range(indices: Traced, shape: Sequence[int]) -> Traced:
    """Index vectors from 0 on. `take` counts negative ones from the end, and refuses those out of range."""
    if len(shape) < indices.shape[-1]:
        raise ShapeError(f"index vectors of {indices.shape[-1]} numbers for {len(shape)} axes")
    last = indices.ndim - 1
    columns = [
        one("take", counted(indices, (n,), 0), taken(indices, last, k, k + 1), axis=0)
        for k, n in enumerate(shape)
    ]
    return joined(last, *columns) if columns else indices


@node("ScatterND")
def scatter_nd(
    x: Traced, indices: Traced, updates: Traced, count: int, reduction: bytes = b"none"
) -> Traced:
    """Sums by `scatter`; the others along one axis, in place of those that the vectors point along."""
    length, how = indices.shape[-1], reduction.decode()
    rest, leading = x.shape[length:], indices.ndim - 1
    if not length:
        raise Unsupported("index vectors of no numbers; add or assign the whole update instead")
    indices = in_range(indices, x.shape[:length])
    if how == "add":
        return one(
            "scatter",
            x,
            indices,
            updates,
            update_window_dims=tuple(range(leading, leading + len(rest))),
            inserted_window_dims=tuple(range(length)),
            scatter_dims_to_operand_dims=tuple(range(length)),
            index_vector_dim=leading,
        )
    rows, n = size(x.shape[:length]), size(indices.shape[:-1])
    flat = reshape(x, (rows, size(rest)))
    where = broadcast_to(reshape(linear(indices, x.shape[:length]), (n, 1)), (n, size(rest)))
    found = scatter_elements(
        flat, where, reshape(updates, (n, size(rest))), 1, axis=0, reduction=reduction
    )
    assert isinstance(found, Traced)
    return reshape(found, x.shape)


def linear(indices: Traced, shape: Sequence[int]) -> Traced:
    """The position in row-major order that each index vector points to."""
    total: Traced | None = None
    for k in range(len(shape)):
        at = one("squeeze", taken(indices, indices.ndim - 1, k, k + 1), axes=(indices.ndim - 1,))
        share = one("multiply", at, constant(at, size(shape[k + 1 :])))
        total = share if total is None else one("add", total, share)
    assert total is not None
    return total


# ---- scans, order ---------------------------------------------------------------------------------


def scan(
    kind: str, x: Traced, count: int, axis: Any, exclusive: int = 0, reverse: int = 0
) -> Traced:
    axis = positive(np.asarray(axis).item(), x.ndim)
    x = reversed_(x, axis) if reverse else x
    found = one("associative_scan", x, axis=axis, kind=kind)
    if exclusive:
        found = padded(found, axis, 1, -1, 0 if kind == "sum" else 1)
    return reversed_(found, axis) if reverse else found


node("CumSum", axis=1)(partial(scan, "sum"))
node("CumProd", axis=1)(partial(scan, "prod"))


def extreme(
    op: str, x: Traced, count: int, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Traced:
    axis = positive(axis, x.ndim)
    found = one(op, reversed_(x, axis) if select_last_index else x, axis=axis)
    if select_last_index:
        found = one("subtract", constant(found, x.shape[axis] - 1), found)
    return kept(found, (axis,), keepdims)


node("ArgMax")(partial(extreme, "argmax"))
node("ArgMin")(partial(extreme, "argmin"))


@node("TopK", k=1)
def top_k(
    x: Traced, count: int, k: Any, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Traced, Traced]:
    axis = positive(axis, x.ndim)
    most = operator.index(np.asarray(k).item())
    if not 0 <= most <= x.shape[axis]:
        raise ShapeError(f"k is {most}, the axis has {x.shape[axis]} elements")
    order = one("argsort", x, axis=axis, descending=bool(largest))
    first = taken(order, axis, 0, most)
    return one("take_along_axis", x, first, axis=axis), first


@node("Trilu", k=1)
def trilu(x: Traced, count: int, k: Any = 0, upper: int = 1) -> Traced:
    return one("triu" if upper else "tril", x, k=int(np.asarray(k).item()))


# ---- windows, padding -----------------------------------------------------------------------------


@node("Pad", pads=1, value=2, axes=3)
def pad(
    x: Traced,
    count: int,
    pads: Sequence[int],
    value: Any = 0,
    axes: Sequence[int] = (),
    mode: bytes = b"constant",
) -> Traced:
    """A constant, or elements of x itself: then a `take` along each axis."""
    chosen = positives(axes, x.ndim) if len(axes) else tuple(range(x.ndim))
    each = zip(chosen, pads[: len(chosen)], pads[len(chosen) :], strict=True)
    for axis, low, high in each:
        if mode == b"constant":
            x = padded(x, axis, int(low), int(high), np.asarray(value).astype(x.dtype).item())
        else:
            x = repeated(x, axis, int(low), int(high), mode.decode())
    return x


def repeated(x: Traced, axis: int, low: int, high: int, mode: str) -> Traced:
    """Slices of x, as NumPy's pad says which."""
    order = np.pad(np.arange(x.shape[axis]), (low, high), mode=mode)  # type: ignore[call-overload]
    return joined(axis, *(taken(x, axis, int(k), int(k) + 1) for k in order))


@node("Col2Im", image_shape=1, block_shape=2)
def col2im(
    x: Traced,
    count: int,
    image_shape: Sequence[int],
    block_shape: Sequence[int],
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    strides: Sequence[int] = (),
) -> Traced:
    rank, block = len(image_shape), tuple(int(n) for n in block_shape)
    batch, columns, windows = x.shape
    around = tuple(pads) or (0,) * (2 * rank)
    return one(
        "fold",
        reshape(x, (batch, columns // size(block), size(block), windows)),
        sizes=tuple(int(n) for n in image_shape),
        kernel=block,
        strides=tuple(strides) or (1,) * rank,
        dilation=tuple(dilations) or (1,) * rank,
        low=around[:rank],
        high=around[rank:],
    )


# ---- transforms -----------------------------------------------------------------------------------


@node("DFT", dft_length=1, axis=2)
def dft(
    x: Traced,
    count: int,
    dft_length: Any = None,
    axis: Any = None,
    inverse: int = 0,
    onesided: int = 0,
) -> Traced:
    """Along one axis of real parts, or of real and imaginary parts, in the last axis."""
    axis = positive(int(np.asarray(-2 if axis is None else axis).item()), x.ndim)
    n = None if dft_length is None else operator.index(np.asarray(dft_length).item())
    if n is not None and n < 1:
        raise ShapeError(f"dft_length is {n}; give a positive one")
    if inverse and onesided:
        half = complex_of(x)
        n = 2 * (half.shape[axis] - 1) if n is None else n
        half = of_length(half, axis, n // 2 + 1)
        found = one("irfft", half, axes=(axis,), n=n, scale=1 / n)
        return one("expand_dims", found, axes=(x.ndim - 1,))
    x = x if n is None else of_length(x, axis, n)
    if onesided:
        return parts_of(one("rfft", one("squeeze", x, axes=(x.ndim - 1,)), axes=(axis,)))
    full = complex_of(x)
    scale = 1 / full.shape[axis] if inverse else 1.0
    return parts_of(one("ifft" if inverse else "fft", full, axes=(axis,), scale=scale))


def of_length(x: Traced, axis: int, n: int) -> Traced:
    """The first n elements along an axis, zeros behind the last of them."""
    more = n - x.shape[axis]
    return padded(x, axis, 0, more, 0) if more > 0 else taken(x, axis, 0, n)


def complex_of(x: Traced) -> Traced:
    dtype = np.complex128 if x.dtype == np.float64 else np.complex64
    parts = [
        cast(one("squeeze", taken(x, x.ndim - 1, k, k + 1), axes=(x.ndim - 1,)), dtype)
        for k in range(x.shape[-1])
    ]
    if len(parts) == 1:
        return parts[0]
    return one("add", parts[0], one("multiply", parts[1], constant(parts[1], 1j)))


def parts_of(x: Traced) -> Traced:
    parts = (one("expand_dims", one(op, x), axes=(x.ndim,)) for op in ("real", "imag"))
    return joined(x.ndim, *parts)

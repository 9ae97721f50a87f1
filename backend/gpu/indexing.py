"""Elements and windows at places that an array of indices names.

Places are offsets into the row-major elements of the operand, computed on the device, so that a gather is
one `take`. Updates are made in row-major order of the indices, as on the CPU, by no atomics: they are
sorted by place, stably, and made in rounds, in each of which no place comes twice.
CuPy's indexing brings any index into range without a word: `take`, `take_along_axis` and
`scatter_along_axis` wait for the device to refuse what is out of range.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..cpu.taking import check_range
from ..protocol import Kernel
from ..rules import replaced
from ..spec import ArraySpec, Shape, compute_dtype
from .arrays import Binder, along, flat, into, steps
from .modules import Module
from .order import stable

Inputs = tuple[ArraySpec, ...]


def _checked(xp: Module, op: str, indices: Any, n: int, axis: int) -> Any:
    """Indices from 0 on, after a look at their extremes."""
    if indices.size and (int(indices.min()) < -n or int(indices.max()) >= n):
        check_range(op, indices.get(), n, axis)
    indices = indices.astype(np.int64, copy=False)  # n may be no number of their dtype
    return xp.where(indices < 0, indices + n, indices)


def _clamped(xp: Module, starts: Any, most: int) -> Any:
    """From 0 to `most`, which may be no number of their dtype."""
    if starts.dtype == np.uint64:
        starts = xp.minimum(starts, np.uint64(most))
    return xp.minimum(xp.maximum(starts.astype(np.int64, copy=False), 0), most)


def bind_take(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    axis = attrs["axis"]

    def compute(x: Any, indices: Any) -> Any:
        places = _checked(xp, "take", indices, x.shape[axis], axis)
        if not output.size:
            return xp.empty(output.shape, output.dtype)
        return xp.take(x, places, axis)

    return into(xp, compute, output)


def bind_take_along_axis(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    axis = attrs["axis"]

    def compute(x: Any, indices: Any) -> Any:
        places = _checked(xp, "take_along_axis", indices, x.shape[axis], axis)
        if not output.size:
            return xp.empty(output.shape, output.dtype)
        return xp.take(flat(xp, x), _along_places(xp, x.shape, places, axis))

    return into(xp, compute, output)


def _along_places(xp: Module, shape: Shape, indices: Any, axis: int) -> Any:
    """Offsets of [.., indices[.., i, ..], ..] in an array of this shape."""
    rank, ahead = len(shape), steps(shape)
    places = indices * ahead[axis]
    for d, n in enumerate(indices.shape):
        if d != axis:
            places = places + along(xp, n, d, rank) * ahead[d]
    return places


# ---- windows --------------------------------------------------------------------------------------


def _columns(xp: Module, indices: Any, vector: int, count: int) -> list[Any]:
    """One array of starts for each entry of the index vectors."""
    if vector == indices.ndim:
        return [indices]
    ahead = (slice(None),) * vector
    return [indices[(*ahead, k, ...)] for k in range(count)]


def _window_places(xp: Module, shape: Shape, sizes: Shape, kept: list[int], start: Any) -> Any:
    """Offsets of windows at flat places `start`: [batch..., axes of the window that are kept]."""
    ahead, rank = steps(shape), len(kept)
    places = start.reshape((*start.shape, *(1,) * rank))
    for d, axis in enumerate(kept):
        places = places + along(xp, sizes[axis], d, rank) * ahead[axis]
    return places


def bind_gather(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    shape, sizes = inputs[0].shape, attrs["slice_sizes"]
    window, mapped, vector = (
        attrs[name] for name in ("offset_dims", "start_index_map", "index_vector_dim")
    )
    kept = [axis for axis in range(len(shape)) if axis not in attrs["collapsed_slice_dims"]]
    ahead, rank = steps(shape), len(output.shape)
    others = [axis for axis in range(rank) if axis not in window]
    back = [(*others, *window).index(axis) for axis in range(rank)]
    batch = tuple(output.shape[axis] for axis in others)

    def compute(x: Any, indices: Any) -> Any:
        if not output.size:
            return xp.empty(output.shape, output.dtype)
        start = xp.zeros(batch, np.int64)
        for axis, column in zip(mapped, _columns(xp, indices, vector, len(mapped)), strict=False):
            start += _clamped(xp, column, shape[axis] - sizes[axis]) * ahead[axis]
        places = _window_places(xp, shape, sizes, kept, start)
        return xp.take(flat(xp, x), places).transpose(back)

    return into(xp, compute, output)


def bind_dynamic_slice(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    """The starts stay on the device."""
    shape, sizes = inputs[0].shape, attrs["sizes"]

    def compute(x: Any, starts: Any) -> Any:
        if not output.size:
            return xp.empty(output.shape, output.dtype)
        return xp.take(flat(xp, x), _at(xp, shape, sizes, starts))

    return into(xp, compute, output)


def _at(xp: Module, shape: Shape, sizes: Shape, starts: Any) -> Any:
    """Offsets of the window at `starts`, moved so that it fits."""
    start = xp.zeros((), np.int64)
    for axis, step in enumerate(steps(shape)):
        start = start + _clamped(xp, starts[(axis, ...)], shape[axis] - sizes[axis]) * step
    return _window_places(xp, shape, sizes, list(range(len(shape))), start)


def bind_dynamic_update_slice(
    xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec
) -> Kernel:
    def compute(x: Any, update: Any, starts: Any) -> Any:
        made = x.copy(order="C")
        if update.size:
            places = _at(xp, x.shape, update.shape, starts)
            made.reshape(-1)[places.reshape(-1)] = flat(xp, update)
        return made

    return into(xp, compute, output)


# ---- updates --------------------------------------------------------------------------------------


def bind_scatter_along_axis(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    axis, adds = attrs["axis"], attrs["mode"] == "add"
    wide = compute_dtype(output.dtype) if adds else output.dtype

    def compute(x: Any, indices: Any, updates: Any) -> Any:
        places = _checked(xp, "scatter_along_axis", indices, x.shape[axis], axis)
        made = x.astype(wide, order="C", copy=True)
        if places.size:
            places = _along_places(xp, x.shape, places, axis).reshape(-1)
            values = flat(xp, updates).astype(wide, copy=False)
            update(xp, made.reshape(-1), places, values, adds)
        return made

    return into(xp, compute, output)


def bind_scatter(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    shape, updated = inputs[0].shape, inputs[2].shape
    window, inserted = attrs["update_window_dims"], attrs["inserted_window_dims"]
    mapped, vector = attrs["scatter_dims_to_operand_dims"], attrs["index_vector_dim"]
    batch = [axis for axis in range(len(updated)) if axis not in window]
    kept = [axis for axis in range(len(shape)) if axis not in inserted]
    sizes = (1,) * len(shape)
    for axis, of in zip(kept, window, strict=True):
        sizes = replaced(sizes, axis, updated[of])
    ahead, wide = steps(shape), compute_dtype(output.dtype)
    order = (*batch, *window)

    def compute(x: Any, indices: Any, updates: Any) -> Any:
        made = x.astype(wide, order="C", copy=True)
        if not updates.size or not x.size:
            return made
        start = xp.zeros(tuple(updated[axis] for axis in batch), np.int64)
        fits = xp.ones(start.shape, bool)
        for axis, column in zip(mapped, _columns(xp, indices, vector, len(mapped)), strict=False):
            fits &= (column >= 0) & (column <= shape[axis] - sizes[axis])
            start += column.astype(np.int64) * ahead[axis]
        places = _window_places(xp, shape, sizes, kept, start)
        chosen = xp.broadcast_to(fits.reshape((*fits.shape, *(1,) * len(kept))), places.shape)
        chosen = chosen.reshape(-1)
        values = flat(xp, updates.transpose(order)).astype(wide, copy=False)
        update(xp, made.reshape(-1), places.reshape(-1)[chosen], values[chosen], adds=True)
        return made

    return into(xp, compute, output)


def update(xp: Module, target: Any, places: Any, values: Any, adds: bool) -> None:
    """Make updates of a flat array one after another: of several at one place the last stays, or all are
    added in their order.

    Costs a stable sort, and for sums a launch for each time that the most frequent place comes.
    """
    if not places.size:
        return
    order = stable(xp, places, 0)
    places, values = places[order], values[order]
    if not adds:
        is_last = xp.ones(places.shape, bool)
        is_last[:-1] = places[1:] != places[:-1]
        target[places[is_last]] = values[is_last]
        return
    rank = xp.arange(places.size) - xp.searchsorted(places, places)
    order = stable(xp, rank, 0)
    rounds = int(rank.max()) + 1
    ends = xp.searchsorted(rank[order], xp.arange(1, rounds + 1)).get().tolist()
    start = 0
    for end in ends:
        now = order[start:end]
        target[places[now]] += values[now]
        start = end


BINDERS: dict[str, Binder] = {
    "take": bind_take,
    "take_along_axis": bind_take_along_axis,
    "gather": bind_gather,
    "gather_dynamic_slice_sizes": bind_gather,
    "scatter": bind_scatter,
    "scatter_along_axis": bind_scatter_along_axis,
    "dynamic_slice": bind_dynamic_slice,
    "dynamic_update_slice": bind_dynamic_update_slice,
}

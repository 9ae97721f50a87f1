"""Updates at places that an array of indices names, in the order of the indices.

Three steps, without atomics, hence the same bits every time:

    places    for every update one number, place * updates + number of the update
    sort      of these numbers, by the array library: updates of one place then stand together, in order
    updates   one thread for each place goes through the updates of it

A place is the row-major number of an element of the target; one beyond the last belongs to no element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ...catalogue import Attrs
from ...spec import Axes, Shape, compute_dtype, dtype_from_name
from .indexing import Indexed, scattered, taken_along
from .kernel import THREADS, CudaKernel, blocks_of, kept
from .layout import Layout, Operand, layout, row_major
from .text import unit
from .types import TYPES, type_of, wide_type_of

Mode = Literal["set", "add"]

PLACES_FITTING = """
extern "C" __global__ void $name(long long* places, const $kind* indices, $geometry g) {
    typedef long long Index;
    for (Index i = first_element<Index>(); i < g.axes.count; i += next_element<Index>()) {
        Index at[3], place;
        g.axes.offsets(i, at);
        const bool fits = fitting(g.entries, g.count, indices + at[2], &place);
        places[i] = (fits ? at[1] + place : g.beyond) * g.axes.count + i;
    }
}
"""

PLACES_WRAPPED = """
extern "C" __global__ void $name(
    long long* places, int* outside, const $kind* indices, $geometry g) {
    typedef long long Index;
    for (Index i = first_element<Index>(); i < g.axes.count; i += next_element<Index>()) {
        Index at[3], place;
        g.axes.offsets(i, at);
        const bool inside = wrapped(g.entries, g.count, indices + at[2], &place);
        if (!inside) *outside = 1;  // whoever writes, writes the same
        places[i] = (inside ? at[1] + place : g.beyond) * g.axes.count + i;
    }
}
"""

UPDATES = """
extern "C" __global__ void $name(
    $type* out, const long long* places, const $type* updates, Updates<$target, $source> g) {
    typedef long long Index;
    const Index count = g.source.count;
    for (Index i = first_element<Index>(); i < count; i += next_element<Index>()) {
        const Index place = places[i] / count;
        if (place >= g.target.count || (i > 0 && places[i - 1] / count == place)) continue;
        Index there[1], from[1];
        g.target.offsets(place, there);
        $begin
        for (Index k = i; k < count && places[k] / count == place; ++k) {
            g.source.offsets(places[k] - place * count, from);
            $update
        }
        out[there[0]] = $result;
    }
}
"""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Two launches with a sort between them.

    Attributes:
        places: takes places (int64, one for each update), then, of `scatter_along_axis`, one int32 that was
            0 and becomes 1 where an index is out of range, then indices.
        updates: takes out, which is the operand's copy already, the sorted places, and the updates.
        count: of places.
    """

    places: CudaKernel
    updates: CudaKernel
    count: int


def scatter_along_axis(
    out: Operand, indices: Operand, updates: Operand, axis: int, mode: Mode
) -> Scatter | None:
    """out[.., indices[.., i, ..], ..] = or += updates[.., i, ..], one after another in row-major order.

    None where places do not fit 64 bits, and where a kernel does not add numbers of this dtype.

    >>> x, i = Operand("float32", (9, 3), (3, 1)), Operand("int64", (4, 3), (3, 1))
    >>> scatter_along_axis(x, i, Operand("float32", (4, 3), (3, 1)), 0, "add").count
    12
    """
    indexed = taken_along(updates, _numbered(out), indices, axis)
    return _known(out, indices, updates, indexed, mode, PLACES_WRAPPED)


def scatter(out: Operand, indices: Operand, updates: Operand, attrs: Attrs) -> Scatter | None:
    """StableHLO's scatter that adds: windows that do not fit are left out. None as above."""
    window = attrs["update_window_dims"]
    batch = [axis for axis in range(len(updates.shape)) if axis not in window]
    order = (*batch, *window)  # of updates at one place, the order is that of the index vectors
    updates = replace(
        updates,
        shape=tuple(updates.shape[axis] for axis in order),
        strides=tuple(updates.strides[axis] for axis in order),
    )
    last = tuple(range(len(batch), len(order)))
    attrs = {**attrs, "update_window_dims": last}
    indexed = scattered(updates, _numbered(out), indices, attrs)
    return _known(out, indices, updates, indexed, "add", PLACES_FITTING)


def _numbered(x: Operand) -> Operand:
    """As if contiguous: offsets are row-major numbers of elements."""
    return replace(x, strides=row_major(x.shape))


def _known(
    out: Operand, indices: Operand, updates: Operand, indexed: Indexed, mode: Mode, entry: str
) -> Scatter | None:
    key = ("scatter", out, indices.dtype, updates.strides, indexed, mode, entry is PLACES_FITTING)
    return kept(key, lambda: _made(out, indices, updates, indexed, mode, entry))


def _made(
    out: Operand, indices: Operand, updates: Operand, indexed: Indexed, mode: Mode, entry: str
) -> Scatter | None:
    dtype = dtype_from_name(out.dtype)
    count = math.prod(updates.shape)
    if type_of(dtype) is None or (math.prod(out.shape) + 1) * max(1, count) >= 1 << 63:
        return None
    return Scatter(
        _places(indices.dtype, indexed, out.shape, entry),
        _updates(dtype, layout(out.shape, out.strides), updates.shape, updates.strides, mode),
        count,
    )


def _places(kind: str, indexed: Indexed, shape: Shape, entry: str) -> CudaKernel:
    source, name = unit(
        ("layout", "indexing", "updates"),
        "places",
        entry,
        kind=TYPES[kind],
        geometry=f"Placed<{indexed.type('long long')}>",
    )
    arrays = ("places", "indices") if entry is PLACES_FITTING else ("places", "outside", "indices")
    geometry = (*indexed.geometry(), math.prod(shape))
    grid = blocks_of(indexed.axes.count)
    return CudaKernel(source, name, grid, (THREADS, 1, 1), arrays, geometry, True)


def _updates(
    dtype: np.dtype[np.generic], target: Layout, shape: Shape, strides: Axes, mode: Mode
) -> CudaKernel:
    source_axes = layout(shape, strides)
    kind, wide = TYPES[dtype.name], wide_type_of(dtype)
    adds = mode == "add"
    source, name = unit(
        ("layout", "numbers", "arithmetic", "updates"),
        mode,
        UPDATES,
        type=kind,
        target=target.type("long long"),
        source=source_axes.type("long long"),
        begin=f"{wide} found = wide(out[there[0]]);" if adds else f"{kind} found;",
        update="found = op::add(found, wide(updates[from[0]]));"
        if adds
        else "found = updates[from[0]];",
        result=f"to<{kind}>(found)" if adds and compute_dtype(dtype) != dtype else "found",
    )
    geometry = (*target.geometry(), *source_axes.geometry())
    grid = blocks_of(source_axes.count)
    arrays = ("out", "places", "updates")
    return CudaKernel(source, name, grid, (THREADS, 1, 1), arrays, geometry, True)

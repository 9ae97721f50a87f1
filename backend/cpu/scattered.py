"""Updates made one after another by compiled kernels, on several threads that never share a place.

Threads have lines of their own, or a part of every line: of one line each thread reads all indices, and
makes the updates that are in its part. So the order of updates at one place is that of the indices. Updates
all over a long line are dealt out first, see `dealing`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._base.options import get_options, num_threads
from ..catalogue import Attrs
from .dealing import dealt, is_dealt, is_scattered
from .kernels.scatter import add_windows, scatter_lines
from .picking import ADDED, Flat, as_numbers, carried, whole_indices
from .strided import Axis, axis_table, merge_axes, offsets
from .threads import parallel_for

PIECE = 512  # elements of each line that a tile goes through at once


def scattered(out: Any, indices: Any, updates: Any, axis: int, adds: bool) -> bool | None:
    """Make updates along an axis of out; whether all indices were in range, None if no kernel can."""
    if updates.size < max(1, get_options().small) or not out.shape[axis]:
        return None
    view = as_numbers if adds else carried
    dst, upd, ind = view(out, True), view(updates), whole_indices(indices)
    if dst is None or upd is None or ind is None:
        return None
    arrays = (dst.strides, upd.strides, ind.strides)
    axes: list[Axis] = [
        (n, *(strides[d] for strides in arrays)) for d, n in enumerate(out.shape) if d != axis
    ]
    axes = merge_axes(sorted(axes, key=lambda one: -abs(one[1])))
    step, size, count = dst.strides[axis], out.shape[axis], updates.shape[axis]
    if not axes and is_dealt(size, out.itemsize, count):
        to, at, of = (Flat(x.buffer, x.origin, [x.strides[axis]]) for x in (dst, ind, upd))
        if is_scattered(at, count, size, out.itemsize):
            return dealt(to, at, of, size, count, adds)
    lane = axes.pop() if axes and abs(axes[-1][1]) < abs(step) else (1, 0, 0, 0)
    pieces = -(-lane[0] // PIECE)
    tiles = pieces * math.prod(one[0] for one in axes)
    parts = num_threads() if tiles < num_threads() else 1
    outer = [(pieces, *(PIECE * stride for stride in lane[1:])), (parts, 0, 0, 0), *axes]
    bad = np.zeros(1, np.int64)
    arguments = (
        np.array((dst.origin, upd.origin, ind.origin)),
        axis_table(outer, 3),
        np.array(lane),
        PIECE,
        np.array((count, 0, upd.strides[axis], ind.strides[axis])),
        step,
        size,
        adds,
        bad,
    )

    def piece(start: int, stop: int) -> None:
        scatter_lines(start, stop, dst.buffer, upd.buffer, ind.buffer, *arguments)

    parallel_for(piece, tiles * parts)
    return not bad[0]


def windows_added(out: Any, indices: Any, updates: Any, attrs: Attrs) -> bool:
    """Add windows to out, those that fit; False if no kernel can."""
    if updates.size < max(1, get_options().small) or updates.dtype.char not in ADDED:
        return False
    plan = _Windows(attrs, out.shape, updates.shape)
    shares = plan.shares(out, updates, num_threads())
    ind = whole_indices(indices)
    if ind is None:
        return False
    calls = []
    for one, part in shares:
        dst, upd = as_numbers(one, True), as_numbers(part)
        if dst is None or upd is None:
            return False
        calls.append(plan.arguments(part, dst, upd, ind))
    parts = plan.parts(num_threads())

    def piece(start: int, stop: int) -> None:
        if len(calls) == 1:
            add_windows(start, stop, parts, *calls[0])
            return
        for call in calls[start:stop]:
            add_windows(0, 1, 1, *call)

    parallel_for(piece, parts if len(calls) == 1 else len(calls))
    return True


class _Windows:
    """Axes of `scatter` by role: those of a batch and of windows, and those that are indexed."""

    def __init__(self, attrs: Attrs, shape: Sequence[int], updates: Sequence[int]) -> None:
        self.mapped, self.vector = attrs["scatter_dims_to_operand_dims"], attrs["index_vector_dim"]
        self.window, inserted = attrs["update_window_dims"], attrs["inserted_window_dims"]
        self.batch = [axis for axis in range(len(updates)) if axis not in self.window]
        self.kept = [axis for axis in range(len(shape)) if axis not in inserted]
        self.pairs = list(zip(self.kept, self.window, strict=True))
        self.sizes = dict.fromkeys(range(len(shape)), 1)
        self.sizes |= {axis: updates[of] for axis, of in self.pairs}
        self.shape = shape
        # the kernel shares out the axis of the first entry: one of which windows have one element
        self.order = sorted(
            range(len(self.mapped)),
            key=lambda k: (self.sizes[self.mapped[k]] != 1, -shape[self.mapped[k]]),
        )

    def shares(self, out: Any, updates: Any, threads: int) -> list[tuple[Any, Any]]:
        """Parts of windows, along an axis that is not indexed, for each thread; else all in one."""
        free = [(n, of) for n, of in self.pairs if n not in self.mapped]
        if not free or threads == 1:
            return [(out, updates)]
        axis, of = max(free, key=lambda pair: updates.shape[pair[1]])
        size = updates.shape[of]
        if size < 16 * threads:  # lines of the caches would be shared
            return [(out, updates)]
        cuts = [size * k // threads for k in range(threads + 1)]
        return [
            tuple(
                x[(*(slice(None),) * d, slice(cuts[k], cuts[k + 1]), ...)]
                for x, d in ((out, axis), (updates, of))
            )
            for k in range(threads)
        ]

    def parts(self, threads: int) -> int:
        """Threads that can share the axis of the first entry."""
        if not self.mapped:
            return 1
        first = self.mapped[self.order[0]]
        return threads if self.sizes[first] == 1 and self.shape[first] >= threads else 1

    def arguments(self, updates: Any, dst: Flat, upd: Flat, ind: Flat) -> tuple[Any, ...]:
        """Of the kernel, for a share of the windows."""
        places = [axis for axis in range(len(ind.strides)) if axis != self.vector]
        batch: list[Axis] = [
            (updates.shape[axis], upd.strides[axis], ind.strides[at])
            for axis, at in zip(self.batch, places, strict=True)
        ]
        *outer, lane = merge_axes(batch) or [(1, 0, 0)]
        if 0 in [n for n, *_ in batch]:
            outer, lane = [], (0, 0, 0)
        step = ind.strides[self.vector] if self.vector < len(ind.strides) else 0
        entries = [
            (k * step, dst.strides[d], self.shape[d] - self.sizes[d], self.shape[d])
            for k, d in ((k, self.mapped[k]) for k in self.order)
        ]
        window: list[Axis] = [
            (updates.shape[of], dst.strides[d], upd.strides[of]) for d, of in self.pairs
        ]
        window = merge_axes(sorted(window, key=lambda axis: -abs(axis[1])))
        run = window.pop() if window else (1, 0, 0)
        return (
            dst.buffer,
            upd.buffer,
            ind.buffer,
            np.array((dst.origin, upd.origin, ind.origin)),
            axis_table(outer),
            np.array(lane),
            np.array(entries, np.int64).reshape(-1, 4).T.copy(),
            offsets(window),
            np.array(run),
        )

"""Index vectors as kernels are given them: which element of them moves which axis by how much.

The three roles that axes have in `take`, `take_along_axis`, `gather` and the scatters are strides: an axis
of the result that moves a window has a stride in the operand, one that chooses an index vector has one in
the indices, and one that does both has both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...catalogue import Attrs
from ...spec import Axes, Shape
from .layout import Layout, Operand, layout


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of index vectors: its place, the axis that it counts along, and the places to start."""

    place: int
    size: int
    room: int
    stride: int


@dataclass(frozen=True, slots=True)
class Indexed:
    """Axes of what is walked, with an array's, the operand's and the indices' strides; and entries."""

    axes: Layout
    entries: tuple[Entry, ...]

    def geometry(self) -> tuple[int, ...]:
        entries = self.entries or (Entry(0, 0, 0, 0),)
        columns = (
            [entry.place for entry in entries],
            [entry.size for entry in entries],
            [entry.room for entry in entries],
            [entry.stride for entry in entries],
        )
        numbers = (number for column in columns for number in column)
        return (*self.axes.geometry(), *numbers, len(self.entries))

    def type(self, index: str) -> str:
        return f"Indexed<{self.axes.type(index)}, {max(1, len(self.entries))}, {index}>"

    def whole(self) -> Layout:
        """What decides the width of indices: offsets by windows and by entries together."""
        moves = tuple((entry.size, 0, entry.stride, 0) for entry in self.entries)
        places = tuple((2, 0, 0, entry.place) for entry in self.entries)
        return Layout((*self.axes.axes, *moves, *places), 3)


def taken(walked: Operand, x: Operand, indices: Operand, axis: int) -> Indexed:
    """out[.., i.., ..] = x[.., indices[i..], ..]: the axes of `indices` stand where `axis` was."""
    behind = len(x.shape) - axis - 1
    none = (0,) * len(indices.shape)
    of_x = (*x.strides[:axis], *none, *x.strides[axis + 1 :])
    of_indices = ((0,) * axis) + indices.strides + ((0,) * behind)
    entry = Entry(0, x.shape[axis], x.shape[axis], x.strides[axis])
    return Indexed(layout(walked.shape, walked.strides, of_x, of_indices), (entry,))


def taken_along(walked: Operand, x: Operand, indices: Operand, axis: int) -> Indexed:
    """out[.., i, ..] = x[.., indices[.., i, ..], ..]."""
    of_x = tuple(0 if k == axis else stride for k, stride in enumerate(x.strides))
    entry = Entry(0, x.shape[axis], x.shape[axis], x.strides[axis])
    return Indexed(layout(walked.shape, walked.strides, of_x, indices.strides), (entry,))


def gathered(walked: Operand, x: Operand, indices: Operand, attrs: Attrs) -> Indexed:
    """StableHLO's gather; `walked` is its result."""
    sizes, collapsed = attrs["slice_sizes"], attrs["collapsed_slice_dims"]
    kept = [axis for axis in range(len(x.shape)) if axis not in collapsed]
    return _windows(
        walked,
        x,
        indices,
        (attrs["offset_dims"], kept, attrs["start_index_map"], attrs["index_vector_dim"]),
        sizes,
    )


def scattered(walked: Operand, x: Operand, indices: Operand, attrs: Attrs) -> Indexed:
    """StableHLO's scatter; `walked` are its updates."""
    inserted, window = attrs["inserted_window_dims"], attrs["update_window_dims"]
    kept = [axis for axis in range(len(x.shape)) if axis not in inserted]
    sizes = [1] * len(x.shape)
    for axis, of in zip(kept, window, strict=True):
        sizes[axis] = walked.shape[of]
    mapped = attrs["scatter_dims_to_operand_dims"]
    return _windows(
        walked, x, indices, (window, kept, mapped, attrs["index_vector_dim"]), tuple(sizes)
    )


def _windows(
    walked: Operand,
    x: Operand,
    indices: Operand,
    roles: tuple[Axes, list[int], Axes, int],
    sizes: Shape,
) -> Indexed:
    window, kept, mapped, vector = roles
    batch = _without(indices.strides, vector)
    moves = dict(zip(window, (x.strides[axis] for axis in kept), strict=True))
    of_x = tuple(moves.get(axis, 0) for axis in range(len(walked.shape)))
    of_indices = tuple(0 if axis in moves else next(batch) for axis in range(len(walked.shape)))
    step = indices.strides[vector] if vector < len(indices.strides) else 0
    entries = tuple(
        Entry(k * step, x.shape[axis], x.shape[axis] - sizes[axis] + 1, x.strides[axis])
        for k, axis in enumerate(mapped)
    )
    return Indexed(layout(walked.shape, walked.strides, of_x, of_indices), entries)


def _without(strides: Axes, vector: int) -> Iterator[int]:
    return (stride for axis, stride in enumerate(strides) if axis != vector)

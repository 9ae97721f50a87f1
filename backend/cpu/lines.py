"""Batches that lie last in memory: out[i, j, b] = sum_k x[i, k, b] * y[k, j, b], line by line of b.

BLAS would need copies with b first, and a call for each b, of 15 ns and more. NumPy multiplies whole lines
and adds them up: two calls, in pieces where there are many products.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..catalogue import DotDims
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, Shape
from .buffers import allocator, empty
from .quiet import quietly

PIECE = 1 << 18  # products that are formed before they are added up: 2 MiB of float64
LINE = 256  # neighbours of a line from which it matters little how many there are


class _Axes(NamedTuple):
    """Axes of all products, as they lie: those of the result but lines, contracted ones, lines."""

    order: Axes  # of the result, as they lie
    kept: int  # how many come before the contracted ones
    contracted: int
    shape: Shape

    @property
    def cut(self) -> tuple[int, int]:
        """Along which axis products are formed in pieces, and how many numbers of it each has."""
        size, kept, lines = math.prod(self.shape), self.shape[: self.kept], self.lines
        if size <= PIECE:
            return 0, self.shape[0]
        if lines:
            place = lines.index(max(lines))
            step = PIECE * lines[place] // size
            if step * math.prod(lines[place + 1 :]) >= LINE or max(kept, default=1) == 1:
                return len(self.shape) - len(lines) + place, max(1, step)
        axis = kept.index(max(kept))
        return axis, max(1, PIECE * kept[axis] // size)

    @property
    def lines(self) -> Shape:
        return self.shape[self.kept + self.contracted :]


def _axes(dims: DotDims, lhs: ArraySpec, output: ArraySpec) -> _Axes:
    order = tuple(range(len(output.shape))) if output.layout is None else output.layout
    kept = len(order)
    while kept and order[kept - 1] < len(dims.lhs_batch):
        kept -= 1
    sizes = tuple([output.shape[axis] for axis in order])
    contracted = tuple([lhs.shape[axis] for axis in dims.lhs_contracting])
    return _Axes(order, kept, len(contracted), (*sizes[:kept], *contracted, *sizes[kept:]))


def lines_bytes(dims: DotDims, lhs: ArraySpec, output: ArraySpec) -> int:
    """What the kernel allocates: products of a piece."""
    axes = _axes(dims, lhs, output)
    axis, step = axes.cut
    return math.prod(axes.shape) // axes.shape[axis] * step * output.dtype.itemsize


def bind_lines(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """A kernel for any strides, at its best where the last axes of all three are the same batch ones."""
    lhs, rhs = inputs
    axes, make = _axes(dims, lhs, output), allocator(output)
    of_lhs = [*dims.lhs_batch, *dims.lhs_free, *(None for _ in dims.rhs_free)]
    of_rhs = [*dims.rhs_batch, *(None for _ in dims.lhs_free), *dims.rhs_free]
    left_perm, left_shape = _view(lhs, of_lhs, dims.lhs_contracting, axes)
    right_perm, right_shape = _view(rhs, of_rhs, dims.rhs_contracting, axes)
    order, shape, kept, dtype = axes.order, axes.shape, axes.kept, output.dtype
    axis, step = axes.cut
    count = shape[axis]
    contracted = shape[kept : kept + axes.contracted]
    terms, room_size = math.prod(contracted), math.prod(shape) // count * min(step, count)
    of_out = axis if axis < kept else axis - axes.contracted  # the same axis of the result
    indices = [
        (
            _index(left_shape, axis, start, step),
            _index(right_shape, axis, start, step),
            (*(slice(None),) * of_out, slice(start, start + step)),
        )
        for start in range(0, count, step)
    ]

    def added(left: Any, right: Any, target: Any, room: Any) -> None:
        products = room[: math.prod(np.broadcast_shapes(left.shape, right.shape))]
        inner = target.shape[kept:]
        np.multiply(left, right, products.reshape(*target.shape[:kept], *contracted, *inner))
        np.add.reduce(products.reshape(*target.shape[:kept], terms, *inner), kept, None, target)

    def sums(left: Any, right: Any, target: Any) -> None:
        room = empty((room_size,), dtype)
        if len(indices) == 1:
            added(left, right, target, room)
            return
        for of_left, of_right, of_target in indices:
            added(left[of_left], right[of_right], target[of_target], room)

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        if out is None:
            out = make()
        left = lhs.transpose(left_perm).reshape(left_shape)
        right = rhs.transpose(right_perm).reshape(right_shape)
        quietly(sums, left, right, out.transpose(order))
        return out

    return run


def _view(
    spec: ArraySpec, of_output: list[int | None], contracting: Axes, axes: _Axes
) -> tuple[Axes, Shape]:
    """How an operand is transposed, and then reshaped, to have the axes of all products."""
    own = [of_output[axis] for axis in axes.order]
    own[axes.kept : axes.kept] = contracting
    perm = tuple([axis for axis in own if axis is not None])
    return perm, tuple([1 if axis is None else spec.shape[axis] for axis in own])


def _index(shape: Shape, axis: int, start: int, step: int) -> tuple[slice, ...]:
    """A piece of an operand along an axis, all of it where it is broadcast there."""
    if shape[axis] == 1:
        return (slice(None),) * len(shape)
    return (*(slice(None),) * axis, slice(start, start + step))

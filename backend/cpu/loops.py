"""Contraction by a compiled loop nest: many tiny matrices, hyperedges, integers.

The axes of the output, as they lie in memory, are merged where both operands' strides allow; the
innermost becomes the row, the next ones a tile that stays in cache; see `kernels.loops`. Scratch: offset
tables only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..catalogue import DotDims
from ..protocol import Kernel
from ..spec import ArraySpec, Axes
from .buffers import empty_as
from .kernels.loops import contract_tiles
from .strided import Axis, axis_table, element_strides, flat, merge_axes, offsets, readable
from .threads import parallel_for

TILE = 4096  # elements of the output that are summed together; 32 KiB of float64 fit the L1 cache
DEPTH = 4096  # most contracted elements: their offsets are a table
DTYPES = frozenset("bBhHiIlLqQfdFD")  # dtype characters that numba computes as NumPy does


def bind_loops(dims: DotDims, output: ArraySpec) -> Kernel:
    """A kernel for one `dot_general`; offset tables are kept for the strides last seen."""
    kept: list[tuple[Any, _Tables | None]] = [(None, None)]
    order = tuple(range(len(output.shape))) if output.layout is None else output.layout

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        if out is not None and out.flags.aligned and out.transpose(order).flags.c_contiguous:
            target = out
        else:
            target = empty_as(output)
        lhs, rhs = readable(lhs), readable(rhs)
        (left, left_origin), (right, right_origin) = flat(lhs), flat(rhs)
        key = (lhs.strides, rhs.strides)
        seen, tables = kept[0]  # read once: another thread may put its own there at any time
        if tables is None or seen != key:
            tables = _Tables(dims, order, lhs, rhs)
            kept[0] = (key, tables)
        arguments = tables.arguments
        origins = np.array((left_origin, right_origin))
        elements = target.transpose(order).reshape(-1)

        def piece(start: int, stop: int) -> None:
            contract_tiles(start, stop, elements, left, right, origins, *arguments)

        parallel_for(piece, tables.tiles)
        if out is None or target is out:
            return target
        np.copyto(out, target)
        return out

    return run


class _Tables:
    """Offsets of tiles, rows and contracted elements for operands of given strides."""

    def __init__(self, dims: DotDims, order: Axes, lhs: Any, rhs: Any) -> None:
        left, right = element_strides(lhs) or [], element_strides(rhs) or []
        axes = [
            *(
                (lhs.shape[i], left[i], right[j])
                for i, j in zip(dims.lhs_batch, dims.rhs_batch, strict=True)
            ),
            *((lhs.shape[i], left[i], 0) for i in dims.lhs_free),
            *((rhs.shape[j], 0, right[j]) for j in dims.rhs_free),
        ]
        pairs = zip(dims.lhs_contracting, dims.rhs_contracting, strict=True)
        outer, tile, row = _split(merge_axes([axes[axis] for axis in order]))
        contracted = [(lhs.shape[i], left[i], right[j]) for i, j in pairs]
        self.tiles = math.prod(n for n, _, _ in outer)
        self.arguments = (
            axis_table(outer),
            offsets(tile),
            np.array(row, dtype=np.int64),
            offsets(merge_axes(contracted)),
        )


def _split(axes: list[Axis]) -> tuple[list[Axis], list[Axis], Axis]:
    """Outer axes, axes of the rows of a tile, and the row."""
    if not axes:
        return [], [], (1, 0, 0)
    *axes, (n, left, right) = axes
    row = next((d for d in range(min(n, TILE), 63, -1) if n % d == 0), n) if n > TILE else n
    if row < n:
        axes.append((n // row, left * row, right * row))
    tile: list[Axis] = []
    room = TILE // row
    while axes and axes[-1][0] <= room:
        room //= axes[-1][0]
        tile.insert(0, axes.pop())
    return axes, tile, (row, left, right)

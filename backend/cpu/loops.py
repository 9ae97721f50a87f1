"""Contraction by a compiled loop nest: many tiny matrices, hyperedges, integers.

The axes of the output, as they lie in memory, are merged where both operands' strides allow; the
innermost becomes the row, the next ones a tile that stays in cache; see `kernels.loops`. Where the same batch
of floats lies last in all arrays, rows are lines of which strips are added up in registers. Scratch: offset
tables only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._base.options import get_options
from ..catalogue import DotDims
from ..matrices import TINY
from ..protocol import Kernel
from ..spec import ArraySpec, Axes
from .buffers import allocator, empty_as
from .kernels.loops import STRIP, contract_lines, contract_tiles
from .strided import Axis, axis_table, element_strides, flat, merge_axes, offsets, readable
from .threads import parallel_for

TILE = 4096  # elements of the output that are summed together; 32 KiB of float64 fit the L1 cache
DTYPES = frozenset("bBhHiIlLqQfdFD")  # dtype characters that numba computes as NumPy does
PIECE = 1 << 13  # bytes of a line, more or less, that is done before the next piece of all lines is
LINES = 4096  # most of them in a tile: their offsets are a table
TILES = 8  # or about as many, where several threads are to have some
FEW = 1 << 18  # multiplications below which one thread is done before another one would be there


def bind_loops(dims: DotDims, output: ArraySpec) -> Kernel:
    """A kernel for one `dot_general`; offset tables are kept for the strides last seen."""
    kept: list[tuple[Any, _Tables | None]] = [(None, None)]
    order = tuple(range(len(output.shape))) if output.layout is None else output.layout
    is_plain, make = output.layout is None, allocator(output)
    threads = None if uses_threads(dims) else 1
    is_tiny = dims.m * dims.n * dims.k < TINY or output.dtype.char not in "fd"

    def run(lhs: Any, rhs: Any, out: Any = None, are_dense: bool = False) -> Any:
        if not (lhs.flags.aligned and rhs.flags.aligned):
            lhs, rhs = readable(lhs), readable(rhs)
        key = (lhs.strides, rhs.strides)
        seen, tables = kept[0]  # read once: another thread may put its own there at any time
        if seen != key:
            tables = _tables(dims, order, lhs, rhs, 1 if threads else TILES)
            kept[0] = (key, tables)
        if tables is None:  # some lie between elements
            return run(readable(lhs), readable(rhs), out, are_dense)
        suits = is_tiny or tables.are_lines or are_dense
        if not suits:  # larger matrices are for this kernel in lines alone
            return run(lhs.copy(order="K"), rhs.copy(order="K"), out=out, are_dense=True)
        if out is None:
            target = make()
        elif out.flags.aligned and out.transpose(order).flags.c_contiguous:
            target = out
        else:
            target = empty_as(output)
        contract, arguments = tables.contract, tables.arguments
        left, right = flat(lhs)[0], flat(rhs)[0]
        elements = (target if is_plain else target.transpose(order)).reshape(-1)

        def piece(start: int, stop: int) -> None:
            contract(start, stop, elements, left, right, *arguments)

        parallel_for(piece, tables.tiles, threads)
        if out is None or target is out:
            return target
        np.copyto(out, target)
        return out

    return run


def uses_threads(dims: DotDims) -> bool:
    """Whether there is enough to do for several."""
    return dims.batch * dims.m * dims.n * dims.k >= FEW or not get_options().small


def loops_bytes(dims: DotDims) -> int:
    """Upper bound of the tables."""
    return max(16 * TILE, 24 * LINES) + 16 * dims.k


def _tables(dims: DotDims, order: Axes, lhs: Any, rhs: Any, tiles: int) -> _Tables | None:
    strides = element_strides(lhs), element_strides(rhs)
    if strides[0] is None or strides[1] is None:
        return None
    return _Tables(dims, order, lhs, rhs, strides[0], strides[1], tiles)


class _Tables:
    """Offsets of tiles, rows and contracted elements for operands of given strides."""

    def __init__(
        self,
        dims: DotDims,
        order: Axes,
        lhs: Any,
        rhs: Any,
        left: list[int],
        right: list[int],
        tiles: int,
    ) -> None:
        # where the first elements lie in a buffer: the same for all arrays of these strides
        self.origins = np.array((flat(lhs)[1], flat(rhs)[1]))
        axes = [
            *(
                (lhs.shape[i], left[i], right[j])
                for i, j in zip(dims.lhs_batch, dims.rhs_batch, strict=True)
            ),
            *((lhs.shape[i], left[i], 0) for i in dims.lhs_free),
            *((rhs.shape[j], 0, right[j]) for j in dims.rhs_free),
        ]
        pairs = zip(dims.lhs_contracting, dims.rhs_contracting, strict=True)
        contracted = offsets(merge_axes([(lhs.shape[i], left[i], right[j]) for i, j in pairs]))
        merged = merge_axes([axes[axis] for axis in order])
        if merged and lhs.dtype.char in "fd" and merged[-1][1:] == (1, 1):
            strip = STRIP // lhs.itemsize
            if merged[-1][0] >= strip:
                self._of_lines(merged, contracted, strip, max(strip, PIECE // lhs.itemsize), tiles)
                return
        outer, tile, row = _split(merged)
        self.contract, self.are_lines = contract_tiles, False
        self.tiles = math.prod(n for n, _, _ in outer)
        self.arguments: tuple[Any, ...] = (
            self.origins,
            axis_table(outer),
            offsets(tile),
            np.array(row, dtype=np.int64),
            contracted,
        )

    def _of_lines(
        self, axes: list[Axis], contracted: Any, strip: int, most: int, tiles: int
    ) -> None:
        """Of floats whose batches lie last in all arrays: outer axes are pieces of the lines, then what makes
        no rows of a tile."""
        *kept, (n, *_) = _with_output(axes)
        pieces = max(1, n // most, min(n // strip, tiles))
        piece = -(-n // pieces // strip) * strip  # of whole strips
        pieces = max(1, n // piece)
        rows: list[Axis] = []
        room = LINES
        while kept and kept[-1][0] <= room:
            room //= kept[-1][0]
            rows.insert(0, kept.pop())
        while rows and pieces * math.prod(axis[0] for axis in kept) < tiles:
            kept.append(rows.pop(0))
        outer = [(pieces, piece, piece, piece), *kept]
        self.contract, self.are_lines = contract_lines, True
        self.tiles = math.prod(axis[0] for axis in outer)
        self.arguments = (
            self.origins,
            axis_table(outer, 3),
            offsets(rows, 3),
            np.array((piece, n - (pieces - 1) * piece)),  # the last one is longer, or the only one
            contracted.reshape(-1),
        )


def _with_output(axes: list[Axis]) -> list[Axis]:
    """The axes of a contiguous output, with their strides in it before those of the operands."""
    found: list[Axis] = []
    stride = 1
    for n, *steps in reversed(axes):
        found.insert(0, (n, stride, *steps))
        stride *= n
    return found


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

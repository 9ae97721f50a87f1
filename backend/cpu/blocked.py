"""Products of matrices without BLAS: of integers, truth values, half precisions; of real numbers, if asked
for or where BLAS, with the copies that it needs, should take longer.

out[b, i, j] = sum_k lhs[b, i, k] * rhs[b, k, j], a tile of out at a time; see `kernels.blocked`. Panels of
both operands are packed from wherever they lie, as numbers that are multiplied fast:

real numbers     as they are
integers         in their own width, 8 bits in 16; a sum modulo 2**16 is one modulo 2**8 as well
truth values     as 0 and 1 in 16 bits; what is not 0 after some terms is true
half precisions  as float32, in which they are multiplied and added up, and rounded once

No copy of a whole operand is made. Sums are added up in the result where all whole blocks of it are rows of a
matrix and numbers stay as they are; else in a buffer. Scratch, for each thread, in a workspace that is kept:
panels, and sums of one tile or of one block.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._base.options import num_threads
from ..blocked import PANEL_BYTES, TILE, TILE_OF_SUMS, tile_of
from ..catalogue import DotDims
from ..protocol import Kernel
from ..spec import ArraySpec, Shape, compute_dtype
from .buffers import empty_as
from .kernels.blocked import multiply_tiles
from .kernels.panels import BFLOAT16, FLOAT16, NUMBERS, TRUTH, block_shape
from .kernels.vectors import LINE
from .strided import Axis, axis_table, element_strides, flat, merge_axes, readable
from .threads import parallel_for
from .workspaces import WORKSPACES

# most rows, and bytes of contracted elements of each: 256 KiB, which stay in the L2 cache
PANEL = (128, PANEL_BYTES)
DEPTH_OF_TRUTH = 64  # contracted truth values between looks whether all sums are true already
PIECE = 16  # elements one after another that are enough for whole cache lines
PLACES = 10 * 8  # bytes for each place of the tables of offsets
THIN = 64  # rows or columns below which it is they that decide which are taken for the rows


def suits_dtype(dtype: np.dtype[np.generic]) -> bool:
    """Whether this kernel computes with `dtype`."""
    return dtype.kind in "biu" or dtype.char in "fd" or compute_dtype(dtype) != dtype


class _Prepared(NamedTuple):
    """What the kernel is given besides addresses, for some strides."""

    tiles: int
    lengths: tuple[int, ...]  # bytes of panels and sums
    places: int  # of one kind
    tables: tuple[Any, ...]
    settings: Any


def bind_blocked(dims: DotDims, output: ArraySpec) -> Kernel:
    """A kernel for one `dot_general`; tables are kept for the strides last seen."""
    kind, words, wide = _numbers(output.dtype)
    is_turned = _is_turned(dims, output)
    kept: list[tuple[Any, _Prepared | None]] = [(None, None)]

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        is_direct = out is not None and element_strides(out) is not None
        target = out if is_direct else empty_as(output)
        lhs, rhs = readable(lhs), readable(rhs)
        key = (num_threads(), target.strides, lhs.strides, rhs.strides)
        seen, now = kept[0]  # read once: another thread may put its own there at any time
        if now is None or seen != key:
            steps, tables = _tables(dims, is_turned, target, lhs, rhs)
            are_rows = words == wide and kind == NUMBERS and _are_rows(tables, wide)
            sizes = _sizes(dims, output, are_rows)
            settings = np.array((*sizes, *steps, are_rows))
            lengths = _lengths(sizes, are_rows, wide)
            now = _Prepared(_tiles(dims, sizes), lengths, _places(sizes), tables, settings)
            kept[0] = (key, now)
        if is_turned:
            lhs, rhs = rhs, lhs
        (to, origin), (left, of_left), (right, of_right) = (
            flat(target.view(words), writeable=True), flat(lhs.view(words)), flat(rhs.view(words))
        )  # fmt: skip
        origins = np.array((origin, of_left, of_right))

        multiply(now, (to, left, right, origins))
        if out is None or is_direct:
            return target
        np.copyto(out, target)
        return out

    def multiply(now: _Prepared, arrays: tuple[Any, ...]) -> None:
        *panels, end = itertools.accumulate(now.lengths, initial=0)

        def piece(start: int, stop: int) -> None:
            memory = WORKSPACES.take(end + PLACES * now.places)
            try:
                scratch = (
                    memory[at : at + length].view(wide)
                    for at, length in zip(panels, now.lengths, strict=True)
                )
                offsets = memory[end : end + PLACES * now.places].view(np.int64)
                multiply_tiles(
                    start, stop, *arrays, *now.tables, now.settings, kind, *scratch,
                    offsets.reshape(-1, now.places),
                )  # fmt: skip
            finally:
                WORKSPACES.give(memory)

        parallel_for(piece, now.tiles)

    return run


def blocked_bytes(dims: DotDims, output: ArraySpec, threads: int) -> int:
    """Upper bound of the panels and sums of all threads."""
    _, _, wide = _numbers(output.dtype)

    def of_threads(are_rows: bool, threads: int) -> int:
        sizes = _sizes(dims, output, are_rows, threads)
        nbytes = sum(_lengths(sizes, are_rows, wide)) + PLACES * _places(sizes) + LINE
        return min(threads, _tiles(dims, sizes)) * nbytes

    return max(of_threads(are_rows, n) for are_rows in (False, True) for n in {1, threads})


def _numbers(dtype: np.dtype[np.generic]) -> tuple[int, np.dtype[Any], np.dtype[Any]]:
    """Kind of elements, the dtype as which they are read, and the one in which they are added up."""
    if compute_dtype(dtype) != dtype:
        kind = FLOAT16 if dtype.char == "e" else BFLOAT16
        return kind, np.dtype(np.uint16), np.dtype(np.float32)
    if dtype.kind == "f":
        return NUMBERS, dtype, dtype
    words = np.dtype(f"i{dtype.itemsize}")
    return (
        TRUTH if dtype.kind == "b" else NUMBERS,
        words,
        np.promote_types(words, np.int16),
    )


def _is_turned(dims: DotDims, output: ArraySpec) -> bool:
    """Whether the rows of the result are what the kernel takes for columns, which are written by lines."""
    if output.dtype.kind != "f" or min(dims.m, dims.n) < THIN:
        return dims.m > dims.n  # columns, of which a block has more, are what there is more of
    order = range(len(output.shape)) if output.layout is None else output.layout
    last = [axis for axis in order if output.shape[axis] > 1][-1]
    return 0 <= last - len(dims.lhs_batch) < len(dims.lhs_free)


def _are_rows(tables: tuple[Any, ...], wide: np.dtype[Any]) -> bool:
    """Whether whole blocks of the result, counted from its beginning, are rows of a matrix."""
    height, width = block_shape(wide, LINE)
    (row_sizes, *_), (column_sizes, steps, _) = tables[1:3]
    rows_are_even = len(row_sizes) <= 1 or row_sizes[-1] % height == 0
    columns_are_runs = len(column_sizes) == 0 or (
        steps[-1] == 1 and (len(column_sizes) == 1 or column_sizes[-1] % width == 0)
    )
    return bool(rows_are_even and columns_are_runs)


def _sizes(dims: DotDims, output: ArraySpec, are_rows: bool, threads: int | None = None) -> Shape:
    """What the kernel calls `sizes`."""
    m, n, k = dims.m, dims.n, dims.k
    if _is_turned(dims, output):
        m, n = n, m
    _, _, wide = _numbers(output.dtype)
    height, width = block_shape(wide, LINE)
    most = TILE if are_rows else TILE_OF_SUMS
    threads = threads or num_threads()
    rows, columns = tile_of(dims.batch, m, n, k, (height, width), threads, most)
    depth = DEPTH_OF_TRUTH if output.dtype.kind == "b" else PANEL[1] // wide.itemsize
    depth = max(1, -(-k // max(1, -(-k // depth))))  # panels of equal depth
    panel = -(-PANEL[0] // height) * height
    return m, n, k, rows, columns, min(panel, rows), depth, height, width


def _places(sizes: Shape) -> int:
    """Most offsets of one kind: of rows, columns and contracted elements, with a block beyond the edge."""
    return max(LINE, *sizes[3:7]) + max(sizes[7:9])


def _tiles(dims: DotDims, sizes: Shape) -> int:
    return dims.batch * -(-sizes[0] // sizes[3]) * -(-sizes[1] // sizes[4])


def _lengths(sizes: Shape, are_rows: bool, wide: np.dtype[Any]) -> tuple[int, ...]:
    """Bytes, in whole cache lines, of a panel of lhs, one of rhs, and the sums of a tile, or of a block at
    the edge of the result."""
    _, _, _, tile_rows, tile_columns, rows, depth, height, width = sizes
    columns = -(-tile_columns // width) * width
    elements = (
        -(-rows // height) * height * depth,
        columns * depth,
        height * width if are_rows else -(-tile_rows // height) * height * columns,
    )
    return tuple(-(-n * wide.itemsize // LINE) * LINE for n in elements)


def _tables(
    dims: DotDims, is_turned: bool, out: Any, lhs: Any, rhs: Any
) -> tuple[tuple[int, int, int], tuple[Any, ...]]:
    """Sizes and strides of batch axes, rows, columns and contracted axes; before them how many contracted
    elements neighbours in either operand are apart, and how many columns.

    The kernel walks the axes of each group in the order in which they stand here.
    """
    to, left, right = (element_strides(x) or [] for x in (out, lhs, rhs))
    n_batch, n_left = len(dims.lhs_batch), len(dims.lhs_batch + dims.lhs_free)
    batch = [
        (lhs.shape[i], to[axis], left[i], right[j])
        for axis, (i, j) in enumerate(zip(dims.lhs_batch, dims.rhs_batch, strict=True))
    ]
    rows: list[Axis] = [
        (lhs.shape[i], to[axis], left[i]) for axis, i in enumerate(dims.lhs_free, n_batch)
    ]
    columns: list[Axis] = [
        (rhs.shape[j], to[axis], right[j]) for axis, j in enumerate(dims.rhs_free, n_left)
    ]
    pairs = zip(dims.lhs_contracting, dims.rhs_contracting, strict=True)
    contracted: list[Axis] = [(lhs.shape[i], left[i], right[j]) for i, j in pairs]
    if is_turned:
        batch = [(n, x, z, y) for n, x, y, z in batch]
        rows, columns = columns, rows
        contracted = [(n, y, x) for n, x, y in contracted]
    order = 1 if _is_near(contracted, 1) and not _is_near(contracted, 2) else 2
    ks, step = _walked(contracted, order)
    rows, _ = _walked(rows, 2)
    columns, across = _walked(columns, 1 if _is_near(columns, 1) else 2)
    tables = [axis_table(merge_axes(axes)) for axes in (rows, columns, ks)]
    steps = (*((1, step) if order == 1 else (step, 1)), across)
    return steps, (axis_table(merge_axes(batch), 3), *tables)


def _is_near(axes: list[Axis], array: int) -> bool:
    return any(abs(axis[array]) == 1 and axis[0] > 1 for axis in axes)


def _walked(axes: list[Axis], array: int) -> tuple[list[Axis], int]:
    """Axes in the order of their strides in one of two arrays, 1 or 2. The fastest axes of the other come
    before the fastest ones of this, both in short pieces, so that a panel takes whole cache lines of either.
    Also how many elements further its neighbours in the other array are.
    """
    near, rest = _nearest(axes, array)
    other, rest = _nearest(rest, 3 - array, near)
    axes = [*sorted(rest, key=lambda axis: -abs(axis[array])), *other, *near]
    at = next((at for at, axis in enumerate(axes) if abs(axis[3 - array]) == 1), len(axes))
    return axes, math.prod(n for n, *_ in axes[at + 1 :])


def _nearest(
    axes: list[Axis], array: int, taken: Sequence[Axis] = ()
) -> tuple[list[Axis], list[Axis]]:
    """Axes of up to PIECE elements that are neighbours in an array, the slowest first, and the others. Those
    that are taken already may lie between. An axis is cut only into equal parts."""
    left, near, count = [axis for axis in axes if axis[0] > 1], list[Axis](), 1
    while count < PIECE:
        if between := next((x for x in taken if abs(x[array]) == count), None):
            count *= between[0]
            continue
        axis = next((x for x in left if abs(x[array]) == count), None)
        if axis is None:
            break
        n, *strides = axis
        parts = [d for d in range(1, min(n, PIECE // count) + 1) if n % d == 0]
        piece = max(parts, key=lambda d: (count * d % (PIECE // 2) == 0, d))
        if count * piece < PIECE // 2:  # not even half a cache line or two
            piece = n
        if piece == 1:
            break
        left.remove(axis)
        if piece < n:
            left.append((n // piece, *(piece * stride for stride in strides)))
        near.insert(0, (piece, *strides))
        count *= n
    return near, left

"""Products of few terms for many rows and columns, as fast as memory takes the result.

    out[b, m, n] = sum over k of lhs[b, m, k] rhs[b, k, n]

Such a product is decided by the bytes of its result, and not by its multiplications; tiles of libraries are
made for the opposite. A block goes from tile to tile of the result. It has a tile's panels, all terms of so
many rows and columns, in shared memory; while it multiplies and writes, those of the next are on their way,
and the rows stay where only the columns are others. Rows, columns and terms may lie anywhere in the operands,
so that nothing is copied before. float64 is multiplied by tensor cores, whose sums are those of fused
multiplications and additions in the same precision. So is float32, each number in three pieces of bfloat16
(see pieces.py), all terms of a sum by one accumulator, small products first; what is out of range is computed
again at once. Errors of random numbers were two thirds of cuBLAS's on an H200; those of positive ones, of
which an accumulator that cuts off makes too little, were not measured. Or else float32 is multiplied by
threads that hold 8 x 8 sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...spec import Shape, dtype_from_name
from .groups import FEATURES, GROUP, group
from .kernel import CudaKernel, kept
from .layout import index_type, layout
from .text import unit
from .types import type_of

MOST_TERMS = 24
"""Beyond, sums by tensor cores no longer fit the registers, and panels of two blocks not every card."""
STEP = 8  # terms at a time
GAP = 4  # numbers between lines of a panel: threads side by side read from other banks
PLANE_LINE = 64  # bytes of a column of one of the three planes of pieces
THREADS, BLOCKS = 256, 2  # of a block; blocks of a multiprocessor

ENTRY = """
extern "C" __launch_bounds__($threads, $blocks) __global__ void $name(
    $type* out, const $type* __restrict__ lhs, const $type* __restrict__ rhs,
    Thin<$batch, $row_axes, $column_axes, $summed, $index> g) {
    typedef $index Index;
    typedef $type Left[$depth][$row_line];
    typedef $type Right[$depth][$column_line];
    typedef $struct Sums;
    alignas(1024) extern __shared__ unsigned char shared[];
    Sums sums(shared);
    Left* left = (Left*)(shared + Sums::NEEDED);
    Right* right = (Right*)(left + 2);
    Index* left_at = (Index*)(right + 2);
    Index* right_at = left_at + $depth;
    const int terms = g.summed.count;
    for (int k = threadIdx.x; k < $depth; k += $threads) {
        Index at[2];
        g.summed.offsets(k < terms ? k : 0, at);
        left_at[k] = at[0], right_at[k] = at[1];
    }
    for (int i = threadIdx.x; i < ($depth - terms) * $row_line; i += $threads)
        for (int turn = 0; turn < 2; ++turn) (&left[turn][terms][0])[i] = 0;
    for (int i = threadIdx.x; i < ($depth - terms) * $column_line; i += $threads)
        for (int turn = 0; turn < 2; ++turn) (&right[turn][terms][0])[i] = 0;
    __syncthreads();
    const long long all = g.count;
    Index left_over = (Index)(all * (blockIdx.x + 1) / gridDim.x - all * blockIdx.x / gridDim.x);
    if (!left_over) return;
    Spot<Index> here, next;
    next.go_to((Index)(all * blockIdx.x / gridDim.x), g.tiles);
    bool is_new = true;  // whether rows are others than those of the tile before
    int rows_turn = 0, columns_turn = 0;
    Index first[2];
    const auto send_next = [&]() {
        if (is_new) {
            g.batch.offsets(next.matrix, first);
            send_panel<$rows, $row_line, $threads, $left_terms>(
                left[rows_turn], lhs + first[0], g.rows, next.row * $rows, left_at, terms);
        }
        send_panel<$columns, $column_line, $threads, $right_terms>(
            right[columns_turn], rhs + first[1], g.columns, next.column * $columns, right_at, terms);
    };
    send_next();
    while (left_over) {
        all_copied();
        __syncthreads();
        here = next;
        sums.start(left[rows_turn], right[columns_turn], is_new);
        if (--left_over) {
            is_new = next.advance(g.tiles);
            rows_turn ^= is_new, columns_turn ^= 1;
            send_next();
        }
        sums.finish();
        const long long stride = g.columns.count;
        const Index row = here.row * $rows, column = here.column * $columns;
        const long long at = (here.matrix * (long long)g.rows.count + row) * stride + column;
        sums.write_out(out + at, stride, g.rows.count - row, g.columns.count - column);
    }
}
"""

Axes = tuple[Shape, Sequence[int], Sequence[int]]
"""Sizes, and strides in lhs and rhs."""


class Tile(NamedTuple):
    """Rows and columns of the result that a block computes at a time, the struct of source/thin.cuh or
    source/thin_pieces.cuh that adds them up, and the rows and columns of one thread of it, of one warp, or
    of four."""

    rows: int
    columns: int
    sums: str
    high: int
    wide: int


TILES = {
    "float32": Tile(128, 128, "InPieces", 64, 128),
    "float64": Tile(128, 64, "InWarps", 16, 64),
}
PLAIN = Tile(128, 128, "InThreads", 8, 8)
"""That of float32 in threads, as large as the other."""


class Work(NamedTuple):
    """What a product comes to in tiles: how many there are, and how many multiplications, those of what is
    behind the last row, column and term included."""

    tiles: int
    multiplications: int


def in_tiles(dtype: str, batch: int, m: int, n: int, k: int) -> Work:
    """Of so many matrices of m x k and k x n.

    >>> in_tiles("float32", 1, 256, 257, 9)
    Work(tiles=6, multiplications=1572864)
    """
    tile = TILES[dtype]
    tiles = batch * -(-m // tile.rows) * -(-n // tile.columns)
    return Work(tiles, tiles * tile.rows * tile.columns * _depth(k))


def _depth(k: int) -> int:
    return -(-k // STEP) * STEP


def thin(
    dtype: str,
    batch: Axes,
    rows: Axes,
    columns: Axes,
    summed: Axes,
    blocks: int,
    is_plain: bool = False,
) -> CudaKernel | None:
    """The kernel, which takes out, lhs and rhs.

    Args:
        dtype: of all three, "float32" or "float64".
        is_plain: whether float32 is multiplied as it is, and not in pieces.
        batch, rows, columns, summed: axes of the result, which is row-major in this order, and the contracted
            ones; strides in the operand that has no such axis are not looked at. No size is 0.
        blocks: that the card runs at once.

    Returns:
        the kernel; None for other dtypes, and for more than 24 terms.

    >>> sizes = (((), (), ()), ((4096,), (24,), (0,)), ((4096,), (0,), (1,)), ((24,), (1,), (4096,)))
    >>> thin("float32", *sizes, blocks=264).grid
    (264, 1, 1)
    """
    key = (
        "thin",
        dtype,
        *(tuple(map(tuple, axes)) for axes in (batch, rows, columns, summed)),
        blocks,
        is_plain,
    )
    return kept(key, lambda: _made(dtype, batch, rows, columns, summed, blocks, is_plain))


def _made(
    dtype: str,
    batch: Axes,
    rows: Axes,
    columns: Axes,
    summed: Axes,
    blocks: int,
    is_plain: bool = False,
) -> CudaKernel | None:
    tile = PLAIN if is_plain and dtype == "float32" else TILES.get(dtype)
    of_batch = layout(*batch)
    of_rows, of_columns = layout(rows[0], rows[1]), layout(columns[0], columns[2])
    of_summed = layout(*summed, keep_order=False)
    if tile is None or of_summed.count > MOST_TERMS:
        return None
    tiles = -(-of_rows.count // tile.rows), -(-of_columns.count // tile.columns)
    count = of_batch.count * tiles[0] * tiles[1]
    index = index_type(of_batch, of_rows, of_columns, of_summed, layout((count,), (1,)))
    depth = _depth(of_summed.count)
    along = [
        _innermost(of_summed.axes, k) < _innermost(axes.axes, 1)
        for k, axes in ((1, of_rows), (2, of_columns))
    ]
    number, lines = dtype_from_name(dtype), (tile.rows + GAP, tile.columns + GAP)
    in_pieces = tile.sums == "InPieces"
    numbers = (tile.rows, tile.columns, *lines, depth, tile.high, tile.wide, THREADS)
    sums = ", ".join([*map(str, numbers), *(["Group_$name"] if in_pieces else [])])
    source, name = unit(
        ("layout", "outer", "bfloat16", "thin", *(("pieces", "thin_pieces") if in_pieces else ())),
        "thin",
        GROUP + ENTRY if in_pieces else ENTRY,
        type=type_of(number),
        index=index,
        batch=of_batch.type(index),
        row_axes=of_rows.type(index),
        column_axes=of_columns.type(index),
        summed=of_summed.type(index),
        rows=tile.rows,
        columns=tile.columns,
        row_line=lines[0],
        column_line=lines[1],
        depth=depth,
        threads=THREADS,
        blocks=BLOCKS,
        **(group(tile.wide) if in_pieces else {}),
        struct=f"{tile.sums}<{sums}>",
        left_terms="true" if along[0] else "false",
        right_terms="true" if along[1] else "false",
    )
    axes = (of_batch, of_rows, of_columns, of_summed)
    geometry = [word for one in axes for word in one.geometry()]
    is_wide = index != "int"
    panels, tables = sum(lines) * number.itemsize, 2 * (8 if is_wide else 4)
    return CudaKernel(
        source,
        name,
        (min(count, blocks), 1, 1),
        (THREADS, 1, 1),
        ("out", "lhs", "rhs"),
        (*geometry, *tiles, count),
        is_wide,
        depth * (2 * panels + tables) + (3 * tile.columns * PLANE_LINE if in_pieces else 0),
        FEATURES if in_pieces else "",
    )


def _innermost(axes: Sequence[tuple[int, ...]], array: int) -> int:
    """The stride of the axis that lies densest."""
    return min((abs(axis[array]) for axis in axes), default=1 << 62)

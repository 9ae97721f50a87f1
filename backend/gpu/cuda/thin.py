"""Products of matrices that are thin: of few terms, rows or columns, in one launch and as fast as memory goes.

    out[b, m, n] = sum over k of lhs[b, m, k] rhs[b, k, n]

Such a product is decided by the bytes of its result, or of the operand that is long, and not by its
multiplications; tiles of libraries are made for the opposite. A block computes one tile of the result with all
of its terms, 8 of them at a time: while these are multiplied in shared memory, the next are on their way.
Rows, columns and terms may lie anywhere in the operands: where those of a tile lie is found once. float32 is
multiplied by threads that hold 8 x 8 sums; float64 by tensor cores, whose sums are those of fused
multiplications and additions in the same precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...spec import Shape
from .kernel import CudaKernel, kept
from .layout import index_type, layout
from .text import unit

TERMS, MOST_TERMS = 8, 512
MOST_TILES = 1 << 30

ENTRY = """
extern "C" __launch_bounds__($threads, $blocks) __global__ void $name(
    $type* out, const $type* __restrict__ lhs, const $type* __restrict__ rhs,
    Thin<$batch, $row_axes, $column_axes, $summed, $index> g) {
    typedef $index Index;
    __shared__ Index row_at[$rows], column_at[$columns], left_at[MOST_TERMS], right_at[MOST_TERMS];
    alignas(16) __shared__ $type left[2][TERMS][$rows + GAP];
    alignas(16) __shared__ $type right[2][TERMS][$columns + GAP];
    const Index tile = blockIdx.x, rest = tile / g.tiles[1], number = rest / g.tiles[0];
    const Index column = (tile - rest * g.tiles[1]) * $columns, row = (rest - number * g.tiles[0]) * $rows;
    Index first[2];
    g.batch.offsets(number, first);
    lhs += first[0], rhs += first[1];
    find_places(g.rows, row, row_at, $rows);
    find_places(g.columns, column, column_at, $columns);
    for (int k = threadIdx.x; k < g.summed.count; k += $threads) {
        Index at[2];
        g.summed.offsets(k, at);
        left_at[k] = at[0], right_at[k] = at[1];
    }
    __syncthreads();
    OnItsWay<$type, $rows, $threads, $left_terms> a;
    OnItsWay<$type, $columns, $threads, $right_terms> b;
    a.read(lhs, row_at, left_at, g.summed.count), b.read(rhs, column_at, right_at, g.summed.count);
    a.write(left[0]), b.write(right[0]);
    __syncthreads();
    $sums sums;
    int turn = 0;
    for (Index k = TERMS; k < g.summed.count + TERMS; k += TERMS) {
        const Index more = g.summed.count - k;
        if (more > 0) a.read(lhs, row_at, left_at + k, more), b.read(rhs, column_at, right_at + k, more);
        sums.add(left[turn], right[turn]);
        turn ^= 1;
        if (more > 0) {
            a.write(left[turn]), b.write(right[turn]);
            __syncthreads();
        }
    }
    const long long stride = g.columns.count;
    out += (number * (long long)g.rows.count + row) * stride + column;
    sums.write_out(out, stride, g.rows.count - row, g.columns.count - column);
}
"""

Axes = tuple[Shape, Sequence[int], Sequence[int]]
"""Sizes, and strides in lhs and rhs."""


class Tile(NamedTuple):
    """Rows and columns of the result that a block computes, its threads, how they share the sums, and how
    many blocks a multiprocessor should hold at once."""

    rows: int
    columns: int
    threads: int
    sums: str
    blocks: int = 1


def tile_of(dtype: str, m: int, n: int) -> Tile:
    """The tile for matrices of m rows and n columns.

    >>> tile_of("float32", 9600, 9600)
    Tile(rows=128, columns=128, threads=256, sums='InThreads<128, 128, 8, 8>', blocks=2)
    >>> tile_of("float64", 100000, 24)
    Tile(rows=256, columns=24, threads=256, sums='InWarps<256, 24, 32, 24>', blocks=1)
    """
    return _by_warps(m, n) if dtype == "float64" else _by_threads(m, n)


def _by_threads(m: int, n: int) -> Tile:
    if n <= 32:
        columns = _up(n, 4)
        return Tile(256, columns, 32 * columns // 4, f"InThreads<256, {columns}, 8, 4>")
    rows, columns, blocks = 128, 128, 2
    if n <= 112:
        columns, blocks = _up(n, 8), 1
    elif m <= 112:
        rows, blocks = _up(m, 8), 1
        columns = 256 if rows <= 32 else 128
    return Tile(rows, columns, rows * columns // 64, f"InThreads<{rows}, {columns}, 8, 8>", blocks)


def _by_warps(m: int, n: int) -> Tile:
    rows, columns, high, wide, blocks = 128, 64, 32, 32, 2
    if n <= 64:
        columns = wide = _up(n, 8)
        high, blocks = (32, 1) if wide <= 32 else (16, 1)
        rows = 8 * high
    elif m <= 112:
        rows, high, wide, blocks = _up(m, 16), 16, 64, 1
        columns = 64 * min(4, max(1, 128 // rows))
    warps = rows // high * (columns // wide)
    return Tile(rows, columns, 32 * warps, f"InWarps<{rows}, {columns}, {high}, {wide}>", blocks)


def _up(n: int, step: int) -> int:
    return -(-n // step) * step


def thin(dtype: str, batch: Axes, rows: Axes, columns: Axes, summed: Axes) -> CudaKernel | None:
    """The kernel, which takes out, lhs and rhs.

    Args:
        dtype: of all three, "float32" or "float64".
        batch, rows, columns, summed: axes of the result, which is row-major in this order, and the contracted
            ones; strides in the operand that has no such axis are not looked at. No size is 0.

    Returns:
        the kernel; None for other dtypes, more than 512 terms, and more tiles than a grid may have.

    >>> sizes = (((), (), ()), ((4096,), (24,), (0,)), ((4096,), (0,), (1,)), ((24,), (1,), (4096,)))
    >>> thin("float32", *sizes).grid
    (1024, 1, 1)
    """
    key = ("thin", dtype, *(tuple(map(tuple, axes)) for axes in (batch, rows, columns, summed)))
    return kept(key, lambda: _made(dtype, batch, rows, columns, summed))


def _made(dtype: str, batch: Axes, rows: Axes, columns: Axes, summed: Axes) -> CudaKernel | None:
    of_batch = layout(*batch)
    of_rows, of_columns = layout(rows[0], rows[1]), layout(columns[0], columns[2])
    by_left = of_rows.count >= of_columns.count  # the operand that is longer is read in its order
    sizes, left, right = summed
    of_summed = layout(sizes, left, right, keep_order=False)
    if not by_left:
        turned = layout(sizes, right, left, keep_order=False)
        of_summed = type(turned)(tuple((n, y, x) for n, x, y in turned.axes), 2)
    if dtype not in ("float32", "float64") or of_summed.count > MOST_TERMS:
        return None
    tile = tile_of(dtype, of_rows.count, of_columns.count)
    tiles = -(-of_rows.count // tile.rows), -(-of_columns.count // tile.columns)
    count = of_batch.count * tiles[0] * tiles[1]
    if count > MOST_TILES:
        return None
    index = index_type(of_batch, of_rows, of_columns, of_summed)
    along = [
        _innermost(of_summed.axes, k) < _innermost(axes.axes, 1)
        for k, axes in ((1, of_rows), (2, of_columns))
    ]
    source, name = unit(
        ("layout", "outer", "thin"),
        "thin",
        ENTRY,
        type={"float32": "float", "float64": "double"}[dtype],
        index=index,
        batch=of_batch.type(index),
        row_axes=of_rows.type(index),
        column_axes=of_columns.type(index),
        summed=of_summed.type(index),
        rows=tile.rows,
        columns=tile.columns,
        threads=tile.threads,
        blocks=tile.blocks,
        sums=tile.sums,
        left_terms="true" if along[0] else "false",
        right_terms="true" if along[1] else "false",
    )
    geometry = [
        number for axes in (of_batch, of_rows, of_columns, of_summed) for number in axes.geometry()
    ]
    grid, block = (count, 1, 1), (tile.threads, 1, 1)
    arrays = ("out", "lhs", "rhs")
    return CudaKernel(source, name, grid, block, arrays, (*geometry, *tiles), index != "int")


def _innermost(axes: Sequence[tuple[int, ...]], array: int) -> int:
    """The stride of the axis that lies densest."""
    return min((abs(axis[array]) for axis in axes), default=1 << 62)

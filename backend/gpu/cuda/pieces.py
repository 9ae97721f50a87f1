"""Products of float32 by tensor cores that multiply bfloat16: each number in three pieces.

    x = high + middle + low,  each the nearest of bfloat16 (8 digits in base 2) to what is left: exactly x
    x y = high high + (high middle + middle high) + (high low + middle middle + low high) + rest

What is left out, middle low + low middle + low low, is at most 2**-24 |x y|, and 2**-27 of it on average:
no more than a rounding of float32, of which a sum has one for each term. Tensor cores add up 32 terms at a
time, small products first. They do not round to nearest but cut off, which is why their sums are short: they
are added in float32, each rounded to nearest. On an H200 errors of random numbers were a quarter to a half of
those of cuBLAS, of positive ones a fifth to two thirds. Integers whose products and sums
float32 holds are exact.

Where a piece would be out of range, the tile of the result is computed again, by plain multiplications and
additions of float32: sums that are not finite tell that a number was infinite, NaN or 2**128 - 2**119 and
more; numbers below 2**-100 other than 0 are found while they are taken apart, and matter where the tile has a
sum below 2**-40. So what is said of errors does not hold for two sorts of numbers: those below 2**-134 count
as 0; and those below 2**-109 lose digits where the tile has factors above 2**50 as well.

A block goes from tile to tile. Its two groups of four warps take turns at the tensor cores: while one
multiplies 32 terms, the other adds what it has multiplied and takes apart the next. Pieces of lhs stay in
registers, those of rhs are in shared memory, in four buffers by turns; numbers are read a step before they
are taken apart. Rows, columns and terms may lie anywhere in the operands; where nothing lies side by side,
each number is a transaction of its own (apart.py has what takes numbers apart before). Where tiles are few,
the terms of each are dealt among several blocks, whose sums are added after.

G. Henry, P. T. P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
higher-precision computations", 2019 (arXiv:1904.06376); that tensor cores do not round to nearest, and sums
are better made outside: H. Ootomo, R. Yokota, "Recovering single precision accuracy from tensor cores while
surpassing the FP32 theoretical peak performance", 2022 (arXiv:2203.03341).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from .groups import FEATURES, GROUP, group
from .kernel import CudaKernel, kept
from .layout import Layout, index_type, layout
from .text import unit
from .thin import Axes

ROWS, STEP = 128, 32  # of a tile of the result; terms at a time
BUFFERS = 4
THREADS = 256  # of a block: two groups of four warps
GAP = 4  # numbers between lines of a panel of floating numbers

ENTRY = (
    GROUP
    + """
extern "C" __launch_bounds__($threads, 1) __global__ void $name(
    float* out, const float* __restrict__ lhs, const float* __restrict__ rhs,
    Pieced<$batch, $row_axes, $column_axes, $summed, $index> g) {
    typedef $index Index;
    typedef Gate Gates[BUFFERS];
    typedef Index Terms[2][STEP];
    const int BUFFER = 3 * $wide * LINE;
    alignas(1024) extern __shared__ unsigned char shared[];
    float (*const panel)[ROWS + $gap] = (float (*)[ROWS + $gap])(shared + BUFFERS * BUFFER);
    float (*const beside)[$wide + $gap] = (float (*)[$wide + $gap])(panel + STEP);
    Terms* const terms = (Terms*)(beside + STEP);  // offsets in both operands, of the terms of four steps
    Gates& full = *(Gates*)(terms + BUFFERS);
    Gates& empty = *(Gates*)(&full + 1);
    const int count = (int)g.summed.count, steps = (count + STEP - 1) / STEP;
    Walk<Index> now, reading, coming;
    const Index end = g.count, next_unit = (Index)gridDim.x;
    now.go_to((Index)blockIdx.x, g.parts, steps);
    if (now.unit >= end) return;
    reading = coming = now;

    const auto look_up = [&](int slot) {  // of the step that is coming
        if (threadIdx.x < STEP) {
            Index at[2];
            const int k = coming.step * STEP + (int)threadIdx.x;
            g.summed.offsets(k < count ? k : 0, at);
            terms[slot][0][threadIdx.x] = at[0], terms[slot][1][threadIdx.x] = at[1];
        }
        coming.advance(g.parts, steps);
    };
    Left<$left_lies, Index> left;
    Right<$wide, $right_terms, $right_lies, Index> right;
    const float *from_left, *from_right;
    const auto go_to = [&](Index unit) {
        const Index tile = unit / g.parts, line = tile / g.tiles[1];
        Index first[2];
        g.batch.offsets(line / g.tiles[0], first);
        from_left = lhs + first[0], from_right = rhs + first[1];
        left.go_to(g.rows, line % g.tiles[0] * ROWS);
        right.go_to(g.columns, tile % g.tiles[1] * $wide);
    };
    int there = 0;  // terms of the step that was read and not yet taken apart
    const auto read_right = [&](int slot) {
        right.read(from_right, terms[slot][1]);
        there = count - reading.step * STEP;
    };
    const auto read_left = [&](int slot) {
        left.read(from_left, terms[slot][0]);
        if (reading.advance(g.parts, steps) && reading.unit < end) go_to(reading.unit);
    };

    if (threadIdx.x == 0)
        for (int k = 0; k < BUFFERS; ++k) full[k].open(8), empty[k].open(8);
    go_to(now.unit);
    for (int slot = 0; slot < 3; ++slot) look_up(slot);
    __syncthreads();
    Least least;  // of this tile
    read_right(0);
    read_left(0);
    right.split(shared, there, least);
    full[0].arrive();
    left.split(least);
    if (reading.unit < end) {
        read_right(1);
        read_left(1);
    }
    if (threadIdx.x >= 128) give_turn();

    PieceSums<$wide, Group_$name> sums;
    sums.clear();
    for (int n = 0;; ++n) {
        const int here = n % BUFFERS, next = (n + 1) % BUFFERS;
        const bool is_last = now.step + 1 == now.last, goes_on = !is_last || now.unit + next_unit < end;
#ifndef EINLOOM_GROUPS
        __syncthreads();
#endif
        full[here].wait(n / BUFFERS);
        look_up((n + 3) % BUFFERS);
        wait_for_turn();
        sums.template start<2>(left.pieces, shared + here * BUFFER);
        Least found;
        if (goes_on) {
            if (n + 1 >= BUFFERS) empty[next].wait((n + 1) / BUFFERS - 1);
            right.split(shared + next * BUFFER, there, found);
            full[next].arrive();
        }
        if (reading.unit < end) read_right((n + 2) % BUFFERS);
        sums.finish_small();
        give_turn();
        sums.template finish<2>(left.pieces);
        empty[here].arrive();
        sums.add();
        if (goes_on) left.split(found);
        if (reading.unit < end) read_left((n + 2) % BUFFERS);
        if (!is_last) {
            least.take(found);
            now.advance(g.parts, steps);
            continue;
        }
        const Index tile = now.unit / g.parts, line = tile / g.tiles[1];
        const Index row = line % g.tiles[0] * ROWS, column = tile % g.tiles[1] * $wide;
        const bool is_finite = sums.are_finite();
        if (__syncthreads_or(!is_finite || least.is_tiny())
            && __syncthreads_or(!is_finite || sums.has_small())) {
            Index first[2];
            g.batch.offsets(line / g.tiles[0], first);
            Walk<Index> again;
            again.go_to(now.unit, g.parts, steps);
            sum_plainly(sums, panel, beside, lhs + first[0], rhs + first[1], g, row, column, again.step,
                        again.last);
        }
        float* const place = out + line / g.tiles[0] * g.apart[0] + now.unit % g.parts * g.apart[1]
            + row * g.apart[2] + column * g.apart[3];
        sums.template write_out<$across>(place, g.apart[2], g.apart[3], g.rows.count - row,
                                         g.columns.count - column);
        if (!goes_on) return;
        sums.clear();
        least = found;
        now.advance(g.parts, steps);
    }
}
"""
)


WIDE = (128, 96)  # columns of the result that a block may compute at a time


class Way(NamedTuple):
    """How a product is dealt among blocks.

    Attributes:
        columns: of a tile, one of `WIDE`.
        swaps: whether tiles are of the transpose: their rows are columns of the result.
        parts: among which the terms of each tile are dealt.
        is_apart: whether numbers are taken apart before, see apart.py.
    """

    columns: int
    swaps: bool
    parts: int
    is_apart: bool = False


STEP_TIME = {128: 1.85e-6, 96: 1.45e-6}
TILE_TIME = {128: 3e-6, 96: 4e-6}  # of a tile besides its steps
PART_TIME, MEMORY_SPEED = 8e-6, 2.5e12
"""Seconds, and bytes in a second, by which products were predicted within some 15 % on an H200: steps of
tiles of so many columns, what a tile takes besides, and adding up parts."""
MOST_PARTS = 64
APART_STEP, APART_TILE = 1.1e-6, 4.5e-6
TAKE_SPEED, APART_CALLS = 3.1e12, 16e-6
"""The same where numbers are taken apart before: 10 bytes for each, and what the launches take besides."""
APART_AHEAD = 0.9  # it must be this much sooner: it needs memory, and four launches


@lru_cache(4096)
def way_of(
    batch: int, m: int, n: int, k: int, processors: int, most: int = 1 << 62
) -> tuple[Way, float]:
    """The way in which `batch` products of m x k and k x n matrices are likely sooner, and the seconds;
    pieces that are kept may take `most` bytes.

    >>> way_of(1, 4096, 4096, 4096, 132)[0]
    Way(columns=128, swaps=False, parts=1, is_apart=True)
    >>> way_of(1, 384, 384, 150000, 132)[0].parts > 10
    True
    """
    each = [
        _least(batch, m, n, k, processors, Way(wide, swaps, 1), STEP_TIME[wide], TILE_TIME[wide])
        for swaps in (False, True)
        for wide in WIDE
    ]
    seconds, way = min(each)
    of_steps, of_tiles = Way(ROWS, False, 1, True), (APART_STEP, APART_TILE)
    multiplying, apart = _least(batch, m, n, k, processors, of_steps, *of_tiles)
    lines = -(-m // ROWS) + -(-n // ROWS)
    numbers = batch * lines * ROWS * -(-k // STEP) * STEP
    taking = 10 * numbers / TAKE_SPEED + APART_CALLS
    if 6 * numbers <= most and multiplying + taking < APART_AHEAD * seconds:
        return apart, multiplying + taking
    return way, seconds


def _least(
    batch: int, m: int, n: int, k: int, processors: int, way: Way, step: float, tile: float
) -> tuple[float, Way]:
    """The fewest seconds for a step and a tile of such a way, by the parts among which terms are dealt."""
    steps, found = -(-k // STEP), []
    rows, columns = (n, m) if way.swaps else (m, n)
    tiles = batch * -(-rows // ROWS) * -(-columns // way.columns)
    for parts in range(1, min(steps, MOST_PARTS) + 1):
        rounds = -(-tiles * parts // processors)
        seconds = rounds * (tile + step * -(-steps // parts))
        if parts > 1:
            seconds += PART_TIME + 8 * parts * batch * m * n / MEMORY_SPEED
        found.append((seconds, way._replace(parts=parts)))
        if tiles * parts > 4 * processors:
            break
    return min(found)


def pieces(
    batch: Axes,
    rows: Axes,
    columns: Axes,
    summed: Axes,
    way: Way,
    processors: int,
    aligned: tuple[bool, bool],
) -> CudaKernel:
    """The kernel, which takes out, lhs and rhs; where there are several parts, out has an axis of them in
    front.

    Args:
        batch, rows, columns, summed: axes of the result, which is row-major in this order, and the contracted
            ones, in the order in which terms are read; strides in the operand that has no such axis are not
            looked at. No size is 0.
        way: how it is dealt among blocks.
        processors: multiprocessors of the card.
        aligned: whether lhs and rhs begin at multiples of 16 bytes.

    >>> sizes = (((), (), ()), ((4096,), (24,), (0,)), ((4096,), (0,), (1,)), ((24,), (1,), (4096,)))
    >>> pieces(*sizes, Way(128, False, 1), 132, (True, True)).grid
    (132, 1, 1)
    """
    key = (
        "pieces",
        *(tuple(map(tuple, axes)) for axes in (batch, rows, columns, summed)),
        way,
        processors,
        aligned,
    )
    found = kept(key, lambda: _made(batch, rows, columns, summed, way, processors, aligned))
    assert found is not None
    return found


class Dealt(NamedTuple):
    """A product as its tiles know it: their rows are columns of the result where the way swaps.

    Attributes:
        batch, summed: as they were given, strides of what has the rows first.
        layouts: of the batch, rows, columns and terms.
        tiles: how many the rows and the columns have.
        units: parts of tiles in all.
        apart: numbers from matrix to matrix of the result, part, row and column.
        number: type of all these in CUDA.
    """

    batch: Axes
    summed: Axes
    layouts: tuple[Layout, Layout, Layout, Layout]
    tiles: tuple[int, int]
    units: int
    apart: tuple[int, ...]
    number: str


def dealt(batch: Axes, rows: Axes, columns: Axes, summed: Axes, way: Way) -> Dealt:
    """What a way makes of a product."""
    sides = [layout(rows[0], rows[1]), layout(columns[0], columns[2])]
    across, size = sides[1].count, sides[0].count * sides[1].count
    steps = (across, 1)
    if way.swaps:
        batch, summed = ((axes[0], axes[2], axes[1]) for axes in (batch, summed))
        sides.reverse()
        steps = (1, across)
    of_batch, of_summed = layout(*batch), layout(*summed)
    whole = of_batch.count * size
    tiles = -(-sides[0].count // ROWS), -(-sides[1].count // way.columns)
    count = of_batch.count * tiles[0] * tiles[1] * way.parts
    behind = sides[0].count + ROWS + sides[1].count + way.columns  # a tile may end behind the last
    reach = layout((way.parts * whole + count + behind,), (1,))
    index = index_type(of_batch, *sides, of_summed, reach)
    layouts = (of_batch, sides[0], sides[1], of_summed)
    return Dealt(batch, summed, layouts, tiles, count, (size, whole, *steps), index)


def _made(
    batch: Axes,
    rows: Axes,
    columns: Axes,
    summed: Axes,
    way: Way,
    processors: int,
    aligned: tuple[bool, bool],
) -> CudaKernel:
    wide, parts = way.columns, way.parts
    deal = dealt(batch, rows, columns, summed, way)
    of_batch, of_rows, of_columns, of_summed = deal.layouts
    tiles, count, numbers, index = deal.tiles, deal.units, deal.apart, deal.number
    sides = of_rows, of_columns
    if way.swaps:
        aligned = aligned[1], aligned[0]
    lies = [
        _lies(of_summed, of_batch, array, side, begins)
        for array, side, begins in zip((1, 2), sides, aligned, strict=True)
    ]
    source, name = unit(
        ("layout", "outer", "bfloat16", "thin", "pieces"),
        "pieces",
        ENTRY,
        index=index,
        batch=of_batch.type(index),
        row_axes=of_rows.type(index),
        column_axes=of_columns.type(index),
        summed=of_summed.type(index),
        **group(wide),
        gap=GAP,
        threads=THREADS,
        left_lies=lies[0][1],
        right_terms=lies[1][0],
        right_lies=lies[1][1] if lies[1][1] != "BY_PLACES" or wide % 64 == 0 else "BY_NUMBER",
        across="true" if way.swaps else "false",
    )
    layouts = (of_batch, of_rows, of_columns, of_summed)
    geometry = [word for one in layouts for word in one.geometry()]
    is_wide = index != "int"
    planes = BUFFERS * 3 * wide * 2 * STEP
    panels = STEP * (ROWS + wide + 2 * GAP) * 4
    offsets = BUFFERS * 2 * STEP * (8 if is_wide else 4)
    return CudaKernel(
        source,
        name,
        (min(count, processors), 1, 1),
        (THREADS, 1, 1),
        ("out", "rhs", "lhs") if way.swaps else ("out", "lhs", "rhs"),
        (*geometry, *tiles, parts, count, *numbers),
        is_wide,
        planes + panels + offsets + 2 * BUFFERS * 8,
        FEATURES,
    )


def lies_along(summed: Layout, array: int, side: Layout) -> bool:
    """Whether terms lie denser in this array than rows or columns do."""
    inner = min((abs(axis[array]) for axis in summed.axes), default=1 << 62)
    return inner < min((abs(axis[1]) for axis in side.axes), default=1 << 62)


def _lies(summed: Layout, batch: Layout, array: int, side: Layout, begins: bool) -> tuple[str, str]:
    """Whether terms of an operand lie denser than rows or columns do; and what can be read of it at once."""
    along = lies_along(summed, array, side)
    terms, places = (
        [(size, step) for size, step in axes if size > 1]
        for axes in (
            [(axis[0], axis[array]) for axis in summed.axes],
            [(axis[0], axis[1]) for axis in side.axes],
        )
    )
    others = [(axis[0], axis[array]) for axis in batch.axes]

    def fits(axes: list[tuple[int, int]], beside: list[tuple[int, int]], many: int) -> bool:
        return bool(
            begins
            and axes
            and axes[-1][1] == 1
            and axes[-1][0] % many == 0
            and not any(step % many for _, step in (*axes[:-1], *beside, *others))
        )

    lies = "BY_NUMBER"
    if along and fits(terms, places, 4):
        lies = "BY_TERMS"
    elif not along and fits(places, terms, 2):
        lies = "BY_PLACES"
    return ("true" if along else "false"), lies

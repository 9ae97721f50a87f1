"""Products of float32 in pieces, as those of pieces.py, but that numbers are taken apart once, before.

A product of many tiles takes each number of lhs apart for every tile beside it, and each of rhs for every
tile below; that takes longer than the tensor cores do. Here one launch for each operand writes panels of
pieces, in the order in which they are multiplied; the next multiplies them, and does nothing else: panels of
rhs come into shared memory by bulk copies, those of lhs into registers. Six bytes are written and read for
each number, so it is worth it where numbers are used often.

A last launch computes those tiles again that pieces do not hold: with sums that are not finite, or with a sum
below 2**-40 and a number below 2**-100.
"""

from __future__ import annotations

from typing import NamedTuple

from .groups import FEATURES, GROUP, group
from .kernel import CudaKernel, blocks_of, kept
from .layout import Layout, index_type, layout
from .pieces import GAP, ROWS, STEP, THREADS, Way, dealt, lies_along
from .text import unit
from .thin import Axes

FILES = ("layout", "outer", "bfloat16", "thin", "pieces", "apart")
PANEL = 3 * ROWS * 2 * STEP  # bytes of a panel of pieces
PANELS = 6  # of rhs that a block has in shared memory

TAKE = """
extern "C" __launch_bounds__($threads) __global__ void $name(
    unsigned char* panels, int* tiny, const float* __restrict__ x,
    Apart<$batch, $places, $summed, $index> g) {
    typedef $index Index;
    __shared__ float panel[STEP][$line];
    __shared__ Index terms[STEP];
    for (Index unit = (Index)blockIdx.x; unit < g.count; unit += (Index)gridDim.x) {
        const Index line = unit / g.steps, from = unit % g.steps * STEP;
        const int there = g.summed.count - from < STEP ? (int)(g.summed.count - from) : STEP;
        Index first[1];
        g.batch.offsets(line / g.bands, first);
        if (threadIdx.x < STEP) {
            Index at[1];
            g.summed.offsets((int)threadIdx.x < there ? from + (Index)threadIdx.x : from, at);
            terms[threadIdx.x] = at[0];
        }
        __syncthreads();
        send_panel<ROWS, $line, $threads, $along>(panel, x + first[0], g.places, line % g.bands * ROWS, terms,
                                                  there);
        for (int i = threadIdx.x; i < (STEP - there) * ROWS; i += $threads)
            panel[there + i / ROWS][i % ROWS] = 0;
        all_copied();
        __syncthreads();
        Least least;
        split_$side(panels + (long long)unit * PANEL, panel, least);
        const int is_tiny = __syncthreads_or(least.is_tiny());
        if (threadIdx.x == 0) tiny[unit] = is_tiny;
    }
}
"""

MULTIPLY = (
    GROUP
    + """
extern "C" __launch_bounds__($threads, 1) __global__ void $name(
    float* out, int* state, const unsigned char* __restrict__ left, const unsigned char* __restrict__ right,
    Prepared<$index> g) {
    typedef $index Index;
    alignas(1024) extern __shared__ unsigned char shared[];
    Sent* const full = (Sent*)(shared + PANELS * PANEL);
    Gate* const empty = (Gate*)(full + PANELS);
    const int steps = (int)g.steps;
    const Index end = g.count, next_unit = (Index)gridDim.x;
    Walk<Index> now, reading, coming;
    now.go_to((Index)blockIdx.x, g.parts, steps);
    if (now.unit >= end) return;
    reading = coming = now;

    const unsigned char *from_left, *from_right;
    const auto go_left = [&](Index unit) {
        const Tile<Index> tile(unit / g.parts, g.bands);
        from_left = left + ((long long)tile.matrix * g.bands[0] + tile.row) * steps * PANEL;
    };
    const auto go_right = [&](Index unit) {
        const Tile<Index> tile(unit / g.parts, g.bands);
        from_right = right + ((long long)tile.matrix * g.bands[1] + tile.column) * steps * PANEL;
    };
    const auto read = [&](unsigned (&pieces)[3][2][4]) {
        read_left(pieces, from_left + (long long)reading.step * PANEL);
        if (reading.advance(g.parts, steps) && reading.unit < end) go_left(reading.unit);
    };
    int sent = 0;
    const auto send = [&]() {
        full[sent % PANELS].send(shared + sent % PANELS * PANEL, from_right + (long long)coming.step * PANEL);
        ++sent;
        if (coming.advance(g.parts, steps) && coming.unit < end) go_right(coming.unit);
    };
    if (threadIdx.x == 0) {
        for (int k = 0; k < PANELS; ++k) full[k].open(1), empty[k].open(8);
        all_see();
    }
    go_left(now.unit), go_right(now.unit);
    __syncthreads();
    if (threadIdx.x == 0)
        while (sent < PANELS && coming.unit < end) send();
    unsigned pieces[3][2][4], next[3][2][4];
    read(pieces);
    if (threadIdx.x >= 128) give_turn();

    PieceSums<ROWS, Group_$name> sums;
    sums.clear();
    for (int n = 0;; ++n) {
        const int here = n % PANELS;
        const bool is_last = now.step + 1 == now.last, goes_on = !is_last || now.unit + next_unit < end;
#ifndef EINLOOM_GROUPS
        __syncthreads();
#endif
        full[here].wait(n / PANELS);
        wait_for_turn();
        sums.template start<2>(pieces, shared + here * PANEL);
        if (goes_on) read(next);
        sums.finish_small();
        give_turn();
        sums.template finish<2>(pieces);
        empty[here].arrive();
        if (threadIdx.x == 0 && n > 0 && coming.unit < end) {  // where the step before was
            empty[(n - 1) % PANELS].wait((n - 1) / PANELS);
            send();
        }
        __syncwarp();
        sums.add();
#pragma unroll
        for (int k = 0; k < 24; ++k) pieces[k / 8][k / 4 % 2][k % 4] = next[k / 8][k / 4 % 2][k % 4];
        if (!is_last) {
            now.advance(g.parts, steps);
            continue;
        }
        const int is_infinite = __syncthreads_or(!sums.are_finite());
        const int is_small = __syncthreads_or(sums.has_small());
        if (threadIdx.x == 0) state[now.unit] = is_infinite ? 2 : is_small ? 1 : 0;
        const Tile<Index> tile(now.unit / g.parts, g.bands);
        const Index row = tile.row * ROWS, column = tile.column * ROWS;
        float* const place = out + tile.matrix * g.apart[0] + now.unit % g.parts * g.apart[1]
            + row * g.apart[2] + column * g.apart[3];
        sums.template write_out<$across>(place, g.apart[2], g.apart[3], g.places[0] - row,
                                         g.places[1] - column);
        if (!goes_on) return;
        sums.clear();
        now.advance(g.parts, steps);
    }
}
"""
)

AGAIN = """
extern "C" __launch_bounds__($threads) __global__ void $name(
    float* out, const int* __restrict__ state, const int* __restrict__ left, const int* __restrict__ right,
    const float* __restrict__ lhs, const float* __restrict__ rhs,
    Again<$batch, $row_axes, $column_axes, $summed, $index> g) {
    typedef $index Index;
    __shared__ float panel[STEP][ROWS + $gap], beside[STEP][ROWS + $gap];
    for (Index unit = (Index)blockIdx.x; unit < g.count; unit += (Index)gridDim.x) {
        const int what = state[unit];
        if (!what) continue;
        const Tile<Index> tile(unit / g.parts, g.bands);
        Walk<Index> walk;
        walk.go_to(unit, g.parts, (int)g.steps);
        if (what == 1) {  // a small sum: is there a tiny number?
            const long long of_left = ((long long)tile.matrix * g.bands[0] + tile.row) * g.steps;
            const long long of_right = ((long long)tile.matrix * g.bands[1] + tile.column) * g.steps;
            int any = 0;
            for (int k = walk.step + (int)threadIdx.x; k < walk.last; k += $threads)
                any |= left[of_left + k] | right[of_right + k];
            if (!__syncthreads_or(any)) continue;
        }
        Index first[2];
        g.batch.offsets(tile.matrix, first);
        const Index row = tile.row * ROWS, column = tile.column * ROWS;
        PieceSums<ROWS, void> sums;
        sum_plainly(sums, panel, beside, lhs + first[0], rhs + first[1], g, row, column, walk.step,
                    walk.last);
        float* const place = out + tile.matrix * g.apart[0] + unit % g.parts * g.apart[1]
            + row * g.apart[2] + column * g.apart[3];
        sums.template write_out<$across>(place, g.apart[2], g.apart[3], g.rows.count - row,
                                         g.columns.count - column);
    }
}
"""


class Apart(NamedTuple):
    """The launches of a product, in this order. Where there are several parts, `out` has an axis of them in
    front.

    Attributes:
        left, right: take panels, tiny and an operand; panels are bytes, `PANEL` for each number of tiny, all
            of them written. left is for lhs, or where the way swaps for rhs.
        multiply: takes out, state, and the panels of left and right. State has a number for each part of a
            tile.
        again: takes out, state, tiny of left and right, and the operands of left and right.
        panels: how many left and right make.
        states: how many numbers state has.
    """

    left: CudaKernel
    right: CudaKernel
    multiply: CudaKernel
    again: CudaKernel
    panels: tuple[int, int]
    states: int

    @property
    def kernels(self) -> tuple[CudaKernel, ...]:
        return self.left, self.right, self.multiply, self.again


def apart(batch: Axes, rows: Axes, columns: Axes, summed: Axes, way: Way, processors: int) -> Apart:
    """The kernels.

    Args:
        batch, rows, columns, summed: as those of `pieces`.
        way: how it is dealt among blocks; tiles have 128 columns.
        processors: multiprocessors of the card.

    >>> sizes = (((), (), ()), ((4096,), (24,), (0,)), ((4000,), (0,), (1,)), ((24,), (1,), (4096,)))
    >>> found = apart(*sizes, Way(128, False, 1, True), 132)
    >>> found.panels, found.states, found.multiply.grid
    ((32, 32), 1024, (132, 1, 1))
    """
    axes = (batch, rows, columns, summed)
    key = ("apart", *(tuple(map(tuple, one)) for one in axes), way, processors)
    found = kept(key, lambda: _made(batch, rows, columns, summed, way, processors))
    assert found is not None
    return found


def _made(batch: Axes, rows: Axes, columns: Axes, summed: Axes, way: Way, processors: int) -> Apart:
    assert way.columns == ROWS
    deal = dealt(batch, rows, columns, summed, way)
    of_batch, *sides, of_summed = deal.layouts
    bands, count, numbers, index = deal.tiles, deal.units, deal.apart, deal.number
    steps = -(-of_summed.count // STEP)
    panels = of_batch.count * bands[0] * steps, of_batch.count * bands[1] * steps
    swaps = "true" if way.swaps else "false"
    common = {"threads": THREADS, "gap": GAP}
    names = ("rhs", "lhs") if way.swaps else ("lhs", "rhs")
    source, name = unit(
        FILES, "apart_multiply", MULTIPLY, index=index, across=swaps, **common, **group(ROWS)
    )
    shape = (*bands, steps, way.parts, count)
    multiply = CudaKernel(
        source,
        name,
        (min(count, processors), 1, 1),
        (THREADS, 1, 1),
        ("out", "state", "left", "right"),
        (*shape, *(side.count for side in sides), *numbers),
        index != "int",
        PANELS * (PANEL + 16),
        FEATURES,
    )
    axes = deal.layouts
    source, name = unit(
        FILES,
        "apart_again",
        AGAIN,
        index=index,
        batch=of_batch.type(index),
        row_axes=sides[0].type(index),
        column_axes=sides[1].type(index),
        summed=of_summed.type(index),
        across=swaps,
        **common,
    )
    again = CudaKernel(
        source,
        name,
        (min(count, 4 * processors), 1, 1),
        (THREADS, 1, 1),
        ("out", "state", "tiny_left", "tiny_right", *names),
        (*(word for one in axes for word in one.geometry()), *shape, *numbers),
        index != "int",
    )
    taken = [
        _taken(
            name,
            layout(deal.batch[0], deal.batch[1 + k]),
            sides[k],
            layout(deal.summed[0], deal.summed[1 + k]),
            k,
        )
        for k, name in enumerate(names)
    ]
    return Apart(taken[0], taken[1], multiply, again, panels, count)


def _taken(name: str, batch: Layout, places: Layout, summed: Layout, side: int) -> CudaKernel:
    """What makes the panels of one operand."""
    bands, steps = -(-places.count // ROWS), -(-summed.count // STEP)
    count = batch.count * bands * steps
    index = index_type(batch, places, summed, layout((count + places.count + ROWS,), (1,)))
    source, entry = unit(
        FILES,
        "apart_take",
        TAKE,
        index=index,
        batch=batch.type(index),
        places=places.type(index),
        summed=summed.type(index),
        along="true" if lies_along(summed, 1, places) else "false",
        side=("left", "right")[side],
        threads=THREADS,
        line=ROWS + (GAP, 1)[side],  # eight terms and eight places of four are in all banks
    )
    geometry = [word for one in (batch, places, summed) for word in one.geometry()]
    return CudaKernel(
        source,
        entry,
        blocks_of(count, 1),
        (THREADS, 1, 1),
        ("panels", "tiny", name),
        (*geometry, bands, steps, count),
        index != "int",
    )

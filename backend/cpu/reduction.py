"""Compiled reductions over any axes of any strides: wide accumulators, every element read once.

Axes are merged and sorted by the strides of the main input; then the fastest of them decides:

    columns   it is kept: its elements are lanes with an accumulator each, rows are added into them
    run       it is reduced: one accumulator in a register takes it in, block by block
    phases    it is kept but short, and lies inside a reduced one: lanes along both, folded at the end

What is reduced beyond a kept axis, and what is shared out among threads, leaves partial results that
are combined last; they and the accumulators are the only memory: at most one partial result for each
PARTIAL elements of the main input, and LANES accumulators in each thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base.options import num_threads
from ..fusion import ElementwiseFusionPlan
from ..spec import Axes, Shape
from .accumulators import UFUNCS, DType, accumulator
from .buffers import empty
from .jit import generated
from .source import Body, reduction_source, run_source
from .strided import Axis, axis_table, element_strides, flat, merge_axes
from .threads import parallel_for

LANES = 32768  # accumulators of a tile whose columns are kept
ABREAST = 5  # rows merged before an accumulator is touched
FAR = 4096  # bytes between rows from which several are read abreast; nearer ones are one stream
PHASES = 32  # a kept axis shorter than this lies inside a run, as phases of its lanes
RUN = 480  # accumulators of such a run
SHORT, SHORT_COMPLEX, SHORT_OF_SEVERAL = 12, 6, 16
"""A reduced axis shorter than this is no run: its neighbour makes the columns. Sums of 8 complex numbers take
two thirds of the time as runs. Where several inputs are read along it, loops have vectors from 16 elements
on: rows of 12 that are multiplied by a vector and added up take a fifth of the time by columns."""
RUN_BLOCK = 4096  # elements of a run that are accumulated before they are added to the others
FEWEST = 512  # accumulators of a tile that is cut for the sake of threads
MANY = 16  # reduced elements for each result, at most, where results are many
PARTIAL = 16  # reduced elements for each partial result that waits for a second stage


class Reduction:
    """Reduces the values of a body over axes; tables are kept for the strides last seen."""

    def __init__(self, plan: ElementwiseFusionPlan, body: Body | None) -> None:
        assert plan.reduce is not None
        assert body is not None, "every step has a formula"
        values = plan.values()
        self.op, self.axes, self.shape = plan.reduce, plan.axes, plan.shape
        self.accumulators = tuple(accumulator(plan.reduce, values[k].dtype) for k in plan.outputs)
        self.work = _Work(body, self.accumulators, plan.reduce)
        self.kept: tuple[Any, Any] = (None, None)

    def __call__(self, outputs: tuple[Any, ...], inputs: tuple[Any, ...]) -> None:
        inputs = tuple(x if element_strides(x) is not None else x.copy() for x in inputs)
        key = (tuple(x.strides for x in inputs), num_threads())
        seen, plan = self.kept
        if seen != key:
            strides = [element_strides(x) or [] for x in inputs]
            plan = _planned(self.work, self.shape, self.axes, strides)
            self.kept = (key, plan)
        results = [
            out
            if plan.parts == 1 and self._takes(out, dtype)
            else empty((plan.parts, out.size), dtype)
            for out, dtype in zip(outputs, self.accumulators, strict=True)
        ]
        sources = [flat(x) for x in inputs]
        flats = [*(x.reshape(-1) for x in results), *(buffer for buffer, _ in sources)]
        shift = [origin for _, origin in sources]
        for tables in plan.regions:
            origins = tables.origins + np.array([0] * len(outputs) + shift)
            _run_tiles(tables, origins, flats)
        for result, out in zip(results, outputs, strict=True):
            if result is not out:
                self._deliver(result, out)

    def _takes(self, out: Any, dtype: DType) -> bool:
        """Whether the kernel writes `out` itself; one that is narrower than its accumulators costs a
        second compilation, which many results repay."""
        lies_well = bool(out.flags.c_contiguous and out.flags.aligned)
        return lies_well and (out.dtype == dtype or MANY * out.size >= math.prod(self.shape))

    def _deliver(self, parts: Any, out: Any) -> None:
        """Combine what parallel parts accumulated, and round once."""
        with np.errstate(all="ignore"):
            total = parts[0]
            if len(parts) > 1:
                ufunc = UFUNCS[self.op, "logical" if parts.dtype.kind == "b" else ""]
                total = ufunc.reduce(parts, axis=0, dtype=parts.dtype)
                if self.op == "reduce_mean":
                    total = total / math.prod(self.shape[axis] for axis in self.axes)
            np.copyto(out, total.reshape(out.shape), casting="unsafe")


def _run_tiles(tables: _Region, origins: Any, flats: list[Any]) -> None:
    def piece(start: int, stop: int) -> None:
        tables.kernel(start, stop, origins, *tables.arguments, *flats)

    parallel_for(piece, tables.tiles)


@dataclass(frozen=True, slots=True)
class _Work:
    """What is accumulated, in which dtypes, and how."""

    body: Body
    accumulators: tuple[DType, ...]
    op: str


@dataclass(frozen=True, slots=True)
class _Region:
    """One call of a reduction kernel: its tables, and where its operands start."""

    kernel: Callable[..., None]
    tiles: int
    origins: Any
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Regions:
    """Calls that together cover the operands."""

    regions: tuple[_Region, ...]
    parts: int  # partial results, to be combined


def _planned(
    work: _Work, shape: Shape, reduced: Axes, strides: Sequence[Sequence[int]]
) -> _Regions:
    """Regions that together cover the operands; more than one where a reduced axis is shared out.

    Axes are (size, stride of the results, stride in each input); those of the results are row-major.
    """
    step, out_strides = 1, [0] * len(shape)
    for axis in range(len(shape) - 1, -1, -1):
        if axis not in reduced:
            out_strides[axis], step = step, step * shape[axis]
    size = step
    of = [tuple(s[axis] for s in strides) for axis in range(len(shape))]
    kept = [(shape[a], out_strides[a], *of[a]) for a in range(len(shape)) if a not in reduced]
    gone = [(shape[a], 0, *of[a]) for a in range(len(shape)) if a in reduced]
    main = max(range(len(strides)), key=lambda k: sum(s != 0 for s in strides[k])) + 2
    kept, gone = _merged(kept, main), _merged(gone, main)

    origin = (0,) * (1 + len(strides))
    parts = 1
    outer = [g for g in gone if any(abs(k[main]) < abs(g[main]) for k in kept)]
    inner = [g for g in gone if g not in outer]
    if outer and math.prod(n for n, *_ in inner) >= PARTIAL:
        # memory is read in its order: what is reduced beyond a kept axis waits for the second stage
        gone = inner
        for n, _, *steps in reversed(outer):
            kept.append((n, size * parts, *steps))
            parts *= n
        kept.sort(key=lambda axis: -abs(axis[main]))

    def region(kept: list[Axis], gone: list[Axis], origin: Axis, divisor: int = 1) -> _Region:
        return _region(work, kept, gone, origin, main, divisor)

    count = math.prod(shape[axis] for axis in reduced)
    whole = region(kept, gone, origin, count if parts == 1 else 1)
    threads = num_threads()
    if whole.tiles >= 2 * threads or threads == 1 or not gone:
        return _Regions((whole,), parts)
    longest = max(gone, key=lambda axis: axis[0])
    most = max(1, math.prod(n for n, *_ in gone) // PARTIAL)
    pieces = min(4 * threads, longest[0], most)
    if pieces == 1:
        return _Regions((whole,), parts)
    share = longest[0] // pieces
    rest = [axis for axis in gone if axis is not longest]
    n, _, *steps = longest
    split = (pieces, size * parts, *(s * share for s in steps))
    piece = (share, 0, *steps)
    regions = [region([split, *kept], _merged([*rest, piece], main), origin)]
    if n % pieces:
        tail = (n % pieces, 0, *steps)
        at = (size * parts * pieces, *(s * share * pieces for s in steps))
        regions.append(region(kept, _merged([*rest, tail], main), at))
    return _Regions(tuple(regions), parts * (pieces + (n % pieces > 0)))


def _merged(axes: Sequence[Axis], main: int) -> list[Axis]:
    """Axes of size > 1 by falling stride of the main input, neighbours merged."""
    return merge_axes(sorted((a for a in axes if a[0] != 1), key=lambda a: -abs(a[main])))


def _shortest_run(work: _Work, fastest: Axis, neighbour: int) -> int:
    """Elements from which the fastest reduced axis is a run, whose neighbour has so many."""
    read = sum(stride != 0 for stride in fastest[2:])
    if read > 1 and neighbour >= SHORT_OF_SEVERAL:
        return SHORT_OF_SEVERAL
    return SHORT_COMPLEX if any(x.kind == "c" for x in work.body.inputs) else SHORT


def _region(
    work: _Work, kept: list[Axis], gone: list[Axis], origin: Axis, main: int, divisor: int
) -> _Region:
    """Choose between columns, run and phases, as the head of this file names them; lay out the tables.

    `divisor` is what a mean is divided by in its kernel: their number, or 1 where more is to be added.
    """
    nothing = (1,) + (0,) * (len(origin))
    kept, gone = list(kept), list(gone)
    k_fast = kept[-1] if kept else nothing
    g_fast = gone[-1] if gone else nothing
    kept_is_faster = bool(kept) and (not gone or abs(k_fast[main]) < abs(g_fast[main]))
    period = 1
    short_kept = kept_is_faster and k_fast[0] < PHASES and k_fast[1] == 1
    mergeable = all(g == k_fast[0] * k for g, k in zip(g_fast[2:], k_fast[2:], strict=True))
    if short_kept and gone and mergeable and g_fast[0] > 1:
        kept.pop(), gone.pop()
        period = k_fast[0]
        run, step = g_fast[0] * period, k_fast
    elif not kept_is_faster and (not kept or g_fast[0] >= _shortest_run(work, g_fast, k_fast[0])):
        if gone:
            gone.pop()
        run, step = g_fast[0], g_fast
    else:
        run, step = 0, kept.pop()
    if run:
        if period == 1:
            sizes = np.array((divisor, RUN_BLOCK, run))
            steps = ((0,) * len(origin), (0, *step[2:]))
            return _tables(run_source, work, kept, gone, origin, sizes, steps)
        lanes = min(run, RUN // period * period)
        rows = -(-run // lanes)
        last, columns = run - (rows - 1) * lanes, lanes
        row_steps = tuple(s * lanes for s in step[1:])
        step = (run, 1, *step[2:])
        kept.append(nothing)
    else:
        columns = step[0]
        lanes = min(columns, LANES)
        wanted = 2 * num_threads() // max(1, math.prod(n for n, *_ in kept))
        if wanted > 1 and columns > FEWEST:  # enough tiles for every thread
            lanes = min(lanes, max(FEWEST, -(-columns // wanted)))
        last = period = lanes
        row = gone.pop() if gone else nothing
        rows, row_steps = row[0], row[1:]
        kept.append((-(-columns // lanes), *(s * lanes for s in step[1:])))
    distance = abs(row_steps[main - 1]) * work.body.inputs[main - 2].itemsize
    return _tables(
        reduction_source,
        work,
        kept,
        gone,
        origin,
        np.array((divisor, rows, lanes, last, period, columns)),
        (row_steps, step[1:]),
        1 if run or distance < FAR else ABREAST,
    )


def _tables(
    write: Callable[..., str],
    work: _Work,
    kept: list[Axis],
    gone: list[Axis],
    origin: Axis,
    sizes: Any,
    steps: tuple[Axis, Axis],
    abreast: int = 1,
) -> _Region:
    """Strides of the results stand once in an axis, and once for each output in the tables."""
    outputs = len(work.accumulators)
    count = outputs + len(origin) - 1

    def spread(values: Axis) -> Axis:
        return (*(values[0],) * outputs, *values[1:])

    pattern = "".join("c" if s == 1 else "b" if s == 0 else "s" for s in steps[1][1:])
    return _Region(
        generated(write(work.body, work.accumulators, work.op, pattern, abreast)),
        math.prod(n for n, *_ in kept),
        np.array(spread(origin)),
        (
            axis_table([(n, *spread(tuple(of))) for n, *of in kept], count),
            axis_table([(n, *spread(tuple(of))) for n, *of in gone], count),
            sizes,
            np.array([spread(of) for of in steps]),
        ),
    )

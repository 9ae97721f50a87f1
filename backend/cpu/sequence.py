"""Products one after another in one call of a kernel; see `backend.sequence` and kernels/sequence.py.

Results of steps lie in memory that a call borrows, where those that were read already make room for others.
A small result of long sums is made of shares of these, which one more step adds up: how many they are depends
on sizes alone, and so results do not depend on the number of threads.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ..._base.options import get_options, num_threads
from ..fusion import ProductFusionPlan
from ..protocol import Kernel
from ..sequence import Step, pays, steps_of
from ..spec import ArraySpec, Axes
from ..strips import IN_TURN, LINE
from .address import address
from .buffers import empty, empty_as
from .kernels.sequence import APART, multiply_in_turn
from .strided import element_strides
from .strips import TABLES, is_turned_in, prepared, scratch_of, shares_of
from .threads import invite
from .workspaces import LARGEST, WORKSPACES

# bytes of tables for each step, and for each axis, at most: lists of Python's are included
NUMBERS = 64 * 8


class _Tables(NamedTuple):
    """What the kernel is given for arrays with some strides."""

    steps: Any
    ends: list[int]  # rows of which step k are those from the k-th on
    offsets: (
        Any  # of values in the memory of the call; of inputs and result, which lie elsewhere, 0
    )
    tables: Any
    scratch: int  # bytes for each thread
    places: int


def bind_sequence(plan: ProductFusionPlan) -> Kernel | None:
    """A kernel for `plan`; None where the steps one by one should be faster. The option `engine` forces
    either."""
    asked = get_options().engine
    if asked not in (None, "sequence") or not (asked or pays(plan)):
        return None
    steps, axes = steps_of(plan)
    count, dtype = len(plan.inputs), plan.result.dtype
    memory = _Memory(steps, count)
    kept: list[tuple[Any, _Tables | None]] = [(None, None)]
    last = count + len(steps) - 1
    back = tuple(np.argsort(axes))
    is_loaded: list[bool] = []  # the kernel, once it is
    odd = dtype.alignment - 1  # bits of an address at which no element lies

    def run(*arrays: Any, out: Any = None) -> Any:
        is_direct = out is not None and can_fill(out)
        target = out if is_direct else empty_as(plan.result)
        threads = num_threads()
        given = [address(x) for x in arrays]
        key = (threads, target.strides, *[x.strides for x in arrays])
        seen, now = kept[0]  # read once: another thread may put its own there at any time
        room = _room(memory.nbytes)
        try:
            if now is None or seen != key or reduce(operator.or_, given, 0) & odd:
                run_on(arrays, target, key, room)
            else:
                multiply(now, values_of(now, given, target, room), threads, 0, len(now.steps))
        finally:
            WORKSPACES.give(room)
        if out is None or is_direct:
            return target
        np.copyto(out, target)
        return out

    def can_fill(out: Any) -> bool:
        """Whether the last step can write there; shares are added up where elements follow each other."""
        return element_strides(out) is not None and not (
            len(steps) - 1 in memory.sums and not _is_whole(out, plan.result.layout)
        )

    def values_of(now: _Tables, given: list[int], target: Any, room: Any) -> Any:
        values = now.offsets + address(room)
        values[: len(given)], values[last] = given, address(target)
        return values

    def run_on(arrays: Any, target: Any, key: Any, room: Any) -> None:
        """For arrays with new strides, or between elements."""
        (threads, *_), given = key, [_with_elements(x) for x in arrays]
        now = _tables(steps, memory, threads, given, target.transpose(back), room)
        values = values_of(now, [address(x) for x in given], target, room)
        if all(x is y for x, y in zip(arrays, given, strict=True)):
            kept[0] = (key, now)
            multiply(now, values, threads, 0, len(now.steps))
            return
        for number in range(len(steps)):
            multiply_copies(number, now, values, arrays, given, threads)

    def multiply_copies(
        number: int, now: _Tables, values: Any, arrays: Any, given: Any, threads: int
    ) -> None:
        """A step, with copies of its operands that lie between elements; none of them outlives it."""
        operands = {k for k in steps[number].operands if k < count}
        copied = {k: arrays[k].copy() for k in operands if given[k] is not arrays[k]}
        for k, x in copied.items():
            values[k] = address(x)
        multiply(now, values, threads, *now.ends[number : number + 2])

    def multiply(now: _Tables, values: Any, threads: int, first: int, end: int) -> None:
        """These rows of the table of steps."""
        steps = now.steps[first:end]
        claimed = np.zeros(int(steps[-1, 0] + steps[-1, -1]), np.int64)
        done = np.zeros(len(steps) * APART, np.int64)

        def take_part(mine: int) -> None:
            if done[-APART] == steps[-1, 0]:
                return  # too late
            room = WORKSPACES.take(now.scratch + TABLES * now.places)
            try:
                strip = room[: now.scratch].view(dtype)
                places = room[now.scratch : now.scratch + TABLES * now.places].view(np.int64)
                tables = places.reshape(-1, now.places)
                multiply_in_turn(
                    mine, threads, steps, values, now.tables, claimed, done, strip, tables
                )
            finally:
                WORKSPACES.give(room)

        if is_loaded:
            invite(take_part, threads)
            return
        # alone: else another thread might hold a compiler's lock when this returns and the process is forked
        take_part(0)
        is_loaded.append(True)

    return run


def sequence_bytes(plan: ProductFusionPlan, threads: int, foreign: Axes = ()) -> int:
    """Upper bound of what the kernel allocates: results of steps, scratch of the threads, tables, and copies
    of the operands of a step, where these may lie between elements."""
    steps, _ = steps_of(plan)
    each = [scratch_of(step.dims, step.out, threads) for step in steps]
    scratch, places, tiles = zip(*each, strict=True)
    ndim = sum(len(step.lhs.shape) + len(step.rhs.shape) for step in steps)
    tables = NUMBERS * (3 * len(steps) + ndim + len(plan.inputs)) + 8 * sum(tiles)
    own = max(scratch) + TABLES * max(places) + LINE
    copies = sum(sorted(plan.inputs[k].nbytes for k in foreign)[-2:])
    return _Memory(steps, len(plan.inputs)).nbytes + threads * own + tables + copies


class _Memory:
    """Where results of steps lie in one piece of memory, and sums of shares: each at the lowest place that is
    free, from the step that fills it on. A value is read once: that is what makes it a tree."""

    def __init__(self, steps: tuple[Step, ...], count: int) -> None:
        self.values: list[int] = []  # offsets of results, but for the last
        self.sums: dict[int, int] = {}  # by number of the step
        self.nbytes = LINE
        lying: dict[int, tuple[int, int]] = {}  # beginning and end of what is not read yet
        for number, step in enumerate(steps):
            shares = shares_of(step.dims, IN_TURN)
            if shares > 1:
                nbytes = shares * step.out.nbytes
                self.sums[number] = at = self._place(lying.values(), nbytes)
                lying[-1] = (at, at + _whole(nbytes))
            if number < len(steps) - 1:
                at = self._place(lying.values(), step.out.nbytes)
                self.values.append(at)
                lying[count + number] = (at, at + _whole(step.out.nbytes))
            for value in (-1, *step.operands):
                lying.pop(value, None)

    def _place(self, lying: Any, nbytes: int) -> int:
        at = 0
        for start, stop in sorted(lying):
            if at + nbytes <= start:
                break
            at = max(at, stop)
        self.nbytes = max(self.nbytes, at + _whole(nbytes) + LINE)
        return at


def _room(nbytes: int) -> Any:
    """Bytes that begin on a cache line: kept ones, or where they are too many for that, lent ones."""
    if nbytes <= LARGEST:
        return WORKSPACES.take(nbytes)
    return empty((nbytes,), np.dtype(np.uint8))


def _whole(nbytes: int) -> int:
    """In whole cache lines."""
    return -(-nbytes // LINE) * LINE


def _lying(memory: Any, at: int, spec: ArraySpec) -> Any:
    """The array of this spec, in its layout, that begins so many bytes into the memory."""
    order = range(len(spec.shape)) if spec.layout is None else spec.layout
    whole = np.ndarray([spec.shape[axis] for axis in order], spec.dtype, memory, at)
    return whole.transpose(np.argsort(order))


def _with_elements(x: Any) -> Any:
    """x itself where its elements are aligned; else what is as its copy will be, but has none."""
    if element_strides(x) is not None:
        return x
    return np.lib.stride_tricks.as_strided(np.empty(1, x.dtype), x.shape, _row_major(x))


def _row_major(x: Any) -> tuple[int, ...]:
    steps = np.cumprod([x.itemsize, *x.shape[:0:-1]])
    return tuple(int(step) for step in steps[::-1])[-x.ndim :] if x.ndim else ()


def _is_whole(x: Any, layout: Axes | None) -> bool:
    """Whether it lies in this layout, without gaps."""
    return bool((x if layout is None else x.transpose(layout)).flags.c_contiguous)


def _tables(
    steps: tuple[Step, ...],
    memory: _Memory,
    threads: int,
    given: list[Any],
    target: Any,
    whole: Any,
) -> _Tables:
    """For these inputs, a `target` that has the axes of the last step, and memory like `whole`."""
    count = len(given)
    arrays = [*given, *(_lying(whole, at, steps[k].out) for k, at in enumerate(memory.values))]
    arrays.append(target)
    offsets = [*[0] * count, *memory.values, 0]
    rows: list[list[int]] = []
    ends: list[int] = []
    tables: list[Any] = []
    length = scratch = places = tiles = 0
    for number, step in enumerate(steps):
        ends.append(len(rows))
        value = written = count + number
        to, shares = arrays[value], shares_of(step.dims, IN_TURN)
        if shares > 1:
            written = len(offsets)
            offsets.append(memory.sums[number])
            to = _lying(whole, memory.sums[number], step.out)
        lhs, rhs = (arrays[k] for k in step.operands)
        is_turned = is_turned_in(step.dims, step.out)
        found = prepared(step.dims, is_turned, threads, to, lhs, rhs, in_turn=True)
        row = [found.tiles, written, *step.operands[:: -1 if is_turned else 1]]
        for table in found.arguments:
            row += [length, table.shape[1]] if table.ndim > 1 else [length]
            tables.append(table.ravel())
            length += table.size
        rows.append([*row, 0, tiles])
        tiles += found.tiles
        if shares > 1:
            rows.append([1, value, written, shares, step.out.size, *[0] * 8, 1, tiles])
            tiles += 1
        scratch, places = max(scratch, found.scratch), max(places, found.places)
    ends.append(len(rows))
    of_steps, of_values = np.array(rows, np.int64), np.array(offsets, np.int64)
    return _Tables(of_steps, ends, of_values, np.concatenate(tables), scratch, places)

"""Chains of small products, many lanes at once: what a `ProductFusionPlan` says, run as one parallel pass.

A block is as many lanes as make up a few strips (see kernels/across.py). Its elements are gathered into
scratch that stays in cache, [element, lane], every step is done there with vectors along the lanes, and the
elements of the result are written where they belong: each operand is read once, the result is written once,
and nothing between them is ever in memory. Operands without lanes are numbers that all lanes share.

The kernel is compiled once for a dtype; sizes, strides and steps reach it as tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..._base.options import get_options
from ..contraction import Contraction
from ..cost_model import FAR, RATES
from ..dtypes import real_of
from ..fusion import Labels, ProductFusionPlan
from ..matrices import Products
from ..prediction import START, calling_seconds, lanes_suit_one, predict_lanes
from ..products import plan_decided
from ..protocol import Kernel
from .buffers import empty, empty_as
from .kernels.across import PAIRS, STRIP
from .kernels.lanes import contract_lanes
from .kernels.vectors import LINE
from .strided import axis_table, element_strides, merge_axes, readable
from .threads import parallel_for

DTYPES = frozenset("fdFD")
NUMBER = 48  # bytes of a number of Python's in a list, and of those that NumPy makes of it
CACHE = 256 << 10  # bytes of the scratch of a block
WIDEST = 4  # strips of a block, where its scratch allows
FEWEST = 8  # blocks, where there are lanes enough


def bind_lanes(plan: ProductFusionPlan) -> Kernel | None:
    """A kernel for `plan`; None where the steps one by one should be faster, or where it does not fit. The
    option `engine` forces either."""
    asked = get_options().engine
    if not suits(plan) or asked not in (None, "lanes") or not (asked or pays(plan)):
        return None
    tables = _Tables(plan)
    kept: list[tuple[Any, Any]] = [(None, None)]
    real = real_of(plan.result.dtype)
    pieces, elements = -(-tables.lanes // tables.block.width), tables.block.elements
    threads = 1 if asked is None and lanes_suit_one(plan) else None

    def run(*arrays: Any, out: Any = None) -> Any:
        is_direct = out is not None and element_strides(out) is not None
        target = out if is_direct else empty_as(plan.result)
        moving = [*(readable(arrays[value]) for value in tables.moving), target]
        key = tuple(x.strides for x in moving)
        seen, moves = kept[0]  # read once: another thread may put its own there at any time
        if seen != key:
            moves = tables.moves(key, real.itemsize)
            kept[0] = (key, moves)
        outer, moved, places = moves
        addresses = np.array([x.__array_interface__["data"][0] for x in moving], np.int64)
        constants = tables.constants(arrays, real)

        def piece(start: int, stop: int) -> None:
            contract_lanes(
                start, stop, addresses, outer, tables.numbers, moved, tables.steps, places,
                constants, aligned(elements, real),
            )  # fmt: skip

        parallel_for(piece, pieces, threads)
        if out is None or is_direct:
            return target
        np.copyto(out, target)
        return out

    return run


def lanes_bytes(plan: ProductFusionPlan, threads: int) -> int:
    """Upper bound of what the kernel allocates: the scratch of all threads, copies of operands without lanes,
    and tables, which are made of Python's numbers."""
    block, elements = _Block(plan), plan.elements()
    count = len(plan.inputs)
    scratch = (block.elements + block.side) * real_of(plan.result.dtype).itemsize
    shared = [k for k in range(count) if plan.is_constant(k)]
    copies = sum(2 * plan.inputs[k].nbytes for k in shared)
    moved = block.parts * sum(n for k, n in enumerate(elements[:count]) if k not in shared)
    moved += block.parts * elements[-1]
    depths = (
        n + work // n for n, work in zip(elements[count:], plan.multiplications(), strict=True)
    )
    tables = NUMBER * ((block.side + 2) * moved + sum(depths) + 64 * count)
    return threads * scratch + copies + tables


def suits(plan: ProductFusionPlan) -> bool:
    """Whether this kernel can run it: numbers of one BLAS dtype, and scratch for a strip of lanes."""
    dtypes = {x.dtype for x in (*plan.inputs, plan.result)}
    dtype = plan.result.dtype
    if len(dtypes) != 1 or dtype.char not in DTYPES or not dtype.isnative:
        return False
    return 0 not in plan.sizes.values() and _Block(plan).width > 0


class _Block:
    """How many lanes a block has, and where its values are: numbers of rows of the scratch [row, pitch].

    Two values share rows where one dies before the other is made. The pitch is a cache line longer than the
    lanes: rows at a power of two would share a few sets of the cache.
    """

    def __init__(self, plan: ProductFusionPlan) -> None:
        self.parts = 2 if plan.result.dtype.kind == "c" else 1
        self.side = LINE // real_of(plan.result.dtype).itemsize
        self.strip = self.side * (STRIP if self.parts == 1 else PAIRS)
        self.rows, self.spare = _rows(plan, self.parts)
        lanes = math.prod(plan.sizes[x] for x in plan.lanes)
        room = (CACHE // LINE // (self.spare + 1) - 1) * self.side // self.strip
        strips = min(WIDEST, room, max(1, lanes // (FEWEST * self.strip)))
        self.width = strips * self.strip
        self.pitch = self.width + self.side

    @property
    def elements(self) -> int:
        """Of the scratch."""
        return (self.spare + 1) * self.pitch


def _rows(plan: ProductFusionPlan, parts: int) -> tuple[list[int], int]:
    """The first row of every value, and the first row that none has."""
    count = len(plan.inputs)
    ends = {v: number for number, step in enumerate(plan.steps) for v in step.operands}
    rows: list[int] = []
    taken: list[tuple[int, int, int]] = []  # rows from, to, and the step that reads them last
    top = 0
    for value, n in enumerate(plan.elements()):
        made, n = value - count, n * parts
        if value < count and plan.is_constant(value):
            rows.append(0)
            continue
        at = 0
        for start, stop, end in sorted(taken):
            if end >= made and start < at + n:
                at = max(at, stop)
        rows.append(at)
        taken.append((at, at + n, ends.get(value, len(plan.steps))))
        top = max(top, at + n)
    return rows, top


# of the time that the cost model gives a product, which is made for large ones: what such small ones take
PLAIN = 0.5  # nothing is contracted
GEMM = 0.5  # one product of matrices as they lie
PACKED = 1.3  # after copies, or slice by slice
PREDICTED = 1.0  # kernels of ours, which are predicted as they are, small or large
BATCHED = 0.75  # a product for each index of a batch
NEST, NEST_SINGLE = 1.2, 2.0  # a loop nest, which takes as long for float32
INNER = 0.2  # one that makes a number for each index of a batch
INNER_PACKED = 0.7  # after a copy
# how much longer the steps must take by the model, several of them or a single one: it saves no intermediate
CHAIN, ALONE = 1.1, 1.2
ALONE_COMPLEX = 2.5  # what steps of complex numbers take is predicted too high
# several that move more than caches hold: many streams take longer than one. Seven steps that write 1 GB, and
# should take 1.42 times as long by the shipped model and 1.46 by a measured one, take less time than lanes
CHAIN_FAR = 1.8


def pays(plan: ProductFusionPlan) -> bool:
    """Whether this should take less time than the steps one by one, with a margin: predictions are that far
    from what is measured."""
    found = predict_lanes(plan)
    several = CHAIN if found.moved_bytes < FAR else CHAIN_FAR
    alone = ALONE_COMPLEX if plan.result.dtype.kind == "c" else ALONE
    margin = alone if len(plan.steps) == 1 else several
    return margin * found.seconds < sum(_one_by_one(plan))


def _one_by_one(plan: ProductFusionPlan) -> Iterator[float]:
    """Seconds of each step as a product of its own."""
    labels, sizes, dtype = plan.labels(), plan.sizes, plan.result.dtype
    for step in plan.steps:
        left, right = (labels[value] for value in step.operands)
        kept, of_left, of_right = set(step.labels), set(left), set(right)
        product = Contraction(
            sizes,
            tuple(x for x in left if x in of_right and x in kept),
            tuple(x for x in left if x not in of_right),
            tuple(x for x in right if x not in of_left),
            tuple(x for x in left if x in of_right and x not in kept),
            dtype.itemsize,
            RATES[dtype.char],
        )
        lhs, rhs = (_order(plan, value) for value in step.operands)
        orders = lhs, rhs, step.labels
        found = plan_decided(product, orders)
        calling = calling_seconds(product, found, orders)
        yield START + found.seconds * _part(product, found) + calling


def _part(product: Contraction, found: Products) -> float:
    batch, m, n, k = product.amounts
    if k == 1:
        return PLAIN
    if found.by != "products":
        return PREDICTED
    if batch == 1:
        return GEMM if found.calls == 1 and not found.copied_bytes else PACKED
    if m == n == 1:
        return INNER_PACKED if found.copied_bytes else INNER
    if found.calls == 0:
        return NEST_SINGLE if product.itemsize == 4 else NEST
    return BATCHED


def _order(plan: ProductFusionPlan, value: int) -> Labels:
    """Labels of a value as they lie in memory."""
    labels = plan.labels()[value]
    layout = plan.inputs[value].layout if value < len(plan.inputs) else None
    return labels if layout is None else tuple(labels[axis] for axis in layout)


class _Tables:
    """What the kernel is told that depends on shapes alone; `moves` and `constants` give the rest."""

    def __init__(self, plan: ProductFusionPlan) -> None:
        self.plan = plan
        self.sizes = sizes = plan.sizes
        self.inner = [tuple(x for x in labels if x not in plan.lanes) for labels in plan.labels()]
        self.block = block = _Block(plan)
        self.lanes = math.prod(sizes[x] for x in plan.lanes)
        parts, pitch, count = block.parts, block.pitch, len(plan.inputs)
        values = range(count + len(plan.steps))
        self.shared = [value for value in range(count) if plan.is_constant(value)]
        self.moving = [value for value in range(count) if value not in self.shared]
        elements = plan.elements()
        constants = 0
        base = [row * pitch for row in block.rows]  # in scratch; of constants, among themselves
        for value in self.shared:
            base[value] = constants
            constants += elements[value] * parts
        unit = [parts if value in self.shared else parts * pitch for value in values]
        self.fixed = _Places()
        rows = []
        for number, step in enumerate(plan.steps):
            operands, conj = list(step.operands), list(step.conj)
            if operands[1] in self.shared:  # the left one is what lanes share
                operands.reverse()
                conj.reverse()
            kept = self.inner[count + number]
            summed = (x for value in operands for x in self.inner[value] if x not in kept)
            terms = tuple(dict.fromkeys(summed))
            row = [
                math.prod(sizes[x] for x in kept),
                math.prod(sizes[x] for x in terms),
                base[count + number],
                int(operands[0] in self.shared),
                *(base[value] for value in operands),
            ]
            for group in (kept, terms):
                for value in operands:
                    offsets = self._offsets(self.inner[value], group)
                    row.append(self.fixed.put(unit[value] * offsets))
            rows.append([*row, conj[0] + 2 * conj[1]])
        self.steps = np.array(rows, np.int64)
        self.numbers = np.array(
            (block.width, pitch, self.lanes, block.strip, block.side, parts), np.int64
        )

    def _offsets(self, own: Labels, over: Labels) -> Any:
        """Where the elements of a value are as labels run over all their indices, row-major: 0 for labels
        that it has not."""
        step, stride = 1, {}
        for label in reversed(own):
            stride[label] = step
            step *= self.sizes[label]
        return offset_table([(self.sizes[x], stride.get(x, 0)) for x in over])

    def moves(self, strides: Sequence[tuple[int, ...]], itemsize: int) -> tuple[Any, Any, Any]:
        """Axes of lanes, what is moved, and all offsets, for arrays of these strides in bytes."""
        plan, block = self.plan, self.block
        last = len(block.rows) - 1
        terms = [*(plan.terms[value] for value in self.moving), plan.output]
        stride = [
            {x: n // itemsize for x, n in zip(term, of, strict=True)}
            for term, of in zip(terms, strides, strict=True)
        ]
        lanes = merge_axes([(self.sizes[x], *(of.get(x, 0) for of in stride)) for x in plan.lanes])
        lanes = lanes or [(1, *(0 for _ in stride))]
        places = _Places(self.fixed)
        moved = []
        for value, of in zip((*self.moving, last), stride, strict=True):
            table = offset_table([(self.sizes[x], of[x]) for x in self.inner[value]])
            offsets = (table[:, None] + np.arange(block.parts)).ravel()
            rows = (block.rows[value] + np.arange(len(offsets))) * block.pitch
            squares = squares_of(offsets, rows, block.side, block.spare * block.pitch)
            at = places.put(offsets), places.put(squares.ravel())
            moved.append((rows[0], len(offsets), at[0], len(squares), at[1]))
        return axis_table(lanes, len(stride)), np.array(moved, np.int64), places.all()

    def constants(self, arrays: Sequence[Any], real: np.dtype[Any]) -> Any:
        """Elements of the operands without lanes, one after another."""
        if not self.shared:
            return np.empty(1, real)
        flat = [np.ascontiguousarray(arrays[value]).reshape(-1).view(real) for value in self.shared]
        return np.concatenate(flat)  # a copy: numba would compile once more for what is read-only


class _Places:
    """Tables of offsets, one after another."""

    def __init__(self, begun: _Places | None = None) -> None:
        self._tables: list[Any] = [] if begun is None else [*begun._tables]
        self._count: int = 0 if begun is None else begun._count

    def put(self, table: Any) -> int:
        """Add a table; returns where it begins."""
        self._tables.append(table)
        self._count += len(table)
        return self._count - len(table)

    def all(self) -> Any:
        return np.concatenate(self._tables)


def offset_table(axes: Sequence[tuple[int, int]]) -> Any:
    """Offsets of all indices of `axes` (size and stride), row-major."""
    table = np.zeros(1, np.int64)
    for n, stride in axes:
        table = (table[:, None] + np.arange(n, dtype=np.int64) * stride).ravel()
    return table


def squares_of(offsets: Any, rows: Any, side: int, spare: int) -> Any:
    """Elements one after another in memory, `side` at once: [offset of the first, how many, their rows].

    The last square of a long run overlaps the one before it; a short run is a part of one, whose other
    elements are in the spare row.
    """
    order = np.argsort(offsets, kind="stable")
    offsets, rows = offsets[order], rows[order]
    squares: list[list[int]] = []
    begin = 0
    for end in (*(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)):
        used = min(side, end - begin)
        for first in (*range(begin, end - side, side), max(begin, end - side)):
            within = rows[first : first + used]
            squares.append([offsets[first], used, *within, *[spare] * (side - used)])
        begin = end
    return np.array(squares, np.int64)


def aligned(elements: int, dtype: np.dtype[Any]) -> Any:
    """An array that begins on a cache line."""
    line = LINE // dtype.itemsize
    memory = empty((elements + line,), dtype)
    start = -memory.__array_interface__["data"][0] % LINE // dtype.itemsize
    return memory[start : start + elements]

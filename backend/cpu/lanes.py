"""Chains of small products, many lanes at once: what a `ProductFusionPlan` says, run as one parallel pass.

A block is as many lanes as make up a few strips (see kernels/across.py). Its elements are gathered into scratch
that stays in cache, [element, lane], every step is done there with vectors along the lanes, and the elements of
the result are written where they belong: each operand is read once, the result is written once, and nothing
between them is ever in memory. Operands without lanes are numbers that all lanes share.

The kernel is compiled once for a dtype; sizes, strides and steps reach it as tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._base.options import get_options, num_threads
from ..cost_model import MODELS, RATES
from ..dtypes import real_of
from ..fusion import Labels, ProductFusionPlan
from ..matrices import Contraction, plan_products
from ..protocol import Kernel
from ..spec import ArraySpec
from .buffers import empty, empty_as
from .kernels.across import PAIRS, STRIP
from .kernels.lanes import contract_lanes
from .kernels.vectors import LINE
from .strided import axis_table, element_strides, merge_axes
from .threads import parallel_for

DTYPES = frozenset("fdFD")
CACHE = 256 << 10  # bytes of the scratch of a block
WIDEST = 2  # strips of a block, where its scratch allows


def bind_lanes(plan: ProductFusionPlan) -> Kernel | None:
    """A kernel for `plan`; None where the steps one by one are faster, or it does not fit."""
    if not suits(plan):
        return None
    asked = get_options().engine
    if asked != "lanes" and (asked is not None or not pays(plan)):
        return None
    tables = _Tables(plan)
    kept: list[tuple[Any, Any]] = [(None, None)]
    real = real_of(plan.result.dtype)
    parts = tables.parts

    def run(*arrays: Any, out: Any = None) -> Any:
        is_direct = out is not None and element_strides(out) is not None
        target = out if is_direct else empty_as(plan.result)
        operands = [_readable(arrays[v]) for v in tables.moving]
        key = (*(x.strides for x in operands), target.strides)
        seen, moving = kept[0]  # read once: another thread may put its own there at any time
        if seen != key:
            moving = tables.moves([*(x.strides for x in operands), target.strides], real.itemsize)
            kept[0] = (key, moving)
        outer, places = moving
        addresses = np.array([x.ctypes.data for x in (*operands, target)])
        constants = tables.constants(arrays, real)

        def piece(start: int, stop: int) -> None:
            scratch = empty((tables.elements * tables.width,), real)
            contract_lanes(
                start, stop, addresses, outer, tables.numbers, tables.moved, tables.steps, places,
                constants, scratch,
            )  # fmt: skip

        parallel_for(piece, -(-tables.lanes // tables.width))
        if out is None or is_direct:
            return target
        np.copyto(out, target)
        return out

    assert parts in (1, 2)
    return run


def lanes_bytes(plan: ProductFusionPlan, threads: int) -> int:
    """Upper bound of the scratch of all threads, and of copies of operands without lanes or of odd strides."""
    shared = sum(2 * x.nbytes for k, x in enumerate(plan.inputs) if plan.is_constant(k))
    tables = 8 * 16 * (sum(plan.elements()) + sum(plan.multiplications())) + 8 * 64 * len(plan.inputs)
    return threads * CACHE + shared + tables


def suits(plan: ProductFusionPlan) -> bool:
    """Whether this kernel can run it: numbers of one BLAS dtype, and scratch for a strip of lanes."""
    dtypes = {x.dtype for x in (*plan.inputs, plan.result)}
    if len(dtypes) != 1 or plan.result.dtype.char not in DTYPES:
        return False
    if 0 in plan.sizes.values():
        return False
    return _strips(plan) > 0


def _strips(plan: ProductFusionPlan) -> int:
    """How many strips of lanes have scratch."""
    made = sum(
        n for value, n in enumerate(plan.elements()) if not plan.is_constant(value)
    )
    count = STRIP if plan.result.dtype.kind != "c" else PAIRS
    per_lane_line = made * (2 if plan.result.dtype.kind == "c" else 1) * LINE
    return min(WIDEST, CACHE // (per_lane_line * count))


GATHER = 8e-10  # seconds for an element that goes into a block or out of it, on one thread
RATE = 0.35  # of the rate of products: what the steps reach


def pays(plan: ProductFusionPlan) -> bool:
    """Whether the cost model takes this to be faster than the steps one by one."""
    return seconds(plan) < _one_by_one(plan)


def seconds(plan: ProductFusionPlan) -> float:
    """By the cost model."""
    model = MODELS.current
    sizes = plan.sizes
    lanes = math.prod(sizes[x] for x in plan.lanes)
    elements = plan.elements()
    parts = 2 if plan.result.dtype.kind == "c" else 1
    moved = sum(
        n for k, n in enumerate(elements[: len(plan.inputs)]) if not plan.is_constant(k)
    ) + elements[-1]
    gathered = lanes * moved * parts * GATHER / num_threads()
    macs = lanes * sum(plan.multiplications())
    rate = model.products * RATES[plan.result.dtype.char] * RATE
    nbytes = sum(x.nbytes for x in plan.inputs) + 2 * plan.result.nbytes
    return max(gathered + macs / rate, nbytes / model.stream)


def _one_by_one(plan: ProductFusionPlan) -> float:
    """The steps as products of their own, by the same model; what lies between them in any order."""
    labels, sizes = plan.labels(), plan.sizes
    dtype = plan.result.dtype
    total = 0.0
    for step in plan.steps:
        left, right = (labels[value] for value in step.operands)
        kept, of_left, of_right = set(step.labels), set(left), set(right)
        contraction = Contraction(
            sizes,
            tuple(x for x in left if x in of_right and x in kept),
            tuple(x for x in left if x not in of_right),
            tuple(x for x in right if x not in of_left),
            tuple(x for x in left if x in of_right and x not in kept),
            dtype.itemsize,
            RATES[dtype.char],
        )
        orders = tuple(
            _order(plan, value, labels[value]) if value < len(plan.inputs) else None
            for value in step.operands
        )
        total += plan_products(contraction, (*orders, None)).seconds  # type: ignore[arg-type]
    return total


def _order(plan: ProductFusionPlan, value: int, labels: Labels) -> Labels:
    layout = plan.inputs[value].layout
    return labels if layout is None else tuple(labels[axis] for axis in layout)


class _Tables:
    """What the kernel is told that depends on shapes alone; `moves` and `constants` give the rest."""

    def __init__(self, plan: ProductFusionPlan) -> None:
        self.plan = plan
        self.sizes = sizes = plan.sizes
        self.inner = [
            tuple(x for x in labels if x not in plan.lanes) for labels in plan.labels()
        ]
        self.parts = parts = 2 if plan.result.dtype.kind == "c" else 1
        self.width = width = self._width()
        self.lanes = math.prod(sizes[x] for x in plan.lanes)
        count = len(plan.inputs)
        shared = [plan.is_constant(value) for value in range(count)]
        self.moving = [value for value in range(count) if not shared[value]]
        self.shared = [value for value in range(count) if shared[value]]
        elements = plan.elements()
        base: list[int] = []  # of every value, in scratch or among the constants
        self.elements = n_constants = 0
        for value, n in enumerate(elements):
            if value < count and shared[value]:
                base.append(n_constants * parts)
                n_constants += n
            else:
                base.append(self.elements * width)
                self.elements += n * parts
        places: list[Any] = []
        at = 0

        def put(table: Any) -> int:
            nonlocal at
            places.append(np.asarray(table, np.int64))
            at += len(places[-1])
            return at - len(places[-1])

        rows = []
        for number, step in enumerate(plan.steps):
            operands, conj = list(step.operands), list(step.conj)
            if operands[1] < count and shared[operands[1]]:  # the left one is what lanes share
                operands.reverse()
                conj.reverse()
            kept = self.inner[count + number]
            summed = [x for value in operands for x in self.inner[value] if x not in kept]
            terms = tuple(dict.fromkeys(summed))
            row = [
                math.prod(sizes[x] for x in kept),
                math.prod(sizes[x] for x in terms),
                base[count + number],
                int(operands[0] < count and shared[operands[0]]),
                *(base[value] for value in operands),
            ]
            for group in (kept, terms):
                for value in operands:
                    unit = parts if value < count and shared[value] else parts * width
                    row.append(put(unit * self._offsets(self.inner[value], group)))
            rows.append([*row, conj[0] + 2 * conj[1]])
        self.steps = np.array(rows, np.int64)
        self.fixed = places
        self.places_from = at
        moved = []
        for value in (*self.moving, len(elements) - 1):
            moved.append((base[value], elements[value] * parts, at))
            at += elements[value] * parts
        self.moved = np.array(moved, np.int64)
        strip = LINE // real_of(plan.result.dtype).itemsize * (STRIP if parts == 1 else PAIRS)
        self.numbers = np.array((width, self.lanes, strip, parts), np.int64)

    def _width(self) -> int:
        real = real_of(self.plan.result.dtype).itemsize
        strip = LINE // real * (STRIP if self.parts == 1 else PAIRS)
        return strip * _strips(self.plan)

    def _offsets(self, own: Labels, over: Labels) -> Any:
        """Where the elements of a value are as labels run over all their indices, row-major: 0 for labels
        that it has not."""
        step, stride = 1, {}
        for label in reversed(own):
            stride[label] = step
            step *= self.sizes[label]
        return _table([(self.sizes[x], stride.get(x, 0)) for x in over])

    def moves(self, strides: Sequence[tuple[int, ...]], itemsize: int) -> tuple[Any, Any]:
        """Axes of lanes, and the offsets of all elements, for arrays of these strides in bytes."""
        plan, parts = self.plan, self.parts
        terms = [*(plan.terms[value] for value in self.moving), plan.output]
        stride = [
            {x: n // itemsize for x, n in zip(term, of, strict=True)}
            for term, of in zip(terms, strides, strict=True)
        ]
        lanes = merge_axes(
            [(self.sizes[x], *(of.get(x, 0) for of in stride)) for x in plan.lanes]
        )
        lanes = lanes or [(1, *(0 for _ in stride))]
        places = list(self.fixed)
        inner = [*(self.inner[value] for value in self.moving), self.inner[-1]]
        for labels, of in zip(inner, stride, strict=True):
            table = _table([(self.sizes[x], of[x]) for x in labels])
            places.append((table[:, None] + np.arange(parts)).ravel())
        return axis_table(lanes, len(stride)), np.concatenate(places)

    def constants(self, arrays: Sequence[Any], real: np.dtype[Any]) -> Any:
        """Elements of the operands without lanes, one after another."""
        if not self.shared:
            return np.empty(1, real)
        flat = [np.ascontiguousarray(arrays[value]).reshape(-1).view(real) for value in self.shared]
        return flat[0] if len(flat) == 1 else np.concatenate(flat)


def _table(axes: Sequence[tuple[int, int]]) -> Any:
    """Offsets of all indices of `axes` (size and stride), row-major."""
    table = np.zeros(1, np.int64)
    for n, stride in axes:
        table = (table[:, None] + np.arange(n, dtype=np.int64) * stride).ravel()
    return table


def _readable(x: Any) -> Any:
    """x itself when it is aligned and its strides are whole elements, else a copy."""
    return x if element_strides(x) is not None else x.copy()


__all__ = ["ArraySpec", "bind_lanes", "lanes_bytes", "pays", "seconds", "suits"]

"""Networks of many small steps, for `einsum`: products of matrices one after another, without a program.

For a program layouts, memory, threads and kernels are chosen step by step, half a millisecond for each: that
is for who calls it often, by `compile`. Of a network of a hundred small tensors it is many times what the
contraction itself takes. Here each step is what numpy.tensordot would do: operands are looked at as matrices,
copied where they lie otherwise, and multiplied by BLAS on its own threads. Each call does the same, so the
first and all others have the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .._base.options import get_options
from ..backend.cost_model import RATES
from ..backend.cpu import cpu
from ..backend.spec import Axes, Shape
from .delivery import CHECK_FROM, deliver
from .in_line_steps import Pair, Step, steps_of
from .once import save_enough
from .plan import Plan
from .planners.problem import MODEL

FROM = 9  # operands
MOST = 1 << 28  # multiplications
IDLE = 4  # arrays whose memory waits for the next ones
WASTE = 2  # times as much memory as an array needs, at most
BEGUN = 1e-5  # seconds of one product that no kernel saves


class _Room:
    """Memory for copies and intermediates of one call, which comes back as soon as they are read: what is
    given back to the system is cleared before it is lent again, which takes as long as many a step. It keeps
    IDLE arrays of those that came back."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.idle: list[Any] = []

    def lent(self, shape: Shape) -> Any:
        size = math.prod(shape)
        for at in range(len(self.idle) - 1, -1, -1):  # what came back last may be in a cache
            if size <= self.idle[at].size <= WASTE * size:
                memory = self.idle.pop(at)
                break
        else:
            memory = np.empty(size, self.dtype)
        return memory[:size].reshape(shape)

    def give_back(self, x: Any) -> None:
        """An array that was lent, or one that looks at it."""
        while isinstance(x.base, np.ndarray):
            x = x.base
        self.idle.append(x)
        if len(self.idle) > IDLE:
            del self.idle[0]


class InLine:
    """A contraction along a plan, called as an `Expression` is: `contract(operands, out, alpha, beta)`."""

    has_fast = is_view = False

    def __init__(self, plan: Plan, steps: Sequence[Step], kept: Sequence[Axes], perm: Axes) -> None:
        network = plan.network
        self.plan, self.backend, self.steps, self.perm = plan, cpu(), steps, perm
        self.shape = tuple([network.extents[label] for label in network.output_axes])
        # operands without axes of size 1, where they have some
        self.shapes = [
            None if len(axes) == len(shape) else tuple([shape[axis] for axis in axes])
            for axes, shape in zip(kept, network.shapes, strict=True)
        ]

    @property
    def weight(self) -> int:
        """What it takes of a cache."""
        return 1 + len(self.steps) // 16

    def contract(
        self, operands: Sequence[Any], out: Any = None, alpha: Any = 1, beta: Any = 0
    ) -> Any:
        return deliver(self, self.plan, operands, out, alpha, beta)

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        held = [
            x if shape is None else x.reshape(shape)
            for x, shape in zip(operands, self.shapes, strict=True)
        ]
        count, last, room = len(held), self.steps[-1], _Room(self.plan.dtype)
        with np.errstate(all="ignore"):
            for step in self.steps:
                i, j = step.operands
                made = step.run(held[i], held[j], room, step is last)
                for at in (i, j):
                    if at >= count:
                        room.give_back(held[at])
                    held[at] = None
                held.append(made)
        result = held[-1].transpose(self.perm).reshape(self.shape)
        return result if out is None else self.backend.assign(out, result)


def in_line(plan: Plan, is_free: bool = True) -> InLine | None:
    """What runs this plan in line; None where it does other things than products, has few operands, takes
    long, or kernels might be worth waiting for. `is_free`: whether the order of steps is ours to choose.

    What it takes is told by the shipped model, as planning is: to look for this machine's takes as long as to
    choose ten steps, and results would depend on it.
    """
    network, now = plan.network, get_options()
    if len(network.terms) < FROM or now.asks_for_kernels or not now.patience:
        return None
    terms = _plain_terms(plan)
    if terms is None:
        return None
    kept, held = terms
    wanted = tuple([x for x in network.output_axes if network.extents[x] > 1])
    path = cast(Sequence[Pair], plan.ssa_path)
    found = steps_of(path, held, wanted, network.extents, is_free)
    if found is None:
        return None
    steps, made = found
    if not _is_soon_done(steps, plan.dtype, now.patience):
        return None
    if _peak(steps, len(kept)) * plan.dtype.itemsize >= CHECK_FROM:
        return None
    return InLine(plan, steps, kept, tuple([made.index(x) for x in wanted]))


def _peak(steps: Sequence[Step], n: int) -> int:
    """Elements that are in memory at once at most, apart from n operands: intermediates, copies of the step,
    and what waits for the next ones."""
    sizes = [0] * n
    alive = peak = largest = 0
    for step in steps:
        sizes.append(math.prod(step.shape))
        alive += sizes[-1]
        peak = max(peak, alive + step.lhs.copied + step.rhs.copied)
        largest = max(largest, sizes[-1], step.lhs.copied, step.rhs.copied)
        alive -= sum(sizes[at] for at in step.operands)
    return WASTE * (peak + IDLE * largest)


def _plain_terms(plan: Plan) -> tuple[list[Axes], list[Axes]] | None:
    """Which axes of each operand are not of size 1, and their labels; None where some operand is more than a
    factor of numbers that BLAS multiplies."""
    network = plan.network
    asks = plan.conj or plan.sliced or plan.strip_exponent or plan.constants
    if asks or plan.memory_limit is not None:
        return None
    if {*plan.dtypes} != {plan.dtype} or plan.dtype.char not in RATES or 0 in network.extents:
        return None
    if any(len(step) != 2 for step in plan.ssa_path):
        return None
    if len(set(network.output_axes)) != len(network.output_axes):
        return None
    kept, labels = [], []
    for term, shape in zip(network.terms, network.shapes, strict=True):
        axes = tuple([axis for axis, n in enumerate(shape) if n > 1])
        own = tuple([term[axis] for axis in axes])
        if len(set(own)) != len(own):
            return None
        kept.append(axes)
        labels.append(own)
    return kept, labels


def _is_soon_done(steps: Sequence[Step], dtype: np.dtype[Any], loading: float) -> bool:
    """Whether compiled kernels cannot save so much that it is worth to load them: no more than what all steps
    take beyond their multiplications at the full rate."""
    rate = MODEL.products * RATES[dtype.char]
    seconds = least = 0.0
    total = 0
    for step in steps:
        loops, m, n, k = step.amounts
        work = loops * m * n * k
        total += work
        fewer, more = (m, n) if m < n else (n, m)
        moved = (step.lhs.copied + step.rhs.copied) * dtype.itemsize
        plain = work / (rate * MODEL.speed(fewer, more, k, loops))
        plain += loops * MODEL.call + moved / MODEL.moves
        seconds += plain
        least += min(plain, BEGUN + work / rate) if loops == 1 else work / rate
    return total <= MOST and not save_enough(seconds, least, loading)

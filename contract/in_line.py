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
from operator import ne
from typing import Any, NamedTuple

import numpy as np

from .._base.options import get_options
from ..backend.cost_model import MODELS, RATES
from ..backend.cpu import cpu
from ..backend.spec import Axes, Shape
from .cost import walk
from .delivery import CHECK_FROM, deliver
from .once import save_enough
from .plan import Plan
from .roles import roles

FROM = 9  # operands
MOST = 1 << 28  # multiplications
IDLE = 4  # arrays whose memory waits for the next ones
WASTE = 2  # times as much memory as an array needs, at most
EACH = 1 << 11  # multiplications of each of many small products instead of a copy
BEGUN = 1e-5  # seconds of one product that no kernel saves


class _Matrices(NamedTuple):
    """How an array is looked at: axes permuted, neighbours joined to [loops..., rows, columns], and these
    turned."""

    perm: Axes | None
    shape: Shape
    is_turned: bool
    copied: int  # elements

    def of(self, x: Any, room: _Room) -> Any:
        if self.perm is not None:  # numpy.matmul reads slowly what BLAS cannot read
            across = x.transpose(self.perm)
            x = room.lent(across.shape)
            np.copyto(x, across)
        x = x.reshape(self.shape)
        return x.swapaxes(-1, -2) if self.is_turned else x


class _Step(NamedTuple):
    """out[loops, rows, columns] = sum over k of lhs[loops, rows, k] * rhs[loops, k, columns]."""

    operands: tuple[int, int]
    lhs: _Matrices
    rhs: _Matrices
    shape: Shape  # of the result, with all its axes
    amounts: tuple[int, int, int, int]  # loops, rows, columns and k

    def run(self, lhs: Any, rhs: Any, room: _Room, is_last: bool) -> Any:
        left, right = self.lhs.of(lhs, room), self.rhs.of(rhs, room)
        loops, m, n, k = self.amounts
        shape = (loops, m, n) if max(left.ndim, right.ndim) > 2 else (m, n)
        out = np.empty(shape, room.dtype) if is_last else room.lent(shape)
        if k == 1:
            np.multiply(left, right, out=out)
        elif len(shape) == 2:
            np.dot(left, right, out=out)  # it packs what BLAS cannot read
        else:
            np.matmul(left, right, out=out)
        for x, looked_at in ((left, self.lhs), (right, self.rhs)):
            if looked_at.perm is not None:
                room.give_back(x)
        return out.reshape(self.shape)


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

    def __init__(
        self, plan: Plan, steps: Sequence[_Step], kept: Sequence[Axes], perm: Axes
    ) -> None:
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


def in_line(plan: Plan) -> InLine | None:
    """What runs this plan in line; None where it does other things than products, has few operands, takes
    long, or kernels might be worth waiting for."""
    network, now = plan.network, get_options()
    if len(network.terms) < FROM or now.asks_for_kernels or not now.patience:
        return None
    terms = _plain_terms(plan)
    if terms is None:
        return None
    kept, held = terms
    wanted = tuple([x for x in network.output_axes if network.extents[x] > 1])
    steps = _steps(plan, held, wanted)
    if steps is None or not _is_soon_done(steps, plan.dtype, now.patience):
        return None
    if _peak(steps, len(kept)) * plan.dtype.itemsize >= CHECK_FROM:
        return None
    return InLine(plan, steps, kept, tuple([held[-1].index(x) for x in wanted]))


def _steps(plan: Plan, held: list[Axes], wanted: Axes) -> list[_Step] | None:
    """The steps of the tree; the labels of what they make are put behind those of the operands. None if some
    step is more than a product."""
    network, n = plan.network, len(held)
    walked = [*walk(network, plan.tree)]
    # what the step that reads an array keeps
    keeps = {x: one.result for pair, one in zip(plan.ssa_path, walked, strict=True) for x in pair}
    steps: list[_Step] = []
    for (i, j), one in zip(plan.ssa_path, walked, strict=True):
        later = keeps.get(n + len(steps))
        least = math.inf
        for pair in ((i, j), (j, i)):
            made = _product(pair, held[pair[0]], held[pair[1]], one.result, network.extents)
            if made is None:
                return None
            is_fit = (
                made.labels == wanted if later is None else _is_read_at_once(made.labels, later)
            )
            cost = made.copied + (0 if is_fit else math.prod(made.step.shape))
            if cost < least:
                best, least = made, cost
            if cost == 0:
                break
        steps.append(best.step)
        held.append(best.labels)
    return steps


def _peak(steps: Sequence[_Step], n: int) -> int:
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


class _Product(NamedTuple):
    """A step in one of the two orders of its operands, the labels of its result, and elements to copy."""

    step: _Step
    labels: Axes
    copied: int


def _product(
    operands: tuple[int, int], a: Axes, b: Axes, result: frozenset[int], extents: Sequence[int]
) -> _Product | None:
    """The product of operands with these labels; None if some label of one alone is summed."""
    loops, rows, columns, summed = roles(a, b, result)
    if not result.issuperset(rows + columns):
        return None
    many, m, n, k = [_size(group, extents) for group in (loops, rows, columns, summed)]
    batch = (many,) if loops else ()
    lhs = _looked_at(a, loops, rows, summed, (*batch, m, k))
    rhs = _looked_at(b, loops, summed, columns, (*batch, k, n))
    labels, copied = loops + rows + columns, lhs.copied + rhs.copied
    if not loops and (lhs.copied or rhs.copied):
        # sums in the middle of an operand, beside a matrix: one product for each place before them
        if rhs.copied and not lhs.copied and (cut := _cut(b, summed, m * k, extents)) is not None:
            before, after = cut
            many, n = _size(before, extents), _size(after, extents)
            rhs, labels, copied = _Matrices(None, (many, k, n), False, 0), before + rows + after, 0
        elif lhs.copied and not rhs.copied and (cut := _cut(a, summed, n * k, extents)) is not None:
            before, after = cut
            many, m = _size(before, extents), _size(after, extents)
            lhs, copied = _Matrices(None, (many, k, m), True, 0), 0
    shape = tuple([extents[x] for x in labels])
    return _Product(_Step(operands, lhs, rhs, shape, (many, m, n, k)), labels, copied)


def _cut(axes: Axes, summed: Axes, other: int, extents: Sequence[int]) -> tuple[Axes, Axes] | None:
    """The labels before and after the summed ones, if these are neighbours in the middle, and each of the
    products is worth a call of BLAS."""
    at = axes.index(summed[0]) if summed else 0
    before, after = axes[:at], axes[at + len(summed) :]
    if not before or not after or axes[at : at + len(summed)] != summed:
        return None
    each = other * _size(after, extents)
    return (before, after) if each >= EACH else None


def _looked_at(axes: Axes, loops: Axes, rows: Axes, columns: Axes, shape: Shape) -> _Matrices:
    straight, turned = loops + rows + columns, loops + columns + rows
    if axes == straight:
        return _Matrices(None, shape, False, 0)
    if axes == turned:
        return _Matrices(None, (*shape[:-2], shape[-1], shape[-2]), True, 0)
    return _Matrices(tuple([axes.index(x) for x in straight]), shape, False, math.prod(shape))


def _size(labels: Axes, extents: Sequence[int]) -> int:
    return math.prod([extents[x] for x in labels])


def _is_read_at_once(labels: Axes, later: frozenset[int]) -> bool:
    """Whether labels that the next step sums are neighbours, and those that it keeps are."""
    roles = [x in later for x in labels]
    return sum(map(ne, roles, roles[1:])) < 2


def _is_soon_done(steps: Sequence[_Step], dtype: np.dtype[Any], loading: float) -> bool:
    """Whether compiled kernels cannot save so much that it is worth to load them: no more than what all steps
    take beyond their multiplications at the full rate."""
    model = MODELS.current
    rate = model.products * RATES[dtype.char]
    if sum(math.prod(step.amounts) for step in steps) > MOST:
        return False
    seconds = least = 0.0
    for step in steps:
        loops, m, n, k = step.amounts
        work = loops * m * n * k
        fewer, more = (m, n) if m < n else (n, m)
        moved = (step.lhs.copied + step.rhs.copied) * dtype.itemsize
        plain = work / (rate * model.speed(fewer, more, k, loops))
        plain += loops * model.call + moved / model.moves
        seconds += plain
        least += min(plain, BEGUN + work / rate) if loops == 1 else work / rate
    return not save_enough(seconds, least, loading)

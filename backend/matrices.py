"""How a contraction of arrays that lie anyhow in memory becomes products of matrices.

BLAS multiplies [m, k] by [k, n] where each matrix has unit stride along one axis. Axes that are
neighbours in memory are one axis of a matrix; axes that are not are loops around the product, since a
matrix may be any slice of an array whose last axis belongs to it. So there are three ways to meet an
array whose axes lie in a bad order: loop, and multiply smaller matrices; copy an operand first; multiply
into a temporary and move that. `plan_matrices` weighs them by `CostModel`.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from .._base.caches import Quick
from .contraction import PACKINGS, Contraction, Labels, Order, Orders
from .cost_model import ENOUGH, MODELS, THREADED, CostModel

FEW = 64  # columns of a matrix that is written faster as rows
MOST = 1 << 1000  # multiplications that a float can count
WIDEST = 512  # elements of a row from which it matters little that columns are longer
BROKEN = 1.5e-8  # seconds for each row of small matrices that lies far from the next one
PAGE = 1 << 12  # bytes between rows from which that is far
APART = 1 << 20  # bytes of an array from which it matters: no core's own cache holds it
ROW = 256  # bytes of a row from which it does not: the machine fetches what follows
SLICED = 1 << 16  # multiplications in all below which products of slices reach LESS than `strided`
LESS = 0.6
TINY = 512
"""Multiplications per matrix below which a loop nest is faster than a call of BLAS for each."""
TINY_REAL = 0.4  # of what the model says of such batches of real ones, from 2 by 2 to 8 by 8
COMPLEX_CALL = 1.2e-7  # seconds more for each of several complex ones


def is_tall(m: int, n: int, k: int) -> bool:
    """Whether a product has so few columns that BLAS takes less time to write it transposed, in long rows,
    and so much work that this matters."""
    return 2 * n <= m and n <= FEW and m * n * k >= THREADED


By = Literal["products", "strips", "sums", "dots", "lines"]
"""
products  of matrices, or a loop nest
strips    by our own kernel; what is packed then is what `plan_strips` says
sums      one operand has all labels: it is multiplied by the other one, and added up, as it lies in memory
dots      both have all labels, and what is added up lies last in memory
lines     batches lie last in all arrays: NumPy multiplies lines of them, and adds them up
"""


class Products(NamedTuple):
    """A plan: `calls` products [m, k] x [k, n], and what is copied first or after; without calls, a loop nest
    over the elements of the result."""

    seconds: float
    copied_bytes: int
    packed: tuple[bool, bool, bool]  # lhs, rhs, out
    rows: Labels = ()  # labels of one matrix, in the order in which they are one axis
    columns: Labels = ()
    contracted: Labels = ()
    calls: int = 1
    by: By = "products"


_PLANS: Quick[Products] = Quick("plans of products", 4096)


def plan_matrices(step: Contraction, given: Orders, model: CostModel | None = None) -> Products:
    """The cheapest way by matrix products; the layout pass, fusion, memory and the kernel ask for it in turn.

    >>> step = Contraction({0: 300, 1: 200, 2: 500, 3: 400}, (), (0, 1), (2,), (3,))
    >>> plan = plan_matrices(step, ((0, 3, 1), (3, 2), (0, 1, 2)))  # loops over label 0, nothing copied
    >>> plan.packed, plan.rows, plan.columns, plan.contracted, plan.calls
    ((False, False, False), (1,), (2,), (3,), 300)
    """
    model = model or MODELS.current
    key = (step.key, given, model)
    found = _PLANS.items.get(key)
    if found is None:
        _PLANS.misses += 1
        found = _planned(step, given, model)
        _PLANS.put(key, found)
    else:
        _PLANS.hits += 1
    return found


def _planned(step: Contraction, given: Orders, model: CostModel) -> Products:
    batch, m, n, k = step.amounts
    macs = batch * m * n * k
    if macs == 0:
        return Products(0.0, 0, (False, False, False), step.rows, step.columns, step.contracted)
    if macs > MOST:  # nobody will run it, but its memory may be asked for
        groups = (step.rows, step.columns, step.contracted)
        return Products(math.inf, sum(step.nbytes), (True, True, True), *groups, batch)
    streamed = (sum(step.nbytes) + step.nbytes[2]) / model.stream
    # without any copy it takes no less
    floor = max(macs / (model.products * step.rate * model.most_speed(m, n, k)), streamed)
    best: Products | None = None
    matrices_of = _Matrices(step, given)
    first = len(PACKINGS)  # of what takes equally long, the first of all ways to pack is taken
    for copied_bytes, count, rank, packed in step.packings:
        copying = copied_bytes / model.moves + count * model.copy
        if best is not None and best.seconds < copying + floor:
            continue
        found = matrices_of(packed)
        if found is None:
            continue
        rows, columns, contracted = found
        slow, fast = step.size(rows), step.size(columns)
        calls = macs // (slow * fast * k)
        written = None if packed[2] else given[2]
        turned = slow > fast if written is None else written[-1:] == rows[-1:] != ()
        if turned:
            slow, fast = fast, slow
        rate = model.products * step.rate * model.speed(slow, fast, k, calls)
        if calls > batch and macs < ENOUGH:
            rate *= model.strided if macs >= SLICED else LESS * model.strided
        seconds = max(macs / rate, streamed) + calls * model.call + copying
        if calls > 1:
            seconds += BROKEN * matrices_of.broken_rows(packed, found)
        if best is None or seconds < best.seconds or (seconds == best.seconds and rank < first):
            first = rank
            best = Products(seconds, copied_bytes, packed, rows, columns, contracted, calls)
        if copied_bytes == 0 and calls == batch and (slow <= fast or slow >= WIDEST):
            break  # nothing can be better
    assert best is not None  # where all is copied, everything fits
    if best.calls == 1:
        return best
    if step.rate < 1:
        return best._replace(seconds=best.seconds + best.calls * COMPLEX_CALL)
    return best._replace(seconds=best.seconds * TINY_REAL) if m * n * k < TINY else best


BATCH, ROWS, COLUMNS, CONTRACTED = range(4)
SIDES = ((ROWS, CONTRACTED), (COLUMNS, CONTRACTED), (ROWS, COLUMNS))  # groups of lhs, rhs, out


class _Matrices:
    """What one product of matrices may be where arrays are in these orders, or packed."""

    def __init__(self, step: Contraction, orders: Orders) -> None:
        self.step, self.orders = step, orders
        self.groups = groups = (step.batch, step.rows, step.columns, step.contracted)
        # the group of each array's last label, BATCH for one of no matrix; None for a number for each loop
        self.ends: list[tuple[int, int] | None] = []
        for order, (one, other) in zip(orders, SIDES, strict=True):
            end: tuple[int, int] | None = None
            if order and (groups[one] or groups[other]):
                last = order[-1]
                group = one if last in groups[one] else other if last in groups[other] else BATCH
                end = group, last
            self.ends.append(end)

    def __call__(self, packed: tuple[bool, bool, bool]) -> tuple[Labels, Labels, Labels] | None:
        """Labels of the rows, columns and contracted axis of one matrix product; None if BLAS cannot read or
        write matrices in these orders, or if what is packed has no order yet: it is free anyway."""
        ends: dict[int, int] = {}
        orders: list[Order] = [*self.orders]
        for side in range(3):
            if packed[side]:
                if orders[side] is None:
                    return None
                orders[side] = None
            elif (end := self.ends[side]) is not None:
                group, last = end
                if group == BATCH:
                    return None  # unit stride along a batch axis
                if ends.setdefault(group, last) != last:
                    return None  # two arrays have unit stride along different axes of one group
        lhs, rhs, out = orders
        contracted = self._run(CONTRACTED, lhs, rhs, ends)
        if len(contracted) != len(self.step.contracted):
            return None
        rows = self._run(ROWS, lhs, out, ends)
        if self.step.rows and not rows:
            return None
        columns = self._run(COLUMNS, rhs, out, ends)
        if self.step.columns and not columns:
            return None
        return rows, columns, contracted

    def broken_rows(
        self, packed: tuple[bool, bool, bool], found: tuple[Labels, Labels, Labels]
    ) -> int:
        """Short rows, or columns, of matrices of large arrays, each of which lies far from the next."""
        step, count = self.step, 0
        rows, columns, contracted = found
        for side, groups in enumerate(((rows, contracted), (contracted, columns), (rows, columns))):
            order = self.orders[side]
            if packed[side] or not order or step.nbytes[side] < APART:
                continue
            inner, outer = groups if order[-1] in groups[0] else groups[::-1]
            run = step.size(inner) * step.itemsize
            if not outer or {*order[-len(inner) :]} != {*inner} or run >= ROW:
                continue
            last = max(order.index(x) for x in outer)
            if step.size(order[last + 1 :]) * step.itemsize >= PAGE:
                count += step.nbytes[side] // run
        return count

    def _run(self, group: int, first: Order, second: Order, ends: dict[int, int]) -> Labels:
        labels = self.groups[group]
        if len(labels) < 2:
            return labels
        runs, key = self.step.runs, (group, first, second, ends.get(group))
        found = runs.get(key)
        if found is None:
            found = runs[key] = _longest_run(self.step, labels, first, second, key[3])
        return found


def _longest_run(
    step: Contraction, labels: Labels, first: Order, second: Order, end: int | None
) -> Labels:
    """The largest run of `labels` that are neighbours in both orders, with `end` last if that is given."""
    if first is None or second is None:
        order, other = (first or second), None
        if order is None:
            return labels
    else:
        order, other = first, {x: at for at, x in enumerate(second)}
    wanted = set(labels)
    runs: list[list[int]] = []
    before: int | None = None
    for x in order:
        if x in wanted:
            if before is not None and (other is None or other[x] == other[before] + 1):
                runs[-1].append(x)
            else:
                runs.append([x])
            before = x
        else:
            before = None
    if end is not None:
        return tuple(next((run for run in runs if run[-1] == end), ()))
    return tuple(max(runs, key=step.size))

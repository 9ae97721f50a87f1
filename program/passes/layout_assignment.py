"""Which order the axes of intermediates have in memory, such that little is copied.

A dot_general reads axes that are neighbours as one, and loops over others; what lies badly is copied.
Between two products the order is ours: it decides what the one writes and the other reads. The slots are
taken by size, the largest first; each is given, of the orders in which the axes that play the same role
for its maker and its reader are neighbours, the one that costs least with what is decided already around
it, and is looked at again when all have been decided. What nobody has decided yet counts as free.

A result that is asked for in row-major or column-major order is written in that order; one that is only
shown as a transpose, where nobody asked, in the order that is cheapest, row-major if that costs little more.

Costs are those of backend.products: seconds of the products that the orders allow, and of the copies.

Precondition: a verified program. Postcondition: the same instructions; a slot has a layout only if
dot_general makes it, and one other dot_general alone reads it, or an output alone shows it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, NamedTuple

from ...backend.catalogue import known_dims
from ...backend.contraction import Contraction, Order, Orders, contraction_of
from ...backend.cost_model import RATES
from ...backend.lines import SHORTEST
from ...backend.matrices import is_tall
from ...backend.outer import lines_of
from ...backend.products import plan_products
from ...backend.spec import LARGE, Axes
from ..ir import Instruction, Program
from .rewrite import use_counts

LEAST = LARGE  # bytes below which a copy stays in cache and costs less than to think about it
MOST_SLOTS = 128  # the largest ones of a program
SWEEPS = 3
ADDRESSABLE = 1 << 63  # bytes
GROUPS = 5  # of axes, all orders of which are tried
GAIN = 0.9  # of the time with a row-major result: what another order must not exceed
SOME = 1 << 16  # bytes of a result that sums nothing from which another order may gain
# what takes as long as how many elements of such a result: to begin a line, to copy an element; and the part
# of the time that another order must not exceed, less where results are small
BY_KERNELS, BY_NUMPY = (3, 8, GAIN), (40, 4, 0.5)
# elements of lines from which a row-major result that sums nothing stays one, by both
LONG_LINE = 40


@dataclass(frozen=True, slots=True)
class _Step:
    """One dot_general: labels 0 to r - 1 are the axes of its output, further ones are contracted."""

    slots: tuple[int, int, int]  # lhs, rhs, out
    contraction: Contraction
    labels: tuple[Axes, Axes, Axes]  # of the axes of lhs, rhs, out
    known: dict[Orders, float] = field(default_factory=dict)

    def seconds(self, orders: dict[int, Axes]) -> float:
        return self.placed(self.order(0, orders), self.order(1, orders), self.order(2, orders))

    def placed(self, *orders: *Orders) -> float:
        """Seconds with lhs, rhs and out in these orders."""
        found = self.known.get(orders)
        if found is None:
            found = self.known[orders] = plan_products(self.contraction, orders).seconds
        return found

    def by_order(self, slot: int, orders: dict[int, Axes]) -> Callable[[Axes], float]:
        """Seconds by the order of one slot, the others in `orders`."""
        side, labels = self.slots.index(slot), self.labels[self.slots.index(slot)]
        placed = [self.order(k, orders) for k in range(3)]

        def seconds(order: Axes) -> float:
            placed[side] = tuple([labels[axis] for axis in order])
            return self.placed(*placed)

        return seconds

    def order(self, side: int, orders: dict[int, Axes]) -> Order:
        """Labels as they lie in memory; None where nobody has decided."""
        axes, labels = orders.get(self.slots[side]), self.labels[side]
        return None if axes is None else tuple([labels[axis] for axis in axes])


def layout_assignment(program: Program, order: str = "K") -> Program:
    """`program` with layouts; with `order` "C" or "F", results in row-major or column-major order."""
    outer = {
        ins.outputs[0]: ins
        for ins in program.instructions
        if _is_product(program, ins) and not ins.attrs["contracting"][0]
    }
    between, results = _between_products(program), _results(program, order, outer)
    if not between and not results:
        return program
    found: dict[int, Axes | None] = dict.fromkeys(between)
    found |= _long_rows(program, between)
    found |= _in_lines(program, between, results)
    fixed = [slot for slot in results if order in ("C", "F") or slot in outer]
    plain = {slot: results.pop(slot) for slot in fixed}
    found |= {slot: _unless_row_major(axes) for slot, axes in plain.items()}
    found |= _searched(program, between, found, results)
    for slot, axes in plain.items():  # with the operands as they lie now
        if order not in ("C", "F") and program.slots[slot].nbytes >= SOME:
            step = _step(program, outer[slot])
            orders = {x: found.get(x, program.slots[x].layout) for x in step.slots[:2]}
            rows = {
                x: lie or tuple(range(len(program.slots[x].shape))) for x, lie in orders.items()
            }
            lie = step.order(0, rows) or (), step.order(1, rows) or ()
            found[slot] = _unless_row_major(along(step.contraction, lie, axes))
    slots = list(program.slots)
    for slot, layout in found.items():
        slots[slot] = replace(slots[slot], layout=layout)
    return replace(program, slots=tuple(slots))


def _unless_row_major(axes: Axes) -> Axes | None:
    return None if axes == tuple(range(len(axes))) else axes


def result_order(program: Program, output: int) -> Axes | None:
    """The axes of an output as they lie in memory, the slowest first; None where that is unknown."""
    slot, perm = _shown(program, output)
    makers = [ins for ins in program.instructions if slot in ins.outputs]
    if not makers or makers[0].may_view:
        return None
    layout = program.slots[slot].layout or range(len(perm))
    place = {axis: k for k, axis in enumerate(perm)}
    return tuple(place[axis] for axis in layout)


def _shown(program: Program, output: int) -> tuple[int, Axes]:
    """The slot of which `output` is a transpose, and which of its axes are those of the output."""
    maker = {slot: ins for ins in program.instructions for slot in ins.outputs}
    slot, perm = output, tuple(range(len(program.slots[output].shape)))
    while slot in maker and maker[slot].op == "transpose":
        step = maker[slot].attrs["perm"]
        perm = tuple(step[axis] for axis in perm)
        slot = maker[slot].inputs[0]
    return slot, perm


def _results(program: Program, order: str, outer: Container[int]) -> dict[int, Axes]:
    """Slots of products that an output alone shows, and their axes in the order in which the output is
    row-major, column-major for order "F"; what is no transpose is left as it is unless that is asked for, or
    unless it is `outer`: a product that sums nothing, of which any order may be written.
    """
    uses, made = use_counts(program), _made_by_products(program)
    found: dict[int, Axes] = {}
    for output in program.outputs:
        slot, perm = _shown(program, output)
        if slot in made and uses[slot] == 1 and uses[output] == 1:
            if order == "F":
                perm = perm[::-1]
            if order in ("C", "F") or slot != output or slot in outer:
                found[slot] = perm
    return found


def _made_by_products(program: Program) -> set[int]:
    """Slots of dtypes whose products BLAS computes, of a size that is known and can be addressed."""
    return {
        slot
        for ins in program.instructions
        if _is_product(program, ins)
        for slot in ins.outputs
        if program.slots[slot].dtype.char in RATES
        and not program.slots[slot].bounds
        and program.slots[slot].nbytes < ADDRESSABLE
    }


def _between_products(program: Program) -> set[int]:
    """Slots that one product of BLAS makes and another alone reads."""
    read = {
        slot for ins in program.instructions if _is_product(program, ins) for slot in ins.inputs
    }
    uses: Counter[int] = use_counts(program)
    return {slot for slot in _made_by_products(program) & read if uses[slot] == 1}


class _Chain(NamedTuple):
    """Matrices of few columns that follow from each other, and the products that make or read one."""

    slots: list[int]
    steps: list[_Step]


def _long_rows(program: Program, between: set[int]) -> dict[int, Axes]:
    """Small matrices of few columns lie transposed where BLAS multiplies them, since it writes long rows
    faster than many short ones. Those that follow from each other lie alike, as costs least for all of
    their products."""
    chain_of: dict[int, _Chain] = {}
    for ins in program.instructions:
        if not _is_product(program, ins):
            continue
        (out,) = ins.outputs
        before = [chain_of[slot] for slot in ins.inputs if slot in chain_of]
        is_matrix = out in between and len(program.slots[out].shape) == 2
        if not before and not is_matrix:
            continue
        step = _step(program, ins)
        made = step.contraction
        # one axis is of rows and one of columns, not both of rows
        has_both = len(made.rows) == len(made.columns) == 1
        is_long = is_matrix and not made.batch and has_both and is_tall(*made.amounts[1:])
        if not before and not is_long:
            continue
        chain = before[0] if before else _Chain([], [])
        for joined in before[1:]:
            if joined is not chain:
                chain.slots.extend(joined.slots)
                chain.steps.extend(joined.steps)
                chain_of.update(dict.fromkeys(joined.slots, chain))
        chain.steps.append(step)
        if is_long:
            chain.slots.append(out)
            chain_of[out] = chain
    found: dict[int, Axes] = {}
    for slots, products in {id(chain): chain for chain in chain_of.values()}.values():
        rows: dict[int, Axes] = {
            slot: program.slots[slot].layout or tuple(range(len(program.slots[slot].shape)))
            for step in products
            for slot in step.slots
        }
        turned: dict[int, Axes] = rows | dict.fromkeys(slots, (1, 0))
        plain, other = (sum(step.seconds(orders) for step in products) for orders in (rows, turned))
        if other < plain:
            found |= dict.fromkeys(slots, (1, 0))
    return found


def _in_lines(program: Program, between: set[int], results: dict[int, Axes]) -> dict[int, Axes]:
    """Small arrays whose maker reads batches that lie last in both operands have them last, too, where that
    costs less in all, with what reads them. Larger ones are searched for."""
    found: dict[int, Axes] = {}
    reader = {slot: ins for ins in program.instructions for slot in ins.inputs if slot in between}

    def lying(step: _Step) -> dict[int, Axes]:
        return {
            slot: found.get(slot) or program.slots[slot].layout or tuple(range(len(labels)))
            for slot, labels in zip(step.slots, step.labels, strict=True)
        }

    for ins in program.instructions:
        (out, *_) = ins.outputs
        small = (out in between or out in results) and program.slots[out].nbytes < LEAST
        if not small or not ins.attrs["batch"][0] or not ins.attrs["contracting"][0]:
            continue
        step = _step(program, ins)
        lie = lying(step)
        batch = _last_of_both(step, lie)
        if step.contraction.size(batch) < SHORTEST:
            continue
        plain = results.get(out, lie[out])
        last = (*(axis for axis in plain if axis not in batch), *batch)
        then = _step(program, reader[out]) if out in reader else None
        if _seconds(step, then, lie, last) < GAIN * _seconds(step, then, lie, lie[out]):
            found[out] = last
    return found


def _last_of_both(step: _Step, lie: dict[int, Axes]) -> Axes:
    """The batches that are the last axes of both operands, as they lie."""
    lhs, rhs = step.order(0, lie) or (), step.order(1, lie) or ()
    found: list[int] = []
    for x, y in zip(reversed(lhs), reversed(rhs), strict=False):
        if x != y or x not in step.contraction.batch:
            break
        found.insert(0, x)
    return tuple(found)


def _seconds(step: _Step, then: _Step | None, lie: dict[int, Axes], order: Axes) -> float:
    """Of a product whose result lies in this order, and of the one that reads it, which may write what it
    makes as its operands lie."""
    out = step.slots[2]
    seconds = step.seconds(lie | {out: order})
    if then is None:
        return seconds
    orders = {
        slot: order if slot == out else lie.get(slot, tuple(range(len(labels))))
        for slot, labels in zip(then.slots, then.labels, strict=True)
    }
    batch = _last_of_both(then, orders)
    plain = orders[then.slots[2]]
    last = (*(axis for axis in plain if axis not in batch), *batch)
    return seconds + min(then.seconds(orders), then.seconds(orders | {then.slots[2]: last}))


def _searched(
    program: Program,
    between: set[int],
    found: dict[int, Axes | None],
    results: dict[int, Axes],
) -> dict[int, Axes | None]:
    """The layouts of the largest slots, results that may lie anyhow among them; those of others are as
    found, or as they were."""
    large = [slot for slot in (*between, *results) if program.slots[slot].nbytes >= LEAST]
    by_size = sorted(large, key=lambda slot: (-program.slots[slot].nbytes, slot))[:MOST_SLOTS]
    free = set(by_size)
    if not free:
        return {}
    alike: dict[Any, dict[Orders, float]] = {}  # of equal products, by the key of their contraction
    steps = [
        _step(program, ins, alike)
        for ins in program.instructions
        if _is_product(program, ins) and not free.isdisjoint(ins.inputs + ins.outputs)
    ]
    maker = {step.slots[2]: step for step in steps}
    reader = {slot: step for step in steps for slot in step.slots[:2]}
    rows: dict[int, Axes] = {}
    for slot in {slot for step in steps for slot in step.slots}:
        layout = None if slot in free else found.get(slot, program.slots[slot].layout)
        rows[slot] = tuple(range(len(program.slots[slot].shape))) if layout is None else layout
    orders = {slot: order for slot, order in rows.items() if slot not in free}
    around = {slot: _around(slot, maker, reader) for slot in by_size}
    seen: dict[int, list[Axes | None]] = {}  # what was decided around a slot when it was looked at
    for _ in range(SWEEPS):
        before = dict(orders)
        for slot in by_size:
            decided = [orders.get(x) for x in around[slot]]
            if seen.get(slot) == decided:
                continue  # the same would come out
            seen[slot] = decided
            if slot in results:
                orders[slot] = _best_result(slot, maker[slot], orders, results[slot])
            else:
                orders[slot] = _best_order(slot, maker[slot], reader[slot], orders)
        if orders == before:
            break
    plain, chosen = (sum(step.seconds(each) for step in steps) for each in (rows, orders))
    if plain <= chosen:
        return dict.fromkeys(free)
    return {slot: None if orders[slot] == rows[slot] else orders[slot] for slot in by_size}


def _around(slot: int, maker: dict[int, _Step], reader: dict[int, _Step]) -> list[int]:
    """The other slots of the products that make and read this one."""
    steps = [step for step in (maker.get(slot), reader.get(slot)) if step is not None]
    return [x for step in steps for x in step.slots if x != slot]


def _is_product(program: Program, ins: Instruction) -> bool:
    """Of two operands of one dtype: the model does not know the pairs of a real and a complex one."""
    return ins.op == "dot_general" and len({x.dtype for x in program.specs(ins.inputs)}) == 1


def _step(
    program: Program, ins: Instruction, alike: dict[Any, dict[Orders, float]] | None = None
) -> _Step:
    lhs, rhs = program.specs(ins.inputs[:2])
    dims = known_dims(ins.attrs, lhs.shape, rhs.shape)
    contraction, left, right = contraction_of(dims, lhs, rhs)
    out = tuple(range(len(program.slots[ins.outputs[0]].shape)))
    slots = (ins.inputs[0], ins.inputs[1], ins.outputs[0])
    known = {} if alike is None else alike.setdefault(contraction.key, {})
    return _Step(slots, contraction, (left, right, out), known)


def _best_order(slot: int, maker: _Step, reader: _Step, orders: dict[int, Axes]) -> Axes:
    candidates = _candidates(slot, maker, reader, orders)
    if slot in orders:
        candidates.insert(0, orders[slot])
    best, least = candidates[0], math.inf
    made, read = maker.by_order(slot, orders), reader.by_order(slot, orders)
    for order in dict.fromkeys(candidates):
        seconds = made(order)
        if seconds < least * (1 - 1e-9):
            seconds += read(order)
        if seconds < least * (1 - 1e-9):
            best, least = order, seconds
    return best


def _best_result(slot: int, maker: _Step, orders: dict[int, Axes], plain: Axes) -> Axes:
    """An order for what nobody reads but the caller: `plain`, or what costs clearly less."""
    made, taken = maker.contraction, maker.by_order(slot, orders)
    best, least = plain, math.inf
    for axes in (plain, _seen(maker, orders)):
        groups = _grouped(
            axes, [0 if x in made.batch else 1 if x in made.rows else 2 for x in axes]
        )
        for order in (axes, *(_joined(*some) for some in permutations(groups))):
            seconds = taken(order)
            if seconds < least * GAIN:
                best, least = order, seconds
    return best


def along(made: Contraction, lie: tuple[Axes, Axes], plain: Axes) -> Axes:
    """The order of a result that sums nothing, of operands that `lie` so: `plain`, if it is written in long
    lines; else shared axes first and then those of one operand as they lie in it, or last all of the larger
    operand as it lies, where that is clearly better. Small results are written by NumPy, which takes longer
    to begin a line."""
    nbytes = made.nbytes[2]
    if nbytes < SOME:
        return plain
    line, copy, gain = BY_KERNELS if nbytes >= LEAST else BY_NUMPY

    def time(order: Axes) -> float:
        """In that of elements of the result."""
        lines = lines_of(made.sizes, *lie, order)
        return 1 + line / lines.length + copy * lines.elements / made.size(order)

    best, least = plain, gain * time(plain)
    if least <= 1:  # no order takes less
        return plain
    larger, other = sorted(lie, key=made.size, reverse=True)
    shared = [x for x in larger if x in other]
    owned = [[x for x in lying if x not in shared] for lying in (other, larger)]
    orders = [(shared, *owned), (shared, *owned[::-1]), (owned[0], larger)]
    for order in (_joined(*parts) for parts in orders):
        if (taken := time(order)) < least:
            best, least = order, taken
    return best


def _candidates(slot: int, maker: _Step, reader: _Step, orders: dict[int, Axes]) -> list[Axes]:
    """Orders of the axes of `slot` in which those of one role, for its maker and for its reader, are
    neighbours; within a role as the arrays around have them."""
    side = reader.slots.index(slot)
    made, used = maker.contraction, reader.contraction
    role: dict[int, tuple[int, int]] = {}
    for axis, label in enumerate(reader.labels[side]):
        use = 0 if label in used.batch else 1 if label in used.contracted else 2
        role[axis] = (use, 0 if axis in made.batch else 1 if axis in made.rows else 2)
    found: list[Axes] = []
    for axes in _hints(slot, side, maker, reader, orders):
        batch = [axis for axis in axes if role[axis][0] == 0]
        rest = [axis for axis in axes if role[axis][0] != 0]
        groups = _grouped(rest, [role[axis] for axis in rest])
        front = [] if len(groups) <= GROUPS else [x for x in groups if role[x[0]][1] == 0]
        others = [x for x in groups if x not in front]
        if len(others) <= GROUPS:
            found += [_joined(batch, *front, *some) for some in permutations(others)]
        if batch:  # innermost, for loop nests that are vectorised over them
            found += [_joined(*some, batch) for some in (groups, groups[::-1])]
        for pair in (
            _grouped(rest, [role[axis][0] for axis in rest]),
            _grouped(rest, [role[axis][1] for axis in rest]),
        ):
            found += [_joined(batch, *some) for some in (pair, pair[::-1])]
        by_maker = _grouped(axes, [role[axis][1] for axis in axes])
        by_maker.sort(key=lambda group: role[group[0]][1])
        found.append(_joined(*by_maker))
    return list(dict.fromkeys(found))


def _hints(
    slot: int, side: int, maker: _Step, reader: _Step, orders: dict[int, Axes]
) -> Iterator[Axes]:
    """All axes of `slot`: as its maker's operands have them, then as what its reader meets has them."""
    seen = _seen(maker, orders)
    yield seen
    axis_of = {label: axis for axis, label in enumerate(reader.labels[side])}
    met: dict[int, None] = {}
    for k in (1 - side, 2):
        met |= dict.fromkeys(axis_of[x] for x in reader.order(k, orders) or () if x in axis_of)
    if met:
        yield tuple(met | dict.fromkeys(seen))


def _seen(maker: _Step, orders: dict[int, Axes]) -> Axes:
    """The axes of what is made, as the operands have them."""
    n = len(maker.labels[2])
    seen: dict[int, None] = {}
    for k in (0, 1):
        seen |= dict.fromkeys(x for x in maker.order(k, orders) or maker.labels[k] if x < n)
    return tuple(seen)


def _grouped(axes: Sequence[int], roles: Sequence[object]) -> list[Axes]:
    groups: dict[object, list[int]] = {}
    for axis, role in zip(axes, roles, strict=True):
        groups.setdefault(role, []).append(axis)
    return [tuple(group) for group in groups.values()]


def _joined(*groups: Iterable[int]) -> Axes:
    return tuple(axis for group in groups for axis in group)

"""An axis of the result in parts, side by side: each thread does all steps for its share of it.

Where a batch goes through most of a network, every thread can do everything for some of the batch. The
shares take equally long, and what lies between their steps is as much smaller as there are more of them,
which cannot be said of subtrees side by side (`branches`). What does not have the axis is computed once,
before; inputs are cut by views, and results are joined, which must not be much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ..backend.catalogue import known_dims
from ..backend.cost_model import MODELS
from ..backend.prediction import Prediction
from ..backend.spec import Axes
from .ir import Instruction, Program, Slot, instruction

FEWEST = 16  # elements of the axis for each thread
WAIT = 5e-6
"""Seconds for each step that threads side by side wait for the interpreter's lock, on the average: a thread
that finds it taken sleeps, and is awake again some 40 µs later."""
TRIED = 2  # axes of the result, the longest first


class Sharing(NamedTuple):
    """An axis that is shared out: which slot is joined of its shares, and which of its axes that is for each
    slot below; predicted seconds of the program."""

    output: int
    axis_of: dict[int, int]
    seconds: float


class Shares(NamedTuple):
    """What is done once before, one program for each thread, and what joins their results."""

    before: tuple[Instruction, ...]
    parts: tuple[Program, ...]
    after: tuple[Instruction, ...]


def in_shares(
    program: Program,
    threads: int,
    together: Sequence[float],
    seconds_of: Callable[[Program, Instruction], Prediction],
) -> Sharing | None:
    """The cheapest way to share out an axis of the only output; None where that is not possible. `together`
    are the seconds of each instruction on all threads."""
    output = _shared_output(program)
    slot = program.slots[output]
    if slot.layout is not None or program.indices or output in program.inputs:
        return None
    best: Sharing | None = None
    shape = slot.shape
    for axis in sorted(range(len(shape)), key=lambda k: (-shape[k], k))[:TRIED]:
        if shape[axis] < FEWEST * threads:
            break
        axis_of = _carried(program, output, axis)
        if axis_of is not None:
            seconds = _seconds(program, output, axis_of, threads, together, seconds_of)
            if best is None or seconds < best.seconds:
                best = Sharing(output, axis_of, seconds)
    return best


def _shared_output(program: Program) -> int:
    """The slot of which the output is a transpose, or the output."""
    makers = {slot: ins for ins in program.instructions for slot in ins.outputs}
    (output,) = program.outputs
    while output in makers and makers[output].op == "transpose":
        (output,) = makers[output].inputs
    return output


def _carried(program: Program, output: int, axis: int) -> dict[int, int] | None:
    """Which axis of each slot below `output` is that axis of it; None where a step needs more of a slot than
    its share, or does to the axis what is not known here."""
    found, whole = {output: axis}, set[int]()
    shown = {*program.outputs}
    for ins in reversed(program.instructions):
        if not shown.isdisjoint(ins.outputs) and output not in ins.outputs:
            shown.update(ins.inputs)  # transposes of the output
            continue
        carried = [found[slot] for slot in ins.outputs if slot in found]
        if not carried:
            whole.update(ins.inputs)
            continue
        axes = _below(program, ins, carried[0])
        if axes is None:
            return None
        for slot, own in zip(ins.inputs, axes, strict=True):
            if own is None:
                whole.add(slot)
            elif found.setdefault(slot, own) != own:
                return None
    is_known = not any(program.slots[slot].bounds for slot in found)
    return found if is_known and whole.isdisjoint(found) else None


def _below(program: Program, ins: Instruction, axis: int) -> tuple[int | None, ...] | None:
    """The axes of the operands that are this axis of the result."""
    if ins.op == "transpose":
        return (ins.attrs["perm"][axis],)
    if ins.op != "dot_general":
        return None
    lhs, rhs = program.specs(ins.inputs)
    dims = known_dims(ins.attrs, lhs.shape, rhs.shape)
    n_batch, n_left = len(dims.lhs_batch), len(dims.lhs_batch + dims.lhs_free)
    if axis < n_batch:
        return dims.lhs_batch[axis], dims.rhs_batch[axis]
    if axis < n_left:
        return dims.lhs_free[axis - n_batch], None
    return None, dims.rhs_free[axis - n_left]


def _seconds(
    program: Program,
    output: int,
    axis_of: dict[int, int],
    threads: int,
    together: Sequence[float],
    seconds_of: Callable[[Program, Instruction], Prediction],
) -> float:
    """Of what is done once, of the largest share, and of cutting and joining."""
    model = MODELS.current
    largest = -(-program.slots[output].shape[axis_of[output]] // threads)
    slots = [
        _cut(slot, axis_of[at], largest) if at in axis_of else slot
        for at, slot in enumerate(program.slots)
    ]
    part = replace(program, slots=tuple(slots))
    seconds = 0.0
    for ins, spent in zip(program.instructions, together, strict=True):
        is_inside = not axis_of.keys().isdisjoint(ins.outputs)
        wait = 0.0 if ins.is_view else WAIT
        seconds += seconds_of(part, ins).seconds + wait if is_inside else spent
    # what is cut across its rows is no longer one run in memory, and may have to be copied
    broken = sum(
        program.slots[slot].nbytes
        for slot in program.inputs
        if slot in axis_of and math.prod(program.slots[slot].shape[: axis_of[slot]]) > 1
    )
    return seconds + (broken / threads + program.slots[output].nbytes) / model.moves


def made_shares(program: Program, sharing: Sharing, threads: int) -> Shares:
    """The program in so many shares. Each has slots of its own for what carries the axis."""
    output, axis_of, _ = sharing
    slots = [*program.slots]
    size = slots[output].shape[axis_of[output]]
    inside = [ins for ins in program.instructions if not axis_of.keys().isdisjoint(ins.outputs)]
    last = _after(program, output)
    elsewhere = {slot for ins in (*last, *inside) for slot in ins.outputs}
    before = [ins for ins in program.instructions if elsewhere.isdisjoint(ins.outputs)]
    bodies: list[tuple[Instruction, ...]] = []
    results: list[int] = []
    for start, stop in pairwise(size * k // threads for k in range(threads + 1)):
        place: dict[int, int] = {}
        for slot, axis in axis_of.items():
            place[slot] = len(slots)
            slots.append(_cut(program.slots[slot], axis, stop - start))
        for slot in program.inputs:
            if slot in axis_of:
                before.append(_slice(program, slot, axis_of[slot], start, stop, place[slot]))
        bodies.append(tuple(_placed(ins, place) for ins in inside))
        results.append(place[output])
    held = tuple(slots)
    parts = tuple(_part(held, *one) for one in zip(bodies, results, strict=True))
    joined = instruction("concatenate", tuple(results), (output,), {"axis": axis_of[output]})
    return Shares(tuple(before), parts, (joined, *last))


def _after(program: Program, output: int) -> list[Instruction]:
    """The transposes that show this slot as the output."""
    shown, found = {output}, []
    for ins in program.instructions:
        if ins.op == "transpose" and not shown.isdisjoint(ins.inputs):
            shown.update(ins.outputs)
            found.append(ins)
    return found


def _placed(ins: Instruction, place: dict[int, int]) -> Instruction:
    inputs, outputs = (
        tuple(place.get(slot, slot) for slot in slots) for slots in (ins.inputs, ins.outputs)
    )
    return replace(ins, inputs=inputs, outputs=outputs)


def _part(slots: tuple[Slot, ...], body: tuple[Instruction, ...], result: int) -> Program:
    made = {slot for ins in body for slot in ins.outputs}
    taken = dict.fromkeys(slot for ins in body for slot in ins.inputs if slot not in made)
    return Program(slots, body, tuple(taken), (result,))


def _cut(slot: Slot, axis: int, size: int) -> Slot:
    shape = (*slot.shape[:axis], size, *slot.shape[axis + 1 :])
    return replace(slot, spec=replace(slot.spec, shape=shape))


def _slice(program: Program, slot: int, axis: int, start: int, stop: int, part: int) -> Instruction:
    shape = program.slots[slot].shape
    starts: Axes = tuple(start if k == axis else 0 for k in range(len(shape)))
    stops: Axes = tuple(stop if k == axis else n for k, n in enumerate(shape))
    steps = (1,) * len(shape)
    return instruction(
        "slice", (slot,), (part,), {"starts": starts, "stops": stops, "steps": steps}
    )

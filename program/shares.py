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
TRIED = 2  # axes of the result, the longest first


class Shares(NamedTuple):
    """The program in shares, one program for each thread, and its predicted seconds."""

    before: tuple[Instruction, ...]
    parts: tuple[Program, ...]
    after: tuple[Instruction, ...]
    seconds: float


def in_shares(
    program: Program,
    threads: int,
    together: Sequence[float],
    seconds_of: Callable[[Program, Instruction], Prediction],
) -> Shares | None:
    """The cheapest way to share out an axis of the only output; None where that is not possible. `together`
    are the seconds of each instruction on all threads."""
    (output,) = program.outputs
    makers = {slot: ins for ins in program.instructions for slot in ins.outputs}
    last: list[Instruction] = []  # transposes of what is shared out
    while output in makers and makers[output].op == "transpose":
        last.insert(0, makers[output])
        (output,) = makers[output].inputs
    slot = program.slots[output]
    if output not in makers or slot.layout is not None or program.indices:
        return None
    best: Shares | None = None
    shape = slot.shape
    for axis in sorted(range(len(shape)), key=lambda k: (-shape[k], k))[:TRIED]:
        if shape[axis] < FEWEST * threads:
            break
        axis_of = _carried(program, output, axis)
        if axis_of is not None:
            found = _shared(program, output, axis_of, threads, last, together, seconds_of)
            if best is None or found.seconds < best.seconds:
                best = found
    return best


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


def _shared(
    program: Program,
    output: int,
    axis_of: dict[int, int],
    threads: int,
    last: Sequence[Instruction],
    together: Sequence[float],
    seconds_of: Callable[[Program, Instruction], Prediction],
) -> Shares:
    model = MODELS.current
    slots, whole = [*program.slots], program.slots[output]
    size = whole.shape[axis_of[output]]
    bounds = [size * k // threads for k in range(threads + 1)]
    inside = [ins for ins in program.instructions if not axis_of.keys().isdisjoint(ins.outputs)]
    elsewhere = {slot for ins in (*last, *inside) for slot in ins.outputs}
    before: list[Instruction] = []
    seconds = 0.0
    for ins, spent in zip(program.instructions, together, strict=True):
        if elsewhere.isdisjoint(ins.outputs):
            before.append(ins)
            seconds += spent
    bodies: list[tuple[Instruction, ...]] = []
    for start, stop in pairwise(bounds):
        place: dict[int, int] = {}
        for slot, axis in axis_of.items():
            place[slot] = len(slots)
            slots.append(_cut(program.slots[slot], axis, stop - start))
        for slot in program.inputs:
            if slot in axis_of:
                before.append(_slice(program, slot, axis_of[slot], start, stop, place[slot]))
        bodies.append(
            tuple(
                replace(
                    ins,
                    inputs=tuple(place.get(slot, slot) for slot in ins.inputs),
                    outputs=tuple(place[slot] for slot in ins.outputs),
                )
                for ins in inside
            )
        )
    held = tuple(slots)
    parts: list[Program] = []
    for body in bodies:
        made = {slot for ins in body for slot in ins.outputs}
        taken = dict.fromkeys(slot for ins in body for slot in ins.inputs if slot not in made)
        root = next(ins for ins, old in zip(body, inside, strict=True) if output in old.outputs)
        parts.append(Program(held, body, tuple(taken), root.outputs))
    results = tuple(part.outputs[0] for part in parts)
    joined = instruction("concatenate", results, (output,), {"axis": axis_of[output]})
    seconds += max(
        sum(seconds_of(part, ins).seconds for ins in part.instructions) for part in parts
    )
    # what is cut across its rows is no longer one run in memory, and may have to be copied
    broken = sum(
        program.slots[slot].nbytes
        for slot in program.inputs
        if slot in axis_of and math.prod(program.slots[slot].shape[: axis_of[slot]]) > 1
    )
    seconds += (broken / threads + whole.nbytes) / model.moves
    return Shares(tuple(before), tuple(parts), (joined, *last), seconds)


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

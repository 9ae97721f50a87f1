"""Shared by the passes: renaming slots, counting their uses, writing instructions over new slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...backend.catalogue import infer
from ..ir import Instruction, Program, Slot, instruction

DOTS = frozenset(("dot_general", "dot_general_add"))
"""Ops over lhs and rhs, whose axes `batch` and `contracting` name; `conj` flags them."""

Names = dict[int, int]
"""For a slot that is no longer made, the slot that holds the same."""


def renamed(ins: Instruction, names: Names) -> Instruction:
    """`ins` reading names[slot] for every slot that is renamed."""
    if not any(slot in names for slot in ins.inputs):
        return ins
    return replace(ins, inputs=tuple(names.get(slot, slot) for slot in ins.inputs))


def with_body(
    program: Program, body: list[Instruction], names: Names, slots: list[Slot] | None = None
) -> Program:
    """`program` with other instructions and perhaps more slots, returning the renamed output slots."""
    return replace(
        program,
        slots=program.slots if slots is None else tuple(slots),
        instructions=tuple(body),
        outputs=tuple(names.get(slot, slot) for slot in program.outputs),
    )


def until_stable(step: Callable[[Program], Program], program: Program) -> Program:
    """`step` again and again, until it finds nothing more to do."""
    while (after := step(program)) != program:
        program = after
    return program


def use_counts(program: Program) -> Counter[int]:
    """How often each slot is read or returned."""
    counts = Counter(program.outputs)
    for ins in program.instructions:
        counts.update(ins.inputs)
    return counts


def shown_by_outputs(program: Program) -> set[int]:
    """Slots whose memory an output shows, or may show.

    Whether a result is a view of an operand is not for a pass to change: what stands here and is made
    by a kernel must not become a view.
    """
    shown = set(program.outputs)
    for ins in reversed(program.instructions):
        if ins.may_view and shown.intersection(ins.outputs):
            shown.add(ins.inputs[0])
    return shown


def is_bounded(program: Program, ins: Instruction) -> bool:
    """Whether a size that `ins` meets is only an upper bound: what is 1 there may be 0."""
    return any(program.slots[slot].bounds for slot in ins.inputs + ins.outputs)


class Body:
    """Instructions over the slots of a program and new ones behind them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.slots = list(program.slots)
        self.instructions: list[Instruction] = []

    def append(self, ins: Instruction) -> None:
        self.instructions.append(ins)

    def __call__(self, op: str, *operands: int, out: int | None = None, **attrs: Any) -> int:
        """Append an op with one output, which is slot `out` or a new slot; returns the output."""
        made = instruction(op, operands, (), attrs)
        if out is None:
            (spec,) = infer(op, made.attrs, tuple(self.slots[slot].spec for slot in operands))
            out = len(self.slots)
            self.slots.append(Slot(spec))
        self.append(replace(made, outputs=(out,)))
        return out

    def finish(self) -> Program:
        return with_body(self.program, self.instructions, {}, self.slots)

"""Shared by the passes: renaming slots in instructions and outputs."""

from __future__ import annotations

from dataclasses import replace

from ..ir import Instruction, Program


def renamed(ins: Instruction, names: dict[int, int]) -> Instruction:
    """`ins` reading names[slot] for every slot that is renamed."""
    if not any(slot in names for slot in ins.inputs):
        return ins
    return replace(ins, inputs=tuple(names.get(slot, slot) for slot in ins.inputs))


def with_body(program: Program, body: list[Instruction], names: dict[int, int]) -> Program:
    """`program` with other instructions, returning the renamed output slots."""
    outputs = tuple(names.get(slot, slot) for slot in program.outputs)
    return replace(program, instructions=tuple(body), outputs=outputs)

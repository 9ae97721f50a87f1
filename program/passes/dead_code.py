"""An instruction none of whose results is used is dropped, and slots are numbered afresh.

Precondition: a verified program. Postcondition: every slot is an input or written, and is read or
returned; slots are numbered in order of first writing, inputs first.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Instruction, Program


def dead_code(program: Program) -> Program:
    live = set(program.outputs)
    body: list[Instruction] = []
    for ins in reversed(program.instructions):
        if live.intersection(ins.outputs):
            live.update(ins.inputs)
            body.append(ins)
    body.reverse()
    order = list(program.inputs)
    for ins in body:
        order.extend(ins.outputs)
    if len(body) == len(program.instructions) and order == list(range(len(program.slots))):
        return program
    number = {slot: index for index, slot in enumerate(order)}
    return replace(
        program,
        slots=tuple(program.slots[slot] for slot in order),
        instructions=tuple(
            replace(
                ins,
                inputs=tuple(number[slot] for slot in ins.inputs),
                outputs=tuple(number[slot] for slot in ins.outputs),
            )
            for ins in body
        ),
        inputs=tuple(number[slot] for slot in program.inputs),
        outputs=tuple(number[slot] for slot in program.outputs),
    )

"""A program in two parts: what can be known before, and the rest, which takes its results."""

from __future__ import annotations

from .ir import Program


def split(program: Program) -> tuple[Program, Program]:
    """(what depends on no static index, the rest); the outputs of the first are inputs of the second.

    Slots keep their numbers. The second takes first the inputs of `program` that it reads.
    """
    once, each = _parted(program, set())
    read = {slot for ins in each.instructions for slot in ins.inputs} | {*each.outputs}
    own = tuple(slot for slot in program.inputs if slot in read)
    return once, _taking(each, (*own, *once.outputs))


def split_constants(program: Program, positions: frozenset[int]) -> tuple[Program, Program]:
    """(what depends on the inputs at `positions` alone, the rest).

    The second takes the other inputs of `program`, then what is left of the constants: those that it reads
    itself, and the results of the first. It makes the result in any case: every call has one of its own.
    """
    free = [slot for at, slot in enumerate(program.inputs) if at not in positions]
    before, after = _parted(program, set(free))
    made = {slot for ins in before.instructions for slot in ins.outputs}
    if made.intersection(program.outputs):
        before = Program(program.slots, (), (), ())
        after = program
    read = {slot for ins in after.instructions for slot in ins.inputs} | {*after.outputs}
    constants = (slot for at, slot in enumerate(program.inputs) if at in positions)
    return before, _taking(
        after, (*free, *(slot for slot in constants if slot in read), *before.outputs)
    )


def _parted(program: Program, changing: set[int]) -> tuple[Program, Program]:
    """Instructions that depend on neither a static index nor these slots, and the others; only the first
    part has its inputs, and as outputs what the second reads."""
    depends = set(changing)
    for ins in program.instructions:
        if ins.indices or depends.intersection(ins.inputs):
            depends.update(ins.outputs)
    first = tuple(ins for ins in program.instructions if not depends.issuperset(ins.outputs))
    second = tuple(ins for ins in program.instructions if depends.issuperset(ins.outputs))
    made = {slot for ins in first for slot in ins.outputs}
    read = dict.fromkeys([slot for ins in second for slot in ins.inputs] + [*program.outputs])
    needed = {slot for ins in first for slot in ins.inputs}
    return (
        Program(
            program.slots,
            first,
            tuple(slot for slot in program.inputs if slot in needed),
            tuple(slot for slot in read if slot in made),
        ),
        Program(program.slots, second, (), program.outputs, program.indices),
    )


def _taking(program: Program, inputs: tuple[int, ...]) -> Program:
    return Program(program.slots, program.instructions, inputs, program.outputs, program.indices)

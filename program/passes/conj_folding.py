"""dot(conj x, y) = dot(x, y; conj=(True, False)), where nothing else reads the conj.

Views between the conj and the product stay: a view of a conjugate is the conjugate of a view. One that
repeats elements is not passed, since more would be conjugated; nor is one that something else reads. Where
both operands are the same conjugate, both flags are set. A conj that is the same for all values of the
static indices stays, if the product is not: it runs once, a flag would run for every slice.

Precondition: a verified program. Postcondition: no dot_general and no dot_general_add reads a complex conj
that nothing else reads, itself or by views of no more elements that nothing else reads, unless the product
alone depends on a static index.
"""

from __future__ import annotations

from ...backend.dtypes import class_of
from ...backend.rules import NO_CONJ
from ..ir import Instruction, Program, instruction
from .rewrite import DOTS, Names, renamed, until_stable, use_counts, with_body


def conj_folding(program: Program) -> Program:
    if "conj" not in program.op_counts or not DOTS & program.op_counts.keys():
        return program
    return until_stable(_folded, program)


def _folded(program: Program) -> Program:
    found = _Conjugates(program)
    names: Names = {}
    body: list[Instruction] = []
    for ins in program.instructions:
        if ins.op in DOTS:
            ins = _without_conj(ins, found, names)
        body.append(ins)
    kept = [renamed(ins, names) for ins in body if not names.keys() & set(ins.outputs)]
    return with_body(program, kept, names)


def _without_conj(ins: Instruction, found: _Conjugates, names: Names) -> Instruction:
    flags = list(ins.attrs.get("conj", NO_CONJ))
    sides = ins.inputs[:2]
    for x in dict.fromkeys(sides):
        conj = found.behind(x, sides.count(x))
        if conj is not None and not found.runs_once(conj, ins):
            names[conj.outputs[0]] = conj.inputs[0]
            flags = [flag != (y == x) for flag, y in zip(flags, sides, strict=True)]
    return instruction(ins.op, ins.inputs, ins.outputs, ins.attrs | {"conj": tuple(flags)})


class _Conjugates:
    """Who makes the slots of a program, how many read them, and which depend on static indices."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.made = {slot: ins for ins in program.instructions for slot in ins.outputs}
        self.uses = use_counts(program)
        self.depends: set[int] = set()
        for ins in program.instructions if program.indices else ():
            if ins.indices or self.depends.intersection(ins.inputs):
                self.depends.update(ins.outputs)

    def runs_once(self, conj: Instruction, product: Instruction) -> bool:
        return product.outputs[0] in self.depends and conj.outputs[0] not in self.depends

    def behind(self, x: int, uses: int) -> Instruction | None:
        """The conj that makes x, read so often, directly or by views that nothing else reads."""
        while x in self.made and self.uses[x] == uses:
            ins, uses = self.made[x], 1
            if ins.op == "conj":
                # of objects conj may turn products round, as that of quaternions does
                return ins if class_of(self.program.slots[x].dtype) == "complex" else None
            if not ins.may_view or len(ins.outputs) > 1 or self._grows(ins):
                return None
            x = ins.inputs[0]
        return None

    def _grows(self, ins: Instruction) -> bool:
        before, after = self.program.specs((ins.inputs[0], ins.outputs[0]))
        return after.size > before.size

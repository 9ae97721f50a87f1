"""dot(transpose_p(x), y; axes) = dot(x, y; p[axes]), where the free axes of x keep their order.

The free axes of an operand appear in the result in increasing order, so a transpose that reorders
them cannot be folded; batch and contracting axes are listed explicitly and may map anywhere.
Precondition: a verified program without transposes of transposes.
"""

from __future__ import annotations

from ..ir import Instruction, Program, instruction
from .rewrite import DOTS, with_body


def transpose_folding(program: Program) -> Program:
    if "transpose" not in program.op_counts:
        return program
    source: dict[int, tuple[int, tuple[int, ...]]] = {}
    body: list[Instruction] = []
    for ins in program.instructions:
        if ins.op == "transpose":
            source[ins.outputs[0]] = (ins.inputs[0], ins.attrs["perm"])
        elif ins.op in DOTS:
            ins = _folded(ins, source, program)
        body.append(ins)
    return with_body(program, body, {})


def _folded(
    ins: Instruction, source: dict[int, tuple[int, tuple[int, ...]]], program: Program
) -> Instruction:
    operands, attrs = list(ins.inputs), ins.attrs
    contracting, batch = [list(attrs[name]) for name in ("contracting", "batch")]
    for side in (0, 1):
        if operands[side] not in source:
            continue
        x, perm = source[operands[side]]
        used = contracting[side] + batch[side]
        free = [perm[axis] for axis in range(len(perm)) if axis not in used]
        if free == sorted(free):
            operands[side] = x
            contracting[side] = tuple(perm[axis] for axis in contracting[side])
            batch[side] = tuple(perm[axis] for axis in batch[side])
    attrs |= {"contracting": contracting, "batch": batch}
    return instruction(ins.op, tuple(operands), ins.outputs, attrs)

"""transpose_q(transpose_p(x)) = transpose_(p o q)(x), and transpose_identity(x) = x.

Precondition: a verified program. Postcondition: no transpose reads a transpose, none is the
identity. A transpose whose result is returned stays an instruction only if it changes something.
"""

from __future__ import annotations

from ..ir import Instruction, Program, instruction
from .rewrite import renamed, with_body


def merge_transposes(program: Program) -> Program:
    names: dict[int, int] = {}
    source: dict[
        int, tuple[int, tuple[int, ...]]
    ] = {}  # slot -> (x, p) where slot = transpose_p(x)
    body: list[Instruction] = []
    for old in program.instructions:
        ins = renamed(old, names)
        if ins.op == "transpose":
            (x,), (out,), perm = ins.inputs, ins.outputs, ins.attrs["perm"]
            if x in source:
                x, inner = source[x]
                perm = tuple(inner[axis] for axis in perm)
            if perm == tuple(range(len(perm))):
                names[out] = x
                continue
            source[out] = (x, perm)
            ins = instruction("transpose", (x,), (out,), {"perm": perm})
        body.append(ins)
    return with_body(program, body, names)

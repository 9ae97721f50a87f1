"""op[a](x) computed twice is computed once.

Precondition: a verified program. Postcondition: no two instructions have equal op, attributes and
inputs, extensions excepted (a runtime may keep state).
"""

from __future__ import annotations

from typing import Any

from ..ir import Instruction, Program
from .rewrite import renamed, with_body


def common_subexpressions(program: Program) -> Program:
    names: dict[int, int] = {}
    seen: dict[Any, tuple[int, ...]] = {}
    body: list[Instruction] = []
    for old in program.instructions:
        ins = renamed(old, names)
        if ins.family is None:
            # repr: 0.0 == -0.0 and 1 == True, but as constants they are not the same
            known = seen.setdefault((ins.op, repr(ins.attributes), ins.inputs), ins.outputs)
            if known is not ins.outputs:
                names.update(zip(ins.outputs, known, strict=True))
                continue
        body.append(ins)
    return with_body(program, body, names) if names else program

"""dot(x, y; pairs of contracted axes) = dot(x, y; the same pairs in another order): they are sorted.

By the axes of the left operand, so that what lies in order in memory is read in order; by those of the
right one where only they are neighbours. Batch axes stay: their order is that of the result's first axes.
Precondition: a verified program. Postcondition: the contracted axes of each dot_general increase, on the
left, or on the right where only they are neighbours.
"""

from __future__ import annotations

from operator import is_

from ...backend.spec import Axes
from ..ir import Instruction, Program, instruction
from .rewrite import DOTS, with_body


def dot_dimension_sorting(program: Program) -> Program:
    body = [_sorted(ins) for ins in program.instructions]
    if all(map(is_, body, program.instructions)):
        return program
    return with_body(program, body, {})


def _sorted(ins: Instruction) -> Instruction:
    if ins.op not in DOTS or len(ins.attrs["contracting"][0]) < 2:
        return ins
    left, right = ins.attrs["contracting"]
    side = 1 if are_neighbours(right) and not are_neighbours(left) else 0
    if (left, right)[side] == tuple(sorted((left, right)[side])):
        return ins
    pairs = sorted(zip(left, right, strict=True), key=lambda pair: pair[side])
    attrs = ins.attrs | {"contracting": tuple(zip(*pairs, strict=True))}
    return instruction(ins.op, ins.inputs, ins.outputs, attrs)


def are_neighbours(axes: Axes) -> bool:
    """Whether the axes, sorted, follow one another."""
    return max(axes) - min(axes) == len(axes) - 1

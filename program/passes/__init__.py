"""The pass pipeline: each pass is `Program -> Program`, keeps results, and stands in its own file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..ir import Program
from .common_subexpressions import common_subexpressions
from .dead_code import dead_code
from .merge_transposes import merge_transposes
from .transpose_folding import transpose_folding


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite of whole programs and what it promises."""

    name: str
    law: str
    postcondition: str
    run: Callable[[Program], Program]


PIPELINE: tuple[Pass, ...] = (
    Pass(
        "common_subexpressions",
        "op[a](x) computed twice is computed once",
        "no two instructions have equal op, attributes and inputs",
        common_subexpressions,
    ),
    Pass(
        "merge_transposes",
        "transpose_q(transpose_p(x)) = transpose_(p o q)(x); transpose_identity(x) = x",
        "no transpose reads a transpose, and none is the identity",
        merge_transposes,
    ),
    Pass(
        "transpose_folding",
        "dot(transpose_p(x), y; axes) = dot(x, y; p[axes]) if free axes keep their order",
        "no dot_general reads a transpose that could be folded",
        transpose_folding,
    ),
    Pass(
        "dead_code",
        "an instruction none of whose results is used is dropped; slots are renumbered",
        "every slot is an input, an output, or read by an instruction",
        dead_code,
    ),
)
"""In order; the precondition of every pass is a verified program, and it returns one."""


def optimise(program: Program) -> Program:
    """`program` after every pass of the pipeline."""
    for one in PIPELINE:
        program = one.run(program)
    return program


def stages(program: Program) -> Iterator[tuple[str, Program]]:
    """The program as lowered and after each pass, by name."""
    yield "lowered", program
    for one in PIPELINE:
        program = one.run(program)
        yield one.name, program

"""What the programs written by hand share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from einloom.program.builder import Builder
from einloom.program.ir import Instruction, Program

Make = Callable[[Builder], tuple[int, ...]]
Rewrites = list[tuple[Make, list[str]]]


def dot(build: Builder, x: int, y: int, contracting: Any, batch: Any = ((), ())) -> int:
    return build("dot_general", x, y, contracting=contracting, batch=batch)


def body(program: Program) -> list[str]:
    """Instructions as they are printed, without their notes, and the outputs."""
    lines = [str(ins) for ins in program.instructions]
    return [*lines, f"return {', '.join(f'%{slot}' for slot in program.outputs)}"]


def made_by(program: Program, *ops: str) -> dict[int, Instruction]:
    """The instruction of one of these ops that makes a slot."""
    return {ins.outputs[0]: ins for ins in program.instructions if ins.op in ops}

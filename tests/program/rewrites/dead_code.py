"""dead_code: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from tests.program.rewrites.common import Rewrites

from einloom.program.builder import Builder
from einloom.program.ir import Program


def dead_ends(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2,)), b.input("f8", (2,))
    b("copy", b("add", x, y))
    kept = b("multiply", x, x)
    b("conj", kept)
    return (b("copy", kept),)


def input_returned(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (2,))
    b("copy", x)
    return x, x


REWRITES: Rewrites = [
    # program, listing afterwards
    (dead_ends, ["%2 = multiply(%0, %0)", "%3 = copy(%2)", "return %3"]),
    (input_returned, ["return %0, %0"]),
]


def holds(program: Program) -> None:
    """Slots are numbered as they are written, and every instruction yields something needed."""
    written = list(program.inputs)
    for ins in program.instructions:
        written.extend(ins.outputs)
    assert written == list(range(len(program.slots)))
    read = {slot for ins in program.instructions for slot in ins.inputs} | set(program.outputs)
    assert all(read.intersection(ins.outputs) for ins in program.instructions)

"""layout_assignment: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from collections import Counter

from tests.program.rewrites.common import Rewrites, dot

from einloom.program.builder import Builder
from einloom.program.ir import Program
from einloom.program.passes.layout_assignment import _shown


def chain(b: Builder) -> tuple[int, ...]:
    """The first product is contracted over an axis of each of its operands; with few columns, so by BLAS."""
    x, y = b.input("c16", (20, 50, 30)), b.input("c16", (30, 20, 50))
    z = b.input("c16", (20, 20, 5))
    return (dot(b, dot(b, x, y, ((2,), (0,))), z, ((0, 2), (0, 1))),)


def two_readers(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (300, 20, 30)), b.input("f8", (30, 20, 300))
    between = dot(b, x, y, ((2,), (0,)))
    return dot(b, between, x, ((0, 2), (0, 1))), dot(b, between, x, ((0,), (0,)))


def small(b: Builder) -> tuple[int, ...]:
    x, y, z = (b.input("f8", (4, 5, 6)) for _ in range(3))
    return (dot(b, dot(b, x, y, ((2,), (2,))), z, ((0, 3), (0, 1))),)


REWRITES: Rewrites = [
    # program, listing afterwards: the layouts stand in the notes, see test_layouts
    (
        chain,
        [
            "%3 = dot_general(%0, %1) [batch=((),()), contracting=((2,),(0,))]",
            "%4 = dot_general(%3, %2) [batch=((),()), contracting=((0,2),(0,1))]",
            "return %4",
        ],
    ),
    (
        two_readers,
        [
            "%2 = dot_general(%0, %1) [batch=((),()), contracting=((2,),(0,))]",
            "%3 = dot_general(%2, %0) [batch=((),()), contracting=((0,2),(0,1))]",
            "%4 = dot_general(%2, %0) [batch=((),()), contracting=((0,),(0,))]",
            "return %3, %4",
        ],
    ),
    (
        small,
        [
            "%3 = dot_general(%0, %1) [batch=((),()), contracting=((2,),(2,))]",
            "%4 = dot_general(%3, %2) [batch=((),()), contracting=((0,3),(0,1))]",
            "return %4",
        ],
    ),
]


def holds(program: Program) -> None:
    """A slot has a layout only if it is an input, or one dot_general makes it, and one other or an output
    through transposes alone reads it."""
    products = [ins for ins in program.instructions if ins.op == "dot_general"]
    read = Counter(slot for ins in program.instructions for slot in ins.inputs)
    read.update(program.outputs)
    for number, slot in enumerate(program.slots):
        if slot.layout is not None and number not in program.inputs:
            assert [ins for ins in products if number in ins.outputs]
            assert read[number] == 1
            assert [ins for ins in products if number in ins.inputs] or any(
                _shown(program, output)[0] == number for output in program.outputs
            )

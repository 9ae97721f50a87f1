"""dot_dimension_sorting: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from tests.program.rewrites.common import Rewrites, dot

from einloom.program.builder import Builder
from einloom.program.ir import Program
from einloom.program.passes.rewrite import DOTS


def by_the_left(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 3, 4, 5)), b.input("f8", (3, 5, 4))
    return (dot(b, x, y, ((3, 1, 2), (1, 0, 2))),)


def by_the_right(b: Builder) -> tuple[int, ...]:
    """Its axes are neighbours, those of the left operand are not."""
    x, y = b.input("f8", (2, 3, 4)), b.input("f8", (4, 2))
    return (dot(b, x, y, ((0, 2), (1, 0))),)


def flags_and_factors_stay(b: Builder) -> tuple[int, ...]:
    x, y, acc = b.input("c8", (3, 4)), b.input("c8", (4, 3)), b.input("c8", ())
    attrs = {"batch": ((), ()), "contracting": ((1, 0), (0, 1)), "conj": (True, False), "beta": 0.5}
    return (b("dot_general_add", x, y, acc, **attrs),)


def nobody_has_neighbours(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 3, 4)), b.input("f8", (4, 3, 2))
    return (dot(b, x, y, ((2, 0), (0, 2))),)


def batch_stays(b: Builder) -> tuple[int, ...]:
    """Sorted or not: the order of its axes is that of the result."""
    x, y = b.input("f8", (2, 3, 4)), b.input("f8", (3, 2, 4))
    return (dot(b, x, y, ((2,), (2,)), ((1, 0), (0, 1))),)


REWRITES: Rewrites = [
    # program, listing afterwards
    (
        by_the_left,
        [
            "%2 = dot_general(%0, %1) [batch=((),()), contracting=((1,2,3),(0,2,1))]",
            "return %2",
        ],
    ),
    (
        by_the_right,
        [
            "%2 = dot_general(%0, %1) [batch=((),()), contracting=((2,0),(0,1))]",
            "return %2",
        ],
    ),
    (
        flags_and_factors_stay,
        [
            "%3 = dot_general_add(%0, %1, %2) "
            "[batch=((),()), beta=0.5, conj=(True,False), contracting=((0,1),(1,0))]",
            "return %3",
        ],
    ),
    (
        nobody_has_neighbours,
        [
            "%2 = dot_general(%0, %1) [batch=((),()), contracting=((0,2),(2,0))]",
            "return %2",
        ],
    ),
    (
        batch_stays,
        [
            "%2 = dot_general(%0, %1) [batch=((1,0),(0,1)), contracting=((2,),(2,))]",
            "return %2",
        ],
    ),
]


def holds(program: Program) -> None:
    """Contracted axes increase: on the right if only there they leave no gap, else on the left."""
    for ins in program.instructions:
        if ins.op in DOTS and ins.attrs["contracting"][0]:
            left, right = (list(axes) for axes in ins.attrs["contracting"])
            gaps = [sorted(side) != list(range(min(side), max(side) + 1)) for side in (left, right)]
            side = right if gaps == [True, False] else left
            assert side == sorted(side)

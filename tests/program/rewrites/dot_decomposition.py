"""dot_decomposition: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from tests.program.rewrites.common import Rewrites, dot

from einloom.program.builder import Builder
from einloom.program.ir import Program
from einloom.program.passes.rewrite import DOTS


def matrices(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 3)), b.input("f8", (3, 4))
    return (dot(b, x, y, ((1,), (0,))),)


def groups(b: Builder) -> tuple[int, ...]:
    """Of two batch, two free and two contracted axes, all in another order."""
    x, y = b.input("f8", (2, 3, 4, 5, 6)), b.input("f8", (6, 4, 7, 5, 2))
    return (dot(b, x, y, ((0, 4), (4, 0)), ((3, 2), (3, 1))),)


def canonical(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (5, 2, 3)), b.input("f8", (5, 3, 4))
    return (dot(b, x, y, ((2,), (1,)), ((0,), (0,))),)


def in_place(b: Builder) -> tuple[int, ...]:
    """The result has the shape of the product already: it is written where it belongs."""
    x, y = b.input("f8", (5, 3, 2)), b.input("f8", (5, 4, 3))
    return (dot(b, x, y, ((1,), (2,)), ((0,), (0,))),)


def scalars(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", ()), b.input("f8", ())
    return (dot(b, x, y, ((), ())),)


def added(b: Builder) -> tuple[int, ...]:
    """What is added has the axes of the result; flags and factors stay."""
    x, y, acc = (b.input("c8", shape) for shape in ((2, 3), (3, 4), (2, 4)))
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,)), "conj": (False, True), "beta": 2}
    return (b("dot_general_add", x, y, acc, **attrs),)


CANONICAL = "[batch=((0,),(0,)), contracting=((2,),(1,))]"


def same_axes_of_more(b: Builder) -> tuple[int, ...]:
    """Previously failed: the numbers of the axes alone say nothing."""
    x, y = b.input("f8", (2, 3, 4, 5)), b.input("f8", (2, 4, 3))
    return (dot(b, x, y, ((2,), (1,)), ((0,), (0,))),)


REWRITES: Rewrites = [
    # program, listing afterwards
    (
        matrices,
        [
            "%3 = reshape(%0) [shape=(1,2,3)]",
            "%4 = reshape(%1) [shape=(1,3,4)]",
            f"%5 = dot_general(%3, %4) {CANONICAL}",
            "%2 = reshape(%5) [shape=(2,4)]",
            "return %2",
        ],
    ),
    (
        groups,
        [
            "%3 = transpose(%0) [perm=(3,2,1,0,4)]",
            "%4 = reshape(%3) [shape=(20,3,12)]",
            "%5 = transpose(%1) [perm=(3,1,4,0,2)]",
            "%6 = reshape(%5) [shape=(20,12,7)]",
            f"%7 = dot_general(%4, %6) {CANONICAL}",
            "%2 = reshape(%7) [shape=(5,4,3,7)]",
            "return %2",
        ],
    ),
    (canonical, [f"%2 = dot_general(%0, %1) {CANONICAL}", "return %2"]),
    (
        in_place,
        [
            "%3 = transpose(%0) [perm=(0,2,1)]",
            "%4 = transpose(%1) [perm=(0,2,1)]",
            f"%2 = dot_general(%3, %4) {CANONICAL}",
            "return %2",
        ],
    ),
    (
        added,
        [
            "%4 = reshape(%0) [shape=(1,2,3)]",
            "%5 = reshape(%1) [shape=(1,3,4)]",
            "%6 = reshape(%2) [shape=(1,2,4)]",
            "%7 = dot_general_add(%4, %5, %6) "
            "[batch=((0,),(0,)), beta=2, conj=(False,True), contracting=((2,),(1,))]",
            "%3 = reshape(%7) [shape=(2,4)]",
            "return %3",
        ],
    ),
    (
        same_axes_of_more,
        [
            "%3 = transpose(%0) [perm=(0,1,3,2)]",
            "%4 = reshape(%3) [shape=(2,15,4)]",
            f"%5 = dot_general(%4, %1) {CANONICAL}",
            "%2 = reshape(%5) [shape=(2,3,5,3)]",
            "return %2",
        ],
    ),
    (
        scalars,
        [
            "%3 = reshape(%0) [shape=(1,1,1)]",
            "%4 = reshape(%1) [shape=(1,1,1)]",
            f"%5 = dot_general(%3, %4) {CANONICAL}",
            "%2 = reshape(%5) [shape=()]",
            "return %2",
        ],
    ),
]


def holds(program: Program) -> None:
    for ins in program.instructions:
        if ins.op in DOTS:
            axes = {name: ins.attrs[name] for name in ("contracting", "batch")}
            assert axes == {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}
            assert {len(spec.shape) for spec in program.specs(ins.inputs)} == {3}

"""transpose_folding: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from tests.program.rewrites.common import Rewrites, dot, made_by

from einloom.program.builder import Builder
from einloom.program.ir import Program
from einloom.program.passes.rewrite import DOTS


def foldable(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 3)), b.input("f8", (2, 4))
    return (dot(b, b("transpose", x, perm=(1, 0)), y, ((1,), (0,))),)


def foldable_batch(b: Builder) -> tuple[int, ...]:
    """Batch and contracting axes may go anywhere, on both sides."""
    x, y = b.input("f8", (5, 2, 3)), b.input("f8", (4, 3, 5))
    x = b("transpose", x, perm=(2, 0, 1))
    y = b("transpose", y, perm=(2, 1, 0))
    return (dot(b, x, y, ((0,), (1,)), ((1,), (0,))),)


def free_axes_change_order(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 3, 4)), b.input("f8", (4,))
    return (dot(b, b("transpose", x, perm=(1, 0, 2)), y, ((2,), (0,))),)


def one_side_only(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (3, 3))
    turned = b("transpose", x, perm=(1, 0))
    return (dot(b, turned, turned, ((), ())),)


def transpose_is_returned_too(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 3)), b.input("f8", (2,))
    turned = b("transpose", x, perm=(1, 0))
    return turned, dot(b, turned, y, ((1,), (0,)))


def flags_and_what_is_added_stay(b: Builder) -> tuple[int, ...]:
    x, y, acc = b.input("c8", (2, 3)), b.input("c8", (2, 4)), b.input("c8", (4, 3))
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,)), "conj": (True, False)}
    x, acc = b("transpose", x, perm=(1, 0)), b("transpose", acc, perm=(1, 0))
    return (b("dot_general_add", x, y, acc, **attrs),)


REWRITES: Rewrites = [
    # program, listing afterwards
    (
        foldable,
        [
            "%2 = transpose(%0) [perm=(1,0)]",
            "%3 = dot_general(%0, %1) [batch=((),()), contracting=((0,),(0,))]",
            "return %3",
        ],
    ),
    (
        foldable_batch,
        [
            "%2 = transpose(%0) [perm=(2,0,1)]",
            "%3 = transpose(%1) [perm=(2,1,0)]",
            "%4 = dot_general(%0, %1) [batch=((0,),(2,)), contracting=((2,),(1,))]",
            "return %4",
        ],
    ),
    (
        free_axes_change_order,
        [
            "%2 = transpose(%0) [perm=(1,0,2)]",
            "%3 = dot_general(%2, %1) [batch=((),()), contracting=((2,),(0,))]",
            "return %3",
        ],
    ),
    (
        one_side_only,
        [
            "%1 = transpose(%0) [perm=(1,0)]",
            "%2 = dot_general(%1, %1) [batch=((),()), contracting=((),())]",
            "return %2",
        ],
    ),
    (
        flags_and_what_is_added_stay,
        [
            "%3 = transpose(%0) [perm=(1,0)]",
            "%4 = transpose(%2) [perm=(1,0)]",
            "%5 = dot_general_add(%0, %1, %4) "
            "[batch=((),()), conj=(True,False), contracting=((0,),(0,))]",
            "return %5",
        ],
    ),
    (
        transpose_is_returned_too,
        [
            "%2 = transpose(%0) [perm=(1,0)]",
            "%3 = dot_general(%0, %1) [batch=((),()), contracting=((0,),(0,))]",
            "return %2, %3",
        ],
    ),
]


def holds(program: Program) -> None:
    """A transpose that a dot_general reads moves free axes past each other."""
    made = made_by(program, "transpose")
    for ins in program.instructions:
        if ins.op in DOTS:
            for side, slot in enumerate(ins.inputs[:2]):
                if slot in made:
                    perm = made[slot].attrs["perm"]
                    used = ins.attrs["batch"][side] + ins.attrs["contracting"][side]
                    free = [perm[axis] for axis in range(len(perm)) if axis not in used]
                    assert free != sorted(free)

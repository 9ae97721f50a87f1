"""singleton_reduction: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from typing import Any

from tests.program.rewrites.common import Rewrites, dot

from einloom.program.builder import Builder
from einloom.program.ir import Program
from einloom.program.passes.rewrite import DOTS

ORDERED: dict[str, dict[str, Any]] = {
    "reduce_sum": {},
    "reduce_prod": {},
    "reduce_mean": {},
    "reduce_max": {"initial": None},
    "reduce_min": {"initial": None},
}


def of_one_element(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (1, 2, 1))
    found = [b(op, x, axes=(2, 0), **attrs) for op, attrs in ORDERED.items()]
    return tuple(b("negate", slot) for slot in found)


def of_no_axis(b: Builder) -> tuple[int, ...]:
    x = b.input("bool", (2, 3))
    return (b("bitwise_not", b("reduce_sum", x, axes=())),)


def of_more(b: Builder) -> tuple[int, ...]:
    """One axis of several is longer; there is an initial value; nothing is reduced to something."""
    x, empty = b.input("f8", (1, 2)), b.input("f8", (0, 1))
    one = b("reduce_sum", x, axes=(0, 1))
    two = b("reduce_max", x, axes=(0,), initial=3.0)
    three = b("reduce_prod", empty, axes=(0,))
    return tuple(b("negate", slot) for slot in (one, two, three))


def shown(b: Builder) -> tuple[int, ...]:
    """A result of a kernel does not become a view of an operand."""
    x = b.input("f8", (1, 2, 3))
    return (b("transpose", b("reduce_sum", x, axes=(0,)), perm=(1, 0)),)


def contracted_ones(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 1, 3)), b.input("f8", (3, 4, 1))
    return (dot(b, x, y, ((1, 2), (2, 0))),)


def product_of_ones(b: Builder) -> tuple[int, ...]:
    """What is left is an outer product; the same operand twice."""
    x = b.input("f8", (2, 1))
    return (dot(b, x, x, ((1,), (1,))),)


def batch_of_one(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (5, 1, 3)), b.input("f8", (1, 3, 5))
    return (b("negate", dot(b, x, y, ((2,), (1,)), ((1, 0), (0, 2)))),)


def batch_of_one_is_shown(b: Builder) -> tuple[int, ...]:
    """The contracted axis goes nevertheless."""
    x, y = b.input("f8", (1, 1, 3)), b.input("f8", (1, 1))
    return (dot(b, x, y, ((1,), (1,)), ((0,), (0,))),)


def no_ones(b: Builder) -> tuple[int, ...]:
    """Free axes of size 1 stay."""
    x, y = b.input("f8", (5, 1, 3)), b.input("f8", (5, 3, 1))
    return (b("negate", dot(b, x, y, ((2,), (1,)), ((0,), (0,)))),)


def batch_of_one_is_added_to(b: Builder) -> tuple[int, ...]:
    """What is added would have to be squeezed too."""
    x, y, acc = (b.input("f8", shape) for shape in ((1, 2, 1), (1, 1, 3), (1, 2, 3)))
    attrs = {"batch": ((0,), (0,)), "contracting": ((2,), (1,)), "alpha": 2}
    return (b("negate", b("dot_general_add", x, y, acc, **attrs)),)


REWRITES: Rewrites = [
    # program, listing afterwards
    (
        of_one_element,
        [
            *(f"%{k} = squeeze(%0) [axes=(2,0)]" for k in range(1, 6)),
            *(f"%{k} = negate(%{k - 5})" for k in range(6, 11)),
            "return %6, %7, %8, %9, %10",
        ],
    ),
    (of_no_axis, ["%1 = squeeze(%0) [axes=()]", "%2 = bitwise_not(%1)", "return %2"]),
    (
        of_more,
        [
            "%2 = reduce_sum(%0) [axes=(0,1)]",
            "%3 = reduce_max(%0) [axes=(0,), initial=3.0]",
            "%4 = reduce_prod(%1) [axes=(0,)]",
            *(f"%{k} = negate(%{k - 3})" for k in range(5, 8)),
            "return %5, %6, %7",
        ],
    ),
    (
        shown,
        [
            "%1 = reduce_sum(%0) [axes=(0,)]",
            "%2 = transpose(%1) [perm=(1,0)]",
            "return %2",
        ],
    ),
    (
        contracted_ones,
        [
            "%3 = squeeze(%0) [axes=(1,)]",
            "%4 = squeeze(%1) [axes=(2,)]",
            "%2 = dot_general(%3, %4) [batch=((),()), contracting=((1,),(0,))]",
            "return %2",
        ],
    ),
    (
        product_of_ones,
        [
            "%2 = squeeze(%0) [axes=(1,)]",
            "%3 = squeeze(%0) [axes=(1,)]",
            "%1 = dot_general(%2, %3) [batch=((),()), contracting=((),())]",
            "return %1",
        ],
    ),
    (
        batch_of_one,
        [
            "%4 = squeeze(%0) [axes=(1,)]",
            "%5 = squeeze(%1) [axes=(0,)]",
            "%6 = dot_general(%4, %5) [batch=((0,),(1,)), contracting=((1,),(0,))]",
            "%2 = expand_dims(%6) [axes=(0,)]",
            "%3 = negate(%2)",
            "return %3",
        ],
    ),
    (
        batch_of_one_is_shown,
        [
            "%3 = squeeze(%0) [axes=(1,)]",
            "%4 = squeeze(%1) [axes=(1,)]",
            "%2 = dot_general(%3, %4) [batch=((0,),(0,)), contracting=((),())]",
            "return %2",
        ],
    ),
    (
        batch_of_one_is_added_to,
        [
            "%5 = squeeze(%0) [axes=(2,)]",
            "%6 = squeeze(%1) [axes=(1,)]",
            "%3 = dot_general_add(%5, %6, %2) [alpha=2, batch=((0,),(0,)), contracting=((),())]",
            "%4 = negate(%3)",
            "return %4",
        ],
    ),
    (
        no_ones,
        [
            "%2 = dot_general(%0, %1) [batch=((0,),(0,)), contracting=((2,),(1,))]",
            "%3 = negate(%2)",
            "return %3",
        ],
    ),
]


def holds(program: Program) -> None:
    """Where no output shows the result, nothing is left to squeeze."""
    shown = set(program.outputs)
    for ins in reversed(program.instructions):
        is_shown = bool(shown.intersection(ins.outputs))
        if is_shown and ins.may_view:
            shown.add(ins.inputs[0])
        shape = program.slots[ins.inputs[0]].shape if ins.inputs else ()
        if ins.op in ORDERED and ins.attrs.get("initial") is None and not is_shown:
            assert any(shape[axis] != 1 for axis in ins.attrs["axes"])
        if ins.op in DOTS:
            assert all(shape[axis] != 1 for axis in ins.attrs["contracting"][0])
            stays = is_shown or ins.op == "dot_general_add"
            assert stays or all(shape[axis] != 1 for axis in ins.attrs["batch"][0])

"""conj_sinking: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from collections import Counter

from tests.program.rewrites.common import Rewrites, dot, made_by

from einloom.program.builder import Builder
from einloom.program.ir import Program


def twice(b: Builder) -> tuple[int, ...]:
    x = b.input("c16", (2,))
    return (b("negate", b("conj", b("conj", x))),)


def three_times(b: Builder) -> tuple[int, ...]:
    """One is left, of the operand itself."""
    x = b.input("c16", (2,))
    twice = b("conj", b("conj", x))
    return b("negate", twice), b("conj", twice)


def of_real_numbers(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2,)), b.input("i8", (2,))
    return b("negate", b("conj", x)), b("negate", b("conj", y))


def results_are_copies(b: Builder) -> tuple[int, ...]:
    """A result that was no view of an operand becomes none."""
    x, y = b.input("f8", (2,)), b.input("c16", (2, 2))
    twice = b("conj", b("conj", y))
    return b("conj", x), b("transpose", twice, perm=(1, 0))


def through_views(b: Builder) -> tuple[int, ...]:
    """So that two transposes meet."""
    x, k = b.input("c16", (2, 3, 1)), b.index("k", 1)
    turned = b("reverse", b("transpose", x, perm=(1, 0, 2)), axes=(0,))
    flat = b("slice_at", b("conj", turned), axis=2, at=k)
    return (b("negate", b("transpose", flat, perm=(1, 0))),)


def to_the_smaller_side(b: Builder) -> tuple[int, ...]:
    """Through a broadcast, not through a slice."""
    x, y = b.input("c16", (3,)), b.input("c16", (3,))
    wide = b("conj", b("broadcast_in_dim", x, shape=(2, 3), axes=(1,)))
    narrow = b("conj", b("slice", y, starts=(0,), stops=(2,), steps=(1,)))
    return b("negate", wide), b("negate", narrow)


def others_read_it(b: Builder) -> tuple[int, ...]:
    """Moving would conjugate the view and keep it besides."""
    x = b.input("c16", (2, 3))
    turned = b("transpose", x, perm=(1, 0))
    return b("negate", b("conj", turned)), b("negate", turned)


def a_result_is_made_last(b: Builder) -> tuple[int, ...]:
    x = b.input("c16", (2, 3))
    return (b("conj", b("transpose", x, perm=(1, 0))),)


def conjugate_operands(b: Builder) -> tuple[int, ...]:
    """Of a product of conjugates nothing is conjugated; a small one takes it over."""
    x, y = b.input("c16", (4, 4)), b.input("c16", (4,))
    both = b("conj", dot(b, b("conj", x), b("conj", y), ((1,), (0,))))
    one = b("conj", dot(b, b("conj", x), y, ((), ())))
    same = b("conj", dot(b, y, y, ((), ())))
    return both, one, same


def larger_operands(b: Builder) -> tuple[int, ...]:
    x = b.input("c16", (4, 4))
    return (b("conj", dot(b, x, x, ((0, 1), (0, 1)))), b("conj", b("reduce_sum", x, axes=(0,))))


def zeros_with_a_sign(b: Builder) -> tuple[int, ...]:
    x, y = b.input("c16", (2,)), b.input("c16", (2,))
    return (b("conj", b("add", b("conj", x), b("conj", y))),)


def predicates_stay(b: Builder) -> tuple[int, ...]:
    p, x = b.input("bool", (2,)), b.input("c16", (2,))
    y = b.input("c16", (2,))
    return (b("conj", b("select", p, b("conj", x), b("conj", y))),)


REWRITES: Rewrites = [
    # program, listing afterwards
    (twice, ["%3 = negate(%0)", "return %3"]),
    (three_times, ["%3 = negate(%0)", "%4 = conj(%0)", "return %3, %4"]),
    (of_real_numbers, ["%3 = negate(%0)", "%5 = negate(%1)", "return %3, %5"]),
    (
        results_are_copies,
        [
            "%3 = copy(%1)",
            "%4 = copy(%0)",
            "%5 = transpose(%3) [perm=(1,0)]",
            "return %4, %5",
        ],
    ),
    (
        through_views,
        [
            "%8 = conj(%0)",
            "%7 = transpose(%8) [perm=(1,0,2)]",
            "%3 = reverse(%7) [axes=(0,)]",
            "%4 = slice_at(%3) [at=i0, axis=2]",
            "%5 = transpose(%4) [perm=(1,0)]",
            "%6 = negate(%5)",
            "return %6",
        ],
    ),
    (
        to_the_smaller_side,
        [
            "%8 = conj(%0)",
            "%3 = broadcast_in_dim(%8) [axes=(1,), shape=(2,3)]",
            "%4 = slice(%1) [starts=(0,), steps=(1,), stops=(2,)]",
            "%5 = conj(%4)",
            "%6 = negate(%3)",
            "%7 = negate(%5)",
            "return %6, %7",
        ],
    ),
    (
        others_read_it,
        [
            "%1 = transpose(%0) [perm=(1,0)]",
            "%2 = conj(%1)",
            "%3 = negate(%2)",
            "%4 = negate(%1)",
            "return %3, %4",
        ],
    ),
    (
        a_result_is_made_last,
        ["%1 = transpose(%0) [perm=(1,0)]", "%2 = conj(%1)", "return %2"],
    ),
    (
        conjugate_operands,
        [
            "%5 = dot_general(%0, %1) [batch=((),()), contracting=((1,),(0,))]",
            "%13 = conj(%1)",
            "%8 = dot_general(%0, %13) [batch=((),()), contracting=((),())]",
            "%11 = conj(%1)",
            "%10 = dot_general(%11, %11) [batch=((),()), contracting=((),())]",
            "return %5, %8, %10",
        ],
    ),
    (
        larger_operands,
        [
            "%1 = dot_general(%0, %0) [batch=((),()), contracting=((0,1),(0,1))]",
            "%2 = conj(%1)",
            "%3 = reduce_sum(%0) [axes=(0,)]",
            "%4 = conj(%3)",
            "return %2, %4",
        ],
    ),
    (
        zeros_with_a_sign,
        [
            "%2 = conj(%0)",
            "%3 = conj(%1)",
            "%4 = add(%2, %3)",
            "%5 = conj(%4)",
            "return %5",
        ],
    ),
    (predicates_stay, ["%6 = select(%0, %1, %2)", "return %6"]),
]

VIEWS = (
    "reshape",
    "transpose",
    "broadcast_in_dim",
    "reverse",
    "squeeze",
    "expand_dims",
    "identity",
)


def holds(program: Program) -> None:
    """A conj reads something complex, no conj, and no such view that could read it instead."""
    uses = Counter(slot for ins in program.instructions for slot in ins.inputs)
    uses.update(program.outputs)
    shown = set(program.outputs)
    for ins in reversed(program.instructions):
        if ins.may_view and shown.intersection(ins.outputs):
            shown.add(ins.inputs[0])
    views = made_by(program, *VIEWS)
    conjugates = made_by(program, "conj")
    for out, ins in conjugates.items():
        (x,) = ins.inputs
        assert program.slots[x].dtype.kind == "c"
        assert x not in conjugates
        if x in views and uses[x] == 1 and out not in shown:
            assert program.slots[views[x].inputs[0]].spec.size > program.slots[x].spec.size

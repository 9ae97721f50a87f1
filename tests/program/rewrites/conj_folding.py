"""conj_folding: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from tests.program.rewrites.common import Rewrites, dot, made_by

from einloom.backend.dtypes import class_of
from einloom.program.builder import Builder
from einloom.program.ir import Program
from einloom.program.passes.rewrite import DOTS, use_counts

INNER = ((0,), (0,))


def left(b: Builder) -> tuple[int, ...]:
    x, y = b.input("c16", (3, 2)), b.input("c16", (3, 4))
    return (dot(b, b("conj", x), y, INNER),)


def right(b: Builder) -> tuple[int, ...]:
    x, y = b.input("c8", (3, 2)), b.input("c8", (3, 4))
    return (dot(b, x, b("conj", y), INNER),)


def both(b: Builder) -> tuple[int, ...]:
    x, y = b.input("c8", (3,)), b.input("c8", (3,))
    return (dot(b, b("conj", x), b("conj", y), INNER),)


def of_objects(b: Builder) -> tuple[int, ...]:
    """conj may turn their products round."""
    x, y = b.input("O", (3,)), b.input("O", (3,))
    return (dot(b, b("conj", x), y, INNER),)


def of_one_conjugate(b: Builder) -> tuple[int, ...]:
    x = b.input("c16", (3,))
    conj = b("conj", x)
    return (dot(b, conj, conj, INNER),)


def flags_that_were_there(b: Builder) -> tuple[int, ...]:
    """Twice conjugated is not."""
    x, y = b.input("c16", (3,)), b.input("c16", (3,))
    flags = {"contracting": INNER, "batch": ((), ()), "conj": (True, True)}
    return (b("dot_general", b("conj", b("conj", b("conj", x))), y, **flags),)


def what_it_is_added_to(b: Builder) -> tuple[int, ...]:
    """Is not conjugated by a flag."""
    x, y, acc = (b.input("c16", shape) for shape in ((3,), (3,), ()))
    attrs = {"contracting": INNER, "batch": ((), ()), "alpha": 2j}
    return (b("dot_general_add", b("conj", x), y, b("conj", acc), **attrs),)


def through_views(b: Builder) -> tuple[int, ...]:
    x, y = b.input("c16", (5, 3, 1)), b.input("c16", (3, 4))
    flat = b("squeeze", b("conj", x), axes=(2,))
    some = b("slice", b("transpose", flat, perm=(1, 0)), starts=(0, 0), stops=(3, 2), steps=(1, 1))
    return (dot(b, some, y, INNER),)


def not_through_repeats(b: Builder) -> tuple[int, ...]:
    """Nor through what is no view."""
    x, y = b.input("c16", (3,)), b.input("c16", (3,))
    wide = b("broadcast_in_dim", b("conj", x), shape=(3, 2), axes=(0,))
    return dot(b, wide, y, INNER), dot(b, b("negate", b("conj", y)), x, INNER)


def others_read_it(b: Builder) -> tuple[int, ...]:
    """Another op; a view of it; a result; twice a product of other operands."""
    x, y = b.input("c16", (3,)), b.input("c16", (3,))
    first, second, third, fourth = (b("conj", slot) for slot in (x, x, x, x))
    turned = b("reverse", second, axes=(0,))
    results = dot(b, first, y, INNER), dot(b, second, turned, INNER), dot(b, third, y, INNER)
    return (*results, dot(b, fourth, x, INNER), dot(b, fourth, y, INNER), b("negate", first), third)


def for_all_slices(b: Builder) -> tuple[int, ...]:
    """A conj that runs once stays; one of a slice does not."""
    x, y, k = b.input("c16", (3,)), b.input("c16", (2, 3)), b.index("k", 2)
    part = b("conj", b("slice_at", y, axis=0, at=k))
    return dot(b, b("conj", x), part, INNER), dot(b, b("conj", x), y, ((0,), (1,)))


def real(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (3,))
    return (dot(b, b("conj", x), x, INNER),)


DOT = "[batch=((),()), contracting=((0,),(0,))]"


def flagged(left: bool, right: bool) -> str:
    return f"[batch=((),()), conj=({left},{right}), contracting=((0,),(0,))]"


REWRITES: Rewrites = [
    (
        of_objects,
        [
            "%2 = conj(%0)",
            "%3 = dot_general(%2, %1) [batch=((),()), contracting=((0,),(0,))]",
            "return %3",
        ],
    ),
    # program, listing afterwards
    (left, [f"%3 = dot_general(%0, %1) {flagged(True, False)}", "return %3"]),
    (right, [f"%3 = dot_general(%0, %1) {flagged(False, True)}", "return %3"]),
    (both, [f"%4 = dot_general(%0, %1) {flagged(True, True)}", "return %4"]),
    (of_one_conjugate, [f"%2 = dot_general(%0, %0) {flagged(True, True)}", "return %2"]),
    (
        flags_that_were_there,
        [f"%5 = dot_general(%0, %1) {flagged(False, True)}", "return %5"],
    ),
    (
        what_it_is_added_to,
        [
            "%4 = conj(%2)",
            "%5 = dot_general_add(%0, %1, %4) "
            "[alpha=2j, batch=((),()), conj=(True,False), contracting=((0,),(0,))]",
            "return %5",
        ],
    ),
    (
        through_views,
        [
            "%3 = squeeze(%0) [axes=(2,)]",
            "%4 = transpose(%3) [perm=(1,0)]",
            "%5 = slice(%4) [starts=(0,0), steps=(1,1), stops=(3,2)]",
            f"%6 = dot_general(%5, %1) {flagged(True, False)}",
            "return %6",
        ],
    ),
    (
        not_through_repeats,
        [
            "%2 = conj(%0)",
            "%3 = broadcast_in_dim(%2) [axes=(0,), shape=(3,2)]",
            f"%4 = dot_general(%3, %1) {DOT}",
            "%5 = conj(%1)",
            "%6 = negate(%5)",
            f"%7 = dot_general(%6, %0) {DOT}",
            "return %4, %7",
        ],
    ),
    (
        others_read_it,
        [
            "%2 = conj(%0)",
            "%3 = conj(%0)",
            "%4 = conj(%0)",
            "%5 = conj(%0)",
            "%6 = reverse(%3) [axes=(0,)]",
            f"%7 = dot_general(%2, %1) {DOT}",
            f"%8 = dot_general(%3, %6) {DOT}",
            f"%9 = dot_general(%4, %1) {DOT}",
            f"%10 = dot_general(%5, %0) {DOT}",
            f"%11 = dot_general(%5, %1) {DOT}",
            "%12 = negate(%2)",
            "return %7, %8, %9, %10, %11, %12, %4",
        ],
    ),
    (
        for_all_slices,
        [
            "%2 = slice_at(%1) [at=i0, axis=0]",
            "%4 = conj(%0)",
            f"%5 = dot_general(%4, %2) {flagged(False, True)}",
            "%7 = dot_general(%0, %1) [batch=((),()), conj=(True,False), contracting=((0,),(1,))]",
            "return %5, %7",
        ],
    ),
    (real, ["%1 = conj(%0)", f"%2 = dot_general(%1, %0) {DOT}", "return %2"]),
]


def holds(program: Program) -> None:
    """A conj that a dot_general reads, itself or by views, is real, or read by others, or repeated,
    or the same for all slices."""
    made = {slot: ins for ins in program.instructions for slot in ins.outputs}
    uses = use_counts(program)
    depends: set[int] = set()
    for ins in program.instructions:
        if ins.indices or depends & set(ins.inputs):
            depends |= set(ins.outputs)
    for ins in program.instructions:
        for x in set(ins.inputs[:2]) if ins.op in DOTS else ():
            alone = uses[x] == ins.inputs[:2].count(x)
            while alone and x in made and made[x].may_view and len(made[x].outputs) == 1:
                (y,) = made[x].inputs
                smaller = program.slots[x].spec.size <= program.slots[y].spec.size
                x, alone = y, uses[y] == 1 and smaller
            if alone and x in made_by(program, "conj"):
                is_other = class_of(program.slots[x].dtype) != "complex"
                assert is_other or (ins.outputs[0] in depends and x not in depends)

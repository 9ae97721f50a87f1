"""Every pass: what exactly it rewrites, what it leaves, and what holds afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.program.programs import random_program

from einloom.program.builder import Builder
from einloom.program.extension import register_family, unregister_family
from einloom.program.ir import Instruction, Program, instruction
from einloom.program.passes import PIPELINE, optimise, stages
from einloom.program.verify import verify

PASSES = {one.name: one.run for one in PIPELINE}


def dot(build: Builder, x: int, y: int, contracting: Any, batch: Any = ((), ())) -> int:
    return build("dot_general", x, y, contracting=contracting, batch=batch)


def body(program: Program) -> list[str]:
    """Instructions as they are printed, without their notes, and the outputs."""
    lines = [str(ins) for ins in program.instructions]
    return [*lines, f"return {', '.join(f'%{slot}' for slot in program.outputs)}"]


Make = Callable[[Builder], tuple[int, ...]]


def duplicates(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 2)), b.input("f8", (2, 2))
    one, two = b("add", x, y), b("add", x, y)
    return b("multiply", one, two), two


def chains_of_duplicates(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (2,))
    one, two = b("conj", b("copy", x)), b("conj", b("copy", x))
    return (b("add", one, two),)


def not_duplicates(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 2)), b.input("f8", (2, 2))
    b("add", y, x)
    b("reduce_sum", x, axes=(0,))
    b("reduce_sum", x, axes=(1,))
    b("multiply", x, y)
    return (b("add", x, y),)


def equal_constants_that_differ(b: Builder) -> tuple[int, ...]:
    values: list[Any] = [0.0, -0.0, 0, False, 0.0]
    return tuple(b("constant", value=value, dtype="object") for value in values)


def three_transposes(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (2, 3, 4))
    for _ in range(2):
        x = b("transpose", x, perm=(1, 2, 0))
    return x, b("transpose", x, perm=(1, 2, 0))


def transposes_apart(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (2, 3))
    return (b("transpose", b("copy", b("transpose", x, perm=(1, 0))), perm=(1, 0)),)


def identity_of_zero_axes(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", ())
    return (b("transpose", x, perm=()),)


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


REWRITES: list[tuple[str, Make, list[str]]] = [
    # pass, program, listing afterwards
    (
        "common_subexpressions",
        duplicates,
        ["%2 = add(%0, %1)", "%4 = multiply(%2, %2)", "return %4, %2"],
    ),
    (
        "common_subexpressions",
        chains_of_duplicates,
        ["%1 = copy(%0)", "%2 = conj(%1)", "%5 = add(%2, %2)", "return %5"],
    ),
    (
        "common_subexpressions",
        not_duplicates,
        [
            "%2 = add(%1, %0)",
            "%3 = reduce_sum(%0) [axes=(0,)]",
            "%4 = reduce_sum(%0) [axes=(1,)]",
            "%5 = multiply(%0, %1)",
            "%6 = add(%0, %1)",
            "return %6",
        ],
    ),
    (
        "common_subexpressions",
        equal_constants_that_differ,
        [
            "%0 = constant() [dtype='object', value=0.0]",
            "%1 = constant() [dtype='object', value=-0.0]",
            "%2 = constant() [dtype='object', value=0]",
            "%3 = constant() [dtype='object', value=False]",
            "return %0, %1, %2, %3, %0",
        ],
    ),
    (
        "merge_transposes",
        three_transposes,
        [
            "%1 = transpose(%0) [perm=(1,2,0)]",
            "%2 = transpose(%0) [perm=(2,0,1)]",
            "return %2, %0",
        ],
    ),
    (
        "merge_transposes",
        transposes_apart,
        [
            "%1 = transpose(%0) [perm=(1,0)]",
            "%2 = copy(%1)",
            "%3 = transpose(%2) [perm=(1,0)]",
            "return %3",
        ],
    ),
    ("merge_transposes", identity_of_zero_axes, ["return %0"]),
    (
        "transpose_folding",
        foldable,
        [
            "%2 = transpose(%0) [perm=(1,0)]",
            "%3 = dot_general(%0, %1) [batch=((),()), contracting=((0,),(0,))]",
            "return %3",
        ],
    ),
    (
        "transpose_folding",
        foldable_batch,
        [
            "%2 = transpose(%0) [perm=(2,0,1)]",
            "%3 = transpose(%1) [perm=(2,1,0)]",
            "%4 = dot_general(%0, %1) [batch=((0,),(2,)), contracting=((2,),(1,))]",
            "return %4",
        ],
    ),
    (
        "transpose_folding",
        free_axes_change_order,
        [
            "%2 = transpose(%0) [perm=(1,0,2)]",
            "%3 = dot_general(%2, %1) [batch=((),()), contracting=((2,),(0,))]",
            "return %3",
        ],
    ),
    (
        "transpose_folding",
        one_side_only,
        [
            "%1 = transpose(%0) [perm=(1,0)]",
            "%2 = dot_general(%1, %1) [batch=((),()), contracting=((),())]",
            "return %2",
        ],
    ),
    (
        "transpose_folding",
        transpose_is_returned_too,
        [
            "%2 = transpose(%0) [perm=(1,0)]",
            "%3 = dot_general(%0, %1) [batch=((),()), contracting=((0,),(0,))]",
            "return %2, %3",
        ],
    ),
    ("dead_code", dead_ends, ["%2 = multiply(%0, %0)", "%3 = copy(%2)", "return %3"]),
    ("dead_code", input_returned, ["return %0, %0"]),
]


@pytest.mark.parametrize(
    ("name", "make", "listing"), REWRITES, ids=[f"{row[0]} {row[1].__name__}" for row in REWRITES]
)
def test_rewrite(name: str, make: Make, listing: list[str]) -> None:
    build = Builder()
    outputs = make(build)
    before = build.finish(*outputs)
    after = verify(PASSES[name](before))
    assert body(after) == listing
    assert after.specs(after.outputs) == before.specs(before.outputs)
    POSTCONDITIONS[name](after)


def test_every_pass_has_rewrites() -> None:
    assert {row[0] for row in REWRITES} == set(PASSES)


def test_whole_pipeline() -> None:
    """What four passes make of it together, and in which stages."""
    build = Builder()
    x, y = build.input("f8", (2, 3)), build.input("f8", (2, 4))
    turned = [build("transpose", x, perm=(1, 0)) for _ in range(2)]
    products = [dot(build, slot, y, ((1,), (0,))) for slot in turned]
    back = build("transpose", build("transpose", products[1], perm=(1, 0)), perm=(1, 0))
    program = build.finish(build("add", products[0], back))
    assert body(optimise(program)) == [
        "%2 = dot_general(%0, %1) [batch=((),()), contracting=((0,),(0,))]",
        "%3 = add(%2, %2)",
        "return %3",
    ]
    seen = list(stages(program))
    assert [name for name, _ in seen] == ["lowered", *PASSES]
    assert seen[0][1] is program
    assert seen[-1][1] == optimise(program)


def test_inputs_stay() -> None:
    """Even those that nothing reads: they are the arguments of the call."""
    build = Builder()
    _, x, _ = (build.input("f8", (n,)) for n in (1, 2, 3))
    program = optimise(build.finish(build("copy", x)))
    assert program.specs(program.inputs) == build.finish().specs((0, 1, 2))


def test_extensions_are_never_merged_and_dropped_only_whole() -> None:
    """A runtime may keep state; of two results, one that is used keeps the call."""
    name = "test.pair.v1"
    register_family(name, lambda attrs, inputs: (inputs[0], inputs[0]))
    try:
        build = Builder()
        x = build.input("f8", (2,))
        calls = [build.extension(name, x) for _ in range(3)]
        program = optimise(build.finish(calls[0][1], calls[2][0]))
        assert body(program) == [
            "%1, %2 = extension:test.pair.v1(%0)",
            "%3, %4 = extension:test.pair.v1(%0)",
            "return %2, %3",
        ]
        verify(program)
    finally:
        unregister_family(name)


# ---- postconditions, as each pass states them ----------------------------------------------------


def no_two_equal(program: Program) -> None:
    keys = [
        (ins.op, repr(ins.attributes), ins.inputs)
        for ins in program.instructions
        if ins.family is None
    ]
    assert len(set(keys)) == len(keys)


def no_transpose_of_a_transpose(program: Program) -> None:
    made = transposes(program)
    for ins in made.values():
        assert ins.inputs[0] not in made
        assert ins.attrs["perm"] != tuple(range(len(ins.attrs["perm"])))


def nothing_left_to_fold(program: Program) -> None:
    """A transpose that a dot_general reads moves free axes past each other."""
    made = transposes(program)
    for ins in program.instructions:
        if ins.op == "dot_general":
            for side, slot in enumerate(ins.inputs):
                if slot in made:
                    perm = made[slot].attrs["perm"]
                    used = ins.attrs["batch"][side] + ins.attrs["contracting"][side]
                    free = [perm[axis] for axis in range(len(perm)) if axis not in used]
                    assert free != sorted(free)


def nothing_unused(program: Program) -> None:
    """Slots are numbered as they are written, and every instruction yields something needed."""
    written = list(program.inputs)
    for ins in program.instructions:
        written.extend(ins.outputs)
    assert written == list(range(len(program.slots)))
    read = {slot for ins in program.instructions for slot in ins.inputs} | set(program.outputs)
    assert all(read.intersection(ins.outputs) for ins in program.instructions)


def transposes(program: Program) -> dict[int, Instruction]:
    return {ins.outputs[0]: ins for ins in program.instructions if ins.op == "transpose"}


POSTCONDITIONS: dict[str, Callable[[Program], None]] = {
    "common_subexpressions": no_two_equal,
    "merge_transposes": no_transpose_of_a_transpose,
    "transpose_folding": nothing_left_to_fold,
    "dead_code": nothing_unused,
}


def test_every_pass_has_a_law_and_a_postcondition() -> None:
    assert set(POSTCONDITIONS) == set(PASSES)
    assert len(PASSES) == len(PIPELINE)
    for one in PIPELINE:
        assert one.law
        assert one.postcondition


@pytest.mark.parametrize("seeds", [range(k * 60, k * 60 + 60) for k in range(5)], ids=str)
def test_postconditions(seeds: range) -> None:
    """After its pass in the pipeline; a second run of a pass finds nothing more to do."""
    for seed in seeds:
        for name, program in stages(random_program(seed)):
            if name in PASSES:
                POSTCONDITIONS[name](program)
                assert PASSES[name](program) == program, (seed, name)


def test_passes_do_not_recurse() -> None:
    """Ten thousand transposes of each other, and as many copies."""
    build = Builder()
    x = build.input("f8", (2, 3))
    for _ in range(10_000):
        x = build("transpose", x, perm=(1, 0))
    for _ in range(10_000):
        x = build("copy", x)
    program = optimise(build.finish(x))
    assert program.op_counts == {"copy": 10_000}


def test_frozen_instruction_of_folded_product() -> None:
    """Attributes stay tuples, so that instructions can be compared and hashed."""
    build = Builder()
    program = PASSES["transpose_folding"](build.finish(*foldable(build)))
    made = program.instructions[1]
    assert made == instruction(
        "dot_general", (0, 1), (3,), {"contracting": ((0,), (0,)), "batch": ((), ())}
    )
    assert hash(made)

"""Every pass: what exactly it rewrites, what it leaves, and what holds afterwards."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from tests.program.programs import any_layouts, random_program
from tests.program.rewrites.common import Make, body, dot
from tests.program.rewrites.transpose_folding import foldable

from einloom.program.builder import Builder
from einloom.program.extension import register_family, unregister_family
from einloom.program.ir import Program, instruction
from einloom.program.passes import CANONICAL_PRODUCTS, PIPELINE, optimise, stages
from einloom.program.verify import verify

PASSES = {one.name: one.run for one in (*PIPELINE, *CANONICAL_PRODUCTS)}
FILES: dict[str, Any] = {name: import_module(f"tests.program.rewrites.{name}") for name in PASSES}
REWRITES = [(name, *row) for name, file in FILES.items() for row in file.REWRITES]


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
    assert after.indices == before.indices
    FILES[name].holds(after)


def test_every_pass_has_rewrites() -> None:
    assert {row[0] for row in REWRITES} == set(PASSES)


def test_whole_pipeline() -> None:
    """What the passes make of it together, and in which stages."""
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
    assert [name for name, _ in seen] == ["lowered", *(one.name for one in PIPELINE)]
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


def test_every_pass_has_a_law_and_a_postcondition() -> None:
    assert len(PASSES) == len(PIPELINE) + len(CANONICAL_PRODUCTS)
    for one in (*PIPELINE, *CANONICAL_PRODUCTS):
        assert one.law
        assert one.postcondition


@pytest.mark.parametrize("seeds", [range(k * 100, k * 100 + 100) for k in range(6)], ids=str)
def test_postconditions(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its pass in the pipeline; a second run of a pass finds nothing more to do."""
    any_layouts(monkeypatch)
    for seed in seeds:
        *_, (_, program) = found = list(stages(random_program(seed)))
        for one in CANONICAL_PRODUCTS:
            program = one.run(program)
            found.append((one.name, program))
        for name, program in found[1:]:
            FILES[name].holds(program)
            assert PASSES[name](program) == program, (seed, name)


def test_upper_bounds_are_no_sizes() -> None:
    """An axis of size 1 at most may be empty: then a sum is 0, and nothing may be squeezed."""
    build = Builder()
    x, y = build.input("f8", (1, 2)), build.input("f8", (1, 3))
    total = build("negate", build("reduce_sum", x, axes=(0,)))
    again = build("reshape", build("reshape", x, shape=(2,)), shape=(1, 2))
    program = build.finish(total, dot(build, x, y, ((0,), (0,))), again)
    slots = [replace(slot, bounds=(0,)) if slot.shape[0] == 1 else slot for slot in program.slots]
    bounded = replace(program, slots=tuple(slots))
    for name in ("singleton_reduction", "layout_simplification", "dot_decomposition"):
        assert PASSES[name](program) != program
        assert PASSES[name](bounded) == bounded


def test_slots_of_another_layout_are_not_the_same() -> None:
    build = Builder()
    x = build.input("f8", (2, 3))
    program = build.finish(build("reshape", x, shape=(2, 3)))
    slots = (program.slots[0], replace(program.slots[1], layout=(1, 0)))
    assert PASSES["layout_simplification"](program).outputs == (x,)
    decided = replace(program, slots=slots)
    assert PASSES["layout_simplification"](decided).outputs == decided.outputs


def test_results_stay_views_or_no_views() -> None:
    """Of an input: what is a view is seen by whoever changes the input."""
    for seed in range(600):
        program = random_program(seed)
        assert views_of_inputs(optimise(program)) == views_of_inputs(program), seed


def views_of_inputs(program: Program) -> list[bool]:
    """Whether each result lies in the memory of an input, or may lie there."""
    inputs = set(program.inputs)
    for ins in program.instructions:
        if ins.may_view and ins.inputs[0] in inputs:
            inputs.update(ins.outputs)
    return [slot in inputs for slot in program.outputs]


def test_passes_do_not_recurse() -> None:
    """Thousands of transposes, copies, reshapes, conjugates and reverses of each other."""
    build = Builder()
    x = build.input("f8", (2, 3))
    for _ in range(4_000):
        x = build("transpose", x, perm=(1, 0))
    for _ in range(4_000):
        x = build("copy", x)
    program = optimise(build.finish(x))
    assert program.op_counts == {"copy": 4_000}
    build = Builder()
    x = build.input("c16", (2, 3))
    for k in range(4_000):
        x = build("reshape", x, shape=((3, 2), (2, 3))[k % 2])
    for _ in range(4_001):
        x = build("conj", x)
    for _ in range(3_999):
        x = build("reverse", x, axes=(0,))
    program = optimise(build.finish(build("negate", x)))
    assert program.op_counts == {"conj": 1, "reverse": 1, "negate": 1}


def test_frozen_instruction_of_folded_product() -> None:
    """Attributes stay tuples, so that instructions can be compared and hashed."""
    build = Builder()
    program = PASSES["transpose_folding"](build.finish(*foldable(build)))
    made = program.instructions[1]
    assert made == instruction(
        "dot_general", (0, 1), (3,), {"contracting": ((0,), (0,)), "batch": ((), ())}
    )
    assert hash(made)

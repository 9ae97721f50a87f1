"""Which elementwise instructions form groups, and that a group computes what its members do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.backend.laws import meaning
from tests.program.programs import (
    Array,
    assert_same,
    by_laws,
    random_arrays,
    random_indices,
    random_program,
)

from einloom._base.options import options
from einloom.backend.cpu import cpu
from einloom.program.builder import Builder
from einloom.program.ir import Program
from einloom.program.passes import optimise
from einloom.program.segments import MOST_STEPS, FusionGroup, fusion_groups

Make = Callable[[Builder], tuple[int, ...]]


def chain(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f8", (2, 3)), b.input("f8", (2, 3))
    return (b("negate", b("multiply", b("add", x, y), x)),)


def diamond(b: Builder) -> tuple[int, ...]:
    """What several members read is made once."""
    x = b.input("f8", (3,))
    middle = b("negate", x)
    return (b("add", b("multiply", middle, middle), b("absolute", middle)),)


def returned_between(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (3,))
    middle = b("exp", b("negate", x))
    return middle, b("absolute", b("floor", middle))


def another_reader(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (3,))
    middle = b("exp", b("negate", x))
    return b("floor", b("sqrt", middle)), b("reverse", middle, axes=(0,))


def kernels_between(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (3,))
    return (b("negate", b("pad", b("negate", x), low=(1,), high=(0,), interior=(0,), value=0)),)


def broadcast_operand(b: Builder) -> tuple[int, ...]:
    """A view is read as it is, whatever makes what it shows."""
    x, y = b.input("f8", (3,)), b.input("f8", (2, 3))
    wide = b("broadcast_in_dim", b("exp", b("negate", x)), shape=(2, 3), axes=(1,))
    return (b("floor", b("multiply", wide, y)),)


def dtypes_change(b: Builder) -> tuple[int, ...]:
    x, y = b.input("f4", (3,)), b.input("f4", (3,))
    chosen = b("select", b("less", x, y), x, y)
    return (b("real", b("conj", b("convert", chosen, dtype="complex64"))),)


def reductions(b: Builder) -> tuple[int, ...]:
    x = b.input("f8", (2, 3))
    total = b("reduce_sum", b("negate", x), axes=(1,))
    most = b("reduce_max", b("exp", x), axes=(0,), initial=1.0)
    return b("negate", total), most, b("reduce_min", x, axes=(0,), initial=None)


GROUPS: list[tuple[Make, list[tuple[int, ...]]]] = [
    # program, members of each group
    (chain, [(0, 1, 2)]),
    (diamond, [(0, 1, 2, 3)]),
    (returned_between, [(0, 1), (2, 3)]),
    (another_reader, [(0, 1), (2, 3)]),
    (kernels_between, []),
    (broadcast_operand, [(0, 1), (3, 4)]),
    (dtypes_change, [(0, 1, 2, 3, 4)]),
    (reductions, [(0, 1)]),
]


@pytest.mark.parametrize(("make", "members"), GROUPS, ids=[row[0].__name__ for row in GROUPS])
def test_groups(make: Make, members: list[tuple[int, ...]]) -> None:
    build = Builder()
    program = build.finish(*make(build))
    groups = fusion_groups(program)
    assert [group.members for group in groups] == members
    for group in groups:
        assert_is_a_group(group, program)


def test_the_plan_of_a_group() -> None:
    """Inputs as they are first read, then the steps in order."""
    build = Builder()
    program = build.finish(*diamond(build))
    (group,) = fusion_groups(program)
    assert (group.inputs, group.output) == ((0,), 4)
    assert [(step.op, step.operands) for step in group.plan.steps] == [
        ("negate", (0,)),
        ("multiply", (1, 1)),
        ("absolute", (1,)),
        ("add", (2, 3)),
    ]
    assert group.plan.outputs == (4,)


def test_long_chains_are_cut() -> None:
    build = Builder()
    x = build.input("f8", (2,))
    for _ in range(3 * MOST_STEPS):
        x = build("negate", x)
    groups = fusion_groups(build.finish(x))
    assert [len(group.members) for group in groups] == [MOST_STEPS] * 3
    assert [group.inputs for group in groups[1:]] == [(group.output,) for group in groups[:-1]]


def assert_is_a_group(group: FusionGroup, program: Program) -> None:
    """Only the last member's result leaves it, and the plan says what that is."""
    made = [program.instructions[at].outputs[0] for at in group.members]
    assert made[-1] == group.output
    readers = [
        at for at, ins in enumerate(program.instructions) if set(made[:-1]).intersection(ins.inputs)
    ]
    assert set(readers) <= set(group.members)
    assert not set(made[:-1]).intersection(program.outputs)
    assert not set(made).intersection(group.inputs)
    assert group.plan.output_specs() == program.specs((group.output,))
    assert group.plan.inputs == program.specs(group.inputs)


def by_groups(
    program: Program, arrays: list[Array], indices: tuple[int, ...]
) -> tuple[tuple[Array, ...], int]:
    """The results where each group that the backend takes is one kernel; how many it took."""
    kernels = {}
    skipped: set[int] = set()
    for group in fusion_groups(program):
        assert_is_a_group(group, program)
        kernel = cpu().fuse(group.plan)
        if kernel is not None:
            assert skipped.isdisjoint(group.members)
            skipped.update(group.members)
            kernels[group.members[-1]] = group, kernel
    values = dict(zip(program.inputs, arrays, strict=True))
    for at, ins in enumerate(program.instructions):
        if at in kernels:
            group, kernel = kernels[at]
            values[group.output] = kernel(*(values[slot] for slot in group.inputs))
        elif at not in skipped:
            operands = [values[slot] for slot in ins.inputs]
            made = meaning(ins.op, ins.at(indices), operands, program.specs(ins.outputs))
            values |= dict(zip(ins.outputs, made, strict=True))
    return tuple(np.asarray(values[slot]) for slot in program.outputs), len(kernels)


def test_groups_compute_what_their_members_do() -> None:
    taken = 0
    for seed in range(500):
        for program in (random_program(seed), optimise(random_program(seed))):
            if not fusion_groups(program):
                continue
            arrays, indices = random_arrays(program, seed), random_indices(program, seed)
            with options(small=10**9):
                got, count = by_groups(program, arrays, indices)
            taken += count
            try:
                assert_same(got, by_laws(program, arrays, indices))
            except AssertionError as error:
                error.add_note(f"random_program({seed}):\n{program}")
                raise
    assert taken >= 200

"""Random programs over every op: all ways to run them give what the definitions of the ops give."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.program.programs import (
    any_layouts,
    as_tuple,
    assert_same,
    by_laws,
    forced,
    random_arrays,
    random_indices,
    random_program,
)

from einloom.backend.cpu import cpu
from einloom.backend.cpu.backend import BINDERS
from einloom.program import executable as module
from einloom.program.executable import Executable
from einloom.program.passes import CANONICAL_PRODUCTS, PIPELINE, optimise, stages
from einloom.program.serial import program_from_json, program_to_json
from einloom.program.verify import verify

GROUPS = 12
EACH = 200  # programs of a group
SEEDS = range(GROUPS * EACH)


@pytest.fixture(autouse=True)
def _any_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    any_layouts(monkeypatch)


def note(error: Exception, seed: int, stage: str) -> None:
    error.add_note(f"random_program({seed}), {stage}:\n{random_program(seed)}")


@pytest.mark.parametrize("group", [pytest.param(k, marks=pytest.mark.slow) for k in range(GROUPS)])
def test_every_prefix_of_the_pipeline_keeps_the_results(group: int) -> None:
    for seed in SEEDS[group * EACH : (group + 1) * EACH]:
        program = random_program(seed)
        arrays = random_arrays(program, seed)
        indices = random_indices(program, seed)
        want = by_laws(program, arrays, indices)
        before = None
        for stage, rewritten in stages(program):
            if rewritten == before:
                continue
            before = rewritten
            try:
                with forced(rewritten, seed % 12 == 0):
                    executable = Executable(rewritten, cpu())
                    assert_same(executable(*arrays, indices=indices), want)
            except Exception as error:
                note(error, seed, stage)
                raise


@pytest.mark.parametrize("group", range(0, GROUPS, 4))
def test_canonical_products_keep_the_results(group: int) -> None:
    """Before the pipeline and after it."""
    for seed in SEEDS[group * EACH : (group + 1) * EACH]:
        program = random_program(seed)
        if "dot_general" not in program.op_counts:
            continue
        arrays, indices = random_arrays(program, seed), random_indices(program, seed)
        want = by_laws(program, arrays, indices)
        for before in (program, optimise(program)):
            for one in CANONICAL_PRODUCTS:
                before = verify(one.run(before))
            for rewritten in (before, optimise(before)):
                try:
                    executable = Executable(rewritten, cpu())
                    assert_same(executable(*arrays, indices=indices), want)
                except Exception as error:
                    note(error, seed, "canonical products")
                    raise


def test_the_programs_try_everything() -> None:
    """Every op with a kernel occurs 75 times or more, and every pass has something to do a hundred times."""
    ops: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    static = 0
    for seed in SEEDS:
        before = random_program(seed)
        ops += before.op_counts
        static += bool(before.indices)
        for one in PIPELINE:
            after = one.run(before)
            changes[one.name] += after != before
            before = after
    assert {op for op in BINDERS if ops[op] < 75} == set(), ops
    assert {one.name for one in PIPELINE if changes[one.name] < 100} == set(), changes
    assert static >= 100


@pytest.mark.parametrize("group", range(0, GROUPS, 4))
def test_generated_code_interpreter_and_table_agree(
    group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `out` too, where there is one result."""
    for seed in SEEDS[group * EACH : (group + 1) * EACH][::2]:
        program = optimise(random_program(seed))
        arrays = random_arrays(program, seed)
        indices = random_indices(program, seed)
        want = by_laws(program, arrays, indices)
        generated = Executable(program, cpu())
        with monkeypatch.context() as patch:
            patch.setattr(module, "TABLE_FROM", 0)
            table = Executable(program, cpu())
        try:
            assert_same(generated.interpret(*arrays, indices=indices), want)
            for executable in (generated, table):
                for _ in range(2):
                    assert_same(executable(*arrays, indices=indices), want)
                if len(program.outputs) == 1:
                    out = as_tuple(executable(*arrays, indices=indices))[0].copy()
                    out[...] = 1
                    assert executable(*arrays, out=out, indices=indices) is out
                    assert_same(out, want)
        except Exception as error:
            note(error, seed, "optimised")
            raise


def test_json_keeps_every_program() -> None:
    for seed in SEEDS[::2]:
        program = random_program(seed)
        for stage in (program, optimise(program)):
            again = program_from_json(program_to_json(stage))
            assert again == stage
            assert repr(again) == repr(stage)  # -0.0 == 0.0 and True == 1


def test_every_program_is_well_formed() -> None:
    for seed in SEEDS[::2]:
        for stage, program in stages(random_program(seed)):
            assert verify(program) is program, stage

"""Random programs over every op: all ways to run them give what the definitions of the ops give."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.program.programs import (
    GROW,
    as_tuple,
    assert_same,
    by_laws,
    forced,
    random_arrays,
    random_program,
)

from einloom.backend.cpu import cpu
from einloom.program import executable as module
from einloom.program.executable import Executable
from einloom.program.passes import PIPELINE, optimise, stages
from einloom.program.serial import program_from_json, program_to_json
from einloom.program.verify import verify

GROUPS = 12
EACH = 60  # programs of a group
SEEDS = range(GROUPS * EACH)


def note(error: Exception, seed: int, stage: str) -> None:
    error.add_note(f"random_program({seed}), {stage}:\n{random_program(seed)}")


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_prefix_of_the_pipeline_keeps_the_results(group: int) -> None:
    for seed in SEEDS[group * EACH : (group + 1) * EACH]:
        program = random_program(seed)
        arrays = random_arrays(program, seed)
        want = by_laws(program, arrays)
        for stage, rewritten in stages(program):
            try:
                with forced(rewritten, seed % 3 == 0):
                    assert_same(Executable(rewritten, cpu())(*arrays), want)
            except Exception as error:
                note(error, seed, stage)
                raise


def test_the_programs_try_everything() -> None:
    """Every op occurs, and every pass has something to do."""
    ops: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    for seed in SEEDS:
        before = random_program(seed)
        ops += before.op_counts
        for one in PIPELINE:
            after = one.run(before)
            changes[one.name] += after != before
            before = after
    assert min(ops[op] for op in GROW) >= 30, ops
    assert min(changes[one.name] for one in PIPELINE) >= 10, changes


@pytest.mark.parametrize("group", range(0, GROUPS, 3))
def test_generated_code_interpreter_and_table_agree(
    group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `out` too, where there is one result."""
    for seed in SEEDS[group * EACH : (group + 1) * EACH]:
        program = optimise(random_program(seed))
        arrays = random_arrays(program, seed)
        want = by_laws(program, arrays)
        generated = Executable(program, cpu())
        with monkeypatch.context() as patch:
            patch.setattr(module, "TABLE_FROM", 0)
            table = Executable(program, cpu())
        try:
            assert_same(generated.interpret(*arrays), want)
            for executable in (generated, table):
                for _ in range(2):
                    assert_same(executable(*arrays), want)
                if len(program.outputs) == 1:
                    out = as_tuple(executable(*arrays))[0].copy()
                    out[...] = 1
                    assert executable(*arrays, out=out) is out
                    assert_same(out, want)
        except Exception as error:
            note(error, seed, "optimised")
            raise


def test_json_keeps_every_program() -> None:
    for seed in SEEDS:
        program = random_program(seed)
        for stage in (program, optimise(program)):
            again = program_from_json(program_to_json(stage))
            assert again == stage
            assert repr(again) == repr(stage)  # -0.0 == 0.0 and True == 1


def test_every_program_is_well_formed() -> None:
    for seed in SEEDS:
        for stage, program in stages(random_program(seed)):
            assert verify(program) is program, stage

"""The 19 published problems in benchmarks/instances, run by both of their paths and by our planner.

Results are those of opt_einsum on NumPy. For gm_queen5_5_3 and the two permutation networks that
takes a quarter of a minute each: by default two different paths are checked against each other.
"""

from __future__ import annotations

import functools
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import opt_einsum
import pytest

import einloom
from einloom import cli
from einloom._base.memory import available_bytes
from einloom._base.numbers import format_bytes
from einloom.contract.problem_file import ProblemFile, read_problem

FOLDER = Path(__file__).parents[1] / "benchmarks" / "instances"
FILES = sorted(FOLDER.glob("*.json"))
PATHS = ("opt_size", "opt_flops")
SLOW_PEER = ("gm_queen5", "tensornetwork_permutation")  # whose hyperedges opt_einsum sums by einsum
SEED = 4
RTOL = 1e-9  # of the norm; sums of signed numbers, in other orders

every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
every_path = pytest.mark.parametrize(
    "path", [pytest.param("opt_size", marks=pytest.mark.slow), "opt_flops"]
)
slow_peers = pytest.mark.parametrize(
    "file", [f for f in FILES if f.stem.startswith(SLOW_PEER)], ids=lambda file: file.stem
)


@functools.cache
def read(file: Path) -> ProblemFile:
    return read_problem(file)


@functools.lru_cache(maxsize=1)  # some are large; the two paths of a file follow each other
def arrays(file: Path) -> list[np.ndarray]:
    return read(file).arrays(SEED)


@functools.lru_cache(maxsize=1)
def peer(file: Path) -> np.ndarray:
    """opt_einsum's result."""
    problem, path = read(file), read(file).paths["opt_size"]
    operands = arrays(file)
    return np.asarray(
        opt_einsum.contract(problem.equation, *operands, optimize=path, backend="numpy")
    )


def planned(file: Path, path: str) -> einloom.Plan:
    """The plan by one of the paths, or by our planner, if memory allows to run it."""
    problem = read(file)
    choice = problem.paths.get(path, "auto")
    plan = einloom.plan(problem.equation, *problem.shapes, dtype=problem.dtype, planner=choice)
    available = available_bytes()
    if available is not None and plan.peak_bytes > available:
        peak, room = format_bytes(plan.peak_bytes), format_bytes(available)
        pytest.skip(f"needs {peak} of memory, {room} are available")
    return plan


@functools.cache
def run_command(file: Path, path: str) -> dict[str, Any]:
    """What `einloom run` reports."""
    with redirect_stdout(io.StringIO()) as out:
        code = cli.main(["run", str(file), "--path", path, "--seed", str(SEED), "--json"])
    assert code == 0
    facts: dict[str, Any] = json.loads(out.getvalue())
    return facts


def other_path(file: Path, path: str) -> str:
    """Another path of the file, or our planner's where both are the same."""
    other = PATHS[path == PATHS[0]]
    return "auto" if read(file).paths[other] == read(file).paths[path] else other


def assert_close(got: Any, want: Any) -> None:
    assert np.shape(got) == np.shape(want)
    assert np.all(np.isfinite(got))
    assert 0 < np.linalg.norm(np.ravel(want)) < np.inf
    assert np.linalg.norm(np.ravel(got - want)) <= RTOL * np.linalg.norm(np.ravel(want))


def test_all_are_there() -> None:
    assert len(FILES) == 19
    for file in FILES:
        content = json.loads(file.read_text(encoding="utf-8"))
        assert "tenferro-benchmark" in content["source"]
        assert set(content["paths"]) == set(PATHS)
        assert read(file).name == content["name"]


@every_path
@pytest.mark.parametrize(
    "file",
    [pytest.param(f, marks=pytest.mark.slow) if "queen" in f.stem else f for f in FILES],
    ids=lambda file: file.stem,
)
def test_the_command_runs_it(file: Path, path: str) -> None:
    """`einloom run` by a given path: the plan is that path, and the result has the right norm."""
    plan, problem = planned(file, path), read(file)
    facts = run_command(file, path)
    assert [set(step) for step in plan.path] == [set(step) for step in problem.paths[path]]
    assert (facts["name"], facts["path"]) == (problem.name, path)
    assert (facts["flops"], facts["peak_bytes"]) == (plan.flops, plan.peak_bytes)
    assert facts["finite"] is True
    if file.stem.startswith(SLOW_PEER):
        assert_close(facts["norm"], run_command(file, other_path(file, path))["norm"])
    else:
        assert facts["shape"] == list(peer(file).shape)
        assert_close(facts["norm"], np.linalg.norm(np.ravel(peer(file))))


@every_path
@pytest.mark.parametrize(
    "file", [f for f in FILES if not f.stem.startswith(SLOW_PEER)], ids=lambda file: file.stem
)
def test_every_element_is_opt_einsums(file: Path, path: str) -> None:
    planned(file, path)
    got = einloom.einsum(read(file).equation, *arrays(file), optimize=read(file).paths[path])
    assert_close(got, peer(file))


@every_file
def test_flops_are_opt_einsums(file: Path) -> None:
    problem = read(file)
    for path in PATHS:
        _, info = opt_einsum.contract_path(
            problem.equation, *problem.shapes, shapes=True, optimize=problem.paths[path]
        )
        plan = einloom.plan(problem.equation, *problem.shapes, planner=problem.paths[path])
        assert plan.flops == int(info.opt_cost)
        assert plan.largest_intermediate == int(info.largest_intermediate)


@pytest.mark.slow
@every_file
def test_by_our_planner(file: Path) -> None:
    planned(file, "auto")
    assert_close(run_command(file, "auto")["norm"], run_command(file, "opt_size")["norm"])


@pytest.mark.slow
@every_path
@slow_peers
def test_every_element_is_opt_einsums_at_length(file: Path, path: str) -> None:
    planned(file, path)
    got = einloom.einsum(read(file).equation, *arrays(file), optimize=read(file).paths[path])
    assert_close(got, peer(file))

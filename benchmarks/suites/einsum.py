"""How fast the published einsum problems run by a given path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import opt_einsum

import einloom
from einloom.contract.problem_file import ProblemFile, read_problem

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender, rates
from ..roofline import roofline

INSTANCES = Path(__file__).parents[1] / "instances"
SMALL = ("bin_matmul_256", "nary_matmul_chain_64")
SLOW_FOR_NUMPY = ("gm_queen5", "tensornetwork_permutation")  # minutes for opt_einsum with NumPy


def einsum(quick: bool) -> Iterator[CaseResult]:
    """The published problems by their own opt_flops path, all with the same threads."""
    for file in sorted(INSTANCES.glob("*.json")):
        if quick and file.stem not in SMALL:
            continue
        problem = read_problem(file)
        arrays = problem.arrays(0)
        path = problem.paths["opt_flops"]
        plan = einloom.plan(problem.equation, *arrays, planner=path)
        yield measure(
            problem.name,
            dict(_contenders(problem, arrays, path, einloom.compile(plan))),
            facts={"flops": str(plan.flops), "peak_bytes": plan.peak_bytes},
            roofline=roofline(plan, rates(quick)),
            quick=quick,
        )


def _contenders(
    problem: ProblemFile, arrays: list[Any], path: Any, ours: Callable[..., Any]
) -> Iterator[tuple[str, Contender]]:
    yield "einloom", lambda: ours(*arrays)
    theirs = opt_einsum.contract_expression(
        problem.equation, *problem.shapes, optimize=[tuple(step) for step in path]
    )
    if not problem.name.startswith(SLOW_FOR_NUMPY):
        yield "opt_einsum+numpy", lambda: theirs(*arrays)
    torch = peers.torch()
    if torch is not None and not problem.name.startswith("gm_queen5"):
        tensors = [torch.from_numpy(x) for x in arrays]
        yield "opt_einsum+torch", lambda: theirs(*tensors)

"""The suites: overhead of small calls, the published einsum problems, and the import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import opt_einsum

import einloom
from einloom.contract.problem_file import ProblemFile, read_problem

from .harness import CaseResult, Contender, measure

INSTANCES = Path(__file__).parent / "instances"


def overhead() -> Iterator[CaseResult]:
    """Time of a call beside the bare np.dot chain, for matrices of 8 by 8."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.random((8, 8)) for _ in range(3))
    for equation, arrays, bare in (
        ("ij,jk->ik", (a, b), lambda: np.dot(a, b)),
        ("ij,jk,kl->il", (a, b, c), lambda: np.dot(np.dot(a, b), c)),
    ):
        yield measure(
            equation,
            _overhead_contenders(equation, arrays, bare),
            baselines=("bare np.dot", "expression"),
        )


def _overhead_contenders(
    equation: str, arrays: tuple[Any, ...], bare: Contender
) -> dict[str, Contender]:
    ours = einloom.compile(equation, *arrays)
    theirs = opt_einsum.contract_expression(equation, *(x.shape for x in arrays))
    contenders: dict[str, Contender] = {
        "bare np.dot": bare,
        "expression": lambda: ours(*arrays),
        "einloom": lambda: einloom.einsum(equation, *arrays),
        "opt_einsum expr.": lambda: theirs(*arrays),
        "opt_einsum": lambda: opt_einsum.contract(equation, *arrays),
        "np.einsum(optimize)": lambda: np.einsum(equation, *arrays, optimize=True),
    }
    torch = _torch()
    if torch is not None:
        tensors = [torch.from_numpy(x) for x in arrays]
        contenders["torch.einsum"] = lambda: torch.einsum(equation, *tensors)
    return contenders


def einsum() -> Iterator[CaseResult]:
    """The published problems by their own opt_flops path, all with the same threads."""
    for file in sorted(INSTANCES.glob("*.json")):
        problem = read_problem(file)
        arrays = problem.arrays(0)
        path = problem.paths["opt_flops"]
        plan = einloom.plan(problem.equation, *arrays, planner=path)
        yield measure(
            problem.name,
            dict(_peers(problem, arrays, path, einloom.compile(plan))),
            facts={"flops": str(plan.flops), "peak_bytes": plan.peak_bytes},
        )


SLOW_FOR_NUMPY = ("gm_queen5", "tensornetwork_permutation")  # minutes for opt_einsum with NumPy


def _peers(
    problem: ProblemFile, arrays: list[Any], path: Any, ours: Callable[..., Any]
) -> Iterator[tuple[str, Contender]]:
    yield "einloom", lambda: ours(*arrays)
    theirs = opt_einsum.contract_expression(
        problem.equation, *problem.shapes, optimize=[tuple(step) for step in path]
    )
    if not problem.name.startswith(SLOW_FOR_NUMPY):
        yield "opt_einsum+numpy", lambda: theirs(*arrays)
    torch = _torch()
    if torch is not None and not problem.name.startswith("gm_queen5"):
        tensors = [torch.from_numpy(x) for x in arrays]
        yield "opt_einsum+torch", lambda: theirs(*tensors)


def imports() -> Iterator[CaseResult]:
    """A whole process that only imports; the interpreter's own start is in both."""

    def process(code: str) -> Contender:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True) and 0.0

    yield measure(
        "import",
        {
            "python alone": process("pass"),
            "numpy": process("import numpy"),
            "einloom": process("import einloom"),
            "einloom.einsum": process("import einloom; einloom.einsum"),
        },
        rounds=15,
        budget=30.0,
        baselines=("python alone", "numpy", "einloom.einsum"),
    )


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    return torch


SUITES: dict[str, Callable[[], Iterator[CaseResult]]] = {
    "overhead": overhead,
    "einsum": einsum,
    "import": imports,
}

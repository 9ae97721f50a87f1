"""How fast the published einsum problems run by a given path."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import opt_einsum

import einloom
from einloom.backend.cpu.workspaces import WORKSPACES
from einloom.contract.problem_file import ProblemFile, read_problem

from .. import peers
from ..harness import CaseResult, measure, patience
from ..machine import Contender, present_roofline
from ..memory import packing_bytes, peak_bytes, torch_peak_bytes, xla_bytes

INSTANCES = Path(__file__).parents[1] / "instances"
SMALL = ("bin_matmul_256", "nary_matmul_chain_64")
ON_NUMPY = ("einloom", "np.einsum", "opt_einsum+numpy", "cotengra+numpy", "pytblis")
ON_TORCH = ("opt_einsum+torch", "cotengra+torch")
NUMPY_LABELS = 52  # np.einsum reads ASCII letters only


@dataclass(frozen=True)
class Case:
    """A problem with its operands, and the path that everybody follows."""

    problem: ProblemFile
    arrays: list[Any]
    path: list[tuple[int, ...]]

    @property
    def numpy_path(self) -> list[Any]:
        return ["einsum_path", *self.path]


def einsum(quick: bool) -> Iterator[CaseResult]:
    """The published problems by their own opt_flops path, all with the same threads."""
    for file in sorted(INSTANCES.glob("*.json")):
        if quick and file.stem not in SMALL:
            continue
        problem = read_problem(file)
        arrays = problem.arrays(0)
        path = [tuple(step) for step in problem.paths["opt_flops"]]
        plan = einloom.plan(problem.equation, *arrays, planner=path)
        ours = einloom.compile(plan)
        contenders: dict[str, Contender] = {"einloom": partial(ours, *arrays)}
        left_out: dict[str, str] = {}
        facts: dict[str, Any] = {"flops": str(plan.flops)}
        for who, prepare in PEERS.items():
            try:
                with patience():
                    prepared = prepare(Case(problem, arrays, path), facts)
            except Exception as error:  # a peer that cannot do the case loses it, no more
                left_out[who] = f"{type(error).__name__}: {error}"[:200]
                continue
            if prepared is not None:
                contenders[who] = prepared
        result = measure(
            problem.name,
            contenders,
            left_out=left_out,
            facts=facts,
            roofline=present_roofline(plan, quick),
            quick=quick,
        )
        result.predicted_peak = plan.peak_bytes
        result.peaks = {
            who: peak_bytes(contenders[who], arrays) for who in ON_NUMPY if who in result.seconds
        }
        result.peaks |= {
            who: torch_peak_bytes(contenders[who], arrays)
            for who in ON_TORCH
            if who in result.seconds
        }
        if "jax" in result.seconds:
            result.peaks["jax"] = facts["jax_bytes"]
        facts["held_bytes"] = peak_bytes(contenders["einloom"], arrays, held=True)
        WORKSPACES.clear()
        contenders["einloom"]()
        facts["workspace_bytes"] = WORKSPACES.info().currsize
        if (sizes := _product(problem)) is not None:
            facts["blas_packing_bytes"] = packing_bytes(*sizes)
        yield result


def _product(problem: ProblemFile) -> tuple[int, int, int, int] | None:
    """Batch, m, n and k of a problem that is one product of matrices; None for others."""
    inputs, _, output = problem.equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != 2:
        return None
    sizes = {
        x: n
        for term, shape in zip(terms, problem.shapes, strict=True)
        for x, n in zip(term, shape, strict=True)
    }
    lhs, rhs, out = map(set, (*terms, output))
    if (lhs ^ rhs) - out:  # summed in one operand alone
        return None
    batch, m, n, k = (
        math.prod(sizes[x] for x in group)
        for group in (lhs & rhs & out, (lhs & out) - rhs, (rhs & out) - lhs, (lhs & rhs) - out)
    )
    return (batch, m, n, k) if k > 1 else None


# ---- peers: what is prepared is not timed; None for what is not installed ---------------------


def _numpy(case: Case, facts: dict[str, Any]) -> Contender:
    labels = len(set(case.problem.equation) - set(",->"))
    if labels > NUMPY_LABELS:
        raise ValueError(f"{labels} labels, np.einsum takes {NUMPY_LABELS}")
    return partial(np.einsum, case.problem.equation, *case.arrays, optimize=case.numpy_path)


def _opt_einsum(case: Case, facts: dict[str, Any]) -> Contender:
    return partial(_opt_einsum_expression(case), *case.arrays)


def _opt_einsum_torch(case: Case, facts: dict[str, Any]) -> Contender | None:
    tensors = _tensors(case)
    return partial(_opt_einsum_expression(case), *tensors) if tensors else None


def _opt_einsum_expression(case: Case) -> Callable[..., Any]:
    problem = case.problem
    made: Callable[..., Any] = opt_einsum.contract_expression(
        problem.equation, *problem.shapes, optimize=case.path
    )
    return made


def _cotengra(case: Case, facts: dict[str, Any]) -> Contender | None:
    return peers.cotengra() and partial(_cotengra_expression(case), *case.arrays)


def _cotengra_torch(case: Case, facts: dict[str, Any]) -> Contender | None:
    tensors = _tensors(case) if peers.cotengra() else None
    return partial(_cotengra_expression(case), *tensors) if tensors else None


def _cotengra_expression(case: Case) -> Callable[..., Any]:
    inputs, _, output = case.problem.equation.partition("->")
    made: Callable[..., Any] = peers.cotengra().array_contract_expression(
        [tuple(term) for term in inputs.split(",")],
        tuple(output),
        shapes=case.problem.shapes,
        optimize=case.path,
        cache=False,
    )
    return made


def _jax(case: Case, facts: dict[str, Any]) -> Contender | None:
    jax = peers.jax()
    if jax is None:
        return None
    arrays = [jax.numpy.asarray(x) for x in case.arrays]
    jitted = jax.jit(
        partial(jax.numpy.einsum, case.problem.equation, optimize=case.path, precision="highest")
    )
    start = time.perf_counter()
    compiled = jitted.lower(*arrays).compile()
    facts["jax_compile_seconds"] = time.perf_counter() - start
    facts["jax_bytes"] = xla_bytes(compiled)
    return lambda: jitted(*arrays).block_until_ready()


def _pytblis(case: Case, facts: dict[str, Any]) -> Contender | None:
    pytblis = peers.pytblis()
    return pytblis and partial(
        pytblis.einsum, case.problem.equation, *case.arrays, optimize=case.numpy_path
    )


def _tensors(case: Case) -> list[Any]:
    torch = peers.torch()
    return [torch.from_numpy(x) for x in case.arrays] if torch else []


PEERS: dict[str, Callable[[Case, dict[str, Any]], Contender | None]] = {
    "np.einsum": _numpy,
    "opt_einsum+numpy": _opt_einsum,
    "opt_einsum+torch": _opt_einsum_torch,
    "cotengra+numpy": _cotengra,
    "cotengra+torch": _cotengra_torch,
    "jax": _jax,
    "pytblis": _pytblis,
}

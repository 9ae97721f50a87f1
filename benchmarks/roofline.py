"""The roofline: no contraction along a path takes less time than its arithmetic, or than its bytes.

A step takes at least max(flops / rate of GEMM, bytes / bandwidth of a threaded copy), and a program the
sum over its steps. The rates are measured in the same run with the same threads. A time below the roofline
therefore says that a rate was taken too low, or that an intermediate came from cache, not from memory.

flops: 2 for each multiplication, 8 for each of complex numbers, and as many additions as GEMM does.
bytes: the operands of the step and its result, each once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from einloom import Plan
from einloom.contract.cost import StepLabels, size_of, walk


@dataclass(frozen=True, slots=True)
class Rates:
    """What the machine does at best: flops a second of GEMM by dtype, bytes a second of a copy."""

    gemm: Mapping[str, float]
    copy: float


@dataclass(frozen=True, slots=True)
class Work:
    """What one step has to do, `times` times."""

    flops: int
    nbytes: int
    times: int = 1

    def seconds(self, gemm: float, copy: float) -> float:
        return self.times * max(self.flops / gemm, self.nbytes / copy)


def roofline(plan: Plan, rates: Rates) -> float | None:
    """Seconds below which no run of the plan can come; None for a dtype whose rate is unknown."""
    gemm = rates.gemm.get(plan.dtype.name)
    return gemm and sum(step.seconds(gemm, rates.copy) for step in works(plan))


def works(plan: Plan) -> Iterator[Work]:
    """The work of each step; a step that depends on a sliced label is done for every slice."""
    network = plan.network.slice(plan.sliced) if plan.sliced else plan.network
    depends = [not labels.isdisjoint(plan.sliced) for labels in plan.network.carried]
    for path_step, step in zip(plan.ssa_path, walk(network, plan.tree), strict=True):
        depends.append(any(depends[tensor] for tensor in path_step))
        tensors = (*step.operands, step.result)
        yield Work(
            flops=flops_per_product(plan.dtype.kind) * size_of(_multiplied(step), network.extents),
            nbytes=plan.dtype.itemsize * sum(size_of(x, network.extents) for x in tensors),
            times=plan.n_slices if depends[-1] else 1,
        )


def flops_per_product(kind: str) -> int:
    """A multiplication and an addition: 2 flops, of complex numbers 8."""
    return 8 if kind == "c" else 2


def _multiplied(step: StepLabels) -> frozenset[int]:
    """The labels of a product; what one operand alone carries is summed before, which is no product."""
    alone = {x for x in step.union - step.result if sum(x in y for y in step.operands) == 1}
    return step.union - alone if len(step.operands) > 1 else step.union

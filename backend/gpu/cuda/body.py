"""What a fused kernel computes for one element: a line for each step of a plan."""

from __future__ import annotations

from dataclasses import dataclass

from ...fusion import ElementwiseFusionPlan
from ...spec import ArraySpec
from .types import computes, type_of


@dataclass(frozen=True, slots=True)
class Body:
    """Types of inputs and outputs, and lines that make v<number> of v0, v1, ..., the inputs."""

    inputs: tuple[str, ...]
    lines: tuple[str, ...]
    outputs: tuple[int, ...]
    types: tuple[str, ...]
    """Of the outputs."""

    def loads(self, first: int) -> list[str]:
        """Lines that read the inputs, of which the first has its offset in at[first]."""
        return [f"const {t} v{k} = i{k}[at[{first + k}]];" for k, t in enumerate(self.inputs)]


def body_of(plan: ElementwiseFusionPlan) -> Body | None:
    """The steps as statements; None where one of them has no kernel."""
    values = plan.values()
    first = len(plan.inputs)
    if any(type_of(spec.dtype) is None for spec in values):
        return None
    lines = []
    for position, step in enumerate(plan.steps):
        operands = [values[k] for k in step.operands]
        if not computes(step.op, [spec.dtype for spec in operands]):
            return None
        lines.append(_line(step.op, first + position, step.operands, values))
    types = tuple(type_of(spec.dtype) or "" for spec in values)
    outputs = tuple(types[k] for k in plan.outputs)
    return Body(types[:first], tuple(lines), plan.outputs, outputs)


def _line(op: str, value: int, operands: tuple[int, ...], values: list[ArraySpec]) -> str:
    made = type_of(values[value].dtype)
    if op in ("convert", "cast", "identity"):
        return f"const {made} v{value} = to<{made}>(v{operands[0]});"
    arguments = ", ".join(f"wide(v{k})" for k in operands)
    return f"const {made} v{value} = to<{made}>(op::{op}({arguments}));"

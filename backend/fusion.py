"""A chain of elementwise ops as one value: what a backend may run as one kernel.

Value number k < len(inputs) is input k, read as a broadcast view of `shape`; step s makes value
len(inputs) + s. Outputs name values. With `reduce`, each output is reduced over `axes` after the
steps, as the catalogue's reduction of that name does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._base.errors import ProgramError
from .catalogue import Attrs, infer, row_of
from .spec import ArraySpec, Axes, Shape

NO_MEMORY = frozenset(("convert", "cast", "identity", "conj"))
"""Ops beside the catalogue's elementwise group that a step may be."""


@dataclass(frozen=True, slots=True)
class FusionStep:
    """One op of a chain: `value = op[attributes](values)`."""

    op: str
    operands: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    @property
    def attrs(self) -> Attrs:
        return dict(self.attributes)


@dataclass(frozen=True, slots=True)
class ElementwiseFusionPlan:
    """Elementwise steps over broadcast inputs, with outputs, and perhaps a trailing reduction.

    >>> import numpy as np
    >>> x = ArraySpec(np.dtype("f8"), (2, 3))
    >>> plan = ElementwiseFusionPlan((x, x), (FusionStep("multiply", (0, 1)),), (2,), "reduce_sum", (1,))
    >>> print(*plan.output_specs())
    float64[2]
    """

    inputs: tuple[ArraySpec, ...]
    steps: tuple[FusionStep, ...]
    outputs: tuple[int, ...]
    reduce: str | None = None
    axes: Axes = ()

    @property
    def shape(self) -> Shape:
        """The common shape of all values."""
        return self.inputs[0].shape

    def values(self) -> list[ArraySpec]:
        """Dtype and shape of every value; raises where a step is none of the catalogue's, or does not fit."""
        found = list(self.inputs)
        if not found or not self.outputs:
            raise ProgramError("a fusion plan needs inputs and outputs")
        for spec in found:
            if spec.shape != self.shape:
                raise ProgramError(
                    f"fusion plan: inputs {found[0]} and {spec}: broadcast them first"
                )
        for position, step in enumerate(self.steps):
            if row_of(step.op).group != "elementwise" and step.op not in NO_MEMORY:
                raise ProgramError(f"fusion plan: {step.op} (step {position}) is not elementwise")
            if any(not 0 <= value < len(found) for value in step.operands):
                raise ProgramError(f"fusion plan: step {position} reads a value not yet made")
            operands = tuple(found[value] for value in step.operands)
            found.append(*infer(step.op, step.attrs, operands))
        if any(not 0 <= value < len(found) for value in self.outputs):
            raise ProgramError(
                f"fusion plan: outputs {self.outputs} name values that are not there"
            )
        return found

    def output_specs(self) -> tuple[ArraySpec, ...]:
        """Dtype and shape of every output."""
        found = self.values()
        made = tuple(found[value] for value in self.outputs)
        if self.reduce is None:
            return made
        attrs = reduction_attrs(self.reduce, self.axes)
        return tuple(infer(self.reduce, attrs, (spec,))[0] for spec in made)


def reduction_attrs(op: str, axes: Axes) -> Attrs:
    """The attributes of a trailing reduction."""
    if op not in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean"):
        raise ProgramError(f"fusion plan: {op!r} is no reduction")
    return {"axes": axes, "initial": None} if op in ("reduce_max", "reduce_min") else {"axes": axes}

"""Chains of ops as one value each: what a backend may run as one kernel.

Of elementwise ops: value number k < len(inputs) is input k, read as a broadcast view of `shape`; step s
makes value len(inputs) + s. Outputs name values. With `reduce`, each output is reduced over `axes` after the
steps, as the catalogue's reduction of that name does. Of products: the same small ones for every index of
some labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._base.errors import ProgramError
from .catalogue import Attrs, infer, row_of
from .rules import NO_CONJ
from .spec import ArraySpec, Axes, Shape

Labels = tuple[int, ...]
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


@dataclass(frozen=True, slots=True)
class ProductStep:
    """One product of two values: all labels that it does not keep are summed over.

    `labels` are the axes of the value that it makes, as they lie in memory where the product runs by itself;
    `conj` says which operands are conjugated.
    """

    operands: tuple[int, int]
    labels: Labels
    conj: tuple[bool, bool] = NO_CONJ


@dataclass(frozen=True, slots=True)
class ProductFusionPlan:
    """A chain of products whose values all have the labels `lanes`: the same small computation for every
    index of these, with nothing but inputs and result in memory.

    Attributes:
        inputs: dtype, shape and layout of the operands.
        terms: labels of the axes of each.
        steps: products of values; step s makes value len(inputs) + s, the last one the result.
        output: labels of the axes of the result, in order.
        lanes: labels that every step keeps, in the order in which they are walked.
        result: dtype, shape and layout of the result.

    >>> import numpy as np
    >>> x, y = ArraySpec(np.dtype("f8"), (900, 3)), ArraySpec(np.dtype("f8"), (3, 3))
    >>> steps = (ProductStep((1, 0), (2, 0)), ProductStep((3, 2), (0,)))
    >>> plan = ProductFusionPlan(  # sum_ij x_zi y_ij w_zj
    ...     (x, y, x), ((0, 1), (1, 2), (0, 2)), steps, (0,), (0,), ArraySpec(x.dtype, (900,))
    ... )
    >>> plan.elements(), plan.multiplications()
    ((3, 9, 3, 3, 1), (9, 3))
    """

    inputs: tuple[ArraySpec, ...]
    terms: tuple[Labels, ...]
    steps: tuple[ProductStep, ...]
    output: Labels
    lanes: Labels
    result: ArraySpec

    def check(self) -> None:
        """Raise where steps, labels and sizes do not fit: a kernel trusts them."""
        terms = [*zip(self.terms, self.inputs, strict=True), (self.output, self.result)]
        sizes: dict[int, int] = {}
        for term, spec in terms:
            if len(term) != len(spec.shape) or len({*term}) != len(term):
                raise ProgramError(
                    f"fusion plan: labels {term} are not those of the axes of {spec}"
                )
            for label, n in zip(term, spec.shape, strict=True):
                if sizes.setdefault(label, n) != n:
                    raise ProgramError(
                        f"fusion plan: label {label} has sizes {sizes[label]} and {n}"
                    )
        labels = self.labels()
        for number, step in enumerate(self.steps):
            if any(not 0 <= value < len(self.inputs) + number for value in step.operands):
                raise ProgramError(f"fusion plan: step {number} reads a value not yet made")
            read = {x for value in step.operands for x in labels[value]}
            if not {*self.lanes} <= {*step.labels} <= read or len({*step.labels}) != len(
                step.labels
            ):
                raise ProgramError(
                    f"fusion plan: step {number} has labels {step.labels}, its operands {sorted(read)}, "
                    f"lanes are {self.lanes}"
                )
        if not self.steps or {*labels[-1]} != {*self.output}:
            raise ProgramError("fusion plan: the last step does not make the labels of the result")

    @property
    def sizes(self) -> dict[int, int]:
        """Of all labels."""
        return {
            label: n
            for term, spec in zip(self.terms, self.inputs, strict=True)
            for label, n in zip(term, spec.shape, strict=True)
        }

    def labels(self) -> tuple[Labels, ...]:
        """Of every value."""
        return (*self.terms, *(step.labels for step in self.steps))

    def is_constant(self, value: int) -> bool:
        """Whether a value is the same for all lanes."""
        return not set(self.lanes) & set(self.labels()[value])

    def elements(self) -> tuple[int, ...]:
        """Of every value, in one lane."""
        sizes, lanes = self.sizes, set(self.lanes)
        return tuple(
            math.prod(sizes[x] for x in labels if x not in lanes) for labels in self.labels()
        )

    def multiplications(self) -> tuple[int, ...]:
        """Of every step, in one lane."""
        sizes, lanes, labels = self.sizes, set(self.lanes), self.labels()
        return tuple(
            math.prod(
                sizes[x] for x in {*labels[step.operands[0]], *labels[step.operands[1]]} - lanes
            )
            for step in self.steps
        )


FusionPlan = ElementwiseFusionPlan | ProductFusionPlan
"""What a backend may run as one kernel."""

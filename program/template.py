"""A program whose sizes are known later: `bind` gives them and returns a Program of integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from operator import index
from typing import Any

import numpy as np

from .._base.errors import DTypeError, EinloomError, ProgramError, ShapeError
from ..backend.dims import DimExpr, dim, evaluated, expressions, input_dim, names_of
from ..backend.spec import ArraySpec, Shape, dtype_from_name
from .ir import Instruction, Program, Slot, StaticIndex, listing
from .verify import RULES as PROGRAM_RULES
from .verify import Rule, check, inferred, verify

TEMPLATE_FORMAT = "einloom.template"
TEMPLATE_VERSION = 1
RESOLVED = {"gather_dynamic_slice_sizes": "gather"}
"""What an op is called when its sizes are integers."""


@dataclass(frozen=True)
class ProgramTemplate:
    """Slots and instructions as of a `Program`, where a size may be a `DimExpr`.

    Names of sizes get their values from the shapes of the inputs, in which each name stands alone at
    least once; `input_dim(k, axis)` is an axis of input k. A rule of the catalogue that cannot be
    decided for names is checked when the template is bound. An op for symbolic sizes becomes the plain
    one: `gather_dynamic_slice_sizes` is a `gather` in the program.

    >>> from einloom.program.builder import Builder
    >>> build = Builder()
    >>> a, b = build.input("float64", ("n", 3)), build.input("float64", (3, "m"))
    >>> template = build.template(build("matmul", a, b))
    >>> print(template)
    template(%0: float64[n,3], %1: float64[3,m])
      %2 = matmul(%0, %1)  # float64[n,m], 8*m*n B
      return %2
    >>> print(template.bind([(2, 3), (3, 5)]))
    program(%0: float64[2,3], %1: float64[3,5])
      %2 = matmul(%0, %1)  # float64[2,5], 80 B
      return %2
    """

    slots: tuple[Slot, ...]
    instructions: tuple[Instruction, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    indices: tuple[StaticIndex, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of sizes, in the order in which inputs show them."""
        shapes = (self.slots[slot].shape for slot in self.inputs)
        found = (name for shape in shapes for n in shape for name in sorted(names_of(n)))
        return tuple(dict.fromkeys(found))

    def specs(self, slots: tuple[int, ...]) -> tuple[ArraySpec, ...]:
        return tuple(self.slots[slot].spec for slot in slots)

    def bind(self, shapes: Sequence[Shape], dtypes: Sequence[Any] | None = None) -> Program:
        """The verified program for inputs of these shapes, and of these dtypes if given.

        Raises:
            ShapeError: a shape is not what the template says of the input; axis and sizes are named.
            ProgramError, DTypeError: an instruction does not take these sizes or dtypes.
        """
        given = self._checked_shapes(shapes)
        sizes = self._sizes(given)
        slots: dict[int, Slot] = {}
        for slot, spec in zip(self.inputs, self._input_specs(given, dtypes), strict=True):
            slots[slot] = self._slot(slot, spec)
        indices = tuple(StaticIndex(x.name, evaluated(x.size, sizes, given)) for x in self.indices)
        last = [x.size - 1 for x in indices]
        instructions = []
        for number, ins in enumerate(self.instructions):
            try:
                attributes = tuple((k, evaluated(v, sizes, given)) for k, v in ins.attributes)
                op = RESOLVED.get(ins.op, ins.op)
                bound = Instruction(op, attributes, ins.inputs, ins.outputs)
                specs = inferred(bound, tuple(slots[slot].spec for slot in ins.inputs), last)
                for slot, spec in zip(ins.outputs, specs, strict=True):
                    expected = evaluated(self.slots[slot].shape, sizes, given)
                    if spec.shape != expected:
                        raise ProgramError(f"yields {spec}, slot %{slot} says {expected}")
                    slots[slot] = self._slot(slot, spec)
            except EinloomError as error:
                raise type(error)(f"bind: instruction {number} ({ins.op}): {error}") from None
            instructions.append(bound)
        if len(slots) != len(self.slots):
            raise ProgramError(f"bind: {len(self.slots) - len(slots)} slots are never written")
        ordered = tuple(slots[slot] for slot in range(len(slots)))
        program = Program(ordered, tuple(instructions), self.inputs, self.outputs, indices)
        return verify(program)

    def _slot(self, slot: int, spec: ArraySpec) -> Slot:
        return Slot(spec, self.slots[slot].bounds, self.slots[slot].layout)

    def _checked_shapes(self, shapes: Sequence[Shape]) -> list[Shape]:
        if len(shapes) != len(self.inputs):
            raise ShapeError(
                f"bind: {len(shapes)} shapes given, there are {len(self.inputs)} inputs"
            )
        found = []
        for number, (slot, shape) in enumerate(zip(self.inputs, shapes, strict=True)):
            try:
                sizes = tuple(index(n) for n in shape)
            except TypeError:
                raise ShapeError(
                    f"bind: the shape {shape!r:.60} of input {number} is no tuple of integers"
                ) from None
            if len(sizes) != len(self.slots[slot].shape) or any(n < 0 for n in sizes):
                raise ShapeError(
                    f"bind: input {number} has shape {sizes}, the template says {self.slots[slot]}"
                )
            found.append(sizes)
        return found

    def _sizes(self, shapes: list[Shape]) -> dict[str, int]:
        """The value of every name; each size of an input must be what the template says."""
        known: dict[str, tuple[int, str]] = {}
        for number, axis, expr in _input_sizes(self):
            place = f"axis {axis} of input {number}"
            if (name := _sole_name(expr)) is not None:
                known.setdefault(name, (shapes[number][axis], place))
        sizes = {name: n for name, (n, _) in known.items()}
        for number, axis, expr in _input_sizes(self):
            size, expected = shapes[number][axis], evaluated(expr, sizes, shapes)
            if size != expected:
                origins = [f"{x} = {sizes[x]} by {known[x][1]}" for x in sorted(names_of(expr))]
                if not isinstance(expr, DimExpr):
                    origins = [str(expr)]
                elif _sole_name(expr) is None:
                    origins.insert(0, f"{expr} = {expected}")
                raise ShapeError(
                    f"bind: axis {axis} of input {number} has size {size}, the template says "
                    f"{', '.join(origins)}"
                )
        return sizes

    def _input_specs(self, shapes: list[Shape], dtypes: Sequence[Any] | None) -> list[ArraySpec]:
        own = [self.slots[slot].dtype for slot in self.inputs]
        if dtypes is not None and len(dtypes) != len(own):
            raise DTypeError(f"bind: {len(dtypes)} dtypes given, there are {len(own)} inputs")
        given = own if dtypes is None else [_dtype(x) for x in dtypes]
        return [ArraySpec(dtype, shape) for dtype, shape in zip(given, shapes, strict=True)]

    def __str__(self) -> str:
        return listing("template", self)


def verify_template(template: ProgramTemplate) -> ProgramTemplate:
    """Return `template`, or raise `ProgramError` naming instruction, slot and the first rule broken."""
    return check(template, RULES)


def _shapes_are_sizes(template: ProgramTemplate) -> Iterator[str]:
    for number, slot in enumerate(template.slots):
        if any(not isinstance(n, DimExpr) and (type(n) is not int or n < 0) for n in slot.shape):
            yield f"slot %{number} has shape {slot.shape}"


def _names_stand_alone(template: ProgramTemplate) -> Iterator[str]:
    known = {_sole_name(expr) for _, _, expr in _input_sizes(template)}
    ranks = [len(template.slots[slot].shape) for slot in template.inputs]
    for where, value in _places(template):
        for expr in expressions(value):
            for name in sorted(expr.names - known):
                yield f"{where} has the size {expr}; {name} stands alone on no axis of an input"
            for number, axis in sorted(expr.axes):
                if number >= len(ranks) or axis >= ranks[number]:
                    yield f"{where} has the size {expr}; there is no axis {axis} of input {number}"


def _no_circle(template: ProgramTemplate) -> Iterator[str]:
    home: dict[str, tuple[int, int]] = {}
    for number, axis, expr in _input_sizes(template):
        if (name := _sole_name(expr)) is not None:
            home.setdefault(name, (number, axis))
    graph: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for number, axis, expr in _input_sizes(template):
        if not isinstance(expr, DimExpr) or expr == input_dim(number, axis):
            continue
        if _sole_name(expr) is None:
            graph[number, axis] = {home[name] for name in expr.names} | expr.axes
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " <- ".join(f"axis {axis} of input {number}" for number, axis in error.args[1])
        yield f"sizes of inputs are defined in a circle: {circle}"


_OWN = {
    "sizes are integers >= 0": (
        Rule("sizes are integers >= 0 or expressions", _shapes_are_sizes),
        Rule("names of sizes stand alone on an axis of an input", _names_stand_alone),
        Rule("sizes of inputs are not defined in a circle", _no_circle),
    )
}
RULES: tuple[Rule, ...] = tuple(
    own for rule in PROGRAM_RULES for own in _OWN.get(rule.name, (rule,))
)
"""Those of programs, but that a size may be an expression."""


def _input_sizes(template: ProgramTemplate) -> Iterator[tuple[int, int, Any]]:
    """Input, axis and size, for every axis of every input."""
    for number, slot in enumerate(template.inputs):
        for axis, n in enumerate(template.slots[slot].shape):
            yield number, axis, n


def _places(template: ProgramTemplate) -> Iterator[tuple[str, Any]]:
    for number, slot in enumerate(template.slots):
        yield f"slot %{number}", slot.shape
    for number, ins in enumerate(template.instructions):
        yield f"instruction {number} ({ins.op})", tuple(value for _, value in ins.attributes)
    for number, static in enumerate(template.indices):
        yield f"static index i{number} ({static.name})", static.size


def _sole_name(size: Any) -> str | None:
    """The name that this size is, if it is one."""
    names = names_of(size)
    return next(iter(names)) if len(names) == 1 and size == dim(*names) else None


def _dtype(value: Any) -> np.dtype[Any]:
    return dtype_from_name(value) if isinstance(value, str) else np.dtype(value)

"""Is this a legal program? A table of rules; the first one broken is named with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .._base.errors import EinloomError, ProgramError
from ..backend.catalogue import infer
from ..backend.dims import DimExpr, exceeds, expressions
from ..backend.spec import ArraySpec, Axes
from .bounds import bounds_after
from .extension import infer_extension
from .ir import Instruction, Program

Complaint = str
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Rule:
    """One law of programs: `check` yields a complaint for every place that breaks it."""

    name: str
    check: Callable[[Any], Iterator[Complaint]]


def verify(program: Program) -> Program:
    """Return `program`, or raise `ProgramError` naming instruction, slot and the first rule broken."""
    return check(program, RULES)


def check(program: P, rules: Sequence[Rule]) -> P:
    """Return a program or template that keeps these rules."""
    for rule in rules:
        for complaint in rule.check(program):
            raise ProgramError(f"ill-formed program: {complaint} (rule: {rule.name})")
    return program


def _slots_exist(program: Program) -> Iterator[Complaint]:
    n = len(program.slots)
    for where, slots in _uses(program):
        for slot in slots:
            if type(slot) is not int or not 0 <= slot < n:
                yield f"{where} names slot %{slot}, there are {n}"


def _shapes_are_sizes(program: Program) -> Iterator[Complaint]:
    for number, slot in enumerate(program.slots):
        if any(type(n) is not int or n < 0 for n in slot.shape):
            yield f"slot %{number} has shape {slot.shape}"
    for number, index in enumerate(program.indices):
        if isinstance(index.size, DimExpr):
            yield f"static index i{number} ({index.name}) has size {index.size}"
    for where, ins in enumerate(program.instructions):
        for name, value in ins.attributes:
            for expr in expressions(value):
                yield f"{_at(where, ins)} has the size {expr} in {name}"


def _axes_exist(program: Program) -> Iterator[Complaint]:
    for number, slot in enumerate(program.slots):
        rank = range(len(slot.shape))
        if any(axis not in rank for axis in slot.bounds):
            yield f"slot %{number} has upper bounds on axes {slot.bounds}, its rank is {len(rank)}"
        if slot.layout is not None and sorted(slot.layout) != list(rank):
            yield f"slot %{number} has layout {slot.layout}, its rank is {len(rank)}"


def _written_once(program: Program) -> Iterator[Complaint]:
    written = set(program.inputs)
    if len(written) != len(program.inputs):
        yield f"inputs {program.inputs} name a slot twice"
    for index, ins in enumerate(program.instructions):
        for slot in ins.outputs:
            if slot in written:
                yield f"{_at(index, ins)} writes slot %{slot} again"
            written.add(slot)


def _defined_before_use(program: Program) -> Iterator[Complaint]:
    written = set(program.inputs)
    for index, ins in enumerate(program.instructions):
        for slot in ins.inputs:
            if slot not in written:
                yield f"{_at(index, ins)} reads slot %{slot} before it is written"
        written.update(ins.outputs)
    for slot in program.outputs:
        if slot not in written:
            yield f"output slot %{slot} is never written"


def _indices_exist(program: Program) -> Iterator[Complaint]:
    for number, index in enumerate(program.indices):
        if type(index.size) not in (int, DimExpr) or exceeds(1, index.size):
            yield f"static index i{number} ({index.name}) has size {index.size}"
    for where, ins in enumerate(program.instructions):
        for number in ins.indices:
            if type(number) is not int or not 0 <= number < len(program.indices):
                yield f"{_at(where, ins)} names static index i{number}, there are {len(program.indices)}"
        if ins.indices and ins.op != "slice_at":
            yield f"{_at(where, ins)} takes no static index; slice_at does"


def _agrees_with_inference(program: Program) -> Iterator[Complaint]:
    # at the last value of every static index: what is legal there is legal at the others
    last = [index.size - 1 for index in program.indices]
    for index, ins in enumerate(program.instructions):
        try:
            expected = inferred(ins, program.specs(ins.inputs), last)
        except EinloomError as error:
            operands = ", ".join(f"%{slot}" for slot in ins.inputs)
            yield f"{_at(index, ins)}: {error}{f' (operands {operands})' if operands else ''}"
            continue
        if expected != program.specs(ins.outputs):
            got = ", ".join(map(str, program.specs(ins.outputs)))
            yield f"{_at(index, ins)} yields {', '.join(map(str, expected))}, its slots say {got}"


def _bounds_are_declared(program: Program) -> Iterator[Complaint]:
    decided: dict[int, Axes] = {}  # by the data; what inputs declare is the caller's affair
    for index, ins in enumerate(program.instructions):
        given = [decided.get(slot, ()) for slot in ins.inputs]
        try:
            found = bounds_after(ins, program.specs(ins.inputs), given, len(ins.outputs))
        except EinloomError as error:
            yield f"{_at(index, ins)}: {error}"
            continue
        for slot, axes in zip(ins.outputs, found, strict=True):
            if axes:
                decided[slot] = axes
            if not set(axes) <= set(program.slots[slot].bounds):
                yield f"{_at(index, ins)}: the data decide axes {axes} of slot %{slot}"


def inferred(
    ins: Instruction, inputs: tuple[ArraySpec, ...], values: Sequence[int]
) -> tuple[ArraySpec, ...]:
    """The outputs of an instruction on these inputs, at these values of static indices."""
    attrs = ins.at(values)
    if ins.family is not None:
        return infer_extension(ins.family, attrs, inputs)
    return infer(ins.op, attrs, inputs)


def _uses(program: Program) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "inputs", program.inputs
    for index, ins in enumerate(program.instructions):
        yield _at(index, ins), ins.inputs + ins.outputs
    yield "outputs", program.outputs


def _at(index: int, ins: Instruction) -> str:
    return f"instruction {index} ({ins.op})"


RULES: tuple[Rule, ...] = (
    Rule("every slot named exists", _slots_exist),
    Rule("sizes are integers >= 0", _shapes_are_sizes),
    Rule("bounds and layouts name axes of their slots", _axes_exist),
    Rule("static indices exist and have a size", _indices_exist),
    Rule("a slot is written once", _written_once),
    Rule("a slot is written before it is read", _defined_before_use),
    Rule("dtypes and shapes are those the catalogue infers", _agrees_with_inference),
    Rule("sizes that the data decide are declared as bounds", _bounds_are_declared),
)

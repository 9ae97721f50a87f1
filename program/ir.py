"""The IR: instructions over slots, each slot written once (SSA).

A slot is an array of known dtype and shape, or of a shape that bounds what it will be. An instruction
applies one op of the catalogue, or one extension family, to slots. A program lists its input slots in
the order of the call and its output slots in the order of the result; instructions are in order of
execution. Static indices are integers that every run is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._base.numbers import format_bytes
from ..backend.catalogue import CATALOGUE, Attrs
from ..backend.dims import is_symbolic
from ..backend.rules import freeze
from ..backend.spec import ArraySpec, Axes, Shape, dtype_name

FORMAT = "einloom.program"
VERSION = 3


@dataclass(frozen=True, slots=True)
class Slot:
    """What a slot holds.

    Attributes:
        spec: dtype and shape; memory is planned for this shape.
        bounds: axes whose size is only an upper bound, known when the program runs.
        layout: the order of the axes in memory, the last the fastest; None where nobody has decided,
            which is row-major for what a kernel makes.
    """

    spec: ArraySpec
    bounds: Axes = ()
    layout: Axes | None = None

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self.spec.dtype

    @property
    def shape(self) -> Shape:
        return self.spec.shape

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes

    @property
    def placed(self) -> ArraySpec:
        return self.spec if self.layout is None else replace(self.spec, layout=self.layout)

    def __str__(self) -> str:
        sizes = (f"<={n}" if axis in self.bounds else str(n) for axis, n in enumerate(self.shape))
        layout = "" if self.layout is None else f"{{{','.join(map(str, self.layout))}}}"
        return f"{dtype_name(self.dtype)}[{','.join(sizes)}]{layout}"


@dataclass(frozen=True, slots=True)
class StaticIndex:
    """An integer from 0 to size - 1 that is given at every run: which slice of a contraction, say."""

    name: str
    size: int

    def __str__(self) -> str:
        return f"{self.name} < {self.size}"


@dataclass(frozen=True, slots=True)
class At:
    """The value of a program's static index, by its number, where an attribute is an integer."""

    index: int

    def __repr__(self) -> str:
        return f"i{self.index}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One op: `outputs = op[attributes](inputs)`, slots by number; attributes sorted by name."""

    op: str
    attributes: tuple[tuple[str, Any], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def attrs(self) -> Attrs:
        return dict(self.attributes)

    @property
    def indices(self) -> tuple[int, ...]:
        """The static indices that attributes name."""
        return tuple(value.index for _, value in self.attributes if isinstance(value, At))

    def at(self, values: Sequence[int]) -> Attrs:
        """The attributes where static index k is values[k]."""
        return {
            name: values[value.index] if isinstance(value, At) else value
            for name, value in self.attributes
        }

    @property
    def family(self) -> str | None:
        """The extension family, or None for an op of the catalogue."""
        return self.op.partition(":")[2] if self.op.startswith("extension:") else None

    @property
    def is_view(self) -> bool:
        return self._view == "always"

    @property
    def may_view(self) -> bool:
        """Whether an output may share memory with the first input."""
        return self._view != "never"

    def writes_over(self, position: int) -> bool:
        """Whether the output may lie exactly where this input does."""
        row = CATALOGUE.get(self.op)
        return row is not None and row.writes_over(position)

    @property
    def _view(self) -> str:
        row = CATALOGUE.get(self.op)
        return "never" if row is None else row.view

    def __str__(self) -> str:
        left = ", ".join(f"%{slot}" for slot in self.outputs)
        right = ", ".join(f"%{slot}" for slot in self.inputs)
        attributes = ", ".join(f"{name}={_plain(value)}" for name, value in self.attributes)
        return f"{left} = {self.op}({right}){f' [{attributes}]' if attributes else ''}"


@dataclass(frozen=True)
class Program:
    """Slots and the instructions over them; `print` shows a listing, JSON is in `serial`."""

    slots: tuple[Slot, ...]
    instructions: tuple[Instruction, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    indices: tuple[StaticIndex, ...] = ()

    @cached_property
    def op_counts(self) -> Counter[str]:
        """How often each op occurs."""
        return Counter(instruction.op for instruction in self.instructions)

    @cached_property
    def digest(self) -> str:
        """A number of the program, as text: of equal programs equal. Attributes are told apart that compare
        as equal, 1 and True or 0.0 and -0.0, since programs with them do other things."""
        from hashlib import sha256

        from .serial import program_to_json  # which reads what is here

        order = [slot.dtype.str for slot in self.slots]  # the bytes of a number too
        return sha256(f"{program_to_json(self)}{order}".encode()).hexdigest()

    def specs(self, slots: tuple[int, ...]) -> tuple[ArraySpec, ...]:
        return tuple(self.slots[slot].spec for slot in slots)

    def placed(self, slots: tuple[int, ...]) -> tuple[ArraySpec, ...]:
        """The specs with the layouts of the slots, as kernels are bound to them."""
        return tuple(self.slots[slot].placed for slot in slots)

    def __str__(self) -> str:
        return listing("program", self)


def instruction(
    op: str, inputs: tuple[int, ...], outputs: tuple[int, ...], attrs: Attrs
) -> Instruction:
    """An instruction with its attributes frozen: lists become tuples, names are sorted, and what has
    its default is left out."""
    frozen = tuple((name, freeze(value)) for name, value in sorted(attrs.items()))
    if (row := CATALOGUE.get(op)) is not None and row.defaults:
        # repr: 1 == True, but it is no flag, and 1.0 == 1
        shown = {name: repr(value) for name, value in row.defaults.items()}
        frozen = tuple(pair for pair in frozen if shown.get(pair[0]) != repr(pair[1]))
    return Instruction(op, frozen, inputs, outputs)


def listing(head: str, program: Any) -> str:
    """A program or template as text: parameters, a line for each instruction, results."""
    parameters = [f"%{slot}: {program.slots[slot]}" for slot in program.inputs]
    parameters += [f"i{number}: {index}" for number, index in enumerate(program.indices)]
    lines = [f"{head}({', '.join(parameters)})"]
    for ins in program.instructions:
        results = ", ".join(str(program.slots[slot]) for slot in ins.outputs)
        size = sum(program.slots[slot].nbytes for slot in ins.outputs)
        shown = f"{size} B" if is_symbolic((size,)) else format_bytes(size)
        lines.append(f"  {ins}  # {results}, {'view' if ins.is_view else shown}")
    lines.append(f"  return {', '.join(f'%{slot}' for slot in program.outputs)}")
    return "\n".join(lines)


def _plain(value: Any) -> str:
    return str(value).replace(" ", "") if isinstance(value, tuple) else repr(value)

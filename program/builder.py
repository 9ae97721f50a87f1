"""Writing a program: each call infers the new slot's dtype and shape from the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base.errors import ProgramError
from ..backend.catalogue import infer
from ..backend.dims import DimExpr, dim, is_symbolic
from ..backend.dtypes import reaches
from ..backend.spec import ArraySpec, Axes, dtype_name
from .bounds import bounds_after
from .extension import infer_extension
from .ir import At, Instruction, Program, Slot, StaticIndex, instruction
from .template import ProgramTemplate, verify_template


class Builder:
    """Appends instructions; methods return slot numbers.

    >>> build = Builder()
    >>> a, b = build.input("float64", (2, 3)), build.input("float64", (3, 4))
    >>> c = build("dot_general", a, b, contracting=((1,), (0,)), batch=((), ()))
    >>> print(build.finish(build.transpose(c, (1, 0))))
    program(%0: float64[2,3], %1: float64[3,4])
      %2 = dot_general(%0, %1) [batch=((),()), contracting=((1,),(0,))]  # float64[2,4], 64 B
      %3 = transpose(%2) [perm=(1,0)]  # float64[4,2], view
      return %3
    """

    def __init__(self) -> None:
        self._slots: list[Slot] = []
        self._inputs: list[int] = []
        self._instructions: list[Instruction] = []
        self._indices: list[StaticIndex] = []

    def input(
        self, dtype: Any, shape: Sequence[int | str | DimExpr], layout: Axes | None = None
    ) -> int:
        """A new input slot; a size is an integer, a name for one known later, or an expression.

        `layout` is the order in memory that is planned for; arrays in another order work as well.

        >>> from einloom.backend.dims import dim
        >>> build = Builder()
        >>> x, y = build.input("float64", ("n", 3)), build.input("float64", (2 * dim("n"), 3))
        >>> print(build.template(build("concatenate", x, y, axis=0)))
        template(%0: float64[n,3], %1: float64[2*n,3])
          %2 = concatenate(%0, %1) [axis=0]  # float64[3*n,3], 72*n B
          return %2
        """
        sizes: Any = tuple(dim(n) if isinstance(n, str) else n for n in shape)
        slot = len(self._slots)
        self._slots.append(Slot(ArraySpec(np.dtype(dtype), sizes), layout=layout))
        self._inputs.append(slot)
        return slot

    def index(self, name: str, size: int) -> At:
        """A new static index: an integer from 0 to size - 1 that every run is given.

        >>> build = Builder()
        >>> x, k = build.input("float64", (5, 3)), build.index("k", 5)
        >>> print(build.finish(build("slice_at", x, axis=0, at=k)))
        program(%0: float64[5,3], i0: k < 5)
          %1 = slice_at(%0) [at=i0, axis=0]  # float64[3], view
          return %1
        """
        self._indices.append(StaticIndex(name, size))
        return At(len(self._indices) - 1)

    def __call__(self, op: str, *operands: int, **attrs: Any) -> int:
        """Append one op of the catalogue that has one output; returns its slot."""
        outputs = self.several(op, *operands, **attrs)
        if len(outputs) != 1:
            raise ProgramError(f"{op} has {len(outputs)} outputs; build.several(...) returns all")
        return outputs[0]

    def several(self, op: str, *operands: int, **attrs: Any) -> tuple[int, ...]:
        """Append one op of the catalogue; returns its output slots."""
        frozen = instruction(op, operands, (), attrs)
        last = [index.size - 1 for index in self._indices]
        specs = infer(op, frozen.at(last), tuple(self.spec(slot) for slot in operands))
        bounds = self._bounds(frozen, len(specs))
        outputs = tuple(map(self._new, specs, bounds))
        self._instructions.append(Instruction(op, frozen.attributes, operands, outputs))
        return outputs

    def extension(self, name: str, *operands: int, **attrs: Any) -> tuple[int, ...]:
        """Append one call of an extension family; returns its output slots."""
        frozen = instruction(f"extension:{name}", operands, (), attrs)
        inputs = tuple(self.spec(slot) for slot in operands)
        specs = infer_extension(name, frozen.attrs, inputs)
        outputs = tuple(map(self._new, specs, self._bounds(frozen, len(specs))))
        self._instructions.append(instruction(frozen.op, operands, outputs, attrs))
        return outputs

    def spec(self, slot: int) -> ArraySpec:
        return self._slots[slot].spec

    def is_fresh(self, slot: int) -> bool:
        """Whether the slot's memory is the program's own: no view of an input."""
        made = {out: ins for ins in self._instructions if ins.may_view for out in ins.outputs}
        while slot in made:
            slot = made[slot].inputs[0]
        return slot not in self._inputs

    def transpose(self, x: int, perm: Axes) -> int:
        """x with its axes permuted; x itself if nothing changes."""
        return (
            x if tuple(perm) == tuple(range(len(perm))) else self("transpose", x, perm=tuple(perm))
        )

    def convert(self, x: int, dtype: np.dtype[np.generic]) -> int:
        """x in another dtype, lossy if need be; x itself if it has it."""
        given = self.spec(x).dtype
        if given == dtype:
            return x
        return self("convert" if reaches(given, dtype) else "cast", x, dtype=dtype_name(dtype))

    def finish(self, *outputs: int) -> Program:
        """The program that returns these slots; every size is an integer."""
        for number, slot in enumerate(self._slots):
            if is_symbolic(slot.shape):
                raise ProgramError(
                    f"finish: slot %{number} is {slot}, of a size known later; template(...) returns "
                    f"a ProgramTemplate, whose bind(shapes) is a program"
                )
        return Program(*self._parts(outputs))

    def template(self, *outputs: int) -> ProgramTemplate:
        """The verified template that returns these slots; sizes may be names and expressions."""
        return verify_template(ProgramTemplate(*self._parts(outputs)))

    def _parts(self, outputs: tuple[int, ...]) -> tuple[Any, ...]:
        parts = (self._slots, self._instructions, self._inputs, outputs, self._indices)
        return tuple(map(tuple, parts))  # type: ignore[arg-type]

    def _bounds(self, ins: Instruction, outputs: int) -> tuple[Axes, ...]:
        slots = [self._slots[slot] for slot in ins.inputs]
        return bounds_after(ins, [x.spec for x in slots], [x.bounds for x in slots], outputs)

    def _new(self, spec: ArraySpec, bounds: Axes = ()) -> int:
        self._slots.append(Slot(spec, bounds))
        return len(self._slots) - 1

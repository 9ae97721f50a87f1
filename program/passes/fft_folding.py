"""ifft(fft x) = N x along the same axes, and a product with a number is a factor of the transform.

A transform is linear: c fft(x) = fft(c x) = fft(x; scale=c), for real c, where nothing else reads what is
between. irfft takes back rfft where it makes as many numbers as there were. A scale that two transforms
and N leave at 1, but for rounding, is 1. Numbers are constants, sizes, which become constants here, and
what arithmetic makes of them. A scale is always a normal number of the transform's precision, and a factor of
the operand is folded only if it is about as large as the transform may make its numbers, or 1 over that:
larger and smaller ones may be there to keep the transform from overflow.

Precondition: a verified program. Postcondition: no transform reads its inverse along the same axes, nor a
product with such a real number that nothing else reads; nor is a transform that only a product with a real
number reads, unless the scale would not be normal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...backend.spec import ArraySpec, dtype_name
from ..ir import Instruction, Program, instruction
from .rewrite import Body, Names, renamed, shown_by_outputs, until_stable, use_counts, with_body

INVERSE = {"fft": "ifft", "ifft": "fft", "irfft": "rfft"}
"""Of each op, the one that it takes back."""
FFTS = frozenset(("fft", "ifft", "rfft", "irfft"))
ONE = 8 * 2.0**-53  # how far a product of scales may be from 1 by rounding
ROOM = 64  # times the number of points: the largest factor of an operand that is folded


def fft_folding(program: Program) -> Program:
    if not FFTS & program.op_counts.keys():
        return program
    return until_stable(_folded, program)


def _folded(program: Program) -> Program:
    """One rewrite, the first that there is."""
    found = _Facts(program)
    for ins in program.instructions:
        if ins.op == "shape_of" and ins.outputs[0] in found.numbers:
            size = {"value": found.numbers[ins.outputs[0]], "dtype": "int64"}
            return _with(program, instruction("constant", (), ins.outputs, size), set())
        if ins.op in FFTS and (scaled := found.scaled(ins.inputs[0])) is not None:
            x, number = scaled
            if found.is_moderate(ins, number) and found.is_scale(ins, _scale(ins) * number):
                return _with(program, _times(ins, number, ins.outputs, (x,)), {ins.inputs[0]})
        scaled = found.scaled_by(ins)
        if scaled is not None and found.is_transform(scaled[0]):
            x, number = scaled
            if found.is_scale(ins, _scale(found.made[x]) * number):
                return _with(program, _times(found.made[x], number, ins.outputs), {x})
    for ins in program.instructions:  # when no scale is left between them
        if ins.op in INVERSE and (inner := found.inverse_of(ins)) is not None:
            return _cancelled(program, ins, inner)
    return program


class _Facts:
    """Who makes the slots of a program, how many read them, and which of them hold a number."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.made = {slot: ins for ins in program.instructions for slot in ins.outputs}
        self.uses = use_counts(program)
        self.numbers: dict[int, complex] = {}
        for ins in program.instructions:
            number = self._number(ins)
            if number is not None:
                self.numbers[ins.outputs[0]] = number

    def _number(self, ins: Instruction) -> Any:
        """What fills the output, where that is one number."""
        if ins.op == "constant":
            return ins.attrs["value"]
        if ins.op == "shape_of":
            slot, axis = self.program.slots[ins.inputs[0]], ins.attrs["axis"]
            return None if axis in slot.bounds else slot.shape[axis]
        if not ins.inputs or any(x not in self.numbers for x in ins.inputs):
            return None
        values = [complex(self.numbers[slot]) for slot in ins.inputs]
        x, rest = values[0], values[1:]
        if ins.op in ("convert", "cast", "broadcast_in_dim", "reshape"):
            return x if ins.op != "cast" or self._is_inexact(ins.outputs[0]) else None
        if ins.op == "multiply":
            return x * rest[0]
        if ins.op == "divide" and self._is_inexact(ins.outputs[0]) and rest[0] != 0:
            return x / rest[0]
        if ins.op == "sqrt" and not x.imag and x.real > 0:
            return math.sqrt(x.real)
        return None

    def _is_inexact(self, slot: int) -> bool:
        return self.program.slots[slot].dtype.kind in "fc"

    def is_transform(self, slot: int) -> bool:
        """Whether a transform makes it for one reader alone."""
        return slot in self.made and self.made[slot].op in FFTS and self.uses[slot] == 1

    def scaled(self, slot: int) -> tuple[int, float] | None:
        """(x, number) where the slot is x times a real number, read once."""
        if slot not in self.made or self.uses[slot] != 1:
            return None
        return self.scaled_by(self.made[slot])

    def scaled_by(self, ins: Instruction) -> tuple[int, float] | None:
        if ins.op not in ("multiply", "divide") or not self._is_inexact(ins.outputs[0]):
            return None
        pairs = [ins.inputs, ins.inputs[::-1]] if ins.op == "multiply" else [ins.inputs]
        for x, factor in pairs:
            number = complex(self.numbers.get(factor, math.nan))
            if x in self.numbers or number.imag or not math.isfinite(number.real):
                continue
            if ins.op == "multiply":
                return x, number.real
            if number.real and math.isfinite(1 / number.real):
                return x, 1 / number.real
        return None

    def is_scale(self, ins: Instruction, scale: float) -> bool:
        """Whether the number is normal in the precision of the instruction's result."""
        limits: Any = np.finfo(self.program.slots[ins.outputs[0]].dtype)
        return bool(math.isfinite(scale) and limits.tiny <= abs(scale) <= limits.max)

    def is_moderate(self, ins: Instruction, number: float) -> bool:
        """Whether an operand's factor may as well be one of the result."""
        specs = self.program.specs((ins.inputs[0], ins.outputs[0]))
        most = ROOM * max(math.prod(x.shape[k] for k in ins.attrs["axes"]) for x in specs)
        return abs(number) * most >= 1 and abs(number) <= most

    def inverse_of(self, ins: Instruction) -> Instruction | None:
        """The transform whose result this one takes back."""
        inner = self.made.get(ins.inputs[0])
        if inner is None or inner.op != INVERSE.get(ins.op):
            return None
        axes, others = inner.attrs["axes"], ins.attrs["axes"]
        if set(axes) != set(others):
            return None
        x, y = self.program.specs((inner.inputs[0], ins.outputs[0]))
        if ins.op == "irfft" and (axes[-1] != others[-1] or x.shape != y.shape):
            return None
        if not self.is_scale(ins, _scale_of_both(self.program, ins, inner)):
            return None
        precise = np.result_type(x.dtype, np.complex64) if ins.op != "irfft" else x.dtype
        return inner if precise == y.dtype else None


def _times(
    ins: Instruction, number: float, outputs: tuple[int, ...], inputs: tuple[int, ...] | None = None
) -> Instruction:
    attrs = ins.attrs
    scale = _rounded(_scale(ins) * number)
    return instruction(ins.op, inputs or ins.inputs, outputs, attrs | {"scale": scale})


def _scale(ins: Instruction) -> float:
    return float(ins.attrs.get("scale", 1.0))


def _scale_of_both(program: Program, outer: Instruction, inner: Instruction) -> float:
    """What is left of a transform and its inverse: their scales and the number of points."""
    (spec,) = program.specs(inner.inputs)
    return _scale(inner) * _scale(outer) * math.prod(spec.shape[k] for k in inner.attrs["axes"])


def _rounded(scale: float) -> float:
    return 1.0 if math.isclose(scale, 1, rel_tol=ONE) else float(scale)


def _with(program: Program, new: Instruction, gone: set[int]) -> Program:
    """`new` in the place of what made its outputs, and without the maker of what is gone."""
    body = [new if ins.outputs == new.outputs else ins for ins in program.instructions]
    return with_body(program, [ins for ins in body if not gone & set(ins.outputs)], {})


def _cancelled(program: Program, outer: Instruction, inner: Instruction) -> Program:
    """The operand of `inner` times what both scales and the lengths make, in place of `outer`."""
    (x,), (y,) = inner.inputs, outer.outputs
    spec, result = program.specs((x, y))
    scale = _rounded(_scale_of_both(program, outer, inner))
    names: Names = {}
    body = Body(program)
    for ins in program.instructions:
        if ins is not outer:
            body.append(renamed(ins, names))
        elif scale != 1:
            wide = _converted(body, x, spec, result)
            number = body("constant", value=scale, dtype=dtype_name(result.dtype))
            factor = body("broadcast_in_dim", number, shape=result.shape, axes=())
            body("multiply", wide, factor, out=y)
        elif spec.dtype != result.dtype:
            body("convert", x, dtype=dtype_name(result.dtype), out=y)
        elif y in shown_by_outputs(program):
            body("copy", x, out=y)
        else:
            names[y] = x
    after = body.finish()
    used = use_counts(after)
    kept = [ins for ins in after.instructions if ins is not inner or used[inner.outputs[0]]]
    return with_body(after, kept, names)


def _converted(body: Body, x: int, spec: ArraySpec, result: ArraySpec) -> int:
    if spec.dtype == result.dtype:
        return x
    return body("convert", x, dtype=dtype_name(result.dtype))

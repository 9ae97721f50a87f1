"""Sizes that the data decide: slots of which the shape is an upper bound, and who may read them.

`dynamic_truncate` makes an axis whose size is known when the program runs. Memory is planned for the
bound. Such a slot is read by host ops and by views that hold for any size; `pad_to_match` gives it a
known size again. Every other op is refused, and so is a size of which not even a bound is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .._base.errors import ProgramError
from ..backend.catalogue import infer
from ..backend.dims import Extent, dim, exceeds, extent_of
from ..backend.rules import replaced
from ..backend.spec import ArraySpec, Axes
from .ir import Instruction, Program

ANY_SIZE = ("identity", "transpose", "reverse", "expand_dims")
"""Views whose kernels hold for any size; how axes move is read off their shape rules."""


def bounds_after(
    ins: Instruction, inputs: Sequence[ArraySpec], bounds: Sequence[Axes], outputs: int
) -> tuple[Axes, ...]:
    """The axes of each output whose size is only a bound, from those of the inputs."""
    if ins.op == "dynamic_truncate":
        return (tuple(sorted({*bounds[0], ins.attrs["axis"]})),)
    if not any(bounds):
        return ((),) * outputs
    if ins.op == "shape_of":
        return ((),)
    if ins.op == "pad_to_match":
        return (_padded(ins.attrs["axis"], inputs, bounds),)
    if ins.op not in ANY_SIZE:
        raise ProgramError(
            f"{ins.op} takes no operand of a size that the data decide; pad_to_match gives it a known "
            f"size"
        )
    x = inputs[0]
    for axis in bounds[0]:
        size: int = dim(f"size{axis}")  # type: ignore[assignment]
        x = ArraySpec(x.dtype, replaced(x.shape, axis, size))
    names = {f"size{axis}" for axis in bounds[0]}
    (out,) = infer(ins.op, ins.attrs, (x,))
    extents = [extent_of(n, names) for n in out.shape]
    return (tuple(axis for axis, extent in enumerate(extents) if extent is not Extent.EXACT),)


def _padded(axis: int, inputs: Sequence[ArraySpec], bounds: Sequence[Axes]) -> Axes:
    """The longer of the two sizes decides; it is known if it is exact and no bound exceeds it."""
    x, reference = (spec.shape[axis] for spec in inputs)
    by_reference = axis not in bounds[1] and exceeds(reference + 1, x)
    known = by_reference or (axis not in bounds[0] and (exceeds(x + 1, reference)))
    known = known or axis not in (*bounds[0], *bounds[1])
    others = {other for other in bounds[0] if other != axis}
    return tuple(sorted(others if known else {*others, axis}))


def with_bounds(program: Program) -> Program:
    """The program with the bounds declared that its instructions make."""
    slots = list(program.slots)
    for ins in program.instructions:
        found = bounds_after(
            ins,
            program.specs(ins.inputs),
            [slots[slot].bounds for slot in ins.inputs],
            len(ins.outputs),
        )
        for slot, axes in zip(ins.outputs, found, strict=True):
            slots[slot] = replace(slots[slot], bounds=axes)
    return replace(program, slots=tuple(slots))

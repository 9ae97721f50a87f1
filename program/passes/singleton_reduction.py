"""A reduction over axes of size 1 is a squeeze, and a dot_general sums over none of them.

sum, prod, max, min and mean of one element are that element, in every dtype; so is a sum of products
over one position its only product. An axis of size 1 that is contracted is squeezed away from both
operands; one of a batch too, and comes back in the result.

Precondition: a verified program. Postcondition: no reduction without `initial` reduces only axes of size
1, and no dot_general has a batch axis of size 1, unless an output shows the result: what a kernel made
stays made by one. No dot_general and no dot_general_add contracts an axis of size 1.
"""

from __future__ import annotations

from ...backend.catalogue import Attrs
from ..ir import Instruction, Program, instruction
from .rewrite import DOTS, Body, is_bounded, shown_by_outputs

REDUCTIONS = frozenset(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean"))


def singleton_reduction(program: Program) -> Program:
    if not program.op_counts.keys() & (REDUCTIONS | DOTS):
        return program
    if not any(1 in slot.shape for slot in program.slots) and not _reduces_nothing(program):
        return program
    shown = shown_by_outputs(program)
    body = Body(program)
    for ins in program.instructions:
        if is_bounded(program, ins):
            body.append(ins)
        elif ins.op in DOTS:
            stays = ins.op != "dot_general" or ins.outputs[0] in shown
            _without_ones(ins, body, stays)
        elif _is_squeeze(ins, program) and ins.outputs[0] not in shown:
            body.append(
                instruction("squeeze", ins.inputs, ins.outputs, {"axes": ins.attrs["axes"]})
            )
        else:
            body.append(ins)
    return body.finish()


def _reduces_nothing(program: Program) -> bool:
    """Whether a reduction has no axes: it is a squeeze, too."""
    return any(ins.op in REDUCTIONS and not ins.attrs["axes"] for ins in program.instructions)


def _is_squeeze(ins: Instruction, program: Program) -> bool:
    if ins.op not in REDUCTIONS or ins.attrs.get("initial") is not None:
        return False
    shape = program.slots[ins.inputs[0]].shape
    return all(shape[axis] == 1 for axis in ins.attrs["axes"])


def _without_ones(ins: Instruction, body: Body, stays: bool) -> None:
    """Append `ins` without contracted axes of size 1, nor, unless its shape stays, such batch axes."""
    shape = body.slots[ins.inputs[0]].shape
    pairs = {role: list(zip(*ins.attrs[role], strict=True)) for role in ("batch", "contracting")}
    found = pairs["contracting"] if stays else pairs["batch"] + pairs["contracting"]
    ones = [pair for pair in found if shape[pair[0]] == 1]
    if not ones:
        body.append(ins)
        return
    gone = [sorted(axes) for axes in zip(*ones, strict=True)]
    attrs: Attrs = ins.attrs | {
        role: tuple(
            tuple(pair[side] - sum(axis < pair[side] for axis in gone[side]) for pair in kept)
            for side in (0, 1)
        )
        for role, kept in (
            (role, [pair for pair in pairs[role] if pair not in ones]) for role in pairs
        )
    }
    sides = zip(ins.inputs[:2], gone, strict=True)
    operands = [body("squeeze", slot, axes=axes) for slot, axes in sides]
    axes = tuple(k for k, pair in enumerate(pairs["batch"]) if pair in ones)
    if axes:
        body("expand_dims", body(ins.op, *operands, **attrs), out=ins.outputs[0], axes=axes)
    else:
        body(ins.op, *operands, *ins.inputs[2:], out=ins.outputs[0], **attrs)

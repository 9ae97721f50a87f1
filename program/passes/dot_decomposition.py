"""dot(x, y) = reshape(dot([batch, M, K], [batch, K, N])): any dot_general by one canonical product.

Each operand is transposed to its groups of axes and reshaped to one axis for each group; the product is
reshaped to the axes of the result; what is added to it is reshaped to [batch, M, N]. On demand: for a
backend that has no other matrix product. A reshape may copy what a kernel of its own kind would read in
place.

Precondition: a verified program. Postcondition: every dot_general and dot_general_add contracts axis 2 of
a [batch, M, K] with axis 1 of a [batch, K, N], over axis 0 as batch.
"""

from __future__ import annotations

from ...backend.catalogue import Attrs, dot_dims
from ...backend.spec import Axes, Shape
from ..ir import Instruction, Program
from .rewrite import DOTS, Body, is_bounded

CANONICAL: Attrs = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}


def dot_decomposition(program: Program) -> Program:
    body = Body(program)
    for ins in program.instructions:
        if ins.op not in DOTS or _is_canonical(program, ins) or is_bounded(program, ins):
            body.append(ins)
        else:
            _decompose(ins, body)
    return body.finish()


def _is_canonical(program: Program, ins: Instruction) -> bool:
    ranks = [len(program.slots[slot].shape) for slot in ins.inputs[:2]]
    return ranks == [3, 3] and ins.attrs | CANONICAL == ins.attrs


def _decompose(ins: Instruction, body: Body) -> None:
    (x, y, *added), (out,) = ins.inputs, ins.outputs
    attrs = ins.attrs | CANONICAL
    dims = dot_dims(ins.attrs, body.slots[x].shape, body.slots[y].shape)
    left, right = (dims.batch, dims.m, dims.k), (dims.batch, dims.k, dims.n)
    x = _grouped(body, x, dims.lhs_batch + dims.lhs_free + dims.lhs_contracting, left)
    y = _grouped(body, y, dims.rhs_batch + dims.rhs_contracting + dims.rhs_free, right)
    shape, product = body.slots[out].shape, (dims.batch, dims.m, dims.n)
    if shape == product:
        body(ins.op, x, y, *added, out=out, **attrs)
    else:
        added = [body("reshape", acc, shape=product) for acc in added]
        body("reshape", body(ins.op, x, y, *added, **attrs), out=out, shape=shape)


def _grouped(body: Body, x: int, perm: Axes, shape: Shape) -> int:
    """x with its axes in the order `perm`, then grouped to `shape`."""
    if perm != tuple(range(len(perm))):
        x = body("transpose", x, perm=perm)
    return x if body.slots[x].shape == shape else body("reshape", x, shape=shape)

"""Several plans over the same operands -> one Program with a result for each; equal steps are one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..backend.spec import ArraySpec, compute_dtype
from ..program.builder import Builder
from ..program.ir import Program
from ..program.passes import optimise
from ..program.passes.common_subexpressions import common_subexpressions
from .cost import walk
from .lower import Tensor, _computed, _delivered, _squeezed, _step, _zeros, is_view

if TYPE_CHECKING:
    from .plan import Plan


def lower_set(
    plans: Sequence[Plan], operands: Sequence[Sequence[int]], specs: Sequence[ArraySpec]
) -> Program:
    """The program of all plans, after all passes.

    Args:
        plans: in which equal values are made by equal steps, as `sharing.shared` leaves them.
        operands: for each plan which inputs its operands are.
        specs: dtype, shape and layout of each input.
    """
    build = Builder()
    inputs = [build.input(spec.dtype, spec.shape, spec.layout) for spec in specs]
    results = [
        _result(build, plan, [inputs[k] for k in given])
        for plan, given in zip(plans, operands, strict=True)
    ]
    # at once: what reads a step decides how passes fold it
    return optimise(common_subexpressions(build.finish(*results)))


def _result(build: Builder, plan: Plan, inputs: Sequence[int]) -> int:
    """The slot of a plan's result, whose memory is its own."""
    network, tree = plan.network, plan.tree
    if len(inputs) > 1 and 0 in network.extents:
        return _zeros(build, network, plan.dtype)
    wide = compute_dtype(plan.dtype)
    tensors: dict[int, Tensor] = {}
    for operand, slot in enumerate(inputs):
        slot, axes = _squeezed(build, network, operand, slot)
        if not is_view(network):
            own = _computed(plan.dtypes[operand], wide) if len(inputs) > 1 else wide
            slot = build.convert(slot, own)
        tensors[operand] = (slot, axes)
    for index, (step, labels) in enumerate(zip(tree.ssa_path, walk(network, tree), strict=True)):
        operands = [tensors.pop(tensor) for tensor in step]
        # no order is asked of the last step: it may be an inner one of another plan
        tensors[tree.n + index] = _step(build, operands, labels, (), wide)
    slot, axes = tensors[tree.n + len(tree.ssa_path) - 1]
    slot = build.convert(slot, plan.dtype)
    slot = _delivered(build, network, (slot, axes))
    return slot if build.is_fresh(slot) else build("copy", slot)

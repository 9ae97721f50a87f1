"""Contractions of a vector, or of one for each batch, with an operand that has all labels.

out[b, i] = sum_k x[b, i, k] * y[b, k] is what a chain of a product and a sum computes, whose kernel reads x
in the order in which it lies in memory, whatever that is. BLAS would need a copy first where contracted axes
and others take turns there, as in `aebf,ef->ab`, and knows no integers. Scratch: that of the reduction, and
copies of operands whose strides are no whole elements.
"""

from __future__ import annotations

from typing import Any

from ..catalogue import DotDims
from ..fusion import ElementwiseFusionPlan, FusionStep
from ..protocol import Kernel
from ..spec import ArraySpec, Axes
from .buffers import empty_as
from .fused import bind_fused, fused_scratch_bytes
from .strided import readable


def bind_sums(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """A kernel for one `dot_general` with one row or one column."""
    order = _order(output)
    plan = _plan(dims, inputs, output)
    kernel = bind_fused(plan)
    assert kernel is not None, "multiply has a formula"
    n_lhs = len(dims.lhs_batch + dims.lhs_free)
    own = dict(enumerate(dims.lhs_batch + dims.lhs_free))
    left = _view(order, own, dims.lhs_contracting)
    own = dict(enumerate(dims.rhs_batch)) | dict(enumerate(dims.rhs_free, n_lhs))
    right = _view(order, own, dims.rhs_contracting)

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        target = empty_as(output) if out is None else out
        kernel(
            *(
                readable(x).transpose(perm)[where]
                for x, (perm, where) in ((lhs, left), (rhs, right))
            ),
            out=target.transpose(order),
        )
        return target

    return run


def sums_bytes(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec, threads: int
) -> int:
    """Upper bound of what the kernel allocates."""
    copies = sum(x.nbytes for x in inputs if x.layout is None)
    return fused_scratch_bytes(_plan(dims, inputs, output), (), 0, threads) + copies


def _plan(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> ElementwiseFusionPlan:
    """Axes of the result as they lie in memory, then contracted ones."""
    kept = tuple(output.shape[axis] for axis in _order(output))
    shape = kept + tuple(inputs[0].shape[axis] for axis in dims.lhs_contracting)
    whole = ArraySpec(output.dtype, shape)
    axes = tuple(range(len(kept), len(shape)))
    step = FusionStep("multiply", (0, 1))
    return ElementwiseFusionPlan((whole, whole), (step,), (2,), "reduce_sum", axes)


def _order(output: ArraySpec) -> Axes:
    return tuple(range(len(output.shape))) if output.layout is None else output.layout


def _view(order: Axes, axis_of: dict[int, int], contracted: Axes) -> tuple[Axes, tuple[Any, ...]]:
    """How an operand is transposed and indexed to have the axes of the plan: `axis_of` are its axes by those
    of the result; others are new."""
    perm = (*(axis_of[axis] for axis in order if axis in axis_of), *contracted)
    return perm, (*(slice(None) if axis in axis_of else None for axis in order), ...)

"""Inner products of rows: out[b] = sum_k x[b, k] * y[b, k], of numbers that follow each other in a row.

BLAS would have a call for each, of some ten nanoseconds, which adds up less than 32 numbers one by one; and
sums of all products would write these first. Here each row is added up in registers, by one thread, so that
results do not depend on how many there are. Operands that lie otherwise are left to BLAS. Scratch: a whole
result where `out` has gaps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._base.options import num_threads
from ..catalogue import DotDims
from ..dots import one_suffices
from ..protocol import Kernel
from ..spec import ArraySpec, Axes
from .address import address
from .buffers import empty_as
from .kernels.dots import multiply_rows
from .strided import axis_table, merge_axes
from .threads import parallel_for


def bind_dots(dims: DotDims, output: ArraySpec, otherwise: Callable[[], Kernel]) -> Kernel:
    """A kernel for one `dot_general` of batches of vectors. `otherwise` gives that for arrays which turn out
    to have no rows."""
    order = tuple(range(len(output.shape))) if output.layout is None else output.layout
    kept: list[tuple[Any, _Rows | None]] = [(None, None)]

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        key = (lhs.strides, rhs.strides)
        seen, rows = kept[0]  # read once: another thread may put its own there at any time
        if seen != key:
            rows = _rows(dims, order, lhs, rhs)
            kept[0] = (key, rows)
        if rows is None or not (lhs.flags.aligned and rhs.flags.aligned):
            return otherwise()(lhs, rhs, out=out)
        if out is not None and out.flags.aligned and out.transpose(order).flags.c_contiguous:
            target = out
        else:
            target = empty_as(output)
        elements, (count, outer, depth) = target.transpose(order).reshape(-1), rows
        left, right = address(lhs), address(rhs)

        def piece(start: int, stop: int) -> None:
            multiply_rows(start, stop, elements, left, right, outer, depth)

        parallel_for(piece, count, None if uses_threads(dims, output) else 1)
        if out is None or target is out:
            return target
        np.copyto(out, target)
        return out

    return run


def uses_threads(dims: DotDims, output: ArraySpec) -> bool:
    """Whether several take less time than one."""
    return not one_suffices(dims.batch, dims.k, output.dtype.itemsize, num_threads())


class _Rows(NamedTuple):
    """What the kernel is told of operands of given strides."""

    rows: int
    outer: Any
    depth: int


def _rows(dims: DotDims, order: Axes, lhs: Any, rhs: Any) -> _Rows | None:
    """None where the contracted elements are no rows. Whether they are aligned is another question: arrays of
    the same strides may be or not."""
    if any(stride % x.itemsize for x in (lhs, rhs) for stride in x.strides):
        return None
    pairs = zip(dims.lhs_contracting, dims.rhs_contracting, strict=True)
    contracted = [(lhs.shape[i], lhs.strides[i], rhs.strides[j]) for i, j in pairs]
    row = merge_axes(sorted(contracted, key=lambda axis: -axis[1]))
    if len(row) != 1 or row[0][1:] != (lhs.itemsize, rhs.itemsize):
        return None
    pairs = zip(dims.lhs_batch, dims.rhs_batch, strict=True)
    axes = [(lhs.shape[i], lhs.strides[i], rhs.strides[j]) for i, j in pairs]
    axes += [(1, 0, 0)] * (len(order) - len(axes))  # those of one operand alone have one element
    outer = merge_axes([axes[axis] for axis in order]) or [(1, 0, 0)]
    return _Rows(math.prod(n for n, *_ in outer), axis_table(outer), row[0][0])

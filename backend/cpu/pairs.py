"""A real operand times a complex one, without a complex copy of the real one.

A complex number is a pair of real ones, and x * (a + bi) = xa + xbi: pairs are one more free axis of the
complex operand and of the result, which a view has. So a product takes half of the multiplications. The pairs
of the result lie last in memory; BLAS writes them there if the complex operand is the one on the right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._base.caches import Quick
from ..._base.options import get_options
from ..catalogue import Attrs
from ..contraction import contraction_of, orders_of
from ..cost_model import RATES, CostModel
from ..dtypes import mixed, real_of
from ..products import plan_decided
from ..protocol import Kernel
from ..rules import known_dims
from ..spec import ArraySpec
from .buffers import empty_as
from .strided import MOST_AXES

# 8x8 and 16x16 take as long either way, 32x32 0.65 of the time
LEAST = 1 << 12  # multiplications
# the result is formed elsewhere and moved: 64x64 takes twice as long, 128x128 as long, 1024x1024 0.6
LEAST_MOVED = 1 << 21
LITTLE = 4  # times as many elements have the complex operand and the result together
MARGIN = 0.9  # of the time of complex numbers that pairs may take, which are predicted too low
KERNEL = 2  # times `small`: elements of a product without sums whose pairs have a kernel at once
Specs = tuple[tuple[ArraySpec, ...], ArraySpec]


def are_mixed(inputs: tuple[ArraySpec, ...]) -> bool:
    """Whether one of two operands is real and the other complex."""
    return mixed(inputs[0].dtype, inputs[1].dtype) is not None


def pays(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> bool:
    """Whether there is an axis more to be had, and work enough; else the real operand is converted.

    That is also done where NumPy would walk rows of two numbers; and where the real operand is little, so
    that its copy costs nothing, but BLAS would need a copy of the pairs, as of a complex matrix times a real
    vector: what it adds up lies last there, and behind it the pairs. No measured model is asked, since an
    infinite number times a real one that became complex is NaN: that is not for a machine to decide.
    """
    if any(len(x.shape) >= MOST_AXES for x in (*inputs, output)):
        return False
    lhs, rhs = inputs
    dims = known_dims(attrs, lhs.shape, rhs.shape)
    are_written = _axis(attrs, inputs) == len(output.shape)
    work = dims.batch * dims.m * dims.n * dims.k
    if work < (LEAST if are_written else LEAST_MOVED):
        return False
    if dims.k == 1:
        return output.size >= KERNEL * get_options().small
    real, complex_ = sorted(inputs, key=lambda x: x.dtype.kind == "c")
    if output.dtype.char not in RATES or LITTLE * real.size > complex_.size + output.size:
        return True
    key = (dims, lhs, rhs, output, get_options().small)
    found = _PAYS.items.get(key)
    if found is None:
        _PAYS.misses += 1
        converted = as_converted(inputs, output.dtype)
        in_pairs = _seconds(attrs, *as_pairs(attrs, inputs, output))
        found = in_pairs < MARGIN * _seconds(attrs, converted, output)
        _PAYS.put(key, found)
    else:
        _PAYS.hits += 1
    return found


_PAYS: Quick[bool] = Quick("real beside complex", 1024)


def _seconds(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> float:
    """Of the product, by BLAS or kernels, on no machine in particular."""
    lhs, rhs = inputs
    step, left, right = contraction_of(known_dims(attrs, lhs.shape, rhs.shape), lhs, rhs)
    return plan_decided(step, orders_of(step, left, right, (lhs, rhs, output)), CostModel()).seconds


def as_converted(inputs: tuple[ArraySpec, ...], dtype: np.dtype[Any]) -> tuple[ArraySpec, ...]:
    """Specs of operands of which those of another dtype are converted, and row-major then."""
    return tuple([x if x.dtype == dtype else ArraySpec(dtype, x.shape) for x in inputs])


def as_pairs(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Specs:
    """Specs of the same product of real arrays."""
    at = _axis(attrs, inputs)
    order = range(len(output.shape)) if output.layout is None else output.layout
    layout = (*(axis + (axis >= at) for axis in order), at)
    result = ArraySpec(
        real_of(output.dtype),
        (*output.shape[:at], 2, *output.shape[at:]),
        None if layout == tuple(range(len(layout))) else layout,
    )
    return tuple(_paired(x) for x in inputs), result


def bind_pairs(
    bind: Callable[[Attrs, tuple[ArraySpec, ...], ArraySpec], Kernel],
    attrs: Attrs,
    inputs: tuple[ArraySpec, ...],
    output: ArraySpec,
) -> Kernel:
    """The kernel of the product of real arrays, which `bind` makes, given views of the complex ones."""
    at = _axis(attrs, inputs)
    kernel = bind(attrs, *as_pairs(attrs, inputs, output))
    dtype = real_of(output.dtype)
    left, right = (x.dtype.kind == "c" for x in inputs)

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        if out is None:
            out = empty_as(output)
        target = out[..., None].view(dtype)
        order = (*range(at), out.ndim, *range(at, out.ndim))
        kernel(
            lhs[..., None].view(dtype) if left else lhs,
            rhs[..., None].view(dtype) if right else rhs,
            out=target.transpose(order),
        )
        return out

    return run


def _axis(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> int:
    """The axis of pairs in the result of real arrays: the last of those of the complex operand."""
    lhs, rhs = inputs
    dims = known_dims(attrs, lhs.shape, rhs.shape)
    of_lhs = len(dims.lhs_batch + dims.lhs_free)
    return of_lhs if lhs.dtype.kind == "c" else of_lhs + len(dims.rhs_free)


def _paired(spec: ArraySpec) -> ArraySpec:
    if spec.dtype.kind != "c":
        return spec
    layout = None if spec.layout is None else (*spec.layout, len(spec.shape))
    return ArraySpec(real_of(spec.dtype), (*spec.shape, 2), layout)

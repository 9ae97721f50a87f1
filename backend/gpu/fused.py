"""Chains of elementwise ops, with a trailing reduction perhaps, as kernels of einloom's own.

A kernel is made for a plan and for how its arrays lie, and compiled when it is first launched; shapes and
strides reach it as numbers. Nothing is fused where a step has no formula in CUDA, or where the array module
compiles none: then ops run one by one.
"""

from __future__ import annotations

from typing import Any

from ..fusion import ElementwiseFusionPlan, FusionPlan
from ..protocol import Kernel
from ..spec import Axes, dtype_from_name
from .arrays import element_strides
from .cuda.elementwise import elementwise
from .cuda.layout import row_major
from .cuda.reduction import Launches, reduction
from .launch import can_launch, launch
from .memory import address
from .modules import Array, Module

MOST_KNOWN = 8


def bind_fused(xp: Module, plan: FusionPlan) -> Kernel | None:
    """One kernel for `plan`; it returns its output, or a tuple of several."""
    if not can_launch(xp) or not isinstance(plan, ElementwiseFusionPlan):
        return None
    outputs = plan.output_specs()
    plain = tuple(row_major(spec.shape) for spec in (*outputs, *plan.inputs))
    if launches_of(plan, *plain) is None:
        return None

    known: dict[Any, Launches] = {}  # by strides: to find them takes longer than to launch them

    def run(*inputs: Array, out: Any = None) -> Any:
        targets = (
            tuple(xp.empty(spec.shape, spec.dtype) for spec in outputs)
            if out is None
            else out
            if isinstance(out, tuple)
            else (out,)
        )
        arrays = (*targets, *inputs)
        key = tuple([x.strides for x in arrays])
        found = known.get(key)
        if found is None or any(address(x) % x.itemsize for x in arrays):
            found = launches_of(plan, *map(element_strides, arrays))
            if found is not None:
                if len(known) >= MOST_KNOWN:
                    known.clear()
                known[key] = found
        if found is None:  # strides that are no whole elements, or more numbers than a launch takes
            inputs = tuple(map(xp.ascontiguousarray, inputs))
            made = tuple(xp.empty(spec.shape, spec.dtype) for spec in outputs)
            start(xp, launches_of(plan, *plain), (*made, *inputs))
            for target, x in zip(targets, made, strict=True):
                target[...] = x
        else:
            start(xp, found, (*targets, *inputs))
        return targets if len(targets) > 1 else targets[0]

    return run


def launches_of(plan: ElementwiseFusionPlan, *strides: Axes | None) -> Launches | None:
    """The kernels of a plan; None where there are none for these strides."""
    known = tuple(one for one in strides if one is not None)
    if len(known) < len(strides):
        return None
    if plan.reduce is not None:
        return reduction(plan, *known)
    kernel = elementwise(plan, *known)
    return None if kernel is None else Launches((kernel,), (tuple(range(len(known))),), ())


def start(xp: Module, launches: Launches | None, arrays: tuple[Array, ...]) -> None:
    """Queue kernels over outputs and inputs, and scratch beside them."""
    assert launches is not None
    scratch = (xp.empty(n, dtype_from_name(name)) for name, n in launches.scratch)
    arrays = (*arrays, *scratch)
    for kernel, operands in zip(launches.kernels, launches.operands, strict=True):
        launch(xp, kernel, *(arrays[k] for k in operands))


def scratch_bytes(plan: FusionPlan) -> int:
    """What the parts of a long reduction take."""
    if not isinstance(plan, ElementwiseFusionPlan):
        return 0
    strides = (row_major(spec.shape) for spec in (*plan.output_specs(), *plan.inputs))
    found = launches_of(plan, *strides)
    if found is None:
        return 0
    return sum(n * dtype_from_name(name).itemsize for name, n in found.scratch)

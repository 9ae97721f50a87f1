"""Gathers, scatters and the cipher by kernels of einloom's own, where the array module compiles CUDA.

A gather is one launch, a scatter a launch, a sort and a launch: see `cuda.gather` and `cuda.scatter`. Whether
an index was out of range is one number that the first launch leaves behind, and the host waits for it where
an error is due. Strides that are no whole elements, elements that kernels do not know and empty results are
left to the way over the array module, which says what is wrong with indices too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec
from . import indexing
from .arrays import Binder, operands_of
from .cuda.gather import gather, take, take_along_axis
from .cuda.layout import Operand
from .cuda.random import threefry
from .cuda.scatter import Scatter, scatter, scatter_along_axis
from .launch import can_launch, launch
from .modules import Array, Module
from .move import move
from .threefry import bind_threefry

Inputs = tuple[ArraySpec, ...]
Attempt = Callable[[Array, tuple[Array, ...], tuple[Operand, ...]], bool]
"""`attempt(out, arrays, operands)` fills `out` and returns True, or returns False; the operands describe out
first. Where an index of a gather is out of range `out` may hold part of the result by then; a scatter has not
written."""
Own = Callable[[Module, Attrs, ArraySpec], Attempt]


def launched(plain: Binder, own: Own) -> Binder:
    """A binder by `own` kernels, and by `plain` for what they do not take."""

    def bind(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
        otherwise = plain(xp, attrs, inputs, output)
        if not can_launch(xp) or not output.size:
            return otherwise
        attempt = own(xp, attrs, output)

        def run(*arrays: Array, out: Any = None) -> Array:
            target = xp.empty(output.shape, output.dtype) if out is None else out
            operands = operands_of((target, *arrays))
            if operands is not None and attempt(target, arrays, operands):
                return target
            return otherwise(*arrays, out=out)

        return run

    return bind


# ---- gathers --------------------------------------------------------------------------------------


def _take(xp: Module, attrs: Attrs, output: ArraySpec) -> Attempt:
    return _checked(xp, take, attrs["axis"], output)


def _take_along_axis(xp: Module, attrs: Attrs, output: ArraySpec) -> Attempt:
    return _checked(xp, take_along_axis, attrs["axis"], output)


def _checked(xp: Module, make: Callable[..., Any], axis: int, output: ArraySpec) -> Attempt:
    """With a number that tells of an index out of range; then the plain way refuses it by name. The other
    elements are written by then: to look at all indices first would be one more launch in every call."""
    size = output.dtype.itemsize

    def attempt(out: Array, arrays: tuple[Array, ...], operands: tuple[Operand, ...]) -> bool:
        x, indices = arrays
        outside = xp.zeros(1, np.int32)
        launch(xp, make(size, *operands, axis), out, outside, x, indices)
        return not outside.get()[0]

    return attempt


def _gather(xp: Module, attrs: Attrs, output: ArraySpec) -> Attempt:
    size = output.dtype.itemsize

    def attempt(out: Array, arrays: tuple[Array, ...], operands: tuple[Operand, ...]) -> bool:
        target, x, indices = operands
        launch(xp, gather(size, target, x, indices, attrs), out, *arrays)
        return True

    return attempt


# ---- scatters -------------------------------------------------------------------------------------


def _scatter(xp: Module, attrs: Attrs, output: ArraySpec) -> Attempt:
    def attempt(out: Array, arrays: tuple[Array, ...], operands: tuple[Operand, ...]) -> bool:
        target, _, indices, updates = operands
        return _updated(xp, scatter(target, indices, updates, attrs), out, arrays)

    return attempt


def _scatter_along_axis(xp: Module, attrs: Attrs, output: ArraySpec) -> Attempt:
    axis, mode = attrs["axis"], attrs["mode"]

    def attempt(out: Array, arrays: tuple[Array, ...], operands: tuple[Operand, ...]) -> bool:
        target, _, indices, updates = operands
        made = scatter_along_axis(target, indices, updates, axis, mode)
        return _updated(xp, made, out, arrays)

    return attempt


def _updated(xp: Module, made: Scatter | None, out: Array, arrays: tuple[Array, ...]) -> bool:
    """Places, their order, then the updates; `out` is written when all indices are known to be good."""
    if made is None or not made.count:
        return False
    x, indices, updates = arrays
    places = xp.empty(made.count, np.int64)
    if "outside" in made.places.arrays:
        outside = xp.zeros(1, np.int32)
        launch(xp, made.places, places, outside, indices)
        if outside.get()[0]:
            return False
    else:
        launch(xp, made.places, places, indices)
    places.sort()
    move(xp, out, x)
    launch(xp, made.updates, out, places, updates)
    return True


# ---- the cipher -----------------------------------------------------------------------------------


def _threefry(xp: Module, attrs: Attrs, output: ArraySpec) -> Attempt:
    def attempt(out: Array, arrays: tuple[Array, ...], operands: tuple[Operand, ...]) -> bool:
        dtypes = tuple(one.dtype for one in operands)
        strides = (one.strides for one in operands)
        launch(xp, threefry(dtypes, output.shape, *strides), out, *arrays)  # type: ignore[arg-type]
        return True

    return attempt


BINDERS: dict[str, Binder] = {
    **indexing.BINDERS,
    "take": launched(indexing.bind_take, _take),
    "take_along_axis": launched(indexing.bind_take_along_axis, _take_along_axis),
    "gather": launched(indexing.bind_gather, _gather),
    "gather_dynamic_slice_sizes": launched(indexing.bind_gather, _gather),
    "scatter": launched(indexing.bind_scatter, _scatter),
    "scatter_along_axis": launched(indexing.bind_scatter_along_axis, _scatter_along_axis),
    "threefry2x32": launched(bind_threefry, _threefry),
}

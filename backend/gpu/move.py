"""Copies between layouts: the permutation kernel where it gains, the module's own copy where it does not.

CuPy's copy walks the elements of the target: it is as fast as memory where both arrays are dense along the
same axes, and reads scattered elements where they are not. Those go in tiles through shared memory.
"""

from __future__ import annotations

import math
from typing import Any

from ..cpu.strided import Axis
from ..spec import Axes, Shape
from .arrays import element_strides
from .cuda.permutation import permutation, sides
from .launch import can_launch, launch
from .modules import Array, Module

SMALL = 1 << 12  # elements: of fewer a copy is its launch


def move(xp: Module, target: Array, source: Array) -> Array:
    """target[...] = source, of one shape and dtype; they do not overlap."""
    if not _is_worth_it(xp, target, source):
        target[...] = source
        return target
    out, given = element_strides(target), element_strides(source)
    kernel = None
    if out is not None and given is not None and _goes_in_tiles(target.shape, out, given):
        kernel = permutation(target.itemsize, target.shape, out, given)
    if kernel is None:
        target[...] = source
    else:
        launch(xp, kernel, target, source)
    return target


def contiguous(xp: Module, x: Array) -> Array:
    """A row-major copy; x itself where it is row-major."""
    return x if x.flags.c_contiguous else move(xp, xp.empty(x.shape, x.dtype), x)


def _is_worth_it(xp: Module, target: Any, source: Any) -> bool:
    return can_launch(xp) and target.dtype == source.dtype and math.prod(target.shape) >= SMALL


def _goes_in_tiles(shape: Shape, out: Axes, given: Axes) -> bool:
    axes: list[Axis] = [one for one in zip(shape, out, given, strict=True) if one[0] != 1]
    return bool(sides(axes)[1]) if axes else False

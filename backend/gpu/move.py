"""Copies between layouts: the permutation kernel where it gains, the module's own copy where it does not.

CuPy's copy walks the elements of the target: it is as fast as memory where both arrays are dense along the
same axes, and reads scattered elements where they are not. Those go in tiles through shared memory.
"""

from __future__ import annotations

import math
from typing import Any

from ..._base.caches import Cache
from ..cpu.strided import Axis
from ..spec import Axes, Shape
from .cuda.kernel import DECLINED, CudaKernel
from .cuda.permutation import permutation, sides
from .launch import can_launch, launch
from .memory import address
from .modules import Array, Module

SMALL = 1 << 12  # elements: of fewer a copy is its launch
_KERNELS: Cache[Any] = Cache("cuda copies", 4096)
"""By shape, strides in bytes and size of an element: to find a kernel takes longer than to launch it."""


def move(xp: Module, target: Array, source: Array) -> Array:
    """target[...] = source, of one shape and dtype; they do not overlap."""
    size = target.itemsize
    if can_launch(xp) and target.dtype == source.dtype:
        key = (target.shape, target.strides, source.strides, size)
        kernel = _KERNELS.get(key)
        if kernel is None:
            made = _kernel_of(*key)
            kernel = _KERNELS.put(key, DECLINED if made is None else made)
        if kernel is not DECLINED and not (address(target) % size or address(source) % size):
            launch(xp, kernel, target, source)
            return target
    target[...] = source
    return target


def contiguous(xp: Module, x: Array) -> Array:
    """A row-major copy; x itself where it is row-major."""
    return x if x.flags.c_contiguous else move(xp, xp.empty(x.shape, x.dtype), x)


def _kernel_of(shape: Shape, out: Axes, given: Axes, size: int) -> CudaKernel | None:
    """Strides are bytes."""
    if math.prod(shape) < SMALL or any(stride % size for stride in (*out, *given)):
        return None
    out, given = (tuple(stride // size for stride in strides) for strides in (out, given))
    axes: list[Axis] = [one for one in zip(shape, out, given, strict=True) if one[0] != 1]
    if not axes or not sides(axes)[1]:
        return None
    return permutation(size, shape, out, given)

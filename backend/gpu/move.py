"""Copies between layouts: the permutation kernel where it gains, the module's own copy where it does not.

CuPy's copy walks the elements of the target: it is as fast as memory where both arrays are dense along the
same few axes, and reads scattered elements where they are not, each of which it finds by a division for every
axis. Those go in tiles.
"""

from __future__ import annotations

import math
from typing import Any

from ..._base.caches import Cache
from ..spec import Axes, Shape
from .cuda.kernel import DECLINED, CudaKernel
from .cuda.permutation import gains, permutation
from .launch import can_launch, launch
from .memory import address
from .modules import Array, Module

SMALL = 1 << 12  # elements: of fewer a copy is its launch
_KERNELS: Cache[Any] = Cache("cuda copies", 4096)
"""By shape, strides in bytes, size of an element and alignment: to find a kernel takes longer than to launch
it."""


def move(xp: Module, target: Array, source: Array) -> Array:
    """target[...] = source, of one shape and dtype; they do not overlap."""
    size = target.itemsize
    if can_launch(xp) and target.dtype == source.dtype:
        at, of = address(target), address(source)
        alignment = math.gcd(16, at, of)  # a power of two
        key = (target.shape, target.strides, source.strides, size, alignment)
        kernel = _KERNELS.get(key)
        if kernel is None:
            made = _kernel_of(*key)
            kernel = _KERNELS.put(key, DECLINED if made is None else made)
        if kernel is not DECLINED:
            launch(xp, kernel, target, source)
            return target
    target[...] = source
    return target


def contiguous(xp: Module, x: Array) -> Array:
    """A row-major copy; x itself where it is row-major."""
    return x if x.flags.c_contiguous else move(xp, xp.empty(x.shape, x.dtype), x)


def _kernel_of(
    shape: Shape, out: Axes, given: Axes, size: int, alignment: int
) -> CudaKernel | None:
    """Strides are bytes. What is not aligned to its size a kernel may not read."""
    between = alignment % size or any(stride % size for stride in (*out, *given))
    if between or math.prod(shape) < SMALL:
        return None
    out, given = (tuple(stride // size for stride in strides) for strides in (out, given))
    if not gains(size, shape, out, given):
        return None
    return permutation(size, shape, out, given, alignment)

"""Copies between layouts: our own kernel, and the module's copy of few elements or between dtypes.

CuPy's copy walks the elements of the target: it is as fast as memory where both arrays are dense along the
same few axes, and reads scattered elements where they are not, each of which it finds by a division for every
axis. Those go in tiles. Where it is as fast, it takes longer to find out how than our kernel to be launched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from ..._base.caches import Quick
from ..spec import Axes, Shape
from .cuda.kernel import CudaKernel
from .cuda.permutation import permutation
from .launch import can_launch, launcher
from .memory import address
from .modules import Array, Module

SMALL = 1 << 12  # elements: of fewer a copy is its launch
_LAUNCHES: Quick[Callable[..., None] | Literal[False]] = Quick("cuda copies", 4096)
"""By module, shape, strides in bytes, size of an element and alignment: to find a kernel takes longer than to
launch it. False: the module's own copy."""


def move(xp: Module, target: Array, source: Array) -> Array:
    """target[...] = source, of one shape and dtype; they do not overlap."""
    if can_launch(xp) and target.dtype == source.dtype:
        alignment = math.gcd(16, address(target), address(source))  # a power of two
        key = (id(xp), target.shape, target.strides, source.strides, target.itemsize, alignment)
        start = _LAUNCHES.get(key)
        if start is None:
            kernel = _kernel_of(*key[1:])
            start = False if kernel is None else launcher(xp, kernel)
            _LAUNCHES.put(key, start)
        if start is not False:
            start(target, source)
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
    return permutation(size, shape, out, given, alignment)

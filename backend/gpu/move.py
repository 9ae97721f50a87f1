"""Copies between layouts: the permutation kernel where it gains, the module's own copy where it does not.

CuPy's copy walks the elements of the target: it is as fast as memory where both arrays are dense along the
same few axes, and reads scattered elements where they are not, each of which it finds by a division for every
axis. Those go in tiles.
"""

from __future__ import annotations

import math
from typing import Any

from .arrays import element_strides
from .cuda.permutation import gains, permutation
from .launch import can_launch, launch
from .memory import address
from .modules import Array, Module

SMALL = 1 << 12  # elements: of fewer a copy is its launch


def move(xp: Module, target: Array, source: Array) -> Array:
    """target[...] = source, of one shape and dtype; they do not overlap."""
    if not _is_worth_it(xp, target, source):
        target[...] = source
        return target
    out, given = element_strides(target), element_strides(source)
    kernel = None
    if out is not None and given is not None:
        form = (target.itemsize, target.shape, out, given)
        if gains(*form):
            kernel = permutation(*form, _alignment(target, source))
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


def _alignment(target: Array, source: Array) -> int:
    """Bytes, a power of two up to 16, to which both first elements are aligned."""
    return math.gcd(16, address(target), address(source))

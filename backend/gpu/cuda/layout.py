"""Axes that several arrays walk together, as kernels are given them.

A `Layout` is sizes and, for each array, strides in elements, row-major in the order of its axes. In CUDA
it is the struct of the same name, in source/layout.cuh.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...cpu.strided import Axis, merge_axes
from ...spec import Shape
from .kernel import NARROW


@dataclass(frozen=True, slots=True)
class Operand:
    """An array as a kernel sees it: dtype's name, shape, strides in elements.

    >>> Operand("float32", (2, 3), (3, 1))
    Operand(dtype='float32', shape=(2, 3), strides=(3, 1))
    """

    dtype: str
    shape: Shape
    strides: tuple[int, ...]


def operand_of(x: Any) -> Operand | None:
    """Of an array of NumPy or CuPy; None where a stride is no whole number of elements.

    >>> import numpy as np
    >>> operand_of(np.zeros((2, 3), "f4").T)
    Operand(dtype='float32', shape=(3, 2), strides=(1, 3))
    """
    size = x.itemsize
    strides = []
    for stride in x.strides:
        if stride % size:
            return None
        strides.append(stride // size)
    return Operand(_name(x.dtype), x.shape, tuple(strides))


@cache
def _name(dtype: Any) -> str:
    """NumPy puts it together each time."""
    return str(dtype.name)


@dataclass(frozen=True, slots=True)
class Layout:
    """Merged axes: size, then the stride in each of `arrays` arrays."""

    axes: tuple[Axis, ...]
    arrays: int

    @property
    def count(self) -> int:
        return math.prod(n for n, *_ in self.axes)

    @property
    def rank(self) -> int:
        """At least 1: a struct has no empty arrays."""
        return max(1, len(self.axes))

    def geometry(self) -> tuple[int, ...]:
        """The struct's numbers: count, sizes, strides of array 0, of array 1, ..."""
        axes = self.axes or ((1,) + (0,) * self.arrays,)
        return (self.count, *(number for column in zip(*axes, strict=True) for number in column))

    def reach(self) -> int:
        """The largest number among count and offsets."""
        ends = [
            sum(abs(axis[1 + k]) * (axis[0] - 1) for axis in self.axes if axis[0])
            for k in range(self.arrays)
        ]
        return max([self.count, *ends, *(abs(s) for axis in self.axes for s in axis)])

    def type(self, index: str) -> str:
        """The struct in CUDA."""
        return f"Layout<{self.rank}, {self.arrays}, {index}>"


def layout(shape: Shape, *strides: Sequence[int], keep_order: bool = True) -> Layout:
    """Axes of `shape`, merged; unless `keep_order`, sorted so that the first array is written in order.

    >>> layout((4, 3), (3, 1), (3, 1)).axes
    ((12, 1, 1),)
    >>> layout((4, 3), (1, 4), (1, 4), keep_order=False).axes
    ((12, 1, 1),)
    """
    axes: list[Axis] = list(zip(shape, *strides, strict=True))
    if not keep_order:
        axes.sort(key=lambda axis: -abs(axis[1]))
    return Layout(tuple(merge_axes(axes)), len(strides))


def row_major(shape: Shape) -> tuple[int, ...]:
    """Strides of a contiguous array.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def index_type(*layouts: Layout) -> str:
    """32 bits where all counts and offsets fit."""
    return "int" if all(one.reach() < NARROW for one in layouts) else "long long"

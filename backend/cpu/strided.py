"""Strided arrays as flat buffers with offsets: what every compiled kernel is given.

A kernel is compiled once for a dtype (a move: for an element size) and serves every rank and layout,
because ranks and layouts reach it as numbers: strides in elements, origins, tables of offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_AXES = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
"""Of an array of this NumPy."""

Axis = tuple[int, ...]
"""Size of an axis, then its stride in each array, in elements."""


def merge_axes(axes: Sequence[Axis]) -> list[Axis]:
    """Drop axes of size 1 and merge neighbours that every array walks as one axis.

    >>> merge_axes([(4, 6, 0), (2, 3, 0), (3, 1, 0), (5, 0, 1)])
    [(24, 1, 0), (5, 0, 1)]
    """
    merged: list[Axis] = []
    for axis in axes:
        n, *strides = axis
        if n == 1:
            continue
        if merged and merged[-1][1:] == tuple(n * stride for stride in strides):
            merged[-1] = (merged[-1][0] * n, *strides)
        else:
            merged.append(axis)
    return merged


def offsets(axes: Sequence[Axis], arrays: int = 2) -> Any:
    """Offsets in each array of all elements of `axes`, row-major: int64 [arrays, elements]."""
    table = np.zeros((arrays, 1), dtype=np.int64)
    for n, *strides in axes:
        steps = np.arange(n, dtype=np.int64) * np.array(strides, dtype=np.int64)[:, None]
        table = (table[:, :, None] + steps[:, None, :]).reshape(arrays, -1)
    return table


def axis_table(axes: Sequence[Axis], arrays: int = 2) -> Any:
    """Sizes and strides of `axes` as int64 [1 + arrays, axes]."""
    return np.array(axes, dtype=np.int64).reshape(-1, 1 + arrays).T.copy()


def element_strides(x: Any) -> list[int] | None:
    """Strides in elements, or None where x is unaligned or strides by part of an element."""
    if not x.flags.aligned:
        return None
    size = x.itemsize
    if any(stride % size for stride in x.strides):
        return None
    return [stride // size for stride in x.strides]


def readable(x: Any) -> Any:
    """x itself when it is aligned and its strides are whole elements, else a copy."""
    return x if element_strides(x) is not None else x.copy()


def flat(x: Any, writeable: bool = False) -> tuple[Any, int]:
    """A 1-D view of the memory between x's first and last element, and x's origin in it."""
    if x.flags.c_contiguous:
        buffer, origin = x.reshape(-1), 0
    else:
        size = x.itemsize
        reach = [(n - 1) * (stride // size) for n, stride in zip(x.shape, x.strides, strict=True)]
        origin = -sum(min(0, steps) for steps in reach)
        lowest = x[tuple(slice(None, None, -1 if steps < 0 else 1) for steps in reach)]
        length = 1 + sum(abs(steps) for steps in reach)
        buffer = np.lib.stride_tricks.as_strided(lowest, (length,), (size,))
    if not writeable:
        buffer.setflags(write=False)  # of this view
    return buffer, origin


def overlaps_itself(x: Any) -> bool:
    """Whether an axis steps into the elements that the axes of smaller steps cover.

    Of strides that interleave without meeting this is True too; no slice of an array has them.
    """
    if not x.size:
        return False
    steps = sorted((abs(n), size) for n, size in zip(x.strides, x.shape, strict=True) if size > 1)
    covered = max(1, x.itemsize)
    for step, size in steps:
        if step < covered:
            return True
        covered += step * (size - 1)
    return False

"""Inner products of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel
from .odometer import turn_on, turn_to

# put here before a kernel is compiled; see rows.py
dot_row: Any = None


@kernel
def multiply_rows(
    start: int,
    stop: int,
    out: Any,  # [rows], contiguous
    left: int,  # addresses of the first elements
    right: int,
    outer: Any,  # [3, axes]: sizes of the axes over rows, their strides in left and right, in bytes
    depth: int,
) -> None:
    """out[row] = sum_k left[row, k] * right[row, k] for rows start..stop.

    The elements of a row lie one after another in both operands.
    """
    last = outer.shape[1] - 1
    position, places = outer[0].copy(), np.array((left, right))
    turn_to(start, position, places, outer)
    left_step, right_step = outer[1, last], outer[2, last]
    row = start
    while row < stop:
        rows = min(stop - row, outer[0, last] - position[last])
        x, y = places[0], places[1]
        for _ in range(rows):
            out[np.uint64(row)] = dot_row(out, x, y, depth)
            x += left_step
            y += right_step
            row += 1
        position[last] += rows - 1
        places[0] += (rows - 1) * left_step
        places[1] += (rows - 1) * right_step
        turn_on(position, places, outer)

"""Moving elements between two strided arrays, tile by tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel


@kernel
def move_tiles(
    start: int,
    stop: int,
    dst: Any,  # flat buffers of equal element size
    src: Any,
    origins: Any,  # [2]: offset of the first element of dst and of src
    outer: Any,  # [3, axes]: sizes of the axes over tiles, their strides in dst and in src
    rows: Any,  # [2, R]: offsets in dst and src of the rows of a tile
    columns: Any,  # [2, C]: offsets in dst and src of its columns
    staged: bool,
) -> None:
    """dst[tile, r, c] = src[tile, r, c] for tiles start..stop.

    Columns run along dst's fastest axes, rows along src's fastest other axes. A staged tile passes
    through a local buffer: read along rows, written along columns, so that neither side strides by
    a power of two that falls into one cache set.
    """
    axes, n_rows, n_columns = outer.shape[1], rows.shape[1], columns.shape[1]
    pitch = n_columns + 8  # no power of two
    buffer = np.empty(n_rows * pitch if staged else 1, dst.dtype)
    position = outer[0].copy()
    rest = start
    d, s = origins[0], origins[1]
    for axis in range(axes - 1, -1, -1):
        position[axis] = rest % outer[0, axis]
        rest //= outer[0, axis]
        d += position[axis] * outer[1, axis]
        s += position[axis] * outer[2, axis]
    for _ in range(start, stop):
        if staged:
            for c in range(n_columns):
                at = s + columns[1, c]
                for r in range(n_rows):
                    buffer[r * pitch + c] = src[at + rows[1, r]]
            for r in range(n_rows):
                at = d + rows[0, r]
                for c in range(n_columns):
                    dst[at + columns[0, c]] = buffer[r * pitch + c]
        else:
            for r in range(n_rows):
                to, at = d + rows[0, r], s + rows[1, r]
                for c in range(n_columns):
                    dst[to + columns[0, c]] = src[at + columns[1, c]]
        for axis in range(axes - 1, -1, -1):
            position[axis] += 1
            d += outer[1, axis]
            s += outer[2, axis]
            if position[axis] < outer[0, axis]:
                break
            d -= position[axis] * outer[1, axis]
            s -= position[axis] * outer[2, axis]
            position[axis] = 0

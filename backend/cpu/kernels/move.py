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
    rows: Any,  # uint64 [2, R]: offsets in dst and src of the rows of a tile, modulo 2^64
    columns: Any,  # uint64 [2, C]: offsets in dst and src of its columns
    staged: bool,
) -> None:
    """dst[tile, r, c] = src[tile, r, c] for tiles start..stop.

    Columns run along dst's fastest axes, rows along src's fastest other axes. A staged tile passes
    through a local buffer: read along rows, written along columns, so that neither side strides by
    a power of two that falls into one cache set.
    """
    axes, n_rows, n_columns = outer.shape[1], rows.shape[1], columns.shape[1]
    pitch = np.uint64(n_columns + 8)  # no power of two
    buffer = np.empty(n_rows * (n_columns + 8) if staged else 1, dst.dtype)
    position = outer[0].copy()
    rest = start
    d, s = origins[0], origins[1]
    for axis in range(axes - 1, -1, -1):
        position[axis] = rest % outer[0, axis]
        rest //= outer[0, axis]
        d += position[axis] * outer[1, axis]
        s += position[axis] * outer[2, axis]
    for _ in range(start, stop):
        # unsigned indices: a signed one costs a test for counting from the end
        to_tile, of_tile = np.uint64(d), np.uint64(s)
        if staged:
            for c in range(n_columns):
                at = of_tile + columns[1, c]
                for r in range(n_rows):
                    buffer[np.uint64(r) * pitch + np.uint64(c)] = src[at + rows[1, r]]
            for r in range(n_rows):
                to, at = to_tile + rows[0, r], np.uint64(r) * pitch
                for c in range(n_columns):
                    dst[to + columns[0, c]] = buffer[at + np.uint64(c)]
        else:
            for r in range(n_rows):
                to, at = to_tile + rows[0, r], of_tile + rows[1, r]
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

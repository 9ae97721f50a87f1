"""Moving elements between two strided arrays, tile by tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel

# put here before a kernel is compiled; see vectors.py
transpose_block: Any = None
stream_block: Any = None
copy_line: Any = None
stream_line: Any = None


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
    dense: bool,  # the columns are contiguous in dst
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
                if dense:
                    for c in range(n_columns):
                        dst[to + np.uint64(c)] = buffer[at + np.uint64(c)]
                else:
                    for c in range(n_columns):
                        dst[to + columns[0, c]] = buffer[at + np.uint64(c)]
        elif dense:
            for r in range(n_rows):
                to, at = to_tile + rows[0, r], of_tile + rows[1, r]
                for c in range(n_columns):
                    dst[to + np.uint64(c)] = src[at + columns[1, c]]
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


@kernel
def transpose_tiles(
    start: int,
    stop: int,
    dst: Any,  # flat buffers of equal element size
    src: Any,
    origins: Any,  # [2]: offset of the first element of dst and of src
    outer: Any,  # [3, axes]: sizes of the axes over tiles, their strides in dst and in src
    rows: Any,  # uint64 [R]: offsets in dst of the rows of a tile; in src they are 0..R-1
    columns: Any,  # uint64 [C]: offsets in src of its columns; in dst they are 0..C-1
    side: int,  # elements along a block that is transposed in registers
    line: int,  # elements of a cache line
    streaming: bool,
) -> None:
    """dst[tile, r, c] = src[tile, r, c] where rows are contiguous in src and columns in dst.

    Where a block is narrower than a cache line, blocks that make up whole lines meet in a buffer first.
    """
    axes, n_rows, n_columns = outer.shape[1], rows.shape[0], columns.shape[0]
    whole_rows, whole_columns = n_rows - n_rows % line, n_columns - n_columns % line
    buffer = np.empty(line * line if line > side else 1, dst.dtype)
    pitch = (np.arange(line) * line).astype(np.uint64)
    zero = np.uint64(0)
    position = outer[0].copy()
    rest = start
    d, s = origins[0], origins[1]
    for axis in range(axes - 1, -1, -1):
        position[axis] = rest % outer[0, axis]
        rest //= outer[0, axis]
        d += position[axis] * outer[1, axis]
        s += position[axis] * outer[2, axis]
    for _ in range(start, stop):
        to, of = np.uint64(d), np.uint64(s)
        for c in range(0, whole_columns, line):
            for r in range(0, whole_rows, line):
                at_r, at_c = np.uint64(r), np.uint64(c)
                if line > side:
                    for i in range(0, line, side):
                        for j in range(0, line, side):
                            # the buffer's offsets count from its own column 0: c is taken back
                            transpose_block(
                                buffer, src, pitch, columns,
                                np.uint64(j), at_c + np.uint64(i), zero - at_c, of + at_r,
                            )  # fmt: skip
                    for i in range(line):
                        there, here = to + rows[r + i] + at_c, pitch[i]
                        if streaming:
                            stream_line(dst, buffer, there, here)
                        else:
                            copy_line(dst, buffer, there, here)
                elif streaming:
                    stream_block(dst, src, rows, columns, at_r, at_c, to, of)
                else:
                    transpose_block(dst, src, rows, columns, at_r, at_c, to, of)
        for r in range(n_rows):
            for c in range(whole_columns if r < whole_rows else 0, n_columns):
                dst[to + rows[r] + np.uint64(c)] = src[of + columns[c] + np.uint64(r)]
        for axis in range(axes - 1, -1, -1):
            position[axis] += 1
            d += outer[1, axis]
            s += outer[2, axis]
            if position[axis] < outer[0, axis]:
                break
            d -= position[axis] * outer[1, axis]
            s -= position[axis] * outer[2, axis]
            position[axis] = 0


@kernel
def copy_runs(
    start: int,
    stop: int,
    dst: Any,
    src: Any,
    origins: Any,
    outer: Any,  # as above, over tiles of runs
    rows: Any,  # uint64 [2, R]: offsets in dst and src of the runs of a tile
    length: int,  # elements of a run, contiguous in both
    line: int,  # elements of a cache line, a power of two
    phase: int,  # elements from the start of a cache line to dst[0], where it is streamed
    streaming: bool,
) -> None:
    """dst[tile, r, :] = src[tile, r, :] for runs that are contiguous in both arrays."""
    axes, n_rows = outer.shape[1], rows.shape[1]
    whole = length - length % line
    position = outer[0].copy()
    rest = start
    d, s = origins[0], origins[1]
    for axis in range(axes - 1, -1, -1):
        position[axis] = rest % outer[0, axis]
        rest //= outer[0, axis]
        d += position[axis] * outer[1, axis]
        s += position[axis] * outer[2, axis]
    for _ in range(start, stop):
        for r in range(n_rows):
            to, of = np.uint64(d) + rows[0, r], np.uint64(s) + rows[1, r]
            if streaming:
                past = (to + np.uint64(phase)) % np.uint64(line)
                head: Any = min(length, np.int64((np.uint64(line) - past) % np.uint64(line)))
                end = head + (length - head) // line * line
                for j in range(head):
                    dst[to + np.uint64(j)] = src[of + np.uint64(j)]
                for j in range(head, end, line):
                    stream_line(dst, src, to + np.uint64(j), of + np.uint64(j))
                for j in range(end, length):
                    dst[to + np.uint64(j)] = src[of + np.uint64(j)]
            else:
                for j in range(0, whole, line):
                    copy_line(dst, src, to + np.uint64(j), of + np.uint64(j))
                for j in range(whole, length):
                    dst[to + np.uint64(j)] = src[of + np.uint64(j)]
        for axis in range(axes - 1, -1, -1):
            position[axis] += 1
            d += outer[1, axis]
            s += outer[2, axis]
            if position[axis] < outer[0, axis]:
                break
            d -= position[axis] * outer[1, axis]
            s -= position[axis] * outer[2, axis]
            position[axis] = 0

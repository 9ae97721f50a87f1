"""Contraction of two strided arrays as a loop nest over tiles of the output."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel, part

dot_lanes: Any = None
STRIP = 4 * 64  # bytes of a strip of `dot_lanes`
NEAR = 16  # strips of a line that are read before other lines are
VECTOR = 16  # elements of a row that is added to at once; shorter ones are summed one element after another


@kernel
def contract_tiles(
    start: int,
    stop: int,
    out: Any,  # [tiles * tile_rows * row], contiguous
    lhs: Any,  # flat buffer; element (axes) is lhs[lhs_origin + sum(index * stride)]
    rhs: Any,
    origins: Any,  # [2]: offset of the first element of lhs and of rhs
    outer: Any,  # [3, axes]: sizes of the outer axes of out, their strides in lhs and in rhs
    rows: Any,  # [2, tile_rows]: offsets in lhs and rhs of the rows of a tile
    row: Any,  # [3]: length of a row, its stride in lhs and in rhs
    contracted: Any,  # [2, k]: offsets in lhs and rhs of the contracted elements
) -> None:
    """out[tile, r, j] = sum_k lhs[..] * rhs[..] for tiles start..stop.

    A tile is small enough to stay in cache while it is summed over k. Its position among the outer
    axes is decoded once and then counted on like an odometer.
    """
    axes, tile_rows, length, depth = outer.shape[1], rows.shape[1], row[0], contracted.shape[1]
    lhs_step, rhs_step = row[1], row[2]
    is_run = (
        length >= VECTOR and 0 <= lhs_step <= 1 and 0 <= rhs_step <= 1 and lhs_step + rhs_step > 0
    )
    position = outer[0].copy()
    rest = start
    lhs_tile, rhs_tile = origins[0], origins[1]
    for axis in range(axes - 1, -1, -1):
        position[axis] = rest % outer[0, axis]
        rest //= outer[0, axis]
        lhs_tile += position[axis] * outer[1, axis]
        rhs_tile += position[axis] * outer[2, axis]
    for tile in range(start, stop):
        at = tile * tile_rows * length
        if is_run:
            for k in range(depth):
                lhs_k, rhs_k = lhs_tile + contracted[0, k], rhs_tile + contracted[1, k]
                for r in range(tile_rows):
                    add_row(
                        out, at + r * length, length, lhs, lhs_k + rows[0, r], lhs_step,
                        rhs, rhs_k + rows[1, r], rhs_step, k > 0,
                    )  # fmt: skip
        else:
            for r in range(tile_rows):
                for j in range(length):
                    left = lhs_tile + rows[0, r] + j * lhs_step
                    right = rhs_tile + rows[1, r] + j * rhs_step
                    total = lhs[left + contracted[0, 0]] * rhs[right + contracted[1, 0]]
                    for k in range(1, depth):
                        total += lhs[left + contracted[0, k]] * rhs[right + contracted[1, k]]
                    out[at + r * length + j] = total
        for axis in range(axes - 1, -1, -1):
            position[axis] += 1
            lhs_tile += outer[1, axis]
            rhs_tile += outer[2, axis]
            if position[axis] < outer[0, axis]:
                break
            lhs_tile -= position[axis] * outer[1, axis]
            rhs_tile -= position[axis] * outer[2, axis]
            position[axis] = 0


@part
def add_row(
    out: Any, at: int, length: int, lhs: Any, left: int, lhs_step: int, rhs: Any, right: int,
    rhs_step: int, adds: bool,
) -> None:  # fmt: skip
    """out[at + j] (+)= lhs[left + j * lhs_step] * rhs[right + j * rhs_step]; steps are 1, or one is 0.

    Indices are unsigned: those that may be negative count from the end, and their loops become no vectors.
    Slices would be arrays, which are counted by locked instructions.
    """
    to, x, y = np.uint64(at), np.uint64(left), np.uint64(right)
    if lhs_step == 0 or rhs_step == 0:
        factor = lhs[x] if lhs_step == 0 else rhs[y]
        if lhs_step == 0:
            for j in range(np.uint64(length)):
                value = factor * rhs[y + j]
                out[to + j] = out[to + j] + value if adds else value
        else:
            for j in range(np.uint64(length)):
                value = factor * lhs[x + j]
                out[to + j] = out[to + j] + value if adds else value
    else:
        for j in range(np.uint64(length)):
            value = lhs[x + j] * rhs[y + j]
            out[to + j] = out[to + j] + value if adds else value


@kernel
def contract_lines(
    start: int,
    stop: int,
    out: Any,  # contiguous
    lhs: Any,  # flat buffer; element (axes) is lhs[lhs_origin + sum(index * stride)]
    rhs: Any,
    origins: Any,  # [2]: offset of the first element of lhs and of rhs
    outer: Any,  # [4, axes]: pieces of the lines, then sizes of outer axes; their strides in out, lhs and rhs
    rows: Any,  # [3, count]: offsets in out, lhs and rhs of the lines of a tile
    line: Any,  # [2]: elements of a piece of a line, and of its last piece: a strip at least
    contracted: Any,  # [2 * depth]: offsets in lhs of the contracted elements, then those in rhs
) -> None:
    """out[tile, r, j] = sum_k lhs[..] * rhs[..] for tiles start..stop, where j lies last in all three.

    The sums of a strip are in registers until all of k is added. The last strip of a piece may go over those
    elements of the one before again, and writes the same numbers there.
    """
    axes, depth, strip = outer.shape[1], contracted.size // 2, STRIP // out.itemsize
    position = outer[0].copy()
    rest = start
    to, left, right = 0, origins[0], origins[1]
    for axis in range(axes - 1, -1, -1):
        position[axis] = rest % outer[0, axis]
        rest //= outer[0, axis]
        to += position[axis] * outer[1, axis]
        left += position[axis] * outer[2, axis]
        right += position[axis] * outer[3, axis]
    for _ in range(start, stop):
        length = line[1] if position[0] == outer[0, 0] - 1 else line[0]
        for first in range(0, length, NEAR * strip):
            for r in range(rows.shape[1]):
                for j in range(first, min(first + NEAR * strip, length), strip):
                    at = min(j, length - strip)
                    dot_lanes(
                        out, lhs, rhs, contracted, depth, 0, depth,
                        to + rows[0, r] + at, left + rows[1, r] + at, right + rows[2, r] + at,
                    )  # fmt: skip
        for axis in range(axes - 1, -1, -1):
            position[axis] += 1
            to += outer[1, axis]
            left += outer[2, axis]
            right += outer[3, axis]
            if position[axis] < outer[0, axis]:
                break
            to -= position[axis] * outer[1, axis]
            left -= position[axis] * outer[2, axis]
            right -= position[axis] * outer[3, axis]
            position[axis] = 0

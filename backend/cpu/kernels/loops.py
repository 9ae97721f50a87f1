"""Contraction of two strided arrays as a loop nest over tiles of the output."""

from __future__ import annotations

from typing import Any

from ..jit import kernel

VECTOR = 16  # elements of a row from which slices cost less than they gain


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
    position = outer[0].copy()
    rest = start
    lhs_tile, rhs_tile = origins[0], origins[1]
    for axis in range(axes - 1, -1, -1):
        position[axis] = rest % outer[0, axis]
        rest //= outer[0, axis]
        lhs_tile += position[axis] * outer[1, axis]
        rhs_tile += position[axis] * outer[2, axis]
    for tile in range(start, stop):
        base = tile * tile_rows * length
        for k in range(depth):
            lhs_k, rhs_k = lhs_tile + contracted[0, k], rhs_tile + contracted[1, k]
            at = base
            for r in range(tile_rows):
                left, right = lhs_k + rows[0, r], rhs_k + rows[1, r]
                if k == 0:
                    out[at : at + length] = 0
                if (
                    length >= VECTOR
                    and 0 <= lhs_step <= 1
                    and 0 <= rhs_step <= 1
                    and lhs_step + rhs_step > 0
                ):
                    # slices from 0 up: their loops become vector instructions, since an index
                    # that may be negative (it would count from the end) is ruled out
                    target = out[at : at + length]
                    if lhs_step == 0:
                        factor, xs = lhs[left], rhs[right : right + length]
                        for j in range(length):
                            target[j] += factor * xs[j]
                    elif rhs_step == 0:
                        factor, xs = rhs[right], lhs[left : left + length]
                        for j in range(length):
                            target[j] += factor * xs[j]
                    else:
                        xs, ys = lhs[left : left + length], rhs[right : right + length]
                        for j in range(length):
                            target[j] += xs[j] * ys[j]
                else:
                    for j in range(length):
                        out[at + j] += lhs[left + j * lhs_step] * rhs[right + j * rhs_step]
                at += length
        for axis in range(axes - 1, -1, -1):
            position[axis] += 1
            lhs_tile += outer[1, axis]
            rhs_tile += outer[2, axis]
            if position[axis] < outer[0, axis]:
                break
            lhs_tile -= position[axis] * outer[1, axis]
            rhs_tile -= position[axis] * outer[2, axis]
            position[axis] = 0

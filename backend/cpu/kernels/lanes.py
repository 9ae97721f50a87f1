"""Chains of small products for many indices of a batch at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel

# put here before a kernel is compiled; see across.py
dot_complex_lanes: Any = None
dot_lanes: Any = None
gather_line: Any = None
gather_pairs: Any = None
gather_part: Any = None
gather_square: Any = None
peek: Any = None
poke: Any = None
scale_complex_lanes: Any = None
scale_lanes: Any = None
scatter_line: Any = None
scatter_pairs: Any = None
scatter_part: Any = None
scatter_square: Any = None


@kernel
def contract_lanes(
    start: int,
    stop: int,
    addresses: Any,  # [arrays]: of the operands that have lanes, then of the result
    outer: Any,  # [1 + arrays, axes]: sizes of the axes of lanes, their strides in each array
    sizes: Any,  # [6]: see below
    moved: Any,  # [arrays, 5]: see below
    steps: Any,  # [steps, 11]: see below
    places: Any,  # offsets in arrays, and in `scratch`
    constants: Any,  # elements of operands without lanes
    scratch: Any,  # [elements, pitch]
) -> None:
    """For blocks start..stop of lanes: elements of the operands are gathered, every step is done for all
    lanes of the block, and the elements of the last are written where they belong.

    Sizes: lanes of a block, from an element to the next one in `scratch`, lanes in all, lanes of a strip,
    lanes of a square, 2 for complex numbers, else 1. Real and imaginary parts are elements of their own.

    An array is moved by its elements: where they are in `scratch`, how many there are, where their offsets
    begin in `places`; or, unless the lanes are one after another in memory, by its squares: how many, and
    where they begin in `places`, each the offset of its first element, how many of its elements there are,
    and where these are in `scratch`. Squares may overlap.

    A step is: elements made, depth of their sums, where they go, whether the left operand is constant, where
    the operands begin, where the offsets of the elements begin in `places`, for either operand, where those
    of the terms do, and for each operand whether it is conjugated.

    Lanes beyond the last are the first of their block once more: its results are written again.
    """
    width, pitch, lanes, strip = sizes[0], sizes[1], sizes[2], sizes[3]
    side, parts = sizes[4], sizes[5]
    arrays, axes = addresses.shape[0], outer.shape[1]
    offset = np.empty(arrays * width, np.int64)
    for block in range(start, stop):
        first = block * width
        count = min(width, lanes - first)
        done = 0
        run = 0
        while done < count:
            rest, run = first + done, count - done
            for v in range(arrays):
                offset[v * width + done] = 0
            for axis in range(axes - 1, -1, -1):
                at = rest % outer[0, axis]
                rest //= outer[0, axis]
                if axis == axes - 1:
                    run = min(run, outer[0, axis] - at)
                for v in range(arrays):
                    offset[v * width + done] += at * outer[1 + v, axis]
            for v in range(arrays):
                to = v * width + done
                begin, step = offset[to], outer[1 + v, axes - 1]
                for k in range(run):
                    offset[to + k] = begin + k * step
            done += run
        is_run = run == width
        for v in range(arrays):
            for k in range(count, width):
                offset[v * width + k] = offset[v * width]
        for v in range(arrays - 1):
            address, of = addresses[v], v * width
            if is_run and outer[1 + v, axes - 1] == parts:
                to, at = moved[v, 0], moved[v, 2]
                for e in range(0, moved[v, 1], parts):
                    base = places[at + e] + offset[of]
                    for k in range(0, width, side):
                        if parts == 1:
                            gather_line(scratch, to + k, address, base + k)
                        else:
                            gather_pairs(scratch, to + k, pitch, address, base + 2 * k)
                    to += parts * pitch
                continue
            for k in range(0, width, side):
                at = moved[v, 4]
                for _ in range(moved[v, 3]):
                    base, used = places[at], places[at + 1]
                    if used == side:
                        gather_square(scratch, places, at + 2, k, address, base, offset, of + k)
                    elif used > 1:
                        gather_part(scratch, places, at + 2, k, address, base, offset, of + k, used)
                    else:
                        to = places[at + 2] + k
                        for lane in range(side):
                            scratch[to + lane] = peek(
                                address, base + offset[of + k + lane], scratch
                            )
                    at += 2 + side
        for s in range(steps.shape[0]):
            count_of, depth, to = steps[s, 0], steps[s, 1], steps[s, 2]
            is_constant, x, y = steps[s, 3] == 1, steps[s, 4], steps[s, 5]
            of_x, of_y, terms_x, terms_y = steps[s, 6], steps[s, 7], steps[s, 8], steps[s, 9]
            conj = steps[s, 10]
            sign_x = scratch.dtype.type(-1 if conj & 1 else 1)
            sign_y = scratch.dtype.type(-1 if conj & 2 else 1)
            for k in range(0, width, strip):
                sums = to + k
                for e in range(count_of):
                    at_x, at_y = x + places[of_x + e], y + places[of_y + e] + k
                    if parts == 1 and is_constant:
                        scale_lanes(
                            scratch, constants, scratch, places, depth,
                            terms_x, terms_y, sums, at_x, at_y,
                        )  # fmt: skip
                    elif parts == 1:
                        dot_lanes(
                            scratch, scratch, scratch, places, depth,
                            terms_x, terms_y, sums, at_x + k, at_y,
                        )  # fmt: skip
                    elif is_constant:
                        scale_complex_lanes(
                            scratch, constants, scratch, places, depth,
                            terms_x, terms_y, sums, at_x, at_y, pitch, sign_x, sign_y,
                        )  # fmt: skip
                    else:
                        dot_complex_lanes(
                            scratch, scratch, scratch, places, depth,
                            terms_x, terms_y, sums, at_x + k, at_y, pitch, sign_x, sign_y,
                        )  # fmt: skip
                    sums += parts * pitch
        v = arrays - 1
        address, of = addresses[v], v * width
        if is_run and outer[1 + v, axes - 1] == parts:
            to, at = moved[v, 0], moved[v, 2]
            for e in range(0, moved[v, 1], parts):
                base = places[at + e] + offset[of]
                for k in range(0, width, side):
                    if parts == 1:
                        scatter_line(scratch, to + k, address, base + k)
                    else:
                        scatter_pairs(scratch, to + k, pitch, address, base + 2 * k)
                to += parts * pitch
            continue
        for k in range(0, width, side):
            at = moved[v, 4]
            for _ in range(moved[v, 3]):
                base, used = places[at], places[at + 1]
                if used == side:
                    scatter_square(scratch, places, at + 2, k, address, base, offset, of + k)
                elif used > 1:
                    scatter_part(scratch, places, at + 2, k, address, base, offset, of + k, used)
                else:
                    to = places[at + 2] + k
                    for lane in range(side):
                        poke(address, base + offset[of + k + lane], scratch[to + lane])
                at += 2 + side

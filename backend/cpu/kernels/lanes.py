"""Chains of small products for many indices of a batch at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel

# put here before a kernel is compiled; see across.py
dot_complex_lanes: Any = None
dot_lanes: Any = None
peek: Any = None
poke: Any = None
scale_complex_lanes: Any = None
scale_lanes: Any = None


@kernel
def contract_lanes(
    start: int,
    stop: int,
    addresses: Any,  # [arrays]: of the operands that have lanes, then of the result
    outer: Any,  # [1 + arrays, axes]: sizes of the axes of lanes, their strides in each array
    sizes: Any,  # [4]: lanes of a block, lanes in all, lanes of a strip, 2 for complex numbers, else 1
    moved: Any,  # [arrays, 3]: where an array is in `scratch`, its elements in a lane, their offsets in `places`
    steps: Any,  # [steps, 11]: see below
    places: Any,  # offsets, those of operands and result in their arrays, those of steps in `scratch`
    constants: Any,  # elements of operands without lanes
    scratch: Any,  # [elements, lanes of a block]
) -> None:
    """For blocks start..stop of lanes: elements of the operands are gathered, every step is done for all
    lanes of the block, and the elements of the last are written where they belong.

    A step is: elements made, depth of their sums, where they go, whether the left operand is constant, where
    the operands begin, where the offsets of the elements begin in `places`, for either operand, where those
    of the terms do, and for each operand whether it is conjugated. Real and imaginary parts are elements of
    their own. Lanes beyond the last are computed with those of the first of the block, and written nowhere.
    """
    width, lanes, strip, parts = sizes[0], sizes[1], sizes[2], sizes[3]
    arrays, axes = addresses.shape[0], outer.shape[1]
    offset = np.empty((arrays, width), np.int64)
    pitch = width
    for block in range(start, stop):
        first = block * width
        count = min(width, lanes - first)
        done = 0
        while done < count:
            rest, run = first + done, count - done
            for v in range(arrays):
                offset[v, done] = 0
            for axis in range(axes - 1, -1, -1):
                at = rest % outer[0, axis]
                rest //= outer[0, axis]
                if axis == axes - 1:
                    run = min(run, outer[0, axis] - at)
                for v in range(arrays):
                    offset[v, done] += at * outer[1 + v, axis]
            for v in range(arrays):
                begin, step = offset[v, done], outer[1 + v, axes - 1]
                for k in range(run):
                    offset[v, done + k] = begin + k * step
            done += run
        for v in range(arrays):
            for k in range(count, width):
                offset[v, k] = offset[v, 0]
        for v in range(arrays - 1):
            address, to = addresses[v], moved[v, 0]
            for e in range(moved[v, 1]):
                base = places[moved[v, 2] + e]
                for k in range(width):
                    scratch[to + k] = peek(address, base + offset[v, k], scratch)
                to += width
        for s in range(steps.shape[0]):
            count_of, depth, to = steps[s, 0], steps[s, 1], steps[s, 2]
            is_constant, x, y = steps[s, 3] == 1, steps[s, 4], steps[s, 5]
            of_x, of_y, terms_x, terms_y = steps[s, 6], steps[s, 7], steps[s, 8], steps[s, 9]
            conj = steps[s, 10]
            if parts == 1:
                for e in range(count_of):
                    at_x, at_y = x + places[of_x + e], y + places[of_y + e]
                    if is_constant:
                        for k in range(0, width, strip):
                            scale_lanes(
                                scratch, constants, scratch, places, depth,
                                terms_x, terms_y, to + k, at_x, at_y + k,
                            )  # fmt: skip
                    else:
                        for k in range(0, width, strip):
                            dot_lanes(
                                scratch, scratch, scratch, places, depth,
                                terms_x, terms_y, to + k, at_x + k, at_y + k,
                            )  # fmt: skip
                    to += width
                continue
            sign_x = scratch.dtype.type(-1 if conj & 1 else 1)
            sign_y = scratch.dtype.type(-1 if conj & 2 else 1)
            for e in range(count_of):
                at_x, at_y = x + places[of_x + e], y + places[of_y + e]
                if is_constant:
                    for k in range(0, width, strip):
                        scale_complex_lanes(
                            scratch, constants, scratch, places, depth,
                            terms_x, terms_y, to + k, at_x, at_y + k, pitch, sign_x, sign_y,
                        )  # fmt: skip
                else:
                    for k in range(0, width, strip):
                        dot_complex_lanes(
                            scratch, scratch, scratch, places, depth,
                            terms_x, terms_y, to + k, at_x + k, at_y + k, pitch, sign_x, sign_y,
                        )  # fmt: skip
                to += 2 * width
        v = arrays - 1
        address, of = addresses[v], moved[v, 0]
        for e in range(moved[v, 1]):
            base = places[moved[v, 2] + e]
            for k in range(count):
                poke(address, base + offset[v, k], scratch[of + k])
            of += width

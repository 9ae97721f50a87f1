"""Inclusive scans along one axis of strided arrays: many lines side by side, or blocks of long ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel, part
from .odometer import turn_on, turn_to

CHUNK = 64  # elements of a line that are passed over at once where none is an extreme
CHAINS = 4  # sums of one line that are independent, so that none waits for another


@kernel
def scan_sums(
    start: int,
    stop: int,
    dst: Any,  # flat buffers; of floats, dst may be wider
    src: Any,
    origins: Any,  # [2]: offsets of their first elements
    outer: Any,  # [3, axes]: sizes over tiles, strides in both; pieces of lanes, then blocks of lines first
    lane: Any,  # [3]: lines that lie side by side, their strides in both
    piece: int,  # most of them in a tile
    along: Any,  # [3]: elements of a line, their strides in both
    block: int,  # most of them in a tile
    carry: Any,  # [tiles or 1, piece]: what is before the first element of a tile, in a wider dtype
    step: int,  # rows of carry from one tile to the next
    totals: bool,  # write what the elements of a tile come to into carry, and nothing else
) -> None:
    """dst[k] = carry + src[0] + ... + src[k] along the lines of tiles start..stop."""
    position, places = outer[0].copy(), origins.copy()
    accumulators = np.empty(piece, carry.dtype)
    turn_to(start, position, places, outer)
    for tile in range(start, stop):
        count = min(piece, lane[0] - position[0] * piece)
        n = min(block, along[0] - position[1] * block)
        to, of = places[0], places[1]
        accumulators[:count] = carry[tile * step, :count]
        if totals and count == 1:
            one = carry[tile * step, 0]
            two, three, four = one, one, one
            whole, stride = n - n % CHAINS, along[2]
            for _ in range(0, whole, CHAINS):
                one = one + src[np.uint64(of)]
                two = two + src[np.uint64(of + stride)]
                three = three + src[np.uint64(of + 2 * stride)]
                four = four + src[np.uint64(of + 3 * stride)]
                of += CHAINS * stride
            for _ in range(whole, n):
                one = one + src[np.uint64(of)]
                of += stride
            accumulators[0] = (one + two) + (three + four)
        elif count == 1:
            one = accumulators[0]
            for _ in range(n):
                one = one + src[np.uint64(of)]
                dst[np.uint64(to)] = one
                to += along[1]
                of += along[2]
        else:
            for _ in range(n):
                if lane[1] == 1 and lane[2] == 1 and not totals:
                    here, there = src[of : of + count], dst[to : to + count]
                    for j in range(count):
                        accumulators[j] += here[j]
                        there[j] = accumulators[j]
                else:
                    for j in range(count):
                        accumulators[j] += src[np.uint64(of + j * lane[2])]
                        if not totals:
                            dst[np.uint64(to + j * lane[1])] = accumulators[j]
                to += along[1]
                of += along[2]
        if totals:
            carry[tile * step, :count] = accumulators[:count]
        turn_on(position, places, outer)


@kernel
def scan_products(
    start: int,
    stop: int,
    dst: Any,
    src: Any,
    origins: Any,
    outer: Any,
    lane: Any,
    piece: int,
    along: Any,
    wide: Any,  # an array of the dtype to multiply in
) -> None:
    """dst[k] = src[0] * ... * src[k] along the whole lines of tiles start..stop.

    Nothing is multiplied by the first element: (1 + 0i)(inf + 0i) has a part that is NaN.
    """
    position, places = outer[0].copy(), origins.copy()
    accumulators = np.empty(piece, wide.dtype)
    turn_to(start, position, places, outer)
    for _ in range(start, stop):
        count = min(piece, lane[0] - position[0] * piece)
        to, of = places[0], places[1]
        for j in range(count):
            accumulators[j] = src[np.uint64(of + j * lane[2])]
            dst[np.uint64(to + j * lane[1])] = accumulators[j]
        one = accumulators[0]
        for _ in range(1, along[0]):
            to += along[1]
            of += along[2]
            if count == 1:
                one = one * src[np.uint64(of)]
                dst[np.uint64(to)] = one
            elif lane[1] == 1 and lane[2] == 1:
                here, there = src[of : of + count], dst[to : to + count]
                for j in range(count):
                    accumulators[j] *= here[j]
                    there[j] = accumulators[j]
            else:
                for j in range(count):
                    accumulators[j] *= src[np.uint64(of + j * lane[2])]
                    dst[np.uint64(to + j * lane[1])] = accumulators[j]
        turn_on(position, places, outer)


@kernel
def scan_extremes(
    start: int,
    stop: int,
    dst: Any,
    src: Any,
    origins: Any,
    outer: Any,
    lane: Any,
    piece: int,
    along: Any,
    block: int,
    carry: Any,  # of the dtype of the arrays
    step: int,
    least: bool,
    totals: bool,
) -> None:
    """The same for the largest or the smallest so far, the later of equals; NaN once there is one."""
    position, places = outer[0].copy(), origins.copy()
    accumulators = np.empty(piece, carry.dtype)
    turn_to(start, position, places, outer)
    for tile in range(start, stop):
        count = min(piece, lane[0] - position[0] * piece)
        n = min(block, along[0] - position[1] * block)
        to, of = places[0], places[1]
        accumulators[:count] = carry[tile * step, :count]
        if count == 1:
            best = accumulators[0]
            whole = n - n % CHUNK if along[1] == 1 and along[2] == 1 else 0
            for at in range(0, whole, CHUNK):
                here, there = src[of + at : of + at + CHUNK], dst[to + at : to + at + CHUNK]
                if not any_reaches(best, here, least):
                    if not totals:
                        there[:] = best
                    continue
                for j in range(CHUNK):
                    best = farther(best, here[j], least)
                    if not totals:
                        there[j] = best
            to += whole * along[1]
            of += whole * along[2]
            for _ in range(whole, n):
                best = farther(best, src[np.uint64(of)], least)
                if not totals:
                    dst[np.uint64(to)] = best
                to += along[1]
                of += along[2]
            accumulators[0] = best
            n = 0
        for _ in range(n):
            if lane[1] == 1 and lane[2] == 1 and not totals:
                here, there = src[of : of + count], dst[to : to + count]
                for j in range(count):
                    accumulators[j] = farther(accumulators[j], here[j], least)
                    there[j] = accumulators[j]
            else:
                for j in range(count):
                    best = farther(accumulators[j], src[np.uint64(of + j * lane[2])], least)
                    accumulators[j] = best
                    if not totals:
                        dst[np.uint64(to + j * lane[1])] = best
            to += along[1]
            of += along[2]
        if totals:
            carry[tile * step, :count] = accumulators[:count]
        turn_on(position, places, outer)


@part
def any_reaches(best: Any, some: Any, least: bool) -> Any:
    """Whether one of some elements lies as far as `best`, or is NaN, or `best` is.

    Each element of a running extreme waits for the one before it; this loop becomes vectors.
    """
    found: Any = False
    for j in range(CHUNK):
        found |= not (some[j] > best if least else some[j] < best)
    return found


@part
def farther(best: Any, x: Any, least: bool) -> Any:
    """The one that lies farther up, or down: x where they are equal, and NaN once there is one.

    Without branches, so that a loop over it becomes vectors; what is not equal to itself is NaN.
    """
    wins = ((x <= best) if least else (x >= best)) | (x != x)
    return x if wins & (best == best) else best

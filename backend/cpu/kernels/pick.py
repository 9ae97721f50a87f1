"""Reading elements, or runs of them, at places that an array of indices names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel
from .odometer import turn_on, turn_to

LINE = 64

# put here before a kernel is compiled; see vectors.py
copy_line: Any = None


@kernel
def pick(
    start: int,
    stop: int,
    dst: Any,  # flat buffers of equal element size
    src: Any,
    indices: Any,
    origins: Any,  # [3]: offsets of the first elements of dst, src and indices
    outer: Any,  # [4, axes]: sizes of the axes over tiles, their strides in the three; pieces come first
    lane: Any,  # [4]: length of the axis inside a tile, its strides in the three
    piece: int,  # most of that axis in a tile
    run: Any,  # [3]: elements that one index vector names, their strides in dst and src
    entries: Any,  # [3, M]: offset in indices, stride in src and bound of each entry of an index vector
    clamps: bool,  # to 0..bound; else indices from -bound to bound - 1 count from the end where negative
    bad: Any,  # [1]: set where an index is out of range; something in range is read instead
) -> None:
    """dst[o, j, r] = src[o, j, r + sum_m indices[o, j, m] stride_m] for tiles start..stop."""
    n, to_step, of_step, at_step = lane
    wrong: Any = False
    length, line = run[0], LINE // dst.itemsize
    whole = length - length % line if run[1] == 1 and run[2] == 1 else 0
    position, places = outer[0].copy(), origins.copy()
    turn_to(start, position, places, outer)
    for _ in range(start, stop):
        count = min(piece, n - position[0] * piece)
        to, of, at = places[0], places[1], places[2]
        if length == 1 and entries.shape[1] == 1:
            at += entries[0, 0]
            step, bound = entries[1, 0], entries[2, 0]
            if to_step == 1 and at_step == 1:
                # slices from 0 up: an index that may be negative costs a test for counting from the end
                there, named = dst[to : to + count], indices[at : at + count]
                if clamps:
                    for j in range(count):
                        i: Any = min(max(np.int64(named[j]), 0), bound)
                        there[j] = src[np.uint64(of + j * of_step + i * step)]
                else:
                    for j in range(count):
                        i = np.int64(named[j])
                        i += bound if i < 0 else 0
                        beside = np.uint64(i) >= np.uint64(bound)
                        wrong |= beside
                        i = 0 if beside else i
                        there[j] = src[np.uint64(of + j * of_step + i * step)]
            else:
                for _ in range(count):
                    i = np.int64(indices[np.uint64(at)])
                    if clamps:
                        i = min(max(i, 0), bound)
                    elif i < 0:
                        i += bound
                    if i < 0 or (i >= bound and not clamps):
                        i, wrong = 0, True
                    dst[np.uint64(to)] = src[np.uint64(of + i * step)]
                    to += to_step
                    of += of_step
                    at += at_step
        else:
            shift: Any = 0
            for j in range(count):
                if j == 0 or at_step != 0:  # else all of the tile have one index vector
                    shift = 0
                    for m in range(entries.shape[1]):
                        bound = entries[2, m]
                        i = np.int64(indices[np.uint64(at + entries[0, m])])
                        if clamps:
                            i = min(max(i, 0), bound)
                        elif i < 0:
                            i += bound
                        if i < 0 or (i >= bound and not clamps):
                            i, wrong = 0, True
                        shift += i * entries[1, m]
                here, there = of + shift, to
                for r in range(0, whole, line):
                    copy_line(dst, src, np.uint64(there + r), np.uint64(here + r))
                for r in range(whole, length):
                    dst[np.uint64(there + r * run[1])] = src[np.uint64(here + r * run[2])]
                to += to_step
                of += of_step
                at += at_step
        turn_on(position, places, outer)
    if wrong:
        bad[0] = 1

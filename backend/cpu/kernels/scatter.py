"""Writing or adding updates at places that an array of indices names, in the order of the updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel
from .odometer import turn_on, turn_to

MINE = 512  # updates that are looked through before any is made


@kernel
def scatter_lines(
    start: int,
    stop: int,
    dst: Any,  # flat buffers of one dtype, and one of integers
    updates: Any,
    indices: Any,
    origins: Any,  # [3]: offsets of the first elements of the three
    outer: Any,  # [4, axes]: sizes over tiles, strides in the three; pieces and parts come first
    lane: Any,  # [4]: length of the axis inside a tile, its strides in the three
    piece: int,  # most of that axis in a tile
    along: Any,  # [4]: how many updates a line has, their strides in updates and indices; dst's is step
    step: int,  # from one element to the next of a line of dst
    size: int,  # of a line of dst
    adds: bool,
    bad: Any,  # [1]: set where an index is out of range; it is left out
) -> None:
    """dst[o, j, indices[o, k, j]] is set to, or increased by, updates[o, k, j] for k = 0, 1, ...

    A tile has one part of the elements of its lines, so that tiles never write to the same place.
    """
    n, to_step, of_step, at_step = lane
    parts = outer[0, 1]
    wrong: Any = False
    # the updates of this part, found without a branch that nobody can foretell
    target, which = np.empty(MINE, np.int64), np.empty(MINE, np.uint64)
    position, places = outer[0].copy(), origins.copy()
    turn_to(start, position, places, outer)
    for _ in range(start, stop):
        count = min(piece, n - position[0] * piece)
        low, high = size * position[1] // parts, size * (position[1] + 1) // parts
        room = np.uint64(high - low)
        if n == 1 and along[2] == 1 and along[3] == 1:
            # slices from 0 up: an index that may be negative costs a test for counting from the end
            count = along[0]
            to, of, at = places[0] + low * step, places[1], places[2]
            given, named = updates[of : of + count], indices[at : at + count]
            for begin in range(0, count, MINE):
                found: Any = 0
                for k in range(begin, min(begin + MINE, count)):
                    i = np.int64(named[k])
                    i += size if i < 0 else 0
                    target[found], which[found] = i - low, k
                    found += np.uint64(i - low) < room
                    wrong |= i < 0 or i >= size
                if adds:
                    for m in range(found):
                        dst[np.uint64(to + target[m] * step)] += given[which[m]]
                else:
                    for m in range(found):
                        dst[np.uint64(to + target[m] * step)] = given[which[m]]
            turn_on(position, places, outer)
            continue
        for k in range(along[0]):
            to, of, at = places[0] + low * step, places[1] + k * along[2], places[2] + k * along[3]
            for _ in range(count):
                i = np.int64(indices[np.uint64(at)])
                i += size if i < 0 else 0
                if np.uint64(i - low) < room:
                    if adds:
                        dst[np.uint64(to + (i - low) * step)] += updates[np.uint64(of)]
                    else:
                        dst[np.uint64(to + (i - low) * step)] = updates[np.uint64(of)]
                else:
                    wrong |= i < 0 or i >= size
                to += to_step
                of += of_step
                at += at_step
        turn_on(position, places, outer)
    if wrong:
        bad[0] = 1


@kernel
def add_windows(
    start: int,
    stop: int,
    parts: int,
    dst: Any,  # flat buffers of one dtype, and one of integers
    updates: Any,
    indices: Any,
    origins: Any,  # [3]: offsets of the first elements of the three
    outer: Any,  # [3, axes]: sizes of the batch's axes but the last, strides in updates and indices
    lane: Any,  # [3]: of the last one
    entries: Any,  # [4, M]: offset in indices, stride in dst, last start, and size of each entry's axis
    rows: Any,  # int64 [2, R]: offsets in dst and updates of the runs of a window
    run: Any,  # [3]: elements of a run, their strides in dst and updates
) -> None:
    """dst[start + w] += updates[b, w] for all windows b that fit, in row-major order.

    Parts start..stop have those whose first entry is in their share of its axis.
    """
    n, of_step, at_step = lane
    windows = n
    for axis in range(outer.shape[1]):
        windows *= outer[0, axis]
    for part in range(start, stop):
        position, places = 0 * outer[0], origins[1:].copy()
        low, high = np.int64(0), np.int64(0)
        if entries.shape[1]:
            low = entries[3, 0] * part // parts
            high = entries[3, 0] * (part + 1) // parts
        for _ in range(windows // n if n else 0):
            of, at = places[0], places[1]
            for _ in range(n):
                to = origins[0]
                fits: Any = True
                for m in range(entries.shape[1]):
                    i = np.int64(indices[np.uint64(at + entries[0, m])])
                    fits = fits and 0 <= i <= entries[2, m] and (m > 0 or low <= i < high)
                    to += i * entries[1, m]
                if fits:
                    for r in range(rows.shape[1]):
                        there, here = to + rows[0, r], of + rows[1, r]
                        for j in range(run[0]):
                            dst[np.uint64(there + j * run[1])] += updates[
                                np.uint64(here + j * run[2])
                            ]
                of += of_step
                at += at_step
            turn_on(position, places, outer)

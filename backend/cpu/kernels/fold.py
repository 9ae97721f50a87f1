"""Adding columns back at the windows that they are of."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel
from .odometer import turn_on, turn_to

VECTOR = 8  # elements of a run from which slices cost less than they gain


@kernel
def fold_windows(
    start: int,
    stop: int,
    dst: Any,  # flat buffers of one dtype
    src: Any,
    origins: Any,  # [2]: offsets of their first elements
    outer: Any,  # [3, axes]: sizes over tiles, strides in both; slabs of the first window axis come first
    slab: int,  # most of that axis in a tile
    windows: Any,  # int64 [9, K]: see below
) -> None:
    """dst[i] = sum over taps k and windows w with w step + k dilation - low = i of src[k, w], k by k.

    For each axis that windows slide over, `windows` has the size of dst and of the kernel, how many windows
    there are, step, dilation, low padding, and the strides of dst, of src by taps and of src by windows.
    """
    rank = windows.shape[1]
    size, sides, count, step = windows[0], windows[1], windows[2], windows[3]
    dilation, low = windows[4], windows[5]
    to_step, tap_step, of_step = windows[6], windows[7], windows[8]
    position, places = outer[0].copy(), origins.copy()
    counters = np.zeros((4, rank), np.int64)
    tap, at, first, last = counters[0], counters[1], counters[2], counters[3]
    bottom, top = np.zeros(rank, np.int64), size.copy()
    taps, e = 1, rank - 1
    for d in range(rank):
        taps *= sides[d]
    turn_to(start, position, places, outer)
    for _ in range(start, stop):
        bottom[0] = position[0] * slab
        top[0] = min(size[0], bottom[0] + slab)
        cleared = 1
        for d in range(e):
            at[d] = bottom[d]
            cleared *= top[d] - bottom[d]
        for _ in range(cleared):
            to = places[0] + bottom[e] * to_step[e]
            for d in range(e):
                to += at[d] * to_step[d]
            for j in range(top[e] - bottom[e]):
                dst[np.uint64(to + j * to_step[e])] = 0
            for d in range(e - 1, -1, -1):
                at[d] += 1
                if at[d] < top[d]:
                    break
                at[d] = bottom[d]
        tap[:] = 0
        for _ in range(taps):
            rows = 1
            for d in range(rank):
                # the windows whose tap lies in the slab
                shift = low[d] - tap[d] * dilation[d]
                first[d] = max(0, -(-(bottom[d] + shift) // step[d]))
                last[d] = min(count[d], (top[d] - 1 + shift) // step[d] + 1)
                at[d] = first[d]
                if d < e:
                    rows *= max(0, last[d] - first[d])
            n = last[e] - first[e]
            for _ in range(rows if n > 0 else 0):
                to, of = places[0], places[1]
                for d in range(rank):
                    to += (at[d] * step[d] + tap[d] * dilation[d] - low[d]) * to_step[d]
                    of += tap[d] * tap_step[d] + at[d] * of_step[d]
                pace = step[e] * to_step[e]
                if n >= VECTOR and pace == 1 and of_step[e] == 1:
                    there, here = dst[to : to + n], src[of : of + n]
                    for j in range(n):
                        there[j] += here[j]
                else:
                    for j in range(n):
                        dst[np.uint64(to + j * pace)] += src[np.uint64(of + j * of_step[e])]
                for d in range(e - 1, -1, -1):
                    at[d] += 1
                    if at[d] < last[d]:
                        break
                    at[d] = first[d]
            for d in range(e, -1, -1):
                tap[d] += 1
                if tap[d] < sides[d]:
                    break
                tap[d] = 0
        turn_on(position, places, outer)

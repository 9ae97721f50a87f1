"""Updates of one long line dealt out by where they go, so that those of a share meet in the cache.

Written one by one where they belong, each would wait for another line of memory. What is dealt out passes
through lines that stay in cache, and leaves them whole and past the caches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel

LINE = 64
CHUNK = 1024  # updates of one share that lie together

# put here before a kernel is compiled; see vectors.py
stream_line: Any = None


@kernel
def deal_updates(
    start: int,
    stop: int,
    indices: Any,  # flat buffers
    updates: Any,
    origins: Any,  # [2]: offsets of their first elements
    steps: Any,  # [2]: from one to the next
    size: int,  # of the line
    shift: int,  # a share has 2^shift elements of it
    fresh: int,  # the first chunk that is free
    owners: Any,  # [chunks]: the share of each
    ends: Any,  # [shares]: where the next update goes
    places: Any,  # [chunks * CHUNK], aligned to lines: offsets in shares
    values: Any,
    bad: Any,  # [1]: set where an index is out of range; it is taken for 0
) -> None:
    """Updates start..stop go to chunks of their shares, in their order; the last of a share is never full."""
    line = LINE // values.itemsize
    group = LINE // min(4, values.itemsize)  # elements that fill lines of both
    kept_places = np.empty(ends.size * group, places.dtype)
    kept_values = np.empty(ends.size * group, values.dtype)
    down, mask, top = np.uint64(shift), np.uint64((1 << shift) - 1), np.uint64(group - 1)
    one, wide = np.uint64(1), np.uint64(group)
    (at, of), (at_step, of_step) = origins, steps
    wrong: Any = False
    for share in range(ends.size):
        ends[share] = fresh * CHUNK
        owners[fresh] = share
        fresh += 1
    at, of = at + start * at_step, of + start * of_step
    for _ in range(start, stop):
        i = np.int64(indices[np.uint64(at)])
        i += size if i < 0 else 0
        beside = np.uint64(i) >= np.uint64(size)
        wrong |= beside
        place = np.uint64(0 if beside else i)
        to = place >> down
        end = np.uint64(ends[to])
        filled, first = end & top, to * wide
        kept_places[first + filled] = place & mask
        kept_values[first + filled] = updates[np.uint64(of)]
        end += one
        if filled == top:
            for r in range(0, group, 16):
                stream_line(places, kept_places, end - wide + np.uint64(r), first + np.uint64(r))
            for r in range(0, group, line):
                stream_line(values, kept_values, end - wide + np.uint64(r), first + np.uint64(r))
            if end % np.uint64(CHUNK) == 0:
                end = np.uint64(fresh * CHUNK)
                owners[fresh] = to
                fresh += 1
        ends[to] = end
        at += at_step
        of += of_step
    for share in range(ends.size):
        rest = ends[share] % group
        for r in range(rest):
            places[ends[share] - rest + r] = kept_places[share * group + r]
            values[ends[share] - rest + r] = kept_values[share * group + r]
    if wrong:
        bad[0] = 1


@kernel
def put_shares(
    start: int,
    stop: int,
    dst: Any,  # a flat buffer
    to: int,  # offset of the first element of the line
    step: int,  # from one to the next
    shift: int,
    chunks: Any,  # in the order of shares
    counts: Any,  # of updates in each chunk
    bounds: Any,  # [shares + 1]: where the chunks of a share begin in `chunks`
    places: Any,
    values: Any,
    adds: bool,
) -> None:
    """dst[to + i step] is set to, or increased by, the updates of shares start..stop, in their order."""
    for share in range(start, stop):
        first, far = np.uint64(to + (share << shift) * step), np.uint64(step)
        for c in range(bounds[share], bounds[share + 1]):
            low = chunks[c] * CHUNK
            where, given = places[low : low + counts[c]], values[low : low + counts[c]]
            if adds:
                for j in range(where.size):
                    dst[first + np.uint64(where[j]) * far] += given[j]
            else:
                for j in range(where.size):
                    dst[first + np.uint64(where[j]) * far] = given[j]

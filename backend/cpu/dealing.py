"""Updates all over one long line: dealt out to shares of the line, then made share by share.

A share stays in cache while its updates are made, and threads have shares of their own. Each thread deals
out a range of the updates in their order, and a share takes what the first thread dealt before what the
second did: so the order of updates at one place is that of the indices, whatever the number of threads.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..._base.options import num_threads
from .buffers import empty
from .kernels.deal import CHUNK, LINE, deal_updates, put_shares
from .picking import Flat
from .threads import parallel_for

LONG = 8 << 20  # bytes of a line that stays in no cache of a core
MANY = 1 << 18  # updates from which dealing out takes less time than waiting for memory
SHARE = 1 << 18  # bytes of a line that stay in cache
MOST_SHARES = 1024
SAMPLES = 1024


def is_dealt(size: int, itemsize: int, updates: int) -> bool:
    """Whether so many updates of a line are dealt out, unless they mostly go where the last one went."""
    return size * itemsize >= LONG and updates >= max(MANY, size // 8)


def dealing_bytes(size: int, itemsize: int, updates: int, threads: int) -> int:
    """Chunks of places and values, and what is known of each."""
    shares = ((size - 1) >> _shift(size, itemsize)) + 1
    chunks = updates // CHUNK + threads * shares
    return chunks * (CHUNK * (4 + itemsize) + 40) + 16 * (threads + 1) * shares + 2 * LINE


def is_scattered(indices: Flat, count: int, size: int, itemsize: int) -> bool:
    """Whether indices, by a sample, go to another share at most steps; the result is the same either way."""
    at = np.arange(0, count - 1, max(1, count // SAMPLES))
    pairs = [indices.buffer[indices.origin + (at + k) * indices.strides[0]] for k in (0, 1)]
    shift = _shift(size, itemsize)
    return bool(np.count_nonzero((pairs[0] ^ pairs[1]) >> shift) > len(at) // 4)


def dealt(dst: Flat, indices: Flat, updates: Flat, size: int, count: int, adds: bool) -> bool:
    """Make the updates of a line; False, and nothing is done, if an index is out of range."""
    shift, threads = _shift(size, dst.buffer.itemsize), num_threads()
    shares = ((size - 1) >> shift) + 1
    cuts = list(pairwise(count * k // threads for k in range(threads + 1)))
    rooms = [(stop - start) // CHUNK + shares for start, stop in cuts]
    owners = np.full(sum(rooms), shares)
    ends = np.zeros((threads, shares), np.int64)
    places = _lines(len(owners) * CHUNK, np.dtype(np.uint32))
    values = _lines(len(owners) * CHUNK, updates.buffer.dtype)
    origins = np.array((indices.origin, updates.origin))
    steps = np.array((indices.strides[0], updates.strides[0]))
    bad = np.zeros(1, np.int64)

    def deal(first: int, last: int) -> None:
        for k in range(first, last):
            fresh, arrays = sum(rooms[:k]), (indices.buffer, updates.buffer)
            kept = (owners, ends[k], places, values)
            deal_updates(*cuts[k], *arrays, origins, steps, size, shift, fresh, *kept, bad)

    parallel_for(deal, threads)
    if bad[0]:
        return False
    chunks, counts, bounds = _by_share(owners, ends)

    def put(first: int, last: int) -> None:
        line = (dst.buffer, dst.origin, dst.strides[0], shift)
        put_shares(first, last, *line, chunks, counts, bounds, places, values, adds)

    parallel_for(put, shares)
    return True


def _by_share(owners: Any, ends: Any) -> tuple[Any, Any, Any]:
    """Chunks in the order of shares, then of dealers and updates; how full each is; where shares begin."""
    full = np.full(len(owners), CHUNK)
    full[ends // CHUNK] = ends % CHUNK
    chunks = np.argsort(owners, kind="stable")
    return chunks, full[chunks], np.searchsorted(owners[chunks], np.arange(ends.shape[1] + 1))


def _shift(size: int, itemsize: int) -> int:
    """Bits of a place in its share."""
    share = max(SHARE // itemsize, -(-size // MOST_SHARES))
    return min(32, (share - 1).bit_length())


def _lines(count: int, dtype: np.dtype[Any]) -> Any:
    """An array that begins where a line of the caches does: so large a store must be aligned."""
    memory = empty((count * dtype.itemsize + LINE,), np.dtype(np.uint8))
    start = -memory.__array_interface__["data"][0] % LINE
    return memory[start : start + count * dtype.itemsize].view(dtype)

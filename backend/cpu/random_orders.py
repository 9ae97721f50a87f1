"""Random orders: places sorted by their words as numbers of 64 bits, of equal ones the first place first.

Numbers are sorted, not pairs of number and place: the lowest bits give way to the place. Where the bits above
are equal, which few are, numbers are put in order by all bits. Many are first dealt out to buckets
by their uppermost bits, each of which fits into the cache and is sorted by one thread.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..._base.options import num_threads
from .buffers import empty
from .draws import WORDS, Key, as_uint64, fill, is_large
from .kernels.buckets import count_buckets, deal_buckets
from .threads import parallel_for

Array = np.ndarray[Any, Any]

BUCKET = 1 << 15  # numbers, about


def order(key: Key, n: int, out: Array | None = None) -> Array:
    """The places 0 to n - 1 in the order of their words; int64, written into `out` if given."""
    words = empty((2 * n,), np.dtype(np.uint32))
    fill(WORDS, key, words)
    whole = as_uint64(words)
    found = empty((n,), np.dtype(np.int64)) if out is None else out
    mask = np.array([(1 << max(n - 1, 0).bit_length()) - 1], np.uint64)
    bits = max(0, (n // BUCKET).bit_length())
    if bits == 0 or not is_large(n):
        packed = (whole & ~mask) | np.arange(n, dtype=np.uint64)
        _sort(packed, whole, mask, found)
        return found
    packed, bounds = _dealt(whole, bits, mask)

    def piece(start: int, stop: int) -> None:
        for first, last in pairwise(bounds[start : stop + 1]):
            _sort(packed[first:last], whole, mask, found[first:last])

    parallel_for(piece, 1 << bits)
    return found


def _dealt(whole: Array, bits: int, mask: Array) -> tuple[Array, list[int]]:
    """The numbers in buckets, without the bits that say which, and where buckets begin."""
    n, pieces, shift = whole.size, num_threads(), 64 - bits
    counts = np.zeros((pieces, 1 << bits), np.int64)
    cuts = [n * k // pieces for k in range(pieces + 1)]

    def count(start: int, stop: int) -> None:
        for k in range(start, stop):
            count_buckets(cuts[k], cuts[k + 1], whole, shift, counts[k])

    parallel_for(count, pieces)
    ends = np.concatenate([[0], np.cumsum(counts.T.reshape(-1))[:-1]]).reshape(-1, pieces).T.copy()
    bounds = [*ends[0].tolist(), n]
    dealt = empty((n,), np.dtype(np.uint64))

    def deal(start: int, stop: int) -> None:
        for k in range(start, stop):
            deal_buckets(cuts[k], cuts[k + 1], whole, shift, mask, ends[k], dealt)

    parallel_for(deal, pieces)
    return dealt, bounds


def _sort(packed: Array, whole: Array, mask: Array, found: Array) -> None:
    """The places in packed numbers, sorted by them and where these are equal by the whole ones."""
    packed.sort()
    np.bitwise_and(packed, mask, out=found.view(np.uint64))
    same = (packed[1:] ^ packed[:-1]) <= mask
    if not same.any():
        return
    tied = np.zeros(packed.size, bool)
    tied[1:] |= same
    tied[:-1] |= same
    (at,) = np.nonzero(tied)
    among = found[at]
    found[at] = among[np.lexsort((among, whole[among]))]

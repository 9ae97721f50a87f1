"""Threefry-2x32 of pairs of words, each pair in one integer of 64 bits; see words.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel
from .vectors import PAIRS

# put here before a kernel is compiled; see vectors.py
encipher_many: Any = None
encipher_many_alike: Any = None
encipher_one: Any = None
encipher_one_alike: Any = None
encipher_stream: Any = None
encipher_stream_alike: Any = None


@kernel
def encipher(out: Any, keys: Any, counters: Any, ahead: int, streams: bool) -> None:
    """out[i] = threefry(keys[i], counters[i]); one key may serve all.

    Streaming stores go past the caches; out[ahead] must then start on a cache line.
    """
    ahead = min(ahead, out.size)
    whole = out.size - (out.size - ahead) % PAIRS
    if keys.size == 1:
        key = keys[0]  # read here: `out` might be the same memory for all that the compiler knows
        for i in range(ahead):
            encipher_one_alike(out, key, counters, np.uint64(i))
        for i in range(ahead, whole, PAIRS):
            if streams:
                encipher_stream_alike(out, key, counters, np.uint64(i))
            else:
                encipher_many_alike(out, key, counters, np.uint64(i))
        for i in range(whole, out.size):
            encipher_one_alike(out, key, counters, np.uint64(i))
    else:
        for i in range(ahead):
            encipher_one(out, keys, counters, np.uint64(i))
        for i in range(ahead, whole, PAIRS):
            if streams:
                encipher_stream(out, keys, counters, np.uint64(i))
            else:
                encipher_many(out, keys, counters, np.uint64(i))
        for i in range(whole, out.size):
            encipher_one(out, keys, counters, np.uint64(i))

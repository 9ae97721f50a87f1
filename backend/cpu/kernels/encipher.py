"""Threefry-2x32 of pairs of words, each pair in one integer of 64 bits; see words.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel

LANES = 32  # pairs at a time

# put here before a kernel is compiled; see vectors.py
encipher_many: Any = None
encipher_many_alike: Any = None
encipher_one: Any = None
encipher_one_alike: Any = None


@kernel
def encipher(out: Any, keys: Any, counters: Any) -> None:
    """out[i] = threefry(keys[i], counters[i]); one key may serve all."""
    whole = out.size - out.size % LANES
    if keys.size == 1:
        for i in range(0, whole, LANES):
            encipher_many_alike(out, keys, counters, np.uint64(i))
        for i in range(whole, out.size):
            encipher_one_alike(out, keys, counters, np.uint64(i))
    else:
        for i in range(0, whole, LANES):
            encipher_many(out, keys, counters, np.uint64(i))
        for i in range(whole, out.size):
            encipher_one(out, keys, counters, np.uint64(i))

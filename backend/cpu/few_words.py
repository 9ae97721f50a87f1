"""Threefry-2x32 of a few blocks, whose words lie side by side in one integer of Python.

For so few NumPy's calls take longer than what they compute. A word has a lane of 64 bits: sums of all rounds
stay in it, and what a rotation moves out of the lower half is found in the upper one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .kernels.cipher import ROTATIONS

Array = np.ndarray[Any, Any]

FEW = 96  # blocks; beyond, NumPy takes less time
WORD = 0xFFFFFFFF


def few_words_at(keys: list[int], places: Array, stream: int) -> tuple[Array, Array]:
    """Both words of the places (uint64) in a stream; `keys` are the twelve words added on the way."""
    n = places.size
    ones = int.from_bytes(b"\1\0\0\0\0\0\0\0" * n, "little")
    lower = ones * WORD
    lanes = int.from_bytes(places.astype("<u8", copy=False).tobytes(), "little")
    a = (lanes & lower) + ones * keys[0]
    b = ((lanes >> 32 & lower | ones * (stream << 24)) + ones * keys[1]) & lower
    for group in range(5):
        for r in ROTATIONS[group % 2]:
            a += b
            b <<= r
            b = ((b | b >> 32) ^ a) & lower
        a += ones * keys[2 * group + 2]
        b = (b + ones * keys[2 * group + 3]) & lower
    return _words(a & lower, n), _words(b, n)


def _words(lanes: int, n: int) -> Array:
    return np.frombuffer(lanes.to_bytes(8 * n, "little"), "<u8").astype(np.uint32)

"""Random numbers that are a function of a key and a counter: Threefry-2x32 with 20 rounds.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC11). A number
depends on its key and its place alone, never on what was drawn before or on how many threads draw.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WORD = 0xFFFFFFFF


def threefry2x32(key: tuple[int, int], x0: Array, x1: Array) -> tuple[Array, Array]:
    """Both words of each block (x0, x1) of uint32, enciphered by the words of the key."""
    words = (key[0] & _WORD, key[1] & _WORD, (key[0] ^ key[1] ^ _PARITY) & _WORD)
    a = x0 + np.uint32(words[0])
    b = x1 + np.uint32(words[1])
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            a += b
            b = (b << np.uint32(rotation)) | (b >> np.uint32(32 - rotation))
            b ^= a
        a += np.uint32(words[(group + 1) % 3])
        b += np.uint32((words[(group + 2) % 3] + group + 1) & _WORD)
    return a, b

"""Threefry-2x32 with 20 rounds as one text: of arrays as it stands, of single words compiled, of vectors.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC11). Compiled
code adds words in 64 bits unless each result is said to have 32: vectors would have half the lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PARITY = 0x1BD11BDA  # of the third word of the key
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # of four rounds, in turn


def schedule(k0: Any, k1: Any) -> list[Any]:
    """The twelve words that are added on the way, of which the first two are the key (k0, k1)."""
    words = (k0, k1, k0 ^ k1 ^ PARITY)
    return [words[(group + half) % 3] + group * half for group in range(6) for half in (0, 1)]


def enciphered(keys: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Both words of the block (x0, x1) of uint32; `keys` are the twelve words added on the way."""
    a, b = word(x0 + keys[0]), word(x1 + keys[1])
    a, b = four_rounds(a, b, 13, 15, 26, 6)
    a, b = word(a + keys[2]), word(b + keys[3])
    a, b = four_rounds(a, b, 17, 29, 16, 24)
    a, b = word(a + keys[4]), word(b + keys[5])
    a, b = four_rounds(a, b, 13, 15, 26, 6)
    a, b = word(a + keys[6]), word(b + keys[7])
    a, b = four_rounds(a, b, 17, 29, 16, 24)
    a, b = word(a + keys[8]), word(b + keys[9])
    a, b = four_rounds(a, b, 13, 15, 26, 6)
    return word(a + keys[10]), word(b + keys[11])


def four_rounds(a: Any, b: Any, r: int, s: int, t: int, u: int) -> tuple[Any, Any]:
    """Four rounds, which rotate by r, s, t and u bits."""
    a = word(a + b)
    b = word(rotated(b, r) ^ a)
    a = word(a + b)
    b = word(rotated(b, s) ^ a)
    a = word(a + b)
    b = word(rotated(b, t) ^ a)
    a = word(a + b)
    b = word(rotated(b, u) ^ a)
    return a, b


def rotated(x: Any, r: int) -> Any:
    """The words x with their bits moved up by r places, and those that leave at the top put below."""
    return word(word(x << np.uint32(r)) | word(x >> np.uint32(32 - r)))


def word(x: Any) -> Any:
    """x, whose numbers have 32 bits: arrays keep their dtype, compiled code is told."""
    return x


def _word(x: Any) -> Any:
    return np.uint32(x)


word.compiled = _word  # type: ignore[attr-defined]

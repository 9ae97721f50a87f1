"""Random numbers that are a function of a key and a counter: Threefry-2x32 with 20 rounds.

J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC11). A number
depends on its key and its place alone, never on what was drawn before or on how many threads draw.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec
from .buffers import empty

Array = np.ndarray[Any, Any]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WORD = 0xFFFFFFFF


def bind_threefry(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """Words are the operands' integers modulo 2**32; a dtype of fewer bits keeps the lowest of a result."""

    def run(key: Any, counter: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        k0, k1, x0, x1 = (
            words[..., half].astype(np.uint32, order="C")
            for words in (key, counter)
            for half in (0, 1)
        )
        for half, word in enumerate(enciphered(k0, k1, x0, x1)):
            out[..., half] = word.astype(output.dtype)
        return out

    return run


def threefry2x32(key: tuple[int, int], x0: Array, x1: Array) -> tuple[Array, Array]:
    """Both words of each block (x0, x1) of uint32, enciphered by the words of the key."""
    k0, k1 = (np.asarray(word & _WORD).astype(np.uint32) for word in key)
    return enciphered(k0, k1, x0, x1)


def enciphered(k0: Array, k1: Array, x0: Array, x1: Array) -> tuple[Array, Array]:
    """Both words of blocks (x0, x1) under keys (k0, k1), all of uint32."""
    with np.errstate(over="ignore"):  # scalars would warn
        words = (k0, k1, k0 ^ k1 ^ np.uint32(_PARITY))
        a, b = x0 + k0, x1 + k1
        for group in range(5):
            for rotation in _ROTATIONS[group % 2]:
                a = a + b
                b = (b << np.uint32(rotation)) | (b >> np.uint32(32 - rotation))
                b = b ^ a
            a = a + words[(group + 1) % 3]
            b = b + (words[(group + 2) % 3] + np.uint32(group + 1))
    return a, b

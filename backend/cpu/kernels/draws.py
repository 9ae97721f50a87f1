"""Loops that fill arrays with random numbers, BLOCK places at a time.

Words are made in scratch that stays in the nearest cache. Loops over it have no branch, so that the compiler
takes vectors. `twin` joins no product and sum into one rounding: these are the numbers that NumPy
computes, in all bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .cipher import enciphered
from .numbers import (
    below_one32,
    below_one64,
    chance32,
    chance64,
    exponent,
    on_circle,
    radius,
    rest_of,
    scaled,
    turned,
)

BLOCK = 1024  # places; 2**32 is a multiple, so that the upper word is one for all of a block


def fill_words(block: int, stream: int, keys: Any, a: Any, b: Any) -> None:
    """Both words of the places of a block of a stream."""
    first = block * BLOCK
    high = np.uint32(np.uint32(first >> 32) | np.uint32(stream << 24))
    low = np.uint32(first)
    for j in range(a.shape[0]):
        x, y = enciphered(keys, np.uint32(low + np.uint32(j)), high)
        a[j] = x
        b[j] = y


def draw_words(start: int, stop: int, keys: Any, out: Any) -> None:
    """Blocks start..stop of pairs of words, one place after the other."""
    a, b = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    for block in range(start, stop):
        fill_words(block, 0, keys, a, b)
        part = out[2 * block * BLOCK : 2 * (block + 1) * BLOCK]
        for j in range(part.shape[0] // 2):
            part[2 * j] = a[j]
            part[2 * j + 1] = b[j]
        if part.shape[0] % 2:
            part[part.shape[0] - 1] = a[part.shape[0] // 2]


def draw_uniform64(start: int, stop: int, keys: Any, out: Any) -> None:
    """Blocks start..stop of float64, one for each place."""
    a, b = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    for block in range(start, stop):
        fill_words(block, 0, keys, a, b)
        part = out[block * BLOCK : (block + 1) * BLOCK]
        for j in range(part.shape[0]):
            part[j] = below_one64(a[j], b[j])


def draw_uniform32(start: int, stop: int, keys: Any, out: Any) -> None:
    """Blocks start..stop of float32, two for each place."""
    a, b = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    for block in range(start, stop):
        fill_words(block, 0, keys, a, b)
        part = out[2 * block * BLOCK : 2 * (block + 1) * BLOCK]
        for j in range(part.shape[0] // 2):
            part[2 * j] = below_one32(a[j])
            part[2 * j + 1] = below_one32(b[j])
        if part.shape[0] % 2:
            part[part.shape[0] - 1] = below_one32(a[part.shape[0] // 2])


def draw_normal(start: int, stop: int, keys: Any, wide: bool, out: Any) -> None:
    """Blocks start..stop of pairs of normal numbers: `wide` ones from 128 bits, others from 64."""
    a, b = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    c, d = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    x, y, f = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    bits = x.view(np.int64)
    for block in range(start, stop):
        fill_words(block, 0, keys, a, b)
        if wide:
            fill_words(block, 1, keys, c, d)
            for j in range(BLOCK):
                x[j] = chance64(a[j], b[j])
                b[j] = turned(d[j])
                f[j] = rest_of(b[j]) + c[j] * 2.0**-64
        else:
            for j in range(BLOCK):
                x[j] = chance32(a[j])
                b[j] = turned(b[j])
                f[j] = rest_of(b[j])
        for j in range(BLOCK):
            e = exponent(bits[j])
            bits[j] -= e << 52
            y[j] = np.float64(np.int32(e))
        for j in range(BLOCK):
            r = radius(x[j], y[j])
            left, up = on_circle(np.uint32(b[j] >> np.uint32(30)), f[j])
            x[j] = r * left
            y[j] = r * up
        part = out[2 * block * BLOCK : 2 * (block + 1) * BLOCK]
        for j in range(part.shape[0] // 2):
            part[2 * j] = x[j]
            part[2 * j + 1] = y[j]
        if part.shape[0] % 2:
            part[part.shape[0] - 1] = x[part.shape[0] // 2]


def draw_scaled(
    start: int, stop: int, stream: int, keys: Any, bound: Any, out: Any, rest: Any
) -> None:
    """Blocks start..stop of the upper (`out`) and lower 64 bits (`rest`) of the words of a place, as one
    number of 64 bits, times bound[0] + 2**32 bound[1]."""
    a, b = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    bound0, bound1 = bound[0], bound[1]
    for block in range(start, stop):
        fill_words(block, stream, keys, a, b)
        at = (block - start) * BLOCK
        high, low = out[at : at + BLOCK], rest[at : at + BLOCK]
        for j in range(high.shape[0]):
            x, y = scaled(np.uint64(a[j]), np.uint64(b[j]), bound0, bound1)
            high[j] = x
            low[j] = y

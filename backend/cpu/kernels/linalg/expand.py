"""Determinants of order 2 and 3 by their products, matrix by matrix where they lie.

They take so few operations that the time is that of reading the matrices: no lanes are filled first. Products
are as exact as elimination while they are in range; `left[0]` becomes 1 where one is not. The range is looked
at in the bits of the results, which as integers without their sign are in the order of the numbers: `limits`
has all bits but that of the sign, and those of the smallest and the largest number in range. `least` is the
smallest product of two elements: one below has lost digits, which a third factor may bring to light.

A loop that may end early is not made into one of vectors. Elements of one kind lie 9 apart, or 8 real
numbers, and vectors of them are gathered: that took 4 to 5 times as long as one matrix after another (AMD
EPYC). `left[0]` is never above 1, which is not known when the loop is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit import kernel, part

CHUNK = 512  # matrices: their results are in cache when they are looked at


@part
def size(x: Any) -> Any:
    return abs(x.real) + abs(x.imag)


@part
def is_coarse(x: Any, least: Any) -> bool:
    return (size(x) < least) & (size(x) > 0)


@part
def is_out(bits: Any, parts: int, limits: Any) -> bool:
    """Whether one of the numbers, of so many parts, is not in range, by its larger part."""
    sign, low, high = limits[0], limits[2], limits[1]
    if parts == 1:
        for k in range(len(bits)):
            found = bits[k] & sign
            low, high = min(low, found), max(high, found)
    else:
        for k in range(len(bits) // 2):
            found = max(bits[2 * k] & sign, bits[2 * k + 1] & sign)
            low, high = min(low, found), max(high, found)
    return low < limits[1] or high > limits[2]


@part
def expand_each(y: Any, dets: Any, left: Any) -> None:
    """One after another."""
    for k in range(len(dets)):
        dets[k] = y[4 * k] * y[4 * k + 3] - y[4 * k + 1] * y[4 * k + 2]
        if left[0] > 1:
            break


@part
def expand_many(y: Any, dets: Any) -> None:
    """By vectors."""
    for k in range(len(dets)):
        dets[k] = y[4 * k] * y[4 * k + 3] - y[4 * k + 1] * y[4 * k + 2]


@kernel
def expand_two(
    start: int, stop: int, x: Any, found: Any, bits: Any, least: Any, limits: Any, left: Any
) -> None:
    """found[k] = det of x[4 k : 4 k + 4]; `bits` are those of `found`."""
    parts, is_wide = len(bits) // len(found), found.itemsize > 8
    for first in range(start, stop, CHUNK):
        last = min(first + CHUNK, stop)
        y, dets = x[4 * first : 4 * last], found[first:last]  # of slices no index is below 0
        if is_wide:
            expand_each(y, dets, left)
        else:
            expand_many(y, dets)
        if is_out(bits[parts * first : parts * last], parts, limits):
            left[0] = 1


@kernel
def expand_three(
    start: int, stop: int, x: Any, found: Any, bits: Any, least: Any, limits: Any, left: Any
) -> None:
    """found[k] = det of x[9 k : 9 k + 9], NaN where a product of two elements is too small."""
    parts, bound = len(bits) // len(found), least[0]
    for first in range(start, stop, CHUNK):
        last = min(first + CHUNK, stop)
        y, dets = x[9 * first : 9 * last], found[first:last]
        for k in range(len(dets)):
            a, b, c = y[9 * k], y[9 * k + 1], y[9 * k + 2]
            d, e, f = y[9 * k + 3], y[9 * k + 4], y[9 * k + 5]
            g, h, i = y[9 * k + 6], y[9 * k + 7], y[9 * k + 8]
            ei, fh, di, fg, dh, eg = e * i, f * h, d * i, f * g, d * h, e * g
            det = a * (ei - fh) - b * (di - fg) + c * (dh - eg)
            coarse = is_coarse(ei, bound) | is_coarse(fh, bound) | is_coarse(di, bound)
            coarse |= is_coarse(fg, bound) | is_coarse(dh, bound) | is_coarse(eg, bound)
            dets[k] = det * np.nan if coarse else det
            if left[0] > 1:
                break
        if is_out(bits[parts * first : parts * last], parts, limits):
            left[0] = 1

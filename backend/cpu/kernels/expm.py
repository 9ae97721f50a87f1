"""Exponentials of many small matrices at once: polynomials and squarings across lanes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..jit import kernel

# put here before a kernel is compiled; see across.py and turns.py
dot_complex_lanes: Any = None
dot_lanes: Any = None
gather_part: Any = None
gather_square: Any = None
scatter_part: Any = None
scatter_square: Any = None

PRODUCT, SUM, HALVE, BACK = 0, 1, 2, 3  # kinds of steps


@kernel
def column_norms(start: int, stop: int, a: Any, n: int, parts: int, norms: Any) -> None:
    """norms[m]: the largest sum of |elements| of a column of matrix m, for m in start..stop."""
    sums = np.empty(n, a.dtype)
    for m in range(start, stop):
        at = m * n * n * parts
        sums[:] = 0
        for _ in range(n):
            for j in range(n):
                for p in range(parts):
                    sums[j] += abs(a[at + j * parts + p])
            at += n * parts
        top = sums[0]
        for j in range(1, n):
            if sums[j] > top or math.isnan(sums[j]):
                top = sums[j]
        norms[m] = top


@kernel
def expm_lanes(
    start: int,
    stop: int,
    addresses: Any,  # [2]: of the matrices and of the results, C-contiguous
    members: Any,  # [strips, lanes]: the matrix in each lane
    lists: Any,  # [strips]: which list of steps
    begins: Any,  # [lists + 1]: where each begins in `steps`
    steps: Any,  # [steps, 6]: kind, slot that is made, slots that are read
    factors: Any,  # [steps, 5]: of the terms of a sum, then of the identity
    places: Any,  # offsets in a slot: of numbers along a row, along a column, and of all
    sizes: Any,  # [4]: n, lanes, lanes of a square, 2 for complex numbers, else 1
    theta: float,
    scratch: Any,  # [slots, numbers, lanes]
) -> None:
    """For strips of lanes: A is gathered to slot 0, a list of steps leaves a polynomial of it there, which
    is squared as often as A was halved, and written.

    HALVE halves A until |A| <= theta. BACK, which finds powers of A in slots 1 and 2, takes back what is
    more than max(|A²|^(1/2), |A³|^(1/3)) <= theta needs. A lane does not depend on its neighbours.
    """
    n, width, side, parts = sizes[0], sizes[1], sizes[2], sizes[3]
    one = scratch.dtype.type(1)
    numbers, element = n * n * parts, parts * width
    slot = numbers * width
    offsets, halved = np.empty(width, np.int64), np.empty(width, np.int64)
    factor, grown = np.empty(width, scratch.dtype), np.empty(width, scratch.dtype)
    sums, norms = np.empty(width, scratch.dtype), np.empty((3, width), scratch.dtype)
    for strip in range(start, stop):
        for lane in range(width):
            offsets[lane] = members[strip, lane] * numbers
        for k in range(0, width, side):
            for e in range(0, numbers, side):
                used, row = min(side, numbers - e), 2 * n + e
                if used == side:
                    gather_square(scratch, places, row, k, addresses[0], e, offsets, k)
                else:
                    gather_part(scratch, places, row, k, addresses[0], e, offsets, k, used)
        halved[:] = 0
        least, most, squared, x = 0, 0, 0, 0
        s, end = begins[lists[strip]], begins[lists[strip] + 1]
        while s < end or squared < most:
            kind, to, p, q = PRODUCT, slot - x, x, x
            if s < end:
                kind, to, p, q = (
                    steps[s, 0],
                    steps[s, 1] * slot,
                    steps[s, 2] * slot,
                    steps[s, 3] * slot,
                )
            if kind == PRODUCT:
                for i in range(n):
                    for j in range(n):
                        at, row, column = (
                            to + (i * n + j) * element,
                            p + i * n * element,
                            q + j * element,
                        )
                        if parts == 1:
                            dot_lanes(scratch, scratch, scratch, places, n, 0, n, at, row, column)
                        else:
                            dot_complex_lanes(
                                scratch, scratch, scratch, places, n, 0, n,
                                at, row, column, width, one, one,
                            )  # fmt: skip
            elif kind == SUM:
                v, w = steps[s, 4] * slot, steps[s, 5] * slot
                f, g, h, k, unit = factors[s]
                for i in range(slot):
                    scratch[to + i] = (
                        f * scratch[p + i]
                        + g * scratch[q + i]
                        + h * scratch[v + i]
                        + k * scratch[w + i]
                    )
                for i in range(n):
                    at = to + i * (n + 1) * element
                    for lane in range(width):
                        scratch[at + lane] += unit
            elif kind == HALVE or most > 0:
                for power in range(kind - HALVE, 2 * (kind - HALVE) + 1):
                    norms[power, :] = 0
                    for j in range(n):
                        sums[:] = 0
                        for e in range(n * parts):
                            i, c = e // parts, e % parts
                            at = power * slot + ((i * n + j) * parts + c) * width
                            for lane in range(width):
                                sums[lane] += abs(scratch[at + lane])
                        for lane in range(width):
                            norms[power, lane] = max(norms[power, lane], sums[lane])
                for lane in range(width):
                    if kind == HALVE:
                        ratio, change = norms[0, lane] / theta, 0
                        if ratio > 1 and ratio < math.inf:
                            change = math.ceil(math.log2(ratio))
                    else:
                        root = max(norms[1, lane] ** 0.5, norms[2, lane] ** (1 / 3))
                        ratio, change = theta / root, 0
                        if ratio >= 2.0 ** halved[lane]:
                            change = -halved[lane]
                        elif ratio > 1:
                            change = -math.floor(math.log2(ratio))
                    halved[lane] += change
                    factor[lane] = 2.0**-change
                least, most = halved.min(), halved.max()
                grown[:] = 1
                for power in range(2 * (kind - HALVE) + 1):
                    for lane in range(width):
                        grown[lane] *= factor[lane]
                    for e in range(numbers):
                        at = power * slot + e * width
                        for lane in range(width):
                            scratch[at + lane] *= grown[lane]
            if s < end:
                s += 1
                continue
            if squared >= least:
                for e in range(numbers):
                    for lane in range(width):
                        if squared >= halved[lane]:
                            scratch[to + e * width + lane] = scratch[x + e * width + lane]
            squared += 1
            x = to
        for k in range(0, width, side):
            for e in range(0, numbers, side):
                used, row = min(side, numbers - e), 2 * n + e
                if used == side:
                    scatter_square(scratch[x:], places, row, k, addresses[1], e, offsets, k)
                else:
                    scatter_part(scratch[x:], places, row, k, addresses[1], e, offsets, k, used)

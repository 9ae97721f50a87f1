"""Exponentials of many small matrices at once: polynomials and squarings across lanes.

`scratch` is [slots, numbers, lanes]: slot k begins at k * numbers * lanes, and holds the numbers of a matrix
for each lane, of complex ones real and imaginary parts in turn. `sizes` are n, lanes, lanes of a square, 2
for complex numbers, else 1. `places` are offsets in a slot: of numbers along a row, along a column, of all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..jit import kernel, part

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


@part
def gather(scratch: Any, sizes: Any, places: Any, address: int, offsets: Any) -> None:
    """Matrices at these offsets to slot 0."""
    n, width, side = sizes[0], sizes[1], sizes[2]
    numbers = n * n * sizes[3]
    for k in range(0, width, side):
        for e in range(0, numbers, side):
            used, row = min(side, numbers - e), 2 * n + e
            if used == side:
                gather_square(scratch, places, row, k, address, e, offsets, k)
            else:
                gather_part(scratch, places, row, k, address, e, offsets, k, used)


@part
def scatter(scratch: Any, sizes: Any, places: Any, address: int, offsets: Any) -> None:
    """The first slot to where matrices lie."""
    n, width, side = sizes[0], sizes[1], sizes[2]
    numbers = n * n * sizes[3]
    for k in range(0, width, side):
        for e in range(0, numbers, side):
            used, row = min(side, numbers - e), 2 * n + e
            if used == side:
                scatter_square(scratch, places, row, k, address, e, offsets, k)
            else:
                scatter_part(scratch, places, row, k, address, e, offsets, k, used)


@part
def multiply(scratch: Any, sizes: Any, places: Any, to: int, x: int, y: int) -> None:
    """What is at `to` = x @ y."""
    n, width, parts = sizes[0], sizes[1], sizes[3]
    one, element = scratch.dtype.type(1), parts * width
    for i in range(n):
        for j in range(n):
            at, row, column = to + (i * n + j) * element, x + i * n * element, y + j * element
            if parts == 1:
                dot_lanes(scratch, scratch, scratch, places, n, 0, n, at, row, column)
            else:
                dot_complex_lanes(
                    scratch, scratch, scratch, places, n, 0, n, at, row, column, width, one, one
                )


@part
def combine(scratch: Any, sizes: Any, slots: Any, factors: Any) -> None:
    """One slot = a sum of four others with factors, and of the identity with the last."""
    n, width, parts = sizes[0], sizes[1], sizes[3]
    slot = n * n * parts * width
    to, p, q, v, w = (
        slots[1] * slot,
        slots[2] * slot,
        slots[3] * slot,
        slots[4] * slot,
        slots[5] * slot,
    )
    f, g, h, k, unit = factors[0], factors[1], factors[2], factors[3], factors[4]
    for i in range(slot):
        scratch[to + i] = (
            f * scratch[p + i] + g * scratch[q + i] + h * scratch[v + i] + k * scratch[w + i]
        )
    for i in range(n):
        at = to + i * (n + 1) * parts * width
        for lane in range(width):
            scratch[at + lane] += unit


@part
def norm_lanes(scratch: Any, sizes: Any, at: int, sums: Any, norms: Any) -> None:
    """The largest sum of |numbers| of a column, of what is there."""
    n, width, parts = sizes[0], sizes[1], sizes[3]
    norms[:] = 0
    for j in range(n):
        sums[:] = 0
        for i in range(n):
            for c in range(parts):
                number = at + ((i * n + j) * parts + c) * width
                for lane in range(width):
                    sums[lane] += abs(scratch[number + lane])
        for lane in range(width):
            norms[lane] = max(norms[lane], sums[lane])


@part
def scale(scratch: Any, sizes: Any, at: int, factor: Any) -> None:
    """What is there times a factor for each lane."""
    n, width, parts = sizes[0], sizes[1], sizes[3]
    for e in range(n * n * parts):
        number = at + e * width
        for lane in range(width):
            scratch[number + lane] *= factor[lane]


@part
def halve(
    scratch: Any, sizes: Any, theta: float, halved: Any, factor: Any, sums: Any, norms: Any
) -> None:
    """Slot 0 is halved until its norm is at most theta."""
    norm_lanes(scratch, sizes, 0, sums, norms[0])
    for lane in range(sizes[1]):
        ratio, times = norms[0, lane] / theta, 0
        if ratio > 1 and ratio < math.inf:
            times = math.ceil(math.log2(ratio))
        halved[lane] = times
        factor[lane] = 2.0**-times
    scale(scratch, sizes, 0, factor)


@part
def take_back(
    scratch: Any, sizes: Any, theta: float, halved: Any, factor: Any, sums: Any, norms: Any
) -> None:
    """Slots 0, 1 and 2 are A, A² and A³: what is more than max(|A²|^(1/2), |A³|^(1/3)) <= theta needs of the
    halvings is undone."""
    slot = sizes[0] * sizes[0] * sizes[3] * sizes[1]
    norm_lanes(scratch, sizes, slot, sums, norms[1])
    norm_lanes(scratch, sizes, 2 * slot, sums, norms[2])
    for lane in range(sizes[1]):
        ratio = theta / max(norms[1, lane] ** 0.5, norms[2, lane] ** (1 / 3))
        back = 0
        if ratio >= 2.0 ** halved[lane]:
            back = halved[lane]
        elif ratio > 1:
            back = math.floor(math.log2(ratio))
        halved[lane] -= back
        factor[lane] = 2.0**back
        sums[lane] = 1
    for power in range(3):
        for lane in range(sizes[1]):
            sums[lane] *= factor[lane]
        scale(scratch, sizes, power * slot, sums)


@part
def keep(scratch: Any, sizes: Any, to: int, of: int, squared: int, halved: Any) -> None:
    """Lanes that are squared often enough stay as they were."""
    n, width, parts = sizes[0], sizes[1], sizes[3]
    for e in range(0, n * n * parts * width, width):
        for lane in range(width):
            if squared >= halved[lane]:
                scratch[to + e + lane] = scratch[of + e + lane]


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
    places: Any,
    sizes: Any,
    theta: float,
    scratch: Any,
) -> None:
    """For strips of lanes: A is gathered to slot 0, a list of steps leaves a polynomial of it there, which
    is squared as often as A was halved, and written. A lane does not depend on its neighbours."""
    width, numbers = sizes[1], sizes[0] * sizes[0] * sizes[3]
    slot = numbers * width
    offsets, halved = np.empty(width, np.int64), np.empty(width, np.int64)
    factor, sums = np.empty(width, scratch.dtype), np.empty(width, scratch.dtype)
    norms = np.empty((3, width), scratch.dtype)
    for strip in range(start, stop):
        offsets[:] = members[strip] * numbers
        halved[:] = 0
        gather(scratch, sizes, places, addresses[0], offsets)
        for s in range(begins[lists[strip]], begins[lists[strip] + 1]):
            kind = steps[s, 0]
            if kind == PRODUCT:
                to, x, y = steps[s, 1] * slot, steps[s, 2] * slot, steps[s, 3] * slot
                multiply(scratch, sizes, places, to, x, y)
            elif kind == SUM:
                combine(scratch, sizes, steps[s], factors[s])
            elif kind == HALVE:
                halve(scratch, sizes, theta, halved, factor, sums, norms)
            elif halved.max() > 0:
                take_back(scratch, sizes, theta, halved, factor, sums, norms)
        least, most, x = halved.min(), halved.max(), 0
        for squared in range(most):
            multiply(scratch, sizes, places, slot - x, x, x)
            if squared >= least:
                keep(scratch, sizes, slot - x, x, squared, halved)
            x = slot - x
        scatter(scratch[x:], sizes, places, addresses[1], offsets)

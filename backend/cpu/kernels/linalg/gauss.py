"""Gaussian elimination with row exchanges, lane by lane: LU, solutions, inverses and determinants.

The arguments of all kernels: panels start..stop; `ports`, `outer` and `places` as in exchange.py; `sizes`,
see each; `limits`: epsilon, the smallest and the largest normal number, a power of two that makes subnormal
numbers normal, its exponent, the largest exponent of which the inverse is normal; scratch x, the same memory
as real numbers, and other scratch of real numbers; `info`, one number for each matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit import kernel, part
from .exchange import load, place, save

any_lane: Any = None
choose: Any = None
exponent_of: Any = None
fetch: Any = None
filled: Any = None
larger: Any = None
power_of: Any = None
put: Any = None
root: Any = None
size1: Any = None
square: Any = None
whole: Any = None

FEW = 8  # rows that are exchanged by choosing among whole vectors


@part
def swap_rows(flat: Any, pivots: Any, k: int, count: int, row: int, width: int) -> None:
    """Row k and row pivots[k] change places, in each lane others: `count` of the `row` vectors of each."""
    for lane in range(width):
        other = int(pivots[k * width + lane])
        if other != k:
            a, b = k * row * width + lane, other * row * width + lane
            for _ in range(count):
                kept = flat[a]
                flat[a] = flat[b]
                flat[b] = kept
                a += width
                b += width


@part
def choose_rows(x: Any, at: Any, k: int, m: int, columns: int, row: int) -> None:
    """The same by whole vectors, which for few rows takes less time: row k and row `at`."""
    for i in range(k + 1, m):
        here = at == float(i)
        for j in range(columns):
            a, b = fetch(x, k * row + j), fetch(x, i * row + j)
            put(x, k * row + j, choose(here, b, a))
            put(x, i * row + j, choose(here, a, b))


@part
def eliminate(
    x: Any, flat: Any, pivots: Any, m: int, n: int, columns: int, row: int, width: int, tiny: Any
) -> Any:
    """LU of the first n of so many columns, which are all exchanged and updated, of m rows.

    Pivots as izamax chooses them. Returns one plus the first pivot that is zero, or 0.
    """
    parts = flat.shape[0] // x.shape[0]
    failed = filled(fetch(x, 0), 0.0)
    for k in range(min(m, n)):
        best = size1(fetch(x, k * row + k))
        at = filled(best, float(k))
        for i in range(k + 1, m):
            size = size1(fetch(x, i * row + k))
            is_larger = size > best
            best = choose(is_larger, size, best)
            at = choose(is_larger, filled(best, float(i)), at)
        put(pivots, k, at)
        if any_lane(at != float(k)):
            if m <= FEW:
                choose_rows(x, at, k, m, columns, row)
            else:
                swap_rows(flat, pivots, k, columns * parts, row * parts, width)
        is_zero = best == 0.0
        failed = choose(is_zero & (failed == 0.0), filled(best, float(k + 1)), failed)
        pivot = choose(is_zero, filled(best, 1.0), fetch(x, k * row + k))
        inverse = 1.0 / pivot
        if any_lane(best < tiny):  # whose inverse may be infinite
            for i in range(k + 1, m):
                element = fetch(x, i * row + k)
                put(x, i * row + k, choose(best < tiny, element / pivot, element * inverse))
        else:
            for i in range(k + 1, m):
                put(x, i * row + k, fetch(x, i * row + k) * inverse)
        for i in range(k + 1, m):
            factor = fetch(x, i * row + k)
            for j in range(k + 1, columns):
                put(x, i * row + j, fetch(x, i * row + j) - factor * fetch(x, k * row + j))
    return failed


@part
def substitute(x: Any, n: int, columns: int, row: int, tiny: Any) -> None:
    """Columns n..columns of x become u⁻¹ times them, where u is the upper triangle of the others."""
    for k in range(n - 1, -1, -1):
        pivot = fetch(x, k * row + k)
        inverse = 1.0 / pivot
        is_tiny = size1(pivot) < tiny
        if any_lane(is_tiny):
            for j in range(n, columns):
                element = fetch(x, k * row + j)
                put(x, k * row + j, choose(is_tiny, element / pivot, element * inverse))
        else:
            for j in range(n, columns):
                put(x, k * row + j, fetch(x, k * row + j) * inverse)
        for i in range(k):
            factor = fetch(x, i * row + k)
            for j in range(n, columns):
                put(x, i * row + j, fetch(x, i * row + j) - factor * fetch(x, k * row + j))


@part
def tell(info: Any, first: int, count: int, codes: Any, real: Any) -> None:
    """What lanes say becomes numbers of their matrices, which are 0 so far."""
    if any_lane(codes != 0.0):
        put(real, 0, codes)
        for lane in range(count):
            info[first + lane] = int(real[lane])


@kernel
def solve_panels(
    start: int, stop: int, ports: Any, outer: Any, places: Any, sizes: Any, limits: Any,
    x: Any, flat: Any, real: Any, info: Any,
) -> None:  # fmt: skip
    """Rows of a, b: sizes [width, row, n, columns of b, whether b is the identity]. Arrays a, result, b."""
    width, row, n, columns = sizes[0], sizes[1], sizes[2], sizes[2] + sizes[3]
    offset = np.empty((outer.shape[0] - 1) * width, np.int64)
    for panel in range(start, stop):
        count = place(offset, panel * width, width, outer)
        load(flat, ports, 0, places, offset, width)
        if sizes[4] == 1:
            one = filled(fetch(x, 0), 1.0)
            for i in range(n):
                for j in range(n):
                    put(x, i * row + n + j, filled(one, 1.0 if i == j else 0.0))
        else:
            load(flat, ports, 2, places, offset, width)
        failed = eliminate(x, flat, real, n, n, columns, row, width, limits[1])
        substitute(x, n, columns, row, limits[1])
        save(flat, ports, 1, places, offset, width)
        tell(info, panel * width, count, failed, real)


@kernel
def lu_panels(
    start: int, stop: int, ports: Any, outer: Any, places: Any, sizes: Any, limits: Any,
    x: Any, flat: Any, real: Any, info: Any, pivots: Any,
) -> None:  # fmt: skip
    """LU: sizes [width, row, m, n]. Arrays a, result; pivots [batch, min(m, n)]."""
    width, row, m, n = sizes[0], sizes[1], sizes[2], sizes[3]
    offset = np.empty((outer.shape[0] - 1) * width, np.int64)
    for panel in range(start, stop):
        first = panel * width
        count = place(offset, first, width, outer)
        load(flat, ports, 0, places, offset, width)
        failed = eliminate(x, flat, real, m, n, n, row, width, limits[1])
        save(flat, ports, 1, places, offset, width)
        for k in range(min(m, n)):
            for lane in range(count):
                pivots[first + lane, k] = int(real[k * width + lane])
        tell(info, first, count, failed, real)


@part
def bounded(power: Any, limits: Any) -> Any:
    """Within the exponents of normal numbers of which the inverse is normal."""
    power = choose(power > limits[5], filled(power, limits[5]), power)
    return larger(power, filled(power, -limits[5]))


@part
def bounded_exponent(term: Any, limits: Any) -> Any:
    """Of |re| + |im|; 0 where that is zero or no finite number."""
    size = size1(term)
    power = bounded(exponent_of(size), limits)
    return choose((size > 0.0) & (size <= limits[2]), power, filled(power, 0.0))


@part
def give(found: Any, flat: Any, first: int, count: int, width: int, parts: int) -> None:
    """The first vector of scratch, one number for each matrix."""
    for lane in range(count):
        for p in range(parts):
            found[(first + lane) * parts + p] = flat[p * width + lane]


@kernel
def det_panels(
    start: int, stop: int, ports: Any, outer: Any, places: Any, sizes: Any, limits: Any,
    x: Any, flat: Any, real: Any, found: Any, powers: Any,
) -> None:  # fmt: skip
    """Determinants found * 2^powers, found of size 1 to 4: sizes [width, row, n, whether they are one]."""
    width, row, n = sizes[0], sizes[1], sizes[2]
    offset = np.empty((outer.shape[0] - 1) * width, np.int64)
    for panel in range(start, stop):
        first = panel * width
        count = place(offset, first, width, outer)
        load(flat, ports, 0, places, offset, width)
        eliminate(x, flat, real, n, n, n, row, width, limits[1])
        product = filled(fetch(x, 0), 1.0) * fetch(x, 0)
        one = filled(product, 1.0)
        zero = exponent = one * 0.0
        for k in range(n):
            term = fetch(x, k * row + k)
            term = choose(fetch(real, k) != float(k), zero - term, term)
            is_small = size1(term) < limits[1]  # a subnormal number has no exponent of its own
            term = term * choose(is_small, filled(one, limits[3]), one)
            exponent = exponent - choose(is_small, filled(one, limits[4]), zero)
            power = bounded_exponent(term, limits)
            term = term * power_of(zero - power)
            product = term if k == 0 else product * term
            exponent = exponent + power
            power = bounded_exponent(product, limits)
            product = product * power_of(zero - power)
            exponent = exponent + power
        if sizes[3] == 1:
            half = whole(exponent * 0.5)
            product = product * power_of(bounded(half, limits))
            product = product * power_of(bounded(exponent - half, limits))
        put(x, 0, product)
        give(found, flat, first, count, width, flat.shape[0] // x.shape[0])
        if sizes[3] == 0:
            put(real, 0, exponent)
            for lane in range(count):
                powers[first + lane] = int(real[lane])

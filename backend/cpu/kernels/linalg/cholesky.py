"""Cholesky factors and triangular solutions, lane by lane. Arguments as in gauss.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit import kernel, part
from .exchange import load, place, save
from .gauss import tell

choose: Any = None
conj: Any = None
fetch: Any = None
filled: Any = None
put: Any = None
real: Any = None
root: Any = None
square: Any = None


@part
def factorize(x: Any, n: int, row: int) -> Any:
    """The lower triangle of x becomes l, a = l lᴴ; returns one plus the first pivot that is not positive.

    Two rows of a column at once: the products of the upper one are read for both.
    """
    failed = filled(fetch(x, 0), 0.0)
    for j in range(n):
        total = real(fetch(x, j * row + j))
        for k in range(j):
            total = total - square(fetch(x, j * row + k))
        is_good = total > 0.0
        failed = choose(is_good | (failed != 0.0), failed, filled(failed, float(j + 1)))
        pivot = root(choose(is_good, total, filled(total, 1.0)))
        put(x, j * row + j, pivot)
        for i in range(j + 1, n - 1, 2):
            a, b = i * row, (i + 1) * row
            first, second = fetch(x, a + j), fetch(x, b + j)
            for k in range(j):
                shared = conj(fetch(x, j * row + k))
                first = first - fetch(x, a + k) * shared
                second = second - fetch(x, b + k) * shared
            put(x, a + j, first / pivot)
            put(x, b + j, second / pivot)
        if (n - 1 - j) % 2 == 1:
            a = (n - 1) * row
            first = fetch(x, a + j)
            for k in range(j):
                first = first - fetch(x, a + k) * conj(fetch(x, j * row + k))
            put(x, a + j, first / pivot)
    return failed


@kernel
def cholesky_panels(
    start: int, stop: int, ports: Any, outer: Any, places: Any, sizes: Any, limits: Any,
    x: Any, flat: Any, scratch: Any, info: Any,
) -> None:  # fmt: skip
    """Factors: sizes [width, row, n]. Arrays a, result: scratch has the lower triangle."""
    width, row, n = sizes[0], sizes[1], sizes[2]
    offset = np.empty((outer.shape[0] - 1) * width, np.int64)
    for panel in range(start, stop):
        count = place(offset, panel * width, width, outer)
        load(flat, ports, 0, places, offset, width)
        failed = factorize(x, n, row)
        zero = filled(fetch(x, 0), 0.0)
        for i in range(n):
            for j in range(i + 1, n):
                put(x, i * row + j, zero)
        save(flat, ports, 1, places, offset, width)
        tell(info, panel * width, count, failed, scratch)


@part
def substitute_lower(x: Any, n: int, columns: int, row: int, is_unit: int) -> None:
    """Columns n..columns of x become l⁻¹ times them, where l is the lower triangle of the others."""
    for k in range(n):
        if is_unit == 0:
            pivot = fetch(x, k * row + k)
            for j in range(n, columns):
                put(x, k * row + j, fetch(x, k * row + j) / pivot)
        for i in range(k + 1, n):
            factor = fetch(x, i * row + k)
            for j in range(n, columns):
                put(x, i * row + j, fetch(x, i * row + j) - factor * fetch(x, k * row + j))


@part
def substitute_upper(x: Any, n: int, columns: int, row: int, is_unit: int, is_adjoint: int) -> None:
    """The same with the upper triangle, or with the adjoint of the lower one."""
    for k in range(n - 1, -1, -1):
        if is_unit == 0:
            pivot = fetch(x, k * row + k)
            pivot = conj(pivot) if is_adjoint == 1 else pivot
            for j in range(n, columns):
                put(x, k * row + j, fetch(x, k * row + j) / pivot)
        for i in range(k):
            factor = conj(fetch(x, k * row + i)) if is_adjoint == 1 else fetch(x, i * row + k)
            for j in range(n, columns):
                put(x, i * row + j, fetch(x, i * row + j) - factor * fetch(x, k * row + j))


@kernel
def triangular_panels(
    start: int, stop: int, ports: Any, outer: Any, places: Any, sizes: Any, limits: Any,
    x: Any, flat: Any, scratch: Any, info: Any,
) -> None:  # fmt: skip
    """Rows of a, b: sizes [width, row, n, columns of b, whether a is lower, unit, to be conjugated, a factor
    l of which l lᴴ is meant]. Arrays a, result, b. Codes are one plus the first zero of the diagonal."""
    width, row, n, columns = sizes[0], sizes[1], sizes[2], sizes[2] + sizes[3]
    offset = np.empty((outer.shape[0] - 1) * width, np.int64)
    for panel in range(start, stop):
        count = place(offset, panel * width, width, outer)
        load(flat, ports, 0, places, offset, width)
        load(flat, ports, 2, places, offset, width)
        if sizes[6] == 1:
            for i in range(n):
                for j in range(n):
                    put(x, i * row + j, conj(fetch(x, i * row + j)))
        failed = filled(fetch(x, 0), 0.0)
        if sizes[5] == 0:
            for k in range(n - 1, -1, -1):
                failed = choose(fetch(x, k * row + k) == 0.0, filled(failed, float(k + 1)), failed)
        if sizes[4] == 1:
            substitute_lower(x, n, columns, row, sizes[5])
        if sizes[4] == 0 or sizes[7] == 1:
            substitute_upper(x, n, columns, row, sizes[5], sizes[7])
        save(flat, ports, 1, places, offset, width)
        tell(info, panel * width, count, failed, scratch)

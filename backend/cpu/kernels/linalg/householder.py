"""QR by Householder reflectors, lane by lane. Arguments as in gauss.py.

A reflector is 1 - tau v vᴴ with v[0] = 1, as LAPACK's larfg makes it; a = h_1 h_2 ... r, and r has a real
diagonal. Columns are scaled by a power of two before their squares are added up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit import kernel, part
from .exchange import load, place, save
from .gauss import bounded_exponent

choose: Any = None
conj: Any = None
copysign: Any = None
fetch: Any = None
filled: Any = None
imag: Any = None
larger: Any = None
power_of: Any = None
put: Any = None
real: Any = None
root: Any = None
size1: Any = None
square: Any = None


@part
def reflector(x: Any, first: int, step: int, count: int, limits: Any) -> Any:
    """v of elements first, first + step, ... of x, which become beta and v[1:]; returns tau.

    conj(h) applied to them gives (beta, 0, 0, ...), beta real. tau is 0 where nothing is to be done.
    """
    alpha = fetch(x, first)
    size = size1(alpha)
    for i in range(1, count):
        size = larger(size, size1(fetch(x, first + i * step)))
    zero = filled(size, 0.0)
    power = bounded_exponent(size, limits)
    scale = power_of(zero - power)
    total = zero
    for i in range(1, count):
        total = total + square(fetch(x, first + i * step) * scale)
    alpha = alpha * scale
    is_done = (total == 0.0) & (imag(alpha) == 0.0)
    norm = root(total + square(alpha))
    beta = choose(is_done, real(alpha), zero - copysign(norm, real(alpha)))
    divisor = choose(is_done, filled(alpha, 1.0), alpha - beta)
    tau = (beta - alpha) / choose(beta == 0.0, filled(beta, 1.0), beta)
    tau = choose(is_done, zero, tau)
    inverse = 1.0 / divisor
    for i in range(1, count):
        put(x, first + i * step, fetch(x, first + i * step) * scale * inverse)
    put(x, first, beta * power_of(power))
    return tau


@part
def reflect(
    x: Any, of: int, by: int, m: int, at: int, row: int, column: int, columns: int, tau: Any
) -> None:  # fmt: skip
    """y becomes (1 - tau v vᴴ) y. v has elements 1, then of + by, of + 2 by, ... of x, m in all; element
    (i, j) of y is at + i row + j column.

    Four columns at once: v is read for all.
    """
    j = 0
    while j + 4 <= columns:
        first, second = at + j * column, at + (j + 1) * column
        third, fourth = at + (j + 2) * column, at + (j + 3) * column
        a, b, c, d = fetch(x, first), fetch(x, second), fetch(x, third), fetch(x, fourth)
        for i in range(1, m):
            v = conj(fetch(x, of + i * by))
            a = a + v * fetch(x, first + i * row)
            b = b + v * fetch(x, second + i * row)
            c = c + v * fetch(x, third + i * row)
            d = d + v * fetch(x, fourth + i * row)
        a, b, c, d = a * tau, b * tau, c * tau, d * tau
        put(x, first, fetch(x, first) - a)
        put(x, second, fetch(x, second) - b)
        put(x, third, fetch(x, third) - c)
        put(x, fourth, fetch(x, fourth) - d)
        for i in range(1, m):
            v = fetch(x, of + i * by)
            put(x, first + i * row, fetch(x, first + i * row) - v * a)
            put(x, second + i * row, fetch(x, second + i * row) - v * b)
            put(x, third + i * row, fetch(x, third + i * row) - v * c)
            put(x, fourth + i * row, fetch(x, fourth + i * row) - v * d)
        j += 4
    while j < columns:
        first = at + j * column
        a = fetch(x, first)
        for i in range(1, m):
            a = a + conj(fetch(x, of + i * by)) * fetch(x, first + i * row)
        a = a * tau
        put(x, first, fetch(x, first) - a)
        for i in range(1, m):
            put(x, first + i * row, fetch(x, first + i * row) - fetch(x, of + i * by) * a)
        j += 1


@part
def triangularize(
    x: Any, at: int, row: int, column: int, m: int, n: int, taus: int, limits: Any
) -> None:
    """The matrix [m, n] becomes r and the reflectors below it, whose tau are taus, taus + 1, ..."""
    for k in range(min(m, n)):
        diagonal = at + k * row + k * column
        tau = reflector(x, diagonal, row, m - k, limits)
        put(x, taus + k, tau)
        reflect(x, diagonal, row, m - k, diagonal + column, row, column, n - k - 1, conj(tau))


@part
def unroll(
    x: Any, at: int, row: int, column: int, m: int, count: int, taus: int,
    to: int, row_q: int, column_q: int, columns: int,
) -> None:  # fmt: skip
    """The first columns of the product of so many reflectors, as a matrix q [m, columns] elsewhere in x."""
    zero, one = filled(fetch(x, 0), 0.0), filled(fetch(x, 0), 1.0)
    for i in range(m):
        for j in range(columns):
            put(x, to + i * row_q + j * column_q, one if i == j else zero)
    for k in range(count - 1, -1, -1):
        reflect(
            x, at + k * row + k * column, row, m - k,
            to + k * row_q + k * column_q, row_q, column_q, columns - k, fetch(x, taus + k),
        )  # fmt: skip


@kernel
def qr_panels(
    start: int, stop: int, ports: Any, outer: Any, places: Any, sizes: Any, limits: Any,
    x: Any, flat: Any, scratch: Any,
) -> None:  # fmt: skip
    """q and r: sizes [width, row, m, n, row of q, columns of q, whether the reflectors stay]. Arrays a,
    r, and what follows [m, row] in scratch: tau, then q."""
    width, row, m, n, row_q, columns = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]
    offset = np.empty((outer.shape[0] - 1) * width, np.int64)
    count = min(m, n)
    for panel in range(start, stop):
        place(offset, panel * width, width, outer)
        load(flat, ports, 0, places, offset, width)
        triangularize(x, 0, row, 1, m, n, m * row, limits)
        if columns > 0:
            unroll(x, 0, row, 1, m, count, m * row, m * row + count, row_q, 1, columns)
        if sizes[6] == 0:
            zero = filled(fetch(x, 0), 0.0)
            for i in range(1, m):
                for j in range(min(i, n)):
                    put(x, i * row + j, zero)
        for v in range(1, ports.shape[0]):
            save(flat, ports, v, places, offset, width)

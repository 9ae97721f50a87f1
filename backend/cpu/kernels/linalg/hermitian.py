"""Eigenvalues of Hermitian matrices, lane by lane: Householder's tridiagonal form, then implicit QL.

All lanes take their steps together; a lane that has converged, or whose block ends earlier, turns by nothing.
Matrices are scaled by a power of two to elements of about 1. Arguments as in gauss.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit import kernel, part
from .exchange import load, place, save
from .gauss import bounded_exponent, tell
from .householder import reflect, reflector

any_lane: Any = None
choose: Any = None
conj: Any = None
copysign: Any = None
fetch: Any = None
filled: Any = None
larger: Any = None
power_of: Any = None
put: Any = None
real: Any = None
root: Any = None
size1: Any = None

MOST = 60  # steps for one eigenvalue


@part
def scale_lower(x: Any, n: int, row: int, conjugated: int, limits: Any) -> Any:
    """Scale the lower triangle; returns the power of two that it was divided by, and where all is finite."""
    size = size1(fetch(x, 0))
    total = size
    for i in range(n):
        for j in range(i + 1):
            here = size1(fetch(x, i * row + j))
            size = larger(size, here)
            total = total + here * 0.0
    power = bounded_exponent(size, limits)
    scale = power_of(filled(power, 0.0) - power)
    for i in range(n):
        for j in range(i + 1):
            value = fetch(x, i * row + j) * scale
            put(x, i * row + j, conj(value) if conjugated == 1 else value)
    return power, (total == total) & (size <= limits[2])


@part
def tridiagonalize(x: Any, scratch: Any, n: int, row: int, taus: int, limits: Any) -> None:
    """x becomes reflectors below its subdiagonal; the diagonals go to scratch: n vectors, then n more.

    Only the lower triangle is read. Vectors taus.. of x get the n - 1 tau, and n more are used.
    """
    w = taus + n
    for k in range(n - 1):
        put(scratch, k, real(fetch(x, k * row + k)))
        first = (k + 1) * row + k
        tau = reflector(x, first, row, n - k - 1, limits)
        put(x, taus + k, tau)
        beta = real(fetch(x, first))
        put(scratch, n + k, beta)
        put(x, first, filled(beta, 1.0))
        for i in range(k + 1, n):  # w = a v
            v = fetch(x, i * row + k)
            total = real(fetch(x, i * row + i)) * v
            for j in range(k + 1, i):
                element = fetch(x, i * row + j)
                total = total + element * fetch(x, j * row + k)
                put(x, w + j, fetch(x, w + j) + conj(element) * v)
            put(x, w + i, total)
        dot = filled(beta, 0.0) * tau
        for i in range(k + 1, n):
            value = fetch(x, w + i) * tau
            put(x, w + i, value)
            dot = dot + conj(value) * fetch(x, i * row + k)
        dot = dot * tau * 0.5
        for i in range(k + 1, n):
            put(x, w + i, fetch(x, w + i) - dot * fetch(x, i * row + k))
        for i in range(k + 1, n):
            v, u = fetch(x, i * row + k), fetch(x, w + i)
            for j in range(k + 1, i + 1):
                taken = v * conj(fetch(x, w + j)) + u * conj(fetch(x, j * row + k))
                put(x, i * row + j, fetch(x, i * row + j) - taken)
    put(scratch, n - 1, real(fetch(x, (n - 1) * (row + 1))))
    put(scratch, 2 * n - 1, filled(fetch(scratch, 0), 0.0))


@part
def unroll_lower(x: Any, n: int, row: int, taus: int, q: int) -> None:
    """The product of the reflectors of `tridiagonalize` as a matrix [column, row], n vectors a column."""
    zero, one = filled(fetch(x, 0), 0.0), filled(fetch(x, 0), 1.0)
    for i in range(n):
        for j in range(n):
            put(x, q + i * row + j, one if i == j else zero)
    for k in range(n - 2, -1, -1):
        reflect(
            x, (k + 1) * row + k, row, n - k - 1,
            q + (k + 1) * (row + 1), 1, row, n - k - 1, fetch(x, taus + k),
        )  # fmt: skip


@part
def turn_columns(
    x: Any, at: int, n: int, step: int, scratch: Any, turns: int, low: int, high: int
) -> None:
    """Rotations high - 1, ..., low of neighbours in the columns of q, [column, row] in x from `at`.

    Two rows at once; the element that the next rotation takes stays in a register.
    """
    row = 0
    while row + 2 <= n:
        a, b = fetch(x, at + high * step + row), fetch(x, at + high * step + row + 1)
        for i in range(high - 1, low - 1, -1):
            c, s = fetch(scratch, turns + 2 * i), fetch(scratch, turns + 2 * i + 1)
            here = at + i * step + row
            y, z = fetch(x, here), fetch(x, here + 1)
            put(x, here + step, y * s + a * c)
            put(x, here + step + 1, z * s + b * c)
            a, b = y * c - a * s, z * c - b * s
        put(x, at + low * step + row, a)
        put(x, at + low * step + row + 1, b)
        row += 2
    if row < n:
        a = fetch(x, at + high * step + row)
        for i in range(high - 1, low - 1, -1):
            c, s = fetch(scratch, turns + 2 * i), fetch(scratch, turns + 2 * i + 1)
            here = at + i * step + row
            y = fetch(x, here)
            put(x, here + step, y * s + a * c)
            a = y * c - a * s
        put(x, at + low * step + row, a)


@part
def find_block(scratch: Any, n: int, low: int, limits: Any) -> Any:
    """Where the block that begins at `low` ends, its last diagonal element, and the last row of any."""
    end, last = filled(fetch(scratch, 0), float(n - 1)), fetch(scratch, n - 1)
    zero = filled(end, 0.0)
    # what `sweep` takes for nothing; the largest element of the matrix is about 1
    floor = root(filled(end, 16.0 * limits[1] / limits[0]))
    for i in range(n - 2, low - 1, -1):
        e, d = fetch(scratch, n + i), fetch(scratch, i)
        bound = limits[0] * (size1(d) + size1(fetch(scratch, i + 1)))
        is_small = size1(e) <= larger(bound, floor)
        put(scratch, n + i, choose(is_small, zero, e))
        end = choose(is_small, filled(end, float(i)), end)
        last = choose(is_small, d, last)
    return end, last


@part
def sweep(
    scratch: Any, n: int, low: int, high: int, end: Any, last: Any, active: Any, limits: Any
) -> None:
    """One QL step of every active lane on rows low..end; the rotations go to scratch from 2 n on."""
    zero = filled(end, 0.0)
    one = filled(end, 1.0)
    e = fetch(scratch, n + low)
    d = fetch(scratch, low)
    g = (fetch(scratch, low + 1) - d) / (2.0 * choose(e == 0.0, one, e))
    r = root(g * g + 1.0)
    r = choose(size1(g) * limits[0] > 1.0, size1(g), r)
    g = last - d + e / (g + copysign(r, g))
    s, c, p = one, one, zero
    floor = filled(one, limits[1]) / limits[0]
    for i in range(high - 1, low - 1, -1):
        on = active & (end > float(i))
        e = fetch(scratch, n + i)
        f, b = s * e, c * e
        r = f * f + g * g
        is_tiny = r < floor
        r = root(choose(is_tiny, one, r))
        inverse = 1.0 / r
        new_c, new_s = choose(is_tiny, one, g * inverse), choose(is_tiny, zero, f * inverse)
        r = choose(is_tiny, g, r)
        old = fetch(scratch, n + i + 1)
        put(scratch, n + i + 1, choose(on & (end > float(i + 1)), r, old))
        put(scratch, 2 * n + 2 * i, choose(on, new_c, one))
        put(scratch, 2 * n + 2 * i + 1, choose(on, new_s, zero))
        above = fetch(scratch, i + 1)
        new_g = above - p
        r = (fetch(scratch, i) - new_g) * new_s + 2.0 * new_c * b
        new_p = new_s * r
        put(scratch, i + 1, choose(on, new_g + new_p, above))
        g = choose(on, new_c * r - b, g)
        p = choose(on, new_p, p)
        c, s = choose(on, new_c, c), choose(on, new_s, s)
    put(scratch, low, choose(active, fetch(scratch, low) - p, fetch(scratch, low)))
    put(scratch, n + low, choose(active, g, fetch(scratch, n + low)))


@part
def sort_lanes(
    scratch: Any, x: Any, flat: Any, at: int, n: int, row: int, length: int, width: int, sign: Any
) -> None:
    """Vectors 0..n of scratch times `sign` in ascending order; rows of x from `at` follow."""
    vectors = flat.shape[0] // x.shape[0] * width
    step, begin, length = row * vectors, at * vectors, length * vectors
    for i in range(n - 1):
        best = fetch(scratch, i) * sign
        where = filled(best, float(i))
        for j in range(i + 1, n):
            value = fetch(scratch, j) * sign
            is_less = value < best
            best = choose(is_less, value, best)
            where = choose(is_less, filled(best, float(j)), where)
        if any_lane(where != float(i)):
            put(scratch, n, where)
            for lane in range(width):
                other = int(scratch[n * width + lane])
                if other != i:
                    kept = scratch[i * width + lane]
                    scratch[i * width + lane] = scratch[other * width + lane]
                    scratch[other * width + lane] = kept
                    for k in range(lane, length, width):
                        kept = flat[begin + i * step + k]
                        flat[begin + i * step + k] = flat[begin + other * step + k]
                        flat[begin + other * step + k] = kept


@part
def diagonalize(
    x: Any, scratch: Any, q: int, n: int, row: int, vectors: int, good: Any, limits: Any
) -> Any:
    """Eigenvalues of the tridiagonal matrix replace its diagonal; returns what LAPACK would, 0 or more."""
    failed = choose(good, filled(fetch(scratch, 0), 0.0), filled(fetch(scratch, 0), 1.0))
    for low in range(n - 1):
        for step in range(MOST + 1):
            end, last = find_block(scratch, n, low, limits)
            active = good & (end > float(low))
            if not any_lane(active):
                break
            if step == MOST:
                failed = choose(active, filled(failed, float(low + 1)), failed)
                good = good & ~active
                break
            high = n - 1
            while not any_lane(active & (end >= float(high))):
                high -= 1
            sweep(scratch, n, low, high, end, last, active, limits)
            if vectors == 1:
                turn_columns(x, q, n, row, scratch, 2 * n, low, high)
    return failed


@kernel
def eigh_panels(
    start: int, stop: int, ports: Any, outer: Any, places: Any, sizes: Any, limits: Any,
    x: Any, flat: Any, scratch: Any, info: Any,
) -> None:  # fmt: skip
    """Sizes [width, row, n, whether vectors are wanted, whether the conjugate is given]. Arrays a,
    eigenvalues, vectors: scratch has a [n, row], then 2 n for reflectors, then vectors [column, row]."""
    width, row, n, vectors = sizes[0], sizes[1], sizes[2], sizes[3]
    offset = np.empty((outer.shape[0] - 1) * width, np.int64)
    taus, q = n * row, n * row + 2 * n
    for panel in range(start, stop):
        count = place(offset, panel * width, width, outer)
        load(flat, ports, 0, places, offset, width)
        power, good = scale_lower(x, n, row, sizes[4], limits)
        tridiagonalize(x, scratch, n, row, taus, limits)
        if vectors == 1:
            unroll_lower(x, n, row, taus, q)
        failed = diagonalize(x, scratch, q, n, row, vectors, good, limits)
        sort_lanes(scratch, x, flat, q, n, row, n * vectors, width, 1.0)
        scale = power_of(power)
        for k in range(n):
            put(scratch, k, fetch(scratch, k) * scale)
        save(scratch, ports, 1, places, offset, width)
        if vectors == 1:
            save(flat, ports, 2, places, offset, width)
        tell(info, panel * width, count, failed, scratch)

"""Singular values by one-sided Jacobi rotations, lane by lane (Hestenes 1958; Demmel and Veselić 1992).

The eigenvectors of aᴴ a come first: they are orthogonal however badly they are determined, and leave little
to do for the rotations, which make up for what was lost in the squares.

Columns of a are rotated in pairs until all are orthogonal: a v = u s. A lane whose pair is orthogonal turns
by nothing. Matrices are scaled by a power of two to elements of about 1. Arguments as in gauss.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit import kernel, part
from .exchange import load, place, save
from .gauss import bounded_exponent, tell
from .hermitian import diagonalize, sort_lanes, tridiagonalize, unroll_lower
from .householder import triangularize, unroll

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
square: Any = None

MOST = 40  # sweeps
FEWEST = 5  # columns from which eigenvectors come first


@part
def norm_of(x: Any, at: int, m: int) -> Any:
    """The sum of the squares of m vectors."""
    total = square(fetch(x, at))
    for i in range(1, m):
        total = total + square(fetch(x, at + i))
    return total


@part
def dot_of(x: Any, a: int, b: int, m: int) -> Any:
    """Of two columns, the first conjugated; two sums, since each waits for itself."""
    total = conj(fetch(x, a)) * fetch(x, b)
    other = filled(total, 0.0) * total
    for i in range(1, m - 1, 2):
        total = total + conj(fetch(x, a + i)) * fetch(x, b + i)
        other = other + conj(fetch(x, a + i + 1)) * fetch(x, b + i + 1)
    if m % 2 == 0:
        total = total + conj(fetch(x, a + m - 1)) * fetch(x, b + m - 1)
    return total + other


@part
def turn(x: Any, a: int, b: int, m: int, c: Any, s: Any) -> None:
    """Columns a, b become a c - b conj(s), a s + b c."""
    for i in range(m):
        v, w = fetch(x, a + i), fetch(x, b + i)
        put(x, a + i, v * c - w * conj(s))
        put(x, b + i, v * s + w * c)


@part
def orthogonalize(
    x: Any, scratch: Any, m: int, n: int, row: int, v: int, row_v: int, good: Any, limits: Any
) -> Any:
    """Columns of x [column, row] become orthogonal; their squares go to scratch, the rotations to v [column,
    row] unless that is 0. Returns 1 where it takes too long."""
    zero = filled(fetch(scratch, 0), 0.0)
    one = filled(zero, 1.0)
    close = limits[0] * limits[0] * m
    floor = limits[7]
    active = good
    for _ in range(MOST):
        again = zero > one
        for j in range(n):
            put(scratch, j, norm_of(x, j * row, m))
        for p in range(n - 1):
            for q in range(p + 1, n):
                alpha, beta = fetch(scratch, p), fetch(scratch, q)
                gamma = dot_of(x, p * row, q * row, m)
                size = square(gamma)
                on = active & (size > alpha * close * beta) & (alpha > floor) & (beta > floor)
                if not any_lane(on):
                    continue
                again = again | on
                length = root(choose(on, size, one))
                zeta = (beta - alpha) / (2.0 * length)
                far = size1(zeta)
                far = far + choose(far * limits[0] > 1.0, far, root(1.0 + zeta * zeta))
                t = copysign(one / far, zeta)
                c = one / root(1.0 + t * t)
                t = choose(on, t, zero)
                c = choose(on, c, one)
                s = gamma * (t * c / length)
                turn(x, p * row, q * row, m, c, s)
                if v > 0:
                    turn(x, v + p * row_v, v + q * row_v, n, c, s)
                put(scratch, p, larger(alpha - t * length, zero))
                put(scratch, q, beta + t * length)
        if not any_lane(again):
            return choose(good, zero, one)
        active = again
    return choose(good & ~again, zero, one)


@part
def turn_by_eigenvectors(
    x: Any, scratch: Any, m: int, n: int, row: int, v: int, row_v: int, spare: int, good: Any,
    limits: Any, width: int,
) -> None:  # fmt: skip
    """Columns of x become a times the eigenvectors of aᴴ a, which go to v unless that is 0.

    Vectors from `spare` on have room for two matrices like v, and 3 n more.
    """
    lowered = power_of(filled(fetch(scratch, 0), -limits[6]))
    for i in range(n):
        for j in range(i + 1):
            product = dot_of(x, i * row, j * row, m) * lowered * lowered
            put(x, spare + i * row_v + j, product)
    y = x[spare * width :]
    taus, q = n * row_v, n * row_v + 2 * n
    tridiagonalize(y, scratch, n, row_v, taus, limits)
    unroll_lower(y, n, row_v, taus, q)
    diagonalize(y, scratch, q, n, row_v, 1, good, limits)
    for i in range(m):
        for j in range(n):
            put(y, j, fetch(x, j * row + i))
        for k in range(0, n - 1, 2):
            a, b = q + k * row_v, q + (k + 1) * row_v
            total, other = fetch(y, 0) * fetch(y, a), fetch(y, 0) * fetch(y, b)
            for j in range(1, n):
                total = total + fetch(y, j) * fetch(y, a + j)
                other = other + fetch(y, j) * fetch(y, b + j)
            put(x, k * row + i, total)
            put(x, (k + 1) * row + i, other)
        if n % 2 == 1:
            a = q + (n - 1) * row_v
            total = fetch(y, 0) * fetch(y, a)
            for j in range(1, n):
                total = total + fetch(y, j) * fetch(y, a + j)
            put(x, (n - 1) * row + i, total)
    if v > 0:
        for k in range(n * row_v):
            put(x, v + k, fetch(y, q + k))


@part
def scale_all(x: Any, n: int, m: int, row: int, limits: Any) -> Any:
    """Scale n columns of m; returns the power of two that they were divided by, and where all is finite.

    Then they are multiplied by 2^limits[6]: squares of small columns are not to underflow before products of
    squares of large ones overflow.
    """
    size = size1(fetch(x, 0))
    total = size
    for j in range(n):
        for i in range(m):
            here = size1(fetch(x, j * row + i))
            size = larger(size, here)
            total = total + here * 0.0
    power = bounded_exponent(size, limits)
    scale = power_of(filled(power, 0.0) - power)
    lift = power_of(filled(power, limits[6]))
    for j in range(n):
        for i in range(m):
            put(x, j * row + i, fetch(x, j * row + i) * scale * lift)
    return power, (total == total) & (size <= limits[2])


@part
def complete(
    x: Any, scratch: Any, m: int, n: int, row: int, spare: int, floor: Any, limits: Any
) -> None:
    """Columns of u whose singular value is 0 become orthogonal to the others: those of a QR factorisation.

    Vectors from `spare` on have room for two such matrices and n more.
    """
    taus, q = spare + n * row, spare + n * row + n
    for k in range(n * row):
        put(x, spare + k, fetch(x, k))
    triangularize(x, spare, 1, row, m, n, taus, limits)
    unroll(x, spare, 1, row, m, n, taus, q, 1, row, n)
    for j in range(n):
        is_null = fetch(scratch, j) <= floor
        for i in range(m):
            put(x, j * row + i, choose(is_null, fetch(x, q + j * row + i), fetch(x, j * row + i)))


@kernel
def svd_panels(
    start: int, stop: int, ports: Any, outer: Any, places: Any, sizes: Any, limits: Any,
    x: Any, flat: Any, scratch: Any, info: Any,
) -> None:  # fmt: skip
    """Sizes [width, row, m, n, whether vectors are wanted, row of v], m >= n. Arrays a, singular values, u,
    v: scratch has u [column, row], then conj(v) [column, row], then room for two more u and 3 n vectors."""
    width, row, m, n, vectors, row_v = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]
    offset = np.empty((outer.shape[0] - 1) * width, np.int64)
    v = n * row
    for panel in range(start, stop):
        count = place(offset, panel * width, width, outer)
        load(flat, ports, 0, places, offset, width)
        power, good = scale_all(x, n, m, row, limits)
        zero, one = filled(power, 0.0), filled(power, 1.0)
        if vectors == 1:
            for i in range(n):
                for j in range(n):
                    put(x, v + i * row_v + j, one if i == j else zero)
        if n >= FEWEST:
            turn_by_eigenvectors(
                x, scratch, m, n, row, v * vectors, row_v, v + n * row_v, good, limits, width
            )
        failed = orthogonalize(x, scratch, m, n, row, v * vectors, row_v, good, limits)
        for j in range(n):
            length = root(norm_of(x, j * row, m))
            if vectors == 1:  # rounding errors of the rotations make v a little longer or shorter
                inverse = 1.0 / root(norm_of(x, v + j * row_v, n))
                length = length * inverse
                for i in range(n):
                    put(x, v + j * row_v + i, fetch(x, v + j * row_v + i) * inverse)
            put(scratch, j, length)
        sort_both(scratch, x, flat, n, row, m, v, row_v, vectors, width)
        if vectors == 1:
            floor = root(filled(one, limits[7]))
            is_short = zero > one
            for j in range(n):
                length = root(norm_of(x, j * row, m))
                is_null = length <= floor
                is_short = is_short | is_null
                inverse = one / choose(is_null, one, length)
                inverse = choose(is_null, zero, inverse)
                for i in range(m):
                    put(x, j * row + i, fetch(x, j * row + i) * inverse)
                for i in range(n):
                    put(x, v + j * row_v + i, conj(fetch(x, v + j * row_v + i)))
            if any_lane(is_short):
                complete(x, scratch, m, n, row, v + n * row_v, floor, limits)
        scale, lowered = power_of(power), power_of(filled(power, -limits[6]))
        for k in range(n):
            put(scratch, k, fetch(scratch, k) * lowered * scale)
        save(scratch, ports, 1, places, offset, width)
        for k in range(2, ports.shape[0]):
            save(flat, ports, k, places, offset, width)
        tell(info, panel * width, count, failed, scratch)


@part
def sort_both(
    scratch: Any,
    x: Any,
    flat: Any,
    n: int,
    row: int,
    m: int,
    v: int,
    row_v: int,
    vectors: int,
    width: int,
) -> None:
    """Singular values in descending order, and the columns of u and v with them."""
    for j in range(
        n
    ):  # as sort_lanes moves one matrix, its decisions are made twice from the same numbers
        put(scratch, n + 1 + j, fetch(scratch, j))
    sort_lanes(scratch, x, flat, 0, n, row, m * vectors, width, -1.0)
    if vectors == 1:
        for j in range(n):
            put(scratch, j, fetch(scratch, n + 1 + j))
        sort_lanes(scratch, x, flat, v, n, row_v, n, width, -1.0)

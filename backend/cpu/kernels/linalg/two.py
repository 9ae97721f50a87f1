"""Eigenvalues and eigenvectors of general matrices of order 2, lane by lane, in closed form.

With p = (a - d) / 2 and r² = p² + b c the eigenvalues are (a + d) / 2 ± r. Of the two signs that which
makes q = p ± r larger loses no digits, and t = b c / q is the other difference: a + t and d - t are the
eigenvalues, (q, c) and (b, t) are along the vector of the first, (b, -q) and (-t, c) along that of the
second. The longer one of each is taken, whose residual is small. r² is that of a matrix whose p, b and c
differ by rounding, so that this is as stable as LAPACK's lanv2, however close the eigenvalues are.

Matrices are scaled by a power of two to elements of about 1. Arguments as in gauss.py; arrays a, eigenvalues,
vectors, of which the last two are complex. Scratch has room for ten complex vectors: a, two for the values,
four for the vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit import kernel, part
from .exchange import load, place, save
from .gauss import bounded_exponent, tell

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

VALUES, VECTORS = 4, 6  # in complex vectors of scratch


@part
def scale_four(x: Any, limits: Any) -> Any:
    """Scale the matrix; returns the power of two that it was divided by, and where all is finite."""
    size = size1(fetch(x, 0))
    total = size * 0.0
    for k in range(1, 4):
        here = size1(fetch(x, k))
        size = larger(size, here)
        total = total + here * 0.0
    power = bounded_exponent(size, limits)
    scale = power_of(filled(power, 0.0) - power)
    for k in range(4):
        put(x, k, fetch(x, k) * scale)
    return power, (total == total) & (size <= limits[2])


@part
def give_parts(flat: Any, k: int, re: Any, im: Any) -> None:
    """Complex vector k of scratch."""
    put(flat, 2 * k, re)
    put(flat, 2 * k + 1, im)


@part
def give_direction(flat: Any, column: int, v: Any, w: Any, is_first: bool) -> None:
    """A column of vectors is (v, w), real and of any length; if that is 0, a unit vector."""
    size = larger(size1(v), size1(w))
    zero, one = filled(v, 0.0), filled(v, 1.0)
    is_zero = size == 0.0
    size = choose(is_zero, one, size)
    v, w = v / size, w / size  # whose squares are in range
    v = choose(is_zero, one if is_first else zero, v)
    w = choose(is_zero, zero if is_first else one, w)
    length = root(v * v + w * w)
    give_parts(flat, VECTORS + column, v / length, zero)
    give_parts(flat, VECTORS + 2 + column, w / length, zero)


@part
def give_pair(flat: Any, pair: Any, b: Any, c: Any, p: Any, r: Any) -> None:
    """Where there is a conjugate pair: (b, i r - p) or (i r + p, c), the larger of b and c being real."""
    above = size1(b) >= size1(c)
    one, sign = filled(b, 1.0), filled(b, -1.0)
    element = choose(pair, choose(above, b, c), one)
    re, im = choose(above, sign, one) * p / element, r / element
    length = root(one + re * re + im * im)
    re, im, rest, zero = re / length, im / length, one / length, filled(b, 0.0)
    v, w = choose(above, rest, re), choose(above, re, rest)
    imag_v, imag_w = choose(above, zero, im), choose(above, im, zero)
    for column in range(2):
        turned = 1.0 if column == 0 else -1.0
        for row in range(2):
            at = VECTORS + 2 * row + column
            mine, other = (v, imag_v) if row == 0 else (w, imag_w)
            give_parts(
                flat, at, choose(pair, mine, fetch(flat, 2 * at)),
                choose(pair, other * turned, fetch(flat, 2 * at + 1)),
            )  # fmt: skip


@kernel
def eig_two_panels(
    start: int, stop: int, ports: Any, outer: Any, places: Any, sizes: Any, limits: Any,
    x: Any, flat: Any, scratch: Any, info: Any,
) -> None:  # fmt: skip
    """Of real matrices: sizes [width, whether vectors are wanted]."""
    width, vectors = sizes[0], sizes[1]
    offset = np.empty((outer.shape[0] - 1) * width, np.int64)
    for panel in range(start, stop):
        count = place(offset, panel * width, width, outer)
        load(flat, ports, 0, places, offset, width)
        power, good = scale_four(x, limits)
        a, b, c, d = fetch(x, 0), fetch(x, 1), fetch(x, 2), fetch(x, 3)
        zero, one = filled(a, 0.0), filled(a, 1.0)
        p, product = 0.5 * (a - d), b * c
        squared = p * p + product
        pair, r = squared < 0.0, root(size1(squared))
        q = p + copysign(r, p)
        t = choose(q == 0.0, zero, product / choose(q == 0.0, one, q))
        scale, middle = power_of(power), d + p
        im = choose(pair, r * scale, zero)
        give_parts(flat, VALUES, choose(pair, middle, a + t) * scale, im)
        give_parts(flat, VALUES + 1, choose(pair, middle, d - t) * scale, zero - im)
        save(flat, ports, 1, places, offset, width)
        if vectors == 1:
            over_b, over_c = size1(b) > size1(q), size1(c) > size1(q)
            give_direction(flat, 0, choose(over_b, b, q), choose(over_b, t, c), True)
            give_direction(flat, 1, choose(over_c, zero - t, b), choose(over_c, c, zero - q), False)
            give_pair(flat, pair, b, c, p, r)
            save(flat, ports, 2, places, offset, width)
        tell(info, panel * width, count, choose(good, zero, one), scratch)


@part
def give_ray(x: Any, column: int, v: Any, w: Any, is_first: bool) -> None:
    """A column of vectors is (v, w) made of length 1, its larger element real."""
    size = larger(size1(v), size1(w))
    zero, one = filled(v, 0.0), filled(v, 1.0)
    is_zero = size == 0.0
    size = choose(is_zero, one, size)
    v, w = v / size, w / size
    v = choose(is_zero, one if is_first else zero, v)
    w = choose(is_zero, zero if is_first else one, w)
    most = choose(square(v) >= square(w), v, w)
    turn = conj(most) / root(square(most) * (square(v) + square(w)))
    put(x, VECTORS + column, v * turn)
    put(x, VECTORS + 2 + column, w * turn)


@kernel
def eig_two_complex_panels(
    start: int, stop: int, ports: Any, outer: Any, places: Any, sizes: Any, limits: Any,
    x: Any, flat: Any, scratch: Any, info: Any,
) -> None:  # fmt: skip
    """Of complex matrices: sizes [width, whether vectors are wanted]."""
    width, vectors = sizes[0], sizes[1]
    offset = np.empty((outer.shape[0] - 1) * width, np.int64)
    for panel in range(start, stop):
        count = place(offset, panel * width, width, outer)
        load(flat, ports, 0, places, offset, width)
        power, good = scale_four(x, limits)
        a, b, c, d = fetch(x, 0), fetch(x, 1), fetch(x, 2), fetch(x, 3)
        zero, one = filled(a, 0.0), filled(a, 1.0)
        p, product = 0.5 * (a - d), b * c
        squared = p * p + product
        re, im = real(squared), imag(squared)
        s = root(0.5 * (root(square(squared)) + size1(re)))
        other = 0.5 * im / choose(s == 0.0, one, s)
        give_parts(
            flat, VALUES, choose(re >= 0.0, s, size1(other)), choose(re >= 0.0, other, copysign(s, im))
        )  # fmt: skip
        r = fetch(x, VALUES)
        sign = choose(real(conj(p) * r) < 0.0, filled(a, -1.0), one)
        q = p + sign * r
        is_zero = size1(q) == 0.0
        t = choose(is_zero, zero, product / choose(is_zero, one, q))
        scale = power_of(power)
        put(x, VALUES, (a + t) * scale)
        put(x, VALUES + 1, (d - t) * scale)
        save(flat, ports, 1, places, offset, width)
        if vectors == 1:
            over_b, over_c = size1(b) > size1(q), size1(c) > size1(q)
            give_ray(x, 0, choose(over_b, b, q), choose(over_b, t, c), True)
            give_ray(x, 1, choose(over_c, zero - t, b), choose(over_c, c, zero - q), False)
            save(flat, ports, 2, places, offset, width)
        tell(info, panel * width, count, choose(good, zero, one), scratch)

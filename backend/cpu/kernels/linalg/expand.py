"""Determinants of order 2 and 3 by their products, matrix by matrix where they lie.

They take so few operations that the time is that of reading the matrices: no lanes are filled first. Products
are as exact as elimination while they are in range; `left[0]` becomes 1 where one is not. `range_` has the
smallest and the largest number that is, and the smallest product of two elements: one below has lost digits,
which a third factor may bring to light.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit import kernel, part


@part
def size(x: Any) -> Any:
    return abs(x.real) + abs(x.imag)


@part
def is_coarse(x: Any, least: Any) -> bool:
    return 0.0 < size(x) < least


@kernel
def expand_two(start: int, stop: int, x: Any, found: Any, range_: Any, left: Any) -> None:
    """found[k] = det x[k] of order 2."""
    out = 0
    for k in range(start, stop):
        det = x[k, 0, 0] * x[k, 1, 1] - x[k, 0, 1] * x[k, 1, 0]
        found[k] = det
        out += not range_[0] <= size(det) <= range_[1]
    if out:
        left[0] = 1


@kernel
def expand_three(start: int, stop: int, x: Any, found: Any, range_: Any, left: Any) -> None:
    """found[k] = det x[k] of order 3, NaN where a product of two elements is too small."""
    least, out = range_[2], 0
    for k in range(start, stop):
        a, b, c = x[k, 0, 0], x[k, 0, 1], x[k, 0, 2]
        d, e, f = x[k, 1, 0], x[k, 1, 1], x[k, 1, 2]
        g, h, i = x[k, 2, 0], x[k, 2, 1], x[k, 2, 2]
        ei, fh, di, fg, dh, eg = e * i, f * h, d * i, f * g, d * h, e * g
        det = a * (ei - fh) - b * (di - fg) + c * (dh - eg)
        coarse = is_coarse(ei, least) | is_coarse(fh, least) | is_coarse(di, least)
        coarse |= is_coarse(fg, least) | is_coarse(dh, least) | is_coarse(eg, least)
        if coarse:
            det = det * np.nan
        found[k] = det
        out += not range_[0] <= size(det) <= range_[1]
    if out:
        left[0] = 1

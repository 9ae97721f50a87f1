"""Fourier transforms of real lines, and back to them, as complex lines of half the length.

Elements 2 j and 2 j + 1 of a real line of n = 2 h are the parts of element j of a complex line z. Of its
transform Z, and of Z[h] = Z[0], the spectrum of the real line is for k = 0 to h

    X[k] = E[k] + w^k O[k],  E[k] = (Z[k] + conj Z[h - k]) / 2,  O[k] = (Z[k] - conj Z[h - k]) / 2 i,

w = exp(-2 pi i / n), and the way back is by Z[k] = E[k] + i O[k]. No line has anything to do with another
(W. Press and others, Numerical Recipes, 1992, 12.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel
from .lines import AHEAD, ROWS, end, gather_rows, place_tile, scatter_rows, turn

# put here before a kernel is compiled; see butterflies.py and turns.py
gather_line: Any = None
gather_pairs: Any = None
peek: Any = None
poke: Any = None
scatter_line: Any = None
scatter_pairs: Any = None
tangle: Any = None
untangle: Any = None


@kernel
def transform_half_lines(
    start: int,
    stop: int,
    places: Any,  # [2]: addresses of operand and result
    outer: Any,  # [3, axes]: sizes of the other axes, their strides in both
    sizes: Any,  # [11]: those of `transform_lines`, of which n is h, and inverse means back to real lines
    radices: Any,  # of the passes
    twiddles: Any,  # for them
    turns: Any,  # w^k for k = 0 to h / 2
    scales: Any,  # [2]: what real and imaginary parts of the spectrum are multiplied by
    streams: int,  # 1 if contiguous lines of the result are whole cache lines that go past the caches
    scratch: Any,  # two halves of [h + 1, width] units
) -> None:
    """For tiles start..stop: lines are gathered, transformed in scratch, and scattered.

    Strides and offsets count real numbers. On the way back real and imaginary parts are exchanged between
    the two steps, which makes the transform the inverse one.
    """
    h, of_row, to_row, lanes = sizes[0], sizes[1], sizes[2], sizes[4]
    width, is_back, half = sizes[5], sizes[7], sizes[8]
    is_rows, fetches = sizes[9] == ROWS, sizes[10] != 0
    of_line, to_line = (2, 1) if is_back else (1, 2)
    offsets = np.empty((2, (width + AHEAD) * lanes), np.int64)
    inside = np.empty(2 * h + 2 + lanes, np.int64)  # where the numbers of a row lie in scratch
    unit = 2 * lanes
    for tile in range(start, stop):
        of, to, whole, tail = place_tile(tile, sizes, outer, offsets, of_line, to_line)
        row = (whole + (1 if tail else 0)) * unit
        # ---- to scratch
        numbers = 2 * h + 2 if is_back else 2 * h
        if tail:
            scratch[: (h + 1) * row] = 0
        if is_rows:
            for e in range(
                numbers + lanes
            ):  # those beyond the last are written into the other half
                inside[e] = e // 2 * row + e % 2 * lanes if e < numbers else half
            gather_rows(scratch, inside, numbers, whole, lanes, places[0], offsets[0], fetches)
        elif is_back:
            for i in range(h + 1):
                at, base = i * row, of + i * of_row
                for _ in range(whole):
                    gather_pairs(scratch, at, lanes, places[0], base)
                    at += unit
                    base += unit
                for k in range(tail):
                    scratch[at + k] = peek(places[0], base + 2 * k, scratch)
                    scratch[at + lanes + k] = peek(places[0], base + 2 * k + 1, scratch)
        else:
            for i in range(2 * h):
                at, base = i // 2 * row + i % 2 * lanes, of + i * of_row
                for _ in range(whole):
                    gather_line(scratch, at, places[0], base)
                    at += unit
                    base += lanes
                for k in range(tail):
                    scratch[at + k] = peek(places[0], base + k, scratch)
        # ---- the transform
        if is_back:
            for q in range(0, row, unit):
                for lane in range(q + lanes, q + unit):  # those of a real line are no numbers of it
                    scratch[lane] = 0
                    scratch[h * row + lane] = 0
                for k in range(h // 2 + 1):
                    a, b = k * row + q, (h - k) * row + q
                    tangle(scratch, a, b, a, b, turns, 2 * k, scales[0], scales[1])
        x, y = 0, half
        s, w, m = row, 0, h
        for number in range(radices.shape[0]):
            r = radices[number]
            m //= r
            step = s * m
            if m == 1:
                for q in range(0, s, unit):
                    end(r, scratch, x + q, step, y + q, s, twiddles)
            else:
                for p in range(m):
                    a, b = x + p * s, y + p * s * r
                    for q in range(0, s, unit):
                        turn(r, scratch, a + q, step, b + q, s, twiddles, w)
                    w += 2 * (r - 1)
            s *= r
            x, y = y, x
        if not is_back:
            for q in range(x, x + row, unit):
                untangle(scratch, q, q, q, q + h * row, turns, 0, scales[0], scales[1])
                for k in range(1, h // 2 + 1):
                    a, b = q + k * row, q + (h - k) * row
                    untangle(scratch, a, b, a, b, turns, 2 * k, scales[0], scales[1])
        # ---- from scratch
        numbers = 2 * h if is_back else 2 * h + 2
        if is_rows:
            for e in range(numbers + lanes):
                inside[e] = x + e // 2 * row + (e + is_back) % 2 * lanes if e < numbers else x
            scatter_rows(
                scratch, 0, inside, numbers, whole, lanes, places[1], offsets[1], fetches, streams
            )
        elif is_back:
            for i in range(2 * h):
                at, base = x + i // 2 * row + (i + 1) % 2 * lanes, to + i * to_row
                for _ in range(whole):
                    scatter_line(scratch, at, places[1], base)
                    at += unit
                    base += lanes
                for k in range(tail):
                    poke(places[1], base + k, scratch[at + k])
        else:
            for i in range(h + 1):
                at, base = x + i * row, to + i * to_row
                for _ in range(whole):
                    scatter_pairs(scratch, at, lanes, places[1], base)
                    at += unit
                    base += unit
                for k in range(tail):
                    poke(places[1], base + 2 * k, scratch[at + k])
                    poke(places[1], base + 2 * k + 1, scratch[at + lanes + k])

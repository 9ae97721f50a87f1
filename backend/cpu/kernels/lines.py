"""Fourier transforms along an axis whose lines lie side by side, by vectors that run across the lines.

Stockham's form of the fast Fourier transform: every pass reads one half of a tile and writes the other, and
the result is in order (C. Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, 1.7).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel, part

# put here before a kernel is compiled; see butterflies.py and turns.py
butterfly2: Any = None
butterfly3: Any = None
butterfly4: Any = None
butterfly5: Any = None
butterfly7: Any = None
butterfly8: Any = None
entering2: Any = None
entering3: Any = None
entering4: Any = None
entering5: Any = None
entering7: Any = None
entering8: Any = None
final2: Any = None
final3: Any = None
final4: Any = None
final5: Any = None
final7: Any = None
final8: Any = None
gather_pairs: Any = None
gather_part: Any = None
gather_square: Any = None
leaving2: Any = None
leaving3: Any = None
leaving4: Any = None
leaving5: Any = None
leaving7: Any = None
leaving8: Any = None
peek: Any = None
poke: Any = None
prefetch_lanes: Any = None
prefetch_lanes_to_write: Any = None
prefetch_pair: Any = None
prefetch_pair_to_write: Any = None
scatter_pairs: Any = None
scatter_part: Any = None
scatter_square: Any = None
stream_square: Any = None

ALONG, ROWS = 0, 1  # how lines lie: side by side, or each contiguous by itself
AHEAD = 2  # squares of lines between those that are transposed and those that are fetched


@part
def enter(
    r: int, scratch: Any, address: int, start: int, step: int, y: int, hop: int, twiddles: Any, w: int,
    flipped: int,
) -> None:  # fmt: skip
    """A first butterfly of radix r, which reads the operand."""
    if r == 8:
        entering8(scratch, address, start, step, y, hop, twiddles, w, flipped)
    elif r == 4:
        entering4(scratch, address, start, step, y, hop, twiddles, w, flipped)
    elif r == 2:
        entering2(scratch, address, start, step, y, hop, twiddles, w, flipped)
    elif r == 3:
        entering3(scratch, address, start, step, y, hop, twiddles, w, flipped)
    elif r == 5:
        entering5(scratch, address, start, step, y, hop, twiddles, w, flipped)
    else:
        entering7(scratch, address, start, step, y, hop, twiddles, w, flipped)


@part
def turn(r: int, scratch: Any, x: int, step: int, y: int, hop: int, twiddles: Any, w: int) -> None:
    """A butterfly of radix r."""
    if r == 8:
        butterfly8(scratch, x, step, y, hop, twiddles, w)
    elif r == 4:
        butterfly4(scratch, x, step, y, hop, twiddles, w)
    elif r == 2:
        butterfly2(scratch, x, step, y, hop, twiddles, w)
    elif r == 3:
        butterfly3(scratch, x, step, y, hop, twiddles, w)
    elif r == 5:
        butterfly5(scratch, x, step, y, hop, twiddles, w)
    else:
        butterfly7(scratch, x, step, y, hop, twiddles, w)


@part
def end(r: int, scratch: Any, x: int, step: int, y: int, hop: int, twiddles: Any) -> None:
    """A last butterfly."""
    if r == 8:
        final8(scratch, x, step, y, hop, twiddles, 0)
    elif r == 4:
        final4(scratch, x, step, y, hop, twiddles, 0)
    elif r == 2:
        final2(scratch, x, step, y, hop, twiddles, 0)
    elif r == 3:
        final3(scratch, x, step, y, hop, twiddles, 0)
    elif r == 5:
        final5(scratch, x, step, y, hop, twiddles, 0)
    else:
        final7(scratch, x, step, y, hop, twiddles, 0)


@part
def leave(
    r: int,
    scratch: Any,
    x: int,
    step: int,
    address: int,
    start: int,
    hop: int,
    scale: Any,
    flipped: int,
    streams: int,
) -> None:
    """A last butterfly, which writes the result."""
    if r == 8:
        leaving8(scratch, x, step, address, start, hop, scale, flipped, streams)
    elif r == 4:
        leaving4(scratch, x, step, address, start, hop, scale, flipped, streams)
    elif r == 2:
        leaving2(scratch, x, step, address, start, hop, scale, flipped, streams)
    elif r == 3:
        leaving3(scratch, x, step, address, start, hop, scale, flipped, streams)
    elif r == 5:
        leaving5(scratch, x, step, address, start, hop, scale, flipped, streams)
    else:
        leaving7(scratch, x, step, address, start, hop, scale, flipped, streams)


@part
def place_tile(
    tile: int, sizes: Any, outer: Any, offsets: Any, of_line: int, to_line: int
) -> tuple[int, int, int, int]:
    """Where the first line of a tile begins in operand and result, whole vectors of lines and lines beyond.

    From one line to the next it is `of_line` and `to_line` real numbers. Of ROWS each line begins where
    `offsets` says, those of the next tile that are fetched ahead included, and lanes beyond the last line are
    the last line once more.
    """
    lines, lanes, width, blocks = sizes[3], sizes[4], sizes[5], sizes[6]
    first = tile % blocks * width * lanes
    count, axes = min(width * lanes, lines - first), outer.shape[1]
    if sizes[9] == ROWS:
        whole = (count + lanes - 1) // lanes
        if axes == 1:  # by vectors
            for lane in range((whole + AHEAD) * lanes):
                rest = min(first + lane, lines - 1)
                offsets[0, lane], offsets[1, lane] = rest * outer[1, 0], rest * outer[2, 0]
            return 0, 0, whole, 0
        for lane in range((whole + AHEAD) * lanes):
            rest = min(first + lane, lines - 1)
            of, to = 0, 0
            for axis in range(axes - 1, 0, -1):
                k = rest % outer[0, axis]
                rest //= outer[0, axis]
                of += k * outer[1, axis]
                to += k * outer[2, axis]
            if axes > 0:
                of += rest * outer[1, 0]
                to += rest * outer[2, 0]
            offsets[0, lane], offsets[1, lane] = of, to
        return 0, 0, whole, 0
    of, to, rest = of_line * first, to_line * first, tile // blocks
    for axis in range(axes - 1, -1, -1):
        k = rest % outer[0, axis]
        rest //= outer[0, axis]
        of += k * outer[1, axis]
        to += k * outer[2, axis]
    return of, to, count // lanes, count % lanes


@part
def gather_rows(
    scratch: Any, inside: Any, numbers: int, whole: int, lanes: int, address: int, offsets: Any,
    fetches: bool,
) -> None:  # fmt: skip
    """So many numbers of each line of ROWS, transposed into scratch, where `inside` says."""
    for at in range(0, whole * lanes, lanes):
        for e in range(0, numbers, lanes):
            if fetches:
                prefetch_lanes(scratch, address, e, offsets, at + AHEAD * lanes)
            if e + lanes <= numbers:
                gather_square(scratch, inside, e, 2 * at, address, e, offsets, at)
            else:
                gather_part(scratch, inside, e, 2 * at, address, e, offsets, at, numbers - e)


@part
def scatter_rows(
    scratch: Any, x: int, inside: Any, numbers: int, whole: int, lanes: int, address: int, offsets: Any,
    fetches: bool, streams: int,
) -> None:  # fmt: skip
    """The reverse: lines are written, from scratch[x:]; whole cache lines past the caches if `streams`."""
    for at in range(0, whole * lanes, lanes):
        for e in range(0, numbers, lanes):
            if streams:
                stream_square(scratch, inside, e, x + 2 * at, address, e, offsets, at)
                continue
            if fetches:
                prefetch_lanes_to_write(scratch, address, e, offsets, at + AHEAD * lanes)
            if e + lanes <= numbers:
                scatter_square(scratch, inside, e, x + 2 * at, address, e, offsets, at)
            else:
                scatter_part(scratch, inside, e, x + 2 * at, address, e, offsets, at, numbers - e)


@kernel
def transform_lines(
    start: int,
    stop: int,
    places: Any,  # [2]: addresses of operand and result
    outer: Any,  # [3, axes]: sizes of the other axes, their strides in both
    sizes: Any,  # [11]: see below
    radices: Any,  # of the passes
    twiddles: Any,  # for every pass but the last, and every turn p below n / (radix so far): see below
    scale: Any,  # what the result is multiplied by
    streams: int,  # 1 if the result is made of whole cache lines that go past the caches
    scratch: Any,  # two halves of [n, width] units
) -> None:
    """For tiles start..stop: lines side by side are gathered, transformed in scratch, and scattered.

    Sizes: the length n, strides of the axis in operand and result, lines side by side, lanes of a vector,
    vectors of a tile, tiles of the lines side by side, 1 for the inverse transform, elements of a half of
    scratch, how lines lie, and 1 if what comes next is fetched from memory ahead. Strides and offsets count
    real numbers.

    Of ROWS every line is contiguous by itself, and lines are numbered by all other axes: a square of as many
    lines as there are lanes, and as many numbers of each, is transposed in registers.

    A pass of radix r, of which those before have the product s, m = n / (s r), does for p < m and q < s

        y[q + s (r p + t)] = w^(p t) sum_j exp(-2 pi i j t / r) x[q + s (p + m j)],  w = exp(-2 pi i / (m r))

    and the powers of w for p are r - 1 complex numbers of the table. The inverse transform is the same with
    real and imaginary parts exchanged.
    """
    n, of_row, to_row, lanes = sizes[0], sizes[1], sizes[2], sizes[4]
    width, is_inverse, half = sizes[5], sizes[7], sizes[8]
    is_rows, fetches = sizes[9] == ROWS, sizes[10] != 0
    offsets = np.empty((2, (width + AHEAD) * lanes), np.int64)
    inside = np.empty(2 * n + lanes, np.int64)  # where the numbers of a row lie in scratch
    unit = 2 * lanes
    real = lanes if is_inverse else 0
    imag = 0 if is_inverse else lanes
    row = 0
    for tile in range(start, stop):
        of, to, whole, tail = place_tile(tile, sizes, outer, offsets, 2, 2)
        vectors = whole + (1 if tail else 0)
        is_other = row != vectors * unit
        row = vectors * unit
        # tiles of whole vectors are read by the first pass itself, and written by the last
        is_direct = not is_rows and tail == 0 and radices.shape[0] > 1
        if is_rows:
            if is_other:
                for e in range(n):
                    inside[2 * e], inside[2 * e + 1] = e * row + real, e * row + imag
            for e in range(2 * n, 2 * n + lanes):  # no numbers: what is written there is not read
                inside[e] = half
            gather_rows(scratch, inside, 2 * n, whole, lanes, places[0], offsets[0], fetches)
        elif not is_direct:
            at = 0
            for i in range(n):
                base = of + i * of_row
                for _ in range(whole):
                    gather_pairs(scratch, at + real, imag - real, places[0], base)
                    at += unit
                    base += unit
                if tail:
                    for k in range(unit):
                        scratch[at + k] = 0
                    for k in range(tail):
                        scratch[at + real + k] = peek(places[0], base + 2 * k, scratch)
                        scratch[at + imag + k] = peek(places[0], base + 2 * k + 1, scratch)
                    at += unit
        x, y = 0, half
        s, w = vectors * unit, 0
        m = n
        for number in range(radices.shape[0]):
            r = radices[number]
            m //= r
            step = s * m
            if m == 1 and is_direct:
                for k in range(n // r):
                    for q in range(0, row, unit):
                        start = to + k * to_row + q
                        for j in range(1, 0 if streams else fetches * n, n // r):
                            prefetch_pair_to_write(scratch, places[1], start + j * to_row)
                        leave(
                            r, scratch, x + k * row + q, step, places[1], start, n // r * to_row, scale,
                            is_inverse, streams,
                        )  # fmt: skip
            elif m == 1:
                for q in range(0, s, unit):
                    end(r, scratch, x + q, step, y + q, s, twiddles)
            elif number == 0 and is_direct:
                for p in range(m):
                    for q in range(0, row, unit):
                        start = of + p * of_row + q
                        for j in range(1, fetches * n, m):
                            prefetch_pair(scratch, places[0], start + j * of_row)
                        enter(
                            r, scratch, places[0], start, m * of_row, y + p * s * r + q, s, twiddles, w,
                            is_inverse,
                        )  # fmt: skip
                    w += 2 * (r - 1)
            else:
                for p in range(m):
                    a, b = x + p * s, y + p * s * r
                    for q in range(0, s, unit):
                        turn(r, scratch, a + q, step, b + q, s, twiddles, w)
                    w += 2 * (r - 1)
            s *= r
            x, y = y, x
        if is_direct:
            continue
        if scale != 1:
            for k in range(x, x + n * vectors * unit):
                scratch[k] *= scale
        if is_rows:
            for e in range(2 * n, 2 * n + lanes):
                inside[e] = 0
            scatter_rows(
                scratch, x, inside, 2 * n, whole, lanes, places[1], offsets[1], fetches, streams
            )
            continue
        at = x
        for i in range(n):
            base = to + i * to_row
            for _ in range(whole):
                scatter_pairs(scratch, at + real, imag - real, places[1], base)
                at += unit
                base += unit
            if tail:
                for k in range(tail):
                    poke(places[1], base + 2 * k, scratch[at + real + k])
                    poke(places[1], base + 2 * k + 1, scratch[at + imag + k])
                at += unit

"""Many lines at once, a line in every lane of a vector.

The library transforms a line, or a few, at a time. Where lines lie side by side in memory, along any axis but
the last, it uses a part of each cache line that it touches. A kernel of ours takes as many lines as fill some
cache lines, keeps them in a core's own cache until they are transformed, and needs no transposition: every
lane of a vector is a line. Contiguous lines are transposed in registers on their way in and out.
A machine does not foresee the order in which this reads and writes memory: of large arrays what comes next is
fetched ahead, and results go past the caches. Without it short contiguous lines took 1.3 to 1.7 times as
long, strided ones 1.3 to 1.7; arrays that are in cache would lose up to a tenth by the asking.

It is for complex lines whose lengths have the prime factors 2, 3, 5 and 7 and are short enough for that
cache, and for real lines of twice such a length, to and from their half spectra. The library does the rest.
Two real lines are never made one complex line: a NaN or a large line would spoil the other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..._base.caches import Cache
from ..._base.options import get_options
from ..cost_model import FAR
from ..spec import Axes, Shape
from .buffers import BUFFERS
from .kernels.butterflies import RADICES
from .kernels.half_lines import transform_half_lines
from .kernels.lines import ALONG, ROWS, transform_lines
from .threads import parallel_for

LINE = 64  # bytes of a vector
CACHE = (
    1 << 20
)  # bytes of a core's own cache that a tile may take, where rows would be short otherwise
FIRST = 32 << 10  # bytes of the first cache, where tiles of contiguous lines stay, if they can
MOST = 2 << 20  # bytes of a tile of one vector
NEAR = 4096  # bytes of the longest contiguous line that is fetched ahead: longer ones the machine foresees
WIDTH = 8  # most vectors of a tile
SHORTEST = 8  # complex points
TAKEN = {"c2c": "FD", "r2c": "fd", "c2r": "FD"}
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
REALS: dict[str, np.dtype[Any]] = {"F": SINGLE, "D": DOUBLE, "f": SINGLE, "d": DOUBLE}


def is_allowed(size: int) -> bool:
    """Whether the options allow compiled kernels for so many elements, real ones where any are."""
    return bool(size >= get_options().small)


def fastest_axis(x: Any) -> int:
    """The last axis, if its elements are neighbours in memory; else -1."""
    return x.ndim - 1 if x.ndim > 1 and x.strides[-1] == x.itemsize else -1


def takes(kind: str, shape: Shape, dtype: Any, axis: int, fastest: int, n: int) -> bool:
    """Whether lines along `axis` of an array of this shape are for the kernel."""
    if kind not in TAKEN or dtype.char not in TAKEN[kind] or fastest < 0:
        return False
    lanes = LINE // REALS[dtype.char].itemsize
    beside = math.prod(shape[:-1]) if axis == fastest else shape[fastest]
    if kind != "c2c":
        if n % 2:
            return False
        n //= 2
    enough = n >= SHORTEST and beside >= lanes and 4 * LINE * (n + 1) <= MOST
    return enough and radices(n) is not None


def radices(n: int) -> tuple[int, ...] | None:
    """The passes for a length; None if it has other factors.

    >>> radices(1024), radices(90), radices(22)
    ((8, 8, 4, 4), (2, 3, 3, 5), None)
    """
    found = []
    for radix in RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    if 8 in found and 2 in found:  # two of 4 take less than one of 8 and one of 2
        at = found.index(2)
        found[at - 1 : at + 1] = [4, 4]
    return tuple(found) if n == 1 else None


def run(
    forward: bool,
    norm: int,
    x: Any,
    out: Any,
    axis: int,
    threads: int,
    is_last: bool = True,
    is_far: bool = False,
) -> None:
    """Transform x along `axis` into `out`, which may be x; real to complex, or complex to real, by dtypes.

    What is not the last step's is read at once by the next, and stays in cache as far as it fits.
    is_far: these are rows of arrays beyond the caches, however few they are.
    """
    if out.strides[-1] != out.itemsize:
        beside = BUFFERS.array(out.shape, out.dtype)
        run(forward, norm, x, beside, axis, threads, is_last=False, is_far=is_far)
        np.copyto(out, beside)
        return
    if x.strides[-1] != x.itemsize:  # `out` of an earlier step, say
        x = np.ascontiguousarray(x)
    is_far = is_far or min(x.nbytes, out.nbytes) > FAR
    key = (
        forward, axis, x.shape, x.strides, x.dtype.char, out.shape, out.strides, out.dtype.char, is_far,
    )  # fmt: skip
    tiles = _TILES.get(key) or _TILES.put(key, _made_tiles(*key))
    places = np.array([y.__array_interface__["data"][0] for y in (x, out)], np.int64)
    dtype = REALS[out.dtype.char]
    points = out.shape[axis] if out.dtype.kind == "f" else x.shape[axis]
    scale = dtype.type((1.0, points**-0.5, 1 / points)[norm])
    told: tuple[Any, ...] = (places, tiles.outer, tiles.sizes, tiles.passes, tiles.twiddles)
    is_new = is_last and places[0] != places[1]  # lines that were read need no other way out
    streams = int(is_new and tiles.streams and places[1] % LINE == 0)
    if tiles.turns is None:
        transform, told = transform_lines, (*told, scale, streams)
    else:
        transform, told = transform_half_lines, (*told, tiles.turns, tiles.factors * scale, streams)

    def piece(start: int, stop: int) -> None:
        transform(start, stop, *told, BUFFERS.array((tiles.scratch,), dtype))

    parallel_for(piece, tiles.tiles, threads)


class _Tiles(NamedTuple):
    """What the kernels are told, but for addresses; elements of their scratch; how many tiles there are;

    whether a result that begins with a cache line goes past the caches.
    Where all numbers are complex there are no `turns` and `factors`.
    """

    outer: Any
    sizes: Any
    passes: Any
    twiddles: Any
    scratch: int
    tiles: int
    streams: bool
    turns: Any = None
    factors: Any = None


_TILES: Cache[_Tiles] = Cache("fft tiles", 256)


def _made_tiles(
    forward: bool, axis: int, shape: Shape, strides: Axes, char: str, out_shape: Shape,
    out_strides: Axes, out_char: str, is_far: bool,
) -> _Tiles:  # fmt: skip
    dtype = REALS[char]
    size, lanes = dtype.itemsize, LINE // dtype.itemsize
    is_half, is_back = char != out_char, out_char in "fd"
    n, last = (out_shape if is_back else shape)[axis] // (1 + is_half), len(shape) - 1
    is_row = axis == last
    others = [k for k in range(last + is_row) if k != axis and shape[k] != 1]
    lines = 1 if is_row else shape[last]
    items = np.dtype(char).itemsize, np.dtype(out_char).itemsize
    while not is_row and others and _is_beside(lines, others[-1], strides, out_strides, items):
        lines *= shape[others.pop()]
    batch = math.prod(shape[k] for k in others)
    lines = batch if is_row else lines
    rows = n + is_half
    width = max(1, min(WIDTH, CACHE // (4 * LINE * rows), -(-lines // lanes)))
    if (
        is_row
    ):  # a tile wider than that needs a farther cache for nothing, one narrower is soon done
        width = min(width, max(2, FIRST // (4 * LINE * rows)))
    blocks = -(-lines // (lanes * width))
    outer = [
        [shape[k] for k in others],
        [strides[k] // size for k in others],
        [out_strides[k] // size for k in others],
    ]
    half = rows * width * 2 * lanes
    steps = (strides[axis] // size, out_strides[axis] // size)
    is_inverse = is_back if is_half else not forward
    fetches = is_far and (not is_row or 2 * size * n <= NEAR)
    apart = out_strides[:-1] if not is_row else (*out_strides[:-1], out_shape[-1] * items[1])
    streams = is_far and all(stride % LINE == 0 for stride in apart)
    lie = ROWS if is_row else ALONG
    sizes = (n, *steps, lines, lanes, width, blocks, is_inverse, half, lie, fetches)
    tiles = _Tiles(
        np.array(outer, np.int64).reshape(3, len(others)),
        np.array(sizes, np.int64),
        *_tables(n, dtype),
        2 * half,
        blocks if is_row else blocks * batch,
        streams,
    )
    if not is_half:
        return tiles
    sign = 1 if forward != is_back else -1  # of the imaginary parts of the spectrum
    factors = np.array([1, sign], dtype) * dtype.type(1 if is_back else 0.5)
    return tiles._replace(turns=roots(np.arange(n // 2 + 1), 2 * n).astype(dtype), factors=factors)


def _is_beside(
    lines: int, axis: int, strides: Axes, out_strides: Axes, items: tuple[int, int]
) -> bool:
    """Whether lines along this axis too lie one behind another, in operand and result."""
    return strides[axis] == lines * items[0] and out_strides[axis] == lines * items[1]


_TABLES: Cache[tuple[Any, Any]] = Cache("fft twiddles", 64)


def _tables(n: int, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The radices of the passes, and the twiddles of all but the last."""
    key = (n, dtype.char)
    return _TABLES.get(key) or _TABLES.put(key, _made_tables(n, dtype))


def _made_tables(n: int, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    passes = radices(n)
    assert passes is not None, "such lengths are left to the library"
    found, m = [np.zeros(0)], n
    for radix in passes[:-1]:
        length, m = m, m // radix
        turns = np.outer(np.arange(m), np.arange(1, radix)).ravel()
        found.append(roots(turns, length))
    table = np.concatenate(found).astype(dtype)
    return np.array(passes, np.int64), table


def roots(turns: Any, n: int) -> Any:
    """exp(-2 pi i turns / n) as real and imaginary parts by turns; angles are at most an eighth.

    >>> roots(np.array([1, 2]), 4) + 0.0
    array([ 0., -1., -1.,  0.])
    """
    eighths, rest = np.divmod(8 * (turns % n), n)
    flipped = eighths % 2 == 1
    angle = 2 * np.pi * np.where(flipped, n - rest, rest) / (8 * n)
    c, s = np.cos(angle), np.sin(angle)
    c, s = np.where(flipped, s, c), np.where(flipped, c, s)
    quarter = eighths // 2
    cos = np.choose(quarter, [c, -s, -c, s])
    sin = np.choose(quarter, [s, c, -s, -c])
    return np.stack([cos, -sin], axis=-1).ravel()

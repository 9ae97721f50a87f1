"""Copying, permuting and broadcasting: dst[i] = src[i] for strided arrays of one dtype.

Axes that both arrays walk as one are merged, and elements that stay together become one larger
element. What is left is one of these, in the order in which they are tried:

    whole       nothing but one contiguous stretch: memcpy, shared out; a large one in streamed runs
    runs        the fastest axis of both is the same: runs of at least half a cache line
    transpose   dst's fastest axes are the columns of a tile, src's fastest other axes its rows, each
                contiguous on its side: blocks are transposed in vector registers
    tables      anything else: the same tiles by tables of offsets, element by element

Large results are written past the caches where whole cache lines can be: they would only be evicted.
No memory is needed beyond a tile's buffer in each thread; kernels are compiled once for each element
size. The idea of tiles over the fastest axes of both sides is that of HPTT (P. Springer, T. Su,
P. Bientinesi, arXiv:1704.04374).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..._base.caches import Cache
from ..._base.options import get_options
from ..spec import Shape
from .buffers import empty
from .kernels.move import copy_runs, move_tiles, transpose_tiles
from .kernels.vectors import side
from .patience import counted, too_early
from .strided import Axis, axis_table, element_strides, flat, merge_axes, offsets
from .threads import parallel_for

LINE = 64  # bytes of a cache line
TILE = 1024  # bytes along each side of a tile that is transposed
EDGE = 1 / 4  # of a side, outside whole blocks: large elements then move as fast one by one
BIG = 16 << 20  # bytes of a result from which tiles are twice as long
TABLE = 512  # the same where offsets come from tables
STREAMED = 256 << 10  # bytes of a run of a contiguous stretch that is streamed
PIECES = 16  # at least, of an axis that is shared out
RUNS = 64  # most runs of a tile
LONG_RUN = 16  # cache lines from which a run is worth two broken ones when it is streamed
STREAM = 4 << 20  # bytes from which a result is written past the caches
CARRIERS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


def move(dst: Any, src: Any) -> Any:
    """dst[...] = src, in parallel when it is worth it; the dtypes are equal and nothing overlaps."""
    if (
        dst.size < max(1, get_options().small)
        or dst.itemsize not in CARRIERS
        or dst.dtype.hasobject
    ):
        np.copyto(dst, src)
        return dst
    src = np.broadcast_to(src, dst.shape)
    if too_early():
        with counted():
            _copied_in_pieces(dst, src)
        return dst
    to, of = element_strides(dst), element_strides(src)
    if to is None or of is None:
        np.copyto(dst, src)
        return dst
    carrier = CARRIERS[dst.itemsize]  # as_strided does not know all dtypes of ml_dtypes
    d, d_origin = flat(dst.view(carrier), writeable=True)
    s, s_origin = flat(src.view(carrier))
    places = [x.__array_interface__["data"][0] for x in (d, s)]
    if any(place % min(dst.itemsize, 8) for place in places):
        # complex64 at an odd float32, say: aligned for its parts, not for one load of it
        np.copyto(dst, src)
        return dst
    # what decides the plan: where cache lines begin, and whether larger elements would be aligned
    alignment = (places[0] % LINE, places[1] % 8, d_origin, s_origin)
    key = (dst.shape, tuple(to), tuple(of), dst.itemsize, alignment)
    plans = _PLANS.get(key)
    if plans is None:
        axes: list[Axis] = [axis for axis in zip(dst.shape, to, of, strict=True) if axis[0] != 1]
        plans = _PLANS.put(key, tuple(_planned(axes, dst.itemsize, alignment, dst.nbytes)))
    for plan in plans:
        carrier = CARRIERS[plan.itemsize]
        plan.run(d.view(carrier), s.view(carrier), d_origin, s_origin)
    return dst


def _copied_in_pieces(dst: Any, src: Any) -> None:
    """By NumPy, shared out along the slowest axis of dst that is long enough."""
    order = sorted(range(dst.ndim), key=lambda axis: -abs(dst.strides[axis]))
    axis = next((k for k in order if dst.shape[k] >= PIECES), None)
    if axis is None:
        np.copyto(dst, src)
        return
    to, of = np.moveaxis(dst, axis, 0), np.moveaxis(src, axis, 0)
    parallel_for(lambda start, stop: np.copyto(to[start:stop], of[start:stop]), len(to))


def packed(x: Any, shape: Shape) -> Any:
    """x.reshape(shape): a view where strides allow, else a copy made by `move`."""
    if x.size < max(1, get_options().small) or x.flags.c_contiguous:
        return x.reshape(shape)
    view = reshaped_view(x, shape)
    if view is not None:
        return view
    copy = empty(x.shape, x.dtype)
    return move(copy, x).reshape(shape)


def reshaped_view(x: Any, shape: Shape) -> Any:
    """x.reshape(shape) if that is a view, else None."""
    if _HAS_COPY_ARGUMENT:
        try:
            return x.reshape(shape, copy=False)
        except ValueError:
            return None
    view = x.view()
    try:
        view.shape = shape
    except AttributeError:
        return None
    return view


_HAS_COPY_ARGUMENT = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


@dataclass(frozen=True, slots=True)
class _Plan:
    """Tables of one kind of move, relative to the arrays' origins."""

    kind: Literal["whole", "runs", "transpose", "tables"]
    itemsize: int
    origin: Axis
    tiles: int
    arguments: tuple[Any, ...] = ()

    def run(self, dst: Any, src: Any, dst_origin: int, src_origin: int) -> None:
        origins = np.array((dst_origin + self.origin[0], src_origin + self.origin[1]))
        kernel = KERNELS.get(self.kind)

        def piece(start: int, stop: int) -> None:
            if kernel is None:
                d, s = origins
                np.copyto(dst[d + start : d + stop], src[s + start : s + stop])
            else:
                kernel(start, stop, dst, src, origins, *self.arguments)

        parallel_for(piece, self.tiles)


KERNELS = {"runs": copy_runs, "transpose": transpose_tiles, "tables": move_tiles}
_PLANS: Cache[tuple[_Plan, ...]] = Cache("moves", 512)


def _planned(
    axes: list[Axis], itemsize: int, alignment: tuple[int, int, int, int], nbytes: int
) -> list[_Plan]:
    """Moves that together cover `axes`: one, and more where an axis is cut with a remainder."""
    to, of, *origins = alignment
    if not any(origins):
        axes, itemsize = _with_larger_elements(axes, itemsize, (to, of))
    tile = TILE if nbytes < BIG else 2 * TILE
    large = nbytes >= STREAM
    streams = large and to == 0 and not any(origins)
    # a run finds its first cache line itself, if elements do not straddle lines
    phase = to // itemsize if large and to % itemsize == 0 else None
    plans: list[_Plan] = []
    todo: list[tuple[list[Axis], Axis]] = [(axes, (0, 0))]
    while todo:
        region, origin = todo.pop()
        region = merge_axes(_by_stride(region, 1))
        plan, tails = _whole(region, origin, itemsize, phase)
        if plan is None:
            plan = _runs(region, origin, itemsize, phase)
        if plan is None:
            plan, tails = _transpose(region, origin, itemsize, streams, tile)
            if plan is None:
                plan, tails = _tables(region, origin, itemsize)
        todo += [(part, _shifted(origin, shift)) for part, shift in tails]
        plans.append(plan)
    return plans


def _with_larger_elements(
    axes: list[Axis], itemsize: int, places: tuple[int, int]
) -> tuple[list[Axis], int]:
    """Elements that lie side by side in both arrays as one, of up to 16 bytes.

    >>> _with_larger_elements([(2, 1, 1), (5, 14, 2), (7, 2, 10)], 4, (0, 0))
    ([(5, 7, 1), (7, 1, 5)], 8)
    """
    axes = merge_axes(_by_stride(axes, 1))
    while axes and axes[-1][1:] == (1, 1):
        n = axes[-1][0]
        together = next((g for g in (16, 8, 4, 2) if n % g == 0 and g * itemsize in CARRIERS), 1)
        size = together * itemsize
        others = [stride for _, *strides in axes[:-1] for stride in strides]
        if (
            together == 1
            or n * itemsize >= LINE
            or any(stride % together for stride in others)
            or any(place % min(size, 8) for place in places)
        ):
            break
        larger: list[Axis] = [(m, to // together, of // together) for m, to, of in axes[:-1]]
        larger += [(n // together, 1, 1)] if n > together else []
        axes, itemsize = merge_axes(_by_stride(larger, 1)), size
    return axes, itemsize


Tail = tuple[list[Axis], Axis]
"""Axes of a smaller region, and where it starts."""


def _whole(
    region: list[Axis], origin: Axis, itemsize: int, phase: int | None
) -> tuple[_Plan | None, list[Tail]]:
    if region and not (len(region) == 1 and region[0][1:] == (1, 1)):
        return None, []
    n, length = region[0][0] if region else 1, STREAMED // itemsize
    if phase is None or n < 2 * length:
        return _Plan("whole", itemsize, origin, n), []
    pieces, rest = divmod(n, length)
    tails: list[Tail] = [([(rest, 1, 1)], (n - rest, n - rest))] if rest else []
    axes: list[Axis] = [(pieces, length, length), (length, 1, 1)]
    return _runs(axes, origin, itemsize, phase, rows_in_a_tile=1), tails


def _runs(
    region: list[Axis], origin: Axis, itemsize: int, phase: int | None, rows_in_a_tile: int = RUNS
) -> _Plan | None:
    if region[-1][1:] != (1, 1) or region[-1][0] * itemsize < LINE // 2:
        return None
    *outer, (length, _, _) = region
    rows: list[Axis] = []
    count = 1
    while outer and count * outer[-1][0] <= rows_in_a_tile:
        count *= outer[-1][0]
        rows.insert(0, outer.pop())
    line = LINE // itemsize
    steps = [stride for _, stride, _ in outer + rows] + [origin[0], length]
    streaming = phase is not None and (
        length >= LONG_RUN * line or (phase == 0 and all(step % line == 0 for step in steps))
    )
    arguments = (
        axis_table(outer),
        offsets(rows).view(np.uint64),
        length,
        line,
        phase or 0,
        streaming,
    )
    return _Plan("runs", itemsize, origin, math.prod(n for n, *_ in outer), arguments)


def _transpose(
    region: list[Axis], origin: Axis, itemsize: int, streams: bool, tile: int
) -> tuple[_Plan | None, list[Tail]]:
    """Grow both sides of a tile by turns, each by the axis that continues its contiguous stretch."""
    want, line, block = tile // itemsize, LINE // itemsize, side(itemsize)
    rest = list(region)
    sides: tuple[list[Axis], list[Axis]] = ([], [])  # columns, then rows: fastest first
    sizes, open_ = [1, 1], [True, True]
    tails: list[Tail] = []
    while any(open_):
        which = 0 if open_[0] and (sizes[0] <= sizes[1] or not open_[1]) else 1
        size = sizes[which]
        found = next((axis for axis in rest if axis[1 + which] == size), None)
        if found is None or size >= want:
            open_[which] = False
            continue
        rest.remove(found)
        n, to, of = found
        if n > 2 * -(-want // size):
            b = _block(n, -(-want // size), line)
            covered = n // b * b
            if covered < n:
                shape = [*sides[0], *sides[1], *rest, (n - covered, to, of)]
                tails.append((shape, (covered * to, covered * of)))
            rest.append((n // b, to * b, of * b))
            n, open_[which] = b, False
        sides[which].append((n, to, of))
        sizes[which] *= n
    broken = max(size % block / size for size in sizes)
    if min(sizes) < block or (itemsize == 16 and broken > EDGE):
        return None, []
    columns, rows = (offsets(axes[::-1]) for axes in sides)
    outer = _by_stride(rest, 1)
    steps = [*(to for _, to, _ in outer), *map(int, rows[0]), origin[0]]
    streaming = streams and all(step % line == 0 for step in steps)
    if min(sizes) < line:  # blocks go to dst one by one, without meeting in a buffer
        line, streaming = block, False
    arguments = (
        axis_table(outer),
        rows[0].view(np.uint64).copy(),
        columns[1].view(np.uint64).copy(),
        block,
        line,
        streaming,
    )
    plan = _Plan("transpose", itemsize, origin, math.prod(n for n, *_ in outer), arguments)
    return plan, tails


def _block(n: int, want: int, line: int) -> int:
    """How much of an axis a tile takes: whole cache lines and a divisor where there is one."""
    near = sorted(range(want // 2 + 1, 2 * want + 1), key=lambda b: abs(b - want))
    lines = [b for b in near if b % line == 0]
    return next((b for b in lines if n % b == 0), None) or next(iter(lines), want)


def _tables(region: list[Axis], origin: Axis, itemsize: int) -> tuple[_Plan, list[Tail]]:
    want = max(8, TABLE // itemsize)
    columns, rest, tail = _take(region, 1, want)
    tails = [] if tail is None else [tail]
    rows, rest, tail = _take(rest, 2, want)
    if tail is not None:
        tails.append(([*columns, *tail[0]], tail[1]))
    shares_line = any(abs(of) <= 1 for _, _, of in columns)
    page = any(of * itemsize % 2048 == 0 for _, _, of in columns)
    outer = _by_stride(rest, 1)
    table = offsets(_by_stride(columns, 1))
    arguments = (
        axis_table(outer),
        offsets(_by_stride(rows, 2)).view(np.uint64),
        table.view(np.uint64),
        page and not shares_line,
        bool((table[0] == np.arange(table.shape[1])).all()),
    )
    return _Plan("tables", itemsize, origin, math.prod(n for n, *_ in outer), arguments), tails


def _by_stride(axes: list[Axis], side: int) -> list[Axis]:
    return sorted(axes, key=lambda axis: -abs(axis[side]))


def _shifted(origin: Axis, shift: Axis) -> Axis:
    return origin[0] + shift[0], origin[1] + shift[1]


def _take(axes: list[Axis], side: int, want: int) -> tuple[list[Axis], list[Axis], Tail | None]:
    """Axes of least stride on one side that make up about `want` elements, the others, and a tail.

    When the last axis taken is too long, a block of it is taken and its whole blocks stay among the
    others. What they do not cover is the tail: axes of a smaller region, and where it starts.
    """
    taken: list[Axis] = []
    rest = _by_stride(axes, side)
    size = 1
    while rest and size < want:
        n, to, of = rest.pop()
        room = -(-want // size)
        if n <= 2 * room:
            taken.append((n, to, of))
            size *= n
            continue
        near = sorted(range(room // 2 + 1, 2 * room + 1), key=lambda b: abs(b - room))
        block = next((b for b in near if n % b == 0), room)
        covered = n // block * block
        tail = None
        if covered < n:
            remainder = (n - covered, to, of)
            tail = ([*taken, *rest, remainder], (covered * to, covered * of))
        taken.append((block, to, of))
        rest.append((n // block, to * block, of * block))
        return taken, rest, tail
    return taken, rest, None

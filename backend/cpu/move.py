"""Copying, permuting and broadcasting: dst[i] = src[i] for strided arrays of one dtype.

Axes that both arrays walk as one are merged; a tile takes dst's fastest axes as columns and src's
fastest other axes as rows, about 512 bytes of each, so that both sides use whole cache lines. No
memory is needed beyond a tile's buffer in each thread. The kernel is compiled once for each element
size. The idea of tiles over the fastest axes of both sides is that of HPTT (P. Springer, T. Su,
P. Bientinesi, arXiv:1704.04374).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._base.caches import Cache
from ..._base.options import get_options
from ..spec import Shape
from .kernels.move import move_tiles
from .strided import Axis, axis_table, element_strides, flat, merge_axes, offsets
from .threads import parallel_for

LINE = 512  # bytes along each side of a tile
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
    to, of = element_strides(dst), element_strides(src)
    if to is None or of is None:
        np.copyto(dst, src)
        return dst
    key = (dst.shape, tuple(to), tuple(of), dst.itemsize)
    plans = _PLANS.get(key)
    if plans is None:
        axes: list[Axis] = [axis for axis in zip(dst.shape, to, of, strict=True) if axis[0] != 1]
        plans = _PLANS.put(key, _planned(axes, dst.itemsize))
    carrier = CARRIERS[dst.itemsize]
    d, d_origin = flat(dst, writeable=True)
    s, s_origin = flat(src)
    d, s = d.view(carrier), s.view(carrier)
    for plan in plans:
        plan.run(d, s, d_origin, s_origin)
    return dst


def packed(x: Any, shape: Shape) -> Any:
    """x.reshape(shape): a view where strides allow, else a copy made by `move`."""
    if x.size < max(1, get_options().small) or x.flags.c_contiguous:
        return x.reshape(shape)
    view = _reshaped_view(x, shape)
    if view is not None:
        return view
    copy = np.empty(x.shape, x.dtype)
    return move(copy, x).reshape(shape)


def _reshaped_view(x: Any, shape: Shape) -> Any:
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


class _Move:
    """Tables of one tiled move, relative to the arrays' origins."""

    def __init__(
        self, columns: list[Axis], rows: list[Axis], outer: list[Axis], origin: Axis, staged: bool
    ) -> None:
        self.tiles = math.prod(n for n, *_ in outer)
        self.origin, self.staged = origin, staged
        self.outer = axis_table(outer)
        self.rows, self.columns = offsets(rows).view(np.uint64), offsets(columns).view(np.uint64)

    def run(self, dst: Any, src: Any, dst_origin: int, src_origin: int) -> None:
        origins = np.array((dst_origin + self.origin[0], src_origin + self.origin[1]))
        tables = (self.outer, self.rows, self.columns, self.staged)

        def piece(start: int, stop: int) -> None:
            move_tiles(start, stop, dst, src, origins, *tables)

        parallel_for(piece, self.tiles)


_PLANS: Cache[list[_Move]] = Cache("moves", 512)


def _planned(axes: list[Axis], itemsize: int) -> list[_Move]:
    """Tiled moves that together cover `axes`: one, and more where an axis is cut with a remainder."""
    want = max(8, LINE // itemsize)
    moves: list[_Move] = []
    todo: list[tuple[list[Axis], Axis]] = [(axes, (0, 0))]
    while todo:
        region, origin = todo.pop()
        region = merge_axes(_by_stride(region, 1))
        columns, rest, tail = _take(region, 1, want)
        if tail is not None:
            todo.append((tail[0], _shifted(origin, tail[1])))
        rows, rest, tail = _take(rest, 2, want)
        if tail is not None:
            todo.append((columns + tail[0], _shifted(origin, tail[1])))
        shares_line = any(abs(of) <= 1 for _, _, of in columns)
        page = any(of * itemsize % 2048 == 0 for _, _, of in columns)
        staged = page and not shares_line
        moves.append(
            _Move(_by_stride(columns, 1), _by_stride(rows, 2), _by_stride(rest, 1), origin, staged)
        )
    return moves


def _by_stride(axes: list[Axis], side: int) -> list[Axis]:
    return sorted(axes, key=lambda axis: -abs(axis[side]))


def _shifted(origin: Axis, shift: Axis) -> Axis:
    return origin[0] + shift[0], origin[1] + shift[1]


def _take(
    axes: list[Axis], side: int, want: int
) -> tuple[list[Axis], list[Axis], tuple[list[Axis], Axis] | None]:
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

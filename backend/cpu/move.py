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
        self.outer, self.rows, self.columns = axis_table(outer), offsets(rows), offsets(columns)

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
    todo: list[tuple[list[Axis], Axis]] = [(_by_stride(axes, 1), (0, 0))]
    while todo:
        axes, origin = todo.pop()
        axes = merge_axes(axes)
        columns, rest, cut = _take(axes, 1, want)
        axes = _without_remainder(axes, cut, origin, todo)
        rows, rest, cut = _take(rest, 2, want)
        _without_remainder(axes, cut, origin, todo)
        shares_line = any(abs(of) <= 1 for _, _, of in columns)
        page = any(of * itemsize % 2048 == 0 for _, _, of in columns)
        staged = page and not shares_line
        moves.append(
            _Move(_by_stride(columns, 1), _by_stride(rows, 2), _by_stride(rest, 1), origin, staged)
        )
    return moves


def _by_stride(axes: list[Axis], side: int) -> list[Axis]:
    return sorted(axes, key=lambda axis: -abs(axis[side]))


def _take(
    axes: list[Axis], side: int, want: int
) -> tuple[list[Axis], list[Axis], tuple[Axis, int] | None]:
    """Axes of least stride on one side that make up about `want` elements, the others, and the cut.

    The last axis taken may be too long: then a block of it is taken, its blocks stay among the
    others, and the cut names the axis and how many of its elements whole blocks cover.
    """
    taken: list[Axis] = []
    rest = _by_stride(axes, side)
    size = 1
    while rest and size < want:
        n, to, of = axis = rest.pop()
        room = -(-want // size)
        if n <= 2 * room:
            taken.append(axis)
            size *= n
            continue
        block = next((b for b in range(2 * room, room // 2, -1) if n % b == 0), room)
        taken.append((block, to, of))
        rest.append((n // block, to * block, of * block))
        return taken, rest, (axis, n // block * block)
    return taken, rest, None


def _without_remainder(
    axes: list[Axis],
    cut: tuple[Axis, int] | None,
    origin: Axis,
    todo: list[tuple[list[Axis], Axis]],
) -> list[Axis]:
    """`axes` as far as whole blocks reach; what is left over becomes a move of its own."""
    if cut is None or cut[1] == cut[0][0]:
        return axes
    (axis, covered), (n, to, of) = cut, cut[0]
    others = [one for one in axes if one != axis]
    todo.append(
        ([*others, (n - covered, to, of)], (origin[0] + covered * to, origin[1] + covered * of))
    )
    return [*others, (covered, to, of)]

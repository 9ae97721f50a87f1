"""Elements and windows at places that an array of indices names, by a compiled kernel.

A result is walked in the order of its memory. Axes along which the index does not change are runs, the others
loops; see `kernels.pick`. No memory is needed beyond the result, but for indices that are neither int32 nor
int64, which are converted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._base.options import get_options
from ..spec import ArraySpec
from .kernels.pick import pick
from .move import CARRIERS
from .strided import Axis, axis_table, element_strides, flat, merge_axes
from .threads import parallel_for

PIECE = 4096  # elements of a tile
ADDED = frozenset("bBhHiIlLqQfdFD")  # dtype characters that a kernel adds


class Flat(NamedTuple):
    """A strided array as a kernel takes it: a buffer, the place of its first element, strides."""

    buffer: Any
    origin: int
    strides: list[int]


def carried(x: Any, writeable: bool = False) -> Flat | None:
    """x as elements of its size that a kernel moves; None where it cannot load them."""
    if x.itemsize not in CARRIERS or x.dtype.hasobject:
        return None
    strides = element_strides(x)
    if strides is None:
        return None
    buffer, origin = flat(x.view(CARRIERS[x.itemsize]), writeable)
    if buffer.__array_interface__["data"][0] % min(x.itemsize, 8):
        return None  # complex64 at an odd float32, say
    return Flat(buffer, origin, strides)


def as_numbers(x: Any, writeable: bool = False) -> Flat | None:
    """x as numbers that a kernel adds, integers as unsigned ones; None where it cannot."""
    strides = element_strides(x) if x.dtype.char in ADDED and x.dtype.isnative else None
    if strides is None:
        return None
    buffer, origin = flat(x.view(f"u{x.itemsize}") if x.dtype.kind == "i" else x, writeable)
    return Flat(buffer, origin, strides)


def whole_indices(indices: Any) -> Flat | None:
    """Indices that a kernel reads: int32 or int64; None where they are, but do not lie so that it can."""
    if not _read_as_they_are(indices.dtype):
        indices = indices.astype(np.int64)
    strides = element_strides(indices)
    if strides is None:
        return None
    buffer, origin = flat(indices)
    return Flat(buffer, origin, strides)


def index_bytes(indices: ArraySpec) -> int:
    """What `whole_indices` allocates."""
    return 0 if _read_as_they_are(indices.dtype) else 8 * indices.size


def _read_as_they_are(dtype: np.dtype[Any]) -> bool:
    return dtype.char in "il" and dtype.isnative


Loop = tuple[int, int | None, int | None, int | None]
"""Size of an axis of the result, and which axis it is of the result, of the operand and of the indices."""


def picked(
    out: Any,
    x: Any,
    indices: Any,
    loops: Sequence[Loop],
    entries: Sequence[tuple[int, int, int]],
    vector: int | None = None,
    clamps: bool = False,
) -> bool | None:
    """Fill out[...] with x[..., index, ...]; whether all indices were in range, None if no kernel can.

    Args:
        loops: axes of the result.
        entries: for each entry of an index vector its position along axis `vector` of the indices,
            the axis of x that it counts, and its bound.
        vector: the axis of the indices along which index vectors lie; None where each is one entry.
        clamps: indices are moved into 0..bound; else they wrap once, and are below the bound.
    """
    if out.size < max(1, get_options().small):
        return None
    dst, src, ind = carried(out, writeable=True), carried(x), whole_indices(indices)
    if dst is None or src is None or ind is None:
        return None
    arrays = (dst.strides, src.strides, ind.strides)
    axes: list[Axis] = [
        (
            n,
            *(
                0 if axis is None else strides[axis]
                for axis, strides in zip(of, arrays, strict=True)
            ),
        )
        for n, *of in loops
    ]
    axes = merge_axes(sorted(axes, key=lambda axis: -abs(axis[1])))
    n, to, of, at = axes[-1] if axes else (1, 0, 0, 0)
    run = (1, 0, 0)
    if axes and at == 0:
        run = (n, to, of)
        axes.pop()
    lane = axes.pop() if axes else (1, 0, 0, 0)
    piece = max(1, PIECE // run[0])
    pieces = -(-lane[0] // piece)
    outer = [(pieces, *(piece * step for step in lane[1:])), *axes]
    step = 0 if vector is None else ind.strides[vector]
    table = [(place * step, src.strides[axis], bound) for place, axis, bound in entries]
    bad = np.zeros(1, np.int64)
    arguments = (
        np.array((dst.origin, src.origin, ind.origin)),
        axis_table(outer, 3),
        np.array(lane),
        piece,
        np.array(run),
        np.array(table, np.int64).reshape(-1, 3).T.copy(),
        clamps,
        bad,
    )

    def part(start: int, stop: int) -> None:
        pick(start, stop, dst.buffer, src.buffer, ind.buffer, *arguments)

    parallel_for(part, math.prod(axis[0] for axis in outer))
    return not bad[0]

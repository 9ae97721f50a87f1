"""Copies between layouts: elements of 1, 2, 4, 8 or 16 bytes, any rank, any strides.

    copy     source and target are dense along the same axis, or one has no dense axis to gain from
    tiles    otherwise: SIDE by SIDE elements through shared memory, read along the source's dense axes and
             written along the target's. Short axes are taken together until a side is full.

The second is the transposition of G. Ruetsch and P. Micikevicius, "Optimizing matrix transpose in
CUDA" (NVIDIA, 2009), over groups of axes.
"""

from __future__ import annotations

import math

from ...cpu.strided import Axis, merge_axes
from ...spec import Axes, Shape
from .kernel import MOST_BLOCKS, THREADS, CudaKernel, blocks_of, kept
from .layout import Layout, index_type
from .text import unit

SIDE, ROWS = 32, 8
WORDS = {
    1: "unsigned char",
    2: "unsigned short",
    4: "unsigned",
    8: "unsigned long long",
    16: "Sixteen",
}
ENTRY = """
extern "C" __global__ void $name($word* out, const $word* in, $geometry g) {
    $call(out, in, g);
}
"""


def permutation(
    itemsize: int, shape: Shape, out_strides: Axes, in_strides: Axes
) -> CudaKernel | None:
    """out[i] = in[i] for every index i of `shape`; strides in elements, 0 broadcasts the source.

    The kernel takes the target, then the source. Elements must be aligned to their size. None where an
    element has another size.

    >>> permutation(8, (64, 64), (64, 1), (64, 1)).block
    (256, 1, 1)
    >>> permutation(8, (64, 64), (64, 1), (1, 64)).block
    (32, 8, 1)
    """
    if itemsize not in WORDS:
        return None
    key = ("permutation", itemsize, shape, out_strides, in_strides)
    return kept(key, lambda: _made(itemsize, shape, out_strides, in_strides))


def _made(itemsize: int, shape: Shape, out: Axes, source: Axes) -> CudaKernel:
    axes: list[Axis] = list(zip(shape, out, source, strict=True))
    axes = merge_axes(
        sorted((a for a in axes if a[0] != 1), key=lambda a: (-abs(a[1]), -abs(a[2])))
    )
    columns, rows = sides(axes)
    if 0 in shape or not rows:
        return _copy(itemsize, Layout(tuple(axes), 2))
    outer = [axis for axis in axes if axis not in columns and axis not in rows]
    return _tiles(itemsize, Layout(columns, 2), Layout(rows, 2), Layout(tuple(outer), 2))


def sides(axes: list[Axis]) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Axes of the columns and of the rows of tiles, in the order of walking; no rows where none gain.

    >>> sides([(64, 64, 1), (64, 1, 64)])
    (((64, 1, 64),), ((64, 64, 1),))
    >>> sides([(64, 128, 64), (64, 1, 1)])
    ((), ())
    """
    by_out = sorted(axes, key=lambda a: abs(a[1]))
    by_in = sorted((a for a in axes if a[2]), key=lambda a: abs(a[2]))
    if not by_in or (by_out[0] == by_in[0] and by_out[0][0] >= SIDE // 2):
        return (), ()
    columns: list[Axis] = []
    rows: list[Axis] = []
    while True:  # in turns, so that neither side takes what makes the other dense
        short = [
            (side, order)
            for side, order in ((columns, by_out), (rows, by_in))
            if math.prod(a[0] for a in side) < SIDE
        ]
        taken = 0
        for side, order in short:
            free = next((a for a in order if a not in columns and a not in rows), None)
            if free is not None:
                side.append(free)
                taken += 1
        if not taken:
            break
    if not rows or not columns:
        return (), ()
    return tuple(reversed(columns)), tuple(reversed(rows))


def _copy(itemsize: int, axes: Layout) -> CudaKernel:
    index, word = index_type(axes), WORDS[itemsize]
    kind = axes.type(index)
    source, name = unit(
        ("layout", "permutation"),
        "copy",
        ENTRY,
        word=word,
        geometry=kind,
        call=f"copy_strided<{word}, {index}>",
    )
    grid, block = blocks_of(axes.count), (THREADS, 1, 1)
    return CudaKernel(source, name, grid, block, ("out", "in"), axes.geometry(), index != "int")


def _tiles(itemsize: int, columns: Layout, rows: Layout, outer: Layout) -> CudaKernel:
    word = WORDS[itemsize]
    whole = Layout((*outer.axes, *rows.axes, *columns.axes), 2)
    index = index_type(whole)
    kinds = ", ".join(part.type(index) for part in (columns, rows, outer))
    source, name = unit(
        ("layout", "permutation"),
        "permute",
        ENTRY,
        word=word,
        geometry=f"Tiles<{kinds}>",
        call=f"permute_tiles<{word}, {index}>",
    )
    tiles = -(-columns.count // SIDE) * -(-rows.count // SIDE) * outer.count
    geometry = (*columns.geometry(), *rows.geometry(), *outer.geometry())
    grid = (min(MOST_BLOCKS, tiles), 1, 1)
    return CudaKernel(source, name, grid, (SIDE, ROWS, 1), ("out", "in"), geometry, index != "int")

"""Products of matrices, tile by tile: panels are packed, then multiplied block by block in registers."""

from __future__ import annotations

from typing import Any

from ..jit import kernel, part
from .panels import TRUTH

LINE = 64  # bytes of a cache line

# put here before a kernel is compiled; see panels.py
multiply_block: Any = None
pack: Any = None
pack_across: Any = None
pack_lines: Any = None
unpack: Any = None
walk: Any = None


@kernel
def multiply_tiles(
    start: int,
    stop: int,
    out: Any,  # flat buffers; the first element is at origins[...], others at sum(index * stride) from it
    lhs: Any,
    rhs: Any,
    origins: Any,  # [3]: of out, lhs and rhs
    batch: Any,  # [4, axes]: sizes, strides in out, lhs and rhs
    rows: Any,  # [3, axes]: sizes, strides in out and lhs
    columns: Any,  # [3, axes]: sizes, strides in out and rhs
    contracted: Any,  # [3, axes]: sizes, strides in lhs and rhs
    sizes: Any,  # [13]: m, n, k; of a tile rows, columns; of a panel rows, depth; of a block rows, columns;
    # contracted elements from one to its neighbour in lhs, in rhs; columns to that in rhs; 1 where sums are
    # added up in out: all whole blocks of it are some of a matrix
    kind: int,  # of elements, see panels.py
    left: Any,  # scratch: panels of lhs and rhs, sums of a tile, with whole blocks at the edges
    right: Any,
    sums: Any,
    places: Any,  # scratch [10, ...]: offsets of rows, columns, contracted elements in two arrays each;
    # steps; where lines are cut
) -> None:
    """out[b, i, j] = sum_k lhs[b, i, k] * rhs[b, k, j] for tiles start..stop.

    Sums are added up in the result or stay in a buffer until all k are added up, in order. A panel is packed
    in strips of the height (left) or width (right) of a block, whose elements stand side by side for each k;
    beyond the edge they are any.
    """
    m, n, depth = sizes[0], sizes[1], sizes[2]
    tile_rows, tile_columns, panel_rows, panel_depth = sizes[3], sizes[4], sizes[5], sizes[6]
    height, width = sizes[7], sizes[8]
    lanes = LINE // sums.itemsize
    for k in range(lanes):
        places[6, k], places[7, k] = k * sizes[9] * height, k * sizes[10] * width
    down, across = (m + tile_rows - 1) // tile_rows, (n + tile_columns - 1) // tile_columns
    is_direct = sizes[12] == 1
    for tile in range(start, stop):
        i0, j0 = tile % down * tile_rows, tile // down % across * tile_columns
        n_i, n_j = min(tile_rows, m - i0), min(tile_columns, n - j0)
        to, of_lhs, of_rhs = origins[0], origins[1], origins[2]
        rest = tile // (down * across)
        for axis in range(batch.shape[1] - 1, -1, -1):
            at = rest % batch[0, axis]
            rest //= batch[0, axis]
            to += at * batch[1, axis]
            of_lhs += at * batch[2, axis]
            of_rhs += at * batch[3, axis]
        walk(rows, i0, n_i, places[0], places[1])
        walk(columns, j0, n_j, places[2], places[3])
        strips = (n_j + width - 1) // width
        pitch = strips * width
        for i in range(n_i, n_i + height):  # what stands beyond the edge
            places[1, i] = places[1, n_i - 1]
        for j in range(n_j, n_j + width):
            places[3, j] = places[3, n_j - 1]
        for k0 in range(0, depth, panel_depth):
            n_k = min(panel_depth, depth - k0)
            is_last = k0 + n_k >= depth and kind != TRUTH
            walk(contracted, k0, n_k, places[4], places[5])
            j = 0
            while j < pitch:  # right[strip, k, column]
                if sizes[11] > 1 and pack_across(
                    right, width, sizes[11], places[8], rhs, of_rhs,
                    places[3], j, n_j, places[5], n_k, kind,
                ):  # fmt: skip
                    j += sizes[11] * lanes
                    continue
                if j % width == 0:
                    packed = pack_lines(
                        right, j * n_k, width, rhs, of_rhs, places[3], places[9], j, n_j, places[5],
                        n_k, kind,
                    )  # fmt: skip
                    if packed > 0:
                        j += packed
                        continue
                pack(
                    right, j // width * width * n_k + j % width, width, sizes[10], places[7], rhs, of_rhs,
                    places[3], j, n_j, places[5], n_k, lanes, kind,
                )  # fmt: skip
                j += lanes
            for i1 in range(0, n_i, panel_rows):
                n_rows = min(panel_rows, n_i - i1)
                bands = (n_rows + height - 1) // height
                base = (
                    0 if is_last and k0 == 0 else i1 * pitch
                )  # one panel of k: its sums stay in cache
                packed, more = 0, 1
                while height == lanes and packed < n_rows and more > 0:  # left[band, k, row]
                    more = pack_lines(
                        left, packed * n_k, height, lhs, of_lhs, places[1], places[9], i1 + packed,
                        i1 + n_rows, places[4], n_k, kind,
                    )  # fmt: skip
                    packed += more
                for band in range(packed // height, bands):
                    pack(
                        left, band * height * n_k, height, sizes[9], places[6], lhs, of_lhs,
                        places[1], i1 + band * height, n_i, places[4], n_k, height, kind,
                    )  # fmt: skip
                for strip in range(strips):
                    j, of_strip = strip * width, strip * width * n_k
                    for band in range(bands):
                        i, of_band = i1 + band * height, band * height * n_k
                        if is_direct and i + height <= n_i and j + width <= n_j:
                            multiply_block(
                                out, left, right, n_k, to + places[0, i] + places[2, j],
                                places[0, i + 1] - places[0, i], of_band, of_strip, k0 > 0,
                            )  # fmt: skip
                        elif is_direct:
                            multiply_block(
                                sums, left, right, n_k, 0, width, of_band, of_strip, False
                            )
                            add_edge(
                                out, to, places, i, min(height, n_i - i), j, min(width, n_j - j),
                                sums, width, k0 > 0,
                            )  # fmt: skip
                        else:
                            multiply_block(
                                sums, left, right, n_k, base + band * height * pitch + j, pitch,
                                of_band, of_strip, k0 > 0,
                            )  # fmt: skip
                if is_last and not is_direct:
                    unpack(out, to, places[0], i1, n_rows, places[2], n_j, sums, base, pitch, kind)
            if kind == TRUTH:  # a count must not come round to 0; once all are true, they stay so
                missing = 0
                for i in range(n_i):
                    for at in range(i * pitch, i * pitch + n_j):
                        sums[at] = sums[at] != 0
                        missing += sums[at] == 0
                if missing == 0:
                    break
        if kind == TRUTH:
            unpack(out, to, places[0], 0, n_i, places[2], n_j, sums, 0, pitch, kind)


@part
def add_edge(
    out: Any, to: int, places: Any, first: int, rows: int, start: int, columns: int,
    sums: Any, pitch: int, adds: bool,
) -> None:  # fmt: skip
    """What a block has of the result, of rows from `first` and columns from `start` on."""
    for i in range(rows):
        for j in range(columns):
            at = to + places[0, first + i] + places[2, start + j]
            x = sums[i * pitch + j]
            out[at] = out[at] + x if adds else x

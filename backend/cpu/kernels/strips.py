"""Products of matrices whose left operand is read where it lies: only strips of the right one are packed."""

from __future__ import annotations

from typing import Any

from ..jit import kernel, part

LINE = 64  # bytes of a cache line
ROWS = 16  # contracted elements of strips that are packed together
FEW = 24  # rows for which nothing is packed that can be read where it lies
NEAR = (
    1 << 15
)  # bytes of the right operand that stay in L1: nothing needs to be packed there, either
GROUP = 4  # strips that are packed together, so that rows are read by hundreds of bytes
AWAITED = 32  # contracted elements from which there is time to bring near where sums are written

# put here before a kernel is compiled; see panels.py and registers.py
HIGHEST: Any = None
LATER: Any = None
WIDEST: Any = None
add_element: Any = None
bring_near: Any = None
copy_element: Any = None
multiply_strip: Any = None
pack_rows: Any = None
turn_lines: Any = None
walk: Any = None


@kernel
def multiply_strips(
    start: int, stop: int, out: int, left: int, right: int, batch: Any, rows: Any, columns: Any,
    contracted: Any, sizes: Any, strip: Any, places: Any,
) -> None:  # fmt: skip
    """`multiply_tiles` for Python to call."""
    multiply_tiles(
        start, stop, out, left, right, batch, rows, columns, contracted, sizes, strip, places
    )


@part
def multiply_tiles(
    start: int,
    stop: int,
    out: int,  # addresses of the first elements; strides and offsets are in bytes
    left: int,
    right: int,
    batch: Any,  # [4, axes]: sizes, strides in out, left and right
    rows: Any,  # [3, axes]: sizes, strides in out and left
    columns: Any,  # [3, axes]: sizes, strides in out and right
    contracted: Any,  # [3, axes]: sizes, strides in left and right
    sizes: Any,  # [13]: m, n, k; of a tile rows, columns; contracted elements of a strip; 1 where what is
    # written whole goes past the caches; parts of an element, 2 of a complex one; contracted elements of a
    # share of the sums, and bytes between results of such shares; bytes of strips that are packed; 1 where
    # the right operand, and where the result, lies in no cache of a core: it is brought near before its turn
    strip: Any,  # scratch: strips of the right operand, and a block of sums
    places: Any,  # scratch [9, ...]: offsets of rows, columns, contracted elements in two arrays each; of
    # rows and columns of the block of sums; of rows that come next
) -> None:
    """out[s, b, i, j] = sum_k left[b, i, k] * right[b, k, j] over the k of share s, for tiles start..stop.

    A strip is as many columns of the right operand as the registers hold sums of, for some k. It is packed
    once for each tile and multiplied with all of its rows, which are read element by element, each
    spread over a register.
    """
    size = strip.itemsize
    lanes = LINE // size
    m, n = sizes[0], sizes[1]
    tile_rows, tile_columns, chunk = sizes[3], sizes[4], sizes[5]
    highest = (HIGHEST + sizes[7] - 1) // sizes[7]
    packed = strip.ctypes.data
    sums = packed + sizes[10]
    are_neighbours = rows.shape[1] > 0 and rows[2, rows.shape[1] - 1] == size
    # tables by their addresses: see registers.py
    table, pitch = places.ctypes.data, places.shape[1] * 8
    to_rows, of_rows, to_columns = table, table + pitch, table + 2 * pitch
    of_columns, left_offsets, right_offsets = (
        table + 3 * pitch,
        table + 4 * pitch,
        table + 5 * pitch,
    )
    sums_rows, sums_columns, later = table + 6 * pitch, table + 7 * pitch, table + 8 * pitch
    for i in range(HIGHEST):
        places[6, i] = i * WIDEST * LINE
    for c in range(WIDEST * lanes):
        places[7, c] = c * size
    down, across = (m + tile_rows - 1) // tile_rows, (n + tile_columns - 1) // tile_columns
    shares = (sizes[2] + sizes[8] - 1) // sizes[8]
    # whether a tile packs what the next of a batch has at the same places, and that is far
    packs_far = sizes[11] == 1 and across == 1 and min(tile_rows, m) > FEW
    packs_far = packs_far and min(tile_columns, n) * min(chunk, sizes[2]) * size > NEAR
    known_i, known_j, known_k = -1, -1, -1
    rows_are_lines = True
    for tile in range(start, stop):
        i0, j0 = tile % down * tile_rows, tile // down % across * tile_columns
        n_i, n_j = min(tile_rows, m - i0), min(tile_columns, n - j0)
        to, of_left, of_right = out, left, right
        share, rest = tile // (down * across) % shares, tile // (down * across) // shares
        first_k = share * sizes[8]
        last_k = min(sizes[2], first_k + sizes[8])
        to += share * sizes[9]
        for axis in range(batch.shape[1] - 1, -1, -1):
            at = rest % batch[0, axis]
            rest //= batch[0, axis]
            to += at * batch[1, axis]
            of_left += at * batch[2, axis]
            of_right += at * batch[3, axis]
        if i0 != known_i:
            walk(rows, i0, n_i, places[0], places[1])
            known_i = i0
            rows_are_lines = True
            for i in range(n_i):
                rows_are_lines &= places[0, i] % LINE == 0
        if j0 != known_j:
            walk(columns, j0, n_j, places[2], places[3])
            for j in range(n_j, n_j + lanes):  # what stands beyond the edge
                places[3, j] = places[3, n_j - 1]
            known_j = j0
        next_right = of_right  # as long as no other operand comes next
        if packs_far and tile + 1 < stop:
            rest = (tile + 1) // (down * shares)
            next_right = right
            for axis in range(batch.shape[1] - 1, -1, -1):
                next_right += rest % batch[0, axis] * batch[3, axis]
                rest //= batch[0, axis]
        all_lines = (n_j + lanes - 1) // lanes
        strips = (all_lines + WIDEST - 1) // WIDEST
        for k0 in range(first_k, last_k, chunk):
            n_k, adds = min(chunk, last_k - k0), k0 > first_k
            fetches = n_k >= AWAITED and sizes[12] == 1
            if k0 != known_k:
                walk(contracted, k0, n_k, places[4], places[5])
                known_k = k0
            for g in range(0, strips, GROUP):
                group = min(GROUP, strips - g)
                line = g * all_lines // strips
                j, end = line * lanes, min(n_j, (g + group) * all_lines // strips * lanes)
                near = True  # columns one after another
                for c in range(j + 1, end):
                    near &= places[3, c] == places[3, j] + (c - j) * size
                # strips that are read where they lie: whole lines
                direct = g
                if near and (n_i <= FEW or n_j * n_k * size <= NEAR):
                    direct += group - (end % lanes != 0)
                for k in range(0, n_k if near and direct < g + group else 0, ROWS):
                    for s in range(direct, g + group):
                        first, last = s * all_lines // strips, (s + 1) * all_lines // strips
                        lines, c = last - first, first * lanes
                        pack_rows(
                            strip, packed + ((first - line) * n_k + k * lines) * LINE, lines * LINE, lines,
                            of_right + places[3, c], right_offsets, k, min(ROWS, n_k - k), n_j - c,
                        )  # fmt: skip
                # what is packed next is brought near a few rows at a time, while these strips are multiplied
                after, after_lines = 0, 0
                if near and direct < g + group and sizes[11] == 1:
                    if g + GROUP < strips:
                        first = (g + GROUP) * all_lines // strips
                        after = of_right + places[3, first * lanes]
                        after_lines = min(g + 2 * GROUP, strips) * all_lines // strips - first
                    elif next_right != of_right and n_k == sizes[2]:
                        after = next_right + places[3, 0]
                        after_lines = min(GROUP, strips) * all_lines // strips
                bands = (n_i + highest - 1) // highest
                ahead, at_once = n_k, 0
                if after_lines:
                    ahead, at_once = 0, n_k // (group * bands) + 1
                for s in range(g, g + group):
                    first, last = s * all_lines // strips, (s + 1) * all_lines // strips
                    lines, j = last - first, first * lanes
                    count = min(lines * lanes, n_j - j)
                    source = packed + (first - line) * n_k * LINE
                    if s < direct:
                        source = of_right + places[3, j]
                    if not near:
                        pack_lines_apart(
                            strip, source, lines, of_right, places, right_offsets, of_columns, j, count,
                            n_k, lanes, size, n_k * size if strips == 1 else 0,
                        )  # fmt: skip
                    # columns of each line one after another; all of them whole cache lines
                    is_direct, is_streamed = (
                        True,
                        sizes[6] == 1 and n_k == sizes[2] and rows_are_lines,
                    )
                    for at in range(0, count, lanes):
                        is_streamed &= (to + places[2, j + at]) % LINE == 0
                        for c in range(j + at + 1, j + min(at + lanes, count)):
                            is_direct &= places[2, c] == places[2, c - 1] + size
                    i = 0
                    for band in range(bands):
                        if ahead < n_k:
                            for k in range(ahead, min(ahead + at_once, n_k)):
                                for x in range(after_lines):
                                    bring_near(after + places[5, k] + x * LINE)
                            ahead += at_once
                        height = (n_i - i + bands - band - 1) // (bands - band)
                        # rows of the next band, or the first ones of what is contracted next
                        for r in range(LATER):
                            if are_neighbours:
                                places[8, r] = places[1, i] + 2 * LINE
                            elif i + height < n_i:
                                places[8, r] = places[1, min(i + height + r, n_i - 1)]
                            else:
                                step = places[4, n_k - 1] - places[4, 0] + size
                                places[8, r] = places[1, min(r, n_i - 1)] + step
                        if is_direct:
                            multiply_strip(
                                strip, height, lines, to, to_rows, to_columns, j, of_left, of_rows, i,
                                left_offsets, source, right_offsets, s >= direct, n_k, count, adds,
                                is_streamed, later, fetches and not is_streamed,
                            )  # fmt: skip
                        else:
                            multiply_strip(
                                strip, height, lines, sums, sums_rows, sums_columns, 0, of_left,
                                of_rows + 8 * i, 0, left_offsets, source, right_offsets, s >= direct,
                                n_k, lines * lanes, False, False, later, False,
                            )  # fmt: skip
                            for r in range(height):
                                add_line(
                                    strip, to + places[0, i + r], places, j, count,
                                    sums + places[6, r], adds,
                                )  # fmt: skip
                        i += height


@part
def pack_lines_apart(
    strip: Any, to: int, lines: int, src: int, places: Any, offsets: int, columns: int, first: int,
    count: int, depth: int, lanes: int, size: int, ahead: int,
) -> None:  # fmt: skip
    """A strip whose columns do not lie one after another: those of a line may, and are read by rows."""
    for at in range(lines):
        c = first + at * lanes
        wide = min(lanes, count - at * lanes)
        run = True
        for x in range(c + 1, c + wide):
            run &= places[3, x] == places[3, x - 1] + size
        if run:
            pack_rows(
                strip, to + at * LINE, lines * LINE, 1, src + places[3, c], offsets, 0, depth, wide
            )
        else:
            pack_turned(
                strip,
                to + at * LINE,
                lines * LINE,
                src,
                places,
                columns,
                c,
                depth,
                lanes,
                size,
                ahead,
            )


@part
def pack_turned(
    strip: Any, to: int, pitch: int, src: int, places: Any, columns: int, first: int, depth: int,
    lanes: int, size: int, ahead: int,
) -> None:  # fmt: skip
    """One line of columns of a strip, which do not lie one after another: contracted elements that do are
    transposed in registers. The places are those of `multiply_tiles`, `columns` is the address of those of
    columns."""
    k = 0
    while k < depth:
        is_run = k + lanes <= depth
        if is_run:
            for c in range(1, lanes):
                is_run &= places[5, k + c] == places[5, k] + c * size
        if is_run:
            turn_lines(strip, to + k * pitch, pitch, src + places[5, k], columns, first, ahead)
            k += lanes
            continue
        for c in range(lanes):
            copy_element(
                strip, to + k * pitch + c * size, src + places[5, k] + places[3, first + c]
            )
        k += 1


@part
def add_line(
    like: Any, to: int, places: Any, first: int, count: int, sums: int, adds: bool
) -> None:
    """A row of a block of sums to where its columns lie."""
    size = like.itemsize
    for c in range(count):
        target = to + places[2, first + c]
        if adds:
            add_element(like, target, sums + c * size)
        else:
            copy_element(like, target, sums + c * size)

"""Products of real matrices, of which one operand is read where it lies; see `kernels.strips`.

out[b, i, j] = sum_k left[b, i, k] * right[b, k, j], where columns j are what lies one after another in the
result: `left` is lhs or rhs. What lies badly is copied first, where `plan_strips` of backend/strips.py says
so. Where a small result has long sums, shares of these are added up apart, and then their results. Scratch:
such copies and results; and for each thread, in a workspace that is kept, some strips of `right`, a block of
sums and tables of offsets.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..._base.options import num_threads
from ..blocked import part_of
from ..catalogue import DotDims
from ..cost_model import FAR
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, Shape
from ..strips import IN_TURN, LINE, PART, SHARE, STRIP_LINES, TILE, is_alone, share_length
from .address import address
from .buffers import LARGE, empty_as
from .kernels.strips import FEW, GROUP, NEAR, multiply_strips
from .move import move
from .strided import Axis, axis_table, element_strides, merge_axes, readable
from .threads import parallel_for
from .workspaces import WORKSPACES

# rows of a block of sums and lines of its columns, at most; see registers.py. Where blocks are smaller, tiles
# are whole in these all the same: bands of rows are as even there
HIGHEST, WIDEST = 7, STRIP_LINES
# bytes of the second cache of a core (Zen 4): more is brought near before its turn
OWN_CACHE = 1 << 20
TABLES = 9 * 8  # bytes for each place of the tables of offsets
LEAST = 1 << 17  # multiplications of a tile, at least, where tiles are cut for the sake of threads
EVEN = 1.25  # times an equal share, which a thread may have


class Prepared(NamedTuple):
    """What the kernel is given besides addresses, for some strides."""

    tiles: int
    scratch: int  # bytes
    places: int  # of one kind
    arguments: tuple[Any, ...]
    is_alone: bool


def bind_strips(
    dims: DotDims,
    inputs: tuple[ArraySpec, ...],
    output: ArraySpec,
    packs: tuple[bool, bool] = (False, False),
) -> Kernel:
    """A kernel for one `dot_general` of BLAS dtypes; it `packs` lhs or rhs first. Tables are kept for strides
    last seen."""
    dtype, is_turned = output.dtype, is_turned_in(dims, output)
    copies = tuple(
        _arranged(dims, inputs, output, side, is_left=(side == 0) != is_turned) if packed else None
        for side, packed in enumerate(packs)
    )
    odd = dtype.alignment - 1  # bits of an address at which no element lies
    kept: list[tuple[Any, Prepared | None]] = [(None, None)]
    shares = shares_of(dims)
    order = tuple(range(len(output.shape))) if output.layout is None else output.layout
    back = tuple(np.argsort(order))
    sums_shape = (shares, *(output.shape[axis] for axis in order))

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        target = empty_as(output) if out is None else out
        lhs, rhs = (
            x if copy is None else move(empty_as(copy), x)
            for x, copy in zip((lhs, rhs), copies, strict=True)
        )
        if shares == 1:
            return run_into(target, lhs, rhs)
        sums = np.empty(sums_shape, dtype)
        run_into(sums[0, ...].transpose(back), lhs, rhs)  # an array, of no axes perhaps, no number
        with np.errstate(all="ignore"):
            np.add.reduce(sums, axis=0, out=target.transpose(order))
        return target

    def run_into(target: Any, lhs: Any, rhs: Any) -> Any:
        """The result, or those of shares, which follow each other."""
        key = (num_threads(), target.strides, lhs.strides, rhs.strides)
        places = address(target), address(lhs), address(rhs)
        seen, now = kept[0]  # read once: another thread may put its own there at any time
        if now is None or seen != key or (places[0] | places[1] | places[2]) & odd:
            if element_strides(target) is None:
                np.copyto(target, run_on(empty_as(output), readable(lhs), readable(rhs)))
                return target
            return run_on(target, readable(lhs), readable(rhs))
        multiply(places, now)
        return target

    def run_on(target: Any, lhs: Any, rhs: Any) -> Any:
        """The same of arrays on elements, whose strides are new."""
        threads = num_threads()
        now = prepared(dims, is_turned, threads, target, lhs, rhs)
        kept[0] = ((threads, target.strides, lhs.strides, rhs.strides), now)
        multiply((address(target), address(lhs), address(rhs)), now)
        return target

    def multiply(places: tuple[int, int, int], now: Prepared) -> None:
        to, of_lhs, of_rhs = places
        addresses = (to, of_rhs, of_lhs) if is_turned else (to, of_lhs, of_rhs)

        def piece(start: int, stop: int) -> None:
            memory = WORKSPACES.take(now.scratch + TABLES * now.places)
            try:
                scratch = memory[: now.scratch].view(dtype)
                offsets = memory[now.scratch : now.scratch + TABLES * now.places].view(np.int64)
                tables = offsets.reshape(-1, now.places)
                multiply_strips(start, stop, *addresses, *now.arguments, scratch, tables)
            finally:
                WORKSPACES.give(memory)

        if now.is_alone:
            piece(0, now.tiles)
        else:
            parallel_for(piece, now.tiles)

    return run


def uses_threads(dims: DotDims, inputs: tuple[ArraySpec, ...], packs: tuple[bool, bool]) -> bool:
    """Whether several threads work for such a kernel, or for the copies of operands that it `packs`."""
    copied = sum(x.nbytes for x, packed in zip(inputs, packs, strict=True) if packed)
    return copied >= LARGE or not is_alone(dims.batch, dims.m, dims.n, dims.k)


def _arranged(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec, side: int, is_left: bool
) -> ArraySpec:
    """How lhs (side 0) or rhs (1) is copied: batches, then rows, each with its contracted elements, or
    contracted elements, each with its columns; rows and columns as they lie in the result."""
    order = range(len(output.shape)) if output.layout is None else output.layout
    n_batch, n_lhs = len(dims.lhs_batch), len(dims.lhs_batch + dims.lhs_free)
    batch, free, contracted, first = (
        (dims.lhs_batch, dims.lhs_free, dims.lhs_contracting, n_batch),
        (dims.rhs_batch, dims.rhs_free, dims.rhs_contracting, n_lhs),
    )[side]
    batches: Axes = tuple(batch[axis] for axis in order if axis < n_batch)
    own: Axes = tuple(free[axis - first] for axis in order if 0 <= axis - first < len(free))
    layout = batches + (own + contracted if is_left else contracted + own)
    return ArraySpec(inputs[side].dtype, inputs[side].shape, layout)


def strips_bytes(dims: DotDims, output: ArraySpec, threads: int) -> int:
    """Upper bound of the scratch of all threads, or fewer, and of results of shares: fewer have larger tiles,
    none larger than one has."""
    sizes = _sizes(dims, is_turned_in(dims, output), output.dtype.itemsize, threads=1)
    shares = shares_of(dims)
    lanes = LINE // output.dtype.itemsize
    of_threads = threads * (
        (_packed_lines(sizes, lanes) + HIGHEST * WIDEST) * LINE
        + TABLES * _places(sizes, lanes)
        + LINE
    )
    return of_threads + (shares * output.nbytes if shares > 1 else 0)


def scratch_of(dims: DotDims, output: ArraySpec, threads: int) -> tuple[int, int, int]:
    """For a product in turn: bytes for each thread and places of each table, at most, and tiles."""
    is_turned, itemsize = is_turned_in(dims, output), output.dtype.itemsize
    sizes = _sizes(dims, is_turned, itemsize, 1, in_turn=True)
    lanes = LINE // itemsize
    m, n, _, rows, columns, _ = _sizes(dims, is_turned, itemsize, threads, in_turn=True)
    tiles = dims.batch * -(-m // rows) * -(-n // columns) * shares_of(dims, IN_TURN)
    return (_packed_lines(sizes, lanes) + HIGHEST * WIDEST) * LINE, _places(sizes, lanes), tiles


def shares_of(dims: DotDims, share: int = SHARE) -> int:
    """Of the contracted elements, each added up apart."""
    return -(-dims.k // share_length(dims.batch, dims.m, dims.n, dims.k, share))


def is_turned_in(dims: DotDims, output: ArraySpec) -> bool:
    """Whether rows of the result are what the kernel takes for columns: what lies one after another."""
    order = range(len(output.shape)) if output.layout is None else output.layout
    last = next((axis for axis in reversed(order) if output.shape[axis] > 1), -1)
    return 0 <= last - len(dims.lhs_batch) < len(dims.lhs_free)


def prepared(
    dims: DotDims,
    is_turned: bool,
    threads: int,
    out: Any,
    lhs: Any,
    rhs: Any,
    in_turn: bool = False,
) -> Prepared:
    """For arrays with these strides; `in_turn` as `plan_strips` says."""
    share = IN_TURN if in_turn else SHARE
    sizes = _sizes(dims, is_turned, out.itemsize, threads, in_turn)
    m, n, _, rows, columns, _ = sizes
    tiles = dims.batch * -(-m // rows) * -(-n // columns) * shares_of(dims, share)
    tables = _tables(dims, is_turned, out, lhs, rhs)
    length = share_length(dims.batch, dims.m, dims.n, dims.k, share)
    parts = 2 if out.dtype.kind == "c" else 1
    lanes = LINE // out.itemsize
    packed = (
        0 if _are_read_in_place(sizes, tables[2], out.itemsize) else _packed_lines(sizes, lanes)
    )
    scratch = (packed + HIGHEST * WIDEST) * LINE
    right = lhs if is_turned else rhs
    settings = np.array(
        [*sizes, out.nbytes >= FAR, parts, length, out.nbytes, packed * LINE, right.nbytes > OWN_CACHE,
         out.nbytes > OWN_CACHE]
    )  # fmt: skip
    one = is_alone(dims.batch, dims.m, dims.n, dims.k)
    return Prepared(tiles, scratch, _places(sizes, lanes), (*tables, settings), one)


def _sizes(
    dims: DotDims, is_turned: bool, itemsize: int, threads: int, in_turn: bool = False
) -> Shape:
    """What the kernel calls `sizes`: m, n, k, rows and columns of a tile, contracted elements of a strip."""
    m, n, k = (dims.n, dims.m, dims.k) if is_turned else (dims.m, dims.n, dims.k)
    if in_turn:
        is_cut, least = shares_of(dims, IN_TURN) == 1, IN_TURN
    else:
        is_cut, least = shares_of(dims) == 1 and not is_alone(dims.batch, m, n, k), LEAST
    width = WIDEST * (LINE // itemsize)
    rows, columns = strip_tile(dims.batch, m, n, k, width, threads if is_cut else 1, least)
    return m, n, k, rows, columns, min(PART, k)


def strip_tile(
    batch: int, m: int, n: int, k: int, width: int, threads: int, fewest: int = LEAST
) -> tuple[int, int]:
    """Rows and columns of the tiles of a product in strips of that width: as few tiles as give no thread much
    more than an equal share, else those that come nearest. They change no sum.

    A tile packs strips of its columns for itself, so that as few as can be lie below each other.
    """
    down, across = -(-m // TILE[0]), -(-n // TILE[1])
    tiles = batch * down * across
    most = max(1, min(threads, batch * m * n * k // (fewest * tiles)))
    best, least = (0, 0), math.inf
    for parts in range(1, most + 1):
        for by_rows in range(1, parts + 1):
            if parts % by_rows:
                continue
            rows = part_of(m, down * by_rows, HIGHEST)
            columns = part_of(n, across * (parts // by_rows), width)
            turns = -(-batch * -(-m // rows) * -(-n // columns) // threads)
            share = turns * rows * columns
            if share < least:
                best, least = (rows, columns), share
            if share * threads <= EVEN * batch * m * n:
                return rows, columns
    return best


def _packed_lines(sizes: Shape, lanes: int) -> int:
    """Of strips that are packed together."""
    return min(GROUP * WIDEST, -(-sizes[4] // lanes)) * sizes[5]


def _are_read_in_place(sizes: Shape, columns: Any, itemsize: int) -> bool:
    """Whether the kernel packs no strip: columns lie one after another, in whole lines, and few together."""
    n_axes = columns.shape[1]
    near = n_axes == 0 or (n_axes == 1 and columns[2, 0] == itemsize)
    is_little = sizes[3] <= FEW or sizes[4] * sizes[5] * itemsize <= NEAR
    return near and is_little and sizes[1] * itemsize % LINE == 0 == sizes[4] * itemsize % LINE


def _places(sizes: Shape, lanes: int) -> int:
    """Most rows, columns with a line beyond the edge or of a block of sums, or contracted elements."""
    return max(HIGHEST, WIDEST * lanes, sizes[3], sizes[4] + lanes, sizes[5])


def _tables(dims: DotDims, is_turned: bool, out: Any, lhs: Any, rhs: Any) -> tuple[Any, ...]:
    """Sizes and strides of batch axes, rows, columns and contracted axes, in bytes.

    Rows and columns are walked as they lie in the result; contracted elements as in the operand with the
    columns, if they are neighbours there, else as in the other.
    """
    to, left, right = out.strides, lhs.strides, rhs.strides
    n_batch, n_left = len(dims.lhs_batch), len(dims.lhs_batch + dims.lhs_free)
    batch = [
        (lhs.shape[i], to[axis], left[i], right[j])
        for axis, (i, j) in enumerate(zip(dims.lhs_batch, dims.rhs_batch, strict=True))
    ]
    rows: list[Axis] = [
        (lhs.shape[i], to[axis], left[i]) for axis, i in enumerate(dims.lhs_free, n_batch)
    ]
    columns: list[Axis] = [
        (rhs.shape[j], to[axis], right[j]) for axis, j in enumerate(dims.rhs_free, n_left)
    ]
    pairs = zip(dims.lhs_contracting, dims.rhs_contracting, strict=True)
    contracted: list[Axis] = [(lhs.shape[i], left[i], right[j]) for i, j in pairs]
    if is_turned:
        batch = [(n, x, z, y) for n, x, y, z in batch]
        rows, columns = columns, rows
        contracted = [(n, y, x) for n, x, y in contracted]
    is_near = any(abs(axis[2]) == out.itemsize and axis[0] > 1 for axis in contracted)
    contracted.sort(key=lambda axis: -abs(axis[2 if is_near else 1]))
    rows, columns = (sorted(axes, key=lambda axis: -abs(axis[1])) for axes in (rows, columns))
    groups = (merge_axes(axes) for axes in (rows, columns, contracted))
    return axis_table(merge_axes(batch), 3), *map(axis_table, groups)

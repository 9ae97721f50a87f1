"""Which products go to tiles of our own, and what launches them.

They were measured on one card, an H200, against cuBLAS there, and go to cards of that capability alone:
speeds are of that card, the number of multiprocessors is asked for. Others of that capability may have less
arithmetic or memory for each: nothing was measured there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..rules import DotDims
from ..spec import Axes
from .arrays import element_strides
from .blas import PRECISIONS, Multiply
from .cuda.apart import PANEL, apart
from .cuda.groups import FEATURES
from .cuda.layout import row_major
from .cuda.pieces import Way, pieces, way_of
from .cuda.thin import BLOCKS, MOST_TERMS, TILES, in_tiles, thin
from .cuda.thin import Axes as Group
from .launch import Card, can_start, card_of, has_features, launcher
from .memory import address, memory
from .modules import Array, Module
from .move import contiguous

CAPABILITY = 90
PART = 8  # of a card's memory that pieces may take: that much, by sizes alone, or none are kept
TILES_EACH = 8  # of a block, so that the last of them keep few blocks waiting
MULTIPLIED = 1.1 * MOST_TERMS
"""Multiplications for each number of the result in tiles that are partly behind its ends: those that were
measured, and a tenth."""
BLAS_SPEED = 43e12 / 132
"""Operations on float32 that cuBLAS did in a second on each multiprocessor of an H200 (41 to 51e12 on all),
those behind the last row and column of its tiles included."""
COPY_SPEED = 1.5e12  # bytes that are copied in a second, each read and written
CALL = 3e-6  # seconds of a launch, and of a copy besides
AHEAD = 0.9  # pieces must be this much sooner than cuBLAS, by what is estimated
DENSE = 8  # numbers side by side: what memory gives at a time
COUNTED = 1 << 30
"""Most terms in pieces, whose numbers are of 32 bits in the kernel; only broadcast ones are so many."""
WORTH_IT = 1 << 30  # operations of a product below which nobody looks


def is_thin(xp: Module, dims: DotDims, dtype: Any, precision: str, lhs: Array, rhs: Array) -> bool:
    """Whether few terms go to tiles: many of these, with few multiplications in vain, of operands in which
    something lies side by side."""
    name = dtype.name
    if dims.k > MOST_TERMS or name not in TILES:
        return False
    card = card_of(xp)
    if card.capability != CAPABILITY or (name == "float32" and precision in PRECISIONS):
        return False
    work = in_tiles(name, dims.batch, dims.m, dims.n, dims.k)
    return (
        work.tiles >= TILES_EACH * BLOCKS * card.processors
        and work.multiplications <= MULTIPLIED * dims.batch * dims.m * dims.n
        and _is_dense_somewhere(lhs, dims.lhs_free + dims.lhs_contracting)
        and _is_dense_somewhere(rhs, dims.rhs_free + dims.rhs_contracting)
    )


def in_thin(
    xp: Module, dims: DotDims, dtype: Any, precision: str, lhs: Array, rhs: Array
) -> Multiply | None:
    """None where an operand lies between elements, or a block has too little shared memory."""
    strides, card = (element_strides(lhs), element_strides(rhs)), card_of(xp)
    if None in strides:
        return None
    summed = tuple(zip(dims.lhs_contracting, dims.rhs_contracting, strict=True))
    groups = _groups(dims, lhs, rhs, strides, summed)
    is_plain = precision == "ieee"
    kernel = thin(dtype.name, *groups, BLOCKS * card.processors, is_plain)
    if kernel is not None and kernel.features and not can_start(xp, kernel):
        kernel = thin(dtype.name, *groups, BLOCKS * card.processors, is_plain=True)
    if kernel is None or kernel.shared > card.shared_memory:
        return None
    start = launcher(xp, kernel)
    return lambda lhs, rhs, out: start(out, lhs, rhs)


def may_be_in_pieces(dims: DotDims, dtype: Any, precision: str) -> bool:
    """Whether it is worth looking at the operands: those of all other products are looked at as before."""
    operations = 2 * dims.batch * dims.m * dims.n * dims.k
    is_float = dtype == np.float32 and precision == "full"
    return is_float and operations >= WORTH_IT and MOST_TERMS < dims.k <= COUNTED


def is_in_pieces(xp: Module, dims: DotDims, to_copy: int, lhs: Array, rhs: Array) -> bool:
    """Whether float32 is multiplied in pieces, by what that and cuBLAS are likely to take.

    Args:
        to_copy: bytes that would be copied for cuBLAS.
    """
    card = card_of(xp)
    if card.capability != CAPABILITY or not has_features(xp, FEATURES):
        return False
    _, seconds = _way(xp, dims)
    seconds += _copying(_lying(dims, lhs, rhs).to_copy)
    covered = 2 * dims.batch * _in_blas(dims.m) * _in_blas(dims.n) * dims.k
    by_blas = covered / (BLAS_SPEED * card.processors)
    return seconds < AHEAD * (by_blas + CALL + _copying(to_copy))


def _way(xp: Module, dims: DotDims) -> tuple[Way, float]:
    sizes = (dims.batch, dims.m, dims.n, dims.k)
    return way_of(*sizes, card_of(xp).processors, memory(xp) // PART)


def _copying(nbytes: int) -> float:
    return nbytes / COPY_SPEED + CALL if nbytes else 0.0


Groups = tuple[Group, Group, Group, Group]
"""Axes of the batch, rows, columns and terms."""


class Lying(NamedTuple):
    """How operands are read in pieces.

    Attributes:
        to_copy: bytes that are copied first.
        summed: pairs of contracted axes, in the order of terms.
        orders: axes of each operand in the order in which it is copied, None where it stays.
    """

    to_copy: int
    summed: tuple[tuple[int, int], ...]
    orders: tuple[Axes | None, Axes | None]


def _lying(dims: DotDims, lhs: Array, rhs: Array) -> Lying:
    """Terms are read in the order in which they lie in either operand. In each, terms or else rows (columns)
    that are neighbours must lie side by side, or it is copied: read from all over the memory it would take
    longer by far."""
    pairs = list(zip(dims.lhs_contracting, dims.rhs_contracting, strict=True))
    sides = ((lhs, dims.lhs_batch, dims.lhs_free), (rhs, dims.rhs_batch, dims.rhs_free))
    found = []
    for side in (0, 1):
        strides = sides[side][0].strides
        order = sorted(pairs, key=lambda pair: -abs(strides[pair[side]]))
        to_copy, orders = 0, []
        for k, (x, batch, free) in enumerate(sides):
            terms = tuple(pair[k] for pair in order)
            lies = _is_dense(x, terms) or _is_dense(x, free)
            to_copy += 0 if lies else int(x.nbytes)
            orders.append(None if lies else (*batch, *free, *terms))
        found.append(Lying(to_copy, tuple(order), (orders[0], orders[1])))
    return min(found, key=lambda one: one.to_copy)


def _is_dense(x: Array, axes: Axes) -> bool:
    """Whether some numbers lie side by side, or backwards, along axes that are walked in this order."""
    run, step = 1, 0
    for axis in reversed(axes):
        n, stride = x.shape[axis], x.strides[axis]
        if n == 1:
            continue
        if run == 1:
            step = stride
        elif stride != step * run:
            break
        run *= n
    return abs(step) == x.itemsize and run >= DENSE


def _in_blas(n: int) -> int:
    """Rows or columns of tiles of cuBLAS that cover n."""
    return -(-n // 32) * 32 if n <= 64 else -(-n // 128) * 128


def in_pieces(
    xp: Module, dims: DotDims, lhs: Array, rhs: Array, otherwise: Multiply
) -> Multiply | None:
    """None where an operand lies between elements, or a block has too little shared memory. Where kernels
    cannot be loaded `otherwise` multiplies."""
    found, card = (element_strides(lhs), element_strides(rhs)), card_of(xp)
    if None in found:
        return None
    lying = _lying(dims, lhs, rhs)
    strides = tuple(
        has if order is None else _row_major(x, order)
        for x, has, order in zip((lhs, rhs), found, lying.orders, strict=True)
    )
    groups = _groups(dims, lhs, rhs, strides, lying.summed)
    way, _ = _way(xp, dims)
    found_run = (_taking_apart if way.is_apart else _in_one)(xp, groups, way, card)
    if found_run is None:
        return None
    run: Run = found_run

    def multiply(lhs: Array, rhs: Array, out: Array) -> None:
        left, right = (
            x if order is None else contiguous(xp, x.transpose(order))
            for x, order in zip((lhs, rhs), lying.orders, strict=True)
        )
        target = out if way.parts == 1 else xp.empty((way.parts, *out.shape), out.dtype)
        if not run(target, left, right):
            otherwise(lhs, rhs, out)
        elif way.parts > 1:
            xp.sum(target, axis=0, out=out)

    return multiply


Run = Callable[[Array, Array, Array], bool]
"""`run(out, lhs, rhs)`: False where it could not."""


def _in_one(xp: Module, groups: Groups, way: Way, card: Card) -> Run | None:
    """One launch, which takes numbers apart as it multiplies. Where operands begin may differ from call to
    call, and the kernel with it."""
    kernels = {
        begin: pieces(*groups, way, card.processors, begin)
        for begin in ((True, True), (True, False), (False, True), (False, False))
    }
    if any(kernel.shared > card.shared_memory for kernel in kernels.values()):
        return None
    starts: dict[tuple[bool, bool], Callable[..., None]] = {}

    def run(out: Array, lhs: Array, rhs: Array) -> bool:
        begin = address(lhs) % 16 == 0, address(rhs) % 16 == 0
        start = starts.get(begin)
        if start is None:
            if not can_start(xp, kernels[begin]):
                return False
            start = starts[begin] = launcher(xp, kernels[begin])
        start(out, *((rhs, lhs) if way.swaps else (lhs, rhs)))
        return True

    return run


def _taking_apart(xp: Module, groups: Groups, way: Way, card: Card) -> Run | None:
    """Four launches, of which the first two take numbers apart."""
    made = apart(*groups, way, card.processors)
    if made.multiply.shared > card.shared_memory:
        return None
    known: list[tuple[Callable[..., None], ...]] = []

    def run(out: Array, lhs: Array, rhs: Array) -> bool:
        if not known:
            if not can_start(xp, made.multiply):
                return False
            known.append(tuple(launcher(xp, kernel) for kernel in made.kernels))
        take_left, take_right, multiply, again = known[0]
        left, right = (rhs, lhs) if way.swaps else (lhs, rhs)
        panels = [xp.empty(count * PANEL, np.uint8) for count in made.panels]
        tiny = [xp.empty(count, np.int32) for count in made.panels]
        state = xp.empty(made.states, np.int32)
        take_left(panels[0], tiny[0], left)
        take_right(panels[1], tiny[1], right)
        multiply(out, state, *panels)
        again(out, state, *tiny, left, right)
        return True

    return run


def _row_major(x: Array, order: Axes) -> tuple[int, ...]:
    """Strides of the axes of x in a copy that has them in this order."""
    strides = row_major(tuple(x.shape[axis] for axis in order))
    return tuple(strides[order.index(axis)] for axis in range(x.ndim))


def _groups(
    dims: DotDims, lhs: Array, rhs: Array, strides: Any, summed: Sequence[tuple[int, int]]
) -> Groups:
    """Axes of the batch, rows, columns and terms with their strides in both operands."""
    left, right = strides

    def axes(of_lhs: Axes, of_rhs: Axes) -> Group:
        shape = [lhs.shape[a] for a in of_lhs] or [rhs.shape[b] for b in of_rhs]
        none = (0,) * len(shape)
        return (
            tuple(shape),
            tuple(left[a] for a in of_lhs) or none,
            tuple(right[b] for b in of_rhs) or none,
        )

    return (
        axes(dims.lhs_batch, dims.rhs_batch),
        axes(dims.lhs_free, ()),
        axes((), dims.rhs_free),
        axes(tuple(i for i, _ in summed), tuple(j for _, j in summed)),
    )


def _is_dense_somewhere(x: Array, axes: Axes) -> bool:
    return any(abs(x.strides[axis]) == x.itemsize for axis in axes if x.shape[axis] != 1)

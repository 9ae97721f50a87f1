"""Which products go to tiles of our own, and what launches them.

They were measured on one sort of card, against cuBLAS there, and go to no other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..rules import DotDims
from ..spec import Axes
from .arrays import element_strides
from .blas import Multiply
from .cuda.pieces import FEATURES, pieces, way_of
from .cuda.thin import BLOCKS, MOST_TERMS, TILES, Axes as Group, in_tiles, thin
from .launch import card_of, has_features, launcher
from .memory import address
from .modules import Array, Module

CAPABILITY = 90
TILES_EACH = 8  # of a block, so that the last of them keep few blocks waiting
MULTIPLIED = 1.1 * MOST_TERMS
"""Multiplications for each number of the result in tiles that are partly behind its ends: those that were
measured, and a tenth."""
BLAS_SPEED = 43e12
"""Operations on float32 that cuBLAS did in a second on an H200 (41 to 51e12), those behind the last row and column of its
tiles included."""
COPY_SPEED = 1.5e12  # bytes that are copied in a second, each read and written
CALL = 3e-6  # seconds of a launch, and of a copy besides
AHEAD = 0.9  # pieces must be this much sooner than cuBLAS, by what is estimated
WORTH_IT = 1 << 30  # operations of a product below which nobody looks


def is_thin(xp: Module, dims: DotDims, dtype: Any, precision: str, lhs: Array, rhs: Array) -> bool:
    """Whether few terms go to tiles: many of these, with few multiplications in vain, of operands in which
    something lies side by side."""
    name = dtype.name
    if dims.k > MOST_TERMS or name not in TILES:
        return False
    card = card_of(xp)
    if card.capability != CAPABILITY or (name == "float32" and precision in ROUNDED):
        return False
    work = in_tiles(name, dims.batch, dims.m, dims.n, dims.k)
    return (
        work.tiles >= TILES_EACH * BLOCKS * card.processors
        and work.multiplications <= MULTIPLIED * dims.batch * dims.m * dims.n
        and _is_dense_somewhere(lhs, dims.lhs_free + dims.lhs_contracting)
        and _is_dense_somewhere(rhs, dims.rhs_free + dims.rhs_contracting)
    )


ROUNDED = ("tf32", "bfloat16")  # what cuBLAS is asked for


def in_thin(xp: Module, dims: DotDims, dtype: Any, lhs: Array, rhs: Array) -> Multiply | None:
    """None where an operand lies between elements, or a block has too little shared memory."""
    groups, card = _groups(dims, lhs, rhs), card_of(xp)
    if groups is None:
        return None
    kernel = thin(dtype.name, *groups, BLOCKS * card.processors)
    if kernel is None or kernel.shared > card.shared_memory:
        return None
    start = launcher(xp, kernel)
    return lambda lhs, rhs, out: start(out, lhs, rhs)


def is_in_pieces(
    xp: Module, dims: DotDims, dtype: Any, precision: str, to_copy: int, lhs: Array, rhs: Array
) -> bool:
    """Whether float32 is multiplied in pieces.

    Args:
        to_copy: bytes that would be copied for cuBLAS.
    """
    operations = 2 * dims.batch * dims.m * dims.n * dims.k
    if dtype != np.float32 or precision != "full" or operations < WORTH_IT or dims.k <= MOST_TERMS:
        return False
    card = card_of(xp)
    if card.capability != CAPABILITY or not has_features(xp):
        return False
    _, seconds = way_of(dims.batch, dims.m, dims.n, dims.k, card.processors)
    otherwise = 2 * dims.batch * _in_blas(dims.m) * _in_blas(dims.n) * dims.k / BLAS_SPEED + CALL
    if to_copy:
        otherwise += to_copy / COPY_SPEED + CALL
    return (
        seconds < AHEAD * otherwise
        and _is_dense_somewhere(lhs, dims.lhs_free + dims.lhs_contracting)
        and _is_dense_somewhere(rhs, dims.rhs_free + dims.rhs_contracting)
    )


def _in_blas(n: int) -> int:
    """Rows or columns of tiles of cuBLAS that cover n."""
    return -(-n // 32) * 32 if n <= 64 else -(-n // 128) * 128


def in_pieces(xp: Module, dims: DotDims, lhs: Array, rhs: Array) -> Multiply | None:
    """None where an operand lies between elements, or a block has too little shared memory. Where operands begin
    may differ from call to call."""
    groups, card = _groups(dims, lhs, rhs), card_of(xp)
    if groups is None:
        return None
    way, _ = way_of(dims.batch, dims.m, dims.n, dims.k, card.processors)
    kernels = {
        begin: pieces(*groups, way, card.processors, begin)
        for begin in ((True, True), (True, False), (False, True), (False, False))
    }
    if any(kernel.shared > card.shared_memory for kernel in kernels.values()):
        return None
    starts = {begin: launcher(xp, kernel) for begin, kernel in kernels.items()}

    def multiply(lhs: Array, rhs: Array, out: Array) -> None:
        target = out if way.parts == 1 else xp.empty((way.parts, *out.shape), out.dtype)
        start = starts[address(lhs) % 16 == 0, address(rhs) % 16 == 0]
        start(target, *((rhs, lhs) if way.swaps else (lhs, rhs)))
        if way.parts > 1:
            xp.sum(target, axis=0, out=out)

    return multiply


def _groups(dims: DotDims, lhs: Array, rhs: Array) -> tuple[Group, Group, Group, Group] | None:
    """Axes of the batch, rows, columns and terms with their strides in both operands."""
    left, right = element_strides(lhs), element_strides(rhs)
    if left is None or right is None:
        return None

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
        axes(dims.lhs_contracting, dims.rhs_contracting),
    )


def _is_dense_somewhere(x: Array, axes: Axes) -> bool:
    return any(abs(x.strides[axis]) == x.itemsize for axis in axes if x.shape[axis] != 1)

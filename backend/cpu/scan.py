"""Inclusive scans: running sums, products, largest and smallest elements along one axis.

Lines that lie side by side are scanned abreast. Where there are few and long lines, they are cut into blocks:
what each block comes to is found first, then each is scanned from what is before it. How lines are cut
depends on shapes and strides, not on the number of threads.

Sums and products of half and single precision run in double precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._base.options import get_options
from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec
from .accumulators import UFUNCS, accumulator
from .buffers import empty
from .kernels.scan import scan_extremes, scan_sums
from .picking import Flat
from .strided import Axis, axis_table, element_strides, flat, merge_axes
from .threads import parallel_for

PIECE = 512  # lines that are scanned abreast
BLOCK = 1 << 15  # elements of a line in a block
MANY = 32  # tiles from which threads have enough of them without blocks
SCANNED = frozenset("?bBhHiIlLqQfdFD")  # dtype characters that a kernel scans

EXTREME = {"sum": "max", "prod": "min", "max": "max", "min": "min"}


def bind_scan(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis, op = attrs["axis"], f"reduce_{attrs['kind']}"
    ufunc = UFUNCS[op, "logical" if output.dtype.kind == "b" else ""]
    wide = accumulator(op, output.dtype)

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        if x.dtype.name in ("float16", "bfloat16"):
            x = x.astype(np.float32)
        result = out if out.dtype == x.dtype else empty(out.shape, x.dtype)
        with np.errstate(all="ignore"):
            if not _scanned(result, x, axis, attrs["kind"], wide):
                result = ufunc.accumulate(x, axis=axis, dtype=wide)
            if result is not out:
                np.copyto(out, result, casting="unsafe")
        return out

    return run


def scan_scratch_bytes(x: ArraySpec, axis: int) -> int:
    """Half precisions widened, a wider result of NumPy's, or what blocks come to."""
    wide = max(8, x.dtype.itemsize)
    halves = 12 * x.size if x.dtype.itemsize == 2 else 0
    if x.size < get_options().small or x.dtype.char not in SCANNED:
        return halves + wide * x.size
    return halves + 16 * (x.size // max(1, min(BLOCK, x.shape[axis])) + PIECE)


def _scanned(out: Any, x: Any, axis: int, kind: str, wide: np.dtype[Any]) -> bool:
    """Whether compiled kernels did it."""
    if x.size < max(1, get_options().small) or x.dtype.char not in SCANNED:
        return False
    sums = kind in ("sum", "prod") and x.dtype.kind != "b"
    dtype = np.dtype(np.uint8) if x.dtype.kind == "b" else x.dtype
    if sums and dtype.kind == "i":
        dtype = np.dtype(f"u{dtype.itemsize}")
    dst, src = _flat(out, dtype, True), _flat(x, dtype)
    if dst is None or src is None:
        return False
    kind = kind if sums else EXTREME[kind]  # sums of bool are or, products are and
    tiles = _Tiles(
        dst, src, x.shape, axis, _start(kind, wide if sums and dtype.kind in "fc" else dtype)
    )
    kernel, flag = (scan_sums, kind == "prod") if sums else (scan_extremes, kind == "min")

    def piece(totals: bool) -> Any:
        def run(start: int, stop: int) -> None:
            kernel(start, stop, *tiles.arguments, flag, totals)

        return run

    if tiles.blocks > 1:
        parallel_for(piece(True), tiles.count)
        tiles.carry_on(UFUNCS[f"reduce_{kind}", ""])
    parallel_for(piece(False), tiles.count)
    return True


class _Tiles:
    """Pieces of lines side by side, blocks along them, and what is before each block."""

    def __init__(self, dst: Flat, src: Flat, shape: tuple[int, ...], axis: int, first: Any) -> None:
        axes: list[Axis] = [
            (n, dst.strides[d], src.strides[d]) for d, n in enumerate(shape) if d != axis
        ]
        axes = merge_axes(sorted(axes, key=lambda one: -abs(one[1])))
        n, to, of = shape[axis], dst.strides[axis], src.strides[axis]
        lane = axes.pop() if axes and abs(axes[-1][1]) < abs(to) else (1, 0, 0)
        piece = min(PIECE, lane[0])
        pieces, others = -(-lane[0] // piece), math.prod(one[0] for one in axes)
        self.blocks = -(-n // BLOCK) if pieces * others < MANY else 1
        block = BLOCK if self.blocks > 1 else n
        outer = [
            (pieces, piece * lane[1], piece * lane[2]),
            (self.blocks, block * to, block * of),
            *axes,
        ]
        self.count = pieces * self.blocks * others
        self.first = first
        self.carry = np.full((self.count if self.blocks > 1 else 1, piece), first)
        self.by_block = (pieces, self.blocks, others * piece)
        self.arguments = (
            dst.buffer,
            src.buffer,
            np.array((dst.origin, src.origin)),
            axis_table(outer),
            np.array(lane),
            piece,
            np.array((n, to, of)),
            block,
            self.carry,
            int(self.blocks > 1),
        )

    def carry_on(self, ufunc: Any) -> None:
        """From what blocks come to, to what is before them."""
        totals = self.carry.reshape(self.by_block)
        totals[:, 1:] = ufunc.accumulate(totals[:, :-1], axis=1, dtype=totals.dtype)
        totals[:, 0] = self.first


def _flat(x: Any, dtype: np.dtype[Any], writeable: bool = False) -> Flat | None:
    strides = element_strides(x) if x.dtype.isnative else None
    if strides is None:
        return None
    buffer, origin = flat(x.view(dtype), writeable)
    return Flat(buffer, origin, strides)


def _start(kind: str, dtype: np.dtype[Any]) -> Any:
    """What changes no element."""
    if kind in ("sum", "prod"):
        return dtype.type(kind == "prod")
    if dtype.kind == "f":
        return dtype.type(-np.inf if kind == "max" else np.inf)
    info: Any = np.iinfo(dtype)
    return dtype.type(info.min if kind == "max" else info.max)

"""Inclusive scans: running sums, products, largest and smallest elements along one axis.

Lines that lie side by side are scanned abreast. Where there are few and long lines, they are cut into blocks:
what each block comes to is found first, then each is scanned from what is before it. Products are never
cut, since what a block comes to may be out of range where no running product is. Sums of floats are only
where everything that blocks come to is finite, and where they are cut depends on the shape alone. Bits
depend neither on strides nor on the number of threads.

Sums and products of half and single precision run in double precision, and are rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._base.options import get_options, num_threads
from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec
from .accumulators import UFUNCS, accumulator
from .buffers import empty
from .kernels.scan import scan_extremes, scan_products, scan_sums
from .picking import Flat
from .strided import Axis, axis_table, element_strides, flat, merge_axes
from .threads import parallel_for

PIECE = 512  # lines that are scanned abreast
BLOCK = 1 << 15  # elements of a line in a block
ENOUGH = 4  # tiles for each thread, beyond which it is no matter that some have one more
FEW = 5  # lines from which sums of floats are not cut
NARROW = 32  # lines abreast that keep threads out of each other's cache lines
SCANNED = frozenset("?bBhHiIlLqQfdFD")  # dtype characters that a kernel scans

EXTREME = {"sum": "max", "prod": "min", "max": "max", "min": "min"}


def bind_scan(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    axis, op = attrs["axis"], f"reduce_{attrs['kind']}"
    ufunc = UFUNCS[op, "logical" if output.dtype.kind == "b" else ""]
    wide = accumulator(op, output.dtype)
    is_half = inputs[0].dtype.name in ("float16", "bfloat16")  # a name is made anew when asked for

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        if is_half:
            x = x.astype(np.float32)
            result = empty(out.shape, wide)
        else:
            result = out
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
    adds = kind in ("sum", "prod") and x.dtype.kind != "b"
    read, written = _unsigned(x.dtype, adds), _unsigned(out.dtype, adds)
    dst, src = _flat(out, written, True), _flat(x, read)
    if dst is None or src is None:
        return False
    kind = kind if adds else EXTREME[kind]  # sums of bool are or, products are and
    first = _start(kind, wide if adds and read.kind in "fc" else read)
    if kind == "prod":
        _multiply(_Tiles(dst, src, x.shape, axis, first, WHOLE))
    elif kind == "sum" and read.kind in "fc":
        if not _run(_Tiles(dst, src, x.shape, axis, first, ALONE), kind):
            _run(_Tiles(dst, src, x.shape, axis, first, WHOLE), kind)
    else:
        _run(_Tiles(dst, src, x.shape, axis, first, ABREAST), kind)
    return True


def _multiply(tiles: _Tiles) -> None:
    def run(start: int, stop: int) -> None:
        scan_products(start, stop, *tiles.arguments[:7], tiles.carry)

    parallel_for(run, tiles.count)


def _run(tiles: _Tiles, kind: str) -> bool:
    """False, and nothing is written, if what blocks come to is not finite."""
    kernel, flags = (scan_sums, ()) if kind == "sum" else (scan_extremes, (kind == "min",))

    def piece(totals: bool) -> Any:
        def run(start: int, stop: int) -> None:
            kernel(start, stop, *tiles.arguments, *flags, totals)

        return run

    if tiles.blocks > 1:
        parallel_for(piece(True), tiles.count)
        if not tiles.carry_on(UFUNCS[f"reduce_{kind}", ""]) and kind == "sum":
            return False
    parallel_for(piece(False), tiles.count)
    return True


def _unsigned(dtype: np.dtype[Any], adds: bool) -> np.dtype[Any]:
    """What kernels take for a dtype: bool is a byte, and integers that are added wrap around."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(f"u{dtype.itemsize}") if adds and dtype.kind == "i" else dtype


WHOLE, ALONE, ABREAST = "whole", "alone", "abreast"
"""Lines are not cut; are cut one by one, if they are few; are cut abreast, if tiles are few."""


class _Tiles:
    """Pieces of lines side by side, blocks along them, and what is before each block."""

    def __init__(
        self, dst: Flat, src: Flat, shape: tuple[int, ...], axis: int, first: Any, cut: str
    ) -> None:
        axes: list[Axis] = [
            (n, dst.strides[d], src.strides[d]) for d, n in enumerate(shape) if d != axis
        ]
        axes = merge_axes(sorted(axes, key=lambda one: -abs(one[1])))
        n, to, of = shape[axis], dst.strides[axis], src.strides[axis]
        cuts = n > BLOCK and math.prod(one[0] for one in axes) < FEW and cut == ALONE
        lane: Axis = (1, 0, 0)
        if not cuts and axes and abs(axes[-1][1]) < abs(to):
            lane = axes.pop()
        others = math.prod(one[0] for one in axes)
        threads = num_threads()
        shared = min(-(-lane[0] // NARROW), -(-threads // others))
        piece = -(-lane[0] // max(1, shared, -(-lane[0] // PIECE)))
        pieces = -(-lane[0] // max(1, piece))
        tiles = pieces * others
        cuts = cuts or (cut == ABREAST and tiles % threads > 0 and tiles < ENOUGH * threads)
        self.blocks = -(-n // BLOCK) if cuts else 1
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

    def carry_on(self, ufunc: Any) -> bool:
        """From what blocks come to, to what is before them; whether all of it is finite."""
        totals = self.carry.reshape(self.by_block)
        ufunc.accumulate(totals, axis=1, dtype=totals.dtype, out=totals)
        finite = bool(np.isfinite(totals).all())
        totals[:, 1:] = totals[:, :-1].copy()
        totals[:, 0] = self.first
        return finite


def _flat(x: Any, dtype: np.dtype[Any], writeable: bool = False) -> Flat | None:
    strides = element_strides(x) if x.dtype.isnative else None
    if strides is None:
        return None
    buffer, origin = flat(x.view(dtype), writeable)
    return Flat(buffer, origin, strides)


def _start(kind: str, dtype: np.dtype[Any]) -> Any:
    """What changes no element: -0.0 + x is x for 0.0 too."""
    if kind == "prod":
        return dtype.type(1)
    if kind == "sum":
        return dtype.type(complex(-0.0, -0.0) if dtype.kind == "c" else -0.0)
    if dtype.kind == "f":
        return dtype.type(-np.inf if kind == "max" else np.inf)
    info: Any = np.iinfo(dtype)
    return dtype.type(info.min if kind == "max" else info.max)

"""Upper bounds of what kernels of indexing, order, scans, windows and random words allocate.

A dtype and a shape do not tell whether an array is aligned, and compiled kernels leave to NumPy what is
not. So bounds are those of the way that takes more: NumPy goes block by block.
"""

from __future__ import annotations

import math

from ..catalogue import GATHERS, Attrs
from ..spec import ArraySpec, compute_dtype
from .dealing import dealing_bytes, is_dealt
from .indexing import gather_scratch_bytes
from .order import sort_scratch_bytes
from .picking import index_bytes
from .scan import scan_scratch_bytes
from .taking import BLOCK, PLACE, taking_bytes
from .threefry import threefry_scratch_bytes
from .windows import fold_scratch_bytes, unfold_scratch_bytes


def indexing_scratch_bytes(
    op: str,
    attrs: Attrs,
    inputs: tuple[ArraySpec, ...],
    outputs: tuple[ArraySpec, ...],
    threads: int,
) -> int:
    """Of one of INDEXING."""
    x = inputs[0]
    if op in GATHERS:
        large = index_bytes(inputs[1]) if inputs[1].dtype.char not in "il" else 0
        return max(gather_scratch_bytes(attrs, inputs), large)
    if op in ("take", "take_along_axis"):
        return index_bytes(inputs[1]) + taking_bytes(outputs[0] if outputs else x)
    if op in ("scatter", "scatter_along_axis"):
        table = _table(attrs, inputs[2], threads) if op == "scatter" else 0
        dealt = _dealt(inputs, threads) if op == "scatter_along_axis" else 0
        return _scattered(inputs, adds=attrs.get("mode") != "set") + table + dealt
    if op in ("sort", "argsort"):
        return sort_scratch_bytes(op, x, attrs["axis"], threads)
    if op == "associative_scan":
        return scan_scratch_bytes(x, attrs["axis"])
    if op == "unfold":
        return unfold_scratch_bytes(x, attrs)
    if op == "fold":
        return fold_scratch_bytes(x, attrs)
    return threefry_scratch_bytes(x, threads)


def _scattered(inputs: tuple[ArraySpec, ...], adds: bool) -> int:
    """Half precisions widened, indices converted; of a block places, offsets along axes, and updates."""
    x, indices, updates = inputs
    halves = 4 * (x.size + updates.size) if adds and x.dtype.itemsize == 2 else 0
    block = min(updates.size, BLOCK) * ((8 + len(x.shape)) * PLACE + 4 * x.dtype.itemsize)
    return halves + index_bytes(indices) + block


def _dealt(inputs: tuple[ArraySpec, ...], threads: int) -> int:
    """Updates of one long line, dealt out."""
    x, count = inputs[0], inputs[2].size
    wide = compute_dtype(x.dtype).itemsize
    if max(x.shape, default=0) < x.size or not is_dealt(x.size, wide, count):
        return 0
    return dealing_bytes(x.size, wide, count, threads)


def _table(attrs: Attrs, updates: ArraySpec, threads: int) -> int:
    """Where the runs of a window lie: two offsets each, made of as many, for each thread.

    The layout decides which axis a run goes along; the shortest one leaves the most runs.
    """
    sizes = [updates.shape[axis] for axis in attrs["update_window_dims"]]
    long = [n for n in sizes if n > 1]
    return 32 * threads * (math.prod(sizes) // min(long)) if len(long) > 1 else 0

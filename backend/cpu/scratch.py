"""Upper bounds of what kernels of indexing, order, scans, windows and random words allocate."""

from __future__ import annotations

from ..._base.options import get_options
from ..catalogue import Attrs
from ..spec import ArraySpec
from .indexing import gather_scratch_bytes
from .move import CARRIERS
from .order import sort_scratch_bytes
from .picking import ADDED, index_bytes
from .scan import scan_scratch_bytes
from .threefry import threefry_scratch_bytes
from .windows import fold_scratch_bytes, unfold_scratch_bytes

GATHERS = ("gather", "gather_dynamic_slice_sizes")


def indexing_scratch_bytes(
    op: str,
    attrs: Attrs,
    inputs: tuple[ArraySpec, ...],
    outputs: tuple[ArraySpec, ...],
    threads: int,
) -> int | None:
    """None for an op of another group."""
    if not inputs:
        return None
    x = inputs[0]
    if op in GATHERS:
        large = index_bytes(inputs[1]) if inputs[1].dtype.char not in "il" else 0
        return max(gather_scratch_bytes(attrs, inputs), large)
    if op in ("take", "take_along_axis"):
        return _taken(outputs[0] if outputs else x, inputs[1])
    if op in ("scatter", "scatter_along_axis"):
        return _scattered(inputs, adds=attrs.get("mode") != "set")
    if op in ("sort", "argsort"):
        return sort_scratch_bytes(op, x, attrs["axis"], threads)
    if op == "associative_scan":
        return scan_scratch_bytes(x, attrs["axis"])
    if op == "unfold":
        return unfold_scratch_bytes(x, attrs)
    if op == "fold":
        return fold_scratch_bytes(x, attrs)
    if op == "threefry2x32":
        return threefry_scratch_bytes(x, threads)
    return None


def _taken(output: ArraySpec, indices: ArraySpec) -> int:
    """Converted indices; without a kernel, places and what NumPy takes."""
    if _moves(output):
        return index_bytes(indices)
    return 3 * index_bytes(indices) + output.nbytes


def _scattered(inputs: tuple[ArraySpec, ...], adds: bool) -> int:
    """Half precisions widened, converted indices; without a kernel, places and a row-major operand."""
    x, indices, updates = inputs
    halves = 4 * (x.size + updates.size) if adds and x.dtype.itemsize == 2 else 0
    large = updates.size >= max(1, get_options().small)
    if large and (_moves(x) if not adds else x.dtype.char in ADDED or halves):
        return halves + index_bytes(indices)
    return halves + 4 * index_bytes(indices) + 16 * updates.size + x.nbytes + updates.nbytes


def _moves(x: ArraySpec) -> bool:
    """Whether a compiled kernel moves the elements."""
    is_large = x.size >= max(1, get_options().small)
    return is_large and x.dtype.itemsize in CARRIERS and not x.dtype.hasobject

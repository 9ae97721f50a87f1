"""Elements at places that an array of indices names: take, take_along_axis, gather."""

from __future__ import annotations

from ...catalogue import Attrs
from .indexing import Indexed, gathered, taken, taken_along
from .kernel import THREADS, CudaKernel, blocks_of, kept
from .layout import Operand, index_type
from .permutation import WORDS
from .text import unit
from .types import TYPES

CLAMPED = """
extern "C" __global__ void $name($word* out, const $word* x, const $kind* indices, $geometry g) {
    typedef $index Index;
    for (Index i = first_element<Index>(); i < g.axes.count; i += next_element<Index>()) {
        Index at[3];
        g.axes.offsets(i, at);
        out[at[0]] = x[at[1] + clamped(g.entries, g.count, indices + at[2])];
    }
}
"""

CHECKED = """
extern "C" __global__ void $name(
    $word* out, int* outside, const $word* x, const $kind* indices, $geometry g) {
    typedef $index Index;
    for (Index i = first_element<Index>(); i < g.axes.count; i += next_element<Index>()) {
        Index at[3], place;
        g.axes.offsets(i, at);
        if (wrapped(g.entries, g.count, indices + at[2], &place)) {
            out[at[0]] = x[at[1] + place];
        } else {
            *outside = 1;  // whoever writes, writes the same
        }
    }
}
"""


def take(itemsize: int, out: Operand, x: Operand, indices: Operand, axis: int) -> CudaKernel:
    """out[.., i.., ..] = x[.., indices[i..], ..].

    The kernel takes out, one int32 that was 0 and becomes 1 where an index is out of range, x, indices.
    Nothing is read or written for such an index.

    >>> x, i = Operand("float32", (5, 3), (3, 1)), Operand("int64", (4,), (1,))
    >>> take(4, Operand("float32", (4, 3), (3, 1)), x, i, 0).arrays
    ('out', 'outside', 'x', 'indices')
    """
    return _checked("take", itemsize, indices, taken(out, x, indices, axis))


def take_along_axis(
    itemsize: int, out: Operand, x: Operand, indices: Operand, axis: int
) -> CudaKernel:
    """out[.., i, ..] = x[.., indices[.., i, ..], ..]; arguments as of `take`."""
    return _checked("take_along_axis", itemsize, indices, taken_along(out, x, indices, axis))


def gather(itemsize: int, out: Operand, x: Operand, indices: Operand, attrs: Attrs) -> CudaKernel:
    """StableHLO's gather: windows are moved to where they fit. The kernel takes out, x, indices."""
    indexed = gathered(out, x, indices, attrs)
    key = ("gather", itemsize, indices.dtype, indexed)
    return _known(kept(key, lambda: _made("gather", CLAMPED, itemsize, indices.dtype, indexed)))


def _checked(op: str, itemsize: int, indices: Operand, indexed: Indexed) -> CudaKernel:
    key = (op, itemsize, indices.dtype, indexed)
    return _known(kept(key, lambda: _made(op, CHECKED, itemsize, indices.dtype, indexed)))


def _known(kernel: CudaKernel | None) -> CudaKernel:
    assert kernel is not None
    return kernel


def _made(op: str, entry: str, itemsize: int, kind: str, indexed: Indexed) -> CudaKernel:
    index = index_type(indexed.whole())
    source, name = unit(
        ("layout", "permutation", "indexing"),
        op,
        entry,
        word=WORDS[itemsize],
        kind=TYPES[kind],
        geometry=indexed.type(index),
        index=index,
    )
    arrays = ("out", "x", "indices") if entry is CLAMPED else ("out", "outside", "x", "indices")
    grid = blocks_of(indexed.axes.count)
    return CudaKernel(
        source, name, grid, (THREADS, 1, 1), arrays, indexed.geometry(), index != "int"
    )

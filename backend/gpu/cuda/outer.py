"""Products that sum nothing: as fast as memory takes their results.

A thread computes several elements, neighbours of which are written together, and all it reads is asked for
before the first of them is written: what is on its way, not what is computed, decides how fast memory is.
Where its elements lie is found once for all of them, and an operand that is the same for them is read once.
"""

from __future__ import annotations

from ...rules import NO_CONJ
from ...spec import Axes, Shape, compute_dtype, dtype_from_name
from .kernel import THREADS, CudaKernel, blocks_of, kept
from .layout import Layout, index_type, layout
from .text import unit
from .types import TYPES, type_of, wide_type_of

WIDE = 16  # bytes that a thread writes at once,
MOST = 8  # of so many elements at most
HELD, NUMBERS = 64, 16
"""Bytes that a thread writes in all, and elements: each takes a register, however short it is."""
PARTS = 8  # packs of neighbours that are far apart
EVEN = 1.1
"""Parts of an axis may have so many places for each that is there: the others are asked for in vain."""

ENTRY = """
extern "C" __global__ void $name(
    $type* out, const $type* lhs, const $type* rhs, Outer<$groups, $index> g) {
    typedef $index Index;
    for (Index i = first_element<Index>(); i < g.groups.count; i += next_element<Index>()) {
        Index at[4];
        g.groups.offsets(i, at);
        unsigned which = 0;
        for (int part = 0; part < $parts; ++part)
            which |= (unsigned)(at[3] + (Index)part * g.size < g.limit) << part;
        Factor<$type, Index, $parts, $width, $left> left;
        Factor<$type, Index, $parts, $width, $right> right;
        left.read(lhs + at[1], g.step[1], g.along[0], which);
        right.read(rhs + at[2], g.step[2], g.along[1], which);
        #pragma unroll
        for (int part = 0; part < $parts; ++part) {
            if (!(which >> part & 1)) continue;
            Pack<$type, $width> pack;
            for (int k = 0; k < $width; ++k) {
                const $wide x = wide(left(part, k)), y = wide(right(part, k));
                pack.at[k] = $result;
            }
            write(out + at[0] + (Index)part * g.step[0], pack);
        }
    }
    if (first_element<Index>() < g.rest) {
        const Index i = g.packed + first_element<Index>();
        const $wide x = wide(lhs[i * g.along[0]]), y = wide(rhs[i * g.along[1]]);
        out[i] = $result;
    }
}
"""


def outer(
    dtype: str, free: tuple[Shape, Axes, Axes, Axes], conj: tuple[bool, bool] = NO_CONJ
) -> CudaKernel | None:
    """out[o] = lhs[o] rhs[o].

    Args:
        dtype, free, conj: as of `products`.

    Returns:
        the kernel, which takes out, lhs and rhs; None for a dtype without one, and for a single number.

    >>> m, n = 4096, 4096
    >>> outer("float64", ((m, n), (n, 1), (1, 0), (0, 1))).grid
    (8192, 1, 1)
    """
    return kept(("outer", dtype, free, conj), lambda: _made(dtype, free, conj))


def _made(
    dtype: str, free: tuple[Shape, Axes, Axes, Axes], conj: tuple[bool, bool]
) -> CudaKernel | None:
    number = dtype_from_name(dtype)
    kind, axes = type_of(number), layout(*free, keep_order=False)
    if kind is None or not axes.axes:
        return None
    width = width_of(number.itemsize, axes)
    parts = min(PARTS, HELD // (width * number.itemsize), NUMBERS // width)
    groups, size, limit, step = grouped(axes, width, parts)
    index = index_type(axes)
    left, right = (f"{_lies(axes, k, width)}, {'false' if step[k] else 'true'}" for k in (1, 2))
    names = [f"op::conj({x})" if is_conj else x for x, is_conj in zip("xy", conj, strict=True)]
    product = f"op::multiply({', '.join(names)})"
    source, name = unit(
        ("layout", "numbers", "arithmetic", "outer"),
        "outer",
        ENTRY,
        type=kind,
        wide=wide_type_of(number),
        groups=groups.type(index),
        index=index,
        parts=parts,
        width=width,
        left=left,
        right=right,
        result=f"to<{TYPES[dtype]}>({product})" if compute_dtype(number) != number else product,
    )
    n, _, *along = axes.axes[-1]
    rest = n % width  # of one axis: of several, `width` divides it
    geometry = (*groups.geometry(), size, limit, *step, *along, n - rest, rest)
    grid, block = blocks_of(groups.count), (THREADS, 1, 1)
    return CudaKernel(source, name, grid, block, ("out", "lhs", "rhs"), geometry, index != "int")


def width_of(itemsize: int, axes: Layout) -> int:
    """Neighbours of the result that are written together: each row of them begins where such a write may.

    >>> width_of(8, layout((6, 4), (4, 1), (1, 0))), width_of(8, layout((6, 5), (5, 1), (1, 0)))
    (2, 1)
    """
    *others, (n, step, *_) = axes.axes
    width = min(MOST, WIDE // itemsize) if step == 1 else 1
    while any(axis[1] % width for axis in others) or (others and n % width):
        width //= 2
    return width


def grouped(axes: Layout, width: int, parts: int) -> tuple[Layout, int, int, tuple[int, int, int]]:
    """The groups that a thread computes, each of `parts` packs: one axis, of packs along the last, is cut
    into so many parts of one size. The others are walked as they lie: threads side by side write neighbours.

    Returns:
        the layout of the groups, whose fourth array is the number along that axis, the size of a part and of
        the axis, and what leads from a part to the next in each array.
    """
    *others, (n, *steps) = axes.axes
    packs = [*others, (n // width, *(width * step for step in steps))]
    cut = next(
        (k for k, (n, *_) in enumerate(packs) if parts * -(-n // parts) <= EVEN * n),
        max(range(len(packs)), key=lambda k: packs[k][0]),
    )
    limit, *steps = packs[cut]
    size = -(-limit // parts)
    counted = [(*axis, 0) for axis in packs]
    counted[cut] = (size, *steps, 1)
    out, lhs, rhs = (size * step for step in steps)
    groups = tuple(axis for axis in counted if axis[0] != 1)
    return Layout(groups, 4), size, limit, (out, lhs, rhs)


def _lies(axes: Layout, operand: int, width: int) -> str:
    *others, last = axes.axes
    along = last[1 + operand]
    if not along or width == 1:
        return "ONE_NUMBER"
    is_whole = along == 1 and not any(axis[1 + operand] % width for axis in others)
    return "SIDE_BY_SIDE" if is_whole else "APART"

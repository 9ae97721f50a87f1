"""Many small products in one launch: one thread for each element of the result.

Strides are free, so that nothing is transposed before. The sum over the contracted axes is one loop in the
order of the left operand's memory: for a few elements to be summed, where a call of BLAS for each matrix, or
one whose tiles stay mostly empty, has more to set up than to compute. Long sums are one warp's each, which
adds up in lanes: few of them would leave the card idle. Large results that sum nothing go to `outer`.
"""

from __future__ import annotations

import math

from ...rules import NO_CONJ
from ...spec import Axes, Shape, compute_dtype, dtype_from_name
from .kernel import THREADS, CudaKernel, blocks_of, kept
from .layout import index_type, layout
from .outer import outer
from .text import fill, unit
from .types import TYPES, type_of, wide_type_of

SHORT = 64  # terms of a sum that one thread adds up
WARP = 32
MANY = 1 << 22  # bytes of a result from which it counts how fast they are written

ENTRY = """
extern "C" __global__ void $name(
    $type* out, const $type* lhs, const $type* rhs, Products<$free, $summed> g) {
    typedef $index Index;
    for (Index i = first_element<Index>(); i < g.free.count; i += next_element<Index>()) {
        Index at[3], step[2];
        g.free.offsets(i, at);
        $found
        out[at[0]] = $result;
    }
}
"""
WARPS = """
extern "C" __global__ void $name(
    $type* out, const $type* lhs, const $type* rhs, Products<$free, $summed> g) {
    typedef $index Index;
    const int lane = threadIdx.x % 32;
    for (Index i = first_element<Index>() / 32; i < g.free.count; i += next_element<Index>() / 32) {
        Index at[3], step[2];
        g.free.offsets(i, at);
        $wide part = to<$wide>(0);
#pragma unroll 4
        for (Index k = lane; k < g.summed.count; k += 32) {
            g.summed.offsets(k, step);
            const $wide x = wide(lhs[at[1] + step[0]]), y = wide(rhs[at[2] + step[1]]);
            part = op::add(part, op::multiply($x, $y));
        }
        const $wide found = team_sum<32>(part);
        if (lane == 0) out[at[0]] = $result;
    }
}
"""
SUM = """
$wide found = to<$wide>(0);
for (Index k = 0; k < g.summed.count; ++k) {
    g.summed.offsets(k, step);
    const $wide x = wide(lhs[at[1] + step[0]]), y = wide(rhs[at[2] + step[1]]);
    found = op::add(found, op::multiply($x, $y));
}
"""
ONE = """
const $wide x = wide(lhs[at[1]]), y = wide(rhs[at[2]]);
const $wide found = op::multiply($x, $y);
"""


def products(
    dtype: str,
    free: tuple[Shape, Axes, Axes, Axes],
    summed: tuple[Shape, Axes, Axes],
    conj: tuple[bool, bool] = NO_CONJ,
) -> CudaKernel | None:
    """out[o] = sum over s of lhs[o, s] rhs[o, s].

    Args:
        dtype: of all three; half precisions are summed in float32, float32 in float32.
        free: sizes of the axes of the result, batch among them, and their strides in out, lhs and rhs; 0 in
            the operand that has no such axis.
        summed: sizes of the contracted axes, and their strides in lhs and rhs.
        conj: which operands are conjugated.

    Returns:
        the kernel, which takes out, lhs and rhs, or None for a dtype without one.

    >>> batch, n = 1000, 4
    >>> free = (batch, n, n), (16, 4, 1), (16, 4, 0), (16, 0, 1)
    >>> products("float64", free, ((n,), (1,), (4,))).grid
    (63, 1, 1)
    """
    key = ("products", dtype, free, summed, conj)
    return kept(key, lambda: _made(dtype, free, summed, conj))


def _made(
    dtype: str,
    free: tuple[Shape, Axes, Axes, Axes],
    summed: tuple[Shape, Axes, Axes],
    conj: tuple[bool, bool],
) -> CudaKernel | None:
    number = dtype_from_name(dtype)
    kind = type_of(number)
    if kind is None:
        return None
    if not summed[0] and number.itemsize * math.prod(free[0]) >= MANY:
        return outer(dtype, free, conj)
    free_axes, inner = layout(*free, keep_order=False), layout(*summed, keep_order=False)
    index = index_type(free_axes, inner)
    names = [f"op::conj({x})" if is_conj else x for x, is_conj in zip("xy", conj, strict=True)]
    wide = wide_type_of(number)
    terms = {"wide": wide, "x": names[0], "y": names[1]}
    is_long = inner.count > SHORT and compute_dtype(number).kind in "fc"
    how = terms if is_long else {"found": fill(SUM if summed[0] else ONE, **terms)}
    source, name = unit(
        ("layout", "numbers", "arithmetic", "products", *(("teams",) if is_long else ())),
        "products",
        WARPS if is_long else ENTRY,
        type=kind,
        free=free_axes.type(index),
        summed=inner.type(index),
        index=index,
        result=f"to<{TYPES[dtype]}>(found)" if compute_dtype(number) != number else "found",
        **how,
    )
    geometry = (*free_axes.geometry(), *inner.geometry())
    threads = free_axes.count * (WARP if is_long else 1)
    grid, block = blocks_of(threads), (THREADS, 1, 1)
    return CudaKernel(source, name, grid, block, ("out", "lhs", "rhs"), geometry, index != "int")

"""Members of a batch that are not finite: replaced by zeros and told by codes, in one launch; and codes of
what came out, in another."""

from __future__ import annotations

from functools import lru_cache

from .kernel import MOST_BLOCKS, CudaKernel, kept
from .layout import Operand, index_type, layout
from .text import unit
from .types import TYPES

MOST = 1 << 14  # elements of a matrix, which one block goes through
THREADS = 256
WARPS = THREADS // 32
DTYPES = ("float32", "float64", "complex64", "complex128")

CLEARED = """
extern "C" __global__ void $name($type* out, int* codes, const $type* a, Matrix<$batch, $index> g) {
    typedef $index Index;
    for (Index member = blockIdx.x; member < g.batch.count; member += gridDim.x) {
        Index at[1];
        g.batch.offsets(member, at);
        $type* made = out + member * g.size;
        int bad = 0;
        for (Index k = threadIdx.x; k < g.size; k += blockDim.x) {
            const $type x = a[at[0] + k / g.columns * g.row + k % g.columns * g.column];
            made[k] = x;
            if (!is_finite(x)) bad = 1;
        }
        bad = __syncthreads_or(bad);
        if (bad)
            for (Index k = threadIdx.x; k < g.size; k += blockDim.x) made[k] = $type{};
        if (threadIdx.x == 0) codes[member] = bad != 0;
    }
}
"""

# A warp for each member.
JUDGED = """
extern "C" __global__ void $name(int* codes, const int* said, const $type* values, Results g) {
    long long member = (long long)blockIdx.x * $warps + threadIdx.y;
    for (; member < g.count; member += (long long)gridDim.x * $warps) {
        int bad = codes[member] != 0;
        for (long long k = threadIdx.x; k < g.words; k += 32)
            if (!is_finite(values[member * g.words + k])) bad = 1;
        bad = __ballot_sync(~0u, bad) != 0;
        if (threadIdx.x == 0) codes[member] = bad ? 1 : said[member];
    }
}
"""


def cleared(out: Operand, codes: Operand, a: Operand) -> CudaKernel | None:
    """out [..., m, n] is a, but zeros where a has NaN or infinity: there codes [...], int32, are 1, else 0.

    Args:
        out, codes: without gaps.

    Returns:
        the kernel, or None: no kernel has the dtype, or a matrix is large.

    >>> a = Operand("float64", (1000, 40, 40), (1600, 40, 1))
    >>> cleared(a, Operand("int32", (1000,), (1,)), a).grid
    (1000, 1, 1)
    """
    *_, m, n = a.shape
    if a.dtype not in DTYPES or m * n > MOST:
        return None
    return kept(("cleared", a), lambda: _cleared(a))


def _cleared(a: Operand) -> CudaKernel:
    *shape, m, n = a.shape
    *strides, row, column = a.strides
    batch = layout(tuple(shape), strides)
    index = index_type(batch, layout(a.shape, a.strides))
    values = {"type": TYPES[a.dtype], "batch": batch.type(index), "index": index}
    source, name = unit(("layout", "numbers", "finite"), "cleared", CLEARED, **values)
    geometry = (*batch.geometry(), n, m * n, row, column)
    grid = (min(MOST_BLOCKS, max(1, batch.count)), 1, 1)
    arrays = ("out", "codes", "a")
    return CudaKernel(source, name, grid, (THREADS, 1, 1), arrays, geometry, index != "int")


@lru_cache(1024)
def judged(dtype: str, count: int, words: int) -> CudaKernel:
    """codes [count], int32, become 1 where they are not 0, or values [count, words] have NaN or infinity, and
    those of `said` elsewhere; of a `dtype`, and all without gaps.

    >>> judged("float32", 1000, 40).block
    (32, 8, 1)
    """
    source, name = unit(("numbers", "finite"), "judged", JUDGED, type=TYPES[dtype], warps=WARPS)
    grid = (min(MOST_BLOCKS, max(1, -(-count // WARPS))), 1, 1)
    arrays = ("codes", "said", "values")
    return CudaKernel(source, name, grid, (32, WARPS, 1), arrays, (count, words), True)

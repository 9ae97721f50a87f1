"""The order of rows that exchanges leave behind, of many matrices in one launch."""

from __future__ import annotations

from .kernel import MOST_BLOCKS, CudaKernel, kept
from .text import unit

MOST = 4096  # rows, which a block holds in shared memory
THREADS = 64

ENTRY = """
struct Exchanges {
    long long count, rows, steps;
};

extern "C" __global__ void $name(long long* order, const int* swaps, Exchanges g) {
    __shared__ int rows[$most];
    for (long long member = blockIdx.x; member < g.count; member += gridDim.x) {
        for (int i = threadIdx.x; i < g.rows; i += blockDim.x) rows[i] = i;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int k = 0; k < g.steps; ++k) {  // each on what the one before left
                const int other = swaps[member * g.steps + k], row = rows[k];
                if (other < 0 || other >= g.rows) continue;  // of a matrix that is not finite, say
                rows[k] = rows[other];
                rows[other] = row;
            }
        __syncthreads();
        for (int i = threadIdx.x; i < g.rows; i += blockDim.x) order[member * g.rows + i] = rows[i];
        __syncthreads();
    }
}
"""


def row_order(count: int, rows: int, steps: int) -> CudaKernel | None:
    """order [count, rows], int64: the row that stands at each place, from swaps [count, steps], int32, of row
    k with another; both contiguous. None where there are more rows than a block holds.

    >>> row_order(1000, 40, 40).grid
    (1000, 1, 1)
    """
    if rows > MOST:
        return None
    return kept(("row order", count, rows, steps), lambda: _made(count, rows, steps))


def _made(count: int, rows: int, steps: int) -> CudaKernel:
    source, name = unit((), "row_order", ENTRY, most=MOST)
    grid = (min(MOST_BLOCKS, max(1, count)), 1, 1)
    geometry = (count, rows, steps)
    return CudaKernel(source, name, grid, (THREADS, 1, 1), ("order", "swaps"), geometry, True)

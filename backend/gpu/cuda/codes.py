"""Codes of a batch, one for each member: whether any is set, and members overwritten whose code is."""

from __future__ import annotations

from functools import lru_cache

from .kernel import CudaKernel, blocks_of
from .text import unit

THREADS = 256
WARPS = THREADS // 32
APIECE = 1024  # words of a member that a warp writes, in one of as many blocks along y
MOST_PARTS = 1 << 15

# Threads that find something all write the same, so it does not matter which is last.
TOLD = """
struct Codes {
    long long count;
};

extern "C" __global__ void $name(int* told, const int* codes, Codes g) {
    const long long step = (long long)gridDim.x * blockDim.x;
    int found = 0;
    for (long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x; k < g.count; k += step)
        found |= codes[k];
    if (found) *told = 1;
}
"""

# A warp looks at 32 codes, and goes together through the members whose code is set.
OVERWRITTEN = """
struct Members {
    long long count, words, period, pattern[4];
};

extern "C" __global__ void $name(int* out, const int* codes, Members g) {
    const int lane = threadIdx.x;
    const long long step = (long long)gridDim.x * $threads;
    long long first = ((long long)blockIdx.x * $warps + threadIdx.y) * 32;
    for (; first < g.count; first += step) {
        const unsigned bad = __ballot_sync(~0u, first + lane < g.count && codes[first + lane] != 0);
        for (int k = 0; k < 32; ++k) {
            if (!(bad >> k & 1)) continue;
            int* member = out + (first + k) * g.words;
            for (long long w = (long long)blockIdx.y * 32 + lane; w < g.words; w += (long long)gridDim.y * 32)
                member[w] = (int)g.pattern[w % g.period];
        }
    }
}
"""


@lru_cache(1024)
def any_set(count: int) -> CudaKernel:
    """told becomes 1 if one of the codes [count], int32, is not 0; else it stays as it is.

    >>> any_set(1000).grid
    (4, 1, 1)
    """
    source, name = unit((), "any_set", TOLD)
    grid = blocks_of(count)
    return CudaKernel(source, name, grid, (THREADS, 1, 1), ("told", "codes"), (count,), True)


@lru_cache(1024)
def overwritten(count: int, words: int, pattern: tuple[int, ...]) -> CudaKernel:
    """out [count, words], of 32 bits each, is a pattern that repeats, wherever codes [count] are not 0.

    >>> overwritten(1000, 2000, (-1,)).grid
    (4, 2, 1)
    """
    source, name = unit((), "overwritten", OVERWRITTEN, threads=THREADS, warps=WARPS)
    grid = (blocks_of(count)[0], min(MOST_PARTS, max(1, -(-words // APIECE))), 1)
    geometry = (count, words, len(pattern), *pattern, *(0,) * (4 - len(pattern)))
    return CudaKernel(source, name, grid, (32, WARPS, 1), ("out", "codes"), geometry, True)

"""Arrays of whatever places into fixed ones, or out of them, all in one launch: what stands at both ends of a
graph that is launched on other arrays every time.

Where the others lie is told by value, in the arguments of the launch: those of a launch within a graph can be
replaced, and what is queued already keeps its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .kernel import THREADS, CudaKernel, kept
from .text import unit

MOST = 480  # places: all arguments of a launch together have 4096 bytes
CHUNK = 1 << 14  # bytes that a block copies
COUNTS = (2, 8, 32, 128, MOST)  # places that a text is made for

ENTRY = """
extern "C" __global__ void $name(const Chunk* chunks, Places<$count> places) {
    const Chunk chunk = chunks[blockIdx.x];
    char *const other = places.at[chunk.which] + chunk.start, *const fixed = $fixed;
    relay($to, $from, chunk.bytes);
}
"""


def gathering(places: int, chunks: int) -> CudaKernel:
    """Fixed places are written from others; it takes the array that `chunks_of` makes.

    >>> gathering(3, 20).grid, len(gathering(3, 20).geometry)
    ((20, 1, 1), 8)
    """
    texts = {"fixed": "chunk.fixed", "to": "fixed", "from": "other"}
    return _kernel("gathering", places, chunks, texts)


def delivering(places: int, chunks: int) -> CudaKernel:
    """The other place, which is given first, is written from the fixed one, which is given behind it: a graph
    may have it elsewhere than it was when chunks were made.

    Raises:
        ValueError: there are more than one.
    """
    if places != 1:
        raise ValueError("one result is delivered")
    texts = {"fixed": "places.at[1] + chunk.start", "to": "other", "from": "fixed"}
    return _kernel("delivering", 2, chunks, texts)


def _kernel(prefix: str, places: int, chunks: int, texts: dict[str, str]) -> CudaKernel:
    count = next(count for count in COUNTS if count >= places)
    key = (prefix, count, chunks)

    def made() -> CudaKernel:
        text, name = unit(("relay",), prefix, ENTRY, count=count, **texts)
        grid, block = (chunks, 1, 1), (THREADS, 1, 1)
        return CudaKernel(text, name, grid, block, ("chunks",), (0,) * count, True)

    found = kept(key, made)
    assert found is not None
    return found


def chunks_of(fixed: Sequence[tuple[int, int]]) -> Any:
    """A row for each block: which place, the first byte there, how many, and where the fixed one is.

    Args:
        fixed: address and bytes of each fixed place.

    >>> chunks_of([(256, 9), (4096, 20000)]).tolist()
    [[0, 0, 9, 256], [1, 0, 16384, 4096], [1, 16384, 3616, 20480]]
    """
    rows = [
        (which, start, min(CHUNK, nbytes - start), address + start)
        for which, (address, nbytes) in enumerate(fixed)
        for start in range(0, nbytes, CHUNK)
    ]
    return np.array(rows, np.int64).reshape(-1, 4)

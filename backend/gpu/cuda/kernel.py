"""A kernel as a value: its text, what it is called, and how it is launched.

Everything that is only known with shapes and strides reaches a kernel as numbers, so that one compile
serves every shape of the same rank; what shapes decide are the grid and these numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ...._base.caches import Cache

Triple = tuple[int, int, int]
MOST_BLOCKS = 1 << 20  # along x; a grid beyond walks on
THREADS = 256  # of a block where nothing else decides
PLAIN_SHARED = 48 << 10  # bytes of shared memory that every block may have; beyond, a card is asked
NARROW = 1 << 30  # offsets and counts below it fit 32 bits, a grid's last step included


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """CUDA C++ and its launch.

    Attributes:
        source: the whole translation unit; it includes no header.
        name: of the entry, which is extern "C". It differs from that of every other source.
        grid, block: of the launch.
        arrays: what each pointer argument is for, in order; outputs come first. Pointers are those of first
            elements: of an array with negative strides, of element [0, ..., 0].
        geometry: sizes and strides, the last argument: a struct of integers, passed by value.
        wide: whether these have 64 bits; otherwise 32.
        shared: bytes of shared memory that the launch gives a block, besides what the text declares itself.
        features: capability with the features of one card alone that it is compiled for ("90a"), if any.
    """

    source: str = field(repr=False)
    name: str
    grid: Triple
    block: Triple
    arrays: tuple[str, ...]
    geometry: tuple[int, ...]
    wide: bool
    shared: int = 0
    features: str = ""

    def parameters(self) -> Any:
        """The last argument as an array of NumPy, whose bytes are the struct.

        >>> kernel = CudaKernel("", "f", (1, 1, 1), (32, 1, 1), ("out",), (5, 1), False)
        >>> kernel.parameters()
        array([5, 1], dtype=int32)
        """
        return np.array(self.geometry, np.int64 if self.wide else np.int32)


KERNELS: Cache[Any] = Cache("cuda kernels", 4096)
"""Kernels, and what is made of several, by what they were made for."""

DECLINED = "declined"
T = TypeVar("T")


def kept(key: Hashable, make: Callable[[], T | None]) -> T | None:
    """What `make` returns for a key, made once."""
    found = KERNELS.get(key)
    if found is None:
        made = make()
        found = KERNELS.put(key, DECLINED if made is None else made)
    return None if found is DECLINED else found


def blocks_of(count: int, threads: int = THREADS) -> Triple:
    """A grid over `count` elements; the kernel walks on where it is too small.

    >>> blocks_of(1000), blocks_of(0), blocks_of(1 << 40)
    ((4, 1, 1), (1, 1, 1), (1048576, 1, 1))
    """
    return (min(MOST_BLOCKS, max(1, -(-count // threads))), 1, 1)

"""Memory in which a kernel packs what it multiplies: kept for its next call, as BLAS keeps its own.

Whoever takes a workspace has it alone until it is given back; there are as many as threads were at work at
once, and no more than `MOST` are kept. Contents are undefined.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any

import numpy as np

from ..._base.caches import CacheInfo, register
from .address import address

LINE = 64
LEAST = 1 << 18  # bytes of one: what kernels that pack strips need at most, so that any will do
MOST = 2 * (os.cpu_count() or 1)


class Workspaces:
    """Safe from several threads: single operations of a deque are atomic."""

    def __init__(self, most: int = MOST) -> None:
        self._free: deque[Any] = deque(maxlen=most)

    def take(self, nbytes: int) -> Any:
        """So many bytes at least, or more."""
        try:
            memory = self._free.pop()
        except IndexError:
            memory = None
        if memory is None or memory.size < nbytes:
            whole = np.empty(max(nbytes, LEAST) + LINE, np.uint8)
            start = (
                -address(whole) % LINE
            )  # rows of cache lines are read faster where they are such lines
            memory = whole[start : start + whole.size - LINE]
        return memory

    def give(self, memory: Any) -> None:
        """Back for others; the oldest one is dropped where there are too many."""
        self._free.append(memory)

    def info(self) -> CacheInfo:
        """Sizes are bytes; nobody counts who found one."""
        return CacheInfo(0, 0, LEAST * (self._free.maxlen or 0), sum(x.size for x in [*self._free]))

    def clear(self) -> int:
        """Forget them; returns how many bytes."""
        freed = 0
        while True:
            try:
                freed += self._free.pop().size
            except IndexError:
                return freed


WORKSPACES = Workspaces()
"""Those of this process; `einloom.backend.cpu.cpu().reclaim()` and `clear_caches()` empty it."""

register("workspaces (bytes)", WORKSPACES)

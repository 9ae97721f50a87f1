"""Memory in which a kernel packs what it multiplies: kept for its next call, as BLAS keeps its own.

Whoever takes a workspace has it alone until it is given back; there are as many as threads were at work at
once, of what was needed last, and no more than `MOST` are kept. Contents are undefined.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any

import numpy as np

from ..._base.caches import CacheInfo, register
from .address import address

LINE = 64  # bytes of a cache line, at whose beginning a workspace begins
LARGEST = 1 << 22  # bytes; larger ones are not kept. Products in blocks and in strips need less
MOST = 2 * (os.cpu_count() or 1)


class Workspaces:
    """Safe from several threads: single operations of a deque are atomic."""

    def __init__(self, most: int = MOST) -> None:
        self._free: deque[Any] = deque(maxlen=most)

    def take(self, nbytes: int) -> Any:
        """So many bytes, or more."""
        try:
            memory = self._free.pop()
        except IndexError:
            memory = None
        if memory is None or memory.size < nbytes:
            whole = np.empty(nbytes + LINE, np.uint8)
            start = -address(whole) % LINE
            memory = whole[start : start + nbytes]
        return memory

    def give(self, memory: Any) -> None:
        """Back for others; the oldest one is dropped where there are too many."""
        if memory.size <= LARGEST:
            self._free.append(memory)

    def info(self) -> CacheInfo:
        """Sizes are bytes; nobody counts who found one."""
        kept = sum(memory.size for memory in self._free.copy())
        return CacheInfo(0, 0, LARGEST * (self._free.maxlen or 0), kept)

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

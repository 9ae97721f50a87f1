"""Arrays of whole pages from a buffer cache, and where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from einloom.backend.cpu.buffers import BufferCache

Array = np.ndarray[Any, Any]
PAGE = 4096
BYTE = np.dtype(np.uint8)


def pages(cache: BufferCache, count: int) -> Array:
    return np.asarray(cache.array((count * PAGE,), BYTE))


def address(x: Array) -> int:
    return int(x.__array_interface__["data"][0])

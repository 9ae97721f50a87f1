"""Slabs of the CPU: lent memory of the buffer cache, as arrays of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..spec import ArraySpec
from .buffers import empty

BYTE = np.dtype(np.uint8)


class CpuMemory:
    """A base is an array of bytes. A slab that is freed is gone when no array looks at it any more."""

    kind = "cpu"

    def alloc(self, size: int, alignment: int) -> Any:
        room = empty((size + alignment - 1,), BYTE)
        shift = -room.__array_interface__["data"][0] % alignment
        return room[shift : shift + size]

    def free(self, base: Any) -> None:
        """Nothing: the table of pools has let it go."""

    def zero(self, base: Any, offset: int, size: int) -> None:
        base[offset : offset + size] = 0

    def copy(self, target: Any, at: int, source: Any, start: int, size: int) -> None:
        target[at : at + size] = source[start : start + size]

    def array(self, base: Any, offset: int, spec: ArraySpec) -> Any:
        return np.ndarray(spec.shape, spec.dtype, base, offset)

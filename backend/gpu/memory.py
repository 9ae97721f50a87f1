"""Slabs of a GPU: memory of CuPy's pool as arrays of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..pools import ALIGNMENT
from ..spec import ArraySpec
from .modules import Module

USUAL = 8 << 30  # bytes of a card that does not tell


def memory(xp: Module) -> int:
    """Bytes of the current card."""
    told = getattr(xp.cuda.Device(), "mem_info", None)
    return USUAL if told is None else int(told[1])


class GpuMemory:
    """A base is an array of bytes on the device that was current when it was made.

    The pool gives addresses at multiples of 512, hence of every alignment up to that.
    """

    kind = "gpu"

    def __init__(self, xp: Module, ordinal: int = 0) -> None:
        self._xp, self._ordinal = xp, ordinal

    def alloc(self, size: int, alignment: int = ALIGNMENT) -> Any:
        xp = self._xp
        try:
            with xp.cuda.Device(self._ordinal):
                room = xp.empty(size + alignment - 1, np.uint8)
        except xp.cuda.memory.OutOfMemoryError as error:
            raise MemoryError(str(error)) from None
        shift = -address(room) % alignment
        return room[shift : shift + size]

    def free(self, base: Any) -> None:
        """Nothing: the table of pools has let it go, and CuPy's pool waits for its stream."""

    def zero(self, base: Any, offset: int, size: int) -> None:
        with self._xp.cuda.Device(self._ordinal):
            base[offset : offset + size] = 0

    def copy(self, target: Any, at: int, source: Any, start: int, size: int) -> None:
        """Between devices too: CuPy copies from peer to peer."""
        with self._xp.cuda.Device(self._ordinal):
            self._xp.copyto(target[at : at + size], source[start : start + size])

    def array(self, base: Any, offset: int, spec: ArraySpec) -> Any:
        return array_at(self._xp, base, offset, spec.shape, spec.dtype)


def address(x: Any) -> int:
    """Of the first element on the device."""
    return int(x.data.ptr)


def array_at(xp: Module, buffer: Any, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """A row-major array so many bytes into an array of bytes, which need not hold a whole number."""
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    return buffer[offset : offset + size].view(dtype).reshape(shape)

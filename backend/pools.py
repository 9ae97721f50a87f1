"""Pools: the memory of a device in numbered slabs, named by integers alone.

`BufferLoc(pool_id, offset)` is a place that can be printed, compared and stored; it is the same in every run.
What a pool's memory really is stays in a table that only `Pools` sees: callers allocate, free and clear by
number, and get arrays of places. An alias is a place in another's pool, so many bytes further on, and owns
nothing. Pool 0 is for transfers (see `devices`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from .._base.errors import ClosedError, DeviceError, MemoryLimitError, Unsupported
from .._base.numbers import format_bytes
from .spec import ArraySpec

ALIGNMENT = 64  # bytes


class BufferLoc(NamedTuple):
    """A place: so many bytes into a pool.

    >>> BufferLoc(2, 64).after(8)
    BufferLoc(pool_id=2, offset=72)
    """

    pool_id: int
    offset: int

    def after(self, delta: int) -> BufferLoc:
        """The place so many bytes further on, of an alias."""
        return BufferLoc(self.pool_id, self.offset + delta)

    def __str__(self) -> str:
        return f"pool {self.pool_id} + {self.offset}"


class RawMemory(Protocol):
    """What a kind of device does with its memory. A base is whatever it says that a slab begins at."""

    kind: str

    def alloc(self, size: int, alignment: int) -> Any:
        """The base of a new slab; MemoryError if there is no room."""
        ...

    def free(self, base: Any) -> None: ...

    def zero(self, base: Any, offset: int, size: int) -> None: ...

    def copy(self, target: Any, at: int, source: Any, start: int, size: int) -> None:
        """`size` bytes from one slab into another, which another device of this kind may have."""
        ...

    def array(self, base: Any, offset: int, spec: ArraySpec) -> Any:
        """A row-major array in the memory itself."""
        ...


class _Slab(NamedTuple):
    base: Any
    size: int


class Pools:
    """The pools of one device."""

    def __init__(self, raw: RawMemory, device: str) -> None:
        self._raw, self._device = raw, device
        self._slabs: dict[int, _Slab] = {}

    @property
    def sizes(self) -> Mapping[int, int]:
        """Bytes of every pool that there is, by its number."""
        # a copy: destructors may free a pool at any moment
        return MappingProxyType({pool: x.size for pool, x in sorted(self._slabs.copy().items())})

    @property
    def nbytes(self) -> int:
        return sum(self.sizes.values())

    def alloc_pool(self, pool_id: int, size: int, alignment: int = ALIGNMENT) -> None:
        """Make a pool of `size` bytes whose first is at a multiple of `alignment`."""
        if pool_id in self._slabs:
            raise DeviceError(f"{self._device}: pool {pool_id} is there already; free it first")
        if pool_id < 0 or size < 0 or alignment < 1 or alignment & (alignment - 1):
            raise DeviceError(
                f"{self._device}: alloc_pool({pool_id}, {size}, {alignment}); numbers and sizes are >= 0, "
                f"alignments powers of two"
            )
        try:
            base = self._raw.alloc(size, alignment)
        except MemoryError as error:
            raise MemoryLimitError(
                f"{self._device}: no memory for pool {pool_id} of {format_bytes(size)} ({error}); "
                f"{format_bytes(self.nbytes)} lie in {len(self._slabs)} pools: close contexts"
            ) from error
        self._slabs[pool_id] = _Slab(base, size)

    def free_pool(self, pool_id: int) -> None:
        slab = self._slab(pool_id)
        del self._slabs[pool_id]
        self._raw.free(slab.base)

    def memset_zero(self, pool_id: int, offset: int, size: int) -> None:
        self._raw.zero(self._within(BufferLoc(pool_id, offset), size), offset, size)

    def copy(self, to: BufferLoc, source: Pools, start: BufferLoc, size: int) -> None:
        """`size` bytes from a place of `source`, which another device may have."""
        if source._raw.kind != self._raw.kind:
            raise Unsupported(
                f"copy from {source._device} to {self._device}: memory of kind {source._raw.kind!r} "
                f"does not go to {self._raw.kind!r} directly; go through the host"
            )
        base = self._within(to, size)
        self._raw.copy(base, to.offset, source._within(start, size), start.offset, size)

    def array_at(self, at: BufferLoc, spec: ArraySpec) -> Any:
        """The array of this spec in the memory of a place."""
        return self._raw.array(self._within(at, spec.nbytes), at.offset, spec)

    def _within(self, at: BufferLoc, size: int) -> Any:
        """The base of a pool in which a place has so many bytes."""
        slab = self._slab(at.pool_id)
        if at.offset < 0 or at.offset + size > slab.size:
            raise DeviceError(
                f"{self._device}: {size} bytes at {at} are outside of the pool's {slab.size} bytes"
            )
        return slab.base

    def _slab(self, pool_id: int) -> _Slab:
        try:
            return self._slabs[pool_id]
        except KeyError:
            raise ClosedError(
                f"{self._device}: there is no pool {pool_id}, or it was freed; what lay in it is gone"
            ) from None

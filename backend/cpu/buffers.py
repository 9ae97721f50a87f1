"""Memory for large arrays, kept for the next one: fresh pages cost as much as what is done with them.

The system clears every page that a process touches for the first time; writing a result of 30 MB into
such pages takes longer than many a computation of it. `empty` lends memory of a bounded cache and
takes it back when the last array that looks at it is gone: the lent array's base is a lease, every
view of it keeps the lease alive, and only the lease's end returns the memory. Nobody can therefore be
given memory that something still views. Memory is page-aligned. What exceeds the bound goes back
to the system, as does everything when memory is short (seen at the next use, at most every 50 ms). Before
32 MiB are lent or kept the system is not asked for a bound.
"""

from __future__ import annotations

import math
import mmap
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from ..._base.caches import CacheInfo, register
from ..._base.memory import available_bytes
from ..._base.numbers import format_bytes
from ..protocol import BufferInfo
from ..spec import ArraySpec, Shape

LARGE = 1 << 19  # bytes from which results of single ops lie in lent memory
LENT = 1 << 17
"""The same of products and of what is packed for them: malloc gives pages of such arrays back when they are
freed, unless larger ones were freed before, as by a library that somebody else has imported. (To lend takes
some 10 µs, as long as a sum of two such arrays does.)"""
HUGE = 4 << 20  # bytes from which huge pages are asked for
GIVEN_BACK = 31 << 20
"""Bytes of an array that is freed, from which the GNU library's malloc keeps nothing for the next one."""
MOST = 4 << 30  # bytes kept, and no more than an eighth of what was available at first use
UNASKED = (
    32 << 20
)  # bytes kept before the bound is asked for: to ask takes as long as a small contraction
MOST_KEPT = 256  # arrays, all of which are looked through for the best fit
SCARCE = 1 / 16  # of the bound's base: below this, nothing is kept
PATIENCE = 0.05  # seconds between questions to the system


class BufferCache:
    """Lends aligned memory; best fit among what is kept, at most a quarter larger than asked."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._kept: list[Any] = []  # of mmap.mmap
        self._returned: deque[Any] = deque()  # filled by destructors, which may wait for no lock
        self._lock = threading.Lock()
        self._hits = self._misses = self._lent = 0
        self._asked = 0.0

    @property
    def limit(self) -> int:
        """Most bytes kept."""
        return self._bounded(available_bytes) if self._limit is None else self._limit

    def _bounded(self, room: Callable[[], int | None]) -> int:
        if self._limit is None:
            self._limit = min(MOST, (room() or MOST) // 8)
        return self._limit

    def array(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """A row-major array with undefined contents in lent memory."""
        size = max(1, math.prod(shape) * dtype.itemsize)
        memory = self._taken(size)
        lease = np.ndarray.__new__(_Lease, (len(memory),), np.uint8, memory)
        lease.memory, lease.home = memory, self
        return np.ndarray(shape, dtype, lease)

    def info(self) -> BufferInfo:
        """Counters: hits, misses, bytes lent and kept, and the bound."""
        with self._lock:
            self._collect()
            kept = sum(len(memory) for memory in self._kept)
            return BufferInfo(self._hits, self._misses, self._lent, kept, self.limit)

    def clear(self) -> int:
        """Give what is kept back to the system; returns how many bytes."""
        with self._lock:
            self._collect()
            kept = sum(len(memory) for memory in self._kept)
            self._kept.clear()
            return kept

    def _taken(self, size: int) -> Any:
        with self._lock:
            if self._returned:
                self._collect()
            self._release_when_scarce()
            best, most = -1, size + size // 4 + 1
            for at in range(len(self._kept) - 1, -1, -1):  # what came back last may be in a cache
                if size <= len(self._kept[at]) < most:
                    best, most = at, len(self._kept[at])
                    if most < size + mmap.PAGESIZE:
                        break
            if best >= 0:
                memory = self._kept.pop(best)
                self._hits += 1
            else:
                self._misses += 1
                try:
                    memory = _pages(size)
                except MemoryError:
                    self._kept.clear()
                    memory = _pages(size)
            self._lent += len(memory)
            if self._limit is None and self._lent + sum(map(len, self._kept)) > UNASKED:
                self._bounded(available_bytes)
            return memory

    def _collect(self) -> None:
        """Take in what destructors returned, and drop what exceeds the bound, oldest first."""
        while self._returned:
            memory = self._returned.popleft()
            self._lent -= len(memory)
            self._kept.append(memory)
        del self._kept[:-MOST_KEPT]
        # little is lent yet; and a destructor may run when no file can be opened
        if self._limit is None:
            return
        excess = sum(map(len, self._kept)) - self._limit
        while excess > 0:
            excess -= len(self._kept.pop(0))

    def _release_when_scarce(self) -> None:
        now = time.monotonic()
        if not self._kept or self._asked == 0.0:
            self._asked = self._asked or now  # the first question is not due at once either
        elif now - self._asked > PATIENCE:
            self._asked = now
            room = available_bytes()
            if room is not None and room < SCARCE * 8 * self._bounded(lambda: room):
                self._kept.clear()

    def give_back(self, memory: Any) -> None:
        """From a destructor, which may interrupt this very cache: whoever holds the lock collects."""
        self._returned.append(memory)
        lock = self._lock
        if self._limit is not None and lock.acquire(blocking=False):  # else little is lent yet
            try:
                self._collect()
            finally:
                lock.release()

    def renew_lock(self) -> None:
        """In the child of a fork: another thread may have held it."""
        self._lock = threading.Lock()


class _Lease(np.ndarray):
    """Holds lent memory while any array looks at it.

    A subclass whose own base is no array: NumPy then lets the base of a view end here, not beyond.
    """

    memory: Any = None
    home: BufferCache | None = None

    def __del__(self) -> None:
        if self.home is not None:
            self.home.give_back(self.memory)


# without flags a map is shared: the child of a fork would write into its parent's arrays
_PRIVATE: dict[str, Any] = {"flags": mmap.MAP_PRIVATE} if hasattr(mmap, "MAP_PRIVATE") else {}


def _pages(size: int) -> Any:
    """Anonymous memory of whole pages: aligned, and no array, so that bases end at the lease."""
    try:
        memory = mmap.mmap(-1, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, **_PRIVATE)
    except (OSError, ValueError, OverflowError):
        raise MemoryError(f"the system has no {format_bytes(size)} for one array") from None
    if hasattr(mmap, "MADV_HUGEPAGE") and size >= HUGE:
        with suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


BUFFERS = BufferCache()
"""The cache of this process; `einloom.backend.cpu.cpu().reclaim()` and `clear_caches()` empty it."""


class _InBytes:
    """The buffer cache among the others: its size and bound are bytes."""

    def info(self) -> CacheInfo:
        hits, misses, _, kept, limit = BUFFERS.info()
        return CacheInfo(hits, misses, limit, kept)

    def clear(self) -> int:
        return BUFFERS.clear()


register("buffers (bytes)", _InBytes())


def empty(shape: Shape, dtype: np.dtype[Any]) -> Any:
    """np.empty, in lent memory where the array is large."""
    if math.prod(shape) * dtype.itemsize < LENT or dtype.hasobject:
        return np.empty(shape, dtype)
    return BUFFERS.array(shape, dtype)


def fresh(shape: Shape, dtype: np.dtype[Any], beside: Sequence[Any]) -> Any:
    """An undefined array for who may not come again: np.empty where it is no larger than one of the arrays
    that there are, since malloc may have kept pages that were used for such another one. For larger ones it
    has none, and whole huge pages are cleared in two thirds of the time (32 MiB)."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < HUGE or dtype.hasobject:
        return np.empty(shape, dtype)
    if nbytes <= min(GIVEN_BACK, max(x.nbytes for x in beside)):
        return np.empty(shape, dtype)
    return BUFFERS.array(shape, dtype)


def in_layout(spec: ArraySpec, make: Callable[[Shape], Any]) -> Any:
    """An array of this spec: `make(shape)` gives a row-major one."""
    if spec.layout is None:
        return make(spec.shape)
    inverse = sorted(range(len(spec.layout)), key=spec.layout.__getitem__)
    return make(tuple(spec.shape[axis] for axis in spec.layout)).transpose(inverse)


def empty_as(spec: ArraySpec) -> Any:
    """An array of this spec, in its layout, as `empty` makes it."""
    return in_layout(spec, lambda shape: empty(shape, spec.dtype))


def allocator(spec: ArraySpec) -> Callable[[], Any]:
    """`empty_as` for one spec, prepared for kernels that are called often."""
    layout, dtype = spec.layout, spec.dtype
    shape = spec.shape if layout is None else tuple(spec.shape[axis] for axis in layout)
    make: Callable[[], Any] = partial(np.empty, shape, dtype)
    if spec.nbytes >= LENT and not dtype.hasobject:
        make = partial(BUFFERS.array, shape, dtype)
    if layout is None:
        return make
    inverse = tuple(sorted(range(len(layout)), key=layout.__getitem__))
    return lambda: make().transpose(inverse)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BUFFERS.renew_lock)

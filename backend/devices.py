"""Devices: a backend's kernels, numbered pools, and one stream of work.

`device("cpu:1")` is the same object until it is closed; "gpu:0" is the first card. The CPU shows itself as
several devices, each with pools and a thread of its own, so that a program for many devices runs, and is
tested, on one machine. A device's number is its *ordinal*; `device_id` differs between all devices that a
process ever opens.

What the pools hold is the business of contexts; a device counts them, numbers their pools from 1 on, keeps
what is uploaded once for all of them (constants), and has one merge buffer, pool 0: room for one foreign
array at a time, which grows where it stands.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .._base.errors import ClosedError, DeviceError
from .._base.numbers import format_bytes
from .cpu import cpu
from .cpu.memory import CpuMemory
from .pools import ALIGNMENT, BufferLoc, Pools, RawMemory
from .protocol import Backend
from .runner import MOST_PENDING, Runner

if TYPE_CHECKING:
    from .gpu import GpuBackend

CPU_DEVICES = 8
"""Devices that the CPU shows itself as: the same number on every machine."""
MERGE = BufferLoc(0, 0)
"""Where the merge buffer lies."""


class Device:
    """One device: `backend`, `pools`, `runner`, and what all of its contexts share.

    `raw` is its memory; `alignment` that of every array in its pools.
    """

    def __init__(
        self,
        backend: Backend,
        raw: RawMemory,
        ordinal: int,
        *,
        alignment: int = ALIGNMENT,
        most_pending: int = MOST_PENDING,
        runner: Runner | None = None,
    ) -> None:
        self.backend, self.ordinal, self.alignment = backend, ordinal, alignment
        self.device_id = next(_IDS)
        self.name = f"{backend.name}:{ordinal}"
        self.pools = Pools(raw, self.name)
        self.runner = Runner(self.name, most_pending) if runner is None else runner
        self.constants: dict[Any, Any] = {}  # where a constant lies, by its node
        self.merge_capacity = 0
        self.merge_tenant: Any = None  # what the merge buffer holds
        self.merge_buffer: Any = None  # its events, kept by whoever orders the work
        self.linking = threading.Lock()  # of what is looked for and made, if it is not there
        self.lock = (
            threading.Lock()
        )  # of the pools; held for short, and never together with another
        self.contexts = 0  # whose memory is not given back yet
        self.abandoned: deque[Callable[[], None]] = (
            deque()
        )  # by destructors, which may wait for no lock
        self._next_pool_id = 1
        self._is_closed = False

    @property
    def next_pool_id(self) -> int:
        """The number of the next pool; they are given out in order, and never again."""
        return self._next_pool_id

    def new_pools(self, sizes: list[int]) -> list[int]:
        """A pool of each size, all of them or none: their numbers, the next ones."""
        made: list[int] = []
        self.collect()
        with self.lock:
            self._check_open()
            first = self._next_pool_id
            try:
                for pool, size in enumerate(sizes, first):
                    self.pools.alloc_pool(pool, size, self.alignment)
                    made.append(pool)
            except BaseException:
                for pool in made:
                    self.pools.free_pool(pool)
                raise
            self._next_pool_id = first + len(sizes)
        return made

    def collect(self) -> None:
        """Free what destructors have left, unless somebody else is at the pools: then it is done later."""
        if self.lock.acquire(blocking=False):
            try:
                while self.abandoned:
                    self.abandoned.popleft()()
            finally:
                self.lock.release()

    def undo_pools(self, pools: list[int]) -> None:
        """Free pools that were just made and are given to nobody, and their numbers if they are the last."""
        with self.lock:
            for pool in pools:
                self.pools.free_pool(pool)
            if pools and self._next_pool_id == pools[-1] + 1:
                self._next_pool_id = pools[0]

    def reserve_merge(self, size: int) -> None:
        """Room for `size` bytes in pool 0. What it held is lost if it must grow: the old slab is freed first.

        Called by work of this device's stream, when all earlier readers are done.
        """
        with self.lock:
            if size <= self.merge_capacity and 0 in self.pools.sizes:
                return
            self.merge_tenant, self.merge_capacity = None, 0
            if 0 in self.pools.sizes:
                self.pools.free_pool(0)
            self.pools.alloc_pool(0, size, self.alignment)
            self.merge_capacity = size

    # ---- the stream ------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return self.runner.is_idle

    def all_work(self) -> Future[Any]:
        """An event: done when all is done that is scheduled now."""
        return self.runner.submit(lambda future: _nothing)

    def wait(self) -> None:
        """Until the device is idle."""
        self.runner.wait()

    # ---- its end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Free constants and merge buffer and end the thread; contexts must be closed before."""
        self.collect()
        with self.lock:
            self._check_open()
            if self.contexts:
                raise DeviceError(
                    f"{self.name}: {self.contexts} contexts are not closed; close them first"
                )
            self._is_closed = True
        self.runner.close()
        for buffer in tuple(self.constants.values()):
            for reader in tuple(buffer.readers):  # on other devices
                with suppress(CancelledError):
                    reader.exception()
        with self.lock:
            for pool in list(self.pools.sizes):  # each once, however many constants lie in it
                self.pools.free_pool(pool)
            self.constants.clear()
            self.merge_tenant, self.merge_capacity = None, 0
        with _LOCK:
            if _OPEN.get(self.name) is self:
                del _OPEN[self.name]

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.name} is closed; einloom.device({self.name!r}) opens it anew")

    def __repr__(self) -> str:
        self.collect()
        pools = self.pools.sizes
        return (
            f"<device {self.name}, id {self.device_id}: {self.contexts} contexts, {len(pools)} pools, "
            f"{format_bytes(self.pools.nbytes)}>"
        )


def device(name: str | Device = "cpu") -> Device:
    """The device of a name, "cpu:1"; "cpu" is "cpu:0", and "gpu" is "gpu:0".

    Args:
        name: backend and ordinal, "cpu:1" or "gpu:0"; a Device is returned as it is.

    Raises:
        DeviceError: there is no such device; those that there are are named, or what a GPU lacks.

    >>> device("cpu:1") is device("cpu:1"), device("cpu").ordinal
    (True, 0)
    """
    if isinstance(name, Device):
        name._check_open()
        return name
    kind, _, number = name.partition(":") if isinstance(name, str) else ("", "", "")
    ordinal = int(number or 0) if number.isdecimal() or name in ("cpu", "gpu") else -1
    if kind not in _KINDS or ordinal < 0 or (kind == "cpu" and ordinal >= CPU_DEVICES):
        raise DeviceError(f"there is no device {name!r:.60}; there are {', '.join(devices())}")
    with _LOCK:
        full = f"{kind}:{ordinal}"
        if full not in _OPEN:
            _OPEN[full] = _KINDS[kind](ordinal)
        return _OPEN[full]


def devices() -> tuple[str, ...]:
    """The names of all devices, which `device` takes: CPUs, then the GPUs that this process can use."""
    from .gpu import count  # CuPy is imported there, if it is installed

    gpus = (f"gpu:{ordinal}" for ordinal in range(count()))
    return (*(f"cpu:{ordinal}" for ordinal in range(CPU_DEVICES)), *gpus)


def _cpu(ordinal: int) -> Device:
    return Device(cpu(), CpuMemory(), ordinal)


def _gpu(ordinal: int) -> Device:
    """Raises DeviceError where CuPy, the card or its driver is missing."""
    from .gpu import gpu

    backend = gpu(ordinal)
    return gpu_device(backend)


def gpu_device(backend: GpuBackend) -> Device:
    """A device of the card that this backend is for, with pools and a stream of work of its own."""
    from .gpu.memory import GpuMemory
    from .gpu.streams import StreamRunner

    xp, ordinal = backend.xp, backend.ordinal
    runner = StreamRunner(backend.device, xp, ordinal)
    return Device(backend, GpuMemory(xp, ordinal), ordinal, runner=runner)


_KINDS: dict[str, Callable[[int], Device]] = {"cpu": _cpu, "gpu": _gpu}


def _nothing() -> None:
    """Work that is done as soon as it is its turn."""


_IDS = itertools.count()
_OPEN: dict[str, Device] = {}
_LOCK = threading.Lock()


def _renew_locks() -> None:
    """In the child of a fork: another thread may have held one."""
    global _LOCK
    _LOCK = threading.Lock()
    for one in _OPEN.values():
        one.lock, one.linking = threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)

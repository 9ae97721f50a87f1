"""A device whose pointers are integers, and which writes down what is asked of its memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from einloom.backend.cpu import CpuBackend
from einloom.backend.devices import Device
from einloom.backend.spec import ArraySpec


class MockMemory:
    """An address space of `room` bytes: memory is taken from its beginning on, and never given twice.

    `log` has one line for each call; `live` the sizes of slabs by their pointer.
    """

    kind = "mock"

    def __init__(self, room: int = 1 << 16) -> None:
        self.log: list[str] = []
        self.live: dict[int, int] = {}
        self._bytes = np.zeros(room, np.uint8)
        self._top = 4  # so that a pointer is aligned because it was asked for

    def alloc(self, size: int, alignment: int) -> int:
        pointer = -(-self._top // alignment) * alignment
        if pointer + size > len(self._bytes):
            self.log.append(f"alloc {size}: no room")
            raise MemoryError("the mock device is full")
        self._top = pointer + size + 4
        self._bytes[pointer : pointer + size] = 0xAB  # whoever reads it has forgotten to write
        self.live[pointer] = size
        self.log.append(f"alloc {size} at {pointer}")
        return pointer

    def free(self, base: int) -> None:
        del self.live[base]
        self.log.append(f"free {base}")

    def zero(self, base: int, offset: int, size: int) -> None:
        self._bytes[base + offset : base + offset + size] = 0
        self.log.append(f"zero {size} at {base + offset}")

    def copy(self, target: Any, at: int, source: Any, start: int, size: int) -> None:
        moved = self._bytes[source + start : source + start + size]
        self._bytes[target + at : target + at + size] = moved
        self.log.append(f"copy {size} from {source + start} to {target + at}")

    def array(self, base: int, offset: int, spec: ArraySpec) -> Any:
        assert offset + spec.nbytes <= self.live[base]
        return np.ndarray(spec.shape, spec.dtype, self._bytes, base + offset)


class MockBackend(CpuBackend):
    """The CPU's kernels under another name."""

    name = "mock"


@contextmanager
def mock_device(
    room: int = 1 << 16, alignment: int = 8, memory: MockMemory | None = None, **options: Any
) -> Iterator[tuple[Device, MockMemory]]:
    """A device of its own, closed at the end; nothing may be left in its pools then."""
    memory = MockMemory(room) if memory is None else memory
    device = Device(MockBackend(), memory, 0, alignment=alignment, **options)
    try:
        yield device, memory
    finally:
        device.close()
    assert memory.live == {} or len(device.pools.sizes) == 0


@contextmanager
def cpu_devices(*names: str) -> Iterator[list[Device]]:
    """Devices of the CPU whose pools begin anew; closed at the end."""
    from einloom import device

    for name in names:
        if device(name).contexts:
            gc.collect()  # earlier tests have left them
        device(name).close()
    opened = [device(name) for name in names]
    try:
        yield opened
    finally:
        for name in names:
            device(name).close()  # another one, where a test has closed the first
        assert [one.pools.nbytes for one in opened] == [0] * len(opened)

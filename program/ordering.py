"""Work on buffers, and the events by which it waits for other work.

Each buffer has the event of its last writer, and those of readers on other devices. Work of one device is
done in order, so events matter between devices, and where work failed or was cancelled. What must have run
at all is in the ledger.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .._base.errors import OrderError
from ..backend.devices import MERGE, Device
from ..backend.pools import BufferLoc
from .ledger import Dependency, Mark
from .nodes import Node


class _Scheduling:
    """Held while work finds its place in the order: the order of one device agrees with that of another."""

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner == me:  # a destructor, say, that the collection of garbage calls here
            raise OrderError("contexts are used while work is scheduled in the same thread")
        self._lock.acquire()
        self._owner = me

    def __exit__(self, *ending: object) -> None:
        self._owner = 0
        self._lock.release()


SCHEDULING = _Scheduling()


class Write:
    """One write of a buffer, scheduled or done."""

    __slots__ = ("before", "by", "event", "has_begun", "is_done")

    def __init__(self, event: Future[Any], by: Mark, before: Write | None) -> None:
        self.event, self.by, self.before = event, by, before
        self.has_begun = False  # contents are those of `before` until then
        self.is_done = False

    def check(self, buffer: Buffer, reader: str) -> None:
        """Wait for the write, and refuse what it has not written."""
        if self.is_done:
            return
        try:
            error = self.event.exception()
        except CancelledError:
            error = None
            ending = "was cancelled"
        else:
            ending = f"failed ({type(error).__name__}: {error})"
            if error is None:
                return
        raise OrderError(
            f"{reader}: {buffer.told} was to be written by {self.by.name!r}, which {ending}; run that again"
        ) from error


class Buffer:
    """The memory of a node in a context and all that inherit it: its place, arrays in it, and events."""

    __slots__ = ("arrays", "device", "loc", "node", "readers", "write")

    def __init__(self, device: Device, node: Node, loc: BufferLoc) -> None:
        self.device, self.node, self.loc = device, node, loc
        self.arrays: dict[Node, Any] = {}
        self.write: Write | None = None
        self.readers: list[Future[Any]] = []  # on other devices

    def array(self, node: Node) -> Any:
        """The array of the node, or of an alias of it."""
        found = self.arrays.get(node)
        if found is None:
            found = self.device.pools.array_at(self.loc.after(node.delta), node.spec)
            self.arrays[node] = found
        return found

    @property
    def told(self) -> str:
        return "the merge buffer" if self.node is FOREIGN else repr(self.node)

    def last_write(self, mark: Mark) -> Write | None:
        """The one whose contents work with this mark finds; None where nothing was written.

        What was cancelled has changed nothing. What failed before it wrote has not either: it may be run
        again, but nobody else takes the contents of before for its result.
        """
        write = self.write
        # in this order: it may begin and end meanwhile
        while write is not None and write.event.done() and not write.has_begun:
            if not (write.event.cancelled() or write.by is mark):
                break
            write = write.before
        return write

    def is_written(self, by: str) -> None:
        """From the host, while nobody else knows the buffer."""
        event: Future[Any] = Future()
        event.set_result(None)
        self.write = Write(event, Mark(by), None)
        self.write.has_begun = self.write.is_done = True


FOREIGN = Node("merge buffer", (), "uint8")
"""Stands for whatever the merge buffer holds."""


def merge_buffer(device: Device) -> Buffer:
    """The one of a device, with the events of whoever writes and reads it."""
    with device.lock:
        if device.merge_buffer is None:
            device.merge_buffer = Buffer(device, FOREIGN, MERGE)
        found: Buffer = device.merge_buffer
        return found


@dataclass
class Work:
    """What is done on a device, with what it reads and writes there, and on other devices (`foreign`).

    It holds the contexts whose memory that is: work under way keeps them open. `ready` is called when all
    earlier work is done, and nothing is written yet.
    """

    name: str
    check_open: Callable[[], None]
    act: Callable[[Any], Any]
    reads: tuple[Buffer, ...] = ()
    writes: tuple[Buffer, ...] = ()
    foreign: tuple[Buffer, ...] = ()
    depends_on: tuple[Dependency, ...] = ()
    mark: Mark = field(default_factory=lambda: Mark(""))
    holds: Any = None
    ready: Callable[[], None] = lambda: None

    def prepared(self, argument: Any = None) -> Callable[[Future[Any]], Callable[[], Any]]:
        """What a runner takes."""

        def prepare(event: Future[Any]) -> Callable[[], Any]:
            with SCHEDULING:
                origins, others, made = self._scheduled(event)
            return lambda: self._done(argument, origins, others, made)

        return prepare

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of routines that must come before, and have not."""
        return tuple(one.mark.name for one in self.depends_on if not one.mark.is_coming)

    def _scheduled(
        self, event: Future[Any]
    ) -> tuple[list[tuple[Buffer, Write]], list[Future[Any]], list[Write]]:
        """Look at all that must be over before, then tell all that comes later."""
        self.check_open()
        self._check_order([one for one in self.depends_on if not one.mark.is_coming])
        origins = []
        for buffer in (*self.reads, *self.foreign):
            write = buffer.last_write(self.mark)
            if write is None:
                raise OrderError(
                    f"{self.name}: nothing was written to {buffer.told} yet on {buffer.device.name}; "
                    f"set it, or run what writes it"
                )
            if not write.is_done and write.event.done():
                write.check(buffer, self.name)
            origins.append((buffer, write))
        others = []
        for buffer in self.writes:
            buffer.readers = [reader for reader in buffer.readers if not reader.done()]
            others += buffer.readers
        made = [Write(event, self.mark, buffer.last_write(self.mark)) for buffer in self.writes]
        for buffer, write in zip(self.writes, made, strict=True):
            buffer.write = write
        for buffer in self.foreign:
            buffer.readers = [reader for reader in buffer.readers if not reader.done()]
            buffer.readers.append(event)
        self.mark.goes_on(event)
        return origins, others, made

    def _done(
        self,
        argument: Any,
        origins: list[tuple[Buffer, Write]],
        others: list[Future[Any]],
        made: list[Write],
    ) -> Any:
        for reader in others:
            over(reader)
        for buffer, write in origins:
            write.check(buffer, self.name)
        self._check_order([one for one in self.depends_on if one.mark.completed == 0])
        self.ready()
        for write in made:
            write.has_begun, write.before = True, None  # what was there is gone
        result = self.act(argument)
        for write in made:
            write.is_done = True
        self.mark.completed += 1
        return result

    def _check_order(self, missing: list[Dependency]) -> None:
        if missing:
            listed = ", ".join(f"{one.mark.name!r}, which {one.why}" for one in missing)
            raise OrderError(f"{self.name}: not executed yet: {listed}; run that first")


def over(event: Future[Any]) -> None:
    """Wait for an event, however it ends."""
    with suppress(CancelledError):
        event.exception()


def _renew_lock() -> None:
    """In the child of a fork: another thread may have held it."""
    global SCHEDULING
    SCHEDULING = _Scheduling()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)

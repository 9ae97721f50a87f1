"""Time and order on a device: clocks of events, and a runner whose work is done when its stream is.

Work runs on the stream that is current where it is submitted. So it comes after what the caller queued
there before, and memory that one of them frees is taken by the other in the order of the stream: no array
can be written before who reads it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from ..runner import MOST_PENDING, Prepare, Runner
from .modules import Module


class EventClock:
    """Times on the stream of a device that is current there."""

    def __init__(self, xp: Module, ordinal: int) -> None:
        self._xp, self._ordinal = xp, ordinal
        self._events: list[Any] = []

    def start(self) -> None:
        with self._xp.cuda.Device(self._ordinal):
            event = self._xp.cuda.Event()
            event.record()
        self._events.append(event)

    def stop(self) -> None:
        self.start()

    def seconds(self) -> list[float]:
        if not self._events:
            return []
        self._events[-1].synchronize()
        pairs = zip(self._events[::2], self._events[1::2], strict=True)
        return [self._xp.cuda.get_elapsed_time(*pair) / 1000 for pair in pairs]


@contextmanager
def across(xp: Module, source: int, target: int) -> Iterator[None]:
    """A block on one card that reads memory of another, in the order of both cards' current streams: it comes
    after what is queued there, and what is queued there afterwards comes after it."""
    cuda = xp.cuda
    with cuda.Device(source):
        theirs = cuda.get_current_stream()
        before = cuda.Event(disable_timing=True)
        before.record(theirs)
    with cuda.Device(target):
        ours = cuda.get_current_stream()
        ours.wait_event(before)
        yield
        after = cuda.Event(disable_timing=True)
        after.record(ours)
    theirs.wait_event(after)


class StreamRunner(Runner):
    """Work whose end is an event: a future has its result when the device is done with it.

    The thread queues a piece of work and waits for its event; the device is at no other piece meanwhile.
    """

    def __init__(
        self, name: str, xp: Module, ordinal: int, most_pending: int = MOST_PENDING
    ) -> None:
        super().__init__(name, most_pending)
        self._xp, self._ordinal = xp, ordinal

    def submit(self, prepare: Prepare) -> Future[Any]:
        return super().submit(self._to_its_end(prepare))

    def run(self, prepare: Prepare) -> Any:
        return super().run(self._to_its_end(prepare))

    def settle(self) -> None:
        with self._xp.cuda.Device(self._ordinal):
            self._xp.cuda.get_current_stream().synchronize()

    def _to_its_end(self, prepare: Prepare) -> Prepare:
        cuda = self._xp.cuda
        with cuda.Device(self._ordinal):
            stream = cuda.get_current_stream()

        def prepared(future: Future[Any]) -> Callable[[], Any]:
            work = prepare(future)

            def act() -> Any:
                with cuda.Device(self._ordinal), stream:
                    result = work()
                    event = cuda.Event(block=True, disable_timing=True)
                    event.record(stream)
                event.synchronize()
                return result

            return act

        return prepared

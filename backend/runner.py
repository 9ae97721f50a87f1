"""The stream of a device: work in the order in which it was given, one piece at a time.

`submit` puts work into a bounded queue for the device's thread; `run` does it in the caller while nothing
is queued, and waits its turn otherwise. The thread starts when something is submitted and ends when it
has had nothing to do for a while, or at `close`; at the end of the process what is queued is done first.

Work is told of in two steps: `prepare(future)`, called when the place in the order is certain, looks at
what must be over before and says so to later work; what it returns is called when all earlier work is
done. So no work waits for later work, on whatever device, and nobody waits in a circle.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any

from .._base.errors import ClosedError, OptionError, OrderError

Prepare = Callable[["Future[Any]"], Callable[[], Any]]
MOST_PENDING = 256
LINGER = 1.0  # seconds without work after which the thread ends


class Runner:
    """Does work in order. `submit` waits while `most_pending` pieces are queued."""

    def __init__(self, name: str, most_pending: int = MOST_PENDING) -> None:
        if type(most_pending) is not int or most_pending < 1:
            raise OptionError(f"most_pending={most_pending!r}: give a positive integer")
        self.name, self.most_pending = name, most_pending
        self._renew()
        _RUNNERS.add(self)

    def _renew(self) -> None:
        self._changed = threading.Condition()  # guards all that follows
        self._queue: deque[tuple[Future[Any], Context, Callable[[], Any]]] = deque()
        self._busy = self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, prepare: Prepare) -> Future[Any]:
        """Queue work; the future has its result or its exception, and can be cancelled until it begins."""
        future: Future[Any] = Future()
        with self._changed:
            while not self._closed and len(self._queue) >= self.most_pending:
                self._refuse_to_wait_for_itself()
                self._changed.wait()
            self._check_open()
            self._queue.append((future, copy_context(), prepare(future)))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name=f"einloom {self.name}", daemon=True
                )
                _finish_at_exit()
                self._thread.start()
            self._changed.notify_all()
        return future

    def run(self, prepare: Prepare) -> Any:
        """Do work when it is its turn, and wait for it: its result."""
        future: Future[Any] = Future()
        with self._changed:
            self._check_open()
            is_idle = not self._queue and not (self._busy and not self._is_here())
            if is_idle:
                work, was_busy, self._busy = prepare(future), self._busy, True
            else:
                self._refuse_to_wait_for_itself()
        if not is_idle:
            return self.submit(prepare).result()
        try:
            _perform(future, work)
        finally:
            with self._changed:
                self._busy = was_busy
                self._changed.notify_all()
        return future.result()

    @property
    def is_idle(self) -> bool:
        with self._changed:
            return not self._queue and not self._busy

    @property
    def pending(self) -> int:
        """Pieces of work in the queue."""
        with self._changed:
            return len(self._queue)

    def wait(self) -> None:
        """Until all work is done that there is now."""
        with self._changed:
            if self._is_here():
                if self._queue:
                    self._refuse_to_wait_for_itself()
                return
            nothing_to_do = not self._queue and not self._busy
        if not nothing_to_do:
            self.run(lambda future: lambda: None)

    def close(self) -> None:
        """Do what is queued, take nothing more, and end the thread."""
        with self._changed:
            self._closed, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while self._busy or not self._queue:
                    is_over = self._closed and not self._queue
                    if is_over or not (self._changed.wait(LINGER) or self._queue or self._busy):
                        self._thread = None
                        return
                future, context, work = self._queue.popleft()
                self._busy = True
                self._changed.notify_all()
            context.run(_perform, future, work)
            del future, context, work  # what they hold would live until the next
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def _refuse_to_wait_for_itself(self) -> None:
        if self._is_here():
            raise OrderError(
                f"{self.name}: its own thread, in a callback say, would wait for work that is queued "
                f"behind it; use submit, or another thread"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.name} is closed; einloom.device({self.name!r}) opens it anew")


def _perform(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
        del future  # the error's traceback holds this frame, and the future the error
    else:
        future.set_result(result)


_RUNNERS: weakref.WeakSet[Runner] = weakref.WeakSet()
_asked: list[bool] = []


def _finish_at_exit() -> None:
    if not _asked:
        _asked.append(True)
        atexit.register(_close_all)


def _close_all() -> None:
    for runner in tuple(_RUNNERS):
        runner.close()


def _renew_after_fork() -> None:
    """The child of a fork has none of the parent's threads, and perhaps a lock that one of them held."""
    for runner in tuple(_RUNNERS):
        runner._renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)

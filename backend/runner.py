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
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from .._base.errors import ClosedError, OptionError, OrderError
from .._base.log import log

Prepare = Callable[["Future[Any]"], Callable[[], Any]]
MOST_PENDING = 256
LINGER = 1.0  # seconds without work after which the thread ends


class Runner:
    """Does work in order. `submit` waits while `most_pending` pieces are queued; a thread that is at a piece
    of work itself, of any stream, gets an OrderError where it would wait."""

    def __init__(self, name: str, most_pending: int = MOST_PENDING) -> None:
        if type(most_pending) is not int or most_pending < 1:
            raise OptionError(f"most_pending={most_pending!r}: give a positive integer")
        self.name, self.most_pending = name, most_pending
        self._renew()
        _RUNNERS.add(self)

    def _renew(self) -> None:
        self._changed = threading.Condition()  # guards all that follows
        self._queue: deque[tuple[Future[Any], Context, Callable[[], Any]]] = deque()
        self._running: list[Future[Any]] = []  # one, and what it does within itself
        self._performer = 0  # the thread that does them, the runner's own or a caller
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, prepare: Prepare) -> Future[Any]:
        """Queue work; the future has its result or its exception, and can be cancelled until it begins."""
        future: Future[Any] = Future()
        with self._changed:
            while not self._closed and len(self._queue) >= self.most_pending:
                _refuse_to_wait(self.name)
                self._changed.wait()
            self._check_open()
            try:
                self._queue.append((future, copy_context(), prepare(future)))
                self._start()
            except BaseException as error:
                if self._queue and self._queue[-1][0] is future:
                    self._queue.pop()
                _end(future, error)
                raise
            self._changed.notify_all()
        return future

    def run(self, prepare: Prepare) -> Any:
        """Do work when it is its turn, and wait for it: its result."""
        future: Future[Any] = Future()
        is_begun = False
        try:
            with self._changed:
                self._check_open()
                if not self._queue and (not self._running or self._is_here()):
                    is_begun = True
                    self._running.append(future)
                    self._performer = threading.get_ident()
                    work = prepare(future)
                else:
                    _refuse_to_wait(self.name)
            if is_begun:
                _perform(future, work)
        except BaseException as error:
            _end(future, error)
            raise
        finally:
            if is_begun:
                self._ended(future)
        return future.result() if is_begun else self.submit(prepare).result()

    @property
    def is_idle(self) -> bool:
        with self._changed:
            return not self._queue and not self._running

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
                    _refuse_to_wait(self.name)
                return
            nothing_to_do = not self._queue and not self._running
        if not nothing_to_do:
            self.run(lambda future: lambda: None)

    def settle(self) -> None:
        """Until what this thread has queued on the device itself is done; here nothing is left to queues."""

    def close(self) -> None:
        """Do what is queued, take nothing more, and end the thread."""
        with self._changed:
            self._closed, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name=f"einloom {self.name}", daemon=True)
            _finish_at_exit()
            thread.start()
            self._thread = thread

    def _serve(self) -> None:
        while True:
            with self._changed:
                while self._running or not self._queue:
                    is_over = self._closed and not self._queue
                    if is_over or not (self._changed.wait(LINGER) or self._queue or self._running):
                        self._thread = None
                        return
                future, context, work = self._queue.popleft()
                self._running.append(future)
                self._performer = threading.get_ident()
                self._changed.notify_all()
            try:
                context.run(_perform, future, work)
            except BaseException as error:  # of a callback: the future has its own already
                log.error("a callback in the thread of %s raised %r", self.name, error)
            finally:
                self._ended(future)
            del future, context, work  # what they hold would live until the next

    def _ended(self, future: Future[Any]) -> None:
        with self._changed:
            if future in self._running:
                self._running.remove(future)
            self._performer = self._performer if self._running else 0
            self._changed.notify_all()

    def _is_here(self) -> bool:
        return threading.get_ident() == self._performer

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.name} is closed; einloom.device({self.name!r}) opens it anew")


class _Here(threading.local):
    """How many pieces of work this thread is at, one within another."""

    depth = 0


_HERE = _Here()


def _refuse_to_wait(name: str) -> None:
    """For another piece of work, in the middle of one: that may be waiting for this one."""
    if _HERE.depth:
        raise OrderError(
            f"{name}: work of a device, or a callback in its thread, would wait for work that may be waiting "
            f"for it; use submit while the queue has room, or another thread"
        )


def _perform(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    _HERE.depth += 1
    try:
        try:
            result = work()
        except BaseException as error:
            future.set_exception(error)
            del future  # the error's traceback holds this frame, and the future the error
        else:
            future.set_result(result)
    finally:
        _HERE.depth -= 1


def _end(future: Future[Any], error: BaseException) -> None:
    """With an error, if it has not ended: nobody waits for it for ever."""
    if not future.done():
        with suppress(InvalidStateError):
            future.set_exception(error)


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
    _HERE.depth = 0
    for runner in tuple(_RUNNERS):
        lost = [*runner._running, *(future for future, _, _ in runner._queue)]
        is_closed = runner._closed
        runner._renew()
        runner._closed = is_closed
        for future in lost:
            # its lock may be held for ever, and its callbacks are the parent's business
            vars(future).update(_condition=threading.Condition(), _done_callbacks=[])
            _end(future, OrderError(f"{runner.name}: this was work of the parent process"))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)

"""One pool of threads for our parallel kernels: safe from several callers and after fork.

`parallel_for(run, n)` cuts range(n) into one piece a thread; the caller works on the first. The pool
has no barrier: a job carries its own count of open pieces, so callers never wait for each other's
work, and a caller that is interrupted leaves the pool usable. A loop inside a piece runs on the
thread of that piece. Pieces depend on n and the number of threads alone, never on timing.

To wake a thread that sleeps takes the system tens of microseconds. So whoever waits, for a piece or for
the last of them, looks first for as long as that would take, without the interpreter's lock and leaving the
core to anybody else at every look: a bell rings when pieces are put into the queue, and one when a job is
done. Looking is a compiled kernel; until `spin_with` gives it, because something else has been compiled,
threads go to sleep at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from ..._base.options import num_threads

Run = Callable[[int, int], None]
Watch = Callable[[Any, int, int, int], bool]  # kernels.wait.watch
LOOKS = 100  # of about half a microsecond: then it is cheaper to sleep
AFTER = 3  # looks in which a caller that has put pieces into the queue comes to its own piece
MOST_THREADS = 4 * (os.cpu_count() or 1)  # more only wait for each other, and stay for ever


class _Job:
    """One parallel loop: counts pieces not yet done and keeps the first error."""

    __slots__ = ("bell", "done", "error", "lock", "open", "run")

    def __init__(self, run: Run, pieces: int) -> None:
        self.run, self.open = run, pieces
        self.bell = np.zeros(1, np.int64)
        self.error: BaseException | None = None
        self.lock, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()  # held until the last piece is done: a bare lock wakes faster than an Event

    def work(self, start: int, stop: int) -> None:
        try:
            self.run(start, stop)
        except BaseException as error:
            self.error = self.error or error
        with self.lock:
            self.open -= 1
            if self.open == 0:
                self.done.release()
                self.bell[0] = 1


class _Pool:
    """Daemon threads that take pieces from one queue; it grows to what was ever asked for."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[tuple[_Job, int, int]] = SimpleQueue()
        self.bell = np.zeros(1, np.int64)  # another number whenever pieces were put into the queue
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()

    def grow(self, workers: int) -> None:
        if len(self.threads) >= workers:
            return
        with self.lock:
            while len(self.threads) < workers:
                name = f"einloom-{len(self.threads)}"
                thread = threading.Thread(
                    target=_serve, args=(self.queue, self.bell), name=name, daemon=True
                )
                thread.start()
                self.threads.append(thread)


def _serve(queue: SimpleQueue[tuple[_Job, int, int]], bell: Any) -> None:
    _here.serves = True
    while True:
        rung = bell[0]
        try:
            job, start, stop = queue.get_nowait()
        except Empty:
            if _watch is not None and _watch(bell, rung, LOOKS, AFTER):
                continue
            job, start, stop = queue.get()
        job.work(start, stop)
        del job  # else the last job's arrays live as long as the thread waits


_watch: Watch | None = None
_pool = _Pool()
_here = threading.local()  # .serves is set in the threads of the pool


def parallel_for(run: Run, n: int, threads: int | None = None) -> None:
    """Call run(start, stop) on disjoint pieces that cover range(n), on several threads."""
    pieces = min(n, threads or num_threads(), MOST_THREADS)
    if pieces <= 1:
        if n > 0:
            run(0, n)
        return
    bounds = [n * piece // pieces for piece in range(pieces + 1)]
    if getattr(_here, "serves", False):  # waiting for a pool from inside it could wait for ever
        for start, stop in pairwise(bounds):
            run(start, stop)
        return
    pool, job = _pool, _Job(run, pieces)
    pool.grow(pieces - 1)
    for piece in range(1, pieces):
        pool.queue.put((job, bounds[piece], bounds[piece + 1]))
    pool.bell[0] += 1  # two callers may write the same number: it is another one all the same
    job.work(bounds[0], bounds[1])
    interrupted: BaseException | None = None
    while True:
        try:
            if _watch is not None and job.open:
                _watch(job.bell, 0, LOOKS, 0)
            job.done.acquire()
            break
        except BaseException as error:  # the others must not write once the caller has gone on
            interrupted = error
    if interrupted is not None:
        raise interrupted
    if job.error is not None:
        raise job.error


def spin_with(watch: Watch) -> None:
    """From now on threads look for work for some microseconds before they sleep."""
    global _watch
    _watch = watch


def _rebuild_after_fork() -> None:
    """The child of a fork has none of the parent's threads and perhaps a held lock: start afresh."""
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rebuild_after_fork)

"""One pool of threads for our parallel kernels: safe from several callers and after fork.

`parallel_for(run, n)` cuts range(n) into one piece a thread; the caller works on the first. The pool
has no barrier: a job carries its own pieces and counts, so callers never wait for each other's work; a
caller that is done with its piece takes others that nobody has begun; one that is interrupted waits for
those that somebody has. A loop inside a piece runs on the
thread of that piece. Pieces depend on n and the number of threads alone, never on timing.

To wake a thread that sleeps takes the system tens of microseconds. So whoever waits, for a piece or for
the last of them, looks first for some two hundred, without the interpreter's lock and leaving the core to
anybody else at every look: a bell rings when pieces are put into the queue, and one when a job is done.
Whoever hears it waits until the one who rang has given up the interpreter's lock: to ask for it earlier is
to sleep. Looking is a compiled kernel; until `spin_with` gives it, because something else has been compiled,
threads go to sleep at once.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from ..._base.options import known_cpus, num_threads, options

Run = Callable[[int, int], None]
Watch = Callable[[Any, int, int, int], bool]  # kernels.wait.watch
LOOKS = 400  # of about half a microsecond: what a program does between two loops mostly takes less
PATIENCE = 0.05  # seconds after which a caller that waits looks for itself
AFTER = 10  # looks in which a caller that has put pieces into the queue comes to its own piece
LEAVING = 8  # looks in which a thread that is done with a job comes to wait for the next
REBOUND = 5e-5  # seconds for each thread that must pass before all are bound anew, which takes 2 µs for each
BACKLOG = 64  # jobs in the queue that no thread has taken out yet
MOST_THREADS = 4 * (os.cpu_count() or 1)  # more only wait for each other, and stay for ever


def _finder() -> Callable[[], int]:
    """The system's call for the number of the CPU that runs this; -1 where threads cannot be bound."""
    if hasattr(os, "sched_setaffinity"):
        with suppress(OSError, AttributeError):
            process = ctypes.PyDLL(None)  # keeps the interpreter's lock: giving it up takes longer
            found: Callable[[], int] = process.sched_getcpu
            return found
    return lambda: -1


_current_cpu = _finder()


class _Job:
    """One parallel loop: pieces not yet begun, how many the pool's threads are at, the first error.

    The caller may be interrupted between any two steps, the pool's threads never are: so all that must
    not be lost is counted by them. `pieces` is shared by single operations of a deque, which are atomic.
    """

    __slots__ = ("bell", "done", "error", "lock", "pieces", "run", "running")

    def __init__(self, run: Run, bounds: list[int]) -> None:
        self.run, self.running = run, 0
        self.pieces = deque(pairwise(bounds))
        self.error: BaseException | None = None
        self.bell = np.zeros(1, np.int64)  # another number whenever the pool has left the job
        self.lock, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()  # held until the pool has left: a bare lock wakes faster than an Event

    def serve(self) -> None:
        """Take the last piece that is left, in a thread of the pool."""
        with self.lock:
            self.running += 1  # before it is taken: whoever finds none left must see this
        with suppress(IndexError):  # others were faster, or the caller was interrupted
            self.attempt(*self.pieces.pop())
        with self.lock:
            self.running -= 1
            if self.running == 0:
                with suppress(RuntimeError):  # nobody has waited since the last time
                    self.done.release()
                self.bell[0] += 1

    def help(self) -> None:
        """Take pieces from the first on until none is left, in the caller."""
        while True:
            try:
                start, stop = self.pieces.popleft()
            except IndexError:
                return
            self.attempt(start, stop)

    def attempt(self, start: int, stop: int) -> None:
        try:
            self.run(start, stop)
        except BaseException as error:
            self.error = self.error or error
            if not isinstance(error, Exception):  # an interrupt: no other piece begins
                self.pieces.clear()

    def wait(self) -> None:
        """Until no thread of the pool is at a piece, and none is left. A wake-up may be lost when the
        caller is interrupted: it looks again after a while."""
        rung = self.bell[0]
        if self.running and _watch is not None:
            _watch(self.bell, rung, LOOKS, LEAVING)
        while self.running:
            self.done.acquire(timeout=PATIENCE)


class _Pool:
    """Daemon threads that take jobs from one queue; it grows to what was ever asked for."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[_Job] = SimpleQueue()
        self.bell = np.zeros(1, np.int64)  # another number whenever jobs were put into the queue
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()
        self.avoided = -1  # the CPU that threads are kept away from
        self.staying: set[object] = set()  # callers in `stay`, of which one is bound to it
        self.again = 0.0  # when the threads may be bound anew

    def grow(self, workers: int) -> None:
        if len(self.threads) >= workers:
            return
        with self.lock:
            while len(self.threads) < workers:
                name = f"einloom-{len(self.threads)}"
                arguments = (self.queue, self.bell, _cpus())
                thread = threading.Thread(target=_serve, args=arguments, name=name, daemon=True)
                thread.start()
                self.threads.append(thread)
                self.avoided, self.again = -1, 0.0

    def call(self, job: _Job, workers: int) -> None:
        """Ask so many threads for help; being asked in vain does no harm, and not being asked neither: the
        caller takes what nobody has begun. Without a bound, many small loops in a row would pile up while
        the threads wait for a core."""
        self.grow(workers)
        if (cpu := _current_cpu()) != self.avoided:
            self.keep_off(cpu)
        for _ in range(min(workers, BACKLOG - self.queue.qsize())):
            self.queue.put(job)
        self.bell[0] += 1  # two callers may write the same number: it is another one all the same

    def keep_off(self, cpu: int) -> None:
        """Let the threads run anywhere but where the caller runs.

        A thread that is woken may be queued there behind the caller, for milliseconds, while another CPU is
        idle: a halted virtual CPU does not count as idle with Linux.
        """
        now = time.monotonic()
        if self.staying or now < self.again:
            return  # another caller has bound itself to where the threads are not; or enough was spent on it
        self.again = now + REBOUND * len(self.threads)
        with suppress(OSError):  # forbidden here: then the system puts them where it likes
            others = os.sched_getaffinity(0) - {cpu}
            for thread in self.threads if others else ():
                if thread.native_id is not None:
                    os.sched_setaffinity(thread.native_id, others)
        self.avoided = cpu

    @contextmanager
    def stay(self) -> Iterator[None]:
        """The caller stays on the CPU that the threads keep off. Where it waits for the interpreter's lock,
        whoever gives that up wakes it, and the system might put it behind that thread. One caller at a time:
        with more of them there is no CPU to spare."""
        allowed: set[int] = set()
        caller = object()
        try:
            try:  # an interrupt may come at any moment, in the first `finally` too
                with self.lock:
                    is_first = not self.staying
                    self.staying.add(caller)
                with known_cpus(_cpus()):
                    if is_first and self.avoided >= 0:
                        with suppress(OSError):
                            allowed = os.sched_getaffinity(0)
                            os.sched_setaffinity(0, {self.avoided})
                    yield
            finally:
                _bind(allowed)
        finally:
            _bind(allowed)
            self.staying.discard(caller)


def _bind(cpus: set[int]) -> None:
    if cpus:
        with suppress(OSError):
            os.sched_setaffinity(0, cpus)


def stay() -> AbstractContextManager[None]:
    """Within it a caller whose threads work beside it stays on its CPU; nothing in a thread of the pool."""
    return nullcontext() if getattr(_here, "serves", False) else _pool.stay()


def _cpus() -> int:
    """How many CPUs the caller may use."""
    with options(threads=None):
        return num_threads()


def _serve(queue: SimpleQueue[_Job], bell: Any, cpus: int) -> None:
    _here.serves = True
    with known_cpus(cpus):
        _serve_forever(queue, bell)


def _serve_forever(queue: SimpleQueue[_Job], bell: Any) -> None:
    while True:
        rung = bell[0]
        try:
            job = queue.get_nowait()
        except Empty:
            if _watch is not None and _watch(bell, rung, LOOKS, AFTER):
                continue
            job = queue.get()
        job.serve()
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
    job = _Job(run, bounds)
    interrupted: BaseException | None = None
    while True:
        try:
            if interrupted is None:
                _pool.call(job, pieces - 1)
                job.help()
            else:
                job.pieces.clear()  # none begins any more
            job.wait()
            break
        except BaseException as error:  # the others must not write once the caller has gone on
            interrupted = error
    # a thread that was asked in vain finds the job later: it must not keep arrays alive until then, and
    # neither must an error and the frame that its traceback holds
    job.run = _nothing
    failed, job.error = interrupted or job.error, None
    if failed is not None:
        try:
            raise failed
        finally:
            del failed, interrupted


def invite(run: Callable[[int], None], threads: int | None = None) -> None:
    """Call run(0), and run(1), run(2), ... in threads of the pool that come before it returns.

    Nobody waits for those: `run` shares out what is to be done, so that all of it is when it returns in any
    thread, and who still runs then, or comes later, writes nothing any more. (To wait until a thread has the
    interpreter's lock again takes some 40 µs.) Only after an error, or an interrupt, they are waited for.
    What fails in another thread is left to the others.
    """
    n = min(threads or num_threads(), MOST_THREADS)
    if n <= 1 or getattr(_here, "serves", False):
        run(0)
        return

    def help_out(number: int, _: int) -> None:
        with suppress(Exception):  # of memory that is short, say
            run(number)

    job = _Job(help_out, [*range(1, n + 1)])
    failed: BaseException | None = None
    try:
        _pool.call(job, n - 1)
        run(0)
    except BaseException as error:
        failed = error
    while True:
        try:
            job.pieces.clear()
            if failed is not None:
                job.wait()
            break
        except BaseException as error:
            failed = error
    job.run = _nothing
    if failed is not None:
        try:
            raise failed
        finally:
            del failed


def has_begun() -> bool:
    """Whether there are threads already; to begin one takes a tenth of a millisecond or two."""
    return bool(_pool.threads)


def _nothing(start: int, stop: int) -> None:
    """What is left of a loop that is over."""


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

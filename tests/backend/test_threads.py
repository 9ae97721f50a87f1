"""The thread pool: pieces cover the range once, and nothing that goes wrong breaks it."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from einloom._base.options import num_threads, options
from einloom.backend.cpu import threads
from einloom.backend.cpu.kernels.wait import watch
from einloom.backend.cpu.threads import parallel_for

PATIENCE = 60  # seconds that a dead lock may take to be seen


# A tracer in Python, as coverage has, holds locks of its own that an interrupt leaves locked for ever.
untraced = pytest.mark.skipif(
    sys.gettrace() is not None, reason="an interrupt leaves a tracer's locks locked"
)
# In a finaliser, or in what others call at each garbage collection, Python drops it and says so.
dropped = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def looking(number: np.ndarray, seen: int, looks: int, after: int) -> bool:
    return bool(watch(number, seen, looks, after))


@pytest.fixture(autouse=True)
def _sigint() -> Iterator[None]:
    """Ctrl-C interrupts, also where the process was started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, params=[None, looking], ids=["asleep", "looking"])
def _pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A pool of its own for every test, and a working one whatever the test did; its threads sleep at
    once when there is nothing to do, or look before."""
    watch(np.zeros(1, np.int64), 0, 1, 0)  # which may set _watch
    monkeypatch.setattr(threads, "_watch", request.param)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    yield
    assert covered(100, 4) == [1] * 100


def covered(n: int, pieces: int | None = None) -> list[int]:
    """How often each number of range(n) was given out."""
    counts = np.zeros(n, int)

    def run(start: int, stop: int) -> None:
        counts[start:stop] += 1

    parallel_for(run, n, pieces)
    return [int(count) for count in counts]


def in_time(work: threading.Thread) -> None:
    work.start()
    work.join(PATIENCE)
    assert not work.is_alive(), "the pool is locked"


def test_watch() -> None:
    """True as soon as the number is another one, whoever changes it; else False after so many looks."""
    number = np.array([3])
    assert watch(number, 2, 1, 5)
    assert not watch(number, 3, 0, 0)
    assert not watch(number, 3, 10, 0)
    changes = threading.Timer(0.05, number.__setitem__, (0, 4))
    changes.start()
    assert watch(number, 3, 10**9, 3)  # without the interpreter's lock: else nobody could change it
    changes.join()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 100, 1009])
@pytest.mark.parametrize("pieces", [1, 2, 3, 8, 50])
def test_every_number_once(n: int, pieces: int) -> None:
    assert covered(n, pieces) == [1] * n


@pytest.mark.parametrize(("n", "pieces"), [(10, 3), (3, 8), (100, 7), (5, 1)])
def test_pieces_depend_on_numbers_alone(n: int, pieces: int) -> None:
    """In order, none empty, as even as can be, one for each thread; the same every time."""
    runs = []
    for _ in range(20):
        seen: list[tuple[int, int]] = []
        parallel_for(lambda start, stop, seen=seen: seen.append((start, stop)), n, pieces)  # type: ignore[misc]
        runs.append(sorted(seen))
    assert all(run == runs[0] for run in runs)
    lengths = [stop - start for start, stop in runs[0]]
    assert len(lengths) == min(n, pieces)
    assert sum(lengths) == n
    assert max(lengths) - min(lengths) <= 1
    assert min(lengths) >= 1


def test_number_of_threads_is_the_option() -> None:
    seen: list[tuple[int, int]] = []
    with options(threads=5):
        parallel_for(lambda *piece: seen.append(piece), 100)
    assert len(seen) == 5


def test_pieces_run_at_the_same_time() -> None:
    """Four pieces wait for each other."""
    together = threading.Barrier(4, timeout=PATIENCE)
    names = []

    def run(start: int, stop: int) -> None:
        together.wait()
        names.append(threading.current_thread().name)

    parallel_for(run, 4, 4)
    assert len(set(names)) == 4
    assert threading.current_thread().name in names


def test_one_thread_starts_none() -> None:
    before = threading.active_count()
    covered(100, 1)
    covered(1, 8)
    assert threading.active_count() == before


def test_threads_are_kept_and_daemons() -> None:
    covered(100, 4)
    count = threading.active_count()
    for _ in range(50):
        covered(100, 4)
    assert threading.active_count() == count
    assert all(thread.daemon for thread in threads._pool.threads)
    assert len(threads._pool.threads) == 3


def several(cpus: int = 2) -> bool:
    return hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) >= cpus


@pytest.mark.skipif(not several(), reason="threads cannot be bound, or to one CPU only")
def test_threads_keep_off_the_callers_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = os.sched_getaffinity(0)
    monkeypatch.setattr(threads, "REBOUND", 0.0)
    monkeypatch.setattr(threads._pool, "again", 0.0)
    for cpu in sorted(allowed)[:2] * 2:
        monkeypatch.setattr(threads, "_current_cpu", lambda cpu=cpu: cpu)
        assert covered(100, 3) == [1] * 100
        for thread in threads._pool.threads:
            assert os.sched_getaffinity(thread.native_id or 0) == allowed - {cpu}
    assert os.sched_getaffinity(0) == allowed  # the caller may go wherever it could


@pytest.mark.skipif(not several(), reason="threads cannot be bound, or to one CPU only")
def test_a_caller_that_stays_may_go_anywhere_afterwards() -> None:
    allowed = os.sched_getaffinity(0)
    assert covered(100, 3) == [1] * 100  # the threads keep off some CPU from now on
    with suppress(ValueError), threads.stay():
        assert os.sched_getaffinity(0) == {threads._pool.avoided}
        assert num_threads() == len(allowed)  # bound, but not for that with fewer threads
        with threads.stay():  # another caller would find no CPU to itself
            assert covered(100, 3) == [1] * 100
        raise ValueError
    assert os.sched_getaffinity(0) == allowed
    assert not threads._pool.staying


@pytest.mark.skipif(not several(), reason="threads cannot be bound, or to one CPU only")
def test_threads_of_the_pool_count_the_callers_cpus() -> None:
    seen: list[int] = []
    parallel_for(lambda start, stop: (time.sleep(0.05), seen.append(num_threads()))[1], 4, 4)
    assert seen == [num_threads()] * 4


@untraced
@dropped
def test_interrupted_callers_that_stay_are_bound_no_longer() -> None:
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    main = threading.main_thread().ident or 0
    stop, waited_for = threading.Event(), list[bool]()

    def interrupt() -> None:
        while not stop.wait(0.0007):
            signal.pthread_kill(main, signal.SIGINT)

    def once(number: int, frame: object) -> None:
        """Previously failed: one between two calls ended the test before it had interrupted any."""
        if waited_for:
            waited_for.clear()
            raise KeyboardInterrupt

    interrupted = 0
    other, before = threading.Thread(target=interrupt), signal.signal(signal.SIGINT, once)
    try:
        other.start()
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            try:
                waited_for.append(True)
                with threads.stay():
                    time.sleep(0.0003)
                waited_for.clear()
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        stop.set()
        other.join()
        signal.signal(signal.SIGINT, before)
    assert interrupted > 10
    assert not threads._pool.staying
    if allowed:
        assert os.sched_getaffinity(0) == allowed


def test_threads_that_cannot_be_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(os, "sched_setaffinity", forbidden, raising=False)
    monkeypatch.setattr(threads._pool, "avoided", -2)
    assert covered(100, 3) == [1] * 100


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_exceptions_reach_the_caller(failing: int) -> None:
    """From the caller's own piece as from others; the other pieces are finished first."""
    done = []

    def run(start: int, stop: int) -> None:
        if start == failing:
            raise ZeroDivisionError(f"piece {start}")
        done.append(start)

    for _ in range(10):
        done.clear()
        with pytest.raises(ZeroDivisionError, match=f"piece {failing}"):
            parallel_for(run, 4, 4)
        assert sorted(done) == [n for n in range(4) if n != failing]
        assert covered(10, 4) == [1] * 10


def test_all_pieces_fail() -> None:
    def run(start: int, stop: int) -> None:
        raise KeyError(start)

    with pytest.raises(KeyError):
        parallel_for(run, 8, 8)


def test_nested() -> None:
    """Loops in the pieces of loops, three deep: as many pieces as ever, and no dead lock."""
    counts = np.zeros((4, 5, 6), int)

    def outer(start: int, stop: int) -> None:
        for i in range(start, stop):
            parallel_for(lambda a, b, i=i: middle(i, a, b), 5, 4)  # type: ignore[misc]

    def middle(i: int, start: int, stop: int) -> None:
        for j in range(start, stop):
            parallel_for(lambda a, b, j=j: inner(i, j, a, b), 6, 4)  # type: ignore[misc]

    def inner(i: int, j: int, start: int, stop: int) -> None:
        assert stop - start in (1, 2)
        counts[i, j, start:stop] += 1

    for _ in range(20):
        in_time(threading.Thread(target=parallel_for, args=(outer, 4, 4), daemon=True))
    assert (counts == 20).all()


def test_nested_failure() -> None:
    def outer(start: int, stop: int) -> None:
        parallel_for(lambda a, b: [][0], 4, 4)

    with pytest.raises(IndexError):
        parallel_for(outer, 4, 4)


def test_jobs_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Previously failed: of loops that are over before a thread wakes up, thousands were kept."""
    covered(10, 3)
    monkeypatch.setattr(
        threads._pool, "queue", queue := threads.SimpleQueue()
    )  # which nobody reads
    for _ in range(200):
        assert covered(10, 3) == [1] * 10
    assert queue.qsize() <= threads.BACKLOG


def test_eight_callers() -> None:
    """Python threads that call at once, some of whose pieces fail."""

    def call(seed: int) -> None:
        for n in range(60):
            assert covered(n + seed, 2 + seed % 4) == [1] * (n + seed)
            if n % 7 == seed % 7:
                with pytest.raises(ZeroDivisionError):
                    parallel_for(lambda start, stop: start // 0, 8, 4)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(8)))


def test_a_slow_caller_does_not_hold_up_another() -> None:
    """One caller's own piece waits until another caller is done."""
    done = threading.Event()

    def slow(start: int, stop: int) -> None:
        if start == 0:
            assert done.wait(PATIENCE)

    caller = threading.Thread(target=parallel_for, args=(slow, 2, 2), daemon=True)
    caller.start()
    assert covered(100, 2) == [1] * 100
    done.set()
    caller.join(PATIENCE)
    assert not caller.is_alive()


def test_interrupt_in_a_piece() -> None:
    def run(start: int, stop: int) -> None:
        if start == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parallel_for(run, 4, 4)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads")
def test_interrupt_while_waiting() -> None:
    """Ctrl-C while the caller waits for others: they finish first, since they write to its arrays."""
    caller, finished = threading.main_thread().ident, []
    begun = threading.Barrier(3, timeout=PATIENCE)  # each has one of the pieces

    def run(start: int, stop: int) -> None:
        begun.wait()
        if start == 1:
            time.sleep(0.05)  # the caller is waiting by now, or soon
            signal.pthread_kill(caller, signal.SIGINT)
            time.sleep(0.05)
        if start > 0:
            finished.append(start)

    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(KeyboardInterrupt):
        parallel_for(run, 3, 3)
    assert sorted(finished) == [1, 2]
    assert covered(50, 3) == [1] * 50


@untraced
@dropped
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_interrupts_at_any_moment() -> None:
    """The caller goes on in the end; by then no thread of the pool is at a piece, and none begins."""
    main = threading.main_thread()
    at_work: list[int] = []
    begun: list[int] = []

    def run(start: int, stop: int) -> None:
        if threading.current_thread() is not main:
            begun.append(start)
            at_work.append(start)
            time.sleep(0.001)
            at_work.remove(start)

    rung: list[bool] = []

    def interrupt(*_: object) -> None:
        rung.append(True)  # where a finaliser or a callback is interrupted, Python drops the error
        raise KeyboardInterrupt

    assert (
        covered(3, 3) == [1] * 3
    )  # the threads are there: Thread.start is not made for interrupts
    random = np.random.default_rng(0)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(400):
            rung.clear()
            with suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-6, 150e-6))
                parallel_for(run, 3, 3)
                while not rung:
                    time.sleep(0.001)
            count = len(begun)
            assert not at_work
            time.sleep(0.0005)
            assert len(begun) == count
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@untraced
@dropped
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads")
def test_interrupt_as_the_last_piece_ends() -> None:
    """The signal arrives just when the caller is woken, or just before it waits."""
    caller = threading.main_thread().ident

    def run(start: int, stop: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            signal.pthread_kill(caller, signal.SIGINT)

    for _ in range(300):
        with suppress(KeyboardInterrupt):
            parallel_for(run, 2, 2)
            time.sleep(0)
        with suppress(KeyboardInterrupt):  # one that arrived late
            time.sleep(1e-4)


def test_a_thread_asked_in_vain_keeps_nothing_alive() -> None:
    """What a loop worked on is freed though a thread that never came to it has not even woken up."""

    class Owner:
        def run(self, start: int, stop: int) -> None:
            pass

    busy, release = threading.Event(), threading.Event()

    def hold(start: int, stop: int) -> None:
        if threading.current_thread().name == "einloom-0":
            busy.set()
            assert release.wait(PATIENCE)
        else:
            assert busy.wait(PATIENCE)  # so that it comes to its piece

    holder = threading.Thread(target=parallel_for, args=(hold, 2, 2), daemon=True)
    holder.start()
    assert busy.wait(PATIENCE)  # the pool's only thread is at work elsewhere
    owner = Owner()
    gone = weakref.ref(owner)
    parallel_for(owner.run, 2, 2)
    del owner
    assert gone() is None
    release.set()
    holder.join(PATIENCE)


def test_errors_keep_nothing_alive() -> None:
    """What a piece that failed worked on is freed with its error, without a collection of cycles."""

    class Owner:
        def run(self, start: int, stop: int) -> None:
            raise ZeroDivisionError

    owner = Owner()
    gone = weakref.ref(owner)
    gc.disable()
    try:
        with pytest.raises(ZeroDivisionError):
            parallel_for(owner.run, 4, 4)
        del owner
        for _ in range(100):
            if gone() is None:
                break
            time.sleep(0.01)  # the pool's threads let go of the job
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child() -> None:
    """The child of a process that has used the pool has a pool of its own."""
    assert covered(100, 4) == [1] * 100
    with threads._pool.lock:  # as if another thread were just making the pool larger
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)  # ends a dead lock
            os._exit(0 if covered(100, 4) == [1] * 100 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_waiting_threads_keep_nothing_alive() -> None:
    """What a loop worked on is freed when its caller lets go."""

    class Owner:
        def run(self, start: int, stop: int) -> None:
            pass

    owner = Owner()
    parallel_for(owner.run, 4, 4)
    gone = weakref.ref(owner)
    del owner
    deadline = time.monotonic() + PATIENCE
    while gone() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.001)  # a thread may just be about to drop its last piece
    assert gone() is None

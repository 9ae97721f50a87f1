"""Who runs ranges of slices: the caller itself, threads, processes, a Dask cluster, MPI ranks.

`Work` is what a worker needs, sent to it once: the program of a slice and arrays. A `Crew` hands ranges to
one kind of executor. Nothing here imports Dask or MPI: their clients and pools are told by what they can do.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from .._base.caches import Cache
from .._base.errors import CallError
from .._base.options import get_options, options
from ..backend.cpu import cpu
from ..backend.cpu.blas import ONE_BLAS_THREAD
from ..program.executable import Executable
from ..program.ir import Program
from ..program.ranges import OneRange, Partial, Ranged
from ..program.sliced import Assembly, ScaledSlices, SlicedExecutable

Lost = Literal["one", "all", "all, for good"]
"""What went with a worker: its range, all ranges under way, or these and whoever would run them again."""
FILED = 1 << 20
"""Bytes from which an operand is written to a file for the processes of a pool on this machine, which read
it where it lies: it is in memory once, and goes through no pipe."""
AHEAD = 4
"""Ranges for each worker that are submitted, or wait for those before them, at once."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides, beside shapes and dtypes, which kernels run, and how: the caller's, wherever they run.

    Attributes:
        threads: of einloom's kernels, and of BLAS at most; None leaves both as they are.
        small, engine, provider: as in the options.
        errors: as of `numpy.geterr`.
    """

    threads: int | None
    small: float
    engine: str | None
    provider: str
    errors: dict[str, Any]

    @classmethod
    def here(cls, threads: int | None) -> Settings:
        now = get_options()
        return cls(threads, now.small, now.engine, now.provider, dict(np.geterr()))

    @contextmanager
    def applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            changes: dict[str, Any] = {
                name: getattr(self, name) for name in ("small", "engine", "provider")
            }
            if self.threads is not None:
                changes["threads"] = self.threads
                stack.enter_context(ONE_BLAS_THREAD.at_most(self.threads))
            stack.enter_context(options(progress=False, **changes))
            stack.enter_context(np.errstate(**self.errors))
            yield


class _Filed(NamedTuple):
    """An array in a file of this machine."""

    path: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    def read(self) -> Any:
        data = np.memmap(self.path, np.uint8, "r")
        return np.asarray(data).view(self.dtype).reshape(self.shape)


class Work:
    """A contraction whose ranges of slices can be run anywhere; it pickles, and is compiled where it runs.

    Args:
        program: of a slice, without what is the same in all of them; or the whole program.
        assembly: how the result is put together, or None for a whole program.
        scaled: whether exponents are kept apart in the slices.
        limit: memory limit of a whole program, as of `schedule`.
        operands: what the program takes.
        settings: under which it is compiled and run.
        compiled: what is compiled already, for this process.
    """

    def __init__(
        self,
        program: Program,
        assembly: Assembly | None,
        scaled: bool,
        limit: int | None,
        operands: Sequence[Any],
        settings: Settings,
        compiled: Ranged | None = None,
    ) -> None:
        self.program, self.assembly, self.scaled, self.limit = program, assembly, scaled, limit
        self.operands, self.settings = [contiguous(x) for x in operands], settings
        self.key = os.urandom(16).hex()
        self._compiled = compiled
        self._files: dict[int, str] = {}
        self._lock = threading.Lock()

    def partial(self, start: int, stop: int) -> Partial:
        with self.settings.applied():
            with self._lock:  # one thread compiles, the others wait for it
                if self._compiled is None:
                    self._compiled = self._compile()
            return self._compiled.partial(self.operands, start, stop)

    def _compile(self) -> Ranged:
        if self.assembly is None:
            return OneRange(Executable(self.program, cpu(), limit=self.limit))
        kind = ScaledSlices if self.scaled else SlicedExecutable
        return kind(self.program, self.assembly, cpu())

    def file(self, folder: Path) -> None:
        """Send large operands as files in this folder from now on."""
        for k, x in enumerate(self.operands):
            if x.nbytes >= FILED and not x.dtype.hasobject:
                path = folder / f"{k}.operand"
                _row_major(x)[0].reshape(-1).view(np.uint8).tofile(path)
                self._files[k] = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        sent: list[tuple[Any, list[int]]] = [_row_major(x) for x in self.operands]
        for k, path in self._files.items():
            x, order = sent[k]
            sent[k] = _Filed(path, x.dtype, x.shape), order
        kind = self.program, self.assembly, self.scaled, self.limit
        return _received, (self.key, sent, *kind, self.settings)


def _received(
    key: str,
    sent: list[tuple[Any, list[int]]],
    program: Program,
    assembly: Assembly | None,
    scaled: bool,
    limit: int | None,
    settings: Settings,
) -> Work:
    arrays = [(x.read() if isinstance(x, _Filed) else x, order) for x, order in sent]
    operands = [x.transpose(np.argsort(order)) for x, order in arrays]
    work = Work(program, assembly, scaled, limit, operands, settings)
    work.key = key
    return work


def contiguous(x: Any) -> Any:
    """x, or a copy with its axes in the same order in memory and no gaps: as it will be where it is sent,
    since kernels, and so the last bits, may depend on strides."""
    y, order = _row_major(x)
    return y.transpose(np.argsort(order))


def _row_major(x: Any) -> tuple[Any, list[int]]:
    """(y, order): x with its axes in their order in memory, the slowest first; without gaps."""
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
    y = x.transpose(order)
    return (y if y.flags.c_contiguous else y.copy("C")), order


_RECEIVED: Cache[Work] = Cache("received", 2)


def run_range(work: Work, start: int, stop: int) -> Partial:
    return work.partial(start, stop)


def run_received(key: str, work: Work | None, start: int, stop: int) -> Partial | None:
    """A range of work that this process has been sent before, or is sent now; None asks for it."""
    held = _RECEIVED.get(key)
    if held is None:
        if work is None:
            return None
        held = _RECEIVED.put(key, work)
    return held.partial(start, stop)


class Crew(Protocol):
    """Runs ranges; `ahead` of them may be under way, or wait for those before them."""

    ahead: int

    def submit(self, start: int, stop: int, asked: bool) -> Any:
        """A future of the partial of a range, or of None where the worker asks for the work first; the range
        is then submitted again as `asked`."""
        ...

    def is_loss(self, error: BaseException) -> bool:
        """Whether this error tells of a lost worker, and not of the range."""
        ...

    def recover(self, error: BaseException) -> Lost:
        """Make ready to submit again what was lost."""
        ...

    def close(self) -> None: ...


class Here:
    """The caller's own thread: a range is run when it is submitted."""

    ahead = 1

    def __init__(self, work: Work) -> None:
        self._work = work

    def submit(self, start: int, stop: int, asked: bool) -> Any:
        future: Future[Partial] = Future()
        future.set_result(self._work.partial(start, stop))
        return future

    def is_loss(self, error: BaseException) -> bool:
        return False

    def recover(self, error: BaseException) -> Lost:
        return "all, for good"

    def close(self) -> None:
        pass


class Pool:
    """An executor of concurrent.futures: threads share the work, and all others are sent it, once for each
    worker and whenever one asks, but never more often at a time than there are workers."""

    def __init__(self, work: Work, executor: Any, make: Callable[[], Any] | None) -> None:
        self._work, self._executor, self._make = work, executor, make
        self._shares = isinstance(executor, ThreadPoolExecutor)
        workers = getattr(executor, "_max_workers", None)
        self._workers: int = workers if type(workers) is int else os.cpu_count() or 1
        self.ahead = AHEAD * self._workers
        self._first = self._workers  # so many tasks are sent the work without being asked
        self._carriers: set[Any] = set()  # tasks that were sent it, and are not done
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if isinstance(executor, ProcessPoolExecutor):
            self._folder = tempfile.TemporaryDirectory(
                prefix="einloom-slices-", ignore_cleanup_errors=True
            )
            try:
                work.file(Path(self._folder.name))
            except BaseException:
                self.close()
                raise

    def submit(self, start: int, stop: int, asked: bool) -> Any:
        submit, work = self._executor.submit, self._work
        if self._shares:  # with what the caller's context says of warnings, say
            return submit(copy_context().run, run_range, work, start, stop)
        self._carriers = {future for future in self._carriers if not future.done()}
        carries = self._first > 0 or (asked and len(self._carriers) < self._workers)
        future = submit(run_received, work.key, work if carries else None, start, stop)
        if carries:
            self._first -= 1
            self._carriers.add(future)
        return future

    def is_loss(self, error: BaseException) -> bool:
        return isinstance(error, BrokenExecutor) or _of_dask(error)  # of an executor on Dask

    def recover(self, error: BaseException) -> Lost:
        if not isinstance(error, BrokenExecutor):
            return "one"
        if self._make is None:
            return "all, for good"
        self._executor.shutdown(wait=True, cancel_futures=True)  # it takes no more tasks
        self._executor, self._first = self._make(), self._workers
        return "all"

    def close(self) -> None:
        if self._make is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
        if self._folder is not None:
            self._folder.cleanup()


class Dask:
    """A client of dask.distributed: the work is scattered to every worker once, tasks refer to it."""

    def __init__(self, work: Work, client: Any) -> None:
        self._work, self._client = work, client
        workers = sum(client.nthreads().values())
        self.ahead = AHEAD * max(1, workers)
        self._scatter()

    def _scatter(self) -> None:
        self._sent = self._client.scatter(self._work, broadcast=True, hash=False)

    def submit(self, start: int, stop: int, asked: bool) -> Any:
        return self._client.submit(run_range, self._sent, start, stop, pure=False)

    def is_loss(self, error: BaseException) -> bool:
        return _of_dask(error)

    def recover(self, error: BaseException) -> Lost:
        if self._client.status != "running":
            return "all, for good"
        if self._sent.status != "finished":  # every worker that had it is lost
            self._scatter()
        return "one"

    def close(self) -> None:
        with suppress(Exception):  # of a client that is gone
            self._sent.release()


def _of_dask(error: BaseException) -> bool:
    return (
        isinstance(error, CancelledError) or type(error).__module__.split(".")[0] == "distributed"
    )


def check_executor(executor: Any) -> None:
    """Refuse what `crew_for` has no crew for."""
    if _is_client(executor):
        if executor.asynchronous:
            raise CallError(
                "run_slices(executor=...): the Dask client is asynchronous; give "
                "Client(asynchronous=False)"
            )
        if executor.status != "running":
            raise CallError(
                f"run_slices(executor=...): the Dask client is {executor.status}; give one that is connected"
            )
    if executor is not None and not _submits(executor) and not callable(executor):
        raise CallError(
            f"run_slices(executor={executor!r:.60}): give None, an executor of concurrent.futures, a "
            f"function that makes one, a dask.distributed.Client or an mpi4py.futures.MPIPoolExecutor"
        )


def crew_for(executor: Any, work: Work) -> Crew:
    """The crew of an executor, of a function that makes one, or of nobody else."""
    if executor is None:
        return Here(work)
    if _is_client(executor):
        return Dask(work, executor)
    if _submits(executor):
        return Pool(work, executor, None)
    made = executor()
    if not isinstance(made, Executor):
        raise CallError(
            f"run_slices(executor=...): the function made a {type(made).__name__}, which is no "
            f"concurrent.futures.Executor"
        )
    return Pool(work, made, executor)


def _is_client(executor: Any) -> bool:
    return hasattr(executor, "scatter") and hasattr(executor, "nthreads")


def _submits(executor: Any) -> bool:
    return callable(getattr(executor, "submit", None)) and not isinstance(executor, type)

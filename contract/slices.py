"""Running the slices of an expression: ranges of them, on whatever executor, added up in their order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial as bound
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

from .._base.errors import OptionError, WorkerLostError
from .._base.log import log
from .._base.progress import Progress
from ..program.executable import Executable
from ..program.ranges import OneRange, Partial, Ranged, cut
from ..program.sliced import SlicedExecutable
from .checkpoint import Checkpoint, Identity
from .plan import Plan
from .workers import Crew, Lost, Settings, Work, check_executor, crew_for

TASKS = 4096
LEAST, MOST = 1 << 28, 1 << 38
"""Scalar multiplications of a task: about a tenth of a second of one thread, and a minute."""
BYTES = 64 << 20  # of what a task gives back, if that is more than one part of the result


class Span(NamedTuple):
    """Slices of one task."""

    start: int
    stop: int


class Request(NamedTuple):
    """The arguments of `Expression.run_slices` beside its operands, checked."""

    executor: Any
    slices_per_task: int | None
    threads: int | None
    retries: int
    in_flight: int | None
    checkpoint: Path | None

    @classmethod
    def of(
        cls,
        executor: Any,
        slices_per_task: Any,
        threads: Any,
        retries: Any,
        in_flight: Any,
        checkpoint: Any,
    ) -> Request:
        check_executor(executor)
        for name, value in (
            ("slices_per_task", slices_per_task),
            ("threads", threads),
            ("in_flight", in_flight),
        ):
            if value is not None and (type(value) is not int or value < 1):
                raise OptionError(
                    f"run_slices({name}={value!r:.60}): give a positive integer, or None"
                )
        if type(retries) is not int or retries < 0:
            raise OptionError(f"run_slices(retries={retries!r:.60}): give an integer from 0 on")
        if checkpoint is not None and not (
            checkpoint and isinstance(checkpoint, (str, os.PathLike))
        ):
            raise OptionError(
                f"run_slices(checkpoint={checkpoint!r:.60}): give the path of a folder, or None"
            )
        if threads is None and executor is not None:
            threads = 1
        folder = None if checkpoint is None else Path(checkpoint)
        return cls(executor, slices_per_task, threads, retries, in_flight, folder)


def slices_per_task(plan: Plan, ranged: Ranged, part_bytes: int) -> int:
    """How many slices a task runs, as told by the plan alone, since the last bits depend on it: few enough
    tasks, each worth sending, none so long that much is lost with it, or so large that it fills memory."""
    n_slices = ranged.n_parts * ranged.each_part
    cost = max(1, plan.cost // n_slices)
    worth = max(-(-n_slices // TASKS), -(-LEAST // cost))
    size = min(worth, max(1, MOST // cost), n_slices)
    parts = max(1, BYTES // max(1, part_bytes))
    return min(size, parts * ranged.each_part)


def run(
    plan: Plan,
    executable: Executable | SlicedExecutable,
    arrays: Sequence[Any],
    constants: Mapping[int, Any],
    held: Sequence[Any],
    request: Request,
    order: str,
) -> Any:
    """The sum of all slices, or its (mantissa, exponent); the executable takes `held`, which was computed of
    the constants, behind the arrays."""
    ranged = executable if isinstance(executable, SlicedExecutable) else OneRange(executable)
    part_bytes = executable.program.slots[executable.program.outputs[0]].nbytes
    size = request.slices_per_task or slices_per_task(plan, ranged, part_bytes)
    store = None
    if request.checkpoint is not None:
        inputs = [*arrays, *(constants[k] for k in sorted(constants))]
        store = _checkpoint(request.checkpoint, plan, inputs, size)
    # what is the same in all slices is computed now, and sent with the operands that slices read
    operands = ranged.prepared([*arrays, *held])
    work = _work(plan, executable, ranged, operands, request.threads)
    total = ranged.total(order)
    crew = crew_for(request.executor, work)
    try:
        with (
            Progress("slices", ranged.n_parts * ranged.each_part) as progress,
            _Tasks(crew, request.retries, store, progress.advance) as tasks,
        ):
            ahead = request.in_flight or crew.ahead
            for partial in _in_order(tasks, store, ranged, size, ahead, progress.advance):
                total.add(partial)
                if store is not None and (partial.stop - partial.start) % ranged.each_part:
                    whole = partial.stop % ranged.each_part == 0
                    store.fold(total.latest(partial.stop), whole)
    finally:
        crew.close()
    return total.result()


def _checkpoint(folder: Path, plan: Plan, inputs: Sequence[Any], size: int) -> Checkpoint:
    if any(dtype.hasobject for dtype in (plan.dtype, *plan.dtypes)):
        raise OptionError(
            "run_slices(checkpoint=...): Python objects are not kept in files; leave it out, or use "
            "another dtype than object"
        )
    return Checkpoint(folder, Identity.of(plan.to_json(), inputs, size))


def _work(
    plan: Plan,
    executable: Executable | SlicedExecutable,
    ranged: Ranged,
    operands: Sequence[Any],
    threads: int | None,
) -> Work:
    settings = Settings.here(threads)
    # kernels are bound for a number of threads: others than the caller's are compiled for anew
    compiled = ranged if threads is None else None
    if isinstance(executable, SlicedExecutable):
        program, scaled = executable.each.program, plan.strip_exponent
        return Work(program, executable.assembly, scaled, None, operands, settings, compiled)
    return Work(executable.program, None, False, plan.room, operands, settings, compiled)


def _in_order(
    tasks: _Tasks,
    store: Checkpoint | None,
    ranged: Ranged,
    size: int,
    ahead: int,
    advance: Callable[[int], None],
) -> Iterator[Partial]:
    """All ranges, one after another, from the checkpoint or from tasks of which some run ahead."""
    spans = _spans(store, ranged, size)
    line: deque[tuple[Span, bool]] = deque()
    while True:
        while len(line) < ahead and (following := next(spans, None)) is not None:
            line.append(following)
            if not following[1]:
                tasks.begin(following[0])
        if not line:
            return
        span, is_stored = line.popleft()
        if is_stored and store is not None:
            yield store.read(*span)
            advance(span.stop - span.start)
        else:
            yield tasks.result(span)


def _spans(store: Checkpoint | None, ranged: Ranged, size: int) -> Iterator[tuple[Span, bool]]:
    """Ranges that are next to each other, and whether they are in the checkpoint."""
    reached = 0
    for start, stop in cut(ranged.n_parts, ranged.each_part, size):
        if start < reached:
            continue
        stored = None if store is None else store.stop_of(start)
        reached = stop if stored is None else stored
        yield Span(start, reached), stored is not None


class _Tasks:
    """Ranges that a crew runs: begun in order, done in any."""

    def __init__(
        self,
        crew: Crew,
        retries: int,
        store: Checkpoint | None,
        advance: Callable[[int], None],
    ) -> None:
        self._crew, self._retries, self._store, self._advance = crew, retries, store, advance
        self._to_begin: deque[tuple[Span, bool]] = deque()
        self._under_way: dict[Span, Any] = {}
        self._done: SimpleQueue[tuple[Span, Any]] = SimpleQueue()
        self._results: dict[Span, Partial] = {}
        self._losses: dict[Span, int] = {}

    def begin(self, span: Span) -> None:
        self._to_begin.append((span, False))
        self._submit()

    def result(self, span: Span) -> Partial:
        """Wait for a range; whatever else is done meanwhile is kept."""
        while span not in self._results:
            self._take(*self._done.get())
            self._submit()
        return self._results.pop(span)

    def _submit(self) -> None:
        while self._to_begin:
            span, is_asked = self._to_begin.popleft()
            try:
                future = self._crew.submit(*span, is_asked)
            except Exception as error:  # a pool that has broken refuses
                self._fail(span, error)
                continue
            self._under_way[span] = future
            future.add_done_callback(bound(self._note, span))

    def _note(self, span: Span, future: Any) -> None:
        self._done.put((span, future))  # in any thread

    def _take(self, span: Span, future: Any) -> None:
        if span not in self._under_way or self._under_way[span] is not future:
            return  # it was lost with a pool, and begun anew
        del self._under_way[span]
        try:
            partial = future.result()
        except Exception as error:
            self._fail(span, error)
            return
        if partial is None:
            self._to_begin.append((span, True))
            return
        self._results[span] = partial
        if self._store is not None:
            self._store.add(partial)
        self._advance(span.stop - span.start)

    def _fail(self, span: Span, error: Exception) -> None:
        """Line up for another time what was lost with a worker; any other error is raised."""
        if not self._crew.is_loss(error):
            error.add_note(f"in slices {span.start} to {span.stop - 1} of run_slices")
            raise error
        kind = self._crew.recover(error)
        lost = [span]
        if kind != "one":
            lost += [one for one, future in self._under_way.items() if not _is_fine(future)]
        for one in lost:
            self._under_way.pop(one, None)
            self._to_begin.append((one, False))
            self._losses[one] = self._losses.get(one, 0) + 1
        if kind == "all, for good" or max(map(self._losses.__getitem__, lost)) > self._retries:
            self._give_up(span, kind, error)
        log.warning("run_slices: a worker was lost, %d ranges are run again: %r", len(lost), error)

    def _give_up(self, span: Span, kind: Lost, error: Exception) -> NoReturn:
        at = f"run_slices: a worker was lost at slices {span.start} to {span.stop - 1}"
        what = type(error).__name__
        if kind == "all, for good":
            raise WorkerLostError(
                f"{at} ({what}), and the executor takes no more tasks. Give a function that makes the "
                f"executor to go on with a new one, and checkpoint= to keep what is done"
            ) from error
        raise WorkerLostError(
            f"{at} or others with it, more than retries={self._retries} times ({what}). Workers may need "
            f"more memory: give fewer at a time, a plan with a lower memory_limit, or more retries"
        ) from error

    def __enter__(self) -> _Tasks:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for future in self._under_way.values():
            future.cancel()
        if self._store is not None:
            for future in self._under_way.values():  # what was done before the error is not lost
                with suppress(Exception):  # the error that ends the run is the one to be seen
                    if _is_fine(future) and (partial := future.result()) is not None:
                        self._store.add(partial)


def _is_fine(future: Any) -> bool:
    """Whether a future has a result."""
    return future.done() and not future.cancelled() and future.exception() is None

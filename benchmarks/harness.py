"""How everything is timed: contenders alternate in rotated order, results are checked first.

A case has contenders, callables without arguments that return an array. The first is the reference;
every other must agree with it before anything is timed. Reported are medians: of the seconds, and of
the ratios inside a round, which do not depend on what the machine did in another. A contender's turn
begins with a pause: threads of BLAS that have nothing to do look for work for some 100 ms, and would take a
core from whoever comes next. Short calls are then made for a while before one is timed, until threads have
found their cores; of those several are timed, and their median is what the turn took: of one call each,
contenders that make the same calls of BLAS were found up to a tenth apart, and the best of many peers is the
luckiest. A case in which einloom seems to be behind gets more rounds, which count with the first. A case that
says how many bytes it moves is timed beside a threaded copy of as many, round by round, for the same reason;
and what its roofline is, is asked in each round: the machine may be half as fast ten minutes later.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .machine import Contender, Roof, once, threaded_copy

OURS = "einloom"
LEAST = 3  # rounds, whatever they take
LONGER = 4  # times as many rounds where einloom seems to be behind, within as many times the budget
PAUSE = 0.12  # seconds in which threads that the contender before left behind go to sleep
SETTLING = 0.02  # seconds in which calls are made before one is timed, unless one takes longer
TIMED, CALLS = 0.1, 9  # seconds for the calls of a turn, and calls at most; an odd number of them
PATIENCE = 20.0  # seconds that a peer has for its first call, and as many to prepare for it


@dataclass
class CaseResult:
    """Median seconds of each contender of one case; a contender that failed says why."""

    name: str
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()  # contenders that are no peers: floors, and our other forms
    moved: int | None = None  # bytes that must be read and written
    copy_seconds: float | None = None  # of a threaded copy that moves as many bytes
    paired: dict[str, float] = field(default_factory=dict)  # median of contender/ours in a round
    predicted_peak: int | None = None  # bytes, of einloom
    peaks: dict[str, int] = field(default_factory=dict)  # bytes, of whom it can be measured
    roofline: float | None = None  # seconds below which no contender can come
    paired_roofline: dict[str, float] = field(default_factory=dict)  # median of times it in a round
    rates: dict[str, float] = field(default_factory=dict)  # of GEMM and copy: medians of rounds
    rounds: int = 0

    def best_peer(self) -> float | None:
        """Seconds of the fastest peer."""
        apart = (OURS, *self.baselines)
        return min((s for name, s in self.seconds.items() if name not in apart), default=None)

    def ratio(self) -> float | None:
        """Best peer over einloom: above 1 einloom is ahead."""
        peers = (r for who in self.seconds if (r := self.ratio_to(who)) is not None)
        return min(peers, default=None)

    def ratio_to(self, peer: str) -> float | None:
        """That peer over einloom, by rounds where there were any; None for what is no peer."""
        theirs, ours = self.seconds.get(peer), self.seconds.get(OURS)
        if not theirs or not ours or peer in (OURS, *self.baselines):
            return None
        return self.paired.get(peer, theirs / ours)

    def copy_fraction(self, seconds: float | None) -> float | None:
        """Which part of the copy's bandwidth is reached by whom takes so many seconds."""
        return self.copy_seconds / seconds if self.copy_seconds and seconds else None

    def over_roofline(self, who: str = OURS) -> float | None:
        """How many times the seconds of the roofline a contender takes."""
        seconds = self.seconds.get(who)
        if not seconds or not self.roofline:
            return None
        return self.paired_roofline.get(who, seconds / self.roofline)

    def peak_over_predicted(self) -> float | None:
        """Measured over predicted peak of memory."""
        ours = self.peaks.get(OURS)
        return ours / self.predicted_peak if ours and self.predicted_peak else None

    def peak_over_peer(self) -> float | None:
        """Our peak of memory over the least of those peers that it is known of."""
        ours = self.peaks.get(OURS)
        least = min((n for who, n in self.peaks.items() if who != OURS), default=None)
        return ours / least if ours and least else None

    def peak_over_best(self) -> float | None:
        """The same over that of the fastest of these peers."""
        ours = self.peaks.get(OURS)
        known = [(r, n) for who, n in self.peaks.items() if (r := self.ratio_to(who)) is not None]
        return ours / min(known)[1] if ours and known else None

    def gbytes(self) -> float | None:
        """GB/s of einloom."""
        ours = self.seconds.get(OURS)
        return self.moved / ours / 1e9 if self.moved and ours else None


def measure(
    name: str,
    contenders: dict[str, Contender],
    *,
    rounds: int = 7,
    budget: float = 10.0,
    tolerance: float = 1e-8,
    facts: dict[str, Any] | None = None,
    left_out: dict[str, str] | None = None,
    unchecked: tuple[str, ...] = (),
    baselines: tuple[str, ...] = (),
    moved: int | None = None,
    roofline: Callable[[], Roof] | None = None,
    quick: bool = False,
) -> CaseResult:
    """Check, warm up and time the contenders of one case; `budget` bounds its seconds.

    Tolerance 0 asks for equal results; what `unchecked` contenders give is another array. `left_out` names
    peers that do not take part, and why; a peer that fails, or whose first call takes longer than
    `PATIENCE`, joins them. `roofline` gives the seconds below which no contender can come, as fast as the
    machine is when it is called. `quick` times every contender once: it is for tests.
    """
    result = CaseResult(
        name,
        failed=dict(left_out or {}),
        facts=facts or {},
        baselines=baselines,
        moved=moved,
    )
    alive = _checked(result, contenders, tolerance, unchecked)
    copy = threaded_copy(moved) if moved else None
    times: dict[str, list[float]] = {who: [] for who in alive}
    copies: list[float] = []
    roofs: list[Roof] = []
    longer = False
    start, turn, apart = time.perf_counter(), 0, 0.0
    while True:
        if copy is not None:
            copies.append(_turn(copy, 0.0, quick))
        if roofline is not None:
            before_roof = time.perf_counter()
            time.sleep(0.0 if quick else PAUSE)
            roofs.append(roofline())
            apart += time.perf_counter() - before_roof
        order = list(alive)
        for who in order[turn % len(order) :] + order[: turn % len(order)]:
            before = times[who][-1] if times[who] else 0.0
            times[who].append(_turn(alive[who], before, quick))
        turn += 1
        spent = time.perf_counter() - start - apart
        if not quick and turn < rounds and not (spent > budget and turn >= LEAST):
            continue
        _reduce(result, times, copies, roofs)
        is_behind = (result.ratio() or 1.0) < 1.0
        if quick or longer or not is_behind:
            return result
        # decided once: to stop as soon as it is ahead would be to wait for luck
        longer, rounds, budget = True, LONGER * turn, LONGER * budget


def _turn(call: Callable[[], Any], before: float, quick: bool) -> float:
    """Seconds of a call, the median of as many as `TIMED` has room for, after some that are not timed; of one
    that takes longer, as a program finds it that makes no others. The last one took `before`."""
    if quick:
        return once(call, quick)
    time.sleep(PAUSE)
    end = time.perf_counter() + SETTLING
    while before < TIMED:
        call()
        if time.perf_counter() >= end:
            break
    times = [once(call)]
    others = min(CALLS, int(TIMED / times[0])) - 1
    times += [once(call) for _ in range(others // 2 * 2)]
    return statistics.median(times)


@contextmanager
def patience(seconds: float | None = PATIENCE) -> Iterator[None]:
    """Raises TimeoutError when so many seconds are over, as soon as Python can; None waits forever."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"stopped after {seconds:g} s")

    if seconds is None:
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _reduce(
    result: CaseResult, times: dict[str, list[float]], copies: list[float], roofs: list[Roof]
) -> None:
    """Medians of all rounds so far."""
    result.seconds = {who: statistics.median(values) for who, values in times.items()}
    result.copy_seconds = statistics.median(copies) if copies else None
    if OURS in times:
        others = {who: values for who, values in times.items() if who != OURS}
        result.paired = {who: _paired(values, times[OURS]) for who, values in others.items()}
    result.rounds = max(map(len, times.values()), default=0)
    if roofs:
        floors = [roof.seconds for roof in roofs]
        result.roofline = statistics.median(floors)
        result.rates = {
            "gemm_gflops": statistics.median(roof.gemm for roof in roofs) / 1e9,
            "copy_gbytes": statistics.median(roof.copy for roof in roofs) / 1e9,
        }
        if min(floors) > 0:
            result.paired_roofline = {who: _paired(values, floors) for who, values in times.items()}


def _paired(ours: list[float], others: list[float]) -> float:
    """Median of the ratios in a round."""
    return statistics.median(s / o for s, o in zip(ours, others, strict=True))


def _checked(
    result: CaseResult,
    contenders: dict[str, Contender],
    tolerance: float,
    unchecked: tuple[str, ...] = (),
) -> dict[str, Callable[[], Any]]:
    """The contenders that gave a result; raises where one differs from that of the first."""
    reference: Any = None
    alive: dict[str, Contender] = {}
    for who, call in contenders.items():
        try:
            with patience(None if who == OURS else PATIENCE):
                value = np.asarray(call())
        except Exception as error:  # a peer that cannot do the case loses it, no more
            if who == OURS:
                raise
            result.failed[who] = f"{type(error).__name__}: {error}"[:200]
            continue
        if reference is None:
            reference = value
        elif who not in unchecked and not agree(value, reference, tolerance):
            raise AssertionError(f"{result.name}: {who} disagrees with {next(iter(alive))}")
        alive[who] = call
    return alive


def agree(value: Any, reference: Any, tolerance: float) -> bool:
    """Whether two results are the same, to `tolerance` of the largest element; 0 asks for equality."""
    if value.shape != reference.shape:
        return False
    if tolerance == 0:
        return np.array_equal(value, reference)
    scale = float(np.max(np.abs(reference), initial=0.0)) or 1.0
    return np.allclose(value, reference, rtol=tolerance, atol=tolerance * scale)

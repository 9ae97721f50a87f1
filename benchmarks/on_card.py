"""How calls are timed on a GPU: by events on its stream, after warm-up, medians of many.

A contender is checked first: what it gives must agree with a result in double precision, on the card. Those
that queue their work on the current stream are timed by pairs of events, the others by the clock of the host,
until they say that they are done. Contenders take turns in rotated order.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from einloom.backend.gpu import missing

from .harness import OURS, CaseResult

ROUNDS, CALLS, WARM = 5, 11, 2
STEADY = 12  # calls of ours before the first that is timed: contractions are graphs by then
SECONDS, LONGEST = 0.02, 2.0
"""Of a contender's calls in a round, and of all rounds, which may be fewer then."""
TOLERANCES = {
    "float16": 2e-2,
    "float32": 2e-4,
    "complex64": 2e-4,
    "float64": 1e-9,
    "complex128": 1e-9,
}


class Timed(NamedTuple):
    """A contender: `call` queues work, or starts it; `done` waits for a result where events do not tell."""

    call: Callable[[], Any]
    done: Callable[[Any], Any] | None = None


def card() -> Any:
    """The module cupy where there is a card, else why there is none, as text."""
    why = missing()
    if why is not None:
        return f"there is no card to measure on: {why}"
    import cupy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return cupy


def card_name(xp: Any) -> str:
    name = xp.cuda.runtime.getDeviceProperties(0)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def measure_on_card(
    xp: Any,
    name: str,
    contenders: dict[str, Timed],
    want: Any,
    *,
    dtype: str,
    baselines: tuple[str, ...] = (),
    unchecked: tuple[str, ...] = (),
    facts: dict[str, Any] | None = None,
    left_out: dict[str, str] | None = None,
    moved: int | None = None,
    quick: bool = False,
) -> CaseResult:
    """Check and time; `want` is the result in double precision, on the card. What `unchecked` contenders give
    is another array."""
    result = CaseResult(
        name,
        failed=dict(left_out or {}),
        facts={"card": card_name(xp), "dtype": dtype, **(facts or {})},
        baselines=baselines,
        moved=moved,
    )
    alive: dict[str, Timed] = {}
    for who, contender in contenders.items():
        try:
            value = on_card(xp, contender.call())
        except Exception as error:  # a peer that cannot do the case loses it, no more
            if who == OURS:
                raise
            result.failed[who] = f"{type(error).__name__}: {error}"[:200]
            continue
        if who not in unchecked and not agree(xp, value, want, TOLERANCES[dtype]):
            raise AssertionError(f"{name}: {who} is not what double precision gives")
        alive[who] = contender
    for _ in range(0 if quick else STEADY):
        alive[OURS].call()
    first = {who: once(xp, contender) for who, contender in alive.items()}
    calls = {who: 1 if quick else _within(SECONDS / s, CALLS) for who, s in first.items()}
    round_takes = sum((calls[who] + WARM) * s for who, s in first.items())
    rounds = 1 if quick else _within(LONGEST / round_takes, ROUNDS)
    times: dict[str, list[float]] = {who: [] for who in alive}
    for turn in range(rounds):
        order = list(alive)
        for who in order[turn % len(order) :] + order[: turn % len(order)]:
            times[who].append(_median(xp, alive[who], calls[who]))
    result.seconds = {who: statistics.median(values) for who, values in times.items()}
    result.paired = {
        who: statistics.median(s / o for s, o in zip(values, times[OURS], strict=True))
        for who, values in times.items()
        if who != OURS
    }
    return result


def on_card(xp: Any, value: Any) -> Any:
    """A result of whatever library as an array of `xp`, in the same memory."""
    if isinstance(value, xp.ndarray):
        return value
    if type(value).__module__.partition(".")[0] == "torch":
        value = value.resolve_conj()
    return xp.from_dlpack(value) if hasattr(value, "__dlpack__") else xp.array(value)


def agree(xp: Any, value: Any, want: Any, tolerance: float) -> bool:
    """Whether two arrays are the same, to `tolerance` of the largest element; NaN agrees with nothing."""
    if value.shape != want.shape:
        return False
    if not want.size:
        return True
    scale = float(xp.max(xp.absolute(want))) or 1.0
    return float(xp.max(xp.absolute(value.astype(want.dtype) - want))) <= 2 * tolerance * scale


def once(xp: Any, contender: Timed) -> float:
    """Seconds of a call by the clock of the host, with all that it waits for."""
    xp.cuda.get_current_stream().synchronize()
    start = time.perf_counter()
    value = contender.call()
    if contender.done is not None:
        contender.done(value)
    xp.cuda.get_current_stream().synchronize()
    return time.perf_counter() - start


def _within(number: float, most: int) -> int:
    return max(1, min(most, int(number)))


def _median(xp: Any, contender: Timed, calls: int) -> float:
    """Median seconds of so many calls, after some that are not timed."""
    for _ in range(WARM if calls > 1 else 0):
        value = contender.call()
        if contender.done is not None:
            contender.done(value)
    if contender.done is not None:
        seconds = []
        for _ in range(calls):
            start = time.perf_counter()
            contender.done(contender.call())
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)
    events = [(xp.cuda.Event(), xp.cuda.Event()) for _ in range(calls)]
    for start, stop in events:
        start.record()
        contender.call()
        stop.record()
    events[-1][1].synchronize()
    return statistics.median(xp.cuda.get_elapsed_time(*pair) / 1000 for pair in events)


def queueing(xp: Any, call: Callable[[], Any], calls: int) -> float:
    """Median seconds of the host until a call returns, while the device keeps up."""
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
        xp.cuda.get_current_stream().synchronize()
    return statistics.median(seconds)

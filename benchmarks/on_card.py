"""How calls are timed on a GPU: by events on its stream, after warm-up, medians of many.

A contender is checked first: what it gives, brought to the host, must agree with a result in double
precision. Those that queue their work on the current stream are timed by pairs of events, the others by the
clock of the host, until they say that they are done. Contenders take turns in rotated order.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from einloom.backend.gpu import missing

from .harness import OURS, CaseResult, agree

ROUNDS, CALLS, WARM = 9, 11, 3
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
    """Check and time; `want` is the result in double precision, on the host. What `unchecked` contenders give
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
            value = on_host(contender.call())
        except Exception as error:  # a peer that cannot do the case loses it, no more
            if who == OURS:
                raise
            result.failed[who] = f"{type(error).__name__}: {error}"[:200]
            continue
        if who not in unchecked and not agree(value.astype(want.dtype), want, TOLERANCES[dtype]):
            raise AssertionError(f"{name}: {who} is not what double precision gives")
        alive[who] = contender
    times: dict[str, list[float]] = {who: [] for who in alive}
    for turn in range(1 if quick else ROUNDS):
        order = list(alive)
        for who in order[turn % len(order) :] + order[: turn % len(order)]:
            times[who].append(_median(xp, alive[who], 1 if quick else CALLS))
    result.seconds = {who: statistics.median(values) for who, values in times.items()}
    result.paired = {
        who: statistics.median(s / o for s, o in zip(values, times[OURS], strict=True))
        for who, values in times.items()
        if who != OURS
    }
    return result


def on_host(value: Any) -> Any:
    """A result of whatever library as an array of NumPy."""
    if hasattr(value, "get") and hasattr(value, "__cuda_array_interface__"):
        return value.get()
    if type(value).__module__.partition(".")[0] == "torch":
        return value.resolve_conj().cpu().numpy()
    return np.asarray(value)


def _median(xp: Any, contender: Timed, calls: int) -> float:
    """Median seconds of so many calls, after some that are not timed."""
    for _ in range(WARM):
        value = contender.call()
    if contender.done is not None:
        contender.done(value)
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

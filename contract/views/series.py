"""What is drawn over the steps of a plan, by whatever draws it: values and the range of the axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..._base.numbers import log10
from ..plan import Plan

STEEP = 20  # times the least value from which an axis is logarithmic
FAR = 4  # times the rest from which a limit is named, but the axis does not reach it
LARGEST = 300  # decimal exponent up to which integers are drawn as floats
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True)
class Range:
    """Of an axis."""

    low: float
    high: float
    is_log: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes over steps, in `unit`; `limit` is None where there is none or it lies far above the rest."""

    alive: tuple[float, ...]
    results: tuple[float, ...]
    peak: float
    limit: float | None
    unit: str
    range: Range


@dataclass(frozen=True, slots=True)
class Work:
    """Multiplications of each step, and the share of all that is done by then."""

    costs: tuple[float, ...]
    shares: tuple[float, ...]
    range: Range


def memory(plan: Plan) -> Memory:
    """What is alive in each step, what it makes, and the lines above."""
    levels = [step.alive_bytes for step in plan.steps]
    top = max(*levels, plan.peak_bytes)
    limit = plan.memory_limit
    if limit is not None and limit > FAR * top:
        limit = None
    power = min((max(top, limit or 0, 1).bit_length() - 1) // 10, len(UNITS) - 1)

    def scaled(value: int) -> float:
        return bounded(value) / (1 << (10 * power))

    alive = tuple(map(scaled, levels))
    lines = [scaled(plan.peak_bytes), *([] if limit is None else [scaled(limit)])]
    return Memory(
        alive,
        tuple(scaled(step.nbytes) for step in plan.steps),
        scaled(plan.peak_bytes),
        None if limit is None else scaled(limit),
        UNITS[power],
        reach([*alive, *lines]),
    )


def work(plan: Plan) -> Work:
    """The cost of each step, and of all up to it."""
    costs = tuple(bounded(step.cost) for step in plan.steps)
    total = plan.cost
    done = accumulate(step.cost for step in plan.steps)
    return Work(costs, tuple(x / total if total else 0.0 for x in done), reach(costs))


def reach(values: Sequence[float]) -> Range:
    """A logarithmic axis where values differ much, without those that are 0; else one from 0 on."""
    seen = [value for value in values if value > 0]
    if not seen:
        return Range(0.0, 1.0, False)
    low, high = min(seen), max(seen)
    if high > STEEP * low:
        return Range(low / 1.5, high * 1.5, True)
    return Range(0.0, high * 1.1, False)


def bounded(value: int) -> float:
    """An integer of any size as a float; those that have none are drawn at the top."""
    return float(value) if log10(value) < LARGEST else 10.0**LARGEST

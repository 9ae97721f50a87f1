"""How everything is timed: contenders alternate in rotated order, results are checked first.

A case has contenders, callables without arguments that return an array. The first is the reference;
every other must agree with it before anything is timed. Reported are medians; GEMM and copy rates are
measured in the same run, so that figures of different days can be compared at all.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
Contender = Callable[[], Any]


@dataclass
class CaseResult:
    """Median seconds of each contender of one case; a contender that failed says why."""

    name: str
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()  # contenders that are no peers: floors, and our other forms

    def ratio(self) -> float | None:
        """Best peer over einloom: above 1 einloom is ahead."""
        apart = ("einloom", *self.baselines)
        others = [value for name, value in self.seconds.items() if name not in apart]
        ours = self.seconds.get("einloom")
        return min(others) / ours if ours and others else None


def measure(
    name: str,
    contenders: dict[str, Contender],
    *,
    rounds: int = 7,
    budget: float = 4.0,
    tolerance: float = 1e-8,
    facts: dict[str, Any] | None = None,
    baselines: tuple[str, ...] = (),
) -> CaseResult:
    """Check, warm up and time the contenders of one case; `budget` bounds its seconds."""
    result = CaseResult(name, facts=facts or {}, baselines=baselines)
    reference: Any = None
    alive: dict[str, Contender] = {}
    for who, call in contenders.items():
        try:
            value = np.asarray(call())
        except Exception as error:  # a peer that cannot do the case loses it, no more
            result.failed[who] = f"{type(error).__name__}: {error}"[:200]
            continue
        if reference is None:
            reference = value
        scale = float(np.max(np.abs(reference), initial=0.0)) or 1.0
        if not np.allclose(value, reference, rtol=tolerance, atol=tolerance * scale):
            raise AssertionError(f"{name}: {who} disagrees with {next(iter(contenders))}")
        alive[who] = call
    times: dict[str, list[float]] = {who: [] for who in alive}
    start = time.perf_counter()
    for turn in range(rounds):
        order = list(alive)
        for who in order[turn % len(order) :] + order[: turn % len(order)]:
            times[who].append(_once(alive[who]))
        if time.perf_counter() - start > budget and turn >= 2:
            break
    result.seconds = {who: statistics.median(values) for who, values in times.items()}
    return result


def _once(call: Contender) -> float:
    """Seconds of one call, repeated until the clock can see it."""
    repeats, spent = 1, 0.0
    while True:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        spent = time.perf_counter() - start
        if spent > 2e-4 or repeats >= 1 << 14:
            return spent / repeats
        repeats *= 4


def machine() -> dict[str, Any]:
    """What the figures were measured on, with GEMM and copy rates of this moment."""
    a = np.random.default_rng(0).random((1024, 1024))
    gemm = min(_once(lambda: a @ a) for _ in range(5))
    source = np.ones(1 << 24)
    target = np.empty_like(source)
    copy = min(_once(lambda: np.copyto(target, source)) for _ in range(5))
    versions = {}
    for module in ("numpy", "scipy", "numba", "opt_einsum", "cotengra", "torch"):
        try:
            versions[module] = __import__(module).__version__
        except ImportError:
            versions[module] = None
    return {
        "python": platform.python_version(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "versions": versions,
        "gemm_gflops": 2 * 1024**3 / gemm / 1e9,
        "copy_gbytes": 2 * source.nbytes / copy / 1e9,
        "date": time.strftime("%Y-%m-%d"),
    }


def report(suite: str, results: list[CaseResult], facts: dict[str, Any]) -> None:
    """Print a table with ratios and their geometric mean, and keep everything as JSON."""
    width = max(len(result.name) for result in results)
    names = list(dict.fromkeys(who for result in results for who in result.seconds))
    print(f"{'':{width}} " + " ".join(f"{who:>18}" for who in names) + "  best peer/ours")
    for result in results:
        cells = [
            f"{result.seconds[who] * 1e3:>15.4f} ms" if who in result.seconds else f"{'-':>18}"
            for who in names
        ]
        ratio = result.ratio()
        print(
            f"{result.name:{width}} {' '.join(cells)}  {'-' if ratio is None else f'{ratio:.2f}'}"
        )
    ratios = [min(5.0, r) for result in results if (r := result.ratio()) is not None]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean of best peer/ours, a ratio counting at most 5: {mean:.2f}")
    RESULTS.mkdir(exist_ok=True)
    document = {"suite": suite, "machine": facts, "results": [asdict(r) for r in results]}
    file = RESULTS / f"{suite}.json"
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"kept in {file.relative_to(RESULTS.parent.parent)}")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()

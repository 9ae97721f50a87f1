"""What an empty parallel region costs, and which ways of running one survive several callers and fork."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator

from ..harness import CaseResult

WAYS = ("einloom", "ThreadPoolExecutor", "numba omp", "numba tbb", "numba workqueue")
SERIAL = "one thread"
COSTS = {
    "cost": "empty region",
    "rested": "empty region after a rest",
    "work": "region with work in it",
}
TRIALS = {"together": "8 Python threads at once", "fork": "a region after fork"}
ROUNDS = 3
PATIENCE = 120  # seconds for a process


def threads(quick: bool) -> Iterator[CaseResult]:
    """An empty parallel region: its cost, and whether it survives 8 callers at once and a fork."""
    ways = WAYS[:2] if quick else WAYS
    for mode, title in COSTS.items():
        yield _costs(mode, title, (SERIAL, *ways), quick)
    for mode, title in TRIALS.items():
        outcomes = {way: _outcome(_process(way, mode, quick)) for way in ways}
        yield CaseResult(title, facts=outcomes)


def _costs(mode: str, title: str, ways: tuple[str, ...], quick: bool) -> CaseResult:
    """Medians of several processes of each way, in rotated order."""
    policy = {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY")}  # decides what omp costs
    result = CaseResult(title, baselines=ways, facts=policy)
    seconds: dict[str, list[float]] = {}
    for turn in range(1 if quick else ROUNDS):
        for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
            code, output = _process(way, mode, quick)
            if code == 0:
                seconds.setdefault(way, []).append(float(output))
            else:
                result.failed[way] = output
    result.seconds = {way: statistics.median(seconds[way]) for way in ways if way in seconds}
    return result


def _process(way: str, mode: str, quick: bool) -> tuple[int, str]:
    """Exit code, and the last line printed: of errors where the code is not 0."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.region", way, mode]
    try:
        done = subprocess.run(
            command + ["quick"] * quick,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return 1, "hangs"
    text = done.stderr if done.returncode else done.stdout
    return done.returncode, (text.strip().splitlines() or [""])[-1]


def _outcome(process: tuple[int, str]) -> str:
    """What became of a process, or of the child whose exit code it printed."""
    code, output = process
    child = code == 0 and output not in ("0", "")
    code = int(output) if child else code
    if code == 0:
        return "survives"
    if code == -signal.SIGALRM:
        return "hangs"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"fails: {output}"

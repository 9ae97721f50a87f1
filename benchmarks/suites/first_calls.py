"""How long the first call takes, from the string, by default settings; each in a process of its own."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import einloom
from einloom.contract.problem_file import read_problem

from ..cold import CONTENDERS
from ..harness import OURS, CaseResult
from .einsum import INSTANCES, SMALL

ROUNDS = ((0.05, 15), (1.0, 5), (float("inf"), 3))
"""How often, for calls of less than so many seconds: single ones of short calls differ by half."""
QUICK = ("einloom", "np.einsum")
LIMIT = 30  # seconds for a process, its imports included


def cold(quick: bool) -> Iterator[CaseResult]:
    """The published problems from string to result by default settings, first call of a fresh process."""
    for file in sorted(INSTANCES.glob("*.json")):
        if quick and file.stem not in SMALL[1:]:
            continue
        problem = read_problem(file)
        arrays = problem.arrays(0)
        result = CaseResult(problem.name)
        with TemporaryDirectory() as folder:
            reference = Path(folder, "reference.npy")
            path = problem.paths["opt_flops"]
            np.save(reference, einloom.einsum(problem.equation, *arrays, optimize=path))
            del arrays
            if quick:
                time_rounds(result, file, reference, QUICK, 1)
            else:
                first = call(OURS, file, reference)  # what it compiles is on disk for the rounds
                seconds = 1.0 if isinstance(first, str) else first[0]
                rounds = next(count for most, count in ROUNDS if seconds < most)
                time_rounds(result, file, reference, tuple(CONTENDERS), rounds)
        yield result


def time_rounds(
    result: CaseResult, file: Path, reference: Path, contenders: tuple[str, ...], rounds: int
) -> None:
    """Processes of all contenders in rotated order; who fails is not asked again."""
    times: dict[str, dict[int, float]] = {who: {} for who in contenders}
    imports: dict[str, list[float]] = {who: [] for who in contenders}
    order = list(contenders)
    for turn in range(rounds):
        for who in order[turn % len(order) :] + order[: turn % len(order)]:
            if who in result.failed:
                continue
            outcome = call(who, file, reference)
            if isinstance(outcome, str):
                result.failed[who] = outcome
            else:
                times[who][turn] = outcome[0]
                imports[who].append(outcome[1])
    result.seconds = {
        who: statistics.median(spent.values())
        for who, spent in times.items()
        if spent and who not in result.failed
    }
    result.facts["import_seconds"] = {
        who: statistics.median(imports[who]) for who in result.seconds
    }
    ours = times[OURS]
    result.paired = {
        who: statistics.median(times[who][turn] / ours[turn] for turn in ours)
        for who in result.seconds
        if who != OURS and OURS in result.seconds
    }


def call(who: str, file: Path, reference: Path) -> tuple[float, float] | str:
    """Seconds of the first call in a new process, and of imports in it; or why there are none."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.cold", who, str(file)]
    with subprocess.Popen(
        [*command, str(reference)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, errors = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and the processes that it began
            return f"stopped after {LIMIT} s"
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode == 0:
        first, imports = out.split()[-2:]
        return float(first), float(imports)
    if process.returncode < 0:
        return f"killed by signal {-process.returncode}"
    return (errors.strip().splitlines() or ["no reason given"])[-1][:200]

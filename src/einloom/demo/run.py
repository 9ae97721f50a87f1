"""The main job on real input: Ising partition functions and circuit amplitudes, each checked.

A network is planned and compiled once; its expression then runs for every temperature or bitstring.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path

import numpy as np

from ..contract.api import compile, plan
from ..contract.network import Network
from .circuit import circuit_network, read_qsim, state_vector
from .ising import ising_network, kaufman_log_partition, read_ising_cases
from .report import DemoReport, DemoRow

TOLERANCE = 1e-10

Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class _Case:
    """The arrays of one contraction, and how far a value is from the right one."""

    name: str
    arrays: list[np.ndarray]
    error: Callable[[complex], float]


def run_demo(
    ising_path: str | Path | None = None,
    circuit_path: str | Path | None = None,
    *,
    echo: Say = print,
    progress: Say | None = None,
) -> DemoReport:
    """Contracts the networks of both files, checks every result and reports.

    ising_path: JSON with lengths and betas; None: the one that ships with einloom.
    circuit_path: a circuit in the qsim text format; None: the one that ships with einloom.
    echo: called with the finished report, as text. progress: called with a line before each piece
    of work; None means echo.
    """
    say = echo if progress is None else progress
    rows = [
        *_ising_rows(Path(ising_path or _shipped("ising.json")), say),
        *_circuit_rows(Path(circuit_path or _shipped("circuit_q20.qsim")), say),
    ]
    report = DemoReport(tuple(rows))
    echo(f"\n{report}")
    return report


def _ising_rows(path: Path, say: Say) -> Iterator[DemoRow]:
    say(f"Ising model on a torus, {path.name}: Z as one einsum")
    check = f"Z against Kaufman's exact formula, relative error at most {TOLERANCE:g}"
    for length, cases in groupby(read_ising_cases(path), key=lambda case: case.length):
        betas = [case.beta for case in cases]
        inputs, output, sizes, _ = ising_network(length, betas[0])
        yield from _contract(
            f"Ising {length}x{length}",
            check,
            (inputs, output, sizes),
            np.float64,
            [_ising_case(length, beta) for beta in betas],
            say,
        )


def _ising_case(length: int, beta: float) -> _Case:
    exact = kaufman_log_partition(length, beta)

    def error(value: complex) -> float:
        z = value.real  # |Z / Z_exact - 1|
        return abs(math.expm1(math.log(z) - exact)) if 0.0 < z < math.inf else math.inf

    return _Case(f"beta {beta:.4f}", ising_network(length, beta)[3], error)


def _circuit_rows(path: Path, say: Say) -> Iterator[DemoRow]:
    circuit = read_qsim(path)
    n = circuit.n_qubits
    say(f"Random circuit, {path.name}: {n} qubits, {len(circuit.gates)} gates; amplitudes <b|U|0>")
    say(f"  state vector of 2^{n} amplitudes, to check against")
    state = state_vector(circuit)
    bitstrings = list(dict.fromkeys(("0" * n, "1" * n, ("01" * n)[:n], ("0011" * n)[:n])))
    inputs, output, sizes, _ = circuit_network(circuit, bitstrings[0])

    def case(bitstring: str) -> _Case:
        right = complex(state[int(bitstring, 2)])
        return _Case(
            f"b = {int(bitstring, 2):#0{(n + 3) // 4 + 2}x}",
            circuit_network(circuit, bitstring)[3],
            lambda value: abs(value - right) * 2.0 ** (n / 2),
        )

    yield from _contract(
        f"<b|U|0> {n}q",
        f"amplitude against state vector, error at most {TOLERANCE:g} of 2^(-n/2)",
        (inputs, output, sizes),
        np.complex128,
        [case(bitstring) for bitstring in bitstrings],
        say,
    )


def _contract(
    name: str,
    check: str,
    equation: tuple[list[tuple[int, ...]], tuple[int, ...], dict[int, int]],
    dtype: type[np.generic],
    cases: Iterable[_Case],
    say: Say,
) -> Iterator[DemoRow]:
    """One row per case; the plan and the compiled expression are the same for all of them."""
    inputs, output, sizes = equation
    say(f"  {name}: planning {len(inputs)} tensors, {len(sizes)} labels")
    start = time.perf_counter()
    planned = plan(Network(inputs, output, sizes), dtype=dtype)
    expression = compile(planned)
    plan_seconds: float | None = time.perf_counter() - start
    for case in cases:
        say(f"  {name}: contracting, {case.name}")
        start = time.perf_counter()
        value = complex(expression(*case.arrays))
        seconds = time.perf_counter() - start
        yield DemoRow(
            name=f"{name} {case.name}",
            check=check,
            tensors=len(inputs),
            labels=len(sizes),
            flops=planned.flops,
            largest_intermediate=planned.largest_intermediate,
            peak_bytes=planned.peak_bytes,
            plan_seconds=plan_seconds,
            run_seconds=seconds,
            value=value,
            error=case.error(value),
            tolerance=TOLERANCE,
        )
        plan_seconds = None


def _shipped(name: str) -> Path:
    return Path(str(files("einloom") / "examples" / name))

"""A reader for circuits in the qsim text format, that of the published Sycamore experiments.

The first line is the number of qubits; every other line is ``time gate qubits... parameters...``,
for instance ``2 fs 1 4 1.5157 0.5567``. Blank lines and lines that begin with ``#`` are skipped.
The format is described in https://github.com/quantumlib/qsim, docs/input_format.md; circuits in it
accompany F. Arute et al., Nature 574, 505 (2019), https://doi.org/10.5061/dryad.k6t1rj8.

Gates that share a qubit must come in order of time, each later than the one before. Measurements
(``m``) at the end of a qubit's line change no amplitude and are skipped; a gate behind one is
refused, and so are controlled gates (``c``).
"""

from __future__ import annotations

import math
from pathlib import Path

from .._base.errors import FileFormatError
from .amplitude import circuit_network, state_vector
from .gates import GATES, Circuit, Gate

__all__ = ["Circuit", "Gate", "circuit_network", "parse_qsim", "read_qsim", "state_vector"]


def read_qsim(path: str | Path) -> Circuit:
    """The circuit in the qsim file at ``path``."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: expected qsim text, found {error}") from None
    return parse_qsim(text, str(path))


def parse_qsim(text: str, name: str = "<text>") -> Circuit:
    """The circuit in qsim text; ``name`` stands for the file in error messages.

    >>> circuit = parse_qsim("2\\n0 h 0\\n1 cnot 0 1\\n")
    >>> circuit.n_qubits, circuit.gates[1].qubits
    (2, (0, 1))
    """
    n_qubits = 0
    gates: list[Gate] = []
    last_times: dict[int, int] = {}
    measured: set[int] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            if n_qubits == 0:
                n_qubits = _parse_n_qubits(words)
                continue
            gate = _parse_gate(words, n_qubits)
            _check_order(gate, last_times, measured)
        except _LineError as error:
            raise FileFormatError(f"{name}, line {number}: {line.strip()!r}: {error}") from None
        if gate.name == "m":
            measured.update(gate.qubits)
        else:
            gates.append(gate)
    if n_qubits == 0:
        raise FileFormatError(
            f"{name}: expected the number of qubits in the first line, found none"
        )
    return Circuit(n_qubits, tuple(gates))


class _LineError(Exception):
    """What is wrong with a line, before file and line are known."""


def _parse_n_qubits(words: list[str]) -> int:
    n_qubits = _parse_index(words[0], "the number of qubits")
    if len(words) != 1 or n_qubits == 0:
        raise _LineError("expected the number of qubits, a positive integer alone in its line")
    return n_qubits


def _parse_gate(words: list[str], n_qubits: int) -> Gate:
    time = _parse_index(words[0], "the time")
    if len(words) == 1:
        raise _LineError("expected 'time gate qubits... parameters...', got a time alone")
    name = words[1]
    if name == "c":
        raise _LineError("controlled gates ('c') cannot be read; expected a gate without controls")
    if name != "m" and name not in GATES:
        known = ", ".join(sorted([*GATES, "m"]))
        raise _LineError(f"unknown gate {name!r}, expected one of {known}")
    arguments = words[2:]
    if name != "m":
        split, params = GATES[name].n_qubits, GATES[name].params
        wanted = " ".join(["qubit"] * split + list(params))
    else:  # on any number of qubits
        split, params, wanted = len(arguments), (), "qubits..."
    if split == 0 or len(arguments) != split + len(params):
        raise _LineError(
            f"expected 'time {name} {wanted}', got {len(arguments)} words after {name!r}"
        )
    qubits = tuple(_parse_index(word, "a qubit") for word in arguments[:split])
    for qubit in qubits:
        if qubit >= n_qubits:
            raise _LineError(f"expected qubits 0 to {n_qubits - 1}, got {qubit}")
    if len(set(qubits)) != len(qubits):
        raise _LineError(f"expected different qubits, got {' '.join(arguments[:split])}")
    values = tuple(
        _parse_angle(word, param) for word, param in zip(arguments[split:], params, strict=True)
    )
    return Gate(time, name, qubits, values)


def _parse_index(word: str, what: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 19):  # as 64 bits can hold
        raise _LineError(f"expected {what}, a non-negative integer, got {word!r}")
    return int(word)


def _parse_angle(word: str, param: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in word:
        raise _LineError(f"expected the angle {param} in radians, a finite number, got {word!r}")
    return value


def _check_order(gate: Gate, last_times: dict[int, int], measured: set[int]) -> None:
    for qubit in gate.qubits:
        if qubit in measured:
            raise _LineError(f"qubit {qubit} is measured earlier; expected measurements at the end")
        if gate.time <= last_times.get(qubit, -1):
            raise _LineError(
                f"expected a time after {last_times[qubit]}, when the previous gate on qubit "
                f"{qubit} acts"
            )
        last_times[qubit] = gate.time

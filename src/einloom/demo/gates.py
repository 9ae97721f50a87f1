"""The gates of the qsim text format: which there are, what they take, and their matrices.

Names, parameters, matrices and phases are those of qsim (https://github.com/quantumlib/qsim,
docs/input_format.md and lib/gates_qsim.h). A rotation by phi about the axis A is exp(-i phi A / 2);
the squares of x_1_2, y_1_2 and hz_1_2 are X, Y and W = (X + Y) / sqrt 2; t and s are the fourth
and the second root of Z; cp(phi) has the phase exp(-i phi) on |11>, and

    fs(theta, phi) = direct sum of (1), (c -is; -is c), (exp(-i phi)),  c, s = cos, sin theta

on |00>, {|01>, |10>} and |11>. A two-qubit matrix has rows and columns 2 b0 + b1, where b0 is the
bit of the qubit named first (the control of cnot).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_R = math.sqrt(0.5)
_P, _M = (1 + 1j) / 2, (1 - 1j) / 2


@dataclass(frozen=True, slots=True)
class GateRule:
    """What a gate name stands for: number of qubits, names of the parameters, the matrix."""

    n_qubits: int
    params: tuple[str, ...]
    entries: Callable[..., list[list[complex]]]


@dataclass(frozen=True, slots=True)
class Gate:
    """One line of a circuit file: a gate, when and where it acts."""

    time: int
    name: str
    qubits: tuple[int, ...]
    params: tuple[float, ...] = ()

    @property
    def matrix(self) -> np.ndarray:
        """The unitary of the gate, 2x2 or 4x4, complex128."""
        return np.array(GATES[self.name].entries(*self.params), dtype=np.complex128)


@dataclass(frozen=True, slots=True)
class Circuit:
    """Gates in an order in which they may be applied, on qubits 0 ... n_qubits - 1."""

    n_qubits: int
    gates: tuple[Gate, ...]


def _rotation(theta: float, phi: float) -> list[list[complex]]:
    """exp(-i phi (cos theta X + sin theta Y) / 2)."""
    c, s = math.cos(phi / 2), -1j * math.sin(phi / 2)
    return [[c, s * cmath.exp(-1j * theta)], [s * cmath.exp(1j * theta), c]]


def _ry(phi: float) -> list[list[complex]]:
    c, s = math.cos(phi / 2), math.sin(phi / 2)
    return [[c, -s], [s, c]]


def _phases(*diagonal: complex) -> list[list[complex]]:
    return [[d if i == j else 0 for j in range(len(diagonal))] for i, d in enumerate(diagonal)]


def _middle(a: complex, b: complex, c: complex, d: complex, last: complex) -> list[list[complex]]:
    """1 on |00>, [a b; c d] on |01> and |10>, last on |11>."""
    return [[1, 0, 0, 0], [0, a, b, 0], [0, c, d, 0], [0, 0, 0, last]]


def _fsim(theta: float, phi: float) -> list[list[complex]]:
    c, s = math.cos(theta), -1j * math.sin(theta)
    return _middle(c, s, s, c, cmath.exp(-1j * phi))


def _cnot() -> list[list[complex]]:
    return [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]


GATES: dict[str, GateRule] = {
    "id1": GateRule(1, (), lambda: _phases(1, 1)),
    "h": GateRule(1, (), lambda: [[_R, _R], [_R, -_R]]),
    "x": GateRule(1, (), lambda: [[0, 1], [1, 0]]),
    "y": GateRule(1, (), lambda: [[0, -1j], [1j, 0]]),
    "z": GateRule(1, (), lambda: _phases(1, -1)),
    "s": GateRule(1, (), lambda: _phases(1, 1j)),
    "t": GateRule(1, (), lambda: _phases(1, _R * (1 + 1j))),
    "x_1_2": GateRule(1, (), lambda: [[_P, _M], [_M, _P]]),
    "y_1_2": GateRule(1, (), lambda: [[_P, -_P], [_P, _P]]),
    "hz_1_2": GateRule(1, (), lambda: [[_P, -1j * _R], [_R, _P]]),
    "rx": GateRule(1, ("phi",), lambda phi: _rotation(0.0, phi)),
    "ry": GateRule(1, ("phi",), _ry),
    "rz": GateRule(1, ("phi",), lambda phi: _phases(cmath.exp(-0.5j * phi), cmath.exp(0.5j * phi))),
    "rxy": GateRule(1, ("theta", "phi"), _rotation),
    "id2": GateRule(2, (), lambda: _phases(1, 1, 1, 1)),
    "cz": GateRule(2, (), lambda: _phases(1, 1, 1, -1)),
    "cp": GateRule(2, ("phi",), lambda phi: _phases(1, 1, 1, cmath.exp(-1j * phi))),
    "cnot": GateRule(2, (), _cnot),
    "cx": GateRule(2, (), _cnot),
    "sw": GateRule(2, (), lambda: _middle(0, 1, 1, 0, 1)),
    "is": GateRule(2, (), lambda: _middle(0, 1j, 1j, 0, 1)),
    "fs": GateRule(2, ("theta", "phi"), _fsim),
}

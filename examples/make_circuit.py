"""Draws ``circuit_q20.qsim``: a random circuit in Sycamore's gate set on a grid of 4 x 5 qubits.

    python examples/make_circuit.py [FILE]

The recipe is that of F. Arute et al., Nature 574, 505 (2019), doi:10.1038/s41586-019-1666-5: in
each cycle a gate out of sqrt X, sqrt Y, sqrt W on every qubit, never the same twice in a row on a
qubit, then fSim gates on about a quarter of the couplers, by the patterns A B C D C D A B; after
the last cycle half a cycle more. The angles of fSim(theta, phi) are near (pi/2, pi/6) with a
deviation that belongs to the coupler, and both its qubits turn about Z before it and after it.

All numbers come from one generator with a fixed seed, by ``Random.random`` alone, whose sequence
Python keeps from version to version: the file is the same, byte for byte, on every machine.
"""

import sys
from math import pi
from pathlib import Path
from random import Random

ROWS, COLUMNS = 4, 5
PATTERNS = "ABCDCDAB"  # one cycle per letter, then from the start again
CYCLES = 12
SEED = 20191023
SINGLE_QUBIT_GATES = ("x_1_2", "y_1_2", "hz_1_2")


def main() -> None:
    default = Path(__file__).with_name("circuit_q20.qsim")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    path.write_bytes(circuit_text().encode("ascii"))
    print(f"wrote {path}")


def circuit_text() -> str:
    """The circuit as qsim text."""
    random = Random(SEED)
    angles = {
        pair: (pi / 2 + _deviation(random, 0.15), pi / 6 + _deviation(random, 0.15))
        for letter in "ABCD"
        for pair in couplers(letter)
    }
    n_qubits = ROWS * COLUMNS
    lines = [str(n_qubits)]
    gates: list[str] = [""] * n_qubits
    time = 0
    for cycle in range(CYCLES):
        letter = PATTERNS[cycle % len(PATTERNS)]
        gates = _next_single_qubit_gates(random, gates)
        lines += [f"{time} {gate} {qubit}" for qubit, gate in enumerate(gates)]
        lines += _rotations(random, time + 1, letter)
        lines += [
            f"{time + 2} fs {a} {b} {angles[a, b][0]:.12f} {angles[a, b][1]:.12f}"
            for a, b in couplers(letter)
        ]
        lines += _rotations(random, time + 3, letter)
        time += 4
    gates = _next_single_qubit_gates(random, gates)
    lines += [f"{time} {gate} {qubit}" for qubit, gate in enumerate(gates)]
    return "\n".join(lines) + "\n"


def couplers(letter: str) -> list[tuple[int, int]]:
    """The pairs of a pattern: A and B downwards, C and D to the right, both staggered.

    The qubit in row r and column c is r*COLUMNS + c. A and D start at even r + c, B and C at odd.
    """
    down, right = letter in "AB", letter in "CD"
    return [
        (row * COLUMNS + column, (row + down) * COLUMNS + column + right)
        for row in range(ROWS - down)
        for column in range(COLUMNS - right)
        if (row + column) % 2 == (letter in "BC")
    ]


def _next_single_qubit_gates(random: Random, before: list[str]) -> list[str]:
    drawn = []
    for gate in before:
        choices = [name for name in SINGLE_QUBIT_GATES if name != gate]
        drawn.append(choices[int(random.random() * len(choices))])
    return drawn


def _rotations(random: Random, time: int, letter: str) -> list[str]:
    return [
        f"{time} rz {qubit} {_deviation(random, pi):.12f}"
        for pair in couplers(letter)
        for qubit in pair
    ]


def _deviation(random: Random, largest: float) -> float:
    return largest * (2.0 * random.random() - 1.0)


if __name__ == "__main__":
    main()

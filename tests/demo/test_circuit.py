"""The qsim reader, the gates, and amplitudes of networks and state vectors against a loop."""

from __future__ import annotations

import itertools
import math
import re
import runpy
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import einloom
from einloom._base.errors import FileFormatError, OptionError
from einloom.demo.circuit import (
    Circuit,
    Gate,
    circuit_network,
    parse_qsim,
    read_qsim,
    state_vector,
)
from einloom.demo.gates import GATES

EXAMPLES = Path(__file__).parents[2] / "examples"
X, Y, Z = (np.array(m) for m in ([[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]))


def oracle_state(circuit: Circuit) -> np.ndarray:
    """new[i] = sum over j of U[i at the gate's qubits, j there] old[j], i = j elsewhere."""
    n = circuit.n_qubits
    states = list(itertools.product((0, 1), repeat=n))
    psi = {bits: complex(not any(bits)) for bits in states}
    for gate in circuit.gates:
        k = len(gate.qubits)
        matrix = gate.matrix.reshape((2,) * 2 * k)
        new = dict.fromkeys(states, 0j)
        for old in states:
            for bits in itertools.product((0, 1), repeat=k):
                target = list(old)
                for qubit, bit in zip(gate.qubits, bits, strict=True):
                    target[qubit] = bit
                new[tuple(target)] += matrix[(*bits, *(old[q] for q in gate.qubits))] * psi[old]
        psi = new
    return np.array([psi[bits] for bits in states])


def contract(inputs, output, arrays) -> complex:
    """By np.einsum, which takes no operands without axes when it optimizes."""
    pairs = list(zip(arrays, inputs, strict=True))
    factor = math.prod(complex(array) for array, labels in pairs if not labels)
    operands = [x for pair in pairs if pair[1] for x in pair]
    return factor * complex(np.einsum(*operands, output, optimize="greedy") if operands else 1)


def random_circuit(rng: np.random.Generator, n_qubits: int, n_gates: int) -> Circuit:
    """Gates of all kinds on random qubits, one after the other."""
    names = [name for name in GATES if GATES[name].n_qubits <= n_qubits]
    gates = []
    for time in range(n_gates):
        name = names[rng.integers(len(names))]
        qubits = rng.permutation(n_qubits)[: GATES[name].n_qubits]
        params = rng.uniform(-4, 4, len(GATES[name].params))
        gates.append(Gate(time, name, tuple(map(int, qubits)), tuple(map(float, params))))
    return Circuit(n_qubits, tuple(gates))


def angles(name: str) -> tuple[float, ...]:
    return (0.7, -1.9)[: len(GATES[name].params)]


# gates


@pytest.mark.parametrize("name", GATES)
def test_gates_are_unitary(name: str) -> None:
    matrix = Gate(0, name, (0, 1), angles(name)).matrix
    assert matrix.shape == (2 ** GATES[name].n_qubits,) * 2
    np.testing.assert_allclose(matrix @ matrix.conj().T, np.eye(len(matrix)), atol=1e-15)


@pytest.mark.parametrize(
    ("root", "power", "expected"),
    [
        ("x_1_2", 2, X),
        ("y_1_2", 2, Y),
        ("hz_1_2", 2, (X + Y) / math.sqrt(2)),
        ("s", 2, Z),
        ("t", 4, Z),
        ("h", 2, np.eye(2)),
    ],
)
def test_roots(root: str, power: int, expected: np.ndarray) -> None:
    matrix = np.linalg.matrix_power(Gate(0, root, (0,)).matrix, power)
    np.testing.assert_allclose(matrix, expected, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "params", "axis"),
    [
        ("rx", (0.7,), X),
        ("ry", (0.7,), Y),
        ("rz", (0.7,), Z),
        ("rxy", (0.4, 0.7), math.cos(0.4) * X + math.sin(0.4) * Y),
    ],
)
def test_rotations(name: str, params: tuple[float, ...], axis: np.ndarray) -> None:
    expected = math.cos(0.35) * np.eye(2) - 1j * math.sin(0.35) * axis  # exp(-i 0.7 A / 2)
    np.testing.assert_allclose(Gate(0, name, (0,), params).matrix, expected, atol=1e-15)


def test_two_qubit_gates_in_terms_of_each_other() -> None:
    def matrix(name: str, *params: float) -> np.ndarray:
        return Gate(0, name, (0, 1), params).matrix

    h = np.kron(np.eye(2), Gate(0, "h", (0,)).matrix)
    np.testing.assert_allclose(h @ matrix("cz") @ h, matrix("cnot"), atol=1e-15)
    np.testing.assert_array_equal(matrix("cx"), matrix("cnot"))
    np.testing.assert_allclose(matrix("fs", -math.pi / 2, 0.0), matrix("is"), atol=1e-15)
    np.testing.assert_allclose(matrix("fs", 0.0, 0.3), matrix("cp", 0.3), atol=1e-15)
    np.testing.assert_allclose(matrix("cp", math.pi), matrix("cz"), atol=1e-15)
    np.testing.assert_array_equal(matrix("sw") @ matrix("sw"), np.eye(4))


# the reader


def test_a_file_of_every_kind_of_line(tmp_path: Path) -> None:
    path = tmp_path / "good.qsim"
    path.write_text(
        "# a comment\n\n3\n0 h 0 \n0 rz 1 -2.5e-1\n  1 fs 0 1 1.57 0.52\r\n#1 x 2\n"
        "1 t 2\n2 cnot 2 0\n\n3 m 0 1\n3 m 2"
    )
    gates = (
        Gate(0, "h", (0,)),
        Gate(0, "rz", (1,), (-0.25,)),
        Gate(1, "fs", (0, 1), (1.57, 0.52)),
        Gate(1, "t", (2,)),
        Gate(2, "cnot", (2, 0)),
    )
    assert read_qsim(path) == Circuit(3, gates)


@pytest.mark.parametrize("name", GATES)
def test_every_gate_is_read(name: str) -> None:
    qubits = (2, 0)[: GATES[name].n_qubits]
    line = " ".join(map(str, (7, name, *qubits, *angles(name))))
    assert parse_qsim(f"3\n{line}\n").gates == (Gate(7, name, qubits, angles(name)),)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x\n", 1, "the number of qubits, a non-negative integer, got 'x'"),
        ("0 h 0\n", 1, "the number of qubits, a positive integer alone in its line"),
        ("0\n", 1, "a positive integer"),
        ("-2\n", 1, "got '-2'"),
        ("2.0\n", 1, "got '2.0'"),
        ("9" * 5000 + "\n", 1, "the number of qubits, a non-negative integer"),
        ("2\n0\n", 2, "expected 'time gate qubits... parameters...'"),
        ("2\nh 0 1\n", 2, "the time, a non-negative integer, got 'h'"),
        ("2\n-1 h 0\n", 2, "the time"),
        ("2\n\n# c\n0 hadamard 0\n", 4, "unknown gate 'hadamard', expected one of cnot, cp, cx,"),
        ("2\n0 c 0 x 1\n", 2, "controlled gates ('c') cannot be read"),
        ("2\n0 h\n", 2, "expected 'time h qubit', got 0 words"),
        ("2\n0 h 0 1\n", 2, "expected 'time h qubit', got 2 words"),
        ("2\n0 h 0 # last\n", 2, "expected 'time h qubit', got 3 words"),
        ("2\n0 fs 0 1 0.5\n", 2, "expected 'time fs qubit qubit theta phi', got 3 words"),
        ("2\n0 m\n", 2, "expected 'time m qubits...', got 0 words"),
        ("2\n0 h 2\n", 2, "expected qubits 0 to 1, got 2"),
        ("2\n0 h -1\n", 2, "a qubit, a non-negative integer, got '-1'"),
        ("2\n0 h 1.0\n", 2, "got '1.0'"),
        ("2\n0 h \u0661\n", 2, "a qubit, a non-negative integer"),
        ("2\n0 cz 1 1\n", 2, "expected different qubits, got 1 1"),
        ("2\n0 rz 0 pi\n", 2, "the angle phi in radians, a finite number, got 'pi'"),
        ("2\n0 rz 0 nan\n", 2, "got 'nan'"),
        ("2\n0 rz 0 1e999\n", 2, "got '1e999'"),
        ("2\n0 rz 0 1_0\n", 2, "got '1_0'"),
        ("2\n3 h 0\n3 x 0\n", 3, "expected a time after 3, when the previous gate on qubit 0 acts"),
        ("2\n3 cz 0 1\n2 x 1\n", 3, "expected a time after 3"),
        ("2\n0 m 0 1\n1 h 1\n", 3, "qubit 1 is measured earlier"),
    ],
)
def test_bad_lines(text: str, line: int, message: str) -> None:
    with pytest.raises(FileFormatError, match=re.escape(message)) as error:
        parse_qsim(text, "bad.qsim")
    bad = text.splitlines()[line - 1]
    assert str(error.value).startswith(f"bad.qsim, line {line}: {bad!r}: ")


@pytest.mark.parametrize("text", ["", "\n \n", "# nothing\n"])
def test_files_without_a_circuit(text: str) -> None:
    with pytest.raises(FileFormatError, match="expected the number of qubits"):
        parse_qsim(text)


def test_files_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.qsim"
    path.write_bytes(b"2\n0 h \xff\n")
    with pytest.raises(FileFormatError, match=r"binary\.qsim: expected qsim text"):
        read_qsim(path)


# state vectors and amplitudes


def test_known_states() -> None:
    bell = state_vector(parse_qsim("2\n0 h 0\n1 cnot 0 1\n"))
    np.testing.assert_allclose(bell, np.array([1, 0, 0, 1]) / math.sqrt(2), atol=1e-15)
    ghz = state_vector(parse_qsim("4\n0 h 2\n1 cnot 2 0\n2 cnot 0 3\n3 cnot 3 1\n"))
    np.testing.assert_allclose(ghz[[0, 15]], [math.sqrt(0.5)] * 2, atol=1e-15)
    assert np.count_nonzero(np.abs(ghz) > 1e-15) == 2


def test_qubit_0_is_the_first_character_and_the_highest_bit() -> None:
    circuit = parse_qsim("3\n0 x 0\n0 h 2\n")
    np.testing.assert_allclose(state_vector(circuit)[[0b100, 0b101]], [math.sqrt(0.5)] * 2)
    for bitstring, expected in (("100", math.sqrt(0.5)), ("001", 0.0)):
        inputs, output, _, arrays = circuit_network(circuit, bitstring)
        assert contract(inputs, output, arrays) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(12))
def test_state_vector_and_every_amplitude_of_random_circuits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 1 + seed % 5
    circuit = random_circuit(rng, n, n_gates=int(rng.integers(0, 24)))
    expected = oracle_state(circuit)
    np.testing.assert_allclose(state_vector(circuit), expected, atol=1e-14)
    for index, bits in enumerate(itertools.product("01", repeat=n)):
        inputs, output, sizes, arrays = circuit_network(circuit, "".join(bits))
        assert contract(inputs, output, arrays) == pytest.approx(expected[index], abs=1e-14)
        assert output == ()
        assert set(sizes) == {label for labels in inputs for label in labels}
        assert all(a.shape == (2,) * len(t) for a, t in zip(arrays, inputs, strict=True))
        assert all(count == 2 for count in Counter(itertools.chain(*inputs)).values())


def test_amplitude_through_einsum() -> None:
    circuit = random_circuit(np.random.default_rng(99), 4, 20)
    inputs, output, _, arrays = circuit_network(circuit, "0110")
    operands = [x for pair in zip(arrays, inputs, strict=True) for x in pair]
    value = einloom.einsum(*operands, output)
    assert complex(value) == pytest.approx(oracle_state(circuit)[0b0110], abs=1e-14)


@pytest.mark.parametrize("bitstring", ["", "0", "000", "0b", "2 "])
def test_bad_bitstrings(bitstring: str) -> None:
    with pytest.raises(OptionError, match="expected a bitstring of 2 characters 0 or 1"):
        circuit_network(parse_qsim("2\n0 cz 0 1\n"), bitstring)


def test_state_vectors_too_large() -> None:
    with pytest.raises(OptionError, match=r"53 qubits .* at most 30"):
        state_vector(parse_qsim("53\n0 h 52\n"))


# the circuit that ships


def test_make_circuit_reproduces_the_shipped_file() -> None:
    text = runpy.run_path(str(EXAMPLES / "make_circuit.py"))["circuit_text"]()
    assert text.encode("ascii") == (EXAMPLES / "circuit_q20.qsim").read_bytes()


def test_the_shipped_circuit_follows_the_recipe() -> None:
    circuit = read_qsim(EXAMPLES / "circuit_q20.qsim")
    assert circuit.n_qubits == 20
    for qubit in range(20):
        names = [g.name for g in circuit.gates if g.qubits == (qubit,) and g.name != "rz"]
        assert len(names) == 13  # a half cycle follows the twelve
        assert set(names) <= {"x_1_2", "y_1_2", "hz_1_2"}
        assert all(a != b for a, b in itertools.pairwise(names))
    couplers = {gate.qubits for gate in circuit.gates if gate.name == "fs"}
    assert len(couplers) == 4 * 4 + 3 * 5  # every neighbour of the grid
    state = state_vector(circuit)
    assert np.vdot(state, state).real == pytest.approx(1.0, abs=1e-12)

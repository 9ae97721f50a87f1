"""A circuit as a tensor network for one amplitude, and as a state vector to check it against.

    amplitude(b) = <b| U_g ... U_2 U_1 |0...0>

Qubit 0 is the first character of a bitstring and the most significant bit of an index into the
state vector, so that ``state_vector(circuit)[int(b, 2)]`` is the amplitude of b.
"""

from __future__ import annotations

from itertools import count

import numpy as np

from .._base.errors import OptionError
from .gates import Circuit

MAX_STATE_QUBITS = 30  # 16 GiB of complex128


def circuit_network(
    circuit: Circuit, bitstring: str
) -> tuple[list[tuple[int, ...]], tuple[int, ...], dict[int, int], list[np.ndarray]]:
    """The amplitude <bitstring|U|0...0> as inputs, output, sizes and arrays.

    One operand per two-qubit gate, with the single-qubit gates multiplied in; one label per piece
    of a qubit's line between two operands. The ends of the lines are fixed bits and no labels:
    the operands there are slices of their gates. A qubit without a two-qubit gate is a scalar.
    """
    if len(bitstring) != circuit.n_qubits or set(bitstring) - {"0", "1"}:
        raise OptionError(
            f"expected a bitstring of {circuit.n_qubits} characters 0 or 1, got {bitstring!r}"
        )
    operands = _merge_single_qubit_gates(circuit)
    last = {qubit: k for k, (qubits, _) in enumerate(operands) for qubit in qubits}
    fresh = count()
    wires: dict[int, int] = {}  # qubit -> label of its line so far; none while it is |0>
    inputs: list[tuple[int, ...]] = []
    arrays: list[np.ndarray] = []
    for k, (qubits, matrix) in enumerate(operands):
        incoming = [wires.get(qubit) for qubit in qubits]
        outgoing = [None if last[qubit] == k else next(fresh) for qubit in qubits]
        wires.update(
            (q, label) for q, label in zip(qubits, outgoing, strict=True) if label is not None
        )
        ends = [*(int(bitstring[qubit]) for qubit in qubits), *(0 for _ in qubits)]
        labels = [*outgoing, *incoming]  # a matrix has its rows first
        index = [
            end if label is None else slice(None) for label, end in zip(labels, ends, strict=True)
        ]
        inputs.append(tuple(label for label in labels if label is not None))
        arrays.append(np.array(matrix.reshape((2,) * len(labels))[tuple(index)], order="C"))
    for qubit in range(circuit.n_qubits):
        if qubit not in last:
            inputs.append(())
            arrays.append(np.array(1.0 if bitstring[qubit] == "0" else 0.0, dtype=np.complex128))
    return inputs, (), dict.fromkeys(range(next(fresh)), 2), arrays


def state_vector(circuit: Circuit) -> np.ndarray:
    """U|0...0>, all 2^n amplitudes, by applying one gate after the other with NumPy alone.

    The state has one axis per qubit. A gate's axes come to the front, the gate multiplies from the
    left, and its axes stay at the end: the axes used longest ago are then in front, and the copy
    that fetches the next two moves long contiguous runs.
    """
    n = circuit.n_qubits
    if n > MAX_STATE_QUBITS:
        raise OptionError(
            f"a state vector of {n} qubits has 2^{n} amplitudes; at most {MAX_STATE_QUBITS} "
            "qubits are simulated this way"
        )
    state = np.zeros(1 << n, dtype=np.complex128)
    state[0] = 1.0
    order = list(range(n))  # order[axis] = qubit
    for qubits, matrix in _merge_single_qubit_gates(circuit):
        state, order = _to_front(state, order, qubits)
        state = state.reshape(len(matrix), -1).T @ matrix.T  # (U @ state).T
        order = [*order[len(qubits) :], *qubits]
    return _to_front(state, order, tuple(range(n)))[0].reshape(-1)


def _to_front(
    state: np.ndarray, order: list[int], qubits: tuple[int, ...]
) -> tuple[np.ndarray, list[int]]:
    """The state with the axes of ``qubits`` first and the others behind in their old order."""
    new_order = [*qubits, *(q for q in order if q not in qubits)]
    axes = [order.index(qubit) for qubit in new_order]
    return state.reshape((2,) * len(order)).transpose(axes), new_order


def _merge_single_qubit_gates(circuit: Circuit) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """The same unitary with single-qubit gates multiplied into the two-qubit gate that follows.

    Those at the end of a line go into the last two-qubit gate before them; a line without any
    becomes one 2x2 matrix.
    """
    merged: list[tuple[tuple[int, ...], np.ndarray]] = []
    pending: dict[int, np.ndarray] = {}
    last: dict[int, int] = {}
    one = np.eye(2)
    for gate in circuit.gates:
        if len(gate.qubits) == 1:
            (a,) = gate.qubits
            pending[a] = gate.matrix @ pending.get(a, one)
        elif gate.name != "id2":
            a, b = gate.qubits
            before = np.kron(pending.pop(a, one), pending.pop(b, one))
            last[a] = last[b] = len(merged)
            merged.append((gate.qubits, gate.matrix @ before))
    for a, matrix in pending.items():
        if a in last:
            qubits, gate_matrix = merged[last[a]]
            after = np.kron(matrix, one) if qubits[0] == a else np.kron(one, matrix)
            merged[last[a]] = (qubits, after @ gate_matrix)
        else:
            merged.append(((a,), matrix))
    return merged

"""When each slot dies, and how many bytes are alive at the worst moment.

An array lives from the instruction that makes it until the last use of it or of any view of it;
inputs belong to the caller and live throughout. peak_bytes = inputs + intermediates + kernel
scratch + results, an upper bound of what NumPy's allocator holds during the call.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..backend.protocol import Backend
from .ir import Program


@dataclass(frozen=True, slots=True)
class Schedule:
    """For each instruction the slots whose arrays may be dropped after it, and the peak."""

    dies_after: tuple[tuple[int, ...], ...]
    peak_bytes: int
    certain_bytes: int  # the peak without inputs and without scratch, which may not be needed
    peak_instruction: int  # -1: the inputs alone


def schedule(program: Program, backend: Backend) -> Schedule:
    """Last uses and peak of `program` on `backend`."""
    owner = _owners(program)
    last = _last_uses(program, owner)
    dies: list[list[int]] = [[] for _ in program.instructions]
    inputs = set(program.inputs)
    for slot, index in last.items():
        if index < len(dies):
            dies[index].append(slot)
    alive = sum(program.slots[slot].nbytes for slot in program.inputs)
    held = peak = certain = alive
    where = -1
    for index, ins in enumerate(program.instructions):
        if not ins.is_view:
            alive += sum(program.slots[slot].nbytes for slot in ins.outputs)
            scratch = 0
            if ins.family is None:
                scratch = backend.scratch_bytes(ins.op, ins.attrs, program.specs(ins.inputs))
            certain = max(certain, alive)
            if alive + scratch > peak:
                peak, where = alive + scratch, index
        alive -= sum(
            program.slots[slot].nbytes
            for slot in dies[index]
            if owner[slot] == slot and slot not in inputs
        )
    return Schedule(tuple(tuple(sorted(slots)) for slots in dies), peak, certain - held, where)


def _owners(program: Program) -> list[int]:
    """The slot whose memory each slot lives in: itself, or for a view its operand's owner."""
    owner = list(range(len(program.slots)))
    for ins in program.instructions:
        if ins.is_view:
            owner[ins.outputs[0]] = owner[ins.inputs[0]]
    return owner


def _last_uses(program: Program, owner: list[int]) -> dict[int, int]:
    """Index of the last instruction that needs each slot; the end of the program for outputs."""
    end = len(program.instructions)
    last: dict[int, int] = {}
    for index, ins in enumerate(program.instructions):
        for slot in ins.inputs + ins.outputs:
            last[slot] = index
    for slot in program.outputs:
        last[slot] = end
    for slot in range(len(owner) - 1, -1, -1):  # a view keeps what it shows alive
        root = owner[slot]
        if slot in last:
            last[root] = max(last.get(root, -1), last[slot])
    return last

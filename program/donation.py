"""Operands that are given away: their memory becomes that of intermediates and results.

What a caller does not need any more is memory that is there already. Where an operand is donated, what the
program makes is written into its memory as soon as nothing reads the operand, or a view of it: elementwise
ops write over the operand that they read, everything else takes the memory of one that is dead already. What
lies there dies in turn, and gives its place to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base.errors import CallError, OptionError
from .branches import Branches
from .ir import Instruction, Program


@dataclass(frozen=True, slots=True)
class Donation:
    """Where results of instructions go.

    Attributes:
        onto: the operand, a slot, into whose memory the result of an instruction is written.
        over: the same of instructions that write over one of their operands: the slot of that operand.
        certain_bytes: the most bytes of intermediates and results alive at once that lie elsewhere.
    """

    onto: dict[int, int]
    over: dict[int, int]
    certain_bytes: int


def plan_donation(program: Program, donated: Sequence[int], keep: int = -1) -> Donation:
    """Of the input slots `donated`; the instruction `keep` has a place already."""
    needed, shown = _needed_until(program), _may_show(program)
    room = {slot: program.slots[slot].nbytes for slot in donated}
    tenants = {slot: slot for slot in donated}  # what lies in an operand's memory
    onto: dict[int, int] = {}
    over: dict[int, int] = {}
    alive = most = 0
    leaving: dict[int, int] = {}  # bytes that are free behind an instruction
    for index, ins in enumerate(program.instructions):
        host = None
        if index != keep and _takes_out(program, ins):
            (made,) = ins.outputs
            size = program.slots[made].nbytes
            for slot in sorted(room, key=lambda slot: room[slot]):
                tenant = tenants[slot]
                if size > room[slot] or size == 0:
                    continue
                if needed[tenant] < index:
                    onto[index], host = slot, slot
                    break
                if needed[tenant] == index and _may_write_over(program, ins, tenant, shown):
                    over[index], host = tenant, slot
                    break
            if host is not None:
                tenants[host] = made
        if host is None and not ins.is_view and index != keep:
            for slot in ins.outputs:
                size = program.slots[slot].nbytes
                alive += size
                leaving[needed[slot]] = leaving.get(needed[slot], 0) + size
        most = max(most, alive)
        alive -= leaving.pop(index, 0)
    return Donation(onto, over, most)


def _takes_out(program: Program, ins: Instruction) -> bool:
    if ins.may_view or ins.family is not None or ins.op == "constant" or len(ins.outputs) != 1:
        return False
    slot = program.slots[ins.outputs[0]]
    return not (isinstance(ins, Branches) or slot.dtype.hasobject or slot.bounds)


def _may_write_over(
    program: Program, ins: Instruction, tenant: int, shown: Sequence[frozenset[int]]
) -> bool:
    """Whether the instruction reads what lies there element by element where it writes, and no view of it."""
    return program.slots[tenant].spec == program.slots[ins.outputs[0]].spec and all(
        x == tenant and ins.writes_over(k)
        for k, x in enumerate(ins.inputs)
        if tenant in shown[x] or x == tenant
    )


def _is_opaque(ins: Instruction) -> bool:
    """For all we know, what it makes shows what it reads."""
    return ins.may_view or ins.family is not None or isinstance(ins, Branches)


def _needed_until(program: Program) -> list[int]:
    """The last instruction at which a slot's memory is read, through views too; their number for outputs."""
    end = len(program.instructions)
    needed = [-1] * len(program.slots)
    for slot in program.outputs:
        needed[slot] = end
    for index in range(end - 1, -1, -1):
        ins = program.instructions[index]
        for slot in ins.outputs:
            needed[slot] = max(needed[slot], index)
        last = max(needed[slot] for slot in ins.outputs) if _is_opaque(ins) else index
        for slot in ins.inputs:
            needed[slot] = max(needed[slot], last)
    return needed


def _may_show(program: Program) -> list[frozenset[int]]:
    """Slots whose memory each may show."""
    shown = [frozenset((slot,)) for slot in range(len(program.slots))]
    for ins in program.instructions:
        if _is_opaque(ins):
            seen = frozenset[int]().union(*(shown[slot] for slot in ins.inputs))
            for slot in ins.outputs:
                shown[slot] |= seen
    return shown


def check_donated(call: str, donate: Any, count: int) -> tuple[int, ...]:
    """The positions in order, each once."""
    try:
        positions = sorted({int(np.asarray(k).__index__()) for k in donate})
    except TypeError:
        raise OptionError(
            f"{call}(donate={donate!r:.60}): give positions of operands, as in donate=(0, 2)"
        ) from None
    if positions and not 0 <= positions[0] <= positions[-1] < count:
        raise OptionError(f"{call}(donate={donate!r:.60}): there are operands 0 to {count - 1}")
    return tuple(positions)


def memory_of(call: str, position: int, arrays: Sequence[Any], out: Any = None) -> Any:
    """The bytes of a donated array: it has its memory for itself, without gaps, and may be written to."""
    x = arrays[position]
    if not x.flags.writeable:
        raise CallError(
            f"{call}(donate=...): operand {position} is read-only; it cannot be given away"
        )
    if x.dtype.hasobject:
        raise CallError(f"{call}(donate=...): operand {position} holds references, not numbers")
    flat = x.transpose(sorted(range(x.ndim), key=lambda axis: -x.strides[axis]))
    if not (flat.flags.c_contiguous and flat.flags.aligned):
        raise CallError(
            f"{call}(donate=...): operand {position} has gaps between its elements, or is not aligned; "
            f"only whole memory can be given away"
        )
    others = [f"operand {k}" for k, y in enumerate(arrays) if k != position and _meet(x, y)]
    if out is not None and _meet(x, out):
        others.append("out")
    if others:
        raise CallError(
            f"{call}(donate=...): operand {position} shares memory with {others[0]}; give away only what "
            f"nothing else in the call looks at"
        )
    return flat.reshape(-1).view(np.uint8)


def _meet(x: Any, y: Any) -> bool:
    return bool(np.may_share_memory(x, y))

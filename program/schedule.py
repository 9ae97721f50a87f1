"""What runs, when each slot dies, and how many bytes are alive at the worst moment.

An array lives from the instruction that makes it until the last use of it or of any view of it;
inputs belong to the caller and live throughout. peak_bytes = inputs + intermediates + kernel
scratch + results, an upper bound of what NumPy's allocator holds during the call. Intermediates are
those alive, or the whole arena where they are small enough to lie in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from .._base.options import get_options, options
from ..backend.protocol import Backend
from .branches import Branches, branched
from .fused import Fused, fuse, has_chains, has_sequences
from .ir import Instruction, Program
from .memory import MemoryPlan, plan_memory

ARENA = 256 << 10
"""Bytes up to which intermediates lie in an arena that is kept from call to call. Larger ones are taken
from the backend's lent memory one by one: it is warm too, and nothing large stays behind a call."""
HIGHER = 9 / 8
"""How much higher a peak may become for the sake of time."""
MORE = 32 << 20
"""Bytes that it may become higher in any case: less than what interpreter and libraries take."""
FEWEST = 6
"""Intermediates from which an arena is worth its check-out; fewer are allocated as they are made."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """For each instruction the slots whose arrays may be dropped after it, places, and the peak."""

    program: Program  # as it is run: groups are fused, subtrees or shares side by side
    dies_after: tuple[tuple[int, ...], ...]
    memory: MemoryPlan
    has_arena: bool  # intermediates lie where `memory` says; else each is allocated when it is made
    peak_bytes: int
    certain_bytes: int  # the peak without inputs and without scratch, which may not be needed
    peak_instruction: int  # -1: the inputs alone
    inside: tuple[Schedule, ...] = ()  # of what runs side by side


def schedule(
    program: Program,
    backend: Backend,
    arena: int | None = None,
    *,
    fused: bool = True,
    limit: int | None = None,
    fork: bool = True,
    in_turn: bool = True,
) -> Schedule:
    """Last uses, places and peak of `program` on `backend`; arenas have at most `arena` bytes, as a rule
    ARENA.

    Unless `fused` is false, groups run as one instruction, sequences only if `in_turn`, and if `fork`,
    independent subtrees run side by side, each on one thread, where there are no sequences.
    What a group of products reads waits for its last member, and side by side more is alive: the fastest way
    is taken whose peak is not much above the least, and at most `limit`; if there is none, the leanest.
    """
    if not fused:
        return _schedule(program, backend, arena)
    asked = get_options().engine is not None
    forked = (
        branched(program, backend.at_once(), partial(_is_shared, program, backend))
        if fork and not asked
        else program
    )
    # every way holds the inputs throughout: a peak not much above them is not much above the least
    known = _room(sum(program.slots[slot].nbytes for slot in program.inputs), fork, limit)
    found: list[Schedule] = []
    if forked is not program:
        found.append(_schedule(fuse(forked, backend, in_turn=False), backend, arena))
        if found[0].peak_bytes <= known:
            return found[0]
    whole = fuse(program, backend, in_turn=in_turn)
    found.append(_schedule(whole, backend, arena))
    if len(found) == 1 and found[0].peak_bytes <= known:
        return found[0]
    if has_chains(whole) and not asked:
        if in_turn and has_sequences(whole):  # what others gain is not lost with these
            found.append(_schedule(fuse(program, backend, in_turn=False), backend, arena))
        found.append(_schedule(fuse(program, backend, products=False), backend, arena))
    least = min(found, key=lambda one: one.peak_bytes)
    room = _room(least.peak_bytes, fork, limit)
    return next((one for one in found if one.peak_bytes <= room), least)


def _is_shared(program: Program, backend: Backend, ins: Instruction) -> bool:
    if ins.op not in ("dot_general", "dot_general_add", "matmul"):
        return False
    attrs = ins.at((0,) * len(program.indices))
    return backend.uses_threads(
        ins.op, attrs, program.placed(ins.inputs), program.placed(ins.outputs)
    )


def _room(least: int, fork: bool, limit: int | None) -> int:
    """The highest peak that is taken for the sake of time where the least is this."""
    times, parts = HIGHER.as_integer_ratio()  # peaks are exact, and may be larger than any float
    room = max(times * least // parts, least + (MORE if fork else 0))
    return room if limit is None else min(room, limit)


def _schedule(program: Program, backend: Backend, arena: int | None) -> Schedule:
    last = _last_uses(program)
    dies: list[list[int]] = [[] for _ in program.instructions]
    inputs = set(program.inputs)
    for slot, index in last.items():
        if index < len(dies):
            dies[index].append(slot)
    memory = plan_memory(program, dies)
    most = ARENA if arena is None else arena
    has_arena = len(memory.locations) >= FEWEST and 0 < memory.nbytes <= most
    elsewhere = memory.locations if has_arena else {}
    always_views = {slot for ins in program.instructions if ins.is_view for slot in ins.outputs}
    alive = sum(program.slots[slot].nbytes for slot in program.inputs)
    held, alive = alive, alive + (memory.nbytes if has_arena else 0)
    peak = certain = alive
    where = -1
    parts: tuple[Schedule, ...] = ()
    for index, ins in enumerate(program.instructions):
        if not ins.is_view:
            alive += sum(
                program.slots[slot].nbytes for slot in ins.outputs if slot not in elsewhere
            )
            inside: tuple[Schedule, ...] = ()
            if isinstance(ins, Branches):
                parts = inside = tuple(_inside(part, backend) for part in ins.parts)
            scratch = _scratch_bytes(program, ins, backend, inputs, inside)
            certain = max(certain, alive + _certain_inside(ins, program, inside))
            if alive + scratch > peak:
                peak, where = alive + scratch, index
        alive -= sum(
            program.slots[slot].nbytes
            for slot in dies[index]
            if slot not in always_views and slot not in inputs and slot not in elsewhere
        )
    drops = tuple(tuple(sorted(slots)) for slots in dies)
    return Schedule(program, drops, memory, has_arena, peak, certain - held, where, parts)


def _scratch_bytes(
    program: Program,
    ins: Instruction,
    backend: Backend,
    given: set[int],
    inside: Sequence[Schedule],
) -> int:
    if isinstance(ins, Fused):
        return ins.scratch_bytes
    if isinstance(ins, Branches):
        return sum(
            one.peak_bytes - _known(part) for part, one in zip(ins.parts, inside, strict=True)
        )
    if ins.family is not None:
        return 0
    attrs = ins.at((0,) * len(program.indices))
    # what users give may lie anyhow, whatever was planned for
    operands = tuple(
        (program.specs if slot in given else program.placed)((slot,))[0] for slot in ins.inputs
    )
    results = program.placed(ins.outputs)
    return backend.scratch_bytes(ins.op, attrs, operands, results)


def _inside(part: Program, backend: Backend) -> Schedule:
    with options(threads=1):
        return schedule(part, backend.alone(), in_turn=False)


def _known(part: Program) -> int:
    """Bytes of inputs and results, which the whole program counts."""
    return sum(part.slots[slot].nbytes for slot in part.inputs + part.outputs)


def _certain_inside(ins: Instruction, program: Program, inside: Sequence[Schedule]) -> int:
    """What the parts hold for certain beside their inputs and results."""
    results = sum(program.slots[slot].nbytes for slot in ins.outputs)
    return max(0, sum(one.certain_bytes for one in inside) - results)


def _last_uses(program: Program) -> dict[int, int]:
    """Index of the last instruction that needs each slot's memory; the end of the program for outputs."""
    end = len(program.instructions)
    last: dict[int, int] = {}
    shown = list(range(len(program.slots)))  # whose memory a slot shows: its own, for all we know
    shows: list[tuple[int, int]] = []
    for index, ins in enumerate(program.instructions):
        for slot in ins.inputs + ins.outputs:
            last[slot] = index
        if ins.may_view:
            for slot in ins.outputs:
                shows.append((slot, shown[ins.inputs[0]]))
                if ins.is_view:
                    shown[slot] = shown[ins.inputs[0]]
    for slot in program.outputs:
        last[slot] = end
    for slot, root in reversed(shows):  # a view keeps what it shows alive, or may show
        if slot in last:
            last[root] = max(last.get(root, -1), last[slot])
    return last

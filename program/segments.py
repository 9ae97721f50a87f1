"""Which elementwise instructions of a program may run as one kernel.

A group is an instruction and, before it, the elementwise ones that only members of the group read: what
lies between is never in memory. It runs where its last member stands, over arrays of one shape; a
reduction may be that last member. Its plan is the backend's to take or to decline, and then the members
run one by one. Structure, integers and comparisons come out the same either way; a floating a*b + c may be
rounded once instead of twice.

What a group reads waits for its last member, so a group that reached far back could hold more than its
members do. Hence a group lies in one segment, instructions without a product, an extension or a host op
among them, and every array that it reads is there before its first member.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass

from ..backend.catalogue import CATALOGUE
from ..backend.fusion import NO_MEMORY, ElementwiseFusionPlan, FusionStep
from .ir import Instruction, Program

REDUCTIONS = frozenset(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean"))
MOST_STEPS = 64  # a longer kernel compiles slowly, and its values are more than there are registers
RETURNED = -1  # as the place of a reader: the caller


@dataclass(frozen=True, slots=True)
class FusionGroup:
    """Instructions that one kernel may run: `output = kernel(*inputs)`.

    Attributes:
        members: their places in the program, increasing.
        inputs: slots that the kernel reads, in the order of the plan's inputs.
        output: the one slot that it makes.
        plan: what it computes.
    """

    members: tuple[int, ...]
    inputs: tuple[int, ...]
    output: int
    plan: ElementwiseFusionPlan


def fusion_groups(program: Program, least: float = 0) -> tuple[FusionGroup, ...]:
    """Groups of two members or more over arrays of `least` elements or more, in order of execution; no
    instruction is in two of them.

    >>> from einloom.program.builder import Builder
    >>> build = Builder()
    >>> x, y = build.input("f8", (2, 3)), build.input("f8", (2, 3))
    >>> total = build("reduce_sum", build("exp", build("multiply", x, y)), axes=(1,))
    >>> (group,) = fusion_groups(build.finish(total))
    >>> group.members, group.inputs, group.output
    ((0, 1, 2), (0, 1), 4)
    >>> [step.op for step in group.plan.steps], group.plan.reduce
    (['multiply', 'exp'], 'reduce_sum')
    """
    steps = {at for at in range(len(program.instructions)) if _is_step(program, at, least)}
    if not steps:
        return ()
    maker = {slot: at for at, ins in enumerate(program.instructions) for slot in ins.outputs}
    readers: dict[int, set[int]] = defaultdict(set)
    for at, ins in enumerate(program.instructions):
        for slot in ins.inputs:
            readers[slot].add(at)
    for slot in program.outputs:
        readers[slot].add(RETURNED)
    starts = _segment_starts(program)
    groups: list[FusionGroup] = []
    for at in reversed(range(len(program.instructions))):
        if at not in steps and not _is_reduction(program.instructions[at]):
            continue
        members = _members(program, at, steps, starts[at], maker, readers)
        if len(members) > 1:
            steps -= members
            groups.append(_group(program, sorted(members)))
    return tuple(reversed(groups))


def _members(
    program: Program,
    last: int,
    steps: set[int],
    start: int,
    maker: dict[int, int],
    readers: dict[int, set[int]],
) -> set[int]:
    """`last` and whatever of its segment feeds it alone; later instructions are decided first."""
    members: set[int] = set()
    seen, heap = {last}, [-last]
    while heap and -heap[0] >= start and len(members) < MOST_STEPS:
        at = -heapq.heappop(heap)
        ins = program.instructions[at]
        if at == last or (at in steps and readers[ins.outputs[0]] <= members):
            members.add(at)
        elif not ins.may_view and ins.op != "constant":
            break  # the group reads what is made here: earlier instructions are no members
        for slot in ins.inputs:
            if slot in maker and maker[slot] not in seen:
                seen.add(maker[slot])
                heapq.heappush(heap, -maker[slot])
    return members


def _segment_starts(program: Program) -> list[int]:
    """Where the segment of each instruction starts. Constants, which read nothing, part none."""
    starts, start = [], 0
    for at, ins in enumerate(program.instructions):
        row = CATALOGUE.get(ins.op)
        if ins.op != "constant" and (row is None or row.category != "session"):
            start = at + 1
        starts.append(start)
    return starts


def _is_step(program: Program, at: int, least: float) -> bool:
    ins = program.instructions[at]
    row = CATALOGUE.get(ins.op)
    if row is None or (row.group != "elementwise" and ins.op not in NO_MEMORY):
        return False
    if program.slots[ins.outputs[0]].spec.size < least:
        return False
    return not any(program.slots[slot].bounds for slot in ins.inputs + ins.outputs)


def _is_reduction(ins: Instruction) -> bool:
    return ins.op in REDUCTIONS and ins.attrs.get("initial") is None


def _group(program: Program, members: list[int]) -> FusionGroup:
    body = [program.instructions[at] for at in members]
    output = body[-1].outputs[0]
    reduction = body.pop() if _is_reduction(body[-1]) else None
    made = {ins.outputs[0] for ins in body}
    inputs = tuple(dict.fromkeys(slot for ins in body for slot in ins.inputs if slot not in made))
    number = {slot: k for k, slot in enumerate((*inputs, *(ins.outputs[0] for ins in body)))}
    steps = tuple(
        FusionStep(ins.op, tuple(number[slot] for slot in ins.inputs), ins.attributes)
        for ins in body
    )
    plan = ElementwiseFusionPlan(
        program.specs(inputs),
        steps,
        (len(number) - 1,),
        None if reduction is None else reduction.op,
        () if reduction is None else reduction.attrs["axes"],
    )
    return FusionGroup(tuple(members), inputs, output, plan)

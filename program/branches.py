"""Parts of a program that depend on nothing of each other, side by side: one thread for each. They are
subtrees, or all that is done for a share of an axis.

A product too small for several threads leaves all but one idle, and a contraction tree has many of them.
Where the tree forks into subtrees of like cost, each thread takes some, and what comes after them runs on
all threads as before. One instruction, the first, stands for the subtrees. Where each thread can do
everything for its share of a batch (`shares`) and that is predicted to take hardly more time, one instruction
stands for that.

Subtrees are chosen from the result down: the costliest is opened, its last step is left to what comes after,
as long as that makes the predicted time less; what is left is dealt out, the costliest first (R. Graham,
"Bounds on multiprocessing timing anomalies", 1969).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..backend.prediction import Prediction, predict
from .ir import At, Instruction, Program
from .shares import WAIT, Shares, in_shares, made_shares

LEAST = 1e-4  # predicted seconds of a program from which it is looked at
GAIN = 0.92  # of its time, what it must not exceed
MOST_OPENED = 64  # steps that may be left to what comes after
MOST = 2000  # instructions
LARGE_STEP = 1 << 22  # multiplications of a step that several threads share well
LONG_STEP = 4 << 20  # bytes of a step without multiplications that they share well
EVEN = 1.1  # times as long as subtrees shares may take: they are even however wrong that is, and leaner
START = 2e-4  # seconds that it takes to wake threads, and their caller when the last is done
BEGIN = 4e-5  # the same of threads that share the work of one step, which listen to the caller
SHORT = 1.5e-3
"""Predicted seconds of a program in which steps whose kernels share their work among threads count as shared.
In longer ones threads that begin only once and arrays that are smaller gain more than that says. Of 71 random
networks of 3 to 6 tensors below it, all of which would run side by side if this and START were not what they
are, 58 take longer then, 1.3 times as long in the mean (two cores of Zen 4)."""


@dataclass(frozen=True, slots=True)
class Branches(Instruction):
    """Programs that run side by side, each with some of the outputs."""

    parts: tuple[Program, ...]
    are_shares: bool = False  # whether all do the same, each for its share of an axis


def branched(
    program: Program, threads: int, is_shared: Callable[[Instruction], bool] = lambda ins: False
) -> Program:
    """`program` with independent subtrees side by side, if that takes clearly less time; else as it is.
    `is_shared` tells of an instruction whether its kernel shares its work among our threads itself.

    >>> from einloom.program.builder import Builder
    >>> build = Builder()
    >>> a, b, c = (build.input("f8", (160, 160)) for _ in range(3))
    >>> dot = dict(contracting=((1,), (0,)), batch=((), ()))
    >>> abc = build("dot_general", build("dot_general", a, b, **dot), c, **dot)
    >>> cba = build("dot_general", build("dot_general", c, b, **dot), a, **dot)
    >>> program = build.finish(build("add", abc, cba))
    >>> branched(program, 1) is program
    True
    >>> print(branched(program, 2).op_counts)
    Counter({'branches[2, 2]': 1, 'add': 1})
    """
    count = len(program.instructions)
    if threads < 2 or not 2 < count <= MOST or len(program.outputs) != 1:
        return program
    if any(slot.dtype.hasobject for slot in program.slots):
        return program  # Python computes those, one at a time
    tree = _Tree(program, threads, is_shared)
    if tree.before < LEAST or tree.before / threads + START > GAIN * tree.before:
        return program
    dealt, seconds = tree.dealt()
    found = in_shares(program, threads, tree.shared, _predicted)
    if found is not None and found.seconds + START < min(EVEN * seconds, GAIN * tree.before):
        return _in_shares(program, made_shares(program, found, threads))
    return program if not dealt else _with(program, tree, dealt)


def _predicted(program: Program, ins: Instruction) -> Prediction:
    if ins.family is not None:
        return Prediction()
    placed = program.placed(ins.inputs), program.placed(ins.outputs)
    return predict(ins.op, ins.at((0,) * len(program.indices)), *placed)


def _in_shares(program: Program, shares: Shares) -> Program:
    slots = shares.parts[0].slots
    whole = _as_one(program, shares.parts, are_shares=True)
    return replace(program, slots=slots, instructions=(*shares.before, whole, *shares.after))


def _as_one(program: Program, parts: tuple[Program, ...], are_shares: bool = False) -> Branches:
    """These parts as one instruction."""
    name = "shares" if are_shares else "branches"
    return Branches(
        f"{name}[{', '.join(str(len(part.instructions)) for part in parts)}]",
        tuple((f"index{k:04}", At(k)) for k in range(len(program.indices))),
        tuple(dict.fromkeys(slot for part in parts for slot in part.inputs)),
        tuple(slot for part in parts for slot in part.outputs),
        parts,
        are_shares,
    )


class _Tree:
    """The instructions by what they need; predicted seconds of each, beside others and on all threads."""

    def __init__(
        self, program: Program, threads: int, is_shared: Callable[[Instruction], bool]
    ) -> None:
        self.program, self.threads = program, threads
        self.maker = {
            slot: at for at, ins in enumerate(program.instructions) for slot in ins.outputs
        }
        self.needs = [
            tuple(dict.fromkeys(self.maker[slot] for slot in ins.inputs if slot in self.maker))
            for ins in program.instructions
        ]
        self.alone: list[float] = []
        self.shared: list[float] = []
        small: list[int] = []
        for at, ins in enumerate(program.instructions):
            found = _predicted(program, ins)
            work = found.multiplications
            is_large = work >= LARGE_STEP or (not work and found.moved_bytes >= LONG_STEP)
            is_step = not ins.is_view and ins.family is None  # of extensions nothing is known
            self.alone.append(found.seconds + (WAIT if is_step else 0.0))
            self.shared.append(found.seconds / threads if is_large else found.seconds)
            if is_step and not is_large:
                small.append(at)
        if sum(self.shared) < SHORT:
            for at in small:
                seconds = self.shared[at]
                if seconds > BEGIN and is_shared(program.instructions[at]):
                    self.shared[at] = min(seconds, seconds / threads + BEGIN)
        self.before = sum(self.shared)
        self.below = list(self.alone)  # seconds of a step and all that it needs
        for at, needs in enumerate(self.needs):
            self.below[at] += sum(self.below[k] for k in needs)

    def dealt(self) -> tuple[list[list[int]], float]:
        """For each thread the last steps of its subtrees; none if it is not worth it. The predicted seconds
        with them, or what these must stay below."""
        last = self.maker.get(self.program.outputs[0])
        if last is None:
            return [], GAIN * self.before
        front, after, best = [(-self.below[last], last)], 0.0, GAIN * self.before
        found: list[list[int]] = []
        for _ in range(MOST_OPENED):
            if not front or after > best:
                break
            _, at = heapq.heappop(front)
            after += self.shared[at]
            for below in self.needs[at]:
                if self.below[below] > 0.0:
                    heapq.heappush(front, (-self.below[below], below))
            loads = [(0.0, k) for k in range(self.threads)]
            roots: list[list[int]] = [[] for _ in loads]
            for seconds, root in sorted(front):
                load, k = heapq.heappop(loads)
                heapq.heappush(loads, (load - seconds, k))
                roots[k].append(root)
            time = after + max(loads)[0] + START
            busy = [some for some in roots if some]
            if time < best and len(busy) > 1:
                best, found = time, busy
        return found, best

    def closure(self, roots: list[int]) -> set[int]:
        """The steps that these need, and they themselves."""
        seen, stack = set(roots), list(roots)
        while stack:
            for below in self.needs[stack.pop()]:
                if below not in seen:
                    seen.add(below)
                    stack.append(below)
        return seen


def _with(program: Program, tree: _Tree, dealt: list[list[int]]) -> Program:
    """The program with the subtrees as one instruction; as it is, where they share more than views."""
    instructions = program.instructions
    inside = [tree.closure(roots) for roots in dealt]
    owners = Counter(at for steps in inside for at in steps)
    gone = set(owners)
    rest = [at for at in range(len(instructions)) if at not in gone]
    read = {slot for at in rest for slot in instructions[at].inputs} | {*program.outputs}
    if any(
        instructions[at].family is not None or (n > 1 and not instructions[at].is_view)
        for at, n in owners.items()
    ):
        return program
    parts: list[Program] = []
    for steps in inside:
        body = tuple(instructions[at] for at in sorted(steps))
        made = [slot for ins in body for slot in ins.outputs]
        taken = {slot for ins in body for slot in ins.inputs}
        outputs = tuple(slot for slot in made if slot in read)
        if not outputs or any(program.slots[slot].bounds for slot in made):
            return program
        if not all(_is_whole(program, tree.maker, slot) for slot in outputs):
            return program
        inputs = tuple(slot for slot in program.inputs if slot in taken)
        parts.append(Program(program.slots, body, inputs, outputs, program.indices))
    made_inside = [slot for part in parts for slot in part.outputs]
    if len(set(made_inside)) != len(made_inside):
        return program
    whole = _as_one(program, tuple(parts))
    return replace(program, instructions=(whole, *(instructions[at] for at in rest)))


def _is_whole(program: Program, maker: dict[int, int], slot: int) -> bool:
    """Whether what a slot shows is no larger than it: else more would be held than is counted."""
    shown = slot
    while shown in maker and program.instructions[maker[shown]].may_view:
        shown = program.instructions[maker[shown]].inputs[0]
    return shown not in maker or program.slots[shown].nbytes <= program.slots[slot].nbytes

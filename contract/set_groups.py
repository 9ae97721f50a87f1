"""A set of equations within a memory limit: which of them run together, one group after another.

What is there while a group runs is held beside it: the other operands, and the results of groups before it.
What an equation shares with those of another group is computed by each of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .._base.errors import MemoryLimitError
from .._base.numbers import format_bytes
from ..backend.cpu import cpu
from ..program.ir import Program
from ..program.schedule import schedule
from .lower_set import lower_set
from .plan import Plan

if TYPE_CHECKING:
    from .plan_set import PlanSet

Group = tuple[int, ...]
Alone = Callable[[int, int], Plan]
"""The plan of an equation by itself within so many bytes."""


def grouped(together: PlanSet, alone: Alone) -> tuple[tuple[Plan, ...], tuple[Group, ...]]:
    """Plans and groups whose peaks stay below the set's limit; neighbours share where that fits.

    Raises:
        MemoryLimitError: an equation does not fit by itself, in slices.
    """
    plans, groups, done = list(together.plans), list[Group](), 0
    limit = together.memory_limit or 0
    for k in range(len(plans)):
        if groups and not plans[groups[-1][-1]].sliced:
            joint = (*groups[-1], k)
            if peak_of(together, plans, joint, done) <= limit:
                groups[-1] = joint
                continue
        if groups:
            done += results_bytes(plans, groups[-1])
        if peak_of(together, plans, (k,), done) > limit:
            plans[k] = _alone(together, k, done, limit, alone)
            if peak_of(together, plans, (k,), done) > limit:
                raise _too_large(together, k, done, limit, "it is a copy of an operand")
        groups.append((k,))
    return tuple(plans), tuple(groups)


def _alone(together: PlanSet, k: int, done: int, limit: int, alone: Alone) -> Plan:
    left = limit - _others_bytes(together, (k,)) - done
    if left <= 0:
        raise _too_large(together, k, done, limit, "nothing is left")
    try:
        return alone(k, left)
    except MemoryLimitError as error:
        raise _too_large(together, k, done, limit, str(error)) from None


def _too_large(together: PlanSet, k: int, done: int, limit: int, reason: str) -> MemoryLimitError:
    held = _others_bytes(together, (k,)) + done
    return MemoryLimitError(
        f"plan_set: the memory limit is {format_bytes(limit)}, of which other operands and the results "
        f"before equation {k} take {format_bytes(held)}; in what is left it does not fit, even by itself "
        f"({reason}). Raise memory_limit, or ask for fewer results at once"
    )


def peak_of(together: PlanSet, plans: Sequence[Plan], group: Group, done: int) -> int:
    """Bytes at the worst moment of a group, `done` of them results of groups before it."""
    held = _others_bytes(together, group) + done
    if plans[group[0]].sliced:
        return held + plans[group[0]].peak_bytes
    program, room = program_of(together, plans, group), room_of(together, group, done)
    return held + schedule(program, cpu(), limit=room).peak_bytes


def room_of(together: PlanSet, group: Group, done: int) -> int | None:
    """What the memory limit leaves for a group: of several ways to run its steps one within that is taken."""
    if together.memory_limit is None:
        return None
    return max(0, together.memory_limit - _others_bytes(together, group) - done)


def program_of(together: PlanSet, plans: Sequence[Plan], group: Group) -> Program:
    """The program of a group, its inputs the operands that `names_of` says; of an equation that is sliced
    that of one slice, its inputs in the order of the equation."""
    if plans[group[0]].sliced:
        return plans[group[0]].program
    names = names_of(together, group)
    number = {name: at for at, name in enumerate(names)}
    spec_of = dict(zip(together.operands, together.specs, strict=True))
    given = [[number[name] for name in together.terms[k]] for k in group]
    return lower_set([plans[k] for k in group], given, [spec_of[name] for name in names])


def names_of(together: PlanSet, group: Group) -> tuple[str, ...]:
    """The operands of a group, in the order of those of the set."""
    used = {name for k in group for name in together.terms[k]}
    return tuple(name for name in together.operands if name in used)


def results_bytes(plans: Sequence[Plan], group: Group) -> int:
    return sum(plans[k].assembly.spec.nbytes for k in group)


def _others_bytes(together: PlanSet, group: Group) -> int:
    used = set(names_of(together, group))
    pairs = zip(together.operands, together.specs, strict=True)
    return sum(spec.nbytes for name, spec in pairs if name not in used)

"""What dominates a plan, how far it is from the best tree, and what slicing or more memory would change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..._base.numbers import format_bytes, format_count, format_seconds
from ...backend.cpu import cpu
from ...program.branches import Branches
from ...program.parts import split, split_constants
from ...program.schedule import schedule
from ..cost import total_cost
from ..explanation import Explained, explained
from ..plan import Plan
from ..slicing import one_more, slice_to
from .names import Names, counted, percent, shortened
from .series import bounded

SHOWN = 5  # of what dominates, the largest
FIFTHS = 4  # of the whole: what makes so much of it dominates it
WIDTH = 56  # characters of an equation or an instruction
PREDICTED = 1000  # steps up to which instructions are predicted and one more label is sliced
MOST_TRIED = 6  # labels that are sliced, of a large tree fewer: a program is planned for each
RESLICED = 1000  # steps times sliced labels up to which they are chosen anew, with a program planned for each


def advice(plan: Plan) -> str:
    """`Plan.explain`."""
    names, steps = Names(plan.network), plan.steps
    moved = [step.moved_bytes for step in steps]

    def equation(index: int) -> str:
        return f"step {index}: {_equation(plan, names, index)}"

    lines = [
        *_ranking(
            f"cost: {counted(plan.cost, 'multiplication')}{_slices(plan)}",
            "step", [step.cost for step in steps], equation, format_count,
        ),
        _gap(plan),
        *_ranking(
            f"bytes: {format_bytes(sum(moved))} read and written", "step", moved, equation, format_bytes
        ),
        *_memory(plan, equation),
    ]  # fmt: skip
    if len(steps) > PREDICTED:
        lines.append(
            f"time and slicing: neither is looked into for more than {PREDICTED} steps; "
            f"compile(plan).explain() predicts every instruction"
        )
    else:
        lines += [*_time(plan), *_one_more(plan, names), *_twice(plan, names)]
    return "\n".join(lines)


def _ranking(
    head: str,
    noun: str,
    values: Sequence[Any],
    text: Callable[[int], str],
    written: Callable[[Any], str],
) -> Iterator[str]:
    """The few of which most of a sum consists, the largest first."""
    total = sum(values)
    if not 0 < total < math.inf:
        yield head
        return
    order = sorted(range(len(values)), key=lambda k: (-values[k], k))
    so_far: Any = 0
    count = 0
    while 5 * so_far < FIFTHS * total and count < len(order):
        so_far += values[order[count]]
        count += 1
    verb = "makes" if count == 1 else "make"
    yield f"{head}; {count} of {counted(len(values), noun)} {verb} {percent(so_far / total)}"
    for index in order[: min(count, SHOWN)]:
        share = percent(values[index] / total)
        yield f"  {shortened(text(index), WIDTH):<{WIDTH}}{written(values[index]):>12}{share:>8}"
    if count > SHOWN:
        yield f"  ... {count - SHOWN} more"


def _equation(plan: Plan, names: Names, index: int) -> str:
    step = plan.steps[index]
    operands = " × ".join(names.term(sorted(labels), 18) for labels in step.operand_labels[:4])
    more = f" × {len(step.operands) - 4} more" if len(step.operands) > 4 else ""
    return f"{operands}{more} → {names.term(step.result, 18)}"


def _slices(plan: Plan) -> str:
    return f" in {format_count(plan.n_slices)} slices" if plan.sliced else ""


def _gap(plan: Plan) -> str:
    """How far at most the cost is from that of the best tree."""
    proven = "lower bound: no tree of pairs makes fewer multiplications than this plan"
    if plan.proof == "optimal" and plan.objective == "flops" and not plan.sliced:
        return proven
    least = plan.lower_bound.cost
    made = total_cost(plan.network, plan.tree, plan.sliced).cost
    if made == least:
        return proven
    head = f"lower bound: at least {counted(least, 'multiplication')}"
    if made < least:
        return f"{head} by steps of two operands; this plan, by others, {counted(made, 'multiplication')}"
    if not least:
        return head
    # rounded up, because it is a bound
    times = -(-100 * made // least)
    factor = format_count(times // 100 + 1) if times > 100_000 else f"{times / 100:.2f}"
    return f"{head}; this plan makes at most {factor} times as many as the best tree"


def _memory(plan: Plan, equation: Callable[[int], str]) -> Iterator[str]:
    steps = plan.steps
    worst = max(range(len(steps)), key=lambda k: steps[k].alive_bytes)
    limit = "" if plan.memory_limit is None else f" of {format_bytes(plan.memory_limit)} allowed"
    yield (
        f"memory: predicted peak {format_bytes(plan.peak_bytes)}{limit}; tensors alone take at most "
        f"{format_bytes(steps[worst].alive_bytes)}, in"
    )
    made = format_bytes(steps[worst].nbytes)
    yield f"  {shortened(equation(worst), WIDTH):<{WIDTH}}{made:>12}  made"


def _time(plan: Plan) -> Iterator[str]:
    """Of the instructions that run, in their order, as `Expression.explain` has them."""
    found = list(_instructions(plan))
    seconds = [one.predicted.seconds * bounded(times) for one, times in found]
    if not 0 < sum(seconds) < math.inf:
        return

    def text(index: int) -> str:
        one = found[index][0]
        return " ".join(f"instruction {index}: {one.op} {one.engine} {one.result}".split())

    head = f"time: {_seconds(sum(seconds))} predicted"
    yield from _ranking(head, "instruction", seconds, text, _seconds)


def _instructions(plan: Plan) -> Iterator[tuple[Explained, int]]:
    """What runs in a call, and how often."""
    backend, program = cpu(), plan.program
    if plan.constants:
        program = split_constants(program, plan.constants)[1]
    parts = [(program, 1)]
    if plan.sliced:
        once, each = split(program)
        parts = [(once, 1), (each, plan.n_slices)]
    for part, times in parts:
        running = part
        if not plan.sliced:
            running = schedule(part, backend, limit=plan.room).program
        if plan.sliced or any(isinstance(ins, Branches) for ins in running.instructions):
            running = schedule(part, backend, fork=False).program  # one after another
        for ins in running.instructions:
            yield explained(running, ins, backend), times


def _one_more(plan: Plan, names: Names) -> Iterator[str]:
    found = one_more(plan, min(MOST_TRIED, max(1, PREDICTED // len(plan.steps))))
    if not found:
        yield "one more slice: no label lowers the peak, of those that promise most"
        return
    (label,) = set(found[0].sliced).difference(plan.sliced)
    size = format_count(plan.network.extents[label])
    yield f"one more slice: {names[label]}, of size {size}: {_compared(found[0], plan)}"


def _twice(plan: Plan, names: Names) -> Iterator[str]:
    if not plan.sliced:
        yield "twice the memory: no label is sliced, there is nothing to gain on this tree"
        return
    if len(plan.steps) * len(plan.sliced) > RESLICED:
        yield f"twice the memory: not looked into for {len(plan.sliced)} sliced labels of so many steps"
        return
    limit = plan.memory_limit
    room = 2 * (plan.peak_bytes if limit is None else limit)
    whole = replace(plan, sliced=(), memory_limit=None if limit is None else room)
    found = slice_to(whole, room)
    if found.peak_bytes > room or found.cost >= plan.cost:
        yield f"twice the memory: {format_bytes(room)} would not make this tree cheaper"
        return
    labels = names.listed(found.sliced) if found.sliced else "none"
    yield f"twice the memory: {format_bytes(room)}: {_compared(found, plan)}; sliced: {labels}"


def _compared(other: Plan, plan: Plan) -> str:
    times = ""
    if plan.cost:
        whole = other.cost // plan.cost
        factor = format_count(whole) if whole > 1000 else f"{other.cost / plan.cost:.3g}"
        times = f" ({factor} times)"
    return (
        f"{counted(other.n_slices, 'slice')}, cost {format_count(other.cost)}{times}, peak "
        f"{format_bytes(other.peak_bytes)}"
    )


def _seconds(value: float) -> str:
    return format_seconds(value) if value < 1e6 else f"{value:.3g} s"

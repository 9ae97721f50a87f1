"""An expression explained: what each instruction does, what it costs, and which one takes the time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .._base.numbers import format_bytes, format_count, format_seconds
from ..backend.cost_model import MODELS
from ..backend.fusion import ProductFusionPlan
from ..backend.prediction import Prediction, predict, predict_lanes
from ..backend.protocol import Backend
from ..backend.sequence import predict_sequence
from ..program.fused import Fused
from ..program.ir import Instruction, Program

WIDTH = 17  # of the name of an op
HEAD = f"{'':>5}  {'op':<{WIDTH}}{'engine':<14}{'result':<34}{'bytes':>12}{'copied':>12}{'predicted':>12}"
CALL = 4e-6  # seconds below which a kernel mostly starts and ends
MEASURED = f"{'measured':>12}"


class Explained(NamedTuple):
    """One instruction."""

    op: str
    engine: str
    result: str
    nbytes: int | None  # None of a view
    predicted: Prediction


def explained(program: Program, ins: Instruction, backend: Backend) -> Explained:
    """An instruction as `backend` will run it."""
    inputs, outputs = program.placed(ins.inputs), program.placed(ins.outputs)
    attrs = ins.at((0,) * len(program.indices))
    slot = program.slots[ins.outputs[0]]
    if isinstance(ins, Fused):
        op = ins.op if len(ins.op) < WIDTH else f"fused[{ins.op.count(',') + 1} ops]"
        if isinstance(ins.plan, ProductFusionPlan):
            is_sequence = not ins.plan.lanes
            predicted = predict_sequence(ins.plan) if is_sequence else predict_lanes(ins.plan)
            engine = "sequence" if is_sequence else "lanes"
            return Explained(op, engine, str(slot), slot.nbytes, predicted)
        return Explained(op, "fused", str(slot), slot.nbytes, predict(op, {}, inputs, outputs))
    engine = "" if ins.family else backend.engine(ins.op, attrs, inputs, outputs)
    return Explained(
        ins.op,
        engine,
        str(slot),
        None if ins.is_view else slot.nbytes,
        Prediction() if ins.family else predict(ins.op, attrs, inputs, outputs, engine),
    )


def explanation(
    steps: Sequence[Explained], measured: Sequence[float], notes: Sequence[str], peak_bytes: int
) -> str:
    """The table, the totals and the bottleneck; `measured` seconds may be none."""
    lines = [HEAD + (MEASURED if measured else "")] if steps else []
    for index, step in enumerate(steps):
        size = "view" if step.nbytes is None else format_bytes(step.nbytes)
        copied = format_bytes(step.predicted.copied_bytes) if step.predicted.copied_bytes else ""
        seconds = format_seconds(step.predicted.seconds) if step.nbytes is not None else ""
        taken = f"{format_seconds(measured[index]):>12}" if measured else ""
        lines.append(
            f"{index:>5}  {step.op:<{WIDTH}}{step.engine:<14}{step.result:<34}{size:>12}{copied:>12}"
            f"{seconds:>12}{taken}".rstrip()
        )
    predicted = [step.predicted.seconds for step in steps]
    total = f"peak {format_bytes(peak_bytes)}, predicted {format_seconds(sum(predicted))}"
    if measured:
        total += f", measured {format_seconds(sum(measured))}"
    lines += [*notes, total]
    spent: Sequence[float] = measured or predicted
    if 0 < sum(spent) < math.inf:
        lines.append(_bottleneck(steps, spent, "measured" if measured else "predicted"))
    return "\n".join(lines)


def _bottleneck(steps: Sequence[Explained], seconds: Sequence[float], kind: str) -> str:
    """What takes most of the time, and what that time goes into."""
    worst = max(range(len(seconds)), key=seconds.__getitem__)
    step, share = steps[worst], seconds[worst] / sum(seconds)
    what, model = step.predicted, MODELS.current
    streaming = what.moved_bytes / model.stream
    copying = what.copied_bytes / model.moves
    computing = max(0.0, what.seconds - copying)
    if what.seconds < CALL:
        reason = "the call itself, there is little to do"
    elif copying > max(computing, streaming):
        reason = f"copies of {format_bytes(what.copied_bytes)} into another order"
    elif what.multiplications and computing > 1.5 * streaming:
        rate = what.multiplications / seconds[worst]
        reason = (
            f"arithmetic, {format_count(what.multiplications)} multiplications "
            f"({rate / model.products:.0%} of the rate of large matrices)"
        )
    elif what.moved_bytes:
        rate = what.moved_bytes / seconds[worst]
        reason = f"memory, {format_bytes(what.moved_bytes)} at {format_bytes(int(rate))} a second"
    else:
        reason = "calls"
    return f"bottleneck: instruction {worst} ({step.op}), {share:.0%} of the {kind} time: {reason}"

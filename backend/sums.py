"""What sums of products take: one operand has all labels; it is multiplied by the other one, and added up, as
it lies in memory."""

from __future__ import annotations

from .blocked import SHORT
from .contraction import Contraction, Orders, without_ones
from .cost_model import CostModel
from .strips import run_of

SUMS = 5e-5  # seconds before sums of products begin
PHASED = 128  # elements of a run of kept and contracted labels from which sums of both are vectors


def sums_seconds(step: Contraction, orders: Orders, side: int, model: CostModel) -> float | None:
    """Seconds where the operand of that side, 0 or 1, has all labels; None where neither
    enough contracted elements nor enough kept ones lie one after another for vectors."""
    batch, m, n, k = step.amounts
    whole, vector = orders[side], orders[1 - side]
    if not whole:
        return None
    kept = step.batch + (step.rows if side == 0 else step.columns)
    run = max(run_of(step, step.contracted, whole, vector), run_of(step, kept, whole, orders[2]))
    if max(run, step.sizes[whole[-1]]) < SHORT and _phases(step, orders) < PHASED:
        return None
    streamed = (sum(step.nbytes) + step.nbytes[2]) / model.stream
    computed = batch * m * n * k / (model.products * step.rate * model.nest)
    return SUMS + max(streamed, computed)


def _phases(step: Contraction, orders: Orders) -> int:
    """Elements that sums of two operands which lie alike read along both some kept labels and contracted ones
    in front of these, as one run."""
    lhs, rhs, out = (without_ones(step, order) for order in orders)
    if lhs is None or lhs != rhs or out is None:
        return 0
    kept = run_of(step, step.batch, lhs, out)
    others = list(lhs)
    length = 1
    while length < kept:
        length *= step.sizes[others.pop()]
    return kept * run_of(step, step.contracted, tuple(others))

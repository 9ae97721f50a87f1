"""What sums of products take: one operand has all labels; it is multiplied by the other one, and added up, as
it lies in memory."""

from __future__ import annotations

from .blocked import SHORT
from .contraction import Contraction, Labels, Order, Orders, without_ones
from .cost_model import CostModel
from .strips import run_of

SUMS = 5e-5  # seconds before sums of products begin
FEW = 8  # kept elements that are enough for vectors,
BESIDE = 32  # and where others lie between them
ALONE = 64  # contracted elements that are enough where the vector's lie apart
PHASED = 128  # elements of a run of kept and contracted labels from which sums of both are vectors


def sums_seconds(step: Contraction, orders: Orders, side: int, model: CostModel) -> float | None:
    """Seconds where the operand of that side, 0 or 1, has all labels; None where there are no vectors."""
    batch, m, n, k = step.amounts
    whole, vector = orders[side], orders[1 - side]
    if not whole:
        return None
    if not _has_vectors(step, whole, vector, orders[2]) and _phases(step, orders) < PHASED:
        return None
    streamed = (sum(step.nbytes) + step.nbytes[2]) / model.stream
    # rows are added up no faster for being of narrower numbers
    rate = min(1, step.rate) if whole[-1] in step.contracted else step.rate
    computed = batch * m * n * k / (model.products * rate * model.nest)
    return SUMS + max(streamed, computed)


def _has_vectors(step: Contraction, whole: Labels, vector: Order, out: Order) -> bool:
    """Whether enough kept elements lie one after another, or enough contracted ones; or so many kept ones in
    front of a few contracted ones, whose sums are then made side by side."""
    kept = step.batch + step.rows + step.columns
    last = step.sizes[whole[-1]]
    if whole[-1] not in step.contracted:
        least = (
            FEW if step.rows or step.columns else SHORT
        )  # of one operand, or of two with all labels
        return max(run_of(step, kept, whole, out), last) >= least
    run = run_of(step, step.contracted, whole, vector)
    if run >= SHORT * max(1, 8 // step.itemsize) or last >= ALONE:
        return True
    front = list(whole)
    while front and front[-1] in step.contracted:
        front.pop()
    return last < SHORT and run_of(step, kept, tuple(front), out) >= BESIDE


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

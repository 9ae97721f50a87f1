"""What sums of products take: one operand has all labels; it is multiplied by the other one, and added up, as
it lies in memory."""

from __future__ import annotations

from .contraction import Contraction, Labels, Order, Orders, without_ones
from .cost_model import CostModel
from .strips import run_of

SUMS = 5e-5  # seconds before sums of products begin
# elements of the axis that lies last, from which vectors run along it:
FEW = 8  # kept ones, which the vector has not,
SEVERAL = 16  # kept ones that it has, and contracted ones that lie last in both operands,
APART = 64  # and contracted ones that lie apart in the vector
IN_FRONT = 32  # elements of a kept axis in front of fewer contracted ones, whose sums are made side by side
PHASED = 128  # elements of a run of kept and contracted labels from which sums of both are vectors


def sums_seconds(step: Contraction, orders: Orders, side: int, model: CostModel) -> float | None:
    """Seconds where the operand of that side, 0 or 1, has all labels; None where there are no vectors."""
    batch, m, n, k = step.amounts
    lhs, rhs, out = (without_ones(step, order) for order in orders)
    whole, vector = (lhs, rhs) if side == 0 else (rhs, lhs)
    if not whole:
        return None
    if not _has_vectors(step, whole, vector, out) and _phases(step, orders) < PHASED:
        return None
    streamed = (sum(step.nbytes) + step.nbytes[2]) / model.stream
    # rows of numbers that are accumulated in double precision are added up as fast as rows of these
    is_widened = whole[-1] in step.contracted and _is_single(step)
    rate = step.rate / 2 if is_widened else step.rate
    computed = batch * m * n * k / (model.products * rate * model.nest)
    return SUMS + max(streamed, computed)


def _has_vectors(step: Contraction, whole: Labels, vector: Order, out: Order) -> bool:
    """Whether the axis that lies last has elements enough, or that in front of a few contracted ones. The
    kernel takes a contracted axis of fewer than `SEVERAL` for no run (`SHORT_OF_SEVERAL`, cpu/reduction)."""
    last = whole[-1]
    length = _axis(step, whole, vector, out)
    if last not in step.contracted:
        return length >= (SEVERAL if last in step.batch else FEW)
    if length >= SEVERAL:
        is_run = vector is None or vector[-1] == last
        return length >= (SEVERAL * (1 + _is_single(step)) if is_run else APART)
    front = whole
    while front and front[-1] in step.contracted:
        front = front[:-1]
    return bool(front) and _axis(step, front, vector, out) >= IN_FRONT


def _axis(step: Contraction, whole: Labels, vector: Order, out: Order) -> int:
    """Elements of the last label, and of those in front of it that are one axis with it to the kernel: of the
    same kind, and one after another wherever they are (`run_of` asks for the end of every order)."""
    kind = next(x for x in (step.batch, step.contracted, step.rows, step.columns) if whole[-1] in x)
    length = step.sizes[whole[-1]]
    for before, label in zip(whole[-2::-1], whole[::-1], strict=False):
        others = [x for x in (vector, out) if x is not None and label in x]
        if before not in kind or any(x.index(before) + 1 != x.index(label) for x in others):
            break
        length *= step.sizes[before]
    return length


def _is_single(step: Contraction) -> bool:
    """float32 and complex64."""
    return step.itemsize == (4 if step.rate >= 1 else 8)


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

"""Which way a product of two arrays goes: by BLAS, by a loop nest, or by one of our own kernels.

`plan_products` asks what each of them takes, and `plan_decided` once the orders of all arrays are decided.
"""

from __future__ import annotations

import math

from .._base.options import get_options
from .blocked import panel_seconds
from .contraction import DEPTH, Contraction, Order, Orders, without_ones
from .cost_model import FAR, MODELS, WIDE, CostModel
from .dots import rows_seconds, takes_rows
from .lines import are_packed, are_strips, lines_seconds
from .matrices import TINY, Products, plan_matrices
from .strips import FASTER, Strips, is_alone, plan_strips, run_of
from .sums import sums_seconds

SOON = 6e-5  # seconds of BLAS from which threads of ours are worth their start,
SOON_ALONE = 2e-5  # and a kernel that one thread runs
SOON_COPIED = 2e-4  # and of BLAS and its copies, from which these may read what lies badly for them
COPIED = 0.05  # of that time, at least, these copies take
SIDE = 8  # rows, columns and contracted elements, at least, of such a product
# multiplications below which it matters what it takes to begin a loop nest, and inner products of rows of
# more than SHORT elements take BLAS no longer
FEW, NEST_BEGUN, SHORT = 1 << 18, 5e-6, 32
CALL = 3e-8  # seconds of a call of BLAS for few numbers, besides what the model says
OF_STRIPS = 0.75  # of what a loop nest takes that adds to its result again and again
CLEARED = 1 << 20  # bytes of a result that leaves the cache between being cleared and added to
# times as long it should take before strips are, where measured ratios are a quarter less
WORTH = 1.4
# the same of large results, which BLAS takes its time to write, where it packs panels, where it is slower,
# and where it would copy arrays whose order is decided
WORTH_CLOSE = 1.2
IN_PLACE = 1 << 20
"""Multiplications of a product below which BLAS reads operands where they lie; others it packs into
panels."""


def plan_products(step: Contraction, orders: Orders, model: CostModel | None = None) -> Products:
    """The cheapest way to contract operands in these orders into a result in that order."""
    model = model or MODELS.current
    batch, m, n, k = step.amounts
    if k == 1 and 0 not in step.amounts:
        return _loop_nest(step, orders, model, False)
    if 0 in step.amounts:
        return plan_matrices(step, orders, model)
    if m == n == 1 and (in_rows := _in_rows(step, orders, model)) is not None:
        return in_rows
    matrices = plan_plain(step, orders, model)
    if batch > 1 and batch * m * n * k >= get_options().small:
        is_tiny, by_strips = m * n * k < TINY, are_strips(step, orders)
        if is_tiny or (by_strips and m * n > 1 and k <= DEPTH):
            nest = _loop_nest(step, orders, model, by_strips)
            if batch * m * n * k < FEW and get_options().small > 0:
                nest = nest._replace(seconds=nest.seconds + NEST_BEGUN)
            if is_tiny or nest.seconds < matrices.seconds:
                return min(nest, matrices)  # by seconds
    if matrices.by == "lines":
        return matrices
    if min(m, n) == 1 and (in_sums := _in_sums(step, orders, matrices, model)) is not None:
        return in_sums
    in_panels = _panelling_seconds(step, matrices, model)
    by_blas = matrices.seconds + clearing_seconds(step, model) + in_panels
    soon = SOON_ALONE if is_alone(batch, m, n, k) else SOON
    if by_blas < (soon / model.strips if model.strips >= FASTER else soon):
        return matrices
    in_strips = plan_strips(step, orders, model)
    is_close = step.nbytes[2] >= FAR or in_panels > 0 or model.strips >= FASTER
    worth = WORTH_CLOSE if is_close else WORTH
    if in_strips is None or by_blas < in_strips.seconds * worth:
        return matrices
    return _in_strips(in_strips)


def plan_plain(step: Contraction, orders: Orders, model: CostModel | None = None) -> Products:
    """The cheapest way without kernels of ours. Where batches lie last in both operands, what calls of BLAS
    for each take by themselves counts: `plan_matrices` leaves it out, since its ways take it alike."""
    found, seconds = plan_matrices(step, orders, model), lines_seconds(step, orders)
    if found.calls > 1 and are_packed(step, orders):
        found = found._replace(seconds=found.seconds + found.calls * CALL)
    if seconds is None or found.seconds <= seconds:
        return found
    return Products(seconds, 0, (False, False, False), by="lines")


def plan_decided(step: Contraction, orders: Orders, model: CostModel | None = None) -> Products:
    """The same where the orders are decided: a product for which BLAS would copy arrays may be computed in
    strips though operands lie badly for these.

    Orders are not searched by that: what strips then take is known less well, and BLAS has no threads of its
    own for other products of a program that has strips, so that orders which were chosen for them lost. What
    BLAS takes to clear its result is not counted against it.
    """
    model = model or MODELS.current
    found = plan_products(step, orders, model)
    batch, m, n, k = step.amounts
    if batch > 1 or min(m, n, k) < SIDE or found.by != "products":
        return found
    is_copied = found.copied_bytes / model.moves > COPIED * found.seconds
    if not is_copied or found.seconds < SOON_COPIED / model.strips:
        return found
    in_strips = plan_strips(step, orders, model, widely=True)
    if in_strips is None or in_strips.copied_bytes > found.copied_bytes:
        return found
    by_others = min(found.seconds, panel_seconds(step, orders, model) or math.inf)
    return found if by_others < in_strips.seconds * WORTH_CLOSE else _in_strips(in_strips)


def _in_strips(found: Strips) -> Products:
    seconds, copied_bytes, (lhs, rhs) = found
    return Products(seconds, copied_bytes, (lhs, rhs, False), by="strips")


def _in_sums(
    step: Contraction, orders: Orders, found: Products, model: CostModel
) -> Products | None:
    """The same by sums of products, where BLAS would need a copy of the operand that has all labels."""
    batch, m, n, k = step.amounts
    side = 0 if n == 1 else 1
    if not found.packed[side] or batch * m * n * k < max(1, get_options().small):
        return None
    seconds = sums_seconds(step, orders, side, model)
    if seconds is None or found.seconds < seconds * WORTH:
        return None
    return Products(seconds, 0, (False, False, False), by="sums")


def _in_rows(step: Contraction, orders: Orders, model: CostModel) -> Products | None:
    """The same as inner products of rows, where there are rows and work enough."""
    batch, _, _, k = step.amounts
    work, small = batch * k, get_options().small
    if work < max(1, small) or not takes_rows(batch, k, step.itemsize):
        return None
    if small > 0 and work < FEW and k > SHORT:
        return None
    lhs, rhs = (without_ones(step, order) for order in orders[:2])
    if run_of(step, step.contracted, lhs, rhs) < k:
        return None
    seconds = rows_seconds(batch, k, step.itemsize, model.threads, model.stream)
    return Products(seconds, 0, (False, False, False), by="dots")


def clearing_seconds(step: Contraction, model: CostModel) -> float:
    """What `plan_matrices` leaves out, since all its ways take as long: BLAS clears a result before it adds
    to it. It counts beside strips alone: what chains across lanes take is predicted too low by as much."""
    out = step.nbytes[2]
    return 2 * out / model.stream if step.amounts[3] > 1 and out >= CLEARED else 0.0


def _panelling_seconds(step: Contraction, found: Products, model: CostModel) -> float:
    """What `plan_matrices` leaves out as well, and what counts beside strips alone: before each of many
    products of a hundred rows or a few, BLAS packs both operands into panels, which with AVX-512 takes three
    quarters as long as the product itself (128 by 128 by 128: 29 GFLOP/s on a thread that reaches 51 with
    large matrices, and 47 with the largest that are read where they lie)."""
    m, n, k = map(step.size, (found.rows, found.columns, found.contracted))
    if found.calls < WIDE or m * n * k < IN_PLACE:
        return 0.0
    return found.calls * (m + n) * k * step.itemsize * model.panels / model.threads


def _loop_nest(step: Contraction, orders: Orders, model: CostModel, in_strips: bool) -> Products:
    """A loop nest over the output reads any order; a short innermost run, or one that an operand does not
    read in order, is not vectorised and uses little of each cache line. `in_strips` of lines, sums stay in
    registers."""
    streamed = (sum(step.nbytes) + step.nbytes[2]) / model.stream
    computed = math.prod(step.amounts) / (model.products * step.rate * model.nest)
    if in_strips:
        computed *= OF_STRIPS
    run = innermost_run(step, *orders)
    seconds = max(streamed, computed) * (1 + model.row / run)
    return Products(seconds, 0, (False, False, False), calls=0)


def innermost_run(step: Contraction, lhs: Order, rhs: Order, out: Order) -> int:
    """How many elements at the end of `out` that every operand reads in order or does not depend on."""
    if out is None:
        return 1 << 20
    after = [None if order is None else order[::-1] for order in (lhs, rhs)]
    seen = [0, 0]
    length = 1
    for x in reversed(out):
        for side, (order, own) in enumerate(zip(after, (step.rows, step.columns), strict=True)):
            if order is None or not (x in own or x in step.batch):
                continue
            if seen[side] >= len(order) or order[seen[side]] != x:
                return length
            seen[side] += 1
        length *= step.sizes[x]
    return length

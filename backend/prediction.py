"""What an instruction will cost, by the cost model: for `explain`, and to name the bottleneck."""

from __future__ import annotations

import math
from typing import NamedTuple

from .._base.options import get_options
from .blocked import panel_seconds
from .catalogue import CATALOGUE, Attrs, known_dims
from .contraction import Contraction, Orders, contraction_of, orders_of
from .cost_model import MODELS, RATES
from .fusion import Labels, ProductFusionPlan
from .lines import are_packed
from .matrices import Products
from .products import CALL, clearing_seconds, plan_decided, plan_plain
from .spec import ArraySpec, compute_dtype

MOST = 1 << 63  # bytes that a machine can address
START = 1e-6  # seconds of a kernel that has nothing to do
INNER_CALL = 1e-8  # of one that makes a number
# more, of real numbers, where the right matrix is transposed: BLAS has no short way for that
TURNED = 6e-8
CALL_COMPLEX = 1.5e-7  # of one for complex numbers, besides the COMPLEX_CALL of matrices.py
MANY_CALLS = 64  # from which on they count where a single product is weighed
COMPLEX = 1 / 3  # of NumPy's time for complex products without sums, in kernels
# seconds of a kernel that tables tell what to do: before it begins, and until several threads are at it
TABLES, TABLES_SHARED = 1.2e-5, 5e-5
# seconds of lanes, of all threads together, up to which one is done before others are there. It took half of
# that (two threads of Zen 4, up to 6000 lanes of 10 to 40 numbers); both took 1.1 to 2.7 times as long
SOLO = 1.2e-4
BROKEN = 3  # neighbours in memory at which the rate of lanes is half of that of long runs


class Prediction(NamedTuple):
    """Seconds, and what they are made of."""

    seconds: float = 0.0
    copied_bytes: int = 0  # of operands or the result, into another order
    moved_bytes: int = 0  # of operands and results, each once
    multiplications: int = 0


def predict(
    op: str,
    attrs: Attrs,
    inputs: tuple[ArraySpec, ...],
    outputs: tuple[ArraySpec, ...],
    engine: str = "",
) -> Prediction:
    """For a kernel of the CPU on these arrays, by that engine; views are free."""
    row = CATALOGUE.get(op)
    if row is not None and row.is_view:
        return Prediction()
    model = MODELS.current
    if any(x.nbytes > MOST for x in (*inputs, *outputs)):
        return Prediction(math.inf)  # nobody will run it
    moved = sum(x.nbytes for x in (*inputs, *outputs))
    streamed = START + (moved + sum(x.nbytes for x in outputs)) / model.stream
    if op == "sum_product":
        sizes = {
            label: n
            for term, x in zip(attrs["terms"], inputs, strict=True)
            for label, n in zip(term, x.shape, strict=True)
        }
        work = math.prod(sizes.values()) * (len(inputs) - 1)
        if work.bit_length() > 1000:  # near the largest float
            return Prediction(math.inf, 0, moved, work)
        return Prediction(
            max(streamed, START + work / (model.products * model.nest)), 0, moved, work
        )
    if op not in ("dot_general", "dot_general_add", "matmul"):
        return Prediction(streamed, 0, moved, 0)
    lhs, rhs = inputs[:2]
    ndim = len(lhs.shape)
    axes = attrs or {
        "contracting": ((ndim - 1,), (ndim - 2,)),
        "batch": ((*range(ndim - 2),), (*range(ndim - 2),)),
    }
    step, left, right = contraction_of(known_dims(axes, lhs.shape, rhs.shape), lhs, rhs)
    work = math.prod(step.amounts)
    if compute_dtype(lhs.dtype).char not in RATES:  # no BLAS: a loop nest
        return Prediction(
            max(streamed, START + work / (model.products * model.nest)), 0, moved, work
        )
    orders = orders_of(step, left, right, (lhs, rhs, outputs[0]))
    in_blocks = panel_seconds(step, orders) if engine == "blocked" else None
    if in_blocks is not None:
        return Prediction(START + in_blocks, 0, moved, work)
    found = plan_decided(step, orders)
    return Prediction(START + found.seconds, found.copied_bytes, moved, work)


class ProductSeconds(NamedTuple):
    """Of one `dot_general`: by BLAS and NumPy alone, with kernels for products one by one, and what a kernel
    for many products takes at least."""

    plain: float = 0.0
    compiled: float = 0.0
    grouped: float = 0.0


def product_seconds(
    attrs: Attrs, inputs: tuple[ArraySpec, ...], outputs: tuple[ArraySpec, ...]
) -> ProductSeconds:
    """Zeros where BLAS has no part in the choice."""
    lhs, rhs = inputs
    if lhs.dtype != rhs.dtype or lhs.dtype.char not in RATES:
        return ProductSeconds()
    step, left, right = contraction_of(known_dims(attrs, lhs.shape, rhs.shape), lhs, rhs)
    work = math.prod(step.amounts)
    if work == 0 or work > MOST:
        return ProductSeconds()
    orders, model = orders_of(step, left, right, (lhs, rhs, outputs[0])), MODELS.current
    found = plan_decided(step, orders)
    if step.amounts[3] == 1:  # complex numbers have no kernel unless it is asked for
        is_asked = lhs.dtype.kind == "c" and outputs[0].size >= max(1, get_options().small)
        compiled = found.seconds * (COMPLEX if is_asked else 1)
        return ProductSeconds(found.seconds, compiled, compiled)
    matrices, in_blocks = plan_plain(step, orders), panel_seconds(step, orders)
    # not of complex numbers, nor of single sums: for these the model says too much without it
    batch, m, n, _ = step.amounts
    is_called_often = batch >= MANY_CALLS and m * n > 1 and step.rate >= 1
    calling = calling_seconds(step, matrices, orders) if is_called_often else 0.0
    clearing = clearing_seconds(step, model)
    is_nest = found.by != "products" or found.calls == 0
    compiled = found.seconds if is_nest else found.seconds + clearing + calling
    return ProductSeconds(
        matrices.seconds + clearing + calling,
        compiled if in_blocks is None else min(compiled, in_blocks),
        work / (model.products * step.rate * model.across),
    )


def calling_seconds(step: Contraction, found: Products, orders: Orders) -> float:
    """What `plan_matrices` leaves out of products for each of many batches: BLAS takes as long to begin each
    of a few numbers as for what it computes."""
    if found.calls <= 1 or are_packed(step, orders):  # which `plan_plain` counted
        return 0.0
    rhs = orders[1]
    if step.rate < 1:
        return found.calls * CALL_COMPLEX
    _, m, n, k = step.amounts
    if m == n == 1:
        return found.calls * INNER_CALL
    lies_turned = rhs is not None and rhs[-1] in step.contracted and not found.packed[1]
    return found.calls * (CALL + TURNED if lies_turned and min(m, n, k) > 1 else CALL)


def predict_lanes(plan: ProductFusionPlan) -> Prediction:
    """For a chain of products as one kernel: lanes go from memory into vectors and back, and the steps, which
    overlap with neither, are done between."""
    model, dtype = MODELS.current, plan.result.dtype
    sizes, elements = plan.sizes, plan.elements()
    lanes = math.prod(sizes[x] for x in plan.lanes)
    parts = 2 if dtype.kind == "c" else 1
    moving = [k for k in range(len(plan.inputs)) if not plan.is_constant(k)]
    reals = lanes * sum(
        n * parts * (1 + BROKEN / run) + model.short
        for n, run in (
            *((elements[k], _run(plan, plan.terms[k], plan.inputs[k])) for k in moving),
            (elements[-1], _run(plan, plan.output, plan.result)),
        )
    )
    moved = sum(x.nbytes for x in (*plan.inputs, plan.result))
    work = lanes * sum(plan.multiplications())
    shared = (
        reals * (dtype.itemsize // parts) / model.turns
        + (moved + plan.result.nbytes)
        / (2 * model.stream)  # half of it: the rest goes on meanwhile
        + work / (model.products * RATES[dtype.char] * model.across)
    )
    is_short = shared * model.threads <= SOLO
    return Prediction((TABLES if is_short else TABLES_SHARED) + shared, 0, moved, work)


def lanes_suit_one(plan: ProductFusionPlan) -> bool:
    """Whether one thread should do such a chain: others would come when it is done."""
    return predict_lanes(plan).seconds <= TABLES + SOLO / MODELS.current.threads


def _run(plan: ProductFusionPlan, labels: Labels, spec: ArraySpec) -> int:
    """Neighbours in memory that are elements of one lane, or neighbouring lanes of one element."""
    order = labels if spec.layout is None else tuple(labels[axis] for axis in spec.layout)
    sizes, lanes = plan.sizes, plan.lanes
    inner = across = 1
    for label in reversed(order):
        if label in lanes:
            break
        inner *= sizes[label]
    for label, lane in zip(reversed(order), reversed(lanes), strict=False):
        if label != lane:
            break
        across *= sizes[label]
    return max(inner, across)

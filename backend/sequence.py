"""When products are worth one call of a kernel that computes them in turn, and what it then does.

A `ProductFusionPlan` without lanes is a tree of products of some size. One by one, steps of some ten
microseconds are one thread's: to wake another takes as long. In turn, all threads share every step, in
strips, and begin the next within a microsecond (backend/cpu/sequence.py).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from .._base.options import get_options
from .catalogue import Attrs, DotDims
from .contraction import contraction_of, orders_of
from .cost_model import MODELS
from .fusion import Labels, ProductFusionPlan
from .prediction import START, Prediction
from .products import plan_decided
from .rules import NO_CONJ, known_dims
from .spec import ArraySpec, Axes
from .strips import plan_strips

DTYPES = frozenset("fdFD")
LONGEST = 1 << 22  # multiplications of a step; larger products keep threads busy by themselves
FAST = (
    0.8  # of BLAS's rate, in strips: where these are slower, without AVX-512, nothing was measured
)
MOST_MATRICES = 64  # of a step, each of which is a tile or more, that threads claim by itself
SLOWER = 1.6  # times as long as by itself may one step take
SOONER = 1.1  # times as long must all of them take by themselves
ENOUGH = 1.5e-4  # seconds of all, by themselves: several times what it takes to wake a thread
MANY = 8  # times `options.small`: multiplications of all that are worth a compiler
BEGIN = 4e-5  # seconds until the threads are there


class Step(NamedTuple):
    """A product of two values; `out` is its result, with the axes of `dims`, as it lies in memory."""

    operands: tuple[int, int]
    dims: DotDims
    lhs: ArraySpec
    rhs: ArraySpec
    out: ArraySpec


def steps_of(plan: ProductFusionPlan) -> tuple[tuple[Step, ...], Axes]:
    """What a plan without lanes computes, and the axes of the last result in the order of the plan's."""
    sizes, dtype = plan.sizes, plan.result.dtype
    labels: list[Labels] = list(plan.terms)
    specs = list(plan.inputs)
    steps = []
    for step in plan.steps:
        i, j = step.operands
        left, right, kept = labels[i], labels[j], {*step.labels}
        common = [x for x in left if x in right]
        batch, contracted = (
            [x for x in common if (x in kept) == is_kept] for is_kept in (True, False)
        )
        attrs = {
            "batch": tuple(tuple(map(one.index, batch)) for one in (left, right)),
            "contracting": tuple(tuple(map(one.index, contracted)) for one in (left, right)),
        }
        dims = known_dims(attrs, specs[i].shape, specs[j].shape)
        own = (*batch, *(x for x in (*left, *right) if x not in common))
        layout = tuple(map(own.index, step.labels))
        out = ArraySpec(dtype, tuple(sizes[x] for x in own), layout)
        steps.append(Step(step.operands, dims, specs[i], specs[j], out))
        labels.append(own)
        specs.append(out)
    return tuple(steps), tuple(map(labels[-1].index, plan.output))


def takes(attrs: Attrs, lhs: ArraySpec, rhs: ArraySpec, out: ArraySpec) -> bool:
    """Whether a `dot_general` may be a step: in strips, as its operands lie, and not much longer than by
    itself; if the option `engine` asks for it, however long."""
    dtype = lhs.dtype
    if not dtype == rhs.dtype == out.dtype or dtype.char not in DTYPES or not dtype.isnative:
        return False
    if attrs.get("conj", NO_CONJ) != NO_CONJ or 0 in (lhs.size, rhs.size):
        return False
    dims = known_dims(attrs, lhs.shape, rhs.shape)
    is_asked = get_options().engine is not None
    if not is_asked and MODELS.current.strips < FAST:
        return False
    work = dims.batch * dims.m * dims.n * dims.k
    if not is_asked and (work >= LONGEST or dims.batch > MOST_MATRICES):
        return False
    seconds, alone = _seconds(dims, lhs, rhs, out)
    return seconds < math.inf if is_asked else seconds <= SLOWER * alone


def pays(plan: ProductFusionPlan) -> bool:
    """Whether this should take less time than the steps one by one, with a margin. It depends on the number
    of threads that are now allowed."""
    if sum(plan.multiplications()) < MANY * get_options().small:
        return False
    each = [_seconds(*step[1:]) for step in steps_of(plan)[0]]
    alone = sum(one for _, one in each)
    return alone >= ENOUGH and SOONER * (BEGIN + sum(seconds for seconds, _ in each)) < alone


def predict_sequence(plan: ProductFusionPlan) -> Prediction:
    steps = steps_of(plan)[0]
    moved = sum(x.nbytes for x in (*plan.inputs, plan.result))
    seconds = BEGIN + sum(_seconds(*step[1:])[0] for step in steps)
    return Prediction(seconds, 0, moved, sum(plan.multiplications()))


def _seconds(dims: DotDims, lhs: ArraySpec, rhs: ArraySpec, out: ArraySpec) -> tuple[float, float]:
    """Of a product as a step, infinity if it cannot be one, and by itself."""
    step, left, right = contraction_of(dims, lhs, rhs)
    orders, model = orders_of(step, left, right, (lhs, rhs, out)), MODELS.current
    found = plan_strips(step, orders, model, widely=True, in_turn=True)
    alone = START + plan_decided(step, orders).seconds
    return (math.inf if found is None else found.seconds), alone

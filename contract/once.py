"""Whether a contraction that is called a few times should wait for compiled kernels to be loaded.

Loading takes `options.patience` seconds, thousands of times as long as many a contraction. Kernels that add
up in another order than BLAS round otherwise, so they cannot come later, once it has proved worth it: a call
would give other bits than the one before. So `einsum` has them where the cost model says that they save a
part of that in every call, or most of what a call takes that is not short; `compile`, whose expressions are
kept, has them always. What decides is shapes, dtypes and options, nothing else.
"""

from __future__ import annotations

import math

from .._base.options import PATIENCE, get_options, options
from ..backend.prediction import ProductSeconds, predict_lanes, product_seconds
from ..program.chains import product_groups
from ..program.ir import Program
from .expression import Expression
from .first import are_left_to_blas
from .plan import Plan

CALLS = 50  # in which the kernels should have saved what loading them takes: a loop of a script
SHARE = 3 / 4  # of what a call takes without them: saving that is worth waiting for
SHORT = 1 / 256  # of the time of loading: calls that take less have no kernels


def for_few_calls(plan: Plan) -> Expression:
    """The expression of a plan; without kernels that round otherwise than BLAS, where they save little."""
    now = get_options()
    if now.asks_for_kernels or not now.patience or _are_worth_it(plan, now.patience, now.small):
        return Expression(plan, at_once=False)
    with options(provider="plain"):
        return Expression(plan, at_once=False)


def _are_worth_it(plan: Plan, loading: float, small: float) -> bool:
    if loading >= PATIENCE and are_left_to_blas(plan):
        return False  # as the first call was
    program, times = plan.program, plan.n_slices
    products = _products(program)
    plain = math.fsum(one.plain for one in products.values())

    def is_enough(seconds: float) -> bool:
        return save_enough(plain * times, seconds * times, loading)

    if not is_enough(math.fsum(min(one) for one in products.values())):
        return False
    compiled = {at: one.compiled for at, one in products.items()}
    if is_enough(math.fsum(compiled.values())):
        return True
    for group in product_groups(program, max(1, small)):
        members = [at for at in group.members if at in compiled]
        seconds = predict_lanes(group.plan).seconds
        if seconds < math.fsum(compiled[at] for at in members):
            compiled |= {at: seconds / len(members) for at in members}
    return is_enough(math.fsum(compiled.values()))


def save_enough(plain: float, compiled: float, loading: float) -> bool:
    """Whether kernels that take `compiled` seconds in a call are worth so many seconds of `loading`."""
    saved = plain - compiled
    return saved * CALLS >= loading or (plain >= SHORT * loading and saved >= SHARE * plain)


def _products(program: Program) -> dict[int, ProductSeconds]:
    first = (0,) * len(program.indices)
    return {
        at: product_seconds(ins.at(first), program.placed(ins.inputs), program.placed(ins.outputs))
        for at, ins in enumerate(program.instructions)
        if ins.op == "dot_general"
    }

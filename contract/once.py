"""How long a contraction that may be called a few times does without compiled kernels.

Loading them takes `options.patience` seconds, thousands of times as long as many a contraction, or a
thirtieth of that where they are kept on disk. Kernels that add up in another order than BLAS round otherwise.
So `einsum` has them from the first call where the cost model says that they save a part of that in every
call, or most of what a call takes that is not short. Else it does without until calls of this equation and
these shapes have lost as much as loading takes, by the cost model, and has them from then on: nobody waits
twice as long as had they been there from the first call, and the bits change once, at a call whose number no
clock decides: it depends on shapes, dtypes, options, the calls before it and what is kept on disk. `compile`,
whose expressions are kept, has them always, but for contractions below `options.small`.
"""

from __future__ import annotations

import math
import threading
from typing import Any

from .._base.options import PATIENCE, get_options, options
from ..backend.cost_model import RATES
from ..backend.cpu import cpu
from ..backend.cpu.jit import NotKept, kept_only
from ..backend.cpu.lanes import pays as lanes_pay
from ..backend.cpu.patience import loading_seconds
from ..backend.prediction import ProductSeconds, predict_lanes, product_seconds
from ..backend.sequence import MANY, pays, predict_sequence
from ..program.chains import product_groups
from ..program.ir import Program
from ..program.sequences import sequences
from .expression import Expression
from .first import are_left_to_blas
from .plan import Plan

CALLS = 50  # in which the kernels should have saved what loading them takes: a loop of a script
SHARE = 3 / 4  # of what a call takes without them: saving that is worth waiting for
SHORT = 1 / 256  # of the time of loading: calls that take less have no kernels
SEEN = 8  # calls before it is weighed what they lose: that takes as long as a call or two,
SEEN_MEDIUM = 200  # or as some ten of few multiplications
BRIEF = (
    1 / 10
)  # of the time of loading: calls that take less are made once more to see what is kept
LITTLE = 1 / 20  # of what a call takes: for less the bits never change
# of `options.small`: multiplications of steps that have kernels where a contraction of fewer is called often
MEDIUM = 1 / 32


class FewCalls(Expression):
    """An expression without kernels that round otherwise than BLAS.

    calls: so far; one that is not counted, since two threads count at once, only puts kernels off.
    limit: calls from which on it is looked at again, by `next`; infinite once that is settled.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, at_once=False)
        small = get_options().small
        is_medium = plan.cost < small
        self._small = small * MEDIUM if is_medium else small
        self.calls = 0
        self.limit: float = SEEN_MEDIUM if is_medium else SEEN
        self._saved: float | None = None  # seconds of each call
        self._is_tried = False  # whether a call is to tell what is kept: short ones
        self._looking = threading.Lock()  # held by the thread that does

    @property
    def is_settled(self) -> bool:
        return math.isinf(self.limit)

    def next(self, arrays: Any) -> Expression:
        """What is to be called from now on, for `arrays` or others like these."""
        if not self._looking.acquire(blocking=False):
            return self
        try:
            if self._saved is None:
                self.limit = self._weighed()
            if self.calls < self.limit:
                return self
            with options(small=self._small):
                found = Expression(self.plan, at_once=False)
            self.limit = self._put_off(found, arrays)
            return self if self.calls < self.limit else found
        finally:
            self._looking.release()

    def _weighed(self) -> float:
        """How many calls lose as much as loading takes."""
        patience = get_options().patience
        with options(small=self._small):
            plain, saved = _seconds(self.plan, self._small)
        self._is_tried = plain < BRIEF * patience
        self._saved = saved
        loading = loading_seconds() if self._is_tried else patience
        return loading / saved if saved > LITTLE * plain else math.inf

    def _put_off(self, found: Expression, arrays: Any) -> float:
        """Until how many calls: kernels that are not kept, so that a compiler would be loaded, come when
        calls have lost as much as that takes. Whether they are kept tells a call that is made for it."""
        loading, patience = loading_seconds(), get_options().patience
        if not self._is_tried or loading >= patience:
            return 0.0
        self._is_tried = False
        assert self._saved is not None
        try:
            with kept_only(), options(threads=1):
                found.contract(arrays)
        except NotKept:
            return self.calls + (patience - loading) / self._saved
        except MemoryError:  # the call itself may have an array for its result
            return math.inf
        return 0.0


def for_few_calls(plan: Plan) -> Expression:
    """The expression of a plan; without kernels that round otherwise than BLAS, where they save little."""
    now = get_options()
    if now.asks_for_kernels or not now.patience or _are_worth_it(plan, now.patience, now.small):
        return Expression(plan, at_once=False)
    with options(provider="plain"):
        may_gain = plan.cost >= now.small or _has_batches(plan, now.small * MEDIUM)
        return FewCalls(plan) if may_gain else Expression(plan, at_once=False)


def _has_batches(plan: Plan, least: float) -> bool:
    """Whether it has so many multiplications, and batches in some product: with fewer than `small` of them
    kernels save something there alone."""
    return plan.cost >= least and any(
        ins.op == "dot_general" and ins.attrs["batch"][0] for ins in plan.program.instructions
    )


def _are_worth_it(plan: Plan, loading: float, small: float) -> bool:
    """From the first call on. What only sequences save is not looked for here: it comes with later calls."""
    if loading >= PATIENCE and are_left_to_blas(plan):
        return False  # as the first call was
    program, times = plan.program, plan.n_slices
    products = _products(program)
    plain = math.fsum(one.plain for one in products.values()) * times
    least = math.fsum(min(one) for one in products.values()) * times
    return save_enough(plain, least, loading) and save_enough(
        plain, plain - _saved(program, products, small) * times, loading
    )


def _seconds(plan: Plan, small: float) -> tuple[float, float]:
    """What products of a call take without kernels, and how much of it these would save."""
    products = _products(plan.program)
    plain = math.fsum(one.plain for one in products.values())
    return plain * plan.n_slices, _saved(plan.program, products, small) * plan.n_slices


def _saved(program: Program, products: dict[int, ProductSeconds], small: float) -> float:
    """Seconds that kernels save, each product alone, in groups or in turn."""
    compiled = {at: one.compiled for at, one in products.items()}
    taken: set[int] = set()
    for group in product_groups(program, max(1, small)):
        if group.plan.result.dtype.char not in RATES:
            continue  # BLAS has no part in the choice
        members = [at for at in group.members if at in compiled]
        seconds = predict_lanes(group.plan).seconds
        if lanes_pay(group.plan) and seconds < math.fsum(compiled[at] for at in members):
            compiled |= {at: seconds / len(members) for at in members}
            taken.update(group.members)
    for group in sequences(program, cpu(), taken, work=MANY * max(1, small)):
        members = [at for at in group.members if at in compiled]
        seconds = predict_sequence(group.plan).seconds
        if pays(group.plan) and seconds < math.fsum(compiled[at] for at in members):
            compiled |= {at: seconds / len(members) for at in members}
    return math.fsum(products[at].plain - seconds for at, seconds in compiled.items())


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

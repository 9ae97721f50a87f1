"""The cost model of this machine: what is measured of it is tried, and taken where contractions are sooner.

Rates that are right one by one do not make a better model: rates of memory beyond the caches say little of
arrays within them, and the shape of a law is not that of a processor. So what was measured goes into the
shipped model in groups, one after another, and stays if some contractions of all sorts take less time by it,
each in turns with the model before.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._base.caches import clear_caches
from .._base.options import options
from ..backend.cost_model import MODELS, CostModel, forget, keep, shipped
from ..backend.cpu.tune import measured
from .api import compile, plan
from .plan import Plan

log = logging.getLogger("einloom")

GROUPS = (
    ("products", "threads", "strips", "blocks", "blocks_single"),
    ("edges", "threaded"),
    ("stream",),
    ("moves",),
)
"""What is taken together: rates of arithmetic, how much of them small matrices reach, and memory."""
SOONER = 0.97
"""Of the time before, in the geometric mean: less differs from it by more than what two runs differ by."""
LATER = 1.1  # of the time before, which no contraction may take
ROUNDS = 5
SECONDS = 0.02  # of a contraction in a round


class Trial(NamedTuple):
    """A contraction of random numbers that is timed."""

    subscripts: str
    sizes: Mapping[str, int]
    dtype: str = "float64"


def _chain(sides: list[int]) -> Trial:
    labels = [chr(192 + k) for k in range(len(sides))]
    terms = [a + b for a, b in pairwise(labels)]
    subscripts = f"{','.join(terms)}->{labels[0]}{labels[-1]}"
    return Trial(subscripts, dict(zip(labels, sides, strict=True)))


def _lattice(side: int, bond: int) -> Trial:
    """The scalar of a square of side x side tensors with bonds of that size."""
    bonds: dict[tuple[int, int, int], str] = {}
    for row in range(side):
        for column in range(side):
            for way, last in ((0, column), (1, row)):
                if last + 1 < side:
                    bonds[row, column, way] = chr(192 + len(bonds))
    terms = []
    for row in range(side):
        for column in range(side):
            around = (
                (row, column, 0),
                (row, column, 1),
                (row, column - 1, 0),
                (row - 1, column, 1),
            )
            terms.append("".join(bonds[one] for one in around if one in bonds))
    return Trial(f"{','.join(terms)}->", dict.fromkeys(bonds.values(), bond))


TRIALS = (
    Trial("pqrs,pi,qj,rk,sl->ijkl", dict.fromkeys("pqrs", 36) | dict.fromkeys("ijkl", 20)),
    Trial("abw,acs,wvst,bdt->cdv", dict.fromkeys("abcd", 96) | {"w": 5, "v": 5, "s": 2, "t": 2}),
    Trial("abe,bcf,cdg,dah->efgh", dict.fromkeys("abcdefgh", 14)),
    Trial("Lpq,Lrs,qs->pr", {"L": 200} | dict.fromkeys("pqrs", 60)),
    Trial("ijab,kbjc,kc->ia", dict.fromkeys("ijk", 12) | dict.fromkeys("abc", 24)),
    Trial("zu,zv,uvw->zw", {"z": 2000, "u": 32, "v": 32, "w": 32}, "float32"),
    Trial("qab,qbc,qcd->qad", {"q": 1000} | dict.fromkeys("abcd", 12)),
    _chain([8, 64, 16, 256, 24, 24, 128, 8, 96, 32, 300, 12] * 3 + [40]),
    _lattice(5, 6),
)


def tune(save: bool = True) -> CostModel:
    """Measure this machine, and let the cost model say what was found: which way to contract is chosen by it.

    Rates of products, memory and copies are measured. Those by which nine contractions take less time than
    by the shipped ones are taken; where none are, the model stays as it was shipped. Takes a minute, or less
    where kernels are kept; nothing else should run meanwhile. Results of contractions stay the same up to
    rounding. Expressions that exist keep the way that they chose; cached ones are forgotten.

    Args:
        save: keep the model in the cache folder, where later processes find it, for this processor, this
            BLAS, and this number of threads. Where it is the shipped one, what was kept there is removed.

    Returns:
        CostModel: a NamedTuple of rates, in seconds, bytes, and multiplications with their additions.

    Raises:
        OSError: the cache folder cannot be written.
    """
    found, model = measured(), shipped()
    try:
        for group in GROUPS:
            candidate = model._replace(**{name: getattr(found, name) for name in group})
            if candidate != model and _is_better(group, _ratios(candidate, model)):
                model = candidate
    except BaseException:  # nobody is to go on with what was only tried
        MODELS.use(None)
        clear_caches()
        raise
    if save and model == shipped():
        forget()
    elif save:
        keep(model)
    MODELS.use(model)
    clear_caches()  # expressions that chose by another model
    return model


def _is_better(group: tuple[str, ...], ratios: list[float]) -> bool:
    """Whether times are to be as these, of those before."""
    mean = statistics.geometric_mean(ratios)
    is_better = mean < SOONER and max(ratios) < LATER
    taken = "taken" if is_better else "not taken"
    log.info("%s as measured: %.2f of the time, %s", ", ".join(group), mean, taken)
    return is_better


def _ratios(candidate: CostModel, model: CostModel) -> list[float]:
    """Time by one model over that by the other, of each trial."""
    rng = np.random.default_rng(0)
    return [_ratio(trial, candidate, model, rng) for trial in TRIALS]


def _ratio(trial: Trial, candidate: CostModel, model: CostModel, rng: np.random.Generator) -> float:
    arrays = [
        rng.standard_normal([trial.sizes[label] for label in term]).astype(trial.dtype)
        for term in trial.subscripts.partition("->")[0].split(",")
    ]
    tree = plan(trial.subscripts, *arrays)  # one for both: a search may end elsewhere
    calls = [_made(tree, one, arrays) for one in (candidate, model)]
    ratios = []
    for turn in range(ROUNDS):
        order = (0, 1) if turn % 2 else (1, 0)
        seconds = {k: _seconds(calls[k]) for k in order}
        ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios)


def _made(tree: Plan, model: CostModel, arrays: list[Any]) -> Callable[[], Any]:
    """A call of the expression that chooses by this model, with kernels from the first."""
    MODELS.use(model)
    clear_caches()
    with options(patience=0):
        expression = compile(tree)
        expression(*arrays)
    return lambda: expression(*arrays)


def _seconds(call: Callable[[], Any]) -> float:
    """Median of calls within some hundredths of a second, after one that warms up."""
    call()
    found: list[float] = []
    begin = time.perf_counter()
    while len(found) < 3 or time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return statistics.median(found)

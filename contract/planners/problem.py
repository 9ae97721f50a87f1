"""What a planner is asked and what it answers: one signature for all planners."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ...backend.cost_model import CostModel
from ..network import Network
from ..tree import ContractionTree

MODEL = CostModel()
Objective = Literal["time", "flops", "size", "write"]
"""What is made small: multiplications and elements moved, at what they cost; multiplications alone; the
largest result; the elements of all results."""


@dataclass(frozen=True, slots=True)
class Problem:
    """How to search.

    Attributes:
        objective: what to make small.
        memory_limit: bytes the plan should stay below, or None; a hint, checked by the caller.
        itemsize: bytes of one element.
        budget: runs of a searching planner; None scales them to the predicted cost.
        seed: the same seed gives the same tree.
        seconds: search so long, by the clock, instead; then the tree depends on the machine.
        runs: contractions that the search is for, by which their predicted cost is multiplied.
        waits: whether a search among many tensors may wait for the compiled core even where the contraction
            takes less time than that.
    """

    objective: Objective = "time"
    memory_limit: int | None = None
    itemsize: int = 8
    budget: int | None = None
    seed: int = 0
    seconds: float | None = None
    runs: float = 1.0
    waits: bool = True

    def terms(self) -> tuple[float, float, float]:
        """What a search adds up: for each multiplication, element read or written, and element written.

        None of them stands for the size of the largest result. "time" counts in multiplications, at the
        rates of the shipped model, so that a plan does not depend on the machine.
        """
        if self.objective == "size":
            return 0.0, 0.0, 0.0
        if self.objective == "flops":
            return 1.0, 0.0, 0.0
        if self.objective == "write":
            return 0.0, 0.0, 1.0
        return 1.0, self.itemsize * MODEL.products / 2 / MODEL.stream, 0.0

    def seconds_of(self, log_cost: float) -> float:
        """About how long work of that many multiplications (to base 2) takes, of all runs."""
        return 2.0 ** min(log_cost + math.log2(self.runs), 100.0) * 2 / MODEL.products


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tree and, where the planner can say so, that none is better; the labels to slice.

    complete: whether the search ended by itself, and was not interrupted.
    """

    tree: ContractionTree
    planner: str
    proof: str | None = None
    sliced: tuple[int, ...] = ()
    complete: bool = True


def named(planner: str, proof: str | None) -> str:
    """Who found a plan: what looks at all trees says "optimal" only where none is proven to be better.

    >>> named("parentheses, optimal", None)
    'parentheses, all subsets'
    """
    return planner if proof == "optimal" else planner.replace("optimal", "all subsets")


Planner: TypeAlias = Callable[[Network, Problem], Candidate]

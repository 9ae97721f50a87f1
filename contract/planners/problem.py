"""What a planner is asked and what it answers: one signature for all planners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..cost import total_cost
from ..network import Network
from ..tree import ContractionTree

Objective = Literal["time", "flops", "size"]
"""time and flops: fewest scalar multiplications; size: smallest largest intermediate, then fewest."""


@dataclass(frozen=True, slots=True)
class Problem:
    """How to search.

    Attributes:
        objective: what to make small.
        memory_limit: bytes the plan should stay below, or None; a hint, checked by the caller.
        itemsize: bytes of one element.
        budget: trials of a sampling planner; None scales them to the predicted cost.
        seed: the same seed gives the same tree.
    """

    objective: Objective = "time"
    memory_limit: int | None = None
    itemsize: int = 8
    budget: int | None = None
    seed: int = 0

    def key(self, network: Network, tree: ContractionTree) -> tuple[int, int]:
        """What of two trees is to be smaller, by the objective; ties go to the other figure."""
        cost = total_cost(network, tree)
        if self.objective == "size":
            return cost.largest_intermediate, cost.cost
        return cost.cost, cost.largest_intermediate


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tree and, where the planner can say so, that none is better."""

    tree: ContractionTree
    planner: str
    proof: str | None = None


Planner: TypeAlias = Callable[[Network, Problem], Candidate]

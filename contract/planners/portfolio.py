"""The default planner: exact for few tensors, else several families side by side, the best refined.

Greedy search suits networks whose labels join two tensors, elimination those whose labels join many;
both run plain and with noise, as often as the predicted cost is worth, and the best tree's costly
subtrees are then solved exactly. All of it is bounded by work, never by seconds: the same seed gives
the same tree.
"""

from __future__ import annotations

import random

from ..cost import total_cost
from ..network import Network
from ..tree import ContractionTree, depth_first
from .elimination import eliminate
from .greedy import (
    MULTIPLICATIONS_PER_STEP,
    greedy,
    noisy_greedy,
    temperature_of,
    worthwhile_runs,
)
from .optimal import optimal
from .problem import Candidate, Problem
from .reconfigure import reconfigure

EXACT_UP_TO = 6  # tensors for which all subsets cost less than a millisecond or two
STEPS_PER_SOLVE = 60  # an exact subtree takes about as long as planning so many steps
MOST_SOLVES = 1000


def auto(network: Network, problem: Problem) -> Candidate:
    """The best tree of the portfolio."""
    if len(network.terms) <= EXACT_UP_TO:
        return optimal(network, problem)
    best = greedy(network, problem).tree
    best_key, family = problem.key(network, best), "greedy"
    runs = worthwhile_runs(network, best, problem)
    source = random.Random(problem.seed)
    for run in range(1, runs):
        noise = random.Random(source.getrandbits(64))
        if run % 2:  # the first elimination is without noise
            tree, kind = (
                eliminate(network, noise if run > 1 else None, temperature_of(run)),
                "elimination",
            )
        else:
            tree, kind = noisy_greedy(network, noise, temperature_of(run)), "greedy"
        key = problem.key(network, tree)
        if key < best_key:
            best, best_key, family = tree, key, kind
    if runs <= 1:
        return Candidate(depth_first(best), "greedy")
    if problem.objective == "size":
        return Candidate(depth_first(best), f"{family}, best of {runs}")
    refined = reconfigure(network, best, _worthwhile_solves(network, best))
    return Candidate(depth_first(refined), f"{family}, best of {runs}, subtrees exact")


def _worthwhile_solves(network: Network, tree: ContractionTree) -> int:
    cost = total_cost(network, tree).cost
    return min(MOST_SOLVES, cost // (MULTIPLICATIONS_PER_STEP * STEPS_PER_SOLVE))

"""Constants and the number of calls: what is worth doing once.

A step of constants alone runs once, any other in each of n_runs calls. Let all that is no constant carry
one more label of size n_runs, which stays open. Then the multiplications of a tree, and the elements it
writes, are those of all calls together: a search that knows nothing of constants finds the best tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .groups import joined, plan_groups
from .network import Network
from .plan import Plan
from .planners import Candidate, Planner, Problem
from .weigh import weigh

ENDLESS = 1 << 20  # calls that stand for any number
KEPT, MORE = 1 << 20, 4
"""Elements, and times the largest intermediate, that products of constants may have to be kept."""


def with_runs(network: Network, constants: frozenset[int], n_runs: int) -> Network:
    """The network of n_runs contractions that share their constants.

    >>> net = Network(["ij", "jk", "k"], "i", {"i": 2, "j": 3, "k": 4})
    >>> with_runs(net, frozenset({0, 1}), 10).shapes
    ((2, 3), (3, 4), (4, 10))
    """
    run = len(network.extents)
    free = [operand not in constants for operand in range(len(network.terms))]
    joint = Network.__new__(Network)
    joint._set(
        tuple((*term, run) if own else term for own, term in zip(free, network.terms, strict=True)),
        tuple(
            (*shape, n_runs) if own else shape
            for own, shape in zip(free, network.shapes, strict=True)
        ),
        (*network.output_axes, run),
        (*network.extents, n_runs),
        (*network.labels, ("run", network.labels)),  # no label of the user's is a tuple of itself
    )
    return joint


def matters(network: Network, constants: frozenset[int], n_runs: int | None) -> bool:
    """Whether there may be steps of constants alone, and it matters that they run once."""
    return 1 < len(constants) < len(network.terms) and n_runs != 1 and 0 not in network.extents


def searches(network: Network, constants: frozenset[int], n_runs: int | None) -> int:
    """How many searches `reusing` makes."""
    if not matters(network, constants, n_runs):
        return 0
    groups = joined(network, constants)
    return 1 + (len(groups) + 1 if groups else 0)


def reusing(
    first: Plan, planner: Planner, problem: Problem, plan_of: Callable[[Candidate], Plan]
) -> Plan:
    """The best for all calls of these: `first`; constants contracted with each other ahead; a tree that is
    searched for constants that are used n_runs times."""
    network, constants, n_runs = first.network, first.constants, first.n_runs
    if not matters(network, constants, n_runs):
        return first
    runs = n_runs or ENDLESS
    joint = with_runs(network, constants, runs)
    # the label of runs is in the predicted cost; endless runs are worth no more planning than one
    found = plan_of(planner(joint, replace(problem, runs=1.0 if n_runs else 1.0 / ENDLESS)))
    # to read a constant in each call counts once in the joint network: "time" is not proven
    is_exact = n_runs is not None and problem.objective in ("flops", "write")
    plans = [found]
    if groups := joined(network, constants):
        plans.append(plan_of(plan_groups(network, groups, planner, problem)))
    if n_runs is None:
        room = max(KEPT, MORE * first.largest_intermediate)
        plans = [plan for plan in plans if _held(plan, problem) <= room]
    best = min([first, *plans], key=lambda plan: weight_of(plan, problem))
    return replace(best, proof=found.proof) if is_exact and found.proof else best.unproven()


def weight_of(plan: Plan, problem: Problem) -> tuple[int, int]:
    """What all calls of a plan weigh together, by the problem's objective."""
    weight = weigh(plan.network, plan.tree, problem, plan.sliced, plan.constants)
    return weight.of_runs(plan.n_runs)


def _held(plan: Plan, problem: Problem) -> int:
    weight = weigh(plan.network, plan.tree, problem, plan.sliced, plan.constants)
    return max(weight.largest, plan.largest_intermediate)

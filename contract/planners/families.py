"""Single families of the portfolio: greedy search, elimination, and the best of all trees."""

from __future__ import annotations

import time

from ..._base.errors import OptionError
from ..network import Network
from .core.run import Graph, core_of
from .few import few_of
from .parts import Found, by_parts
from .portfolio import ENTRY, noise_of, seed_of, steps_of, worth
from .problem import Candidate, Problem

MOST = 16  # tensors of a connected part of which all trees are looked at
MAX_RUNS = 128


def greedy(network: Network, problem: Problem) -> Candidate:
    """One deterministic greedy run."""
    return by_parts(
        network, lambda graph, _: Found(steps_of(core_of(graph).greedy()), "greedy"), "greedy"
    )


def random_greedy(network: Network, problem: Problem) -> Candidate:
    """The best of one plain and several noisy runs, as many as the predicted cost is worth."""

    end = None if problem.seconds is None else time.perf_counter() + problem.seconds

    def search(graph: Graph, _: float) -> Found:
        core = core_of(graph)
        terms = core.terms(problem.terms())
        best = core.greedy()
        least = core.cost_of(best, terms)
        each = (len(graph.labels) + 8) * ENTRY[1]
        most = 1 << 30 if problem.seconds else min(MAX_RUNS, int(worth(problem, least) / each))
        runs, made = problem.budget or max(1, most), 1
        for run in range(1, runs):
            if end is not None and time.perf_counter() > end:
                break
            made += 1
            seed = seed_of(problem, run)
            path = core.greedy(*noise_of(seed), seed)
            cost = core.cost_of(path, terms)
            if cost < least:
                least, best = cost, path
        return Found(steps_of(best), "greedy" if made <= 1 else f"random-greedy, {made} runs")

    return by_parts(network, search, "random-greedy")


def elimination(network: Network, problem: Problem) -> Candidate:
    """One deterministic run of min-size elimination."""
    return by_parts(
        network,
        lambda graph, _: Found(steps_of(core_of(graph).eliminate()), "elimination"),
        "elimination",
    )


def optimal(network: Network, problem: Problem) -> Candidate:
    """The tree of least cost.

    For the objective "size", of the least sum of 16th powers of sizes: so the largest is seldom not the
    smallest there can be, which is no proof.
    """

    def search(graph: Graph, _: float) -> Found:
        if graph.n > MOST:
            raise OptionError(
                f'planner "optimal" looks at all trees of up to {MOST} connected tensors, here are '
                f'{graph.n}; use "auto", "dp" (opt_einsum\'s dynamic programming) or a path of your own'
            )
        core = core_of(graph, graph.n > few_of(problem))
        path = core.exact(core.terms(problem.terms()))
        return Found(steps_of(path), "optimal", problem.objective != "size")

    return by_parts(network, search, "optimal", MOST)

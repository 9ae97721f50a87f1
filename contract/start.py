"""Planning that begins with a tree: of this network, or of one that it was made from by a small edit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from .._base.errors import CallError, OptionError, PathError
from .matching import matchings
from .network import Network
from .plan import Plan
from .planners import Candidate, Planner, Problem, auto
from .planners.core.run import PLAIN, Core, Graph, core_of
from .planners.few import few_of
from .planners.portfolio import begin_clock, best_tree, steps_of
from .regrow import regrown
from .tree import ContractionTree, Step, depth_first
from .weigh import weigh

Start: TypeAlias = Plan | ContractionTree | Sequence[Sequence[int]]


def from_start(start: Any, network: Network, call: str) -> Planner:
    """The planner that refines a plan of another network, or a tree or path of this one."""
    trees = [(tree, leaf) for tree, leaf in _told(start, network, call)]

    def warm(asked: Network, problem: Problem) -> Candidate:
        if len(asked.terms) != len(network.terms) or len(asked.terms) == 1:
            return auto(asked, problem)  # a part of the network
        return refined(asked, problem, trees)

    return warm


def as_it_is(start: Any, network: Network, call: str) -> Planner:
    """The planner that takes the tree given, mapped to this network, and searches for nothing."""
    trees = [(tree, leaf) for tree, leaf in _told(start, network, call)]

    def mapped(asked: Network, problem: Problem) -> Candidate:
        if len(asked.terms) != len(network.terms) or len(asked.terms) == 1:
            return auto(asked, problem)
        graph = Graph.of(asked.carried, asked.open, asked.extents)
        known = _known(asked, problem, trees, core_of(graph, graph.n > PLAIN))
        return Candidate(known[-1], "start")

    return mapped


def _known(
    network: Network,
    problem: Problem,
    trees: Sequence[tuple[ContractionTree, dict[int, int]]],
    core: Core,
) -> list[ContractionTree]:
    """The best of the trees in steps of pairs; and the tree itself where it is of this network."""
    terms = core.terms(problem.terms())

    def log_cost(steps: tuple[Step, ...]) -> float:
        return core.cost_of(_flat(core, steps), terms)

    grown = [regrown(tree, leaf, network, log_cost) for tree, leaf in trees]
    n = len(network.terms)
    own = [tree for tree, leaf in trees if leaf == {k: k for k in range(n)} and tree.n == n]
    return [min(grown, key=lambda tree: _weight(network, tree, problem)), *own[:1]]


def refined(
    network: Network, problem: Problem, trees: Sequence[tuple[ContractionTree, dict[int, int]]]
) -> Candidate:
    """The best of these trees, whose tensors are named in this network, or what a search makes of it."""
    begin_clock(network, problem)
    graph = Graph.of(network.carried, network.open, network.extents)
    core = core_of(graph, graph.n > PLAIN)
    known = _known(network, problem, trees, core)
    if graph.n <= few_of(problem):
        found = auto(network, problem)
    else:
        result, complete = best_tree(graph, problem, problem.seconds, known[0].ssa_path)
        tree = ContractionTree(graph.n, depth_first(graph.n, steps_of(result.path)))
        kind = result.kind if result.kind == "greedy" else f"from a start, {result.kind}"
        found = Candidate(tree, kind, complete=complete)
    best = min(known, key=lambda tree: _weight(network, tree, problem))
    if _weight(network, best, problem) < _weight(network, found.tree, problem):
        return Candidate(best, "start", complete=found.complete)
    return found


def _weight(network: Network, tree: ContractionTree, problem: Problem) -> int:
    return weigh(network, tree, problem).call


def _flat(core: Any, steps: Sequence[Step]) -> Any:
    path = core.integers(2 * len(steps))
    for k, (a, b) in enumerate(steps):
        path[2 * k], path[2 * k + 1] = a, b
    return path


def _told(start: Any, network: Network, call: str) -> list[tuple[ContractionTree, dict[int, int]]]:
    n = len(network.terms)
    if isinstance(start, Plan):
        return [(start.tree, leaf) for leaf in matchings(start.network, network)]
    if not isinstance(start, ContractionTree):
        if isinstance(start, str) or not isinstance(start, Sequence):
            raise CallError(
                f"{call}(start={start!r:.60}): give a Plan, a ContractionTree, or a path of this network"
            )
        try:
            start = ContractionTree.from_path(n, start)
        except PathError as error:
            raise PathError(f"{call}(start=...): {error}") from None
    if start.n != n:
        raise OptionError(
            f"{call}(start=...): the tree has {start.n} tensors, the network {n}; give the Plan that the "
            f"tree is of, so that tensors are known by their labels"
        )
    return [(start, {k: k for k in range(n)})]

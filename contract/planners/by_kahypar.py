"""Recursive bipartition whose cuts KaHyPar makes, where it is installed; the rest is the core's own.

S. Schlag et al., "High-Quality Hypergraph Partitioning", ACM J. Exp. Algorithmics 27, 1.9 (2022).
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..._base.errors import Unsupported
from ..network import Network
from .core import partition
from .core.arrays import UNIT, integers
from .core.bisection import Hypergraph
from .core.lists import holders_of
from .core.run import Graph, core_of
from .core.tree import path_of
from .parts import Found, by_parts
from .portfolio import imbalance_of, seed_of, steps_of
from .problem import Candidate, Problem

RUNS = 8  # trees, where neither runs nor seconds are given
LEAVES, SOLVES = 8, 200  # subtrees that are solved in each tree, and how many
FINE = 1000  # of KaHyPar's costs, 32-bit integers, in the logarithm of a label of size 2
UNEVEN = (0.5, 0.6)  # of the tensors that a part may have, where the outside is not looked at
HEAVIEST = 1 << 30  # such costs of all nets together, at most
# KaHyPar has no defaults of its own: coarsening by heavy edges, initial parts by a pool of methods, then
# moves of single vertices. The names and most values are those of its published presets for cuts.
SETTINGS = """\
mode=direct
objective=cut
seed=-1
cmaxnet=-1
vcycles=0
p-use-sparsifier=false
p-detect-communities=false
c-type=heavy_lazy
c-s=1
c-t=160
c-rating-score=heavy_edge
c-rating-use-communities=false
c-rating-heavy_node_penalty=multiplicative
c-rating-acceptance-criterion=best
c-fixed-vertex-acceptance-criterion=free_vertex_only
i-mode=recursive
i-technique=flat
i-algo=pool
i-runs=20
i-bp-algorithm=worst_fit
i-r-type=twoway_fm
i-r-runs=-1
i-r-fm-stop=simple
i-r-fm-stop-i=50
r-type=kway_fm
r-runs=-1
r-fm-stop=simple
r-fm-stop-i=50
"""
# its module keeps state of its own: one cut at a time in a process
_LOCK = threading.Lock()


def by_kahypar(network: Network, problem: Problem) -> Candidate:
    """The best of several trees that KaHyPar cuts, each with its subtrees solved exactly."""
    kahypar = _module()
    end = None if problem.seconds is None else time.perf_counter() + problem.seconds

    def search(graph: Graph, _: float) -> Found:
        core = core_of(graph)
        terms = core.terms(problem.terms())
        best, least, made = core.greedy(), float("inf"), 0
        with _LOCK, tempfile.TemporaryDirectory() as folder:
            context = _context(kahypar, Path(folder))
            while made < (problem.budget or (RUNS if end is None else sys.maxsize)):
                if made and end is not None and time.perf_counter() > end:
                    break
                seed = seed_of(problem, made)
                cuts = Cuts(kahypar, context, seed, graph.n, is_closed=made % 2 == 0)
                path = core.flat(_path(cuts, graph.lists()))
                tree = core.tree(path)
                tree.reconfigure(terms, LEAVES, SOLVES)
                made += 1
                cost = tree.log_cost(terms)
                if cost < least:
                    least, best = cost, tree.path()
        return Found(steps_of(best), f"kahypar, best of {made}")

    return by_parts(network, search, "kahypar")


class Cuts:
    """The cuts of one tree, as partition.partition makes them; or closed: labels to the outside do not count.

    Closed cuts are nearly even, and better where KaHyPar finds no small part to take off.
    """

    def __init__(self, kahypar: Any, context: Any, seed: int, n: int, is_closed: bool) -> None:
        self.kahypar, self.context, self.is_closed = kahypar, context, is_closed
        self.chance = random.Random(seed)
        self.outside = self.chance.randint(*partition.OUTSIDE)
        self.first = self.chance.uniform(*partition.FIRST)
        self.uneven = self.chance.uniform(*UNEVEN)
        self.share = max(partition.LEAST, 0.5 * (1.0 - imbalance_of(seed, n)))

    def sides(self, part: partition.Network, is_whole: bool) -> Sequence[int]:
        """The part of each tensor, 0 or 1; neither is empty."""
        graph = partition.graph_of(part, self.outside)
        n = len(part.starts) - 1
        side: Any = integers(n + 1, 0)
        if partition.fall_apart(graph, side):
            return side
        most = integers(2, 0)
        if self.is_closed:
            most[0] = most[1] = max((n + 1) // 2, int(n * self.uneven))
        elif is_whole:  # no open end yet
            partition.limits(n, 0.5, self.first, most)
        else:
            partition.limits(n, self.share, self.share * partition.SMALLEST, most)
        side = self._cut(graph, n, most)
        for half in range(2):
            if half not in side:
                side[0] = half
        return side

    def _cut(self, graph: Hypergraph, n: int, most: Sequence[int]) -> list[int]:
        first, pins, costs = [0], list[int](), list[int]()
        unit = max(UNIT // FINE, sum(graph.cost) // HEAVIEST)
        for net, cost in enumerate(graph.cost):
            of_net = graph.pins[graph.first[net] : graph.first[net + 1]]
            if self.is_closed:
                of_net = [v for v in of_net if v < n]
            if len(of_net) > 1:
                pins += of_net
                first.append(len(pins))
                costs.append(max(1, cost // unit))
        vertices = n + (not self.is_closed)
        found = self.kahypar.Hypergraph(vertices, len(costs), first, pins, 2, costs, [1] * vertices)
        targets = [most[0], most[1]]
        if not self.is_closed:
            found.fixNodeToBlock(n, 1)
            targets[1] += 1  # the outside weighs as much as a tensor here
        self.context.setCustomTargetBlockWeights(targets)
        self.context.setSeed(self.chance.getrandbits(30))
        self.kahypar.partition(found, self.context)
        return [found.blockID(v) for v in range(n)]


def _path(cuts: Cuts, graph: Graph) -> list[int]:
    """The tree of these cuts, of n > 1 tensors."""
    n, extent = graph.n, len(graph.is_open)
    whole = partition.Network(
        graph.starts,  # type: ignore[arg-type]
        graph.labels,  # type: ignore[arg-type]
        graph.logs,  # type: ignore[arg-type]
        graph.is_open,  # type: ignore[arg-type]
    )
    child, order, spare = integers(2 * (n - 1), 0), integers(n, 0), integers(n, 0)
    left, number = integers(extent, 0), integers(extent, 0)
    places, rows = integers(extent + 1, 0), integers(len(graph.labels), 0)
    holders_of(whole.starts, whole.labels, whole.is_open, left, places, rows)
    order[:] = range(n)
    unused, todo = 2 * n - 2, [(0, n, 2 * n - 2)]
    while todo:
        begin, end, node = todo.pop()
        part = partition.restricted(whole, begin, end, order, left, number)
        if end - begin <= partition.LEAF:
            unused = partition.join(part, begin, node, unused, order, child)
            continue
        side: Any = cuts.sides(part, end - begin == n)
        middle = partition.arrange(begin, end, side, order, spare)
        for half, (low, high) in enumerate(((begin, middle), (middle, end))):
            below = order[low]
            if high - low > 1:
                unused -= 1
                below = unused
                todo.append((low, high, below))
            child[2 * (node - n) + half] = below
    path = integers(2 * (n - 1), 0)
    path_of(child, path)
    return list(path)


def _context(kahypar: Any, folder: Path) -> Any:
    """KaHyPar's settings, which it reads from a file."""
    file = folder / "kahypar.ini"
    file.write_text(SETTINGS, encoding="utf-8")
    context = kahypar.Context()
    context.loadINIconfiguration(os.fspath(file))
    context.setK(2)
    context.setEpsilon(0.03)
    context.suppressOutput(True)
    return context


def _module() -> Any:
    try:
        import kahypar
    except ImportError:
        raise Unsupported(
            'planner "kahypar" needs KaHyPar, which is not installed: pip install kahypar'
        ) from None
    return kahypar

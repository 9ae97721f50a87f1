"""Trees and the labels to slice together, so that no result has more elements than allowed.

A run begins with a rough tree and no limit to speak of; the limit falls until it is the one that is asked
for. Each round anneals the tree of one slice, where a result that is too large costs more than all else
together, then gives one sliced label back and slices again what has to be (core/slices.py). So the choice
of labels follows the tree and the tree the labels. Slicing the best tree there is without a limit may take
millions of times as much work.

What a run comes to is decided by its rough tree, and hardly by how long it anneals: so there are many short
runs, and the best few are annealed further at lower temperatures.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..network import Network
from .core.arrays import BITS, UNIT
from .core.run import PLAIN, Graph, core_of
from .few import few_of
from .parts import Found, by_parts
from .portfolio import (
    MANY,
    PROPOSAL,
    WORTH,
    begin_clock,
    best_tree,
    imbalance_of,
    is_long,
    noise_of,
    run_all,
    seed_of,
    steps_of,
    worth,
)
from .problem import Candidate, Problem

ROUNDS = 100  # of annealing and slicing in a run
FALLING = 0.25  # of the rounds of a new tree, in which the limit falls
SWEEPS = 10  # in each round of the first batch; twice as many where there were four times as many batches
SLICING = 25  # sweeps that slicing anew takes as long as, about
BATCH = 8  # runs
FURTHER = 2  # of these, which anneal the best so far, a cold one with COLDER sweeps
COLDER = 3
KEPT = 4
HOT, COLD = 0.6, 0.15  # temperatures of the first round and of the last
TOO_LARGE = 4.0  # to base 2: how many times the whole tree's cost a result that is too large costs
LEAVES, SOLVES = 8, 2000
FREE = 0.1  # of the seconds given, if any, in which the best tree without a limit is searched for
STEP = 2e-6  # seconds of a step of a slice at least, however small
DRAWN = 4  # greedy trees of which the best is begun with, and runs of which one does


@dataclass(frozen=True)
class Cut:
    """The logarithm of what all slices cost, the path, and the set of labels that are sliced."""

    cost: float
    path: Any
    labels: Any


def sliced(network: Network, problem: Problem) -> Candidate:
    """The best tree and labels to slice for results of at most memory_limit / itemsize elements.

    Of each connected part of more than a few tensors; what the parts make together may be larger.
    """
    most = max(1.0, (problem.memory_limit or math.inf) / problem.itemsize)
    begin_clock(network, problem, slices=True)
    end = None if problem.seconds is None else time.perf_counter() + problem.seconds

    def search(graph: Graph, share: float) -> Found:
        seconds = None if end is None else share * (end - time.perf_counter())
        if graph.n <= few_of(problem):
            core = core_of(graph)
            return Found(steps_of(core.exact(core.terms(problem.terms()))), "optimal")
        if graph.n > MANY:  # every look at all labels and steps takes its time: left to the caller
            best, complete = best_tree(graph, problem, seconds)
            return Found(steps_of(best.path), best.kind, complete=complete)
        return _Search(graph, problem, most, seconds).found()

    return by_parts(network, search, "auto", few_of(problem))


class _Search:
    def __init__(self, graph: Graph, problem: Problem, most: float, seconds: float | None) -> None:
        self.graph, self.problem, self.most = graph, problem, most
        self.end = None if seconds is None else time.perf_counter() + seconds
        free, complete = best_tree(graph, problem, None if seconds is None else FREE * seconds)
        self.waits = problem.waits or problem.budget is not None or seconds is not None
        self.worth = worth(problem, free.cost) if seconds is None else seconds
        self.stopped = not complete  # by the user
        self.runs = 0
        self.best = [self._begun(free.path, is_long(graph.n, self.worth, self.waits))]
        if not (self.waits or self.long):  # what is sliced badly is worth more
            slices = 2.0 ** min(self._log_slices(self.best[0].labels), 64.0)
            self.worth = max(worth(problem, self.best[0].cost), WORTH * slices * graph.n * STEP)
            if is_long(graph.n, self.worth, self.waits):
                self.best = [self._begun(free.path, True)]

    def _begun(self, path: Any, long: bool) -> Cut:
        """The tree sliced as it is, by the compiled core if the search is long."""
        self.long, self.core = long, core_of(self.graph, long, slices=True)
        self.least = self.core.terms(self.problem.terms())
        flat = self.core.integers(len(path))
        for k, node in enumerate(path):
            flat[k] = node
        return self._sliced(flat)

    def found(self) -> Found:
        """The best when the budget ends, or the user ends it."""
        try:
            self._search()
        except KeyboardInterrupt:
            self.stopped = True
        names, best = self.graph.names, self.best[0]
        labels = tuple(
            int(name) for name, spot in zip(names, self.graph.place, strict=True)
            if (int(best.labels[spot >> 6]) >> (spot & 63)) & 1
        )  # fmt: skip
        kind = f"annealing and slicing, best of {self.runs}" if self.runs else "sliced as it was"
        note = "interrupted, " if self.stopped else ""
        steps = steps_of(best.path)
        return Found(steps, note + kind, sliced=labels, complete=not self.stopped)

    def _search(self) -> None:
        if self.graph.n > PLAIN and not self.long:
            return  # one run takes seconds
        n, budget = self.graph.n, self.problem.budget
        rate, spent, pace = PROPOSAL[1 if self.long else 0], 0.0, 0.0
        batch = 0
        while True:
            sweeps = SWEEPS << ((3 * batch + 1).bit_length() - 1) // 2
            work = BATCH * ROUNDS * (sweeps + SLICING) * n * rate
            runs = BATCH
            if self.end is not None:
                left = self.end - time.perf_counter()
                if left < sweeps * pace:
                    sweeps = int(0.9 * left / pace)
            elif budget is not None:
                runs = min(BATCH, budget - self.runs)
            elif spent + work > self.worth:
                runs = 1 if batch == 0 else 0  # one there must be
            if runs < 1 or sweeps < 1 or self._is_over():
                return
            begin = time.perf_counter()
            self._batch([partial(self._run, BATCH * batch + k, sweeps) for k in range(runs)])
            pace = (time.perf_counter() - begin) / sweeps
            spent, batch = spent + work, batch + 1

    def _is_over(self) -> bool:
        if self.stopped:
            return True
        return self.end is not None and time.perf_counter() > self.end

    def _stop(self) -> None:
        self.stopped = True

    def _batch(self, runs: list[Callable[[], Cut | None]]) -> None:
        results: list[Cut | None] = [None] * len(runs)
        try:
            run_all(runs, results, self.core.compiled, self._is_over, self._stop)
        finally:
            for one in results:
                if one is not None:
                    self.best.append(one)
                    self.runs += 1
            self.best.sort(key=lambda one: one.cost)  # of equal ones, the earlier
            del self.best[KEPT:]

    def _terms(self, most: float, whole: float) -> Any:
        """Terms with a limit of 2**most elements; 2**whole: what a tree costs that keeps to it."""
        terms = self.core.terms(self.problem.terms(), 2.0 ** min(most, 1000.0))
        terms[3] = float(int((whole + TOO_LARGE) * UNIT))
        return terms

    def _sliced(self, path: Any) -> Cut:
        """A path with labels sliced as it is."""
        cut = self.core.integers(self.graph.words)
        cost = self.core.tree(path).slice_to(self._terms(math.log2(self.most), 0.0), cut)
        return Cut(cost, path, cut)

    def _run(self, run: int, sweeps: int) -> Cut | None:
        """A new tree, or one of the best, annealed with its labels."""
        at, batch = run % BATCH, run // BATCH
        if batch and at >= BATCH - FURTHER:
            # each batch takes the best, and another of those kept
            before = self.best[0 if at == BATCH - 1 else batch % len(self.best)]
            return self._annealed(before.path, before.labels.copy(), run, sweeps, True)
        return self._annealed(
            self._rough(run), self.core.integers(self.graph.words), run, sweeps, False
        )

    def _rough(self, run: int) -> Any:
        """A tree of rough shape, by bipartition or greedy search."""
        core, seed = self.core, seed_of(self.problem, run)
        if run % DRAWN:
            return core.partition(imbalance_of(seed, self.graph.n), seed)
        drawn = [seed_of(self.problem, DRAWN * run + k) for k in range(DRAWN)]
        paths = [core.greedy(*noise_of(one), one) for one in drawn]
        return min(paths, key=lambda one: core.cost_of(one, self.least))

    def _annealed(self, path: Any, cut: Any, run: int, sweeps: int, further: bool) -> Cut | None:
        """The best that is met; `further` from low temperatures, the limit as it is."""
        core, seed = self.core, seed_of(self.problem, run)
        r, state = random.Random(seed), core.state(seed)
        tree, whole, most = core.tree(path), core.cost_of(path, self.least), math.log2(self.most)
        widest = most if further else max(most, tree.log_largest())
        hot, cold, sweeps = (HOT / 4, COLD / 3, COLDER * sweeps) if further else (HOT, COLD, sweeps)
        best: Cut | None = None
        for k in range(ROUNDS):
            temperature = hot * (cold / hot) ** (k / ROUNDS)
            now = max(most, widest - (widest - most) * k / (FALLING * ROUNDS))
            terms = self._terms(now, whole)
            inner = tree.sliced(cut)
            tree = inner.anneal(terms, temperature, temperature, sweeps, state, self._is_over)
            self._give_back(cut, r)
            cost = tree.slice_to(terms, cut)
            whole = cost - self._log_slices(cut)
            if now == most and (best is None or cost < best.cost):
                best = Cut(cost, tree.path(), cut.copy())
            if self._is_over():
                break
        return None if best is None else self._reconfigured(best)

    def _reconfigured(self, best: Cut) -> Cut:
        """With the costliest subtrees of a slice solved exactly."""
        core, terms = self.core, self._terms(math.log2(self.most), best.cost)
        inner = core.tree(best.path).sliced(best.labels)
        inner.reconfigure(terms, LEAVES, min(self.graph.n, SOLVES))
        path, cut = inner.path(), best.labels.copy()
        cost = core.tree(path).slice_to(terms, cut)
        return Cut(cost, path, cut) if cost < best.cost else best

    def _give_back(self, cut: Any, r: random.Random) -> None:
        """Take one label at random from the set of those that are sliced."""
        held = [
            (word, bit)
            for word in range(self.graph.words)
            for bit in range(BITS)
            if (int(cut[word]) >> bit) & 1
        ]
        if held:
            word, bit = r.choice(held)
            cut[word] ^= 1 << bit

    def _log_slices(self, cut: Any) -> float:
        """Logarithm to base 2 of the number of slices."""
        weight = self.graph.weight
        return (
            sum(int(cut[word]).bit_count() * int(weight[word]) for word in range(len(cut))) / UNIT
        )

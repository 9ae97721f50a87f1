"""The default planner: exact for few tensors, else families of search side by side, the best refined.

A search is a sequence of runs, each of which gives a tree: first greedy search, elimination and recursive
bipartition, plain and with noise; then annealing of new trees and of the best found, longer and longer, the
costliest subtrees solved exactly. Runs come in batches that depend on earlier batches alone, so that any
number of threads finds the same trees, and more runs never find a worse one. By default as many are made as
the predicted cost is worth; all of it is counted in work, never in seconds, unless seconds are given.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..._base.options import num_threads
from ...backend.cpu.threads import parallel_for
from ..network import Network
from .acyclic import best_path, forest_of
from .core.run import PATIENT, PLAIN, Graph, core_of, load, load_slices
from .few import best_of_few, few_of
from .parts import Found, by_parts
from .problem import Candidate, Problem

FIRST = 32  # runs of the first batch: greedy search and elimination
ELIMINATION = (1, 9)  # of these, by elimination without noise
CUT = 8  # of the second: bipartition
REFINED = 2  # of the third, which solves subtrees of the best trees
DRAWN = 4  # new trees of which the best is annealed
BATCH = 4  # runs of any other
FRESH = 2  # of these, which begin with trees of their own
BEGIN = 0.1  # of the seconds given, if any: the first batch takes at most, the first annealed one at least
KEPT = 4  # trees that are annealed
SWEEPS = 32  # of the first annealed batch; each other one has twice as many
MOST_SWEEPS = 2048  # where runs are counted
# where no budget is given, planning takes at most this part of the predicted seconds; beyond a few, of a
# long run a small part, and of one that nobody will wait for not more than half a minute
WORTH, FEW, PART, LONGEST = 0.5, 2.0, 0.001, 30.0
FLOOR = (
    5e-5  # seconds for each tensor that are always spent: about what its step takes to be lowered
)
PATIENCE = 1.0  # seconds of search that are worth waiting for a compiler
LARGE = 1 << 24  # words in the sets of a tree beyond which it is not refined
FILLED, MANY = (
    1000,
    3000,
)  # tensors up to which elimination looks at fill, and all families are tried
PLAIN_RUNS = {
    2: (3.0, 0.0),
    3: (0.5, 0.0),
}  # of greedy search without noise, beside the first of 1.0
HEATS = ((1.0, 0.05), (0.3, 0.03), (2.0, 0.1), (0.5, 0.05))
# plain and compiled: leaves of a subtree that is solved exactly, how many are solved for each tree, and
# the seconds that one takes, two neighbours in a greedy run, a proposal, and an entry of a bipartition
LEAVES, SOLVES = (6, 8), (50, 2000)
SOLVE, ENTRY, PROPOSAL, PIN = (1e-3, 6e-5), (1e-5, 5e-7), (1.2e-5, 2e-7), (2e-3, 4e-5)


class Result(NamedTuple):
    """The logarithm of a tree's cost, its path, and how it was found."""

    cost: float
    path: Any
    kind: str


Run: TypeAlias = Callable[[], Result]
T = TypeVar("T")


def auto(network: Network, problem: Problem) -> Candidate:
    """The best tree of the portfolio."""
    if (found := best_of_few(network, problem)) is not None:
        return found
    begin_clock(network, problem)
    end = None if problem.seconds is None else time.perf_counter() + problem.seconds

    stopped = False  # by the user: what is left then is planned at once

    def search(graph: Graph, share: float) -> Found:
        nonlocal stopped
        if graph.n <= most:
            return _exact(graph, problem)
        seconds = None if end is None else share * (end - time.perf_counter())
        found = _Portfolio(graph, problem, 0.0 if stopped else seconds).found()
        stopped = stopped or not found.complete
        return found

    most = few_of(problem)
    return by_parts(network, search, "auto", most)


def _exact(graph: Graph, problem: Problem) -> Found:
    core = core_of(graph)
    path = core.exact(core.terms(problem.terms()))
    return Found(steps_of(path), "optimal", problem.objective != "size")


def soon(network: Network, problem: Problem) -> Candidate | None:
    """What `auto` finds among many tensors, where the contraction is worth no more than the little that is
    always spent: a greedy run and perhaps one more, or dynamic programming where there is no cycle. Else
    None, after the first run. For problems without budget and seconds."""
    is_short, stopped = True, False  # stopped: by the user, who is answered with what there is

    def search(graph: Graph, _: float) -> Found:
        nonlocal is_short, stopped
        if graph.n <= most:
            return _exact(graph, problem)
        portfolio = _Portfolio(graph, problem, None)
        is_short = is_short and portfolio.is_short
        if stopped or not is_short:
            return portfolio.answer()
        found = portfolio.found()
        stopped = not found.complete
        return found

    most = few_of(problem)
    found = by_parts(network, search, "auto", most)
    return found if is_short or stopped else None


def best_tree(
    graph: Graph,
    problem: Problem,
    seconds: float | None,
    start: Sequence[tuple[int, ...]] | None = None,
) -> tuple[Result, bool]:
    """The best tree of the portfolio, and whether the search for it ended by itself.

    start: binary steps of a tree that is refined, or the greedy one if that is better, and no other drawn.
    """
    portfolio = _Portfolio(graph, problem, seconds, start)
    complete = portfolio.found().complete
    return portfolio.best[0], complete


def run_all(
    runs: Sequence[Callable[[], T | None]],
    results: list[T | None],
    compiled: bool,
    is_over: Callable[[], bool],
    stop: Callable[[], None],
) -> None:
    """Fill results with what the runs answer, on several threads if compiled; none begins once it is over.

    An interrupt calls `stop`, at which the runs of other threads look, and is raised again.
    """

    def make(first: int, last: int) -> None:
        for k in range(first, last):
            if is_over():
                break
            try:
                results[k] = runs[k]()
            except KeyboardInterrupt:
                stop()
                raise

    if compiled and len(runs) > 1:
        parallel_for(make, len(runs), min(len(runs), num_threads()))
    else:
        make(0, len(runs))


def begin_clock(network: Network, problem: Problem, slices: bool = False) -> None:
    """Load the compiled core where seconds are given and worth it: the clock does not run meanwhile."""
    seconds = problem.seconds
    if seconds is not None and (seconds >= PATIENCE or len(network.terms) > PLAIN):
        (load_slices if slices else load)()


def is_long(n: int, allowed: float, waits: bool = True) -> bool:
    """Whether a search is worth waiting for a compiler: never by what is compiled already.

    So that the same tree is found whatever was planned before.
    """
    return n > (PLAIN if waits else PATIENT) or allowed >= PATIENCE


class _Portfolio:
    """The runs on one connected network, and the best trees so far."""

    def __init__(
        self,
        graph: Graph,
        problem: Problem,
        seconds: float | None,
        start: Sequence[tuple[int, ...]] | None = None,
    ) -> None:
        self.graph, self.problem, self.begun = graph, problem, start is not None
        self.seconds = seconds or 0.0
        self.end = None if seconds is None else time.perf_counter() + seconds
        self.core = core_of(graph)
        self.terms = self.core.terms(problem.terms())
        path = self.core.greedy()
        cost = self.core.cost_of(path, self.terms)
        if problem.budget is not None:
            allowed = PATIENCE * (problem.budget > FIRST)
        else:
            allowed = worth(problem, cost) if seconds is None else seconds
        self.waits = problem.waits or problem.budget is not None or seconds is not None
        self.long = is_long(graph.n, allowed, self.waits)
        self.refines = 2 * graph.n * graph.words <= LARGE
        self.best = [Result(cost, path, "greedy")]
        self.proven = False
        if start is not None:
            self._keep(start)
        self.runs = 1
        self.drawn: tuple[int, ...] = ()  # of the first batch, before it
        self.stopped = False  # by the user
        degrees = np.bincount(np.asarray(graph.labels, np.int64))
        # pairs of neighbours: greedy search looks at each
        self.pairs = max(len(graph.labels), int((degrees**2).sum()) // 2)
        self.spent = self._rate(ENTRY) * self.pairs

    def _keep(self, steps: Sequence[tuple[int, ...]]) -> None:
        """One more tree to begin with."""
        path = self.core.integers(2 * len(steps))
        for k, (a, b) in enumerate(steps):
            path[2 * k], path[2 * k + 1] = a, b
        self.best.append(Result(self.core.cost_of(path, self.terms), path, "refined"))
        self.best.sort(key=lambda one: one.cost)

    def found(self) -> Found:
        """The best tree when the budget ends, or the user ends it."""
        try:
            self._search()
        except KeyboardInterrupt:
            self.stopped = True
        return self.answer()

    @property
    def is_short(self) -> bool:
        """Whether no more is spent than on any network of its size."""
        return not self.long and worth(self.problem, self.best[0].cost) <= FLOOR * self.graph.n

    def _search(self) -> None:
        if self._cuts_bonds():
            return
        if self.long and not self.waits:
            self._look_again()
        if self.long and not self.core.compiled:
            self._compile()
        n, threads = self.graph.n, min(BATCH, num_threads()) if self.core.compiled else 1
        greedy, cut = self.pairs * self._rate(ENTRY), len(self.graph.labels) * self._rate(PIN)
        enough = True
        if (
            not self.begun and n <= MANY
        ):  # noisy greedy runs may make results of thousands of labels
            enough = self._draws(FIRST - 1, greedy)
        if self.long and not self.begun:  # plain bipartition takes longer than it is worth
            runs = self._allowed(CUT, CUT * cut)
            share = BEGIN if n > MANY else 2 * BEGIN
            draws: list[Run] = [partial(self._draw, -1 - k) for k in range(runs)]
            if self.seconds:  # of a short time one for each thread is worth all that is left
                self._batch(draws[:threads], max(share, 1.0 - cut / self.seconds))
                draws = draws[threads:]
            self._batch(draws, share)
            enough = runs == CUT
        if not (enough and self.refines):
            return
        refine = min(n, self._rate(SOLVES)) * self._rate(SOLVE)
        runs = self._allowed(REFINED, REFINED * refine)
        self._batch([partial(self._refine, one) for one in self.best[:runs]])
        pace, batch, sweeps = self._rate(PROPOSAL) * BATCH / threads, 0, SWEEPS
        if self.end is not None:
            left = self.end - time.perf_counter()
            sweeps = max(sweeps, int(BEGIN * left / (n * pace)))
        while True:
            if self.end is not None:
                # the last batch is to end with the budget, and not to be stopped while it is hot
                left = self.end - time.perf_counter()
                if left < 3.0 * sweeps * n * pace:
                    sweeps = int(0.9 * left / (n * pace))
            elif self.problem.budget is not None:
                sweeps = min(sweeps, MOST_SWEEPS)
            anneal = sweeps * n * self._rate(PROPOSAL) + refine
            runs = self._allowed(BATCH, BATCH * anneal + FRESH * (refine + DRAWN * greedy + cut))
            if runs == 0 or sweeps < 1:
                return
            begin = time.perf_counter()
            self._batch([partial(self._anneal, batch, k, sweeps) for k in range(runs)])
            pace = (time.perf_counter() - begin) / (sweeps * n)
            batch, sweeps = batch + 1, 2 * sweeps

    def _look_again(self) -> None:
        """Whether a compiler is worth it: elimination may find a good tree where greedy search fails."""
        if is_long(self.graph.n, 0.0, self.waits):
            return
        self.long, self.drawn = False, ELIMINATION
        self._batch([partial(self._draw, run) for run in ELIMINATION])
        self.spent += len(ELIMINATION) * self._rate(ENTRY) * self.pairs
        self.long = is_long(self.graph.n, worth(self.problem, self.best[0].cost), self.waits)

    def _draws(self, runs: int, seconds: float) -> bool:
        """Draw so many trees by greedy search and elimination; whether the budget allows them all.

        Plain ones a few at a time, since what is worth planning is soon less as better trees are found.
        """
        left = [run for run in range(1, 1 + runs) if run not in self.drawn]
        # by fill it takes longer than all others: by the clock it takes its turn
        first = () if self.end is not None else ELIMINATION
        order = sorted(left, key=lambda run: run not in first)
        step = len(left) if self.long else BATCH
        for begin in range(0, len(left), step):
            part = order[begin : begin + step]
            count = self._allowed(len(part), (len(part) + (begin == 0)) * seconds)
            self._batch([partial(self._draw, run) for run in part[:count]], BEGIN)
            if count < len(part):
                return False
        return True

    def _compile(self) -> None:
        """Go on with the compiled core."""
        self.core = core_of(self.graph, True)
        self.terms = self.core.terms(self.problem.terms())
        self.best = [one._replace(path=self.core.flat(one.path)) for one in self.best]

    def _cuts_bonds(self) -> bool:
        """Try dynamic programming where there is no cycle; whether nothing is left to be searched for."""
        forest = forest_of(self.graph) if self.problem.objective != "size" else None
        seconds = forest.seconds() if forest else 0.0
        too_long = seconds > (FEW if self.end is None else self.end - time.perf_counter())
        if forest is None or too_long:
            return False
        is_cheap = seconds < 2.0 * FLOOR * self.graph.n and self.problem.budget is None
        if not is_cheap and not self._allowed(1, seconds):
            return False
        path = best_path(forest, self.terms)
        if path is None:
            return False
        found = self._result(self.core.flat(path), "dynamic programming")
        self._keep_best([found])
        if forest.is_product() and self.problem.objective == "flops":
            self.best, self.proven = (
                [found],
                True,
            )  # logarithms do not tell apart what is nearly the same
        return forest.is_product()

    def _allowed(self, runs: int, work: float) -> int:
        """How many of these runs the budget allows, which take so many seconds by prediction."""
        if self._is_over():
            return 0
        if self.end is None and self.problem.budget is None:
            least = FLOOR * self.graph.n
            left = max(least, worth(self.problem, self.best[0].cost)) - self.spent
            if work > left:
                runs, work = max(0, int(runs * left / work)), max(0.0, left)
            self.spent += work
            return runs
        return runs if self.problem.budget is None else min(runs, self.problem.budget - self.runs)

    def _is_over(self, share: float = 0.0) -> bool:
        """Whether the seconds given, if any, are over, or this share of them is all that is left."""
        if self.stopped:
            return True
        return self.end is not None and time.perf_counter() > self.end - share * self.seconds

    def _stop(self) -> None:
        self.stopped = True

    def _rate(self, rates: tuple[Any, Any]) -> Any:
        return rates[1 if self.long else 0]

    def _batch(self, runs: list[Run], most: float = 1.0) -> None:
        """Make these runs, on several threads where they are compiled, and keep the best trees.

        most: the share of the seconds given, if any, after which no other is begun.
        """
        results: list[Result | None] = [None] * len(runs)
        try:
            run_all(
                runs, results, self.core.compiled, lambda: self._is_over(1.0 - most), self._stop
            )
        finally:
            self._keep_best([result for result in results if result is not None])

    def _keep_best(self, results: list[Result]) -> None:
        """Add these to the best trees; of equal ones, the earlier."""
        self.runs += len(results)
        self.best = sorted([*self.best, *results], key=lambda one: one.cost)[:KEPT]

    def _draw(self, run: int) -> Result:
        """A new tree; by bipartition for negative numbers, and for one of those that are annealed."""
        seed = seed_of(self.problem, run)
        if run > 0 and run % 8 == 1:
            by_fill = run // 8 % 2 if self.graph.n <= FILLED else 0
            path, kind = self.core.eliminate(by_fill, 0.0 if run < 16 else 0.3, seed), "elimination"
        elif run < 0 or (run > FIRST and run % DRAWN == 0):
            path = self.core.partition(imbalance_of(seed, self.graph.n), seed)
            kind = "bipartition"
        else:
            modifier, temperature = PLAIN_RUNS.get(run) or noise_of(seed)
            path, kind = self.core.greedy(modifier, temperature, seed), "greedy"
        return self._result(path, kind)

    def _result(self, path: Any, kind: str) -> Result:
        return Result(self.core.cost_of(path, self.terms), path, kind)

    def _anneal(self, batch: int, run: int, sweeps: int) -> Result:
        """Anneal a new tree, or one of the best: a tree's rough shape seldom changes by it."""
        number = FIRST + CUT + REFINED + BATCH * batch + run
        if run < FRESH and not self.begun:
            tried = DRAWN if self.graph.n <= MANY else 1
            drawn = [self._draw(DRAWN * number + k) for k in range(tried)]
            path = self._refine(min(drawn, key=lambda one: one.cost)).path
        else:
            first = 0 if self.begun else FRESH
            path = self.best[(run - first) % len(self.best)].path
        state = self.core.state(seed_of(self.problem, number))
        hot, cold = HEATS[(batch + run) % len(HEATS)]
        tree = self.core.tree(path)
        found = tree.anneal(self.terms, hot, cold, sweeps, state, self._is_over)
        return self._refine(Result(0.0, found.path(), "annealing"))

    def _refine(self, one: Result) -> Result:
        """A tree whose costliest subtrees are solved exactly."""
        path = one.path
        if not self._is_over():
            tree = self.core.tree(path)
            solves = min(self.graph.n, self._rate(SOLVES))
            tree.reconfigure(self.terms, self._rate(LEAVES), solves)
            path = tree.path()
        return self._result(path, one.kind)

    def answer(self) -> Found:
        """The best tree so far."""
        best, seconds = self.best[0], self.problem.seconds
        timed = f" in {seconds:g} s by the clock" if seconds is not None else ""
        count = f", best of {self.runs}{timed}" if self.runs > 1 else ""
        note = "interrupted, " if self.stopped else ""
        by = f"{note}{best.kind}{count}"
        return Found(steps_of(best.path), by, self.proven, complete=not self.stopped)


def noise_of(seed: int) -> tuple[float, float]:
    """Cost modifier and temperature of a greedy run.

    Few trees are good and many bad; the good ones come of high modifiers and low temperatures more often.
    """
    r = random.Random(seed)
    modifier = r.uniform(2.0, 5.0) if r.random() < 0.75 else r.uniform(0.2, 2.0)
    return modifier, float(10.0 ** r.uniform(-3.0, -0.5))


def imbalance_of(seed: int, n: int) -> float:
    """How unevenly a run of bipartition cuts; large networks less so, since it takes more cuts then."""
    r = random.Random(seed)
    return r.uniform(0.3, 0.5) if n > 20_000 else r.uniform(0.6, 0.97)


def worth(problem: Problem, log_cost: float) -> float:
    """Seconds of planning, as work is counted, that a contraction of this cost is worth."""
    seconds = problem.seconds_of(log_cost)
    return min(WORTH * seconds, FEW + PART * seconds, LONGEST)


def seed_of(problem: Problem, run: int) -> int:
    """The seed of a run."""
    return problem.seed * 1000003 + run


def steps_of(path: Any) -> tuple[tuple[int, int], ...]:
    """The steps of a flat path, as Python's integers."""
    flat = path if isinstance(path, list) else path.tolist()
    return tuple(zip(flat[::2], flat[1::2], strict=True))

"""Greedy search: contract the pair that shrinks memory most, again and again; O(E log E).

The score of a pair is size(result) - size(a) - size(b), as in opt_einsum's greedy
(https://dgasmith.github.io/opt_einsum). With a temperature the score, on a logarithmic scale, is
disturbed by Gumbel noise, so that repeated runs sample different trees; the best of a number of runs
is kept ("random-greedy"). Labels on many tensors (hyperedges) propose only pairs of neighbours in
their list of holders, which keeps the list of candidates short; a step still looks through the
holders of its labels, so a label on d tensors costs O(d^2) in all, with a small constant.
"""

from __future__ import annotations

import heapq
import math
import random

from ..cost import Labels, size_of, total_cost
from ..network import Network
from ..tree import ContractionTree, Step
from .problem import Candidate, Problem

CROWD = 12  # holders of a label up to which all their pairs are candidates
MULTIPLICATIONS_PER_STEP = 200_000  # what the CPU multiplies while one step is planned
MAX_RUNS = 128


def greedy(network: Network, problem: Problem) -> Candidate:
    """One deterministic greedy run."""
    return Candidate(ContractionTree(len(network.terms), _Search(network, None).path()), "greedy")


def random_greedy(network: Network, problem: Problem) -> Candidate:
    """The best of one plain and several noisy runs, as many as the predicted cost is worth."""
    best = greedy(network, problem).tree
    best_key = problem.key(network, best)
    runs = worthwhile_runs(network, best, problem)
    source = random.Random(problem.seed)
    for run in range(1, runs):
        tree = noisy_greedy(network, random.Random(source.getrandbits(64)), temperature_of(run))
        key = problem.key(network, tree)
        if key < best_key:
            best, best_key = tree, key
    return Candidate(best, "greedy" if runs <= 1 else f"random-greedy, {runs} runs")


def noisy_greedy(network: Network, source: random.Random, temperature: float) -> ContractionTree:
    """One run with disturbed scores."""
    noise = _Noise(source, temperature)
    return ContractionTree(len(network.terms), _Search(network, noise).path())


def temperature_of(run: int) -> float:
    """Temperatures from mild to wild, again and again."""
    return 0.1 * 1.3 ** (run % 12)


def worthwhile_runs(network: Network, tree: ContractionTree, problem: Problem) -> int:
    """Trials whose planning takes about as long as contracting along `tree`; or the budget."""
    if problem.budget is not None:
        return problem.budget
    cost = total_cost(network, tree).cost
    return max(1, min(MAX_RUNS, cost // (MULTIPLICATIONS_PER_STEP * len(network.terms))))


class _Noise:
    """Gumbel noise on the logarithm of a score."""

    def __init__(self, source: random.Random, temperature: float) -> None:
        self.source, self.temperature = source, temperature

    def disturb(self, score: int) -> float:
        gumbel = -math.log(-math.log(self.source.random() or 0.5))
        logarithm = math.log(abs(score) + 1)
        signed = logarithm if score >= 0 else -logarithm  # copysign takes no integer beyond a float
        return signed - self.temperature * gumbel * max(1.0, logarithm / 8)


class _Search:
    """One greedy run over flat tables; proposals that are out of date are dropped when popped."""

    def __init__(self, network: Network, noise: _Noise | None) -> None:
        self.extents, self.open, self.noise = network.extents, network.open, noise
        self.tensors: dict[int, Labels] = dict(enumerate(network.carried))
        self.sizes = {
            tensor: size_of(labels, self.extents) for tensor, labels in self.tensors.items()
        }
        self.holders: dict[int, set[int]] = {}
        for tensor, labels in self.tensors.items():
            for label in labels:
                self.holders.setdefault(label, set()).add(tensor)
        self.heap: list[tuple[float, int, int, int]] = []
        self.proposed: set[tuple[int, int]] = set()
        self.next = len(self.tensors)
        self.steps: list[Step] = []

    def path(self) -> tuple[Step, ...]:
        if len(self.tensors) == 1:
            return ((0,),)
        for holders in self.holders.values():
            self._propose_pairs(sorted(holders, key=lambda tensor: (self.sizes[tensor], tensor)))
        while self.heap:
            _, _, a, b = heapq.heappop(self.heap)
            if a in self.tensors and b in self.tensors:
                self._contract(a, b)
        self._join_components()
        return tuple(self.steps)

    def _propose_pairs(self, holders: list[int]) -> None:
        reach = len(holders) if len(holders) <= CROWD else 2
        for index, a in enumerate(holders):
            for b in holders[index + 1 : index + 1 + reach]:
                self._propose(min(a, b), max(a, b))

    def _propose(self, a: int, b: int) -> None:
        if (a, b) in self.proposed:
            return
        self.proposed.add((a, b))
        size = size_of(self._result(a, b), self.extents)
        score: float = size - self.sizes[a] - self.sizes[b]
        if self.noise is not None:
            score = self.noise.disturb(int(score))
        heapq.heappush(self.heap, (score, size, a, b))

    def _result(self, a: int, b: int) -> Labels:
        left, right = self.tensors[a], self.tensors[b]
        holders, open_ = self.holders, self.open
        # a label stays if the output or a third tensor carries it
        return frozenset(
            label
            for label in left | right
            if label in open_ or len(holders[label]) > (label in left) + (label in right)
        )

    def _contract(self, a: int, b: int) -> int:
        result, new = self._result(a, b), self.next
        union = self.tensors.pop(a) | self.tensors.pop(b)
        for label in union:
            self.holders[label] -= {a, b}
        for label in result:
            self.holders[label].add(new)
        self.tensors[new], self.sizes[new] = result, size_of(result, self.extents)
        self.steps.append((a, b))
        self.next += 1
        for label in result:
            self._propose_neighbours(new, self.holders[label])
        return new

    def _propose_neighbours(self, new: int, holders: set[int]) -> None:
        others = holders - {new}
        if len(others) > CROWD:
            others = set(
                heapq.nsmallest(2, others, key=lambda tensor: (self.sizes[tensor], tensor))
            )
        for other in sorted(others):
            self._propose(other, new)

    def _join_components(self) -> None:
        """Outer products of what shares no label, smallest first."""
        queue = [(self.sizes[tensor], tensor) for tensor in self.tensors]
        heapq.heapify(queue)
        while len(queue) > 1:
            _, a = heapq.heappop(queue)
            _, b = heapq.heappop(queue)
            new = self._contract(min(a, b), max(a, b))
            heapq.heappush(queue, (self.sizes[new], new))

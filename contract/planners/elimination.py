"""Variable elimination: sum one label after the other, by contracting all tensors that carry it.

The next label is the one whose elimination makes the smallest tensor (min-size, the weighted form of
min-degree; U. Kjaerulff, "Triangulation of graphs", 1990). It suits networks of small tensors with
labels on many of them, such as factor graphs, where greedy search over pairs builds large products.
"""

from __future__ import annotations

import heapq
import math
import random

from ..cost import Labels, size_of
from ..network import Network
from ..tree import ContractionTree, Step
from .problem import Candidate, Problem


def elimination(network: Network, problem: Problem) -> Candidate:
    """One deterministic run of min-size elimination."""
    return Candidate(eliminate(network, None, 0.0), "elimination")


def eliminate(
    network: Network, source: random.Random | None, temperature: float
) -> ContractionTree:
    """A tree by min-size elimination; with a source, sizes are disturbed on a logarithmic scale."""
    if len(network.terms) == 1:
        return ContractionTree(1, ((0,),))
    state = _State(network)
    for label in sorted(
        state.closed
    ):  # one draw a label, so that a score changes only with the tensors
        state.noise[label] = temperature * _gumbel(source) if source is not None else 0.0
    queue = [(state.score(label), label) for label in state.closed]
    heapq.heapify(queue)
    while queue:
        score, label = heapq.heappop(queue)
        if label not in state.closed or score != state.score(label):
            continue  # summed already, or queued again with its new score
        for neighbour in state.eliminate(label):
            heapq.heappush(queue, (state.score(neighbour), neighbour))
    state.join(list(state.tensors))
    return ContractionTree(len(network.terms), tuple(state.steps))


def _gumbel(source: random.Random) -> float:
    return -math.log(-math.log(source.random() or 0.5))


class _State:
    """The tensors that are left, the labels not yet summed, and the steps so far."""

    def __init__(self, network: Network) -> None:
        self.extents, self.open = network.extents, network.open
        self.tensors: dict[int, Labels] = dict(enumerate(network.carried))
        self.holders: dict[int, set[int]] = {}
        for tensor, labels in self.tensors.items():
            for label in labels:
                self.holders.setdefault(label, set()).add(tensor)
        self.closed = {label for label in self.holders if label not in self.open}
        self.noise: dict[int, float] = {}
        self.steps: list[Step] = []
        self.next = len(self.tensors)

    def score(self, label: int) -> float:
        """log2 of the size of all tensors that carry the label as one, less the label's noise."""
        union = frozenset().union(*(self.tensors[tensor] for tensor in self.holders[label]))
        size = math.fsum(math.log2(self.extents[x]) for x in union if self.extents[x] > 1)
        return size - self.noise[label]

    def eliminate(self, label: int) -> list[int]:
        """Contract all that carry the label; returns the labels whose scores have changed."""
        new = self.join(list(self.holders[label]))
        self.closed.discard(label)  # alone on one tensor it is summed in that tensor's next step
        return sorted(self.tensors[new] & self.closed)

    def join(self, tensors: list[int]) -> int:
        """Contract these tensors to one, the two smallest first."""
        queue = [(size_of(self.tensors[tensor], self.extents), tensor) for tensor in tensors]
        heapq.heapify(queue)
        while len(queue) > 1:
            (_, a), (_, b) = heapq.heappop(queue), heapq.heappop(queue)
            heapq.heappush(queue, self._contract(min(a, b), max(a, b)))
        return queue[0][1]

    def _contract(self, a: int, b: int) -> tuple[int, int]:
        union = self.tensors.pop(a) | self.tensors.pop(b)
        for label in union:
            self.holders[label] -= {a, b}
        kept = frozenset(label for label in union if label in self.open or self.holders[label])
        self.closed -= union - kept
        new = self.next
        for label in kept:
            self.holders[label].add(new)
        self.tensors[new] = kept
        self.steps.append((a, b))
        self.next += 1
        return size_of(kept, self.extents), new

"""Exact search for few tensors: dynamic programming over all subsets, outer products included.

cost(S) = min over splits S = A + B of cost(A) + cost(B) + size(labels of A's and B's results), where
the labels of a subset's result do not depend on how it was contracted. O(3^n) splits.
"""

from __future__ import annotations

from ..._base.errors import OptionError
from ..cost import Labels, size_of
from ..network import Network
from ..tree import ContractionTree, Step
from .problem import Candidate, Problem

MOST = 12


def optimal(network: Network, problem: Problem) -> Candidate:
    """The tree of least cost (objective "size": of smallest largest intermediate)."""
    n = len(network.terms)
    if n > MOST:
        raise OptionError(
            f'planner "optimal" searches up to {MOST} tensors exhaustively, this network has {n}; '
            f'use "auto", "dp" (opt_einsum\'s dynamic programming) or a path of your own'
        )
    if n == 1:
        return Candidate(ContractionTree(1, ((0,),)), "optimal", "optimal")
    table = _Subsets(network, problem.objective == "size")
    return Candidate(ContractionTree(n, table.path()), "optimal", "optimal")


def best_steps(network: Network) -> tuple[tuple[Step, ...], int]:
    """The cheapest steps for at least two tensors, in SSA form, and their cost."""
    table = _Subsets(network, by_size=False)
    return table.path(), table.best[-1][0]


class _Subsets:
    """Results and best splits of every subset of tensors, subsets as bit masks."""

    def __init__(self, network: Network, by_size: bool) -> None:
        self.n = n = len(network.terms)
        extents, every = network.extents, (1 << n) - 1
        masks = [0] * len(extents)  # the tensors that carry each label
        for tensor, labels in enumerate(network.carried):
            for label in labels:
                masks[label] |= 1 << tensor
        self.results: list[Labels] = [
            frozenset(
                label
                for label, mask in enumerate(masks)
                if mask & subset and (label in network.open or mask & ~subset & every)
            )
            for subset in range(1 << n)
        ]
        for tensor, labels in enumerate(network.carried):
            self.results[1 << tensor] = labels  # a label of one tensor alone goes in its first step
        sizes = [size_of(labels, extents) for labels in self.results]
        self.split = [0] * (1 << n)
        self.best = best = [(0, 0)] * (1 << n)
        for subset in range(1, 1 << n):
            if subset & (subset - 1) == 0:
                continue
            found: tuple[int, int] | None = None
            lowest = subset & -subset
            left = (subset - 1) & subset
            while left:
                if left & lowest:  # each unordered split once
                    right = subset ^ left
                    step = size_of(self.results[left] | self.results[right], extents)
                    cost = best[left][1 if by_size else 0] + best[right][1 if by_size else 0] + step
                    if by_size:
                        key = (max(best[left][0], best[right][0], sizes[subset]), cost)
                    else:
                        key = (cost, max(best[left][1], best[right][1], sizes[subset]))
                    if found is None or key < found:
                        found, self.split[subset] = key, left
                left = (left - 1) & subset
            best[subset] = found or (0, 0)

    def path(self) -> tuple[Step, ...]:
        """The best tree of the full set, leaves first, by an explicit stack."""
        order: list[int] = []
        stack = [(1 << self.n) - 1]
        while stack:
            subset = stack.pop()
            if subset & (subset - 1):
                order.append(subset)
                stack += [self.split[subset], subset ^ self.split[subset]]
        names = {1 << tensor: tensor for tensor in range(self.n)}
        steps: list[Step] = []
        for subset in reversed(order):
            left = self.split[subset]
            names[subset] = self.n + len(steps)
            steps.append((names[left], names[subset ^ left]))
        return tuple(steps)

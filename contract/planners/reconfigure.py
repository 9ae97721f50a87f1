"""Subtree reconfiguration: the best order for a few neighbouring steps, again and again.

A subtree of at most LEAVES leaves is cut out below a costly step and solved exactly by `optimal`'s
dynamic programming; what it contracts to does not change, so the rest of the tree stays valid and the
total cost can only fall. The method is that of cotengra (J. Gray, S. Kourtis, Quantum 5, 410 (2021)).
"""

from __future__ import annotations

import heapq

from ..cost import Labels, size_of, walk
from ..network import Network
from ..tree import ContractionTree, Step
from .optimal import best_steps

LEAVES = 7


def reconfigure(network: Network, tree: ContractionTree, solves: int) -> ContractionTree:
    """A tree of at most the cost of `tree`, after at most `solves` exact searches."""
    if solves < 1 or len(tree.ssa_path) < 3 or any(len(step) != 2 for step in tree.ssa_path):
        return tree
    state = _Tree(network, tree)
    improved = True
    while improved and solves > 0:
        improved = False
        nodes = list(state.children)
        for node in sorted(nodes, key=lambda node: (-state.step_cost(node), node)):
            if solves <= 0:
                break
            solves -= 1
            improved |= state.improve(node)
    return state.tree()


class _Tree:
    """Children and labels of every inner node; node numbers are kept when a subtree is replaced."""

    def __init__(self, network: Network, tree: ContractionTree) -> None:
        self.network, self.n = network, tree.n
        self.labels: dict[int, Labels] = dict(enumerate(network.carried))
        self.children: dict[int, tuple[int, int]] = {}
        for index, (step, labels) in enumerate(
            zip(tree.ssa_path, walk(network, tree), strict=True)
        ):
            self.labels[tree.n + index] = labels.result
            self.children[tree.n + index] = (step[0], step[1])
        self.root = tree.n + len(tree.ssa_path) - 1

    def step_cost(self, node: int) -> int:
        a, b = self.children[node]
        return size_of(self.labels[a] | self.labels[b], self.network.extents)

    def improve(self, node: int) -> bool:
        """Replace the subtree below `node` by an optimal one if that is cheaper."""
        inner, leaves = self._cut(node)
        if len(leaves) < 3:
            return False
        sizes = {x: self.network.extents[x] for leaf in leaves for x in self.labels[leaf]}
        part = Network(
            [sorted(self.labels[leaf]) for leaf in leaves], sorted(self.labels[node]), sizes
        )
        steps, cost = best_steps(part)
        if cost >= sum(self.step_cost(one) for one in inner):
            return False
        names, free = list(leaves), [one for one in inner if one != node]
        for index, (a, b) in enumerate(steps):
            name = node if index == len(steps) - 1 else free.pop()
            self.children[name] = (names[a], names[b])
            names.append(name)
        for name, step in zip(
            names[len(leaves) :], walk(part, ContractionTree(len(leaves), steps)), strict=True
        ):
            self.labels[name] = frozenset(part.labels[label] for label in step.result)  # type: ignore[misc]
        return True

    def _cut(self, node: int) -> tuple[list[int], list[int]]:
        """Inner nodes and leaves of the subtree below `node`, its costliest steps opened first."""
        inner, leaves = [node], list(self.children[node])
        queue = [(-self.step_cost(x), x) for x in leaves if x in self.children]
        heapq.heapify(queue)
        while queue and len(leaves) < LEAVES:
            _, opened = heapq.heappop(queue)
            leaves.remove(opened)
            inner.append(opened)
            for child in self.children[opened]:
                leaves.append(child)
                if child in self.children:
                    heapq.heappush(queue, (-self.step_cost(child), child))
        return inner, leaves

    def tree(self) -> ContractionTree:
        """The flat form, children before parents, by an explicit stack."""
        order: list[int] = []
        stack = [self.root]
        while stack:
            node = stack.pop()
            if node in self.children:
                order.append(node)
                stack += self.children[node]
        number = {leaf: leaf for leaf in range(self.n)}
        steps: list[Step] = []
        for node in reversed(order):
            number[node] = self.n + len(steps)
            a, b = self.children[node]
            steps.append((min(number[a], number[b]), max(number[a], number[b])))
        return ContractionTree(self.n, tuple(steps))

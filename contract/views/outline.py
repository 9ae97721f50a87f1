"""Which part of a tree is shown when not all of it can be: its costliest branches, each cut where it gets
cheap or deep."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from ..steps import PlannedStep
from ..tree import ContractionTree


@dataclass(frozen=True, slots=True)
class Node:
    """A tensor of the tree that is shown.

    tensor: its number as in the SSA form.
    parent: the place in the outline of the result that it goes into, -1 at the root.
    depth: steps below the root.
    n_hidden: tensors below it, or operands of its step, that are not shown.
    hidden_cost: multiplications of the steps below it that are not shown.
    """

    tensor: int
    parent: int
    depth: int
    n_hidden: int
    hidden_cost: int


@dataclass(frozen=True, slots=True)
class Outline:
    """The tensors shown, each before those it is made of; and how many operands and steps are not."""

    nodes: tuple[Node, ...]
    children: tuple[tuple[int, ...], ...]  # of each node, by place
    n_hidden: int


def outline(
    tree: ContractionTree,
    steps: Sequence[PlannedStep],
    most: int,
    deepest: int | None = None,
    widest: int | None = None,
) -> Outline:
    """At most about `most` tensors of a tree, from the root on always below the costliest result that is
    reached; none more than `deepest` steps down, of a step's operands at most `widest`."""
    n, root = tree.n, tree.n + len(steps) - 1
    costs, counts = [0] * n, [1] * n  # of the whole subtree: multiplications, tensors
    for step in steps:
        costs.append(step.cost + sum(costs[x] for x in step.operands))
        counts.append(1 + sum(counts[x] for x in step.operands))
    depth = {root: 0}
    shown: dict[int, tuple[int, ...]] = {}
    heap = [(-costs[root], root)]
    room = most - 1
    while heap:
        node = heapq.heappop(heap)[1]
        children = _widest(steps[node - n].operands, costs, widest)
        if shown and len(children) > room:
            continue  # another result may have fewer operands
        room -= len(children)
        shown[node] = children
        for child in children:
            depth[child] = depth[node] + 1
            if child >= n and (deepest is None or depth[child] < deepest):
                heapq.heappush(heap, (-costs[child], child))
    nodes: list[Node] = []
    stack = [(root, -1)]
    while stack:
        tensor, parent = stack.pop()
        inside = shown.get(tensor, ())
        below = steps[tensor - n].operands if tensor >= n else ()
        hidden = set(below).difference(inside)
        nodes.append(
            Node(
                tensor,
                parent,
                depth[tensor],
                sum(counts[x] for x in hidden),
                sum(costs[x] for x in hidden),
            )
        )
        stack.extend((child, len(nodes) - 1) for child in reversed(inside))
    children_of: list[list[int]] = [[] for _ in nodes]
    for place, one in enumerate(nodes[1:], 1):
        children_of[one.parent].append(place)
    hidden_tensors = n + len(steps) - len(nodes)
    return Outline(tuple(nodes), tuple(map(tuple, children_of)), hidden_tensors)


def _widest(operands: tuple[int, ...], costs: list[int], widest: int | None) -> tuple[int, ...]:
    """The costliest operands of a step, in their order."""
    if widest is None or len(operands) <= widest:
        return operands
    chosen = set(sorted(operands, key=lambda x: (-costs[x], x))[:widest])
    return tuple(x for x in operands if x in chosen)


def places(shown: Outline) -> tuple[list[float], list[int]]:
    """Where to draw each node, across from 0 on, and downwards by depth.

    Branches stand side by side as close as their outlines allow, a result above their middle. The larger
    one stands to the right and to the left in turn, so that a long path goes straight down. O(nodes).
    """
    nodes, children = shown.nodes, shown.children
    width = [1] * len(nodes)  # in leaves
    for place in reversed(range(len(nodes))):
        if children[place]:
            width[place] = sum(width[child] for child in children[place])
    beside = [0.0] * len(nodes)  # of its parent, to the right
    hulls: dict[int, _Hull] = {}
    for place in reversed(range(len(nodes))):
        turn = 1 if nodes[place].depth % 2 else -1
        ordered = sorted(children[place], key=lambda x: turn * width[x])
        hull = _Hull([], [], 0.0)
        for child in ordered:
            beside[child], hull = hull.joined(hulls.pop(child))
        middle = (beside[ordered[0]] + beside[ordered[-1]]) / 2 if ordered else 0.0
        for child in ordered:
            beside[child] -= middle
        hulls[place] = hull.below(middle)
    across = [0.0] * len(nodes)
    for place, node in enumerate(nodes[1:], 1):
        across[place] = across[node.parent] + beside[place]
    left = min(across)
    return [x - left for x in across], [node.depth for node in nodes]


@dataclass(slots=True)
class _Hull:
    """The leftmost and the rightmost node at each depth of a branch, the deepest first, all `shift` off."""

    left: list[float]
    right: list[float]
    shift: float

    def joined(self, other: _Hull) -> tuple[float, _Hull]:
        """`other` to the right of this: how far, and both. O(the smaller height)."""
        common = min(len(self.left), len(other.left))
        apart = max(
            (
                self.right[-k] + self.shift - other.left[-k] - other.shift + 1.0
                for k in range(1, common + 1)
            ),
            default=0.0,
        )
        moved = other.shift + apart
        if len(self.left) >= len(other.left):
            for k in range(1, common + 1):
                self.right[-k] = other.right[-k] + moved - self.shift
            return apart, self
        for k in range(1, common + 1):
            other.left[-k] = self.left[-k] + self.shift - moved
        other.shift = moved
        return apart, other

    def below(self, middle: float) -> _Hull:
        """With a root above, from which all is seen."""
        self.shift -= middle
        self.left.append(-self.shift)
        self.right.append(-self.shift)
        return self

"""A tree of one network made a tree of another: leaves that are gone cut off, new ones grafted on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from .network import Network
from .tree import ContractionTree, Step, depth_first

NEIGHBOURS, TRIED = 8, 64  # of a new tensor that are looked at, and places for it
WORK = (
    200_000  # steps that are weighed to find places; beyond, a new tensor stays beside a neighbour
)


class _Branches:
    """A binary tree under construction: 0 to n - 1 are the leaves, the others have two children."""

    def __init__(self, n: int) -> None:
        self.n, self.root = n, -1
        self.parent: dict[int, int] = {}
        self.child: dict[int, list[int]] = {}
        self.next = n

    def join(self, a: int, b: int) -> int:
        node = self.next
        self.next += 1
        self.child[node] = [a, b]
        self.parent[a] = self.parent[b] = node
        return node

    def graft(self, leaf: int, beside: int) -> None:
        """Join a leaf that is in no tree with the branch of `beside`."""
        above = self.parent.pop(beside, -1)
        node = self.join(beside, leaf)
        if above < 0:
            self.root = node
        else:
            self.child[above][self.child[above].index(beside)] = node
            self.parent[node] = above

    def cut(self, leaf: int) -> int:
        """Take a leaf off; returns what it was joined with."""
        node = self.parent.pop(leaf)
        a, b = self.child.pop(node)
        other = b if a == leaf else a
        above = self.parent.pop(node, -1)
        if above < 0:
            self.root = other
            del self.parent[other]
        else:
            self.child[above][self.child[above].index(node)] = other
            self.parent[other] = above
        return other

    def above(self, node: int) -> list[int]:
        """A node and all that it is part of."""
        nodes = [node]
        while nodes[-1] in self.parent:
            nodes.append(self.parent[nodes[-1]])
        return nodes

    def steps(self) -> tuple[Step, ...]:
        """In SSA form, a subtree finished before the next is begun."""
        order, stack = list[int](), [self.root]
        while stack:
            node = stack.pop()
            if node >= self.n:
                order.append(node)
                stack.extend(self.child[node])
        names: dict[int, int] = {}
        steps: list[Step] = []
        for node in reversed(order):
            names[node] = self.n + len(steps)
            steps.append(tuple([x if x < self.n else names[x] for x in self.child[node]]))
        return depth_first(self.n, steps)


def regrown(
    tree: ContractionTree,
    leaf: Mapping[int, int],
    network: Network,
    log_cost: Callable[[tuple[Step, ...]], float],
) -> ContractionTree:
    """The tree of `network` that joins tensors in the order in which `tree` does.

    Args:
        tree: of another network; a step of more than two tensors is taken as several.
        leaf: for tensors of that network which tensor of this one they are, each of another one.
        network: of two tensors or more.
        log_cost: what a path of binary steps costs, by which a place for a new tensor is chosen.

    Returns:
        ContractionTree: of binary steps. A new tensor stands beside a neighbour, or one of the branches that
        this is part of, where it costs least; which is looked for one by one, and not for many.
    """
    n = len(network.terms)
    if n == 1:
        return ContractionTree(1, ((0,),))
    branches = _Branches(n)
    made: dict[int, int] = dict(leaf)
    for index, step in enumerate(tree.ssa_path):
        parts = deque(made[tensor] for tensor in step if tensor in made)
        while len(parts) > 1:
            parts.append(branches.join(parts.popleft(), parts.popleft()))
        if parts:
            made[tree.n + index] = parts[0]
    known = set(leaf.values())
    new = [tensor for tensor in range(n) if tensor not in known]
    top = made.get(tree.n + len(tree.ssa_path) - 1)
    branches.root = new.pop(0) if top is None else top
    near = _neighbours(network)
    waiting = _nearest_first(new, near, {*range(n)} - {*new})
    placed = {*range(n)} - {*new}
    for tensor in waiting:
        beside = next((other for other in near[tensor] if other in placed), branches.root)
        branches.graft(tensor, beside)
        placed.add(tensor)
    work = WORK
    for tensor in waiting:
        places = _places(branches, tensor, near[tensor])
        work -= n * len(places)
        if work < 0:
            break
        _place(branches, tensor, places, log_cost)
    return ContractionTree(n, branches.steps())


def _neighbours(network: Network) -> list[list[int]]:
    """For each tensor a few that share labels with it, those that share the largest first."""
    holders: list[list[int]] = [[] for _ in network.extents]
    for tensor, labels in enumerate(network.carried):
        for label in labels:
            if network.extents[label] > 1:
                holders[label].append(tensor)
    near: list[list[int]] = []
    for tensor, labels in enumerate(network.carried):
        shared: dict[int, int] = {}
        for label in sorted(labels):
            for other in holders[label][: 4 * NEIGHBOURS]:
                if other != tensor:
                    shared[other] = shared.get(other, 1) * network.extents[label]
        near.append(sorted(shared, key=lambda other: (-shared[other], other)))
    return near


def _nearest_first(new: list[int], near: list[list[int]], placed: set[int]) -> list[int]:
    """New tensors in an order in which each has a neighbour before it, as far as that can be."""
    order: list[int] = []
    waiting, there = dict.fromkeys(new), set(placed)
    front = deque(t for t in new if any(other in there for other in near[t]))
    while waiting:
        tensor = front.popleft() if front else next(iter(waiting))
        if tensor not in waiting:
            continue
        del waiting[tensor]
        order.append(tensor)
        there.add(tensor)
        front += [other for other in near[tensor] if other in waiting]
    return order


def _places(branches: _Branches, tensor: int, near: list[int]) -> list[int]:
    """Nodes beside which a leaf may stand: its neighbours, and what they are part of."""
    own = branches.parent[tensor]
    found = dict.fromkeys(
        node for other in near[:NEIGHBOURS] for node in branches.above(other) if node != own
    )
    return list(found)[:TRIED]


def _place(
    branches: _Branches,
    tensor: int,
    places: list[int],
    log_cost: Callable[[tuple[Step, ...]], float],
) -> None:
    best, at = log_cost(branches.steps()), branches.cut(tensor)
    for place in places:
        branches.graft(tensor, place)
        cost = log_cost(branches.steps())
        branches.cut(tensor)
        if cost < best - 1e-9:
            best, at = cost, place
    branches.graft(tensor, at)

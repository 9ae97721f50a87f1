"""A network in parts that are searched one by one.

What needs no search: tensors with the same labels are multiplied, parts that share no label come apart.

Multiplying two tensors with the same labels first is part of some best tree: what uses one of them later
gets no larger by it, and the step that takes the other costs at least as much. It is not where some tensor
alone has a label that is summed: each of the two could be the one with which that tensor gets small.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..cost import Labels, size_of
from ..network import Network
from ..tree import ContractionTree, Step, depth_first
from .core.run import PATIENT, PLAIN, Graph, core_of, is_ready
from .problem import Candidate


@dataclass(frozen=True)
class Part:
    """A connected part: its tensors by their numbers in the whole tree, and the labels of each."""

    tensors: tuple[int, ...]
    labels: tuple[Labels, ...]
    graph: Graph | None = None


@dataclass(frozen=True)
class Found:
    """The steps that a search found for a part, in SSA form, by whom, and whether none are better.

    And the labels to slice, by their numbers in the network; and whether the search ended by itself.
    """

    path: tuple[tuple[int, int], ...]
    planner: str
    exact: bool = False
    sliced: tuple[int, ...] = ()
    complete: bool = True


def by_parts(
    network: Network, search: Callable[[Graph, float], Found], name: str, whole: int = 0
) -> Candidate:
    """The tree of a network whose parts are searched by `search`; `name` where there is nothing to search.

    search is given a part, and what share it is of all that are left to search, in tensors.

    Up to `whole` tensors are searched as one part: that it pays to multiply what shares no label is rare,
    but "x(a), y(ab), z(c) -> abc" is cheapest as (x z) y where c is smaller than b.
    """
    n = len(network.terms)
    if n == 1:
        return Candidate(ContractionTree(1, ((0,),)), name, "optimal")
    steps, parts = simplify(network)
    if 1 < sum(len(part.tensors) for part in parts) <= whole:
        parts = [
            Part(
                tuple(tensor for part in parts for tensor in part.tensors),
                tuple(labels for part in parts for labels in part.labels),
            )
        ]
    results: list[tuple[int, Labels]] = []
    found: list[Found] = []
    left = sum(len(part.tensors) for part in parts if len(part.tensors) > 1)
    for part in parts:
        if len(part.tensors) > 1:
            graph = part.graph or Graph.of(part.labels, network.open, network.extents)
            found.append(search(graph, graph.n / left))
            left -= graph.n
            names = list(part.tensors)
            for a, b in found[-1].path:
                names.append(n + len(steps))
                steps.append((min(names[a], names[b]), max(names[a], names[b])))
            kept = frozenset().union(*part.labels) & network.open
            results.append((names[-1], kept))
        else:
            results.append((part.tensors[0], part.labels[0]))
    is_best = all(one.exact for one in found) and len(parts) == 1
    join(steps, n, results, network.extents)
    by = ", ".join(dict.fromkeys(one.planner for one in found)) or name
    tree = ContractionTree(n, depth_first(n, steps))
    sliced = tuple(sorted(label for one in found for label in one.sliced))
    complete = all(one.complete for one in found)
    return Candidate(tree, by, "optimal" if is_best else None, sliced, complete)


def simplify(network: Network) -> tuple[list[Step], list[Part]]:
    """The steps that are done first, in SSA form, and the connected parts of what is left; O(labels)."""
    n = len(network.terms)
    extents, steps = network.extents, list[Step]()
    rows: Sequence[Labels] = network.carried
    if min(extents, default=2) < 2:
        rows = [frozenset([x for x in carried if extents[x] > 1]) for carried in rows]
    alive = dict(enumerate(rows))
    if len(set(rows)) < n:
        _merge(alive, steps, network)
    if n > PATIENT or (n > PLAIN and is_ready()):  # either way the same parts
        return steps, _connected_many(alive, network)
    return steps, connected(alive, len(extents))


def _merge(alive: dict[int, Labels], steps: list[Step], network: Network) -> None:
    """Multiply tensors that carry the same labels, as long as there are any."""
    n, holders = len(network.terms), [0] * len(network.extents)
    for labels in (*alive.values(), network.open):
        for label in labels:
            holders[label] += 1
    if 1 in [holders[x] for x in set().union(*alive.values()).difference(network.open)]:
        return
    alike: dict[Labels, int] = {}
    queue = list(alive)
    for tensor in queue:  # which grows by what is made
        labels = alive[tensor]
        other = alike.setdefault(labels, tensor)
        if other == tensor:
            continue
        del alike[labels], alive[tensor], alive[other]
        for label in labels:
            holders[label] -= 1
        new = n + len(steps)
        steps.append((min(other, tensor), max(other, tensor)))
        # where nobody else has a label it is summed in this step
        alive[new] = frozenset([x for x in labels if holders[x] > 1])
        queue.append(new)


def _connected_many(alive: dict[int, Labels], network: Network) -> list[Part]:
    """Parts that labels connect, of a large network."""
    tensors, rows = tuple(alive), tuple(alive.values())
    graph = Graph.of(rows, network.open, network.extents)
    roots = list(core_of(graph).components())
    if len(set(roots)) == 1:
        return [Part(tensors, rows, graph)]
    parts: dict[int, list[int]] = {}
    for tensor, root in zip(tensors, roots, strict=True):
        parts.setdefault(root, []).append(tensor)
    return [Part(tuple(one), tuple(alive[t] for t in one)) for one in parts.values()]


def connected(alive: dict[int, Labels], extent: int) -> list[Part]:
    """Parts that labels connect, by union-find over labels."""
    root = list(range(extent))

    def find(x: int) -> int:
        while root[x] != x:
            root[x] = root[root[x]]
            x = root[x]
        return x

    for labels in alive.values():
        first = -1
        for label in labels:
            if first < 0:
                first = find(label)
            else:
                root[find(label)] = first
    parts: dict[int, list[int]] = {}
    for tensor, labels in alive.items():
        key = find(next(iter(labels))) if labels else ~tensor
        parts.setdefault(key, []).append(tensor)
    return [Part(tuple(one), tuple(alive[t] for t in one)) for one in parts.values()]


def join(
    steps: list[Step], n: int, results: list[tuple[int, Labels]], extents: tuple[int, ...]
) -> None:
    """Multiply what shares no label, the two smallest first."""
    queue = [(size_of(labels, extents), tensor, labels) for tensor, labels in results]
    heapq.heapify(queue)
    while len(queue) > 1:
        size, a, labels = heapq.heappop(queue)
        other_size, b, others = heapq.heappop(queue)
        new = n + len(steps)
        steps.append((min(a, b), max(a, b)))
        heapq.heappush(queue, (size * other_size, new, labels | others))

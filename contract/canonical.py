"""A network numbered by its structure alone, so that equal problems are found under other names and orders.

Two networks are isomorphic when tensors and labels of one can be renamed to those of the other, sizes and
open labels kept. Tensors are told apart by *colour refinement* of the bipartite graph of tensors and
labels: two that look alike are set apart once the numbers of their neighbours of some colour differ. What
is alike still is split by hand, one tensor *individualised* and the rest refined again; of all ways to do
so the least result is taken, where symmetries found on the way tell which ways need not be tried
(McKay and Piperno, arXiv:1301.1493). That is bounded by work. Beyond it ties are broken by the order given.
Then the form may depend on that order, and two isomorphic networks may have different forms, but never
two others the same: a form tells its network completely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .network import Network

WORK, WORK_EACH = 6000, 1  # steps of a search among ties: for any network, and for each axis of it
AROUND = 40  # tensors and labels that are looked at around each tensor of a large cell with ties
LARGE = 8  # tensors; a lattice of two dimensions has no larger cells, by its symmetries alone


class FormLabel(NamedTuple):
    """A label: the positions of the tensors that carry it, its size, whether the output has it."""

    holders: tuple[int, ...]
    size: int
    open: bool


@dataclass(frozen=True, slots=True)
class Form:
    """A network without names: all that a planner looks at, tensors and labels numbered from 0.

    Attributes:
        tensors: how many there are.
        labels: sorted, so that the numbers of tensors fix those of labels.
    """

    tensors: int
    labels: tuple[FormLabel, ...]

    def network(self) -> Network:
        """The network of this form; the names of labels are their numbers.

        >>> Form(2, (FormLabel((0,), 3, True), FormLabel((0, 1), 2, False))).network().inputs
        ((0, 1), (1,))
        """
        terms: list[list[int]] = [[] for _ in range(self.tensors)]
        for number, label in enumerate(self.labels):
            for tensor in label.holders:
                terms[tensor].append(number)
        extents = tuple(label.size for label in self.labels)
        network = Network.__new__(Network)
        network._set(
            tuple(map(tuple, terms)),
            tuple(tuple(extents[x] for x in term) for term in terms),
            tuple(number for number, label in enumerate(self.labels) if label.open),
            extents,
            tuple(range(len(extents))),
        )
        return network


@dataclass(frozen=True)
class Canonical:
    """A form and how a network is numbered by it.

    Attributes:
        network: whose form it is.
        tensors: the tensor of the network at each position of the form.
        exact: whether every network isomorphic to this one has this form; False where ties were broken
            by the order given.
    """

    network: Network
    tensors: tuple[int, ...]
    exact: bool = True

    @cached_property
    def labels(self) -> tuple[int, ...]:
        """The label of the network for each label of the form."""
        return tuple(number for _, number in self._numbered)

    @cached_property
    def form(self) -> Form:
        """The network by these numbers."""
        return Form(len(self.tensors), tuple(label for label, _ in self._numbered))

    @cached_property
    def _numbered(self) -> list[tuple[FormLabel, int]]:
        network = self.network
        holders: list[list[int]] = [[] for _ in network.extents]
        for position, tensor in enumerate(self.tensors):
            for label in network.carried[tensor]:
                holders[label].append(position)
        return sorted(
            (FormLabel(tuple(held), network.extents[x], x in network.open), x)
            for x, held in enumerate(holders)
            if held or x in network.open
        )


def in_order(network: Network) -> Canonical:
    """The form of a network with its tensors as they stand: labels alone lose their names."""
    return Canonical(network, tuple(range(len(network.terms))), exact=False)


def canonical(network: Network, work: int | None = None) -> Canonical:
    """The form that isomorphic networks share.

    Args:
        network: tensors with the labels that they carry; the order of axes does not matter.
        work: bound of the search among ties, in steps; None: in proportion to the network.

    Returns:
        Canonical: `.form` to compare, `.tensors` and `.labels` to translate by.

    Complexity: O(m log m) for m axes in all, and the work that the bound allows.

    >>> one = Network(["ab", "bc", "cd"], "ad", {"a": 2, "b": 3, "c": 4, "d": 5})
    >>> other = Network(["zy", "xw", "yx"], "wz", {"w": 2, "x": 3, "y": 4, "z": 5})
    >>> canonical(one).form == canonical(other).form
    True
    >>> canonical(one).tensors, canonical(other).tensors
    ((1, 0, 2), (2, 1, 0))
    """
    graph = _Graph(network)
    if work is None:
        work = WORK + WORK_EACH * graph.size
    partition = _Partition.of(graph)
    partition.refine(partition.cells())
    if not partition.is_discrete:
        partition.refine(partition.set_apart())
    if partition.is_discrete:
        return Canonical(network, _swept(graph, partition.order[: graph.tensors]))
    search = _Search(graph, partition, work)
    return Canonical(network, _swept(graph, search.run()), search.is_complete)


def _swept(graph: _Graph, order: list[int]) -> tuple[int, ...]:
    """Tensors breadth first from the first on, neighbours in the order given.

    Planners break ties by the numbers of tensors: with neighbours close together they find cheaper trees
    than in the order of cells, or in a random one.
    """
    rank = [0] * len(graph.near)
    for position, tensor in enumerate(order):
        rank[tensor] = position
    found: list[int] = []
    seen = bytearray(len(graph.near))
    for root in order:
        if seen[root]:
            continue
        seen[root] = 1
        sweep = [root]
        for tensor in sweep:  # which grows meanwhile
            new: list[int] = []
            for bundle in graph.near[tensor]:
                if not seen[bundle]:
                    seen[bundle] = 1
                    new += [other for other in graph.near[bundle] if not seen[other]]
            for other in sorted(new, key=rank.__getitem__):
                if not seen[other]:
                    seen[other] = 1
                    sweep.append(other)
        found += sweep
    return tuple(found)


class _Graph:
    """Tensors 0, 1, ..., then *bundles*: all labels that the same two tensors or more carry.

    Labels of one tensor alone, and what of sizes and openness a bundle holds, are colours.
    """

    def __init__(self, network: Network) -> None:
        self.network, self.tensors = network, len(network.terms)
        holders: list[list[int]] = [[] for _ in network.extents]
        for tensor, labels in enumerate(network.carried):
            for label in labels:
                holders[label].append(tensor)
        held: dict[tuple[int, ...], list[tuple[int, bool]]] = {}
        for label, tensors in enumerate(holders):
            if tensors:
                kind = network.extents[label], label in network.open
                held.setdefault(tuple(tensors), []).append(kind)
        own: list[tuple[tuple[int, bool], ...]] = [()] * self.tensors
        bundles: list[tuple[tuple[int, ...], tuple[tuple[int, bool], ...]]] = []
        for tensors_, kinds in held.items():
            if len(tensors_) == 1:
                own[tensors_[0]] = tuple(sorted(kinds))
            else:
                bundles.append((tensors_, tuple(sorted(kinds))))
        self.near: list[Sequence[int]] = [[] for _ in range(self.tensors)]
        for number, (tensors_, _) in enumerate(bundles, self.tensors):
            for tensor in tensors_:
                self.near[tensor].append(number)  # type: ignore[attr-defined]
        self.near.extend(tensors_ for tensors_, _ in bundles)
        self.groups = [
            *_by_colour((kinds, v) for v, kinds in enumerate(own)),
            *_by_colour(
                ((len(tensors_), kinds), v)
                for v, (tensors_, kinds) in enumerate(bundles, self.tensors)
            ),
        ]
        self.size = len(self.near) + sum(map(len, self.near))

    @cached_property
    def twins(self) -> list[tuple[int, ...]]:
        """For each tensor its bundles: two of a cell with the same may be exchanged for each other."""
        return [tuple(self.near[tensor]) for tensor in range(self.tensors)]


def _by_colour(coloured: Iterable[tuple[tuple[object, ...], int]]) -> list[list[int]]:
    """Vertices of one colour together, by colour."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for colour, vertex in coloured:
        groups.setdefault(colour, []).append(vertex)
    return [groups[colour] for colour in sorted(groups)]


class _Partition:
    """Vertices in an ordered list of cells; a cell is named by the position where it starts.

    Whatever is done here depends on cells and counts, never on the order of vertices within a cell: that
    is what makes the result the same for isomorphic networks.
    """

    __slots__ = ("graph", "length", "order", "singles", "start", "where", "work")

    def __init__(
        self,
        graph: _Graph,
        order: list[int],
        where: list[int],
        start: list[int],
        length: list[int],
        singles: int,
    ) -> None:
        self.graph, self.order, self.where, self.start, self.length = (
            graph,
            order,
            where,
            start,
            length,
        )
        self.singles = singles  # cells of one tensor
        self.work = 0

    @classmethod
    def of(cls, graph: _Graph) -> _Partition:
        """Cells by colour, tensors before bundles."""
        n = len(graph.near)
        order: list[int] = []
        where, start, length = [0] * n, [0] * n, [0] * n
        singles = 0
        for group in graph.groups:
            first = len(order)
            length[first] = len(group)
            singles += len(group) == 1 and first < graph.tensors
            for vertex in group:
                where[vertex], start[vertex] = len(order), first
                order.append(vertex)
        return cls(graph, order, where, start, length, singles)

    def copy(self) -> _Partition:
        self.work += len(self.order)
        return _Partition(
            self.graph, self.order[:], self.where[:], self.start[:], self.length[:], self.singles
        )

    @property
    def is_discrete(self) -> bool:
        """Whether every tensor is told from every other."""
        return self.singles == self.graph.tensors

    def cells(self) -> list[int]:
        """The cells, in order."""
        found, position = [], 0
        while position < len(self.order):
            found.append(position)
            position += self.length[position]
        return found

    def members(self, cell: int) -> list[int]:
        return self.order[cell : cell + self.length[cell]]

    def set_apart(self) -> list[int]:
        """Split large cells by what stands around each tensor, which shows cycles; the cells to refine by.

        Counts of neighbours alone see none: all tensors of a regular graph have the same.
        """
        new: list[int] = []
        for cell in self.cells():
            members = self.members(cell)
            if cell >= self.graph.tensors:
                break
            if len(members) <= LARGE or len({self.graph.twins[vertex] for vertex in members}) == 1:
                continue
            groups: dict[tuple[int, ...], list[int]] = {}
            for vertex in members:
                groups.setdefault(self._surroundings(vertex), []).append(vertex)
            if len(groups) > 1:
                new += self._split(cell, [(0, part) for _, part in sorted(groups.items())], set())
        return new

    def _surroundings(self, vertex: int) -> tuple[int, ...]:
        """By distance: of the vertices there, how many neighbours each has one step nearer."""
        near, seen, layer, found = self.graph.near, {vertex}, [vertex], list[int]()
        while layer and len(seen) < AROUND:
            counts: dict[int, int] = {}
            for one in layer:
                for other in near[one]:
                    if other not in seen:
                        counts[other] = counts.get(other, 0) + 1
            found += sorted(counts.values())
            found.append(0)
            layer = list(counts)
            seen.update(layer)
        self.work += len(seen)
        return tuple(found)

    def individualise(self, vertex: int) -> list[int]:
        """Split one vertex off the end of its cell and refine; the trace of it."""
        cell = self.start[vertex]
        return self.refine(self._split(cell, [(1, [vertex])], set()))

    def separate(self, cell: int) -> None:
        """Make a cell of each member, of a cell whose members may all be exchanged."""
        members = self.members(cell)
        for position, vertex in enumerate(members, cell):
            self.start[vertex], self.length[position] = position, 1
        self.singles += len(members)

    def refine(self, cells: list[int]) -> list[int]:
        """Split cells until any two vertices of one have as many neighbours in every cell.

        It ends sooner where all tensors are told apart: bundles follow from them.

        The trace is what was split and how, equal for vertices that are alike.
        """
        near, start, length, order = self.graph.near, self.start, self.length, self.order
        tensors = self.graph.tensors
        trace: list[int] = []
        queue, waiting = deque(cells), set(cells)
        while queue and self.singles < tensors:
            splitter = queue.popleft()
            waiting.discard(splitter)
            counts: dict[int, int] = {}
            if length[splitter] == 1:
                counts = dict.fromkeys(near[order[splitter]], 1)
            else:
                for vertex in order[splitter : splitter + length[splitter]]:
                    for neighbour in near[vertex]:
                        counts[neighbour] = counts.get(neighbour, 0) + 1
            self.work += len(counts)
            touched: dict[int, list[int]] = {}
            for neighbour in counts:
                cell = start[neighbour]
                if length[cell] > 1:
                    touched.setdefault(cell, []).append(neighbour)
            for cell in sorted(touched):
                members = touched[cell]
                by_count: dict[int, list[int]] = {}
                for vertex in members:
                    by_count.setdefault(counts[vertex], []).append(vertex)
                if len(by_count) == 1 and len(members) == length[cell]:
                    continue
                parts = sorted(by_count.items())
                for count, part in parts:
                    trace += (splitter, cell, count, len(part))
                new = self._split(cell, parts, waiting)
                waiting.update(new)
                queue.extend(new)
        trace.append(self.singles)
        return trace

    def _split(self, cell: int, parts: list[tuple[int, list[int]]], waiting: set[int]) -> list[int]:
        """Move parts of a cell to its end, in order; the cells that others are then to be refined by.

        These are all but the largest (Hopcroft): counts in it follow from those in the rest and the whole.
        If the whole still waits, so do all its parts.
        """
        order, where, start, length = self.order, self.where, self.start, self.length
        end = cell + length[cell]
        starts: list[int] = []
        for _, part in reversed(parts):
            for vertex in part:
                end -= 1
                other, position = order[end], where[vertex]
                order[position], where[other] = other, position
                order[end], where[vertex] = vertex, end
            if end == cell:
                break  # the first part keeps the name of the whole
            for vertex in part:
                start[vertex] = end
            length[end] = len(part)
            starts.append(end)
        rest = (starts[-1] if starts else cell + length[cell]) - cell
        length[cell] = rest
        starts.append(cell)
        starts.reverse()
        if cell < self.graph.tensors:
            self.singles += sum(length[x] == 1 for x in starts)
        if cell in waiting:
            return starts[1:]
        largest = max(starts, key=length.__getitem__)
        return [x for x in starts if x != largest]


class _Node(NamedTuple):
    """A partition with ties, those of its first cell that are to be tried, and what is tried already."""

    partition: _Partition
    cell: int
    untried: list[int]
    tried: list[int]
    orbits: dict[int, int]


class _Search:
    """The least leaf of the tree of individualisations, by its traces and then by its form."""

    def __init__(self, graph: _Graph, partition: _Partition, work: int) -> None:
        self.graph, self.limit = graph, work
        self.root = partition
        self.work = 0
        self.is_complete = True
        self.best: list[int] | None = None
        self.best_form: Form | None = None
        self.best_path: list[int] = []
        self.traces: list[list[int]] = []  # of the best leaf, or of the way to a better one

    def run(self) -> list[int]:
        """Tensors in the order of the best leaf."""
        root = self._node(self.root, 0)
        if root is None:
            return self.root.order[: self.graph.tensors]
        stack, path = [root], list[int]()
        while stack:
            node = stack[-1]
            del path[len(stack) - 1 :]
            vertex = _next(node)
            if vertex is None:
                stack.pop()
                continue
            if self.work > self.limit:
                self.is_complete = False
                return self.best or self._by_order(node.partition, node.cell)
            path.append(vertex)
            child = node.partition.copy()
            trace = child.individualise(vertex)
            below = self._node(child, node.cell)
            self.work += child.work + len(child.order)
            if not self._is_wanted(trace, len(stack) - 1):
                continue
            if below is not None:
                stack.append(below)
                continue
            depth = self._leaf(child, path, stack)
            del stack[depth + 1 :]
        assert self.best is not None
        return self.best

    def _node(self, partition: _Partition, cell: int) -> _Node | None:
        """The first cell with ties, its exchangeable members counted once; None at a leaf."""
        twins = self.graph.twins
        while not partition.is_discrete:
            while partition.length[cell] == 1:
                cell += 1
            members = partition.members(cell)
            classes = {twins[vertex]: vertex for vertex in reversed(members)}
            if len(classes) > 1:
                return _Node(partition, cell, list(classes.values()), [], {})
            partition.separate(cell)
        return None

    def _is_wanted(self, trace: list[int], level: int) -> bool:
        """Whether a leaf below may be the least; one that surely is less makes the best so far void."""
        if level < len(self.traces):
            if trace > self.traces[level]:
                return False
            if trace == self.traces[level]:
                return True
            del self.traces[level:]
            self.best = self.best_form = None
        self.traces.append(trace)
        return True

    def _leaf(self, partition: _Partition, path: list[int], stack: list[_Node]) -> int:
        """Compare a leaf with the best; the depth of the node to go on from."""
        order = partition.order[: self.graph.tensors]
        form = Canonical(self.graph.network, tuple(order)).form
        self.work += self.graph.size
        if self.best is None or self.best_form is None or form.labels < self.best_form.labels:
            self.best, self.best_form, self.best_path = order, form, path[:]
        elif form == self.best_form:
            # the two leaves differ by a symmetry, which fixes what both paths begin with
            common = next(k for k, (a, b) in enumerate(zip(path, self.best_path)) if a != b)  # noqa: B905
            for node in stack[: common + 1]:
                for one, other in zip(self.best, order, strict=True):
                    _join(node.orbits, one, other)
            return common
        return len(stack) - 1

    def _by_order(self, partition: _Partition, cell: int) -> list[int]:
        """The leaf that the order given leads to."""
        while (node := self._node(partition, cell)) is not None:
            cell = node.cell
            partition.individualise(min(partition.members(cell)))
        return partition.order[: self.graph.tensors]


def _next(node: _Node) -> int | None:
    """The next tie to try that no symmetry takes to one tried before."""
    while node.untried:
        vertex = node.untried.pop()
        root = _root(node.orbits, vertex)
        if all(_root(node.orbits, other) != root for other in node.tried):
            node.tried.append(vertex)
            return vertex
    return None


def _root(parents: dict[int, int], vertex: int) -> int:
    while (parent := parents.get(vertex, vertex)) != vertex:
        parents[vertex] = parents.get(parent, parent)  # paths are halved on the way
        vertex = parent
    return vertex


def _join(parents: dict[int, int], one: int, other: int) -> None:
    if one != other:
        one, other = _root(parents, one), _root(parents, other)
        parents[max(one, other)] = min(one, other)

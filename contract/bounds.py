"""What no contraction tree can do better than: least multiplications, and least size of the largest step."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from .cost import Labels, size_of
from .network import Network
from .planners.parts import connected

EXACT = 12  # tensors up to which all trees are looked at
CHAIN = 200  # matrices up to which the best order of a product is found, in cubic time
SPLITS = 300_000  # of subsets in two, over all blocks of a larger network
PAIRS = 1_000_000  # edges of the graph of labels; the largest cliques are left out beyond
WORK = 1_000_000  # neighbours looked at before minor-min-width stops at what it has


@dataclass(frozen=True, slots=True)
class Bound:
    """What every tree of pairwise contractions has at least, in exact integers.

    Attributes:
        cost: multiplications of all steps.
        largest: multiplications of the largest step, the product of the sizes of all its labels.

    >>> bound = Bound(cost=1 << 20, largest=1 << 19)
    >>> bound.log2_cost, bound.log2_largest
    (20.0, 19.0)
    """

    cost: int
    largest: int

    @property
    def log2_cost(self) -> float:
        """log2 of `cost`; -inf for 0."""
        return _log2(self.cost)

    @property
    def log2_largest(self) -> float:
        """log2 of `largest`; -inf for 0."""
        return _log2(self.largest)


def lower_bound(network: Network) -> Bound:
    """Bounds from below on the cost and on the largest step of any contraction tree of pairs.

    Both are the least values themselves for up to 12 tensors. The cost is also that of the best tree for
    chains of up to 200 matrices. Otherwise the largest step has at least the weighted minor-min-width of
    the graph of labels, and no less than any tensor. The cost is the larger of two bounds: that step and
    what the other tensors cost at least; or the best trees of blocks of a few tensors, each label counted
    in one block. Nearly linear in the number of labels; of large networks less is looked at.

    Args:
        network: any network; labels of size 0 and 1, hyperedges and parts that share no label included.

    Returns:
        Bound: of the unsliced contraction. Slices cost no less. Steps of one operand, or of more than two,
        may.

    >>> lower_bound(Network(["ij", "jk", "kl"], "il", {"i": 8, "j": 8, "k": 100, "l": 8}))
    Bound(cost=6912, largest=6400)
    """
    extents = network.extents
    tensors = [frozenset([x for x in carried if extents[x] != 1]) for carried in network.carried]
    # what all tensors carry is in every step
    common = frozenset.intersection(*tensors)
    factor = size_of(common, extents)
    rest = [labels - common for labels in tensors]
    found = _bound(rest, network.open - common, extents)
    return Bound(factor * found.cost, factor * found.largest)


def _bound(tensors: Sequence[Labels], open_: Labels, extents: Sequence[int]) -> Bound:
    n = len(tensors)
    if n == 1:
        size = _size(tensors[0], extents)
        return Bound(size, size)
    if n <= EXACT:
        return _exhaustive(tensors, open_, extents)
    if any(extents[label] == 0 for labels in tensors for label in labels):
        return Bound(0, 0)
    cliques = {*tensors, open_.intersection(frozenset().union(*tensors))}
    largest = max(minor_min_width(cliques, extents), *(_size(one, extents) for one in cliques))
    most = next(
        (b for b in range(EXACT, 2, -1) if n * (3**b - 2 ** (b + 1) + 1) // (2 * b) <= SPLITS), 2
    )
    # Of any tree, the steps that join tensors of one block, with the labels counted there alone, have at
    # least the labels of a tree of the block. A step may be one of several blocks: its size is the product
    # of theirs, each at least 2, and that is no less than the sum. There are as many other steps as blocks
    # but one, or more.
    count, cost = 0, 0
    for part in connected(dict(enumerate(tensors)), len(extents)):
        chain = chain_of(part.labels, open_, extents) if len(part.labels) <= CHAIN else None
        if chain is not None:
            count, cost = count + 1, cost + _best_order(chain)
            continue
        for block in _blocks(part.labels, open_, extents, most):
            count += 1
            if len(block) > 1:
                found = _exhaustive(block, open_, extents)
                cost, largest = cost + found.cost, max(largest, found.largest)
    return Bound(max(cost + count - 1, _each_tensor(tensors, extents, largest)), largest)


def _blocks(
    tensors: Sequence[Labels], open_: Labels, extents: Sequence[int], most: int
) -> Iterator[list[Labels]]:
    """Blocks of up to `most` tensors, with the labels that are counted in them.

    A label is counted in one block at most, and those of a block connect it. A block grows by the tensor
    that shares most with it. A label that is summed counts only where two tensors of the block have it:
    that of one alone may be summed in a step that this tensor takes before it meets others of its block.
    """
    holders: dict[int, list[int]] = {}
    for tensor, labels in enumerate(tensors):
        for label in labels:
            holders.setdefault(label, []).append(tensor)
    free = set(holders)
    taken = bytearray(len(tensors))
    for start in range(len(tensors)):
        if taken[start]:
            continue
        block: list[int] = []
        own: set[int] = set()
        shared = {start: 1}
        while shared and len(block) < most:
            tensor = max(shared, key=lambda t: (shared[t], -t))
            del shared[tensor]
            taken[tensor] = 1
            block.append(tensor)
            for label in sorted(tensors[tensor] & free):
                free.remove(label)
                own.add(label)
                for other in holders[label]:
                    if not taken[other]:
                        shared[other] = shared.get(other, 1) * extents[label]
        counts = Counter(label for tensor in block for label in tensors[tensor] & own)
        kept = {label for label in own if counts[label] > 1 or label in open_}
        yield [tensors[tensor] & kept for tensor in block]


def _each_tensor(tensors: Sequence[Labels], extents: Sequence[int], largest: int) -> int:
    """Every tensor is an operand of one step, which is at least of its size, and a step has two.

    One step is the largest; of what the others take, at best the two largest tensors are missing, and
    each takes two of nearly the same size. Steps that take no tensor of the network count 1.
    """
    sizes = sorted((_size(labels, extents) for labels in tensors), reverse=True)[2::2]
    return largest + sum(sizes) + len(tensors) - 2 - len(sizes)


def _exhaustive(tensors: Sequence[Labels], open_: Labels, extents: Sequence[int]) -> Bound:
    """The best of all trees, by dynamic programming over subsets; of cost and of the largest step."""
    whole = (1 << len(tensors)) - 1
    holders: dict[int, int] = {}
    for tensor, labels in enumerate(tensors):
        for label in labels:
            holders[label] = holders.get(label, 0) | 1 << tensor
    results: list[Labels] = [frozenset()] * (whole + 1)
    cost, largest = [0] * (whole + 1), [0] * (whole + 1)
    for subset in range(1, whole + 1):
        if subset & (subset - 1) == 0:
            results[subset] = tensors[subset.bit_length() - 1]
            continue
        results[subset] = frozenset(
            label for label, by in holders.items()
            if by & subset and (by & ~subset or label in open_)
        )  # fmt: skip
        least, narrowest = math.inf, math.inf  # exact integers after the first split
        half = (subset - 1) & subset
        while half > subset ^ half:  # each split once
            other = subset ^ half
            before = cost[half] + cost[other]
            width = max(largest[half], largest[other])
            if before < least or width < narrowest:
                size = _size(results[half] | results[other], extents)
                least = min(least, before + size)
                narrowest = min(narrowest, max(width, size))
            half = (half - 1) & subset
        cost[subset], largest[subset] = int(least), int(narrowest)
    return Bound(cost[whole], largest[whole])


def chain_of(tensors: Sequence[Labels], open_: Labels, extents: Sequence[int]) -> list[int] | None:
    """The sizes x[0], ..., x[n] if the tensors are matrices x[k] by x[k + 1] of a product, else None.

    x[0] and x[n] are 1 at a vector. Several labels between the same two tensors count as one.
    """
    holders: dict[int, list[int]] = {}
    for tensor, labels in enumerate(tensors):
        for label in labels:
            holders.setdefault(label, []).append(tensor)
    bonds: list[dict[int, int]] = [{} for _ in tensors]
    ends = [1] * len(tensors)
    for label, by in holders.items():
        if len(by) == 1 and label in open_:
            ends[by[0]] *= extents[label]
        elif len(by) == 2 and label not in open_:
            for a, b in (by, by[::-1]):
                bonds[a][b] = bonds[a].get(b, 1) * extents[label]
        else:
            return None
    tips = [tensor for tensor, near in enumerate(bonds) if len(near) == 1]
    if len(tips) != 2 or max(map(len, bonds)) > 2:
        return None
    if any(end > 1 and len(near) > 1 for end, near in zip(ends, bonds, strict=True)):
        return None
    before, at = -1, tips[0]
    sizes = [ends[at]]
    while at != tips[1]:
        before, (at, size) = at, next(item for item in bonds[at].items() if item[0] != before)
        sizes.append(size)
    return [*sizes, ends[at]] if len(sizes) == len(tensors) else None


def _best_order(sizes: Sequence[int]) -> int:
    """Multiplications of the best order of a product of matrices.

    No tree that multiplies matrices which are not neighbours costs less where all inner sizes are 2 or
    more. Take any tree. Where a step joins m neighbouring runs of matrices, of outer and inner sizes
    y[0], ..., y[m] with product P, join the runs one by one instead, beginning at the end of size 1 if there
    is one. Each of these m - 1 products leaves out m - 2 of the sizes, all 2 or more, so that together they
    cost at most (m - 1) P / 2 ** (m - 2) <= P. Several groups of runs in one step are paid by the product
    of their P, each at least 2. There is one exception: both ends of the whole chain are 1, and the last
    step joins three or four runs. Then min(y[1], y[2]) or P / 4 is missing at most; but an operand
    is two runs apart, and the step that made it, an outer product, has that much to spare.
    """
    n = len(sizes) - 1
    best = [[0] * (n + 1) for _ in range(n + 1)]  # best[i][j]: of matrices i to j - 1
    mirror = [[0] * (n + 1) for _ in range(n + 1)]  # mirror[j][i], so that both are read by rows
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length
            outer = sizes[i] * sizes[j]
            least = min(
                a + b + outer * x
                for a, b, x in zip(
                    best[i][i + 1 : j], mirror[j][i + 1 : j], sizes[i + 1 : j], strict=True
                )
            )
            best[i][j] = mirror[j][i] = least
    return best[0][n]


def minor_min_width(cliques: set[Labels], extents: Sequence[int]) -> int:
    """The weighted minor-min-width of the graph in which the labels of each clique are neighbours.

    The steps of a contraction tree are the bags of a tree decomposition of this graph, if tensors and
    output are its cliques. Some bag of every decomposition holds a vertex with all its neighbours, so the
    largest is at least as large as the smallest such neighbourhood, in products of sizes. The same holds
    of every minor, since contracting an edge, the new vertex having the smaller size, or deleting a vertex
    makes no bag larger. The smallest neighbourhood is looked at, its vertex is contracted into a
    neighbour, and so on.
    """
    near: dict[int, set[int]] = {}
    room = PAIRS
    for clique in sorted(cliques, key=lambda one: (len(one), sorted(one))):
        room -= len(clique) * (len(clique) - 1) // 2
        if room < 0:
            break  # a graph of fewer edges has no larger width
        for label in clique:
            near.setdefault(label, set())
        for a, b in combinations(clique, 2):
            near[a].add(b)
            near[b].add(a)
    around = {x: extents[x] * _size(others, extents) for x, others in near.items()}
    queue = [(size, x) for x, size in around.items()]
    heapq.heapify(queue)
    width, work = 1, 0
    while queue and work < WORK:
        size, x = heapq.heappop(queue)
        if x not in near or around[x] != size:
            continue  # it has changed since
        width = max(width, size)
        changed = near.pop(x)
        for y in changed:
            near[y].discard(x)
            around[y] //= extents[x]
        # a neighbour that is no larger keeps its size; without one the vertex is deleted
        into = [y for y in changed if extents[y] <= extents[x]]
        if into:
            # the fewer neighbours both have, the more edges are left
            y = min(into, key=lambda y: (len(changed & near[y]), y))
            for z in changed - near[y] - {y}:
                near[y].add(z)
                near[z].add(y)
                around[y] *= extents[z]
                around[z] *= extents[y]
        for y in changed:
            heapq.heappush(queue, (around[y], y))
        work += len(changed) * (1 + len(into)) + 1
    return width


def _size(labels: Labels | set[int], extents: Sequence[int]) -> int:
    return math.prod([extents[label] for label in labels])


def _log2(value: int) -> float:
    return math.log2(value) if value > 0 else -math.inf

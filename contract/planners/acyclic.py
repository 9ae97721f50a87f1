"""Networks without cycles: the best tree whose every step contracts a bond, by dynamic programming.

Where bonds join the tensors to a tree, each bond of a connected set cuts it in two connected sets, and the
best way to contract the set is the best way to cut it. The connected sets of a chain are its intervals, which
takes O(n**3) in all (S. S. Godbole, IEEE Trans. Computers C-22, 864 (1973)); a tree has the more of them the
more it branches. What is left out are outer products. They save nothing in a product of matrices
(`_best_order` of contract/bounds.py), but may elsewhere: two vectors on one small tensor are best multiplied
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .core.arrays import UNIT
from .core.run import Graph

EXACTLY = 1 << 28  # up to which sizes of fixed-point logarithms are off by less than a half
TALLEST = 300.0  # logarithm to base 2 of a result: products of three are well within floats
# seconds that a cut of an interval takes, a length of intervals, and a cut of any other set
CUT, LENGTH, PAIR = 1.0e-8, 2e-5, 1.0e-6
Half = tuple[int, int]  # of a set that is cut: an interval, or (bits, 0)


class Forest(NamedTuple):
    """A network as a rooted tree of tensors, numbered so that parents come first; logarithms to base 2.

    Attributes:
        tensors: their numbers in the network.
        parent: of each; -1 for the root, which is an end if the network is a chain.
        bond: of the sizes of all labels that a tensor shares with its parent.
        opened: of those of the output on it.
        summed: of those that nobody else has.
        is_chain: whether no tensor has more than two bonds.
    """

    tensors: list[int]
    parent: list[int]
    bond: list[float]
    opened: list[float]
    summed: list[float]
    is_chain: bool

    def is_product(self) -> bool:
        """Whether it is a product of matrices: only the ends of a chain have labels of their own."""
        return self.is_chain and not any(self.opened[1:-1]) and not any(self.summed)

    def cuts(self) -> int:
        """The ways to cut connected sets in two."""
        n = len(self.tensors)
        if self.is_chain:
            return (n**3 - n) // 6
        count, cuts = [1] * n, [0] * n  # of the sets that a tensor tops: how many, and their bonds
        for at in range(n - 1, 0, -1):
            above = self.parent[at]
            cuts[above] += cuts[above] * count[at] + count[above] * (cuts[at] + count[at])
            count[above] *= 1 + count[at]
        return sum(cuts)

    def seconds(self) -> float:
        """About what `best_path` takes."""
        if self.is_chain:
            return CUT * self.cuts() + LENGTH * len(self.tensors)
        return PAIR * self.cuts()


def forest_of(graph: Graph) -> Forest | None:
    """The network as a tree; None for cycles, and for labels of three tensors or of two and the output."""
    n, starts, labels = graph.n, graph.starts, graph.labels
    holders: list[list[int]] = [[] for _ in graph.logs]
    for tensor in range(n):
        for at in range(starts[tensor], starts[tensor + 1]):
            holders[labels[at]].append(tensor)
    near: list[dict[int, float]] = [{} for _ in range(n)]
    opened, summed = [0.0] * n, [0.0] * n
    for label, by in enumerate(holders):
        log = int(graph.logs[label]) / UNIT
        if len(by) == 1:
            (opened if graph.is_open[label] else summed)[by[0]] += log
        elif len(by) == 2 and not graph.is_open[label]:
            for a, b in (by, by[::-1]):
                near[a][b] = near[a].get(b, 0.0) + log
        else:
            return None
    if sum(map(len, near)) != 2 * (n - 1):
        return None
    is_chain = max(map(len, near)) <= 2
    root = next((t for t in range(n) if len(near[t]) == 1), 0)
    order, parent, bond, known = [root], [-1], [0.0], {root}
    for at, tensor in enumerate(order):  # which grows
        for other, log in near[tensor].items():
            if other not in known:
                known.add(other)
                order.append(other)
                parent.append(at)
                bond.append(log)
    if len(order) < n:  # a cycle, and a part of its own
        return None
    return Forest(
        order, parent, bond, [opened[t] for t in order], [summed[t] for t in order], is_chain
    )


def best_path(forest: Forest, terms: Sequence[float]) -> list[int] | None:
    """The pairs contracted, in SSA form: the path of least cost without outer products.

    None if a result has more than 2**300 elements.

    terms: what a multiplication costs [0], an element read or written [1], an element written [4].
    """
    costs = float(terms[0]), float(terms[1]), float(terms[4])
    return (_chain if forest.is_chain else _tree)(forest, *costs)


def _chain(forest: Forest, multiplied: float, moved: float, written: float) -> list[int] | None:
    """By intervals [i, j), the shorter first: all cuts of all intervals of a length at once."""
    n = len(forest.tensors)
    bond = np.array([*forest.bond, 0.0])  # bond[m] is between m - 1 and m
    opened = np.cumsum([0.0, *forest.opened])
    log = bond[:-1, None] + bond[None, :] + opened[None, :] - opened[:-1, None]
    log[np.arange(n), np.arange(1, n + 1)] += forest.summed
    if np.triu(log, 1).max() > TALLEST:
        return None
    bonds, ends = _whole(bond), np.maximum(opened[None, :] - opened[:-1, None], 0.0)
    size = bonds[:-1, None] * bonds[None, :] * _whole(ends)
    size[np.arange(n), np.arange(1, n + 1)] *= _whole(np.array(forest.summed))
    shared = multiplied / bonds
    cost = moved * size  # of making the interval's result, and of reading it
    cut = np.zeros((n, n + 1), np.int64)
    for length in range(2, n + 1):
        i = np.arange(n - length + 1)[:, None]
        m, j = i + np.arange(1, length), i + length
        total = cost[i, m] + cost[m, j] + size[i, m] * size[m, j] * shared[m]
        best = total.argmin(axis=1)[:, None]
        made = (2.0 * moved + written) * size[i, j]
        cost[i, j] = np.take_along_axis(total, best, 1) + made
        cut[i, j] = i + 1 + best
    halves: list[tuple[Half, Half, Half]] = []
    todo = [(0, n)]
    for first, last in todo:  # which grows
        if last - first > 1:
            middle = int(cut[first, last])
            halves.append(((first, last), (first, middle), (middle, last)))
            todo += halves[-1][1:]
    return _ssa({(k, k + 1): tensor for k, tensor in enumerate(forest.tensors)}, halves)


def _whole(logs: Any) -> Any:
    """Sizes, which are integers, of their logarithms: of small ones what costs less is known exactly."""
    sizes = np.exp2(logs)
    return np.where(sizes < EXACTLY, np.rint(sizes), sizes)


def _tree(forest: Forest, multiplied: float, moved: float, written: float) -> list[int] | None:
    """By connected sets of tensors, as bits of an integer, the smaller first."""
    n = len(forest.tensors)
    below, logs = _connected(forest)
    if max(logs.values()) > TALLEST:
        return None
    size = {bits: 2.0**log for bits, log in logs.items()}
    for k in range(n):
        size[1 << k] *= 2.0 ** forest.summed[k]
    shared = [multiplied * 2.0**-log for log in forest.bond]
    cost = {1 << k: moved * size[1 << k] for k in range(n)}
    cut: dict[int, int] = {}
    for bits in sorted(logs, key=int.bit_count):
        least, chosen = float("inf"), 0
        rest = bits & (bits - 1)  # all but the top, each with the bond to its parent
        while rest:
            k = rest.bit_length() - 1
            rest ^= 1 << k
            lower = bits & below[k]
            upper = bits ^ lower
            total = cost[lower] + cost[upper] + size[lower] * size[upper] * shared[k]
            if total < least:
                least, chosen = total, lower
        if chosen:
            cost[bits] = least + (2.0 * moved + written) * size[bits]
            cut[bits] = chosen
    halves: list[tuple[Half, Half, Half]] = []
    todo = [(1 << n) - 1]
    for bits in todo:  # which grows
        if bits in cut:
            lower, upper = cut[bits], bits ^ cut[bits]
            halves.append(((bits, 0), (lower, 0), (upper, 0)))
            todo += (lower, upper)
    return _ssa({(1 << k, 0): tensor for k, tensor in enumerate(forest.tensors)}, halves)


def _connected(forest: Forest) -> tuple[list[int], dict[int, float]]:
    """The tensors below each, itself included; and all connected sets, with the size of their results."""
    n = len(forest.tensors)
    below = [1 << k for k in range(n)]
    own = list(forest.opened)  # with all bonds to parent and children
    for k in range(1, n):
        own[k] += forest.bond[k]
        own[forest.parent[k]] += forest.bond[k]
    topped = [{1 << k: own[k]} for k in range(n)]
    found: dict[int, float] = {}
    for k in range(n - 1, -1, -1):
        found |= topped[k]
        above = forest.parent[k]
        if above >= 0:
            below[above] |= below[k]
            closed = 2.0 * forest.bond[k]
            topped[above] |= {
                upper | lower: here + there - closed
                for upper, here in topped[above].items()
                for lower, there in topped[k].items()
            }
            topped[k] = {}
    return below, found


def _ssa(tensors: dict[Half, int], halves: list[tuple[Half, Half, Half]]) -> list[int]:
    """The path of these cuts, of which the last come first."""
    path: list[int] = []
    for made, one, other in reversed(halves):
        path += (tensors[one], tensors[other])
        tensors[made] = len(tensors)
    return path

"""A tree over sets of labels: what annealing and reconfiguration work on.

Tensors 0..n-1 are leaves, n..2n-2 the results, the last of them the root; `child` has two entries for each
result. The labels of node x are the bits of legs[x * words : (x + 1) * words]; a word holds labels of one
size only, `weight[word]` is its logarithm.
"""

from __future__ import annotations

from ....backend.cpu.apart import apart
from .arrays import UNIT, Floats, Integers, integers, ones
from .lists import contract, holders_of, spread, step_cost


def build(
    starts: Integers,
    labels: Integers,
    logs: Integers,
    is_open: Integers,
    place: Integers,
    words: int,
    path: Integers,
    child: Integers,
    legs: Integers,
) -> None:
    """Fill child and legs of the tree of an SSA path; place[label] is 64 * word + bit."""
    n, entries = len(starts) - 1, len(labels)
    nodes = 2 * n - 1
    begin, end = integers(nodes, 0), integers(nodes, 0)
    size, alive, pool = integers(nodes, 0), integers(nodes, 0), integers(2 * entries + 2, 0)
    left, first = integers(len(is_open), 0), integers(len(is_open) + 1, 0)
    holders_of(starts, labels, is_open, left, first, integers(entries, 0))
    spread(starts, labels, logs, begin, end, size, alive, pool)
    at = entries
    for node in range(nodes):
        if node >= n:
            a, b = path[2 * (node - n)], path[2 * (node - n) + 1]
            child[2 * (node - n)], child[2 * (node - n) + 1] = a, b
            contract(a, b, node, at, begin, end, pool, left, logs, size, alive)
            at = end[node]
        for word in range(words):
            legs[node * words + word] = 0
        for entry in range(begin[node], end[node]):
            spot = place[pool[entry]]
            legs[node * words + (spot >> 6)] |= 1 << (spot & 63)


@apart
def weigh(
    child: Integers,
    legs: Integers,
    words: int,
    weight: Integers,
    terms: Floats,
    powers: Floats,
    parent: Integers,
    size: Integers,
    cost: Floats,
) -> int:
    """Fill in parent, size and cost of each node; returns the unit of costs (lists.step_cost)."""
    results = len(child) // 2
    n, shift = results + 1, 0
    for node in range(n + results):
        size[node] = size_of(node, words, legs, weight)
    for k in range(results):
        a, b = child[2 * k], child[2 * k + 1]
        parent[a], parent[b] = n + k, n + k
        shift = max(shift, size_of_both(a, b, words, legs, weight))
    shift = (shift // UNIT) * UNIT
    for k in range(results):
        a, b = child[2 * k], child[2 * k + 1]
        both = size_of_both(a, b, words, legs, weight)
        cost[n + k] = step_cost(both, size[a], size[b], size[n + k], terms, shift, powers)
    return shift


def size_of(node: int, words: int, legs: Integers, weight: Integers) -> int:
    """Logarithm of the size of a node."""
    total = 0
    for word in range(words):
        total += ones(legs[node * words + word]) * weight[word]
    return total


def size_of_both(a: int, b: int, words: int, legs: Integers, weight: Integers) -> int:
    """Logarithm of the size of the labels of two nodes together."""
    total = 0
    for word in range(words):
        total += ones(legs[a * words + word] | legs[b * words + word]) * weight[word]
    return total


@apart
def path_of(child: Integers, path: Integers) -> None:
    """The SSA path of a tree whose results are in any order: a subtree ends before the next begins."""
    results = len(child) // 2
    n = results + 1
    order, stack, number = integers(results, 0), integers(2 * results + 1, 0), integers(2 * n, 0)
    for leaf in range(n):
        number[leaf] = leaf
    stack[0], height, count = 2 * n - 2, 1, 0
    while height > 0:
        height -= 1
        node = stack[height]
        if node >= n:
            order[count] = node
            count += 1
            for side in range(2):
                stack[height] = child[2 * (node - n) + side]
                height += 1
    for k in range(results):
        node = order[results - 1 - k]
        a, b = number[child[2 * (node - n)]], number[child[2 * (node - n) + 1]]
        path[2 * k], path[2 * k + 1] = min(a, b), max(a, b)
        number[node] = n + k

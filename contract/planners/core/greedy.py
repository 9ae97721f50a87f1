"""Greedy search over pairs that share a label; O((E + sum of ranks) log E).

The score of a pair is size(result) / m - (size(a) + size(b)) * m with a cost modifier m, disturbed by
Gumbel noise of a given temperature on a logarithmic scale: cotengra's form of opt_einsum's score
(J. Gray, S. Kourtis, Quantum 5, 410 (2021)).
"""

from __future__ import annotations

import math

from ....backend.cpu.apart import apart
from .arrays import UNIT, Heap, Integers, draw, heapify, integers, pop, push
from .lists import carries, contract, holders_of, join_all, root_of, spread

IDLE = 3  # part of the heap: after so many dead pairs all others are dropped as well
CROWD = 12  # holders of a label that are candidates for a new tensor; of more, the first so many


@apart
def greedy(
    starts: Integers,
    labels: Integers,
    logs: Integers,
    is_open: Integers,
    modifier: float,
    temperature: float,
    state: Integers,
    path: Integers,
) -> None:
    """Fill path with the pairs contracted, in SSA form: 2 * (n - 1) integers."""
    n, extent, entries = len(starts) - 1, len(is_open), len(labels)
    nodes = 2 * n - 1
    begin, end, size = integers(nodes, 0), integers(nodes, 0), integers(nodes, 0)
    alive, root = integers(nodes, 0), integers(nodes, 0)
    pool = integers(2 * entries + 2, 0)
    left, first, holders = integers(extent, 0), integers(extent + 1, 0), integers(entries, 0)
    holders_of(starts, labels, is_open, left, first, holders)
    length = integers(extent, 0)
    for label in range(extent):
        length[label] = first[label + 1] - first[label]
    for node in range(nodes):
        root[node] = node
    spread(starts, labels, logs, begin, end, size, alive, pool)
    at = entries
    seen, met = integers(nodes, -1), integers(nodes, -1)
    shared, found = integers(nodes, 0), integers(nodes, 0)
    scan = steps = 0
    shift = math.log2(modifier)
    heap = [(0.0, 0, 0)]  # of score, size of the result, and the pair: min * nodes + max
    heap.pop()
    idle = 0  # pairs met since dead ones were dropped of which one is no more
    node = 0  # whose pairs are proposed next: all tensors, then each result
    while True:
        fresh = steps >= 0 and node < n + steps
        if fresh:
            # what shares a label with the node, and how much smaller the result is for it
            count = 0
            crowded = 0
            for entry in range(begin[node], end[node]):
                label = pool[entry]
                weight = logs[label] * (2 if left[label] == 2 else 1)
                scan += 1
                index, stop, near = first[label], first[label] + length[label], 0
                many = length[label] > CROWD + 1
                while index < stop and near <= CROWD:
                    other = root_of(holders[index], root)
                    if met[other] == scan:  # listed already: what both were has become one
                        stop -= 1
                        holders[index] = holders[stop]
                        length[label] -= 1
                        continue
                    holders[index] = other
                    met[other] = scan
                    index += 1
                    near += 1
                    if other == node or (node < n and other > node):
                        continue
                    if seen[other] != node:
                        seen[other] = node
                        shared[other] = 0
                        found[count] = other
                        count += 1
                    if not many:
                        shared[other] += weight
                if many:
                    crowded += 1
            if crowded > 0:  # of such a label not all who carry it were met
                for entry in range(begin[node], end[node]):
                    label = pool[entry]
                    if length[label] > CROWD + 1:
                        weight = logs[label] * (2 if left[label] == 2 else 1)
                        for index in range(count):
                            if carries(found[index], label, begin, end, pool):
                                shared[found[index]] += weight
            for index in range(count):
                other = found[index]
                result = size[node] + size[other] - shared[other]
                together = result / UNIT - shift
                alone = sum_of_powers(size[node] / UNIT, size[other] / UNIT) + shift
                score = signed_difference(together, alone)
                if temperature > 0.0:
                    score += temperature * math.log(-math.log(draw(state)))
                pair = min(node, other) * nodes + max(node, other)
                push(heap, (score, result, pair))
            node += 1
            continue
        a = b = -1
        while len(heap) > 0:
            pair = pop(heap)[2]
            a, b = pair // nodes, pair % nodes
            if alive[a] == 1 and alive[b] == 1:
                break
            a = -1
            idle += 1
            if idle > len(heap) // IDLE:
                drop_dead(heap, nodes, alive)
                idle = 0
        if a < 0:
            break
        new = n + steps
        contract(a, b, new, at, begin, end, pool, left, logs, size, alive)
        at = end[new]
        root[a], root[b] = new, new
        path[2 * steps], path[2 * steps + 1] = a, b
        steps += 1
        if steps == n - 1:
            break
    # what is left shares nothing, or only labels with crowds: the smallest two first
    heap.clear()
    for tensor in range(n + steps):
        if alive[tensor] == 1:
            push(heap, (0.0, size[tensor], tensor))
    join_all(heap, n + steps, at, begin, end, pool, left, logs, size, alive, root, path)


@apart
def drop_dead(heap: Heap, nodes: int, alive: Integers) -> None:
    """Leave pairs of which both are there still: what is popped next is the same, of fewer."""
    kept = 0
    for at in range(len(heap)):
        item = heap[at]
        if alive[item[2] // nodes] == 1 and alive[item[2] % nodes] == 1:
            heap[kept] = item
            kept += 1
    while len(heap) > kept:
        heap.pop()
    heapify(heap)


def sum_of_powers(x: float, y: float) -> float:
    """log2(2**x + 2**y)."""
    high = max(x, y)
    return high + math.log2(1.0 + 2.0 ** (min(x, y) - high))


def signed_difference(x: float, y: float) -> float:
    """sign(s) * log2(1 + |s|) of s = 2**x - 2**y, for any size of both."""
    high = max(x, y)
    difference = 1.0 - 2.0 ** (min(x, y) - high)
    if difference <= 0.0:
        return 0.0
    exponent = high + math.log2(difference)
    value = exponent if exponent > 50.0 else math.log2(1.0 + 2.0**exponent)
    return value if x > y else -value

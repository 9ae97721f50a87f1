"""Greedy search over pairs that share a label; O((E + sum of ranks) log E).

The score of a pair is size(result) / m - (size(a) + size(b)) * m with a cost modifier m, disturbed by
Gumbel noise of a given temperature on a logarithmic scale: cotengra's form of opt_einsum's score
(J. Gray, S. Kourtis, Quantum 5, 410 (2021)).

A pair belongs to the later of its two tensors, and only the best of each tensor's is in the heap: when its
other tensor is gone the next best is put there, and when a tensor is gone all its pairs are.
"""

from __future__ import annotations

import math

from ....backend.cpu.apart import apart
from .arrays import UNIT, Floats, Heap, Integers, draw, floats, integers, pop, push
from .lists import carries, contract, holders_of, join_all, root_of, spread

FAR = 1000 * UNIT  # logarithm of a size beyond which floats may not do
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
    volume = floats(nodes, 0.0)
    for node in range(n):
        volume[node] = 2.0 ** (min(size[node], FAR) / UNIT)
    at = entries
    seen, met = integers(nodes, -1), integers(nodes, -1)
    shared, found = integers(nodes, 0), integers(nodes, 0)
    scan = steps = 0
    shift = math.log2(modifier)
    # of each node the pairs with those before it, and in the heap the best of them: its score, the size
    # of the result, and the pair, min * nodes + max
    pairs, waiting, top = integers(nodes, 0), integers(nodes, 0), 0
    partner, result_of, score_of = integers(entries, 0), integers(entries, 0), floats(entries, 0.0)
    heap = [(0.0, 0, 0)]
    heap.pop()
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
            if top + count > len(partner):
                top = close_ranks(node, pairs, waiting, alive, partner, result_of, score_of)
                if 2 * (top + count) > len(partner):
                    partner = longer(partner, top, 2 * (top + count))
                    result_of = longer(result_of, top, len(partner))
                    score_of = longer_floats(score_of, top, len(partner))
            pairs[node], waiting[node] = top, count
            for index in range(count):
                other = found[index]
                result = size[node] + size[other] - shared[other]
                if max(result, size[node], size[other]) < FAR:
                    alone = volume[node] + volume[other]
                    score = 2.0 ** (result / UNIT) / modifier - alone * modifier
                    score = math.copysign(math.log2(1.0 + abs(score)), score)
                else:
                    together = result / UNIT - shift
                    apart = sum_of_powers(size[node] / UNIT, size[other] / UNIT) + shift
                    score = signed_difference(together, apart)
                if temperature > 0.0:
                    score += temperature * math.log(-math.log(draw(state)))
                partner[top], result_of[top], score_of[top] = other, result, score
                top += 1
            offer(node, pairs, waiting, alive, partner, result_of, score_of, heap)
            node += 1
            continue
        a = b = -1
        while len(heap) > 0:
            pair = pop(heap)[2]
            a, b = pair // nodes, pair % nodes
            if alive[a] == 1 and alive[b] == 1:
                break
            if alive[b] == 1:
                offer(b, pairs, waiting, alive, partner, result_of, score_of, heap)
            a = -1
        if a < 0:
            break
        new = n + steps
        contract(a, b, new, at, begin, end, pool, left, logs, size, alive)
        at = end[new]
        volume[new] = 2.0 ** (min(size[new], FAR) / UNIT)
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
def offer(
    node: int,
    pairs: Integers,
    waiting: Integers,
    alive: Integers,
    partner: Integers,
    result_of: Integers,
    score_of: Floats,
    heap: Heap,
) -> None:
    """Push the best pair of a node with one that is there still; drops its others."""
    best, at, end = -1, pairs[node], pairs[node] + waiting[node]
    while at < end:
        if alive[partner[at]] == 0:
            end -= 1
            partner[at], result_of[at] = partner[end], result_of[end]
            score_of[at] = score_of[end]
            continue
        if best < 0 or (score_of[at], result_of[at], partner[at]) < (
            score_of[best],
            result_of[best],
            partner[best],
        ):
            best = at
        at += 1
    waiting[node] = end - pairs[node]
    if best >= 0:
        push(heap, (score_of[best], result_of[best], partner[best] * len(alive) + node))


@apart
def close_ranks(
    node: int,
    pairs: Integers,
    waiting: Integers,
    alive: Integers,
    partner: Integers,
    result_of: Integers,
    score_of: Floats,
) -> int:
    """Move the pairs of all nodes before this one that are there still to the start; returns their number."""
    top = 0
    for owner in range(node):
        begin = pairs[owner]
        pairs[owner] = top
        if alive[owner] == 0:
            waiting[owner] = 0
        for at in range(begin, begin + waiting[owner]):
            partner[top], result_of[top] = partner[at], result_of[at]
            score_of[top] = score_of[at]
            top += 1
    return top


@apart
def longer(values: Integers, used: int, length: int) -> Integers:
    """The first `used` values in an array of this length."""
    made = integers(length, 0)
    for k in range(used):
        made[k] = values[k]
    return made


@apart
def longer_floats(values: Floats, used: int, length: int) -> Floats:
    """The same of floats."""
    made = floats(length, 0.0)
    for k in range(used):
        made[k] = values[k]
    return made


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

"""Tensors as sorted lists of labels in one pool, and their contraction.

The labels of tensor t are pool[begin[t]:end[t]]; `left[label]` counts the tensors that carry it, and
the output as one more. A label goes when nobody else has it. Tensors lie in the pool by their numbers.
"""

from __future__ import annotations

import math

from ....backend.cpu.apart import apart
from .arrays import UNIT, Floats, Heap, Integers, integers, pop, power, push


@apart
def spread(
    starts: Integers,
    labels: Integers,
    logs: Integers,
    begin: Integers,
    end: Integers,
    size: Integers,
    alive: Integers,
    pool: Integers,
) -> None:
    """Put all tensors in the pool."""
    for tensor in range(len(starts) - 1):
        begin[tensor], end[tensor], alive[tensor] = starts[tensor], starts[tensor + 1], 1
        for entry in range(starts[tensor], starts[tensor + 1]):
            pool[entry] = labels[entry]
            size[tensor] += logs[labels[entry]]


@apart
def contract(
    a: int,
    b: int,
    new: int,
    at: int,
    begin: Integers,
    end: Integers,
    pool: Integers,
    left: Integers,
    logs: Integers,
    size: Integers,
    alive: Integers,
) -> int:
    """Write the labels of a*b to pool[at:]; returns the logarithm of the size of both together."""
    if at + end[a] - begin[a] + end[b] - begin[b] > len(pool):
        at = compact(new, alive, begin, end, pool)
    alive[a] = alive[b] = 0
    alive[new] = 1
    i, j, k = begin[a], begin[b], at
    last_a, last_b = end[a], end[b]
    together = kept = 0
    while i < last_a or j < last_b:
        both = 0
        if j >= last_b or (i < last_a and pool[i] < pool[j]):
            label = pool[i]
            i += 1
        elif i >= last_a or pool[j] < pool[i]:
            label = pool[j]
            j += 1
        else:
            label = pool[i]
            i += 1
            j += 1
            both = 1
        together += logs[label]
        left[label] -= both
        if left[label] > 1:
            pool[k] = label
            k += 1
            kept += logs[label]
        else:
            left[label] = 0
    begin[new] = at
    end[new] = k
    size[new] = kept
    return together


@apart
def compact(nodes: int, alive: Integers, begin: Integers, end: Integers, pool: Integers) -> int:
    """Move the lists of all living tensors to the start of the pool; returns where they end."""
    at = 0
    for node in range(nodes):
        if alive[node] == 1:
            start = at
            for entry in range(begin[node], end[node]):
                pool[at] = pool[entry]
                at += 1
            begin[node] = start
            end[node] = at
    return at


@apart
def join_all(
    heap: Heap,
    new: int,
    at: int,
    begin: Integers,
    end: Integers,
    pool: Integers,
    left: Integers,
    logs: Integers,
    size: Integers,
    alive: Integers,
    root: Integers,
    path: Integers,
) -> int:
    """Contract the tensors of a heap, with their sizes, the smallest two first; returns the next number."""
    n = (len(begin) + 1) // 2
    while len(heap) > 1:
        a, b = pop(heap)[2], pop(heap)[2]
        contract(a, b, new, at, begin, end, pool, left, logs, size, alive)
        at = end[new]
        root[a], root[b] = new, new
        path[2 * (new - n)], path[2 * (new - n) + 1] = min(a, b), max(a, b)
        push(heap, (0.0, size[new], new))
        new += 1
    return new


def step_cost(
    both: int, a: int, b: int, result: int, terms: Floats, shift: int, powers: Floats
) -> float:
    """What a step costs, of the logarithms of sizes, in units of 2**shift.

    terms: of a multiplication [0], of an element that is read or written [1], of one that is written [4].
    All 0: the 16th power of the size of the result, so that of a sum the largest result counts almost alone.
    [2] is the logarithm of the largest result that is allowed, or 0; how many times it is larger, less one,
    a result costs 2**[3] more.
    """
    cost = 0.0
    if terms[0] > 0.0:
        cost += terms[0] * power(both - shift, powers)
    if terms[1] > 0.0:
        moved = power(a - shift, powers) + power(b - shift, powers) + power(result - shift, powers)
        cost += terms[1] * moved
    if terms[4] > 0.0:
        cost += terms[4] * power(result - shift, powers)
    if terms[0] == 0.0 and terms[1] == 0.0 and terms[4] == 0.0:
        cost = power(16 * (result - shift), powers)
    most = int(terms[2])
    if 0 < most < result:
        cost += power(int(terms[3]) - shift, powers) * (power(result - most, powers) - 1.0)
    return cost


def carries(node: int, label: int, begin: Integers, end: Integers, pool: Integers) -> bool:
    """Whether a tensor carries a label: binary search."""
    low, high = begin[node], end[node]
    while low < high:
        middle = (low + high) >> 1
        if pool[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low < end[node] and pool[low] == label


@apart
def holders_of(
    starts: Integers, labels: Integers, is_open: Integers, left: Integers, first: Integers,
    holders: Integers,
) -> None:  # fmt: skip
    """For each label the tensors that carry it: holders[first[label]:first[label + 1]]."""
    for label in labels:
        first[label + 1] += 1
    for label in range(len(is_open)):
        left[label] = first[label + 1] + is_open[label]
        first[label + 1] += first[label]
    for tensor in range(len(starts) - 1):
        for entry in range(starts[tensor], starts[tensor + 1]):
            label = labels[entry]
            holders[first[label]] = tensor
            first[label] += 1
    for label in range(len(is_open) - 1, 0, -1):
        first[label] = first[label - 1]
    first[0] = 0


def root_of(node: int, root: Integers) -> int:
    """The tensor that `node` has become part of."""
    while root[node] != node:
        root[node] = root[root[node]]
        node = root[node]
    return node


def cost_of(
    starts: Integers,
    labels: Integers,
    logs: Integers,
    is_open: Integers,
    path: Integers,
    terms: Floats,
    powers: Floats,
) -> float:
    """The logarithm to base 2 of what the steps of an SSA path cost; O(sum of the ranks of all results).

    Where the largest result counts: of its size, and a millionth of what the others add.
    """
    n, entries = len(starts) - 1, len(labels)
    nodes = 2 * n - 1
    begin, end = integers(nodes, 0), integers(nodes, 0)
    size, alive = integers(nodes, 0), integers(nodes, 0)
    pool = integers(2 * entries + 2, 0)
    left, first = integers(len(is_open), 0), integers(len(is_open) + 1, 0)
    holders_of(starts, labels, is_open, left, first, integers(entries, 0))
    spread(starts, labels, logs, begin, end, size, alive, pool)
    at, total = entries, 0.0
    shift = largest = 0
    by_largest = terms[0] == 0.0 and terms[1] == 0.0 and terms[4] == 0.0
    for k in range(n - 1):
        a, b, new = path[2 * k], path[2 * k + 1], n + k
        both = contract(a, b, new, at, begin, end, pool, left, logs, size, alive)
        at = end[new]
        if both > shift:
            higher = (both // UNIT) * UNIT
            total *= power(shift - higher, powers)
            if by_largest:
                total = total * power(15 * (shift - higher), powers)
            shift = higher
        largest = max(largest, size[new])
        total += step_cost(both, size[a], size[b], size[new], terms, shift, powers)
    if by_largest:
        return largest / UNIT + 1e-6 * (math.log2(total) + 16 * shift / UNIT)
    return math.log2(total) + shift / UNIT


def components(starts: Integers, labels: Integers, extent: int, root: Integers) -> None:
    """Fill root with a tensor of the connected part that each tensor is in, the same for all of a part."""
    n = len(starts) - 1
    met = integers(extent, -1)
    for tensor in range(n):
        root[tensor] = tensor
    for tensor in range(n):
        for entry in range(starts[tensor], starts[tensor + 1]):
            label = labels[entry]
            if met[label] >= 0:
                root[root_of(met[label], root)] = root_of(tensor, root)
            met[label] = tensor
    for tensor in range(n):
        root[tensor] = root_of(tensor, root)

"""Labels to slice, so that no result of a tree is larger than allowed.

A slice fixes the values of some labels. The steps that carry one get smaller by its size, all steps are
done once for each slice: the total grows by the steps that do not carry it.
"""

from __future__ import annotations

import math

from .arrays import UNIT, Floats, Integers, floats, integers, ones, power
from .lists import step_cost


def masked(legs: Integers, words: int, cut: Integers, left: Integers) -> None:
    """The sets of labels that are left in one slice; cut: the set of those that are sliced."""
    for at in range(len(legs)):
        left[at] = legs[at] & ~cut[at % words]


def slice_to(
    child: Integers,
    legs: Integers,
    words: int,
    weight: Integers,
    terms: Floats,
    powers: Floats,
    cut: Integers,
) -> float:
    """Add labels to cut until no result is too large; returns the logarithm of what all slices cost.

    Of the labels of results that are too large, the one is taken that makes the total least, where a step
    counts as often as its result is too large. Then those that turn out to be needless are taken back. Steps
    without any sliced label are counted once for each slice here.
    """
    results = len(child) // 2
    n = results + 1
    nodes = 2 * n - 1
    most = int(terms[2])
    plain = floats(5, 0.0)
    plain[0], plain[1], plain[4] = terms[0], terms[1], terms[4]
    size, cost = integers(nodes, 0), floats(results, 0.0)
    slices, shift, total = 0, 0, 0.0
    for word in range(words):
        slices += ones(cut[word]) * weight[word]
    while True:
        widest, shift, total = n, 0, 0.0
        for node in range(nodes):
            size[node] = left_in(node, node, words, legs, weight, cut)
            if node > n and size[node] > size[widest]:
                widest = node
        for k in range(results):
            shift = max(shift, left_in(child[2 * k], child[2 * k + 1], words, legs, weight, cut))
        shift = (shift // UNIT) * UNIT
        for k in range(results):
            a, b = child[2 * k], child[2 * k + 1]
            both = left_in(a, b, words, legs, weight, cut)
            cost[k] = step_cost(both, size[a], size[b], size[n + k], plain, shift, powers)
            total += cost[k]
        if size[widest] <= most:
            break
        for k in range(results):
            if size[n + k] > most:
                cost[k] *= power(size[n + k] - most, powers)
        best, which, where = -1.0, 0, -1
        for word in range(words):
            rest = 0
            for node in range(n, nodes):
                if size[node] > most:
                    rest |= legs[node * words + word]
            rest &= ~cut[word]
            shrink = 2.0 ** (-weight[word] / UNIT)
            while rest != 0:
                bit = rest & -rest
                rest ^= bit
                then = 0.0
                for k in range(results):
                    a, b = child[2 * k] * words + word, child[2 * k + 1] * words + word
                    share = cost[k]
                    if (legs[a] | legs[b]) & bit != 0:
                        share *= shrink
                        if size[n + k] > most and legs[(n + k) * words + word] & bit != 0:
                            share *= shrink
                    then += share
                then /= shrink
                if where < 0 or then < best:
                    best, which, where = then, bit, word
        if where < 0:
            break
        cut[where] |= which
        slices += weight[where]
    for word in range(words):
        rest = cut[word]
        while rest != 0:
            bit = rest & -rest
            rest ^= bit
            fits = True
            for node in range(n, nodes):
                if legs[node * words + word] & bit != 0 and size[node] + weight[word] > most:
                    fits = False
                    break
            if fits:
                cut[word] ^= bit
                slices -= weight[word]
                grow, total = 2.0 ** (weight[word] / UNIT), 0.0
                for node in range(nodes):
                    if legs[node * words + word] & bit != 0:
                        size[node] += weight[word]
                for k in range(results):
                    a, b = child[2 * k] * words + word, child[2 * k + 1] * words + word
                    if (legs[a] | legs[b]) & bit != 0:
                        cost[k] *= grow
                    total += cost[k]
    return math.log2(total) + (shift + slices) / UNIT


def left_in(a: int, b: int, words: int, legs: Integers, weight: Integers, cut: Integers) -> int:
    """Logarithm of the size of the labels of two nodes together in one slice."""
    total = 0
    for word in range(words):
        total += ones((legs[a * words + word] | legs[b * words + word]) & ~cut[word]) * weight[word]
    return total

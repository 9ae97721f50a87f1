"""Labels to slice, so that no result of a tree is larger than allowed.

A slice fixes the values of some labels. The steps that carry one get smaller by its size, all steps are
done once for each slice: the total grows by the steps that do not carry it.
"""

from __future__ import annotations

import math

from ....backend.cpu.apart import apart
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
    nodes, most = 2 * n - 1, int(terms[2])
    plain, chosen = floats(5, 0.0), integers(2, 0)
    plain[0], plain[1], plain[4] = terms[0], terms[1], terms[4]
    size, cost = integers(nodes, 0), floats(results, 0.0)
    slices, shift, total = 0, 0, 0.0
    for word in range(words):
        slices += ones(cut[word]) * weight[word]
    while True:
        shift = costs_of_slice(child, legs, words, weight, plain, powers, cut, size, cost)
        largest, total = 0, 0.0
        for k in range(results):
            largest = max(largest, size[n + k])
            total += cost[k]
        if largest <= most:
            break
        for k in range(results):
            if size[n + k] > most:
                cost[k] *= power(size[n + k] - most, powers)
        best_label(child, legs, words, weight, size, cost, most, cut, chosen)
        where = chosen[0]
        if where < 0:
            break
        cut[where] |= chosen[1]
        slices += weight[where]
    back = give_back(child, legs, words, weight, size, cost, most, cut)
    if back > 0:
        total = 0.0
        for k in range(results):
            total += cost[k]
    return math.log2(total) + (shift + slices - back) / UNIT


@apart
def costs_of_slice(
    child: Integers,
    legs: Integers,
    words: int,
    weight: Integers,
    terms: Floats,
    powers: Floats,
    cut: Integers,
    size: Integers,
    cost: Floats,
) -> int:
    """Fill in the size of each node and the cost of each step of one slice; returns the unit of costs."""
    results = len(child) // 2
    n, shift = results + 1, 0
    for node in range(n + results):
        size[node] = left_in(node, node, words, legs, weight, cut)
    for k in range(results):
        shift = max(shift, left_in(child[2 * k], child[2 * k + 1], words, legs, weight, cut))
    shift = (shift // UNIT) * UNIT
    for k in range(results):
        a, b = child[2 * k], child[2 * k + 1]
        both = left_in(a, b, words, legs, weight, cut)
        cost[k] = step_cost(both, size[a], size[b], size[n + k], terms, shift, powers)
    return shift


@apart
def best_label(
    child: Integers,
    legs: Integers,
    words: int,
    weight: Integers,
    size: Integers,
    cost: Floats,
    most: int,
    cut: Integers,
    chosen: Integers,
) -> None:
    """Fill in the word and the bit of the label that makes the total least; the word is -1 for none."""
    results = len(child) // 2
    n, best = results + 1, -1.0
    chosen[0] = -1
    for word in range(words):
        rest = 0
        for node in range(n, n + results):
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
            if chosen[0] < 0 or then < best:
                best = then
                chosen[0], chosen[1] = word, bit


@apart
def give_back(
    child: Integers,
    legs: Integers,
    words: int,
    weight: Integers,
    size: Integers,
    cost: Floats,
    most: int,
    cut: Integers,
) -> int:
    """Take back labels without which no result is too large; returns the logarithm of their sizes."""
    results, back = len(child) // 2, 0
    n = results + 1
    for word in range(words):
        rest = cut[word]
        while rest != 0:
            bit = rest & -rest
            rest ^= bit
            fits = True
            for node in range(n, n + results):
                if legs[node * words + word] & bit != 0 and size[node] + weight[word] > most:
                    fits = False
                    break
            if not fits:
                continue
            cut[word] ^= bit
            back += weight[word]
            grow = 2.0 ** (weight[word] / UNIT)
            for node in range(n + results):
                if legs[node * words + word] & bit != 0:
                    size[node] += weight[word]
            for k in range(results):
                a, b = child[2 * k] * words + word, child[2 * k + 1] * words + word
                if (legs[a] | legs[b]) & bit != 0:
                    cost[k] *= grow
    return back


def left_in(a: int, b: int, words: int, legs: Integers, weight: Integers, cut: Integers) -> int:
    """Logarithm of the size of the labels of two nodes together in one slice."""
    total = 0
    for word in range(words):
        total += ones((legs[a * words + word] | legs[b * words + word]) & ~cut[word]) * weight[word]
    return total

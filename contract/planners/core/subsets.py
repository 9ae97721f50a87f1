"""The best tree of a few tensors: dynamic programming over all subsets, outer products included.

cost(S) = min over S = A + B of cost(A) + cost(B) + step(A, B), where the labels of a subset's result do not
depend on how it was contracted; O(3**k), less what costs more than a tree that is known.
"""

from __future__ import annotations

from ....backend.cpu.apart import apart
from .arrays import Floats, Integers, floats, integers, ones
from .lists import step_cost
from .tree import size_of


@apart
def best_split(
    leaves: Integers,
    k: int,
    outside: int,
    words: int,
    legs: Integers,
    weight: Integers,
    terms: Floats,
    shift: int,
    powers: Floats,
    cap: float,
    split: Integers,
) -> float:
    """Fill split[S] with the half of each subset of the first k leaves; returns the cost of all.

    outside: the node whose labels all of them together keep. Costs of `cap` and more count as none: then
    what is returned is at least cap, and split says nothing.
    """
    full = (1 << k) - 1
    union, keep = integers((full + 1) * words, 0), integers((full + 1) * words, 0)
    size, cost = integers(full + 1, 0), floats(full + 1, cap)
    for subset in range(1, full + 1):
        low, rest = 0, subset & (subset - 1)
        while (subset >> low) & 1 == 0:
            low += 1
        at = leaves[low] * words
        for word in range(words):
            union[subset * words + word] = union[rest * words + word] | legs[at + word]
    for subset in range(1, full + 1):
        other = full ^ subset
        if subset & (subset - 1) == 0:
            cost[subset] = 0.0
            for word in range(words):
                keep[subset * words + word] = union[subset * words + word]
        else:
            for word in range(words):
                around = union[other * words + word] | legs[outside * words + word]
                keep[subset * words + word] = union[subset * words + word] & around
        size[subset] = size_of(subset, words, keep, weight)
    for subset in range(3, full + 1):
        if subset & (subset - 1) == 0:
            continue
        best = cap
        lowest = subset & -subset
        rest = subset ^ lowest
        part = (rest - 1) & rest
        while True:  # each half with the lowest leaf, but the whole
            one = part | lowest
            other = subset ^ one
            apart = cost[one] + cost[other]
            if apart < best:
                both = 0
                for word in range(words):
                    both += (
                        ones(keep[one * words + word] | keep[other * words + word]) * weight[word]
                    )
                total = apart + step_cost(
                    both, size[one], size[other], size[subset], terms, shift, powers
                )
                if total < best:
                    best = total
                    split[subset] = one
            if part == 0:
                break
            part = (part - 1) & rest
        cost[subset] = best
    return cost[full]

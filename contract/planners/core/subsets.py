"""The best tree of a few tensors: dynamic programming over all subsets, outer products included.

cost(S) = min over S = A + B of cost(A) + cost(B) + step(A, B), where the labels of a subset's result do not
depend on how it was contracted; O(3**k), less what costs more than a tree that is known.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ....backend.cpu.apart import apart
from .arrays import (
    HIGHEST,
    LN2_OF_UNIT,
    LOWEST,
    UNIT,
    Floats,
    Integers,
    floats,
    integers,
    ones,
    powers_of_two,
)
from .levels import levels
from .lists import step_cost
from .tree import size_of

WIDE = 5  # leaves from which NumPy takes less time than loops that are not compiled
_HAS_BIT_COUNTS = hasattr(np, "bitwise_count")  # NumPy 2


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

    Compiled code has loops instead, as have a few leaves here; of more all subsets of a size are looked at
    together, by NumPy, in a quarter of the time. The sums are the same, to the last bit.
    """
    is_usual = terms[2] == 0.0 and (terms[0] > 0.0 or terms[1] > 0.0 or terms[4] > 0.0)
    run = _by_levels if k >= WIDE and is_usual and _HAS_BIT_COUNTS else _by_loops
    return run(leaves, k, outside, words, legs, weight, terms, shift, powers, cap, split)


def _by_loops(
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


def _by_levels(
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
    labels = np.zeros((words, 1 << k), np.int64)
    for at, leaf in enumerate(leaves[:k]):
        own = np.array(legs[leaf * words : (leaf + 1) * words])
        np.bitwise_or(labels[:, : 1 << at], own[:, None], out=labels[:, 1 << at : 2 << at])
    around = np.array(legs[outside * words : (outside + 1) * words])
    keep = labels & (
        labels[:, ::-1] | around[:, None]
    )  # of others than S: what is as far from the end
    single = 1 << np.arange(k)
    keep[:, single] = labels[:, single]
    weights = np.array(weight[:words])[:, None]
    size = (np.bitwise_count(keep) * weights).sum(0)
    moved = _power(size - shift)
    cost = np.full(1 << k, cap)
    cost[single] = 0.0
    for whole, one, other, begin in levels(k):
        both = keep[:, one] | keep[:, other]
        logs = (np.bitwise_count(both) * weights[:, :, None]).sum(0)
        step: Any = 0.0  # as lists.step_cost adds it up
        if terms[0] > 0.0:
            step = terms[0] * _power(logs - shift)
        if terms[1] > 0.0:
            step = step + terms[1] * (moved[one] + moved[other] + moved[whole][:, None])
        if terms[4] > 0.0:
            step = step + terms[4] * moved[whole][:, None]
        total = cost[one] + cost[other] + step
        best = total.argmin(1)  # of equal ones, the first
        best += begin
        least = total.take(best)
        is_less = least < cap
        cost[whole] = np.where(is_less, least, cap)
        for subset, half in zip(
            whole[is_less].tolist(), one.take(best[is_less]).tolist(), strict=True
        ):
            split[subset] = half
    return float(cost[-1])


def _power(x: Any) -> Any:
    """`arrays.power` of an array."""
    table = _table()
    whole, part = x >> 32, x & (UNIT - 1)
    rest = (part & ((1 << 21) - 1)) * LN2_OF_UNIT
    made = (
        table[np.clip(whole, LOWEST, HIGHEST) - LOWEST]
        * table[HIGHEST - LOWEST + 1 + (part >> 21)]
        * (1.0 + rest)
    )
    is_outside = (whole < LOWEST) | (whole >= HIGHEST)
    return np.where(is_outside, table[np.clip(whole, LOWEST, HIGHEST) - LOWEST], made)


@cache
def _table() -> Any:
    return np.array(powers_of_two())


best_split.compiled = _by_loops  # type: ignore[attr-defined]

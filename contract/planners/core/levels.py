"""The best tree of a few tensors as in `few`, all sets of one number of tensors at once, by NumPy.

For processes that have no compiled code at hand: every set is looked at, none is left out for what it
costs, and still ten tensors take a tenth of what loops in Python take. The sums are those of `few` in
their order, so that the tree is the same, where several cost as little too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...._base.caches import Cache
from .few import write


class Level(NamedTuple):
    """All sets of k tensors of n, and the ways to split each.

    Attributes:
        whole: the sets, ascending.
        one: in a row for each set the halves that have its first tensor, descending.
        other: what is left of the set.
        begin: where each row begins.
    """

    whole: Any
    one: Any
    other: Any
    begin: Any


def best_path(
    n: int, holders: Sequence[int], sizes: Sequence[float], multiplied: float, moved: float
) -> list[int]:
    """The flat path of the best tree; arguments are those of few.best_of_few."""
    everything = (1 << n) - 1
    products = np.ones((2, everything + 1))
    within, summed = products
    for holding, size in zip(holders, sizes, strict=True):
        within[holding & everything] *= size
        if holding <= everything:
            summed[holding] *= size
    for k in range(n):
        halves = products.reshape(2, -1, 2, 1 << k)
        halves[:, :, 1] *= halves[:, :, 0]
    summed[1 << np.arange(n)] = 1.0
    touched = within[everything] / within[::-1]
    made = moved * (touched / summed)
    made[everything] = 0.0
    touched *= multiplied
    cost, split = np.zeros(everything + 1), np.zeros(everything + 1, np.int64)
    for whole, one, other, begin in levels(n):
        total = cost.take(one)
        total += cost.take(other)
        step = summed.take(one)
        step *= summed.take(other)
        np.divide(touched.take(whole)[:, None], step, out=step)
        total += step
        best = total.argmin(1)  # of equal ones, the first
        best += begin
        split[whole] = one.take(best)
        cost[whole] = made.take(whole) + total.take(best)
    path = [0] * (2 * n - 2)
    write(n, split.tolist(), path)
    return path


_LEVELS: Cache[tuple[Level, ...]] = Cache("sets of few tensors", 16)


def levels(n: int) -> tuple[Level, ...]:
    """The sets of 2, ..., n of n tensors; O(3**n) integers, half a MiB for ten tensors."""
    return _LEVELS.get(n) or _LEVELS.put(n, tuple(_levels(n)))


def _levels(n: int) -> Iterator[Level]:
    sets = np.arange(1 << n)
    has = (sets[:, None] >> np.arange(n)) & 1
    count = has.sum(1)
    for k in range(2, n + 1):
        whole = np.flatnonzero(count == k)
        tensor = has[whole].nonzero()[1].reshape(-1, k)
        part = np.arange((1 << (k - 1)) - 2, -1, -1)  # what the half has beside the first tensor
        one = np.repeat(1 << tensor[:, :1], len(part), axis=1)
        for at in range(1, k):
            one |= ((part >> (at - 1)) & 1) << tensor[:, at : at + 1]
        begin = np.arange(len(whole)) * len(part)
        yield Level(whole, one, whole[:, None] ^ one, begin)

"""What plain and compiled code say in different words: new arrays, the ones of a word, powers of two.

A function with an attribute `compiled` is replaced by that one (or by the intrinsic of that name)
where it is called from compiled code.
"""

from __future__ import annotations

import heapq
from collections.abc import MutableSequence
from typing import Any, TypeAlias

import numpy as np

from ....backend.cpu.apart import apart

Integers: TypeAlias = MutableSequence[int]
Floats: TypeAlias = MutableSequence[float]
Item: TypeAlias = tuple[float, int, int]
Heap: TypeAlias = list[Item]

UNIT = 1 << 32  # of fixed-point logarithms to base 2
BITS = 62  # labels in a word of a set: words are never negative
LOWEST, HIGHEST = -1000, 1000  # exponents of two that a power is taken of; beyond, these
FINE = 2048  # steps of the table of powers between 1 and 2
LN2_OF_UNIT = 1.613886979e-10  # ln 2 / 2**32


@apart
def integers(n: int, value: int) -> Integers:
    """n integers, all `value`."""
    return [value] * n


@apart
def floats(n: int, value: float) -> Floats:
    """n floats, all `value`."""
    return [value] * n


def ones(word: int) -> int:
    """How many bits of a word are 1."""
    return word.bit_count()


def natural(x: int) -> int:
    """An integer that is not negative: compiled, an index that is not looked at for being so."""
    return x


@apart
def heapify(heap: Heap) -> None:
    """Put the items in the order of a heap, the least first."""
    heapq.heapify(heap)


@apart
def push(heap: Heap, item: Item) -> None:
    """One more item."""
    heapq.heappush(heap, item)


@apart
def pop(heap: Heap) -> Item:
    """The least item, which is taken out."""
    return heapq.heappop(heap)


@apart
def sort(values: Integers, n: int) -> None:
    """Put the first n values in ascending order."""
    values[:n] = sorted(values[:n])


def power(x: int, powers: Floats) -> float:
    """2 to the power of a fixed-point number, to 8 digits, by a table (`powers_of_two`)."""
    whole = x >> 32
    if whole < LOWEST:
        return powers[0]
    if whole >= HIGHEST:
        return powers[HIGHEST - LOWEST]
    part = x & (UNIT - 1)
    rest = (part & ((1 << 21) - 1)) * LN2_OF_UNIT
    return powers[whole - LOWEST] * powers[HIGHEST - LOWEST + 1 + (part >> 21)] * (1.0 + rest)


def powers_of_two() -> list[float]:
    """The table of `power`: 2**LOWEST to 2**HIGHEST, then FINE steps from 1 to 2."""
    whole = [2.0**exponent for exponent in range(LOWEST, HIGHEST + 1)]
    return whole + [2.0 ** (step / FINE) for step in range(FINE)]


def draw(state: Integers) -> float:
    """A random number between 0 and 1, neither included.

    Two generators of 31 bits combined: P. L'Ecuyer, "Efficient and portable combined random number
    generators", CACM 31 (1988).
    """
    one = 40014 * state[0] % 2147483563
    other = 40692 * state[1] % 2147483399
    state[0] = one
    state[1] = other
    mixed = one - other
    if mixed < 1:
        mixed += 2147483562
    return mixed * 4.656613059555e-10


def _integers(n: int, value: int) -> Any:
    made = np.empty(n, np.int64)
    for k in range(n):
        made[k] = value
    return made


def _floats(n: int, value: float) -> Any:
    made = np.empty(n, np.float64)
    for k in range(n):
        made[k] = value
    return made


def _natural(x: int) -> Any:
    return np.uint64(x)


def _push(heap: Heap, item: Item) -> None:
    heap.append(item)
    _rise(heap, len(heap) - 1, 0)


def _pop(heap: Heap) -> Item:
    last = heap.pop()
    if len(heap) == 0:
        return last
    least, heap[0] = heap[0], last
    _sink(heap, 0)
    return least


def _heapify(heap: Heap) -> None:
    for at in range(len(heap) // 2 - 1, -1, -1):
        _sink(heap, at)


@apart
def _rise(heap: Heap, at: int, top: int) -> None:
    """Move an item up, no higher than `top`."""
    item = heap[at]
    while at > top:
        above = (at - 1) >> 1
        if not item < heap[above]:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = item


@apart
def _sink(heap: Heap, top: int) -> None:
    """Move an item down to the end and then up: what heapq does, so that lists are the same."""
    item, at, n = heap[top], top, len(heap)
    below = 2 * at + 1
    while below + 1 < n:
        left, right = heap[below], heap[below + 1]
        if left < right:
            heap[at], at = left, below
        else:
            heap[at], at = right, below + 1
        below = 2 * at + 1
    if below < n:
        heap[at], at = heap[below], below
    heap[at] = item
    _rise(heap, at, top)


def _sort(values: Integers, n: int) -> None:
    gap = 1
    while 3 * gap < n:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(gap, n):
            value, at = values[k], k
            while at >= gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value
        gap //= 3


integers.compiled = _integers  # type: ignore[attr-defined]
floats.compiled = _floats  # type: ignore[attr-defined]
natural.compiled = _natural  # type: ignore[attr-defined]
heapify.compiled = _heapify  # type: ignore[attr-defined]
push.compiled = _push  # type: ignore[attr-defined]
pop.compiled = _pop  # type: ignore[attr-defined]
sort.compiled = _sort  # type: ignore[attr-defined]
ones.compiled = "count_ones"  # type: ignore[attr-defined]

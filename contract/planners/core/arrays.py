"""What plain and compiled code say in different words: new arrays, the ones of a word, powers of two.

A function with an attribute `compiled` is replaced by that one (or by the intrinsic of that name)
where it is called from compiled code.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, TypeAlias

import numpy as np

Integers: TypeAlias = MutableSequence[int]
Floats: TypeAlias = MutableSequence[float]

UNIT = 1 << 32  # of fixed-point logarithms to base 2
BITS = 62  # labels in a word of a set: words are never negative
LOWEST, HIGHEST = -1000, 1000  # exponents of two that a power is taken of; beyond, these
FINE = 2048  # steps of the table of powers between 1 and 2


def integers(n: int, value: int) -> Integers:
    """n integers, all `value`."""
    return [value] * n


def floats(n: int, value: float) -> Floats:
    """n floats, all `value`."""
    return [value] * n


def ones(word: int) -> int:
    """How many bits of a word are 1."""
    return word.bit_count()


def power(x: int, powers: Floats) -> float:
    """2 to the power of a fixed-point number, to 8 digits, by a table (`powers_of_two`)."""
    whole = x >> 32
    if whole < LOWEST:
        return powers[0]
    if whole >= HIGHEST:
        return powers[HIGHEST - LOWEST]
    part = x & (UNIT - 1)
    rest = (part & ((1 << 21) - 1)) * 1.613886979e-10  # ln 2 / 2**32
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
    return np.full(n, value, np.int64)


def _floats(n: int, value: float) -> Any:
    return np.full(n, value, np.float64)


integers.compiled = _integers  # type: ignore[attr-defined]
floats.compiled = _floats  # type: ignore[attr-defined]
ones.compiled = "count_ones"  # type: ignore[attr-defined]

"""Ranges of slices, what each adds to the result, and their sum in the order of the slices.

A run in slices is a sum over ranges of them, each of which can be had anywhere and at any time. Floating
sums depend on their order; here it is that of the slices, wherever the ranges were run and whichever was
done first. No range crosses the border of a part of the result: it is a piece of the slices that add up
to one part, or all slices of some whole parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .executable import Executable


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """What the slices from `start` on, before `stop`, add to the result.

    Attributes:
        start, stop: numbers of slices.
        values: [parts, *shape of a part], for each part of the result that the slices are of.
        exponent: k where the sum is values * 2**-k; None for zeros, and where no exponents are kept apart.
            Of a contraction in one piece it is the exponent of ten.
    """

    start: int
    stop: int
    values: Any
    exponent: int | float | None = None


class Total(Protocol):
    """The result so far: partials are added in the order of their slices."""

    def add(self, partial: Partial) -> None: ...

    def latest(self, stop: int) -> Partial:
        """The sum, so far, of the part that the last slice added, `stop` - 1, is of."""
        ...

    def result(self) -> Any:
        """The result, or (mantissa, exponent of ten)."""
        ...


class Ranged(Protocol):
    """What can be run in ranges: `n_parts` parts of the result, each the sum of `each_part` slices."""

    @property
    def n_parts(self) -> int: ...

    @property
    def each_part(self) -> int: ...

    def prepared(self, arrays: Sequence[Any]) -> list[Any]:
        """What every slice takes: arrays, and what is the same in all slices, which is computed now."""
        ...

    def partial(self, operands: Sequence[Any], start: int, stop: int) -> Partial: ...

    def total(self, order: str) -> Total: ...


def cut(n_parts: int, each_part: int, size: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of ranges of at most `size` slices, in order.

    >>> list(cut(1, 7, 3)), list(cut(5, 2, 5))
    ([(0, 3), (3, 6), (6, 7)], [(0, 4), (4, 8), (8, 10)])
    """
    whole = (
        max(1, size // each_part) * each_part
    )  # some whole parts, where a part is no more than `size`
    for first in range(0, n_parts * each_part, whole):
        end = min(first + whole, n_parts * each_part)
        step = min(size, each_part) if size < each_part else whole
        for start in range(first, end, step):
            yield start, min(start + step, end)


class OneRange:
    """A program without static indices as one slice, which is the whole result."""

    n_parts = each_part = 1

    def __init__(self, executable: Executable) -> None:
        self._executable = executable

    def prepared(self, arrays: Sequence[Any]) -> list[Any]:
        return list(arrays)

    def partial(self, operands: Sequence[Any], start: int, stop: int) -> Partial:
        outputs = self._executable(*operands)
        value, exponent = outputs if type(outputs) is tuple else (outputs, None)
        if any(np.may_share_memory(value, x) for x in operands):
            value = value.copy()  # a view of an operand, which is the caller's
        return Partial(start, stop, value[None], None if exponent is None else float(exponent))

    def total(self, order: str) -> Total:
        return _OneTotal()


class _OneTotal:
    """The only partial."""

    def add(self, partial: Partial) -> None:
        self._partial = partial

    def latest(self, stop: int) -> Partial:
        return self._partial

    def result(self) -> Any:
        values, exponent = self._partial.values[0, ...], self._partial.exponent
        values = values if values.flags.writeable else values.copy()  # as it was received
        return values if exponent is None else (values, exponent)

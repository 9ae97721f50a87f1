"""Products without sums: in which lines their results are written.

out[batch, rows, columns] = lhs[batch, rows] * rhs[batch, columns], in any order of the axes. A line is what
lies at the end of the result and is read from each operand as one piece that has all of it, or is one number.
Beginning a line takes as long as some elements of it. Where lines are short, an operand that is little beside
the result may be copied first: in the order of the result, and repeated along axes of the line that it lacks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from .spec import Axes

LITTLE = 8  # times as many elements as are copied has the result
ENOUGH = 64  # elements of a line that need not be longer
SOME = 1 << 12  # elements of a result from which copies are worth their start
LONGER = 2  # times as long lines become by copies that pay


class Lines(NamedTuple):
    """Elements of a line, how many of the result's last axes it has, which of lhs and rhs are copied, and how
    many elements that are."""

    length: int
    axes: int = 0
    copied: tuple[bool, bool] = (False, False)
    elements: int = 0


def lines_of(sizes: Mapping[int, int], lhs: Axes, rhs: Axes, out: Axes) -> Lines:
    """Those of a result in the order `out`, of operands whose axes lie so.

    >>> lines_of({0: 90, 1: 70}, (0,), (1,), (0, 1))  # each element of lhs times all of rhs
    Lines(length=70, axes=1, copied=(False, False), elements=0)
    >>> lines_of({0: 90, 1: 70, 2: 3}, (0, 2), (1,), (0, 1, 2))  # rhs with each element three times
    Lines(length=3, axes=1, copied=(False, False), elements=0)
    """
    total = math.prod([sizes[x] for x in out])
    natural, best, length = Lines(1), Lines(1), 1
    for axes in range(1, len(out) + 1):
        line = out[-axes:]
        length *= sizes[line[0]]
        copied = (_is_copied(lhs, line), _is_copied(rhs, line))
        if copied == (False, False):
            natural = Lines(length, axes)
            continue
        elements = sum(
            length * math.prod([sizes[x] for x in order if x not in line])
            for order, is_one in zip((lhs, rhs), copied, strict=True)
            if is_one
        )
        if best.length < ENOUGH and LITTLE * elements <= total:
            best = Lines(length, axes, copied, elements)
    is_better = natural.length < ENOUGH and best.length >= LONGER * natural.length
    return best if is_better and total >= SOME else natural


def _is_copied(order: Axes, line: Axes) -> bool:
    """Whether what an operand has of a line is neither one number nor one piece."""
    return not {*order}.isdisjoint(line) and order[-len(line) :] != line

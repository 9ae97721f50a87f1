"""Which part each label of two operands has in their product."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Literal, NamedTuple

from ..backend.spec import Axes


class Roles(NamedTuple):
    """Labels by role: of both operands and the result, of one operand and the result, of both operands
    alone."""

    batch: Axes
    rows: Axes
    columns: Axes
    summed: Axes


def roles(lhs: Axes, rhs: Axes, kept: Container[int]) -> Roles:
    """The roles of the labels of two operands, of which those in `kept` stay.

    Labels of both operands are listed in the order of the longer one, which is moved least.

    >>> roles((0, 1, 2), (2, 0), {0, 1})
    Roles(batch=(0,), rows=(1,), columns=(), summed=(2,))
    """
    longer, other = (lhs, rhs) if len(lhs) >= len(rhs) else (rhs, lhs)
    shared = [x for x in longer if x in other]
    return Roles(
        tuple([x for x in shared if x in kept]),
        tuple([x for x in lhs if x not in shared]),
        tuple([x for x in rhs if x not in shared]),
        tuple([x for x in shared if x not in kept]),
    )


Lie = Literal["own first", "summed first"]


def lies(axes: Axes, batch: Axes, own: Axes, summed: Axes) -> Lie | None:
    """How an operand with these axes is a batch of matrices, which of its two groups comes first; None for
    any other order.

    >>> [lies(axes, (0,), (1,), (2,)) for axes in ((0, 1, 2), (0, 2, 1), (1, 0, 2))]
    ['own first', 'summed first', None]
    """
    if axes == batch + own + summed:
        return "own first"
    return "summed first" if axes == batch + summed + own else None


def is_better_swapped(lhs: Axes, rhs: Axes, order: Iterable[int]) -> bool:
    """Whether the order that is wanted of the result lists rhs's own labels before lhs's."""
    for label in order:
        if (label in lhs) != (label in rhs):
            return label in rhs
    return False

"""A contraction of two arrays in labels, and the orders in which these lie in memory.

Orders are tuples of labels, the slowest axis first; None is an order that nobody has chosen yet: it then
costs nothing, which is how the orders of a whole program are searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .._base.caches import Quick
from .cost_model import RATES
from .rules import DotDims
from .spec import ArraySpec

Labels = tuple[int, ...]
Order = Labels | None
Orders = tuple[Order, Order, Order]  # of lhs, rhs and out

PACKINGS: tuple[tuple[bool, bool, bool], ...] = (
    (False, False, False),
    (True, False, False),
    (False, True, False),
    (False, False, True),
    (True, True, False),
    (True, False, True),
    (False, True, True),
    (True, True, True),
)


@dataclass(frozen=True)
class Contraction:
    """out[batch, rows, columns] = sum over contracted of lhs[batch, rows, contracted] * rhs[...].

    Labels of the four groups, and the size of each label; `itemsize` in bytes, `rate` of products relative
    to float64.
    """

    sizes: Mapping[int, int]
    batch: Labels
    rows: Labels
    columns: Labels
    contracted: Labels
    itemsize: int = 8
    rate: float = 1.0

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What makes two of them equal, to look up by."""
        groups = (self.batch, self.rows, self.columns, self.contracted)
        return (tuple(self.sizes.items()), *groups, self.itemsize, self.rate)

    def size(self, labels: Iterable[int]) -> int:
        size = 1
        for x in labels:
            size *= self.sizes[x]
        return size

    @cached_property
    def amounts(self) -> tuple[int, int, int, int]:
        """Sizes of the groups: batch, m, n, k."""
        batch, m, n, k = map(self.size, (self.batch, self.rows, self.columns, self.contracted))
        return batch, m, n, k

    @cached_property
    def packings(self) -> list[tuple[int, int, int, tuple[bool, bool, bool]]]:
        """What may be copied, the fewest bytes first: bytes, arrays, and its place among PACKINGS."""
        return sorted(
            (
                sum(n for n, copied in zip(self.nbytes, packed, strict=True) if copied),
                sum(packed),
                rank,
                packed,
            )
            for rank, packed in enumerate(PACKINGS)
        )

    @cached_property
    def runs(self) -> dict[tuple[int, Order, Order, int | None], Labels]:
        """What `_longest_run` of matrices.py found, by group, orders and end: searches ask for it often."""
        return {}

    @cached_property
    def has_ones(self) -> bool:
        """Whether some label has one element."""
        return 1 in self.sizes.values()

    @cached_property
    def nbytes(self) -> tuple[int, int, int]:
        """Of lhs, rhs and out."""
        batch, m, n, k = self.amounts
        lhs, rhs, out = (batch * x * self.itemsize for x in (m * k, k * n, m * n))
        return lhs, rhs, out


Labelled = tuple[Contraction, Labels, Labels]
_LABELLED: Quick[Labelled] = Quick("contractions in labels", 4096)


def contraction_of(dims: DotDims, lhs: ArraySpec, rhs: ArraySpec) -> Labelled:
    """A dot_general in labels, and those of the axes of both operands. Labels 0, 1, ... are the axes of the
    output, the contracted ones follow.

    Of equal dot_generals it is one object: many steps of a network are equal but for their slots, and each is
    asked for by layouts, memory, threads and kernels in turn."""
    key = (dims, lhs.shape, rhs.shape, lhs.dtype)
    found = _LABELLED.items.get(key)
    if found is None:
        _LABELLED.misses += 1
        found = _in_labels(dims, lhs, rhs)
        _LABELLED.put(key, found)
    else:
        _LABELLED.hits += 1
    return found


def _in_labels(dims: DotDims, lhs: ArraySpec, rhs: ArraySpec) -> Labelled:
    left, right = [0] * len(lhs.shape), [0] * len(rhs.shape)
    count = 0
    groups: list[Labels] = []
    for group in (
        [*zip(dims.lhs_batch, dims.rhs_batch, strict=True)],
        [(axis, None) for axis in dims.lhs_free],
        [(None, axis) for axis in dims.rhs_free],
        [*zip(dims.lhs_contracting, dims.rhs_contracting, strict=True)],
    ):
        for label, (i, j) in enumerate(group, count):
            if i is not None:
                left[i] = label
            if j is not None:
                right[j] = label
        groups.append(tuple(range(count, count + len(group))))
        count += len(group)
    sizes = dict(zip(left, lhs.shape, strict=True)) | dict(zip(right, rhs.shape, strict=True))
    batch, rows, columns, contracted = groups
    rate = RATES.get(lhs.dtype.char, 1.0)
    step = Contraction(sizes, batch, rows, columns, contracted, lhs.dtype.itemsize, rate)
    return step, tuple(left), tuple(right)


def orders_of(
    step: Contraction,
    left: Labels,
    right: Labels,
    specs: tuple[ArraySpec, ArraySpec, ArraySpec | None],
) -> tuple[Labels, Labels, Labels]:
    """Labels of lhs, rhs and out as they lie in memory: row-major where the specs do not say, or where there
    is none of the result."""
    lhs, rhs, out = (None if spec is None else spec.layout for spec in specs)
    return (
        left if lhs is None else tuple(left[axis] for axis in lhs),
        right if rhs is None else tuple(right[axis] for axis in rhs),
        (*step.batch, *step.rows, *step.columns) if out is None else out,
    )


DEPTH = 4096  # most contracted elements of a compiled loop nest: their offsets are a table


def without_ones(step: Contraction, order: Order) -> Order:
    """An order without the labels of one element."""
    if order is None or not step.has_ones:
        return order
    return tuple(x for x in order if step.sizes[x] > 1)

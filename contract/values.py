"""When two intermediates are the same: values of subsets of the tensors of an equation.

The value of a subset is the product of its tensors, summed over the labels that nobody else carries. It does
not depend on the tree. What tells it is the whole of it, operands by their names and labels by numbers: where
these are equal, values are, in one equation or in two.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .network import Network
from .tree import ContractionTree, Step

Key: TypeAlias = int
Parts: TypeAlias = dict[int, tuple[int, int]]
"""For subsets, as bits, the two subsets that a step multiplies."""


@dataclass(frozen=True, slots=True)
class Value:
    """The number of a value, the same for equal ones, and its tensors in an order in which they are equal."""

    key: Key
    order: tuple[int, ...]


class Values:
    """The subsets of one equation's tensors.

    Args:
        network: of the equation.
        names: of its operands; operands of one name are one array.
        kind: what else tells values apart, the dtype of computation.
        keys: the values met so far and their numbers, shared by all equations.
        rates: what a multiplication, an element moved and one written count.
    """

    def __init__(
        self,
        network: Network,
        names: Sequence[str],
        kind: str,
        keys: dict[Hashable, Key],
        rates: tuple[int, int, int],
    ) -> None:
        self.network, self.names, self.kind, self.rates = network, tuple(names), kind, rates
        self.n, self._keys = len(network.terms), keys
        self._repeated = {name for name in self.names if self.names.count(name) > 1}
        self.whole = (1 << self.n) - 1
        extents = network.extents
        self._axes = [
            tuple(x for x, n in zip(term, shape, strict=True) if n > 1)
            for term, shape in zip(network.terms, network.shapes, strict=True)
        ]
        holders: dict[int, int] = {}
        for tensor, labels in enumerate(self._axes):
            for label in labels:
                holders[label] = holders.get(label, 0) | 1 << tensor
        self._holders = holders
        self._at = {label: 1 << k for k, label in enumerate(holders)}
        self._extents = [extents[label] for label in holders]
        self._open = network.open
        self._values: dict[int, Value] = {}
        self._kept: dict[int, int] = {}
        self._sizes: dict[int, int] = {}

    def kept(self, subset: int) -> int:
        """Labels, as bits, that the value of a subset carries; a tensor has all its own until its step."""
        found = self._kept.get(subset)
        if found is None:
            found, is_one = 0, subset & (subset - 1) == 0
            for label, by in self._holders.items():
                if by & subset and (is_one or by & ~subset or label in self._open):
                    found |= self._at[label]
            self._kept[subset] = found
        return found

    def size(self, labels: int) -> int:
        """Elements of a tensor with these labels."""
        found = self._sizes.get(labels)
        if found is None:
            found = math.prod(n for k, n in enumerate(self._extents) if labels >> k & 1)
            self._sizes[labels] = found
        return found

    def cost(self, a: int, b: int) -> int:
        """Multiplications of the step that joins two subsets."""
        return self.size(self.kept(a) | self.kept(b))

    def weight(self, a: int, b: int) -> int:
        """What the step that joins two subsets counts."""
        multiplied, moved, written = self.rates
        weight = multiplied * self.cost(a, b)
        if moved or written:
            made = self.size(self.kept(a | b))
            read = self.size(self.kept(a)) + self.size(self.kept(b))
            weight += written * made + moved * (read + made)
        return weight

    def value(self, subset: int) -> Value:
        """Operands of one name that are alike are told apart by their order in the equation alone: then an
        equal value may be missed, but none is confused."""
        found = self._values.get(subset)
        if found is None:
            order = tuple(sorted(members(subset), key=lambda t: self._rank(t, subset)))
            number: dict[int, int] = {}
            terms = tuple(
                (self.names[t], tuple(number.setdefault(x, len(number)) for x in self._axes[t]))
                for t in order
            )
            kept = self.kept(subset)
            flags = tuple(bool(self._at[x] & kept) for x in number)
            key = self._keys.setdefault((self.kind, terms, flags), len(self._keys))
            found = self._values[subset] = Value(key, order)
        return found

    def _rank(self, tensor: int, subset: int) -> tuple[Hashable, ...]:
        if self.names[tensor] not in self._repeated:
            return (self.names[tensor],)
        kept = self.kept(subset)
        around = tuple(
            (bool(self._at[x] & kept), tuple(sorted(
                self.names[t] for t in members(self._holders[x] & subset)
            )))
            for x in self._axes[tensor]
        )  # fmt: skip
        return (self.names[tensor], around, tensor)

    def parts_of(self, tree: ContractionTree) -> Parts:
        """The subsets that the binary steps of a tree join."""
        subsets = [1 << tensor for tensor in range(self.n)]
        parts: Parts = {}
        for step in tree.ssa_path:
            whole = subsets[step[0]]
            for tensor in step[1:]:
                parts[whole | subsets[tensor]] = (whole, subsets[tensor])
                whole |= subsets[tensor]
            subsets.append(whole)
        return parts

    def tree_of(self, parts: Parts) -> ContractionTree:
        """The tree of the subsets below the whole, its steps in the order of `parts`."""
        order, stack = list[int](), [self.whole]
        while stack:
            subset = stack.pop()
            if subset & (subset - 1):
                order.append(subset)
                stack.extend(parts[subset])
        names = {1 << tensor: tensor for tensor in range(self.n)}
        steps: list[Step] = []
        for subset in reversed(order):
            a, b = parts[subset]
            steps.append((names[a], names[b]))
            names[subset] = self.n + len(steps) - 1
        return ContractionTree(self.n, tuple(steps))


def members(subset: int) -> Iterator[int]:
    """The bits of a subset."""
    while subset:
        low = subset & -subset
        yield low.bit_length() - 1
        subset ^= low

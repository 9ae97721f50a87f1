"""The hypergraph that planners see: tensors that carry labels, labels that have sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from .._base.errors import CallError, ShapeError, SubscriptError
from .notation import Equation, Label, label_name


class Network:
    """Tensors and the labels they share; a label on three or more tensors is a hyperedge.

    The contraction of a network is out[o] = sum over all labels not in o of the product of its
    tensors. Labels may be any hashable values and of any number.

    Args:
        inputs: for each tensor the labels of its axes; a label that repeats is a diagonal.
        output: labels of the result's axes.
        sizes: the size of every label.
        embed_diagonal: allow labels that repeat in `output`; the result stands on their diagonal.

    Raises:
        SubscriptError: an output label is in no tensor, or repeats.
        ShapeError: a label has no size, or one that is no integer >= 0.

    >>> net = Network([("a", "b"), ("b", "c")], ("a", "c"), {"a": 2, "b": 3, "c": 4})
    >>> net
    Network(2 tensors, 3 labels, output of 2 axes)
    >>> net.inputs, net.output, net.sizes["b"]
    ((('a', 'b'), ('b', 'c')), ('a', 'c'), 3)
    """

    def __init__(
        self,
        inputs: Iterable[Iterable[Label]],
        output: Iterable[Label],
        sizes: Mapping[Any, int],
        embed_diagonal: bool = False,
    ) -> None:
        number: dict[Label, int] = {}
        try:
            terms = tuple(
                tuple(number.setdefault(label, len(number)) for label in term) for term in inputs
            )
            names = tuple(output)
            hash(names)
        except TypeError as error:
            raise CallError(
                f"Network: give a list of hashable labels for each tensor, and one for the output "
                f"({error})"
            ) from None
        if not isinstance(sizes, Mapping):
            raise CallError(f"Network: give sizes as {{label: size}}, not a {type(sizes).__name__}")
        if not terms:
            raise SubscriptError("Network: give at least one tensor")
        missing = [label for label in names if label not in number]
        if missing:
            raise SubscriptError(f"Network: the output label {missing[0]!r} is in no tensor")
        if len(set(names)) != len(names) and not embed_diagonal:
            raise SubscriptError("Network: the output repeats a label; pass embed_diagonal=True")
        extents = tuple(_size_of(label, sizes) for label in number)
        shapes = tuple(tuple(extents[label] for label in term) for term in terms)
        self._set(terms, shapes, tuple(number[label] for label in names), extents, tuple(number))

    def _set(
        self,
        terms: tuple[tuple[int, ...], ...],
        shapes: tuple[tuple[int, ...], ...],
        output_axes: tuple[int, ...],
        extents: tuple[int, ...],
        labels: tuple[Label, ...],
    ) -> None:
        self.__dict__.update(
            terms=terms, shapes=shapes, output_axes=output_axes, extents=extents, labels=labels
        )

    terms: tuple[tuple[int, ...], ...]
    """Labels of each tensor's axes, as integers."""
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the tensors; an axis of size 1 may stand for a label of larger size (broadcasting)."""
    output_axes: tuple[int, ...]
    """Labels of the result's axes, as integers."""
    extents: tuple[int, ...]
    """Size of each label."""
    labels: tuple[Label, ...]
    """The user's name of each label."""

    @classmethod
    def of(cls, equation: Equation, shapes: Sequence[tuple[int, ...]], call: str) -> Network:
        """The network of an equation for these shapes; an axis of size 1 broadcasts."""
        sizes = list(zip(chain(*equation.inputs), chain(*shapes), strict=True))
        found = dict(sizes)  # by labels in order of first appearance, as they are numbered
        if len(set(sizes)) == len(found):
            extents = tuple(found.values())
        else:
            extents = _broadcast(equation, shapes, call)
        network = cls.__new__(cls)
        network._set(equation.inputs, tuple(shapes), equation.output, extents, equation.labels)
        return network

    @property
    def inputs(self) -> tuple[tuple[Label, ...], ...]:
        """Labels of each tensor's axes, by the user's names."""
        return tuple(tuple(self.labels[label] for label in term) for term in self.terms)

    @property
    def output(self) -> tuple[Label, ...]:
        """Labels of the result's axes, by the user's names."""
        return tuple(self.labels[label] for label in self.output_axes)

    @property
    def sizes(self) -> dict[Label, int]:
        """Size of every label, by the user's names."""
        return dict(zip(self.labels, self.extents, strict=True))

    def name(self, label: int) -> str:
        """The user's name of a label, as text."""
        given = self.labels[label]
        return given if isinstance(given, str) and len(given) == 1 else label_name(given)

    @cached_property
    def carried(self) -> tuple[frozenset[int], ...]:
        """Labels that each tensor really carries: a broadcast axis carries none."""
        return tuple(
            [
                frozenset(term if 1 not in shape else self._carried_by(term, shape))
                for term, shape in zip(self.terms, self.shapes, strict=True)
            ]
        )

    def _carried_by(self, term: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
        extents = self.extents
        return [label for label, n in zip(term, shape, strict=True) if extents[label] == n]

    @cached_property
    def open(self) -> frozenset[int]:
        """Labels of the output."""
        return frozenset(self.output_axes)

    def slice(self, labels: Iterable[int]) -> Network:
        """One slice: no tensor and no output has these labels any more, their sizes are 1.

        >>> net = Network(["ab", "bc"], "ac", {"a": 2, "b": 3, "c": 4})
        >>> net.slice([0, 1]).inputs, net.slice([0, 1]).output
        (((), ('c',)), ('c',))
        """
        cut = frozenset(labels)
        rows = [
            [(x, n) for x, n in zip(term, shape, strict=True) if x not in cut]
            for term, shape in zip(self.terms, self.shapes, strict=True)
        ]
        network = Network.__new__(Network)
        network._set(
            tuple(tuple(x for x, _ in row) for row in rows),
            tuple(tuple(n for _, n in row) for row in rows),
            tuple(x for x in self.output_axes if x not in cut),
            tuple(1 if x in cut else n for x, n in enumerate(self.extents)),
            self.labels,
        )
        return network

    def _key(self) -> tuple[Any, ...]:
        return (self.terms, self.shapes, self.output_axes, self.extents, self.labels)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Network is frozen; build a new one to change {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Network is frozen; {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, self._key()

    def __repr__(self) -> str:
        axes = len(self.output_axes)
        return (
            f"Network({len(self.terms)} tensors, {len(self.labels)} labels, output of {axes} axes)"
        )


def _restored(*values: Any) -> Network:
    network = Network.__new__(Network)
    network._set(*values)
    return network


def _broadcast(equation: Equation, shapes: Sequence[tuple[int, ...]], call: str) -> tuple[int, ...]:
    """The size of each label, where axes of one label differ: those of size 1 broadcast."""
    extents = [1] * len(equation.labels)
    names = [label_name(label) for label in equation.labels]
    first: list[int | None] = [None] * len(equation.labels)
    for operand, (term, shape) in enumerate(zip(equation.inputs, shapes, strict=True)):
        seen: dict[int, int] = {}
        for label, n in zip(term, shape, strict=True):
            if seen.setdefault(label, n) != n:
                raise ShapeError(
                    f"{call}: operand {operand} of shape {shape} repeats the label "
                    f"{names[label]} on axes of sizes {seen[label]} and {n}; "
                    f"a diagonal needs equal sizes"
                )
            if n != 1 and extents[label] not in (1, n):
                raise ShapeError(
                    f"{call}: label {names[label]} has size {extents[label]} in operand "
                    f"{first[label]} and {n} in operand {operand} (shapes "
                    f"{shapes[first[label] or 0]} and {shape}); sizes must agree or be 1"
                )
            if n != 1 and extents[label] == 1:
                extents[label], first[label] = n, operand
    return tuple(extents)


def _size_of(label: Label, sizes: Mapping[Any, int]) -> int:
    if label not in sizes:
        raise ShapeError(f"Network: label {label!r} has no size")
    size = sizes[label]
    if isinstance(size, bool) or not hasattr(size, "__index__") or int(size) < 0:
        raise ShapeError(f"Network: label {label!r} has size {size!r}; give an integer >= 0")
    return int(size)

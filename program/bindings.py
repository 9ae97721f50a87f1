"""Static indices: values in their ranges, and the loop over all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from itertools import product
from operator import index as as_index
from typing import Any

import numpy as np

from .._base.errors import OptionError, ProgramError
from .ir import StaticIndex


def odometer(ranges: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """One value of each range, the last runs fastest: the order of every loop over static indices.

    >>> list(odometer([range(2), range(1, 3)]))
    [(0, 1), (0, 2), (1, 1), (1, 2)]
    """
    return product(*ranges)


def check_values(expected: Sequence[StaticIndex], values: Sequence[int]) -> None:
    """Refuse values that are not one for each static index, in its range."""
    if len(values) != len(expected):
        raise ProgramError(f"{len(values)} static indices given, there are {len(expected)}")
    for number, (value, index) in enumerate(zip(values, expected, strict=True)):
        if not 0 <= value < index.size:
            raise ProgramError(
                f"static index i{number} ({index.name}) = {value} is not from 0 to {index.size - 1}"
            )


def _several(values: Any) -> Sequence[int]:
    """Those of a sequence or an array, which may change later, or the one value."""
    if isinstance(values, range):
        return values
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        return tuple(values.tolist())
    return tuple(values) if isinstance(values, Sequence) else (values,)


class Bindings(MutableMapping[str, int]):
    """Values of static indices by name, 0 at first; each is checked when it is set.

    >>> k = Bindings((StaticIndex("k", 3),))
    >>> k["k"] = 2
    >>> k
    {'k': 2}
    >>> k["k"] = 3
    Traceback (most recent call last):
    einloom._base.errors.OptionError: static index k = 3 is not from 0 to 2
    """

    def __init__(
        self, indices: Sequence[StaticIndex], values: Mapping[str, int] | None = None
    ) -> None:
        self._sizes = {one.name: one.size for one in indices}
        if len(self._sizes) < len(indices):
            raise ProgramError("two static indices have one name; values are given by name")
        self._values = dict.fromkeys(self._sizes, 0)
        self.update(values or {})

    def choices(
        self, given: Mapping[str, int | Sequence[int]] | None = None, *, every: bool = False
    ) -> list[Sequence[int]]:
        """For each index, in order, the values that it is to have: those given, or its own; or all of them if
        `every` is true."""
        found: dict[str, Sequence[int]] = {name: (value,) for name, value in self._values.items()}
        if every:
            found = {name: range(n) for name, n in self._sizes.items()}
        for name, values in (given or {}).items():
            self._known(name)
            several = _several(values)
            if not len(several):
                raise OptionError(f"static index {name}: no values given")
            ends = isinstance(several, range) and len(several) > 2  # which are its extremes
            for value in (several[0], several[-1]) if ends else several:
                self._check(name, value)
            found[name] = several
        return list(found.values())

    def _check(self, name: str, value: int) -> int:
        size = self._known(name)
        try:
            number = as_index(value)
        except TypeError:
            raise OptionError(f"static index {name} = {value!r:.60}; give an integer") from None
        if not 0 <= number < size:
            raise OptionError(f"static index {name} = {number} is not from 0 to {size - 1}")
        return number

    def _known(self, name: str) -> int:
        if name not in self._sizes:
            names = ", ".join(self._sizes) or "none"
            raise OptionError(f"there is no static index {name!r:.60}; there are: {names}")
        return self._sizes[name]

    def __setitem__(self, name: str, value: int) -> None:
        self._values[name] = self._check(name, value)

    def __getitem__(self, name: str) -> int:
        return self._values[name]

    def __delitem__(self, name: str) -> None:
        raise OptionError(f"static index {name!r:.60} always has a value; set another")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

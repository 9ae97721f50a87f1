"""Programs under construction: slots, bounds of their numbers, and the rules that append ops."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from einloom.backend.catalogue import CATALOGUE, infer
from einloom.backend.dtypes import class_of
from einloom.backend.spec import ArraySpec
from einloom.program.builder import Builder
from einloom.program.ir import instruction

EXACT = {
    "bool": 1,
    "int64": 2**50,
    "float32": 2**23,
    "float64": 2**50,
    "complex64": 2**23,
    "complex128": 2**50,
}
TO = {  # conversions that lose nothing
    "bool": ("int64", "float32", "float64", "complex64", "complex128"),
    "int64": ("float32", "float64", "complex128"),
    "float32": ("float64", "complex64"),
    "float64": ("int64", "float32", "complex128"),
    "complex64": ("complex128",),
    "complex128": ("complex64",),
}
LARGEST = 200  # elements of a slot
AXES = 6


class Growing:
    """A program under construction: what its slots may be used for."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.build = Builder()
        self.bounds: dict[int, int] = {}
        self.calls: list[tuple[int, str, tuple[int, ...], dict[str, Any]]] = []
        self.last: list[int] = []  # the last value of each static index

    def spec(self, slot: int) -> ArraySpec:
        return self.build.spec(slot)

    def any_slot(self, accept: Callable[[ArraySpec], bool] = lambda spec: True) -> int | None:
        """A slot, late ones rather than early ones."""
        found = [slot for slot in self.bounds if accept(self.spec(slot))]
        return found[-1 - int(len(found) * self.random.random() ** 2)] if found else None

    def some(self, items: Sequence[int], least: int = 0) -> tuple[int, ...]:
        return tuple(self.random.sample(items, self.random.randint(least, len(items))))

    def add(self, op: str, *operands: int, bound: int, **attrs: Any) -> int | None:
        """Append the op unless its result would be too large, in either sense."""
        resolved = instruction(op, operands, (), attrs).at(self.last)
        specs = infer(op, resolved, tuple(self.spec(slot) for slot in operands))
        for spec in specs:
            bound = 1 if spec.dtype.name == "bool" else bound
            if spec.size > LARGEST or len(spec.shape) > AXES or bound > EXACT[spec.dtype.name]:
                return None
        slots = self.build.several(op, *operands, **attrs)
        self.bounds |= dict.fromkeys(slots, bound)
        self.calls.append((slots[0], op, operands, attrs))
        return slots[0]

    def forget(self, slot: int) -> None:
        """From now on nothing reads it, and nothing is made like it."""
        del self.bounds[slot]
        self.calls = [call for call in self.calls if call[0] != slot]


Grow = Callable[[Growing], object]
GROW: dict[str, Grow] = {}


def grows(rule: Grow) -> Grow:
    GROW[rule.__name__.rstrip("_")] = rule
    return rule


def takes(op: str) -> Callable[[ArraySpec], bool]:
    """Whether the op takes operands of a dtype."""
    return lambda spec: class_of(spec.dtype) in CATALOGUE[op].dtypes


def bound_of_product(g: Growing, *slots: int) -> int:
    """Bound of a product: of complex numbers, each part is a sum of two."""
    bound = 1
    for slot in slots:
        bound *= g.bounds[slot]
    twice = g.spec(slots[0]).dtype.kind == "c"
    return bound * 2 ** (len(slots) - 1) if twice else bound

"""Contractions that nobody wrote: seeded random pairs, networks, sums, and small products."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import opt_einsum

import einloom

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender, present_roofline

COUNTS = {"pair": 24, "outer": 12, "network": 18, "one": 24, "shared": 24}
QUICK = 2  # of each kind
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MULTIPLICATIONS = {"pair": (1e4, 2e8), "outer": (2e4, 2e6), "network": (2e5, 5e8)}
ELEMENTS = {"one": (1e2, 2e5), "shared": (1e2, 2e5)}  # of the largest array
AT_ONCE = 1e7  # products of all numbers, at most, for a plain np.einsum to be a peer
MOST = 1 << 24  # elements of an array
RANGES = ((2, 6), (4, 20), (10, 60))  # of the sizes of a network's labels
TOLERANCE = {"float32": 1e-3, "float64": 1e-9, "complex128": 1e-9}


@dataclass(frozen=True)
class Drawn:
    """An equation, the size of each label, and the dtype of all operands."""

    kind: str
    number: int
    equation: str
    sizes: dict[str, int]
    dtype: str

    @property
    def name(self) -> str:
        sizes = " ".join(f"{label}{n}" for label, n in self.sizes.items())
        return f"{self.kind} {self.number:02} {self.equation} {sizes} {self.dtype}"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        terms = self.equation.partition("->")[0].split(",")
        return [tuple(self.sizes[label] for label in term) for term in terms]

    def arrays(self) -> list[Any]:
        """Normal random operands."""
        rng = np.random.default_rng(self.number)
        found = []
        for shape in self.shapes:
            x = np.empty(shape, self.dtype)
            for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
                part[...] = rng.standard_normal(shape)
            found.append(x)
        return found


def drawn(kind: str) -> Iterator[Drawn]:
    """Cases of one kind, the same ones every time: axes in any order, sizes whose products are spread evenly
    over the magnitudes of their range."""
    rng = np.random.default_rng(list(kind.encode()))
    by_kind = {"network": _network, "one": _one, "shared": _shared}
    draw = by_kind.get(kind, partial(_pair, kind))
    number = 0
    while True:
        terms, output, sizes = draw(rng)
        dtype = str(rng.choice(["float64", "float64", "float32", "complex128"]))
        case = Drawn(kind, number, f"{','.join(terms)}->{output}", sizes, dtype)
        result = math.prod(sizes[label] for label in output)
        largest = max(result, *map(math.prod, case.shapes))
        if kind in ELEMENTS:
            least, most = ELEMENTS[kind]
            if least <= largest <= most:
                number += 1
                yield case
            continue
        least, most = MULTIPLICATIONS[kind]
        if largest > MOST:
            continue
        plan = einloom.plan(case.equation, *case.shapes, dtype=dtype)
        if least <= plan.cost <= most and plan.largest_intermediate <= MOST:
            number += 1
            yield case


def _pair(kind: str, rng: np.random.Generator) -> tuple[list[str], str, dict[str, int]]:
    """Labels of the batch, of rows, of columns and contracted ones, those of pairs without sums left out."""
    roles = (0, 1, 2) if kind == "outer" else (0, 1, 2, 3)
    least = (0, 0, 0) if kind == "outer" else (0, 0, 0, 1)
    counts = [int(rng.integers(low, 3)) for low in least]
    letters = iter(LETTERS)
    groups = [list(islice(letters, n)) for n in counts]
    labels = [label for group in groups for label in group]
    low, high = (math.log(x) for x in MULTIPLICATIONS[kind])
    weights = rng.random(len(labels)) + 0.15
    logs = weights / weights.sum() * rng.uniform(low, high) if labels else weights
    sizes = {label: max(2, round(math.exp(x))) for label, x in zip(labels, logs, strict=True)}
    batch, rows, columns = groups[:3]
    contracted = groups[3] if len(roles) > 3 else []
    terms = [[*batch, *rows, *contracted], [*batch, *contracted, *columns]]
    return [_mixed(rng, term) for term in terms], _mixed(rng, [*batch, *rows, *columns]), sizes


def _network(rng: np.random.Generator) -> tuple[list[str], str, dict[str, int]]:
    """A tree of three to six tensors with up to two more bonds, open labels, and now and then a batch."""
    letters = iter(LETTERS)
    count = int(rng.integers(3, 7))
    low, high = RANGES[int(rng.integers(len(RANGES)))]
    terms: list[list[str]] = [[] for _ in range(count)]
    output: list[str] = []
    sizes: dict[str, int] = {}

    def bond(*places: int) -> str:
        label = next(letters)
        sizes[label] = int(rng.integers(low, high + 1))
        for at in places:
            terms[at].append(label)
        return label

    for at in range(1, count):
        bond(at, int(rng.integers(at)) if rng.random() < 0.3 else at - 1)
    for _ in range(int(rng.integers(3))):
        bond(*map(int, rng.choice(count, 2, replace=False)))
    output += [bond(int(rng.integers(count))) for _ in range(int(rng.integers(4)))]
    if rng.random() < 0.3:
        label = bond(*(k for k in range(count) if k == 0 or rng.random() < 0.7))
        sizes[label] = int(rng.choice([10, 100, 1000]))
        output.append(label)
    return [_mixed(rng, term) for term in terms], _mixed(rng, output), sizes


def _one(rng: np.random.Generator) -> tuple[list[str], str, dict[str, int]]:
    """One array, one of whose labels is summed, and now and then one stands twice."""
    labels = list(LETTERS[: int(rng.integers(1, 6))])
    sizes = _magnitudes(rng, labels)
    twice = [str(rng.choice(labels))] if rng.random() < 0.3 else []
    output = [label for label in labels[1:] if rng.random() < 0.6]
    return [_mixed(rng, labels + twice)], _mixed(rng, output), sizes


def _shared(rng: np.random.Generator) -> tuple[list[str], str, dict[str, int]]:
    """Two to four arrays that have several labels in common."""
    labels = list(LETTERS[: int(rng.integers(2, 5))])
    sizes = _magnitudes(rng, labels)
    terms = []
    for _ in range(int(rng.integers(2, 5))):
        count = int(rng.integers(1, len(labels) + 1))
        terms.append(_mixed(rng, [labels[k] for k in rng.permutation(len(labels))[:count]]))
    output = [label for label in labels if label in "".join(terms) and rng.random() < 0.5]
    return terms, _mixed(rng, output), {x: n for x, n in sizes.items() if x in "".join(terms)}


def _magnitudes(rng: np.random.Generator, labels: list[str]) -> dict[str, int]:
    return {label: round(10 ** rng.uniform(0.3, 3)) for label in labels}


def _mixed(rng: np.random.Generator, labels: list[str]) -> str:
    return "".join(labels[k] for k in rng.permutation(len(labels)))


def unseen(quick: bool) -> Iterator[CaseResult]:
    """Random contractions by the string, each called again and again; others have opt_einsum's best path."""
    for kind, count in COUNTS.items():
        for case in islice(drawn(kind), QUICK if quick else count):
            arrays = case.arrays()
            plan = einloom.plan(case.equation, *arrays)
            yield measure(
                case.name,
                dict(contenders(case, arrays)),
                tolerance=TOLERANCE[case.dtype],
                facts={"shapes": case.shapes, "dtype": case.dtype, "flops": str(plan.flops)},
                roofline=present_roofline(plan, quick),
                quick=quick,
            )


def contenders(case: Drawn, arrays: list[Any]) -> Iterator[tuple[str, Contender]]:
    """Who computes the case; an expression of opt_einsum is compiled before."""
    yield "einloom", partial(einloom.einsum, case.equation, *arrays)
    path, _ = opt_einsum.contract_path(case.equation, *arrays, optimize="optimal")
    by_path = ["einsum_path", *path]
    yield "np.einsum", partial(np.einsum, case.equation, *arrays, optimize=by_path)
    if case.kind in ELEMENTS and math.prod(case.sizes.values()) <= AT_ONCE:
        yield "np.einsum at once", partial(np.einsum, case.equation, *arrays)
    expression = opt_einsum.contract_expression(case.equation, *case.shapes, optimize=path)
    yield "opt_einsum+numpy", partial(expression, *arrays)
    torch = peers.torch()
    if torch is not None:
        tensors = [torch.from_numpy(x) for x in arrays]
        yield "torch.einsum", partial(torch.einsum, case.equation, *tensors)
        yield "opt_einsum+torch", partial(expression, *tensors)

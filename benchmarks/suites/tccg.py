"""The 48 contractions of the TCCG benchmark, beside the matrix product of the same size."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import opt_einsum

import einloom

from .. import peers
from ..harness import CaseResult, measure
from ..machine import Contender, present_roofline

FILE = Path(__file__).parents[1] / "tccg48.json"
DTYPES = ("f8", "f4", "c16")
TOLERANCES = {"f8": 1e-10, "f4": 1e-4, "c16": 1e-10}
MOST = 2e9  # floating-point operations: 2 for each multiplication, of whatever dtype
TINY = 2e5  # of a run that only shows that the suite works
STEP = 4  # sizes are multiples of it
GEMM = "GEMM"  # the matrix product with as many operations, written into memory that is there


@dataclass(frozen=True)
class Case:
    """One contraction in NumPy's order: the published ones are column-major, so that all labels are in
    reversed order here and everything is row-major."""

    family: str
    name: str
    equation: str
    sizes: dict[str, int]

    @property
    def operations(self) -> int:
        return 2 * math.prod(self.sizes.values())

    @property
    def terms(self) -> list[str]:
        """Of the operands and of the result."""
        return self.equation.replace("->", ",").split(",")

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(self.sizes[x] for x in term) for term in self.terms]

    @property
    def matrices(self) -> tuple[int, int, int]:
        """m, n and k of the matrix product with as many operations."""
        lhs, rhs, out = map(set, self.terms)
        m, n, k = (
            math.prod(self.sizes[x] for x in one & other)
            for one, other in ((lhs, out), (rhs, out), (lhs, rhs))
        )
        return m, n, k


def tccg(quick: bool) -> Iterator[CaseResult]:
    """The TCCG contractions with contiguous operands and results, scaled to 2 GFLOP at most."""
    for dtype in DTYPES:
        found = list(cases(dtype, TINY if quick else MOST))
        for case in found[::12] if quick else found:
            yield measured(case, dtype, quick)


def tccg_full(quick: bool) -> Iterator[CaseResult]:
    """The TCCG contractions at their published sizes in float64, up to 279 GFLOP each."""
    for case in cases("f8", TINY if quick else math.inf):  # all of them, small, when quick
        yield measured(case, "f8", quick)


def cases(dtype: str, most: float) -> Iterator[Case]:
    """The published contractions, each scaled to at most `most` operations."""
    published = json.loads(FILE.read_text(encoding="utf-8"))
    for family, name, equation, double, single, *_ in published["cases"]:
        terms, out = equation.split("->")
        turned = f"{','.join(term[::-1] for term in terms.split(','))}->{out[::-1]}"
        sizes = single if dtype == "f4" else double
        yield scaled(Case(family, name, turned, sizes), most)


def scaled(case: Case, most: float) -> Case:
    """All sizes shrunk by one factor, to multiples of 4, then the largest ones by 4 more, one after another,
    until there are no more operations than `most`.

    That is as large as `most` allows: where it leaves arrays below 32 MB, the case does.
    """
    if case.operations <= most:
        return case
    factor = (most / case.operations) ** (1 / len(case.sizes))
    sizes = {x: max(STEP, math.ceil(n * factor / STEP) * STEP) for x, n in case.sizes.items()}
    while 2 * math.prod(sizes.values()) > most and max(sizes.values()) > STEP:
        largest = max(sizes, key=sizes.__getitem__)
        sizes[largest] = (sizes[largest] - 1) // STEP * STEP
    return Case(case.family, case.name, case.equation, sizes)


def measured(case: Case, dtype: str, quick: bool) -> CaseResult:
    rng = np.random.default_rng(0)
    *shapes, out = case.shapes
    arrays = [random_array(rng, shape, dtype) for shape in shapes]
    plan = einloom.plan(case.equation, *arrays, order="C")
    m, n, k = case.matrices
    return measure(
        f"{dtype} {case.family} {case.name}",
        dict(contenders(case, arrays, dtype)),
        rounds=5,
        budget=6.0,
        baselines=(GEMM,),
        unchecked=(GEMM,),
        tolerance=TOLERANCES[dtype],
        facts={
            "equation": case.equation,
            "set": f"{dtype} {case.family}",
            "m": m,
            "n": n,
            "k": k,
            "largest_bytes": max(math.prod(shape) for shape in (*shapes, out)) * arrays[0].itemsize,
        },
        roofline=present_roofline(plan, quick),
        quick=quick,
    )


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    values: Any = rng.standard_normal(shape)
    if dtype == "c16":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def contenders(case: Case, arrays: list[Any], dtype: str) -> Iterator[tuple[str, Contender]]:
    """Ours first; all results are row-major."""
    equation, (x, y) = case.equation, arrays
    yield "einloom", partial(einloom.einsum, equation, x, y, order="C")
    m, n, k = case.matrices
    product = np.empty((m, n), dtype)
    yield GEMM, partial(np.dot, x.reshape(m, k), y.reshape(k, n), out=product)
    yield (
        "np.einsum",
        lambda: np.ascontiguousarray(np.einsum(equation, x, y, optimize=True)),
    )
    theirs = opt_einsum.contract_expression(equation, x.shape, y.shape)
    yield "opt_einsum+numpy", lambda: np.ascontiguousarray(theirs(x, y))
    torch = peers.torch()
    if torch is not None:
        a, b = map(torch.from_numpy, arrays)
        yield "torch.einsum", lambda: torch.einsum(equation, a, b).contiguous()
    pytblis = peers.pytblis()
    if pytblis is not None:
        yield "pytblis", lambda: np.ascontiguousarray(pytblis.einsum(equation, x, y))

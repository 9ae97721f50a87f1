"""Expressions that public code computes, each at a small and a large size, from the string."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import opt_einsum

import einloom
from einloom import Plan
from einloom.contract.cost import size_of, walk
from einloom.contract.lower import is_view

from .. import peers
from ..harness import PATIENCE, CaseResult, measure
from ..machine import Contender, present_roofline

FILE = Path(__file__).parents[1] / "expressions.json"
SIZES = ("small", "large")
MOST_PRODUCTS = 1 << 27  # for np.einsum without a path
LOOP_RATE = 1e9  # products a second of np.einsum's loop over several operands
QUICK = 8  # cases


@dataclass(frozen=True)
class Sized:
    """An expression at one of its sizes.

    accumulates: the result is added to an array that is there.
    slices: the operands are slices of larger arrays.
    """

    number: int
    size: str
    source: str
    equation: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    accumulates: bool
    slices: bool
    products: int  # of all sizes: multiplications without a path

    @property
    def name(self) -> str:
        return f"{self.number:02} {self.equation} {self.size}"

    def arrays(self) -> list[Any]:
        """Normal random operands, scaled so that sums over their axes stay near 1."""
        return [self._drawn(k, shape) for k, shape in enumerate(self.shapes)]

    def _drawn(self, seed: int, shape: tuple[int, ...]) -> Any:
        rng = np.random.default_rng([self.number, seed])
        longer = (*shape[:-1], shape[-1] + 1) if self.slices else shape
        x = np.empty(longer, self.dtype)
        parts = (x.real, x.imag) if self.dtype.startswith("complex") else (x,)
        for part in parts:
            part[...] = rng.standard_normal(longer)
        x /= max(1, math.prod(shape)) ** 0.25
        return x[..., :-1] if self.slices else x


def published(size: str) -> Iterator[Sized]:
    """The expressions of the file at this size."""
    for entry in json.loads(FILE.read_text(encoding="utf-8"))["expressions"]:
        equation = entry["equation"]
        equation = equation if isinstance(equation, str) else equation[size]
        sizes = {label: n if isinstance(n, list) else [n] for label, n in entry[size].items()}
        yield Sized(
            number=entry["number"],
            size=size,
            source=entry["source"],
            equation=equation,
            shapes=tuple(
                tuple(n for label in _labels(term) for n in sizes[label])
                for term in equation.partition("->")[0].split(",")
            ),
            dtype=entry["dtype"],
            accumulates=entry.get("accumulate", False),
            slices=entry.get("slices", False),
            products=math.prod(n for axes in sizes.values() for n in axes),
        )


def _labels(term: str) -> list[str]:
    """Letters, and "..." as one."""
    before, dots, after = term.replace(" ", "").partition("...")
    return [*before, *([dots] if dots else []), *after]


def expressions(quick: bool) -> Iterator[CaseResult]:
    """Expressions of public code at a small and a large size, called by the string again and again."""
    for size in SIZES[:1] if quick else SIZES:
        cases = list(published(size))
        for case in cases[:: len(cases) // QUICK] if quick else cases:
            arrays = case.arrays()
            plan = einloom.plan(case.equation, *arrays)
            calls = dict(contenders(case, arrays))
            left_out = {}
            seconds = loop_seconds(case, arrays)
            if seconds > PATIENCE:  # a loop in C, which no signal stops
                del calls["np.einsum(optimize)"]
                left_out["np.einsum(optimize)"] = (
                    f"a loop over all operands of about {seconds:.0f} s"
                )
            yield measure(
                case.name,
                calls,
                left_out=left_out,
                baselines=("torch.einsum",),
                facts={
                    "source": case.source,
                    "dtype": case.dtype,
                    "shapes": case.shapes,
                    "flops": str(plan.flops),
                    "peak_bytes": plan.peak_bytes,
                },
                roofline=None if is_view(plan.network) else present_roofline(plan, quick),
                quick=quick,
            )


def contenders(case: Sized, arrays: list[Any]) -> Iterator[tuple[str, Contender]]:
    """Who computes the case; torch is told for information, its users have no path."""
    calls: dict[str, Callable[..., Any]] = {
        "np.einsum(optimize)": partial(np.einsum, optimize=True),
        "opt_einsum": opt_einsum.contract,
    }
    if case.products <= MOST_PRODUCTS:
        calls["np.einsum"] = np.einsum
    if not case.accumulates:
        yield "einloom", partial(einloom.einsum, case.equation, *arrays)
        for who, call in calls.items():
            yield who, partial(call, case.equation, *arrays)
    else:
        shape = einloom.plan(case.equation, *arrays).assembly.spec.shape
        out = np.ones(shape, case.dtype)
        yield "einloom", partial(einloom.einsum, case.equation, *arrays, out=out, beta=1)
        for who, call in calls.items():
            theirs = partial(call, case.equation, *arrays)
            yield who, partial(_add, np.ones(shape, case.dtype), theirs)
    torch = peers.torch()
    if torch is not None:
        tensors = [torch.from_numpy(x) for x in arrays]
        theirs = partial(torch.einsum, case.equation, *tensors)
        if case.accumulates:
            theirs = partial(_add, torch.ones(shape, dtype=getattr(torch, case.dtype)), theirs)
        yield "torch.einsum", theirs


def loop_seconds(case: Sized, arrays: list[Any]) -> float:
    """What np.einsum's path leaves to its loop over more than two operands: its memory is limited by
    the size of the operands and the result."""
    path = np.einsum_path(case.equation, *arrays, optimize=True)[0][1:]
    plan: Plan = einloom.plan(case.equation, *arrays, planner=path)
    products = sum(
        size_of(step.union, plan.network.extents)
        for step in walk(plan.network, plan.tree)
        if len(step.operands) > 2
    )
    return products / LOOP_RATE


def _add(out: Any, call: Contender) -> Any:
    out += call()
    return out

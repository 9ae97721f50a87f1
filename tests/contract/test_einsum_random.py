"""Random equations over all forms, dtypes and memory layouts mean what the definition says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import numpy as np
import pytest
from tests.cases import Case, random_cases
from tests.oracles import check
from tests.tolerance import assert_close, tolerance

import einloom
from einloom._base.options import ENGINES
from einloom.backend.cpu import contraction, lanes, sequence
from einloom.backend.fusion import ProductFusionPlan

OPTIMIZE = ("auto", False, "greedy", "optimal", True)
PAIRS = ("auto", "greedy", "optimal", True)  # each makes products of two operands
COMPILED = {  # engines that are compiled for a dtype, and dtypes enough to meet each of their forms
    "loops": ("int64", "float64"),
    "blocked": ("int64", "bool", "float16", "float32", "float64"),
    "strips": ("float32", "float64"),
    "lanes": ("float32", "float64", "complex64", "complex128"),
    "sequence": ("float64", "complex128"),
}


def check_many(cases: Iterable[Case], optimize: tuple[Any, ...] = OPTIMIZE) -> None:
    """A failure prints the lines that repeat it."""
    for k, case in enumerate(cases):
        check(einloom.einsum, case, [optimize[k % len(optimize)]])


@pytest.mark.parametrize("seed", range(8))
def test_random(seed: int) -> None:
    check_many(random_cases(seed, 250))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_ten_thousand(seed: int) -> None:
    check_many(random_cases(seed, 1000))


# ---- each engine asked for -----------------------------------------------------------------------


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The engines that products, and chains of them, were bound to."""
    seen: set[str] = set()
    choose: Callable[..., Any] = contraction.dot_engine

    def dot_engine(*arguments: Any) -> Any:
        engine = choose(*arguments)
        seen.add(engine)
        return engine

    def noted(engine: str, bind: Callable[..., Any]) -> Callable[..., Any]:
        def bound(plan: ProductFusionPlan) -> Any:
            kernel = bind(plan)
            if kernel is not None:
                seen.add(engine)
            return kernel

        return bound

    monkeypatch.setattr(contraction, "dot_engine", dot_engine)
    monkeypatch.setattr(lanes, "bind_lanes", noted("lanes", lanes.bind_lanes))
    monkeypatch.setattr(sequence, "bind_sequence", noted("sequence", sequence.bind_sequence))
    return seen


@pytest.mark.parametrize("engine", ENGINES)
def test_random_with_each_engine(engine: str, taken: set[str]) -> None:
    names = COMPILED.get(engine)
    fitting = (x for x in random_cases(200, 3000) if names is None or x.compute_dtype.name in names)
    chosen = [*islice(fitting, 150)]
    assert len(chosen) == 150
    with einloom.options(engine=engine):
        check_many(chosen, PAIRS)
    assert engine in taken


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(100, 110))
def test_ten_thousand_with_each_engine(engine: str, seed: int, taken: set[str]) -> None:
    with einloom.options(engine=engine):
        check_many(random_cases(seed, 1000), PAIRS)
    assert engine in taken


LARGER: list[tuple[Any, ...]] = [
    ("bij,bjk->bik", (3, 40, 50), (3, 50, 70)),
    ("ij,jk->ik", (90, 70), (70, 130)),
    ("i,j->ij", (300,), (200,)),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_threads_agree(engine: str, dtype: str, rng: np.random.Generator) -> None:
    """One thread, two threads, and eight Python threads at once."""
    for equation, *shapes in LARGER:
        x, y = ((100 * rng.standard_normal(shape)).astype(dtype) for shape in shapes)

        def contract(threads: int, equation: str = equation, x: Any = x, y: Any = y) -> Any:
            with einloom.options(engine=engine, threads=threads):
                return einloom.einsum(equation, x, y)

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(contract, (1, 2) * 4))
        results += [contract(1), contract(2)]
        if dtype == "int64":
            for got in results:
                np.testing.assert_array_equal(got, np.einsum(equation, x, y))
        else:
            scale = np.einsum(equation, abs(x), abs(y))
            for got in results:
                assert_close(got, results[0], scale, 2 * tolerance(dtype, 70, 2))

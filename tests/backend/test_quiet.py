"""NumPy without warnings: whoever calls, from wherever, and whatever is raised."""

from __future__ import annotations

import decimal
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import einloom
from einloom.backend.cpu import quiet
from einloom.backend.cpu.quiet import quietly

HUGE = np.full(5, 1e300)


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_nothing_is_said() -> None:
    with np.errstate(all="raise"):
        assert np.isinf(quietly(np.multiply, HUGE, HUGE)).all()
        with pytest.raises(FloatingPointError):  # the caller's own settings are what they were
            np.multiply(HUGE, HUGE)


def test_errors_pass_and_the_context_is_free_again() -> None:
    quietly(np.add, 1, 1)
    idle = len(quiet._IDLE)
    for _ in range(3):
        with pytest.raises(ValueError, match="broadcast"):
            quietly(np.multiply, np.ones(2), np.ones(3))
        assert len(quiet._IDLE) == idle


def test_inside_itself() -> None:
    """As a destructor may call it."""

    def inside() -> Any:
        return quietly(np.multiply, HUGE, HUGE)

    assert np.isinf(quietly(inside)).all()


def test_eight_threads() -> None:
    def work(n: int) -> bool:
        return all(np.isinf(quietly(np.multiply, HUGE, HUGE)).all() for _ in range(200))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("equation", ["i,i->i", "zi,zi->z", "zij,zjk->zik"])
def test_contractions_of_huge_numbers(equation: str) -> None:
    terms = equation.partition("->")[0].split(",")
    arrays = [np.full((30,) * len(term), 1e300) for term in terms]
    with np.errstate(all="raise"):
        assert np.isinf(einloom.einsum(equation, *arrays)).all()


@pytest.mark.parametrize("equation", ["i,i->i", "zij,zjk->zik"])
def test_objects_keep_the_context_of_the_caller(equation: str) -> None:
    """Decimal numbers round as the caller's context says, which is a context variable, too."""
    terms = equation.partition("->")[0].split(",")
    arrays = [np.full((2,) * len(term), decimal.Decimal(1) / 3) for term in terms]
    with decimal.localcontext() as context:
        context.prec = 4
        got = einloom.einsum(equation, *arrays)
    assert all(len(x.as_tuple().digits) <= 4 for x in got.ravel())

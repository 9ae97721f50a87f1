"""Random equations over all forms, dtypes and memory layouts mean what the definition says."""

from __future__ import annotations

import pytest
from tests.cases import random_cases
from tests.oracles import check

import einloom

OPTIMIZE = ("auto", False, "greedy", "optimal", True)


def check_many(seed: int, count: int) -> None:
    """A failure prints the lines that repeat it."""
    for k, case in enumerate(random_cases(seed, count)):
        check(einloom.einsum, case, [OPTIMIZE[k % len(OPTIMIZE)]])


@pytest.mark.parametrize("seed", range(8))
def test_random(seed: int) -> None:
    check_many(seed, 250)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_ten_thousand(seed: int) -> None:
    check_many(seed, 1000)

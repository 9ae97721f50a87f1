"""The laws of every op on a GPU: `python -m pytest -m gpu`. Skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend import test_conformance as suite
from tests.backend.backends import CARDS, cases
from tests.backend.laws import assert_means
from tests.backend.test_conformance import FROM_TABLE, WRITING
from tests.on_card import MARKS, down

from einloom.backend.spec import ArraySpec, dtype_from_name

pytestmark = MARKS


@pytest.mark.parametrize(("card", "op", "name"), cases(FROM_TABLE, CARDS))
def test_law(card: str, op: str, name: str, rng: np.random.Generator) -> None:
    suite.test_law(card, op, name, rng)


@pytest.mark.parametrize(("card", "op", "name"), cases(WRITING, CARDS))
def test_out(card: str, op: str, name: str, rng: np.random.Generator) -> None:
    suite.test_out(card, op, name, rng)


@pytest.mark.parametrize(("card", "op", "name"), cases(["cast"], CARDS))
def test_cast(card: str, op: str, name: str, rng: np.random.Generator) -> None:
    suite.test_cast(card, name, rng)


@pytest.mark.parametrize(("card", "op", "name"), cases(["constant"], CARDS))
def test_constant(card: str, op: str, name: str) -> None:
    """The sign of zero too, which CuPy's own `full` loses."""
    dtype = dtype_from_name(name)
    for value in (True, 0, 1, 5, 0.5, -0.0, 1 - 2j):
        if isinstance(value, complex) and dtype.kind != "c":
            continue
        attrs = {"value": value, "dtype": name}
        got = down(CARDS[card].apply(op, attrs))
        assert_means(got, op, attrs, [], ArraySpec(dtype, ()))
        if dtype.kind in "fc" and isinstance(value, float):
            assert np.signbit(got.real) == np.signbit(value)
    if dtype.kind in "fc":
        assert np.signbit(down(CARDS[card].full((3,), -0.0, dtype)).real).all()

"""The laws of every op on a GPU: `python -m pytest -m gpu`. Skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend import test_conformance as suite
from tests.backend.backends import CARDS, cases
from tests.backend.test_conformance import FROM_TABLE, WRITING
from tests.on_card import MARKS

pytestmark = MARKS


@pytest.mark.parametrize(("card", "op", "name"), cases(FROM_TABLE, CARDS))
def test_law(card: str, op: str, name: str, rng: np.random.Generator) -> None:
    suite.test_law(card, op, name, rng)


@pytest.mark.parametrize(("card", "op", "name"), cases(WRITING, CARDS))
def test_out(card: str, op: str, name: str, rng: np.random.Generator) -> None:
    suite.test_out(card, op, name, rng)

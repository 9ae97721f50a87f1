"""Draws by keys on a GPU: the CPU's numbers in all bits. Skipped where there is none."""

from __future__ import annotations

import pytest
from tests import on_card
from tests.random import test_on_device as suite
from tests.random.test_on_device import (  # noqa: F401 (collected here once more)
    test_draws,
    test_in_programs,
    test_integers,
    test_keys_and_orders,
    test_out_is_refused,
)

from einloom import backend

pytestmark = on_card.MARKS


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "COMPILING", backend.get("gpu"))
    monkeypatch.setattr(suite, "there", on_card.up)
    monkeypatch.setattr(suite, "down", on_card.down)

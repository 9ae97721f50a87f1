"""Calls that were once wrong for one dtype or keyword stay right, however they are planned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cases import CALLS, LAYOUTS, Case
from tests.oracles import check

import einloom


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "broadcast"])
@pytest.mark.parametrize("case", CALLS, ids=repr)
def test_call(case: Case, layout: str) -> None:
    check(einloom.einsum, replace(case, layouts=(layout,)), ("auto", False, "greedy", "optimal"))

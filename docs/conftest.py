"""The pages show what the default options give, whatever EINLOOM_* says while they are tested."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import einloom
from einloom._base.options import Options
from einloom.backend import cost_model

# which engine is chosen is shown as on a processor that nothing is known of
cost_model.KNOWN.clear()
collect_ignore = [] if find_spec("onnx") else ["interop.md"]


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    default = Options()
    with einloom.options(
        memory_limit=default.memory_limit,
        budget=default.budget,
        plan_cache=default.plan_cache,
        small=default.small,
    ):
        yield

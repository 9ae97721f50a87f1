"""The examples of contexts do what they say, and leave nothing on the devices."""

from __future__ import annotations

import gc
import runpy
from pathlib import Path
from typing import Any

from tests.program.mock_device import cpu_devices

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> Any:
    return runpy.run_path(str(EXAMPLES / name))


def test_two_devices() -> None:
    """Slices on two devices, reduced through the merge buffer: the sum of one call."""
    with cpu_devices("cpu:0", "cpu:1") as devices:
        assert example("two_devices.py")["error"]() < 1e-12
        gc.collect()
        assert [one.contexts for one in devices] == [0, 0]


def test_factor_and_solve() -> None:
    """One factorisation, five solves: residuals of rounding, and no memory that stays."""
    with cpu_devices("cpu:0") as (device,):
        found = example("factor_and_solve.py")["residuals"]()
        assert len(found) == 5
        assert max(found) < 1e-12
        assert dict(device.pools.sizes) == {}

"""The example solves what it says."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "spectral_solves.py"


def test_residuals_are_those_of_rounding() -> None:
    found = runpy.run_path(str(EXAMPLE))["residuals"]()
    assert len(found) == 3
    assert max(found.values()) < 1e-9

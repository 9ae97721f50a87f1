"""Resident memory of a process while a program runs, beside the predicted peak."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SLACK = 64 << 20  # bytes: code, kernels, what BLAS keeps
RESET = Path("/proc/self/clear_refs")

CHILD = """
import sys
from pathlib import Path
import numpy as np
import einloom

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))

equation, limit, *shapes = sys.argv[1:]
rng = np.random.default_rng(0)
arrays = [rng.random([int(n) for n in shape.split("x")]) for shape in shapes]
plan = einloom.plan(equation, *arrays, memory_limit=int(limit) or None)
expr = einloom.compile(plan)
square = rng.random((600, 600))
np.dot(square, square)  # BLAS takes its own buffers, and the compiler
with einloom.options(engine="strips"):
    einloom.einsum("ij,jk->ik", square, square)
before = resident("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
result = expr(*arrays)
inputs = sum(x.nbytes for x in arrays)
print(resident("VmHWM") - before, expr.peak_bytes - inputs, plan.n_slices)
"""


@pytest.mark.skipif(not RESET.exists(), reason="no /proc/self/clear_refs to measure a peak with")
@pytest.mark.parametrize(
    ("equation", "limit", "shapes"),
    [
        ("iab,bjc,ijd,dk->ack", 0, ["60x120x30", "30x60x120", "60x60x40", "40x50"]),
        ("ab,bc,cd,ad->a", 0, ["3000x1000", "1000x3000", "3000x2000", "3000x2000"]),
        ("ab,bc,cd,ad->", 64 << 20, ["2000x700", "700x2000", "2000x900", "2000x900"]),
    ],
    ids=["layouts", "chain", "slices"],
)
def test_resident_memory(equation: str, limit: int, shapes: list[str]) -> None:
    """At most 64 MiB beyond what is predicted, in a process of its own; with slices too."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, equation, str(limit), *shapes],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    measured, predicted, slices = (int(word) for word in done.stdout.split())
    assert measured <= predicted + SLACK
    assert predicted < 4 * max(measured, SLACK)  # a bound that says something
    assert (slices > 1) == bool(limit)

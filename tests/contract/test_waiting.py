"""A first call waits for no compiler that it does not need: neither to plan nor to run."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import numpy as np
import einloom

rng = np.random.default_rng(0)

def chain(n):
    names = [chr(0x4e00 + k) for k in range(n + 1)]
    terms = ",".join(a + b for a, b in zip(names, names[1:]))
    sizes = rng.integers(2, 9, n + 1)
    arrays = [rng.standard_normal(shape) / 3 for shape in zip(sizes, sizes[1:])]
    return terms + "->" + names[0] + names[-1], arrays

def ring(n):  # of triangles: no tree
    terms = [f"{chr(0x4e00 + k)}{chr(0x4e00 + (k + 1) % n)}{chr(0x5e00 + k // 2)}" for k in range(n)]
    return ",".join(terms) + "->", [rng.standard_normal((3, 3, 2)) for _ in terms]

def ladder(n, rungs=4):  # a grid of so many columns
    terms = [
        chr(0x4e00 + rungs * k + j) + chr(0x4e00 + rungs * (k + 1) + j)
        + chr(0x5e00 + rungs * k + j) + chr(0x5e00 + rungs * k + (j + 1) % rungs)
        for k in range(n) for j in range(rungs)
    ]
    return ",".join(terms) + "->", [rng.standard_normal((2, 2, 2, 2)) / 3 for _ in terms]

equation, arrays = chain(200)
expected = np.linalg.multi_dot(arrays)
assert np.allclose(einloom.einsum(equation, *arrays), expected)
assert np.allclose(einloom.compile(equation, *arrays)(*arrays), expected)
equation, arrays = ring(120)
assert np.isfinite(einloom.einsum(equation, *arrays))
assert len(einloom.einsum_path(equation, *arrays, optimize="auto")[0]) == 120
equation, arrays = ladder(40)
peak = einloom.plan(equation, *arrays, planner="greedy").peak_bytes
room = sum(x.nbytes for x in arrays)
limited = einloom.einsum(equation, *arrays, memory_limit=room + (peak - room) // 4)
assert np.isfinite(limited)  # previously failed: it waited
print("numba" in sys.modules)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_many_tensors_that_take_little(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """einsum, and products of matrices by any way: their best tree is found without a search."""
    monkeypatch.setenv("EINLOOM_THREADS", str(threads))
    for name in ("SMALL", "PATIENCE"):
        monkeypatch.delenv(f"EINLOOM_{name}", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("False\n", "")

"""einsum waits for kernels where they save enough; its bits do not depend on whether they are compiled."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import einloom
from einloom import options
from einloom.contract import once

SMALL = 1 << 18

SCRIPT = """
import sys
import numpy as np
import einloom

rng = np.random.default_rng(0)
sizes = rng.integers(40, 200, 13)
chain = [rng.random((m, n)) for m, n in zip(sizes, sizes[1:])]
letters = "abcdefghijklm"
equation = ",".join(a + b for a, b in zip(letters, letters[1:])) + "->am"
thin = rng.random((900, 17)), rng.random((900, 1000))
first = einloom.einsum(equation, *chain), einloom.einsum("ki,kj->ij", *thin)
print("numba" in sys.modules)
small = np.ones((90000, 3, 3), complex)
einloom.compile("bij,bjk->bik", small, small)(small, small)
print("numba" in sys.modules)
einloom.clear_caches()
again = einloom.einsum(equation, *chain), einloom.einsum("ki,kj->ij", *thin)
print(all(np.array_equal(x, y) for x, y in zip(first, again)))
"""


def test_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains and thin products of milliseconds load no compiler, and have the same bits once there is one."""
    for name in ("EINLOOM_SMALL", "EINLOOM_PATIENCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EINLOOM_BARE", "0")  # else numba may not be asked for what is kept
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["False", "True", "True"], "")


def worth(equation: str, *shapes: tuple[int, ...]) -> bool:
    return once._are_worth_it(einloom.plan(equation, *shapes, dtype="c16"), 0.5, SMALL)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [(300, 300), (300, 300)], False),  # nothing is saved
        ("ki,kj->ij", [(900, 17), (900, 1000)], False),  # too little
        ("bij,bjk->bik", [(400000, 2, 2), (400000, 2, 2)], True),  # most
        ("bij,bjk->bik", [(9000, 2, 2), (9000, 2, 2)], False),  # most of very little
        ("ij,j->i", [(1000, 1000), (1000,)], False),
        ("i,j->ij", [(3000,), (3000,)], False),  # the same bits: `patience` counts seconds there
        ("ij,jk->ik", [(0, 300), (300, 300)], False),
    ],
)
def test_what_is_worth_it(equation: str, shapes: Any, expected: bool) -> None:
    assert worth(equation, *shapes) == expected


@pytest.mark.parametrize(
    "settings", [{"patience": 0}, {"provider": "native"}, {"engine": "loops"}, {"small": 0}]
)
def test_options_that_ask_for_kernels(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "_are_worth_it", lambda *_: pytest.fail("weighed all the same"))
    plan = einloom.plan("ij,jk->ik", (30, 30), (30, 30))
    with options(**{"patience": 0.5, "small": SMALL} | settings):
        once.for_few_calls(plan)


def test_einsum_follows_patience(rng: np.random.Generator) -> None:
    """What was compiled for one patience is not taken for another."""
    x, y = rng.random((900, 17)), rng.random((900, 1000))
    with options(patience=60, small=SMALL):
        patient = einloom.einsum("ki,kj->ij", x, y)
    with options(patience=0, small=SMALL):
        at_once = einloom.einsum("ki,kj->ij", x, y)
    np.testing.assert_allclose(patient, at_once, rtol=1e-12)
    assert np.array_equal(patient, x.T @ y)

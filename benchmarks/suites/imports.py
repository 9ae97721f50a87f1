"""How long a process takes that imports the library and does nothing else, or little else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from ..harness import CaseResult, measure
from ..machine import Contender

FIRST_KERNEL = """
import numpy as np, einloom
x = np.ones((200, 200), int)
einloom.einsum("ij,jk->ik", x, x)
"""
SEARCH = """
from einloom.contract.planners.core.run import load
load()
"""


def imports(quick: bool) -> Iterator[CaseResult]:
    """A whole process that only imports; the interpreter's own start is in both. And one that calls a kernel
    that is kept on disk, and one that loads the search for contraction trees: with numba, and without."""
    yield measure(
        "import",
        {
            "python alone": _process("pass"),
            "numpy": _process("import numpy"),
            "einloom": _process("import einloom"),
            "einloom.einsum": _process("import einloom; einloom.einsum"),
        },
        rounds=15,
        budget=30.0,
        baselines=("python alone", "numpy", "einloom.einsum"),
        quick=quick,
    )
    for name, code in (("first kernel", FIRST_KERNEL), ("search for trees", SEARCH)):
        subprocess.run([sys.executable, "-c", code], check=True)  # compiles what is not kept yet
        yield measure(
            name,
            {"einloom": _process(code), "by numba": _process(code, EINLOOM_BARE="0")},
            rounds=15,
            budget=30.0,
            baselines=("by numba",),
            quick=quick,
        )


def _process(code: str, **variables: str) -> Contender:
    environment = os.environ | variables
    return lambda: subprocess.run([sys.executable, "-c", code], env=environment, check=True) and 0.0

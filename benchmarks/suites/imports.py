"""How long a process takes that imports the library and does nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from ..harness import CaseResult, measure
from ..machine import Contender


def imports(quick: bool) -> Iterator[CaseResult]:
    """A whole process that only imports; the interpreter's own start is in both."""
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


def _process(code: str) -> Contender:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True) and 0.0

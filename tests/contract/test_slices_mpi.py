"""Slices on the ranks of MPI: one hands out ranges, the other runs them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import einloom

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(einloom.__file__).parents[1]
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")
SCRIPT = """
import einloom
from mpi4py.futures import MPIPoolExecutor
from tests.sliced_plans import lattice, reals, same_bits

if __name__ == "__main__":
    for strip in (False, True):
        plan = lattice(strip_exponent=strip)
        expr, operands = einloom.compile(plan), reals(plan)
        want = expr.run_slices(*operands, slices_per_task=4, threads=1)
        with MPIPoolExecutor() as pool:
            got = expr.run_slices(*operands, slices_per_task=4, executor=pool)
        assert same_bits(got, want), (got, want)
    print("the same")
"""


@pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="needs mpi4py and mpiexec: pip install mpi4py mpich",
)
def test_two_ranks(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-m", "mpi4py.futures", str(script)]
    variables = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "the same"

"""NumPy's own tests of einsum pass with `np.einsum` replaced by `einloom.einsum`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import einloom

# It wants an error for integer labels outside 0..51, which einloom takes on purpose.
FORBIDS_MORE_LABELS = "test_subscript_range"

PLUGIN = f"""
import json, os
import numpy
import einloom

theirs, numpy.einsum = numpy.einsum, einloom.einsum
report = {{"collected": 0, "left_out": [], "replaced": True, "passed": 0, "others": []}}


def pytest_collection_modifyitems(items):
    for module in {{item.module for item in items}}:
        for name in [name for name, value in vars(module).items() if value is theirs]:
            setattr(module, name, einloom.einsum)
        report["replaced"] &= module.np.einsum is einloom.einsum
    report["collected"] = len(items)
    report["left_out"] = [i.nodeid for i in items if i.originalname == {FORBIDS_MORE_LABELS!r}]
    items[:] = [item for item in items if item.nodeid not in report["left_out"]]


def pytest_runtest_logreport(report):
    if report.outcome != "passed":
        globals()["report"]["others"].append([report.nodeid, report.when, report.outcome])
    elif report.when == "call":
        globals()["report"]["passed"] += 1


def pytest_sessionfinish():
    with open(os.environ["REPORT"], "w") as file:
        json.dump(report, file)
"""


@pytest.mark.slow
def test_numpy_own_tests(tmp_path: Path) -> None:
    core = "numpy._core" if importlib.util.find_spec("numpy._core") else "numpy.core"
    tests = f"{core}.tests"
    if not importlib.util.find_spec(tests) or not importlib.util.find_spec(f"{tests}.test_einsum"):
        pytest.skip("the installed NumPy does not ship its tests")
    (tmp_path / "replace_einsum.py").write_text(PLUGIN)
    (tmp_path / "empty.ini").write_text("[pytest]\n")
    source = str(Path(einloom.__file__).parents[1])
    found = [str(tmp_path), source, os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, found)),
        "PYTEST_ADDOPTS": "",
        "REPORT": str(tmp_path / "report.json"),
        "TMPDIR": str(tmp_path),  # NumPy's conftest keeps its files there
    }
    options = ["-q", "-c", "empty.ini", "-p", "no:cacheprovider", "-p", "replace_einsum"]
    command = [sys.executable, "-m", "pytest", *options, "--pyargs", f"{tests}.test_einsum"]
    run = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    output = run.stdout + run.stderr
    assert (tmp_path / "report.json").exists(), output
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["replaced"], "the tests did not see einloom.einsum"
    assert len(report["left_out"]) == 1
    assert not report["others"], output
    assert report["passed"] == report["collected"] - 1 > 0
    assert run.returncode == 0, output

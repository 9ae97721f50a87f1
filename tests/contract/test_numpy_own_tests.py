"""NumPy's own tests of einsum pass with `np.einsum` replaced by `einloom.einsum`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from tests.own_tests import run_own_tests

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
    report, output, code = run_own_tests(tmp_path, PLUGIN, [f"{core}.tests.test_einsum"])
    assert report["replaced"], "the tests did not see einloom.einsum"
    assert len(report["left_out"]) == 1
    assert not report["others"], output
    assert report["passed"] == report["collected"] - 1 > 0
    assert code == 0, output

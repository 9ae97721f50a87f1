"""NumPy's own tests of numpy.linalg pass with its functions replaced by those of einloom.linalg."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.own_tests import run_own_tests

MODULES = ("test_linalg", "test_regression")

REAL_EIG = (
    "TestEigvals::test_types",
    "TestEigvals::test_0_size",
    "TestEig::test_types",
    "TestEig::test_0_size",
)
"""Tests of NumPy up to 2.4, where eigenvalues are real if they happen to be; here they are complex."""

# The modules under test see a numpy whose `linalg` is ours; the one that ours is built on stays.
PLUGIN = f"""
import json, os, types
import numpy
import numpy.linalg
from einloom import linalg

report = {{"collected": 0, "left_out": [], "replaced": [], "missing": [], "passed": 0, "others": []}}
names = [name for name in numpy.linalg.__all__ if name != "LinAlgError"]
report["missing"] = [name for name in names if not hasattr(linalg, name)]
theirs = {{id(getattr(numpy.linalg, name)): getattr(linalg, name, None) for name in names}}


class Over(types.ModuleType):
    def __init__(self, below, **names):
        super().__init__(below.__name__)
        self.__dict__.update(names, below=below)

    def __getattr__(self, name):
        return getattr(self.below, name)


ours = Over(numpy.linalg, **{{name: getattr(linalg, name, None) for name in names}})


def pytest_collection_modifyitems(items):
    for module in {{item.module for item in items}}:
        for name, value in list(vars(module).items()):
            if value is numpy:
                setattr(module, name, Over(numpy, linalg=ours))
            elif value is numpy.linalg:
                setattr(module, name, ours)
            elif id(value) in theirs:
                setattr(module, name, theirs[id(value)])
                report["replaced"].append(name)
        assert module.np.linalg.solve is linalg.solve and module.linalg.solve is linalg.solve
    report["collected"] = len(items)
    real = os.environ["REAL_EIG"] == "1"
    out = [i for i in items if real and any(part in i.nodeid for part in {REAL_EIG!r})]
    report["left_out"] = [i.nodeid for i in out]
    items[:] = [item for item in items if item not in out]


def pytest_runtest_logreport(report):
    if report.outcome not in ("passed", "skipped"):
        globals()["report"]["others"].append([report.nodeid, report.when, report.outcome])
    elif report.when == "call" and report.outcome == "passed":
        globals()["report"]["passed"] += 1


def pytest_sessionfinish():
    with open(os.environ["REPORT"], "w") as file:
        json.dump(report, file)
"""


def numpy_real_eig() -> bool:
    """Whether the NumPy that is installed returns real eigenvalues."""
    import numpy as np

    return np.linalg.eigvals(np.eye(2)).dtype.kind == "f"


@pytest.mark.slow
def test_numpy_own_tests(tmp_path: Path) -> None:
    found = [f"numpy.linalg.tests.{name}" for name in MODULES]
    ini = "markers =\n    slow: longer\n    thread_unsafe: no\n"
    real = str(int(numpy_real_eig()))
    report, output, code = run_own_tests(tmp_path, PLUGIN, found, ini, REAL_EIG=real)
    assert not report["missing"], "functions of numpy.linalg that are not here"
    assert {"matrix_power", "matrix_rank", "multi_dot", "norm"} <= set(report["replaced"])
    assert all(any(part in name for part in REAL_EIG) for name in report["left_out"])
    assert len(report["left_out"]) in (0, 10)
    assert not report["others"], output
    assert report["passed"] >= 300
    assert code == 0, output

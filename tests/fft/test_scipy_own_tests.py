"""SciPy's own tests of scipy.fft pass by way of einloom.fft.

`set_global_backend(einloom.fft, only=True)`: transforms are ours or an error. What SciPy does not
dispatch (frequencies, shifts, fast lengths) is replaced by name, in scipy.fft and in the tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.own_tests import run_own_tests

MODULES = (
    "test_basic",
    "test_helper",
    "test_real_transforms",
    "test_multithreading",
    "test_fftlog",
)

PLUGIN = """
import json, os
import scipy.fft, scipy.fft._helper
import einloom

HELPERS = ("fftfreq", "rfftfreq", "fftshift", "ifftshift", "next_fast_len", "prev_fast_len",
           "fhtoffset")
report = {"collected": 0, "passed": 0, "skipped": 0, "failed": [], "calls": 0}


class Counted:
    __ua_domain__ = einloom.fft.__ua_domain__

    @staticmethod
    def __ua_function__(method, args, kwargs):
        report["calls"] += 1
        return einloom.fft.__ua_function__(method, args, kwargs)


scipy.fft.set_global_backend(Counted, only=True)


def pytest_collection_modifyitems(items):  # the tests' decorators look SciPy's own up
    names = [name for name in HELPERS if hasattr(scipy.fft, name)]
    theirs = {getattr(scipy.fft, name): getattr(einloom.fft, name) for name in names}
    for name in names:
        setattr(scipy.fft, name, getattr(einloom.fft, name))
    for module in {item.module for item in items}:
        for name, value in list(vars(module).items()):
            if callable(value) and getattr(value, "__hash__", None) and value in theirs:
                setattr(module, name, theirs[value])
    report["collected"] = len(items)


def pytest_runtest_logreport(report):
    kept = globals()["report"]
    if report.failed:
        kept["failed"].append([report.nodeid, report.when])
    elif report.skipped:
        kept["skipped"] += 1
    elif report.when == "call":
        kept["passed"] += 1


def pytest_sessionfinish():
    with open(os.environ["REPORT"], "w") as file:
        json.dump(report, file)
"""


@pytest.mark.slow
def test_scipy_own_tests(tmp_path: Path) -> None:
    found = [f"scipy.fft.tests.{name}" for name in MODULES]
    report, output, code = run_own_tests(tmp_path, PLUGIN, found, "", "-W", "ignore")
    assert not report["failed"], output
    assert report["passed"] > 500
    assert report["calls"] > 500
    assert code == 0, output

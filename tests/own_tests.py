"""Another library's own tests, with its functions replaced by ours, in a process of their own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import einloom


class OwnTests(NamedTuple):
    """What the plugin has written, what pytest has, and how it ended."""

    report: dict[str, Any]
    output: str
    code: int


def run_own_tests(
    folder: Path, plugin: str, modules: list[str], ini: str = "", *options: str, **variables: str
) -> OwnTests:
    """Run the tests of these modules in an empty folder.

    The plugin is the text of a module that replaces functions, and writes its report as JSON into the file
    that the variable REPORT names. Skipped where the library that is installed ships no tests.
    """
    if not all(map(_is_there, modules)):
        pytest.skip(f"what is installed does not ship {modules[0].rpartition('.')[0]}")
    (folder / "replaces.py").write_text(plugin)
    (folder / "own.ini").write_text(f"[pytest]\n{ini}")
    source = str(Path(einloom.__file__).parents[1])
    found = [str(folder), source, os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, found)),
        "PYTEST_ADDOPTS": "",
        "REPORT": str(folder / "report.json"),
        "TMPDIR": str(folder),  # NumPy's conftest keeps its files there
        **variables,
    }
    standing = ["-q", "-c", "own.ini", "-p", "no:cacheprovider", "-p", "replaces"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *standing, *options, "--pyargs", *modules],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    output = run.stdout + run.stderr
    assert (folder / "report.json").exists(), output
    return OwnTests(json.loads((folder / "report.json").read_text()), output, run.returncode)


def _is_there(module: str) -> bool:
    package = module.rpartition(".")[0]
    return bool(importlib.util.find_spec(package) and importlib.util.find_spec(module))

"""`import einloom` loads next to nothing, and every name of its facade exists."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import einloom

SOURCE = str(Path(einloom.__file__).parents[1])
HEAVY = ("numba", "llvmlite", "scipy", "opt_einsum", "cupy", "torch", "ml_dtypes", "threadpoolctl")

IMPORT = "import json, sys, einloom; print(json.dumps(sorted(sys.modules)))"
SMALL_EINSUM = """
import json, sys
import numpy as np
import einloom
a = np.ones((3, 3))
assert einloom.einsum("ij,jk,kl->il", a, a, a)[0, 0] == 9
assert einloom.plan("ij,jk->ik", a, a).cost == 27
print(json.dumps(sorted(sys.modules)))
"""


def modules(code: str, *options: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running `code`."""
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    environment.pop("EINLOOM_SMALL", None)
    done = subprocess.run(
        [sys.executable, *options, "-c", code], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return set(json.loads(done.stdout))


def loaded(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names} & set(HEAVY)


def test_import_loads_nothing_heavy() -> None:
    assert not loaded(modules(IMPORT, "-W", "error"))


def test_a_small_einsum_loads_nothing_heavy() -> None:
    """No compiler, and no planner of others, where a plain NumPy call does."""
    assert not loaded(modules(SMALL_EINSUM, "-W", "error"))


def test_import_loads_few_modules_beside_numpy() -> None:
    """What it costs is what it loads; seconds are no measure for a test."""
    numpys = modules("import json, sys, numpy; print(json.dumps(sorted(sys.modules)))")
    extra = {name for name in modules(IMPORT) - numpys if not name.startswith("encodings")}
    assert len(extra) <= 20, sorted(extra)


@pytest.mark.parametrize("name", einloom.__all__)
def test_names(name: str) -> None:
    value = getattr(einloom, name)
    assert value is getattr(einloom, name)
    assert name in dir(einloom)
    assert value.__doc__, "no documentation"


def test_all_is_sorted_and_complete() -> None:
    assert sorted(einloom.__all__) == einloom.__all__
    assert len(set(einloom.__all__)) == len(einloom.__all__)
    namespace: dict[str, object] = {}
    exec("from einloom import *", namespace)
    assert set(einloom.__all__) <= set(namespace)
    errors = importlib.import_module("einloom._base.errors")
    public = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.EinloomError)
    ]
    assert set(public) <= set(einloom.__all__)


def test_running_one_by_one_is_private() -> None:
    """Programs run one instruction at a time by a function of a room, not by a public name."""
    executable = importlib.import_module("einloom.program.executable")
    assert callable(executable.Executable.interpret)
    assert not {"interpret", "Executable"} & set(einloom.__all__)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        einloom.no_such_name  # noqa: B018


def test_version() -> None:
    assert einloom.__version__.startswith("0.")

"""No einsum of ours is run by somebody else's: with all of theirs broken, the corpus still passes.

NumPy's einsum serves object arrays, which the corpus has none of.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import opt_einsum
import pytest
from tests.cases import CORPUS
from tests.oracles import check

import einloom

CORE = "numpy._core" if importlib.util.find_spec("numpy._core") else "numpy.core"
ENGINES = [
    ("numpy", "einsum"),
    (CORE, "einsum"),
    (f"{CORE}.einsumfunc", "einsum"),
    (f"{CORE}.einsumfunc", "c_einsum"),
    (f"{CORE}.multiarray", "c_einsum"),
    (f"{CORE}._multiarray_umath", "c_einsum"),
    ("opt_einsum", "contract"),
    ("opt_einsum.contract", "contract"),
    ("opt_einsum.contract", "_core_contract"),
    ("opt_einsum.contract", "_einsum"),
    ("opt_einsum.contract", "_tensordot"),
    ("torch", "einsum"),
    ("torch.functional", "einsum"),
]


def forbidden(*args: Any, **keywords: Any) -> NoReturn:
    raise AssertionError("a foreign engine was called")


def engines() -> Iterator[tuple[Any, str]]:
    """Module and name of every foreign engine that is installed."""
    for module, name in ENGINES:
        if importlib.util.find_spec(module.partition(".")[0]):
            importlib.import_module(module)
            if hasattr(sys.modules[module], name):  # opt_einsum.contract is also a function
                yield sys.modules[module], name


@pytest.fixture
def without_foreign_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    einloom.clear_caches()
    for module, name in list(engines()):
        monkeypatch.setattr(module, name, forbidden)
    monkeypatch.setattr(
        sys.modules["opt_einsum.contract"].ContractExpression, "__call__", forbidden
    )


@pytest.mark.usefixtures("without_foreign_engines")
def test_engines_are_broken() -> None:
    for engine in (np.einsum, opt_einsum.contract):
        with pytest.raises(AssertionError, match="foreign engine"):
            engine("i->", np.ones(2))


@pytest.mark.usefixtures("without_foreign_engines")
@pytest.mark.parametrize(
    "dtype", ["bool", "int64", "float16", "float64", "longdouble", "complex64"]
)
@pytest.mark.parametrize("heading", CORPUS)
def test_corpus_without_foreign_engines(heading: str, dtype: str) -> None:
    for case in CORPUS[heading]:
        ways = ("auto",) if "(" in case.equation else ("auto", False, "greedy")
        check(einloom.einsum, replace(case, dtypes=(dtype,)), ways, against_numpy=False)


def test_no_module_holds_a_foreign_engine() -> None:
    """A name bound at import would escape the test above."""
    foreign = [getattr(module, name) for module, name in engines()]
    held = [
        f"{name}.{attribute}"
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "einloom"
        for attribute, value in list(vars(module).items())
        if any(value is engine for engine in foreign)
    ]
    assert not held

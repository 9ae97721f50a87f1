"""Which processor this is, and for which one BLAS computes."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from einloom.backend import processor

TURIN = {"vendor_id": "AuthenticAMD", "cpu family": "26", "model": "2", "model name": "AMD EPYC"}


def test_nothing_is_known_of_another_system() -> None:
    assert processor.name({})


def test_processors_of_one_name_differ() -> None:
    assert processor.name(TURIN) == "AMD EPYC (cpu family 26, model 2)"
    assert processor.name(TURIN) != processor.name(TURIN | {"cpu family": "25"})


INTEL = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "85", "stepping": "7"}


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """That of a processor of which the system says this."""

    def make(known: dict[str, str], machine: str = "x86_64") -> tuple[str, ...]:
        monkeypatch.setattr(processor, "facts", lambda: known)
        monkeypatch.setattr(platform, "machine", lambda: machine)
        processor.identity.cache_clear()
        return processor.identity()

    yield make
    processor.identity.cache_clear()


def test_what_machine_code_is_for(identity: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever differs, in the system's words or in those of NumPy: valgrind shows another processor."""
    plain = identity(INTEL | {"flags": "fpu avx2"})
    found = {plain, identity(INTEL | {"flags": "fpu avx2 avx512f"})}
    found.add(identity(INTEL | {"flags": "fpu avx2", "stepping": "8"}))
    features = SimpleNamespace(__cpu_features__={"SSE2": True, "AVX2": False})
    monkeypatch.setitem(sys.modules, processor.LINKED, features)
    found.add(identity(INTEL | {"flags": "fpu avx2"}))
    assert len(found) == 4


@pytest.mark.parametrize(
    ("known", "machine"),
    [({}, "x86_64"), ({"CPU part": "0xd0c"}, "aarch64"), (INTEL | {"flags": "fpu"}, "aarch64")],
)
def test_llvm_is_asked_elsewhere(known: dict[str, str], machine: str, identity: Any) -> None:
    triple, name, features = identity(known, machine)
    assert "-" in triple
    assert name
    assert "+" in features


def test_what_is_asked_of_the_system_and_of_blas() -> None:
    assert all(name and "\n" not in value for name, value in processor.facts().items())
    core = processor.blas_core()
    assert core is None or core.isprintable()


def test_functions_of_blas() -> None:
    ask = processor.of_blas("get_num_threads")
    assert processor.of_blas("no_such_function") is None
    assert ask is None or ask() >= 1
    assert not processor.is_openblas() or ask is not None


@pytest.mark.parametrize(
    ("name", "version", "cpu", "expected"),
    [
        ("scipy-openblas", "0.3.31.188.0", "x86_64", (0, 3, 31)),
        ("scipy-openblas", "0.3.27", "x86_64", (0, 3, 27)),
        ("scipy-openblas", "0.3.27", "aarch64", ()),
        ("mkl", "2024.1", "x86_64", ()),
        ("scipy-openblas", "unknown", "x86_64", (0,)),
    ],
)
def test_the_version_of_the_wheels_blas(
    name: str, version: str, cpu: str, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {
        "Build Dependencies": {"blas": {"name": name, "version": version}},
        "Machine Information": {"host": {"cpu": cpu}},
    }
    monkeypatch.setattr(np.__config__, "CONFIG", known, raising=False)
    assert processor.openblas_version() == expected
    assert processor.is_openblas() == bool(expected)


def test_no_blas_is_known_of_another_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np.__config__, "CONFIG", {}, raising=False)
    assert not processor.is_openblas()
    assert processor.openblas_version() == ()
    monkeypatch.setattr(processor, "_library", lambda: None)
    assert processor.of_blas("get_num_threads") is None
    assert processor.blas_core() is None

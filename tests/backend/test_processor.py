"""Which processor this is, and for which one BLAS computes."""

from __future__ import annotations

from collections.abc import Iterator
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


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Not on Linux, or not on x86."""

    def forget() -> None:
        processor.identity.cache_clear()
        processor.has.cache_clear()

    monkeypatch.setattr(processor, "facts", lambda: {"CPU part": "0xd0c"})
    forget()
    yield
    forget()


def test_identity() -> None:
    assert len(processor.identity()) > 2
    assert all(processor.identity()[:2])


def test_identity_elsewhere(elsewhere: None) -> None:
    triple, name, features = processor.identity()
    assert "-" in triple
    assert name
    assert features


@pytest.mark.parametrize("feature", ["avx2", "avx512f", "sse2"])
def test_the_system_and_llvm_agree(feature: str) -> None:
    from llvmlite import binding

    assert processor.has(feature) == bool(binding.get_host_cpu_features().get(feature))


def test_features_elsewhere(elsewhere: None) -> None:
    test_the_system_and_llvm_agree("avx512f")


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

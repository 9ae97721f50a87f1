"""Which processor this is, for which one BLAS computes, and the cost model that follows from both."""

from __future__ import annotations

import pytest

from einloom.backend import processor
from einloom.backend.cost_model import NARROW_BLAS, CostModel, shipped

TURIN = {
    "vendor_id": "AuthenticAMD",
    "cpu family": "26",
    "model": "2",
    "model name": "AMD EPYC",
    "flags": "fpu avx2 avx512f avx512dq",
}


@pytest.mark.parametrize(
    ("change", "is_wide"),
    [
        ({}, True),
        ({"model": "68"}, True),  # Granite Ridge
        ({"model": "36"}, False),  # Strix Point
        ({"cpu family": "25", "model": "17"}, False),  # Zen 4
        ({"flags": "fpu avx2"}, False),
        ({"vendor_id": "GenuineIntel"}, False),
        ({"cpu family": "?"}, False),
    ],
    ids=str,
)
def test_units_of_512_bits(change: dict[str, str], is_wide: bool) -> None:
    assert processor.has_wide_units(TURIN | change) == is_wide


def test_nothing_is_known_of_another_system() -> None:
    assert not processor.has_wide_units({})
    assert processor.name({})


def test_processors_of_one_name_differ() -> None:
    assert processor.name(TURIN) == "AMD EPYC (cpu family 26, model 2)"
    assert processor.name(TURIN) != processor.name(TURIN | {"cpu family": "25"})


def test_what_is_asked_of_the_system_and_of_blas() -> None:
    assert all(name and "\n" not in value for name, value in processor.facts().items())
    core = processor.blas_core()
    assert core is None or core.isalnum()


def test_the_model_for_a_narrow_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shipped() == CostModel()
    monkeypatch.setattr(processor, "has_narrow_blas", lambda: True)
    assert shipped() == NARROW_BLAS
    assert NARROW_BLAS.strips > 1 > CostModel().strips

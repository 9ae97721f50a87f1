"""The benchmarks of a GPU, run in small with NumPy in the place of CuPy; and without a card."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.on_card import Timed, measure_on_card, queueing
from benchmarks.suites.gpu import cases, gpu, jax_on_card, torch_on_card

from einloom.backend.choice import register_arrays, unregister_arrays
from einloom.backend.gpu import missing
from einloom.contract import on_device
from tests.backend.backends import STAND_INS
from tests.backend.stand_in import DeviceArray

GPU = STAND_INS["gpu"]


def test_without_a_card() -> None:
    if missing() is None:
        pytest.skip("there is a GPU")
    (result,) = gpu(quick=True)
    assert not result.seconds
    assert str(result.facts["not measured"]).startswith("there is no card to measure on: ")


def test_every_case_runs_in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are checked; libraries that see no card are left out, and say so."""
    monkeypatch.setattr(on_device, "get", lambda name: GPU)
    register_arrays(DeviceArray, lambda x: GPU)
    try:
        found = list(cases(GPU.xp, GPU, quick=True))
    finally:
        unregister_arrays(DeviceArray)
    names = [result.name for result in found]
    assert len(names) == len(set(names))
    for what in (
        "ij,jk->ik",
        "ccsd",
        "nary_matmul_chain_64",
        "solve",
        "eigvalsh",
        "svdvals",
        "fft",
        "kalb,kln",
        "upload",
    ):
        assert any(what in name for name in names), what
    timed = [result for result in found if result.seconds]
    assert all({"einloom"} < result.seconds.keys() for result in timed)
    assert all(result.facts["card"] for result in timed)
    assert all("torch" in result.failed for result in timed if "equation" in result.facts)
    assert {result.name for result in found if not result.seconds} == {"host time"}


def test_results_are_checked() -> None:
    right, wrong, want = (GPU.to_device(np.full(3, x)) for x in (1.0, 1.01, 1.0))
    contenders = {"einloom": Timed(lambda: right), "peer": Timed(lambda: wrong)}
    with pytest.raises(AssertionError, match="peer is not what double precision gives"):
        measure_on_card(GPU.xp, "x", contenders, want, dtype="float64", quick=True)
    result = measure_on_card(
        GPU.xp, "x", contenders, want, dtype="float64", unchecked=("peer",), quick=True
    )
    assert set(result.seconds) == {"einloom", "peer"}
    assert result.paired.keys() == {"peer"}


def test_clocks() -> None:
    """By events, or by the host until a result says that it is done."""
    x = GPU.to_device(np.ones(3))
    waited = []
    contenders = {"einloom": Timed(lambda: x), "jax": Timed(lambda: x, waited.append)}
    result = measure_on_card(
        GPU.xp, "x", contenders, GPU.to_device(np.ones(3)), dtype="float64", quick=True
    )
    assert len(waited) == 2  # to see how long it takes, and once timed
    assert min(result.seconds.values()) > 0
    assert queueing(GPU.xp, lambda: x, 3) > 0


def test_peers_that_see_no_card_say_so() -> None:
    for library in (torch_on_card, jax_on_card):
        assert isinstance(library(), str) or missing() is None

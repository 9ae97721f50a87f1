"""einsum and expressions on a GPU: the cases that NumPy in its place is tested with, and the corpus."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests import on_card
from tests.cases import CORPUS
from tests.contract import test_on_device as suite
from tests.contract.test_on_device import (  # noqa: F401 (collected here once more)
    test_constants_of_the_device,
    test_explain_measures_by_events,
    test_exponents,
    test_expression,
    test_functions,
    test_functions_into_an_array,
    test_mixed_operands,
    test_paths_are_compiled_once,
    test_planners_of_the_user_are_asked_each_time,
    test_slices,
    test_slices_of_exponents_and_diagonals,
    test_transforms,
)
from tests.oracles import check

import einloom
from einloom import backend

pytestmark = on_card.MARKS


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu: Any = backend.get("gpu")
    monkeypatch.setattr(suite, "GPU", gpu)
    monkeypatch.setattr(suite, "IN_PLACE", on_card.IN_PLACE)
    monkeypatch.setattr(suite, "up", on_card.up)
    monkeypatch.setattr(suite, "down", on_card.down)
    monkeypatch.setattr(suite, "is_there", lambda x: isinstance(x, gpu.xp.ndarray))


@pytest.mark.parametrize("seed", range(16))
def test_random_equations(seed: int) -> None:
    suite.check_many(seed, 125)


@pytest.mark.parametrize("heading", CORPUS)
def test_corpus(heading: str) -> None:
    for case in filter(suite.runs, CORPUS[heading]):
        check(suite.on_device, case, ["auto"], against_numpy=False, in_place=on_card.IN_PLACE)


def test_submit() -> None:
    """On the stream that is current here; the future is done when an event is."""
    gpu: Any = backend.get("gpu")
    x, y = (on_card.up(np.ones(shape)) for shape in ((3, 4), (4, 5)))
    expr = einloom.compile("ij,jk->ik", x, y, device="gpu")
    with gpu.xp.cuda.Stream(non_blocking=True):
        found = expr.submit(x, y).result(10)
    np.testing.assert_array_equal(on_card.down(found), np.full((3, 5), 4.0))
    einloom.device("gpu:0").close()


def test_several_threads() -> None:
    """Each on a stream of its own, with one expression."""
    from concurrent.futures import ThreadPoolExecutor

    gpu: Any = backend.get("gpu")
    rng = np.random.default_rng(8)
    a, b, c = (rng.integers(-4, 5, shape) * 1.0 for shape in ((30, 40), (40, 50), (50, 20)))
    expr = einloom.compile("ij,jk,kl->il", a, b, c, device="gpu")
    want = a @ b @ c

    def work(k: int) -> None:
        with gpu.xp.cuda.Stream(non_blocking=True) as stream:
            x, y, z = (gpu.to_device(one) for one in (a, b, c))
            for _ in range(30):
                found = expr(x, y, z)
            stream.synchronize()
            np.testing.assert_array_equal(found.get(), want)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))

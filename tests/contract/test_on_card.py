"""einsum and expressions on a GPU: the cases that NumPy in its place is tested with, and the corpus."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests import on_card
from tests.cases import CORPUS, random_cases
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
from einloom._base.caches import cache_info
from einloom.backend.gpu import replay
from einloom.contract.expression import Expression

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


# ---- calls that come again ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_random_equations_called_again(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As graphs from the second call on."""
    monkeypatch.setattr(replay, "CALLS", 1)

    def again(*operands: Any, **keywords: Any) -> Any:
        for _ in range(4):
            found = suite.on_device(*operands, **keywords)
        return found

    for case in filter(suite.runs, random_cases(100 + seed, 100)):
        check(again, case, ["auto"], against_numpy=False, in_place=on_card.IN_PLACE)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "f2", "i4"])
def test_graphs_of_other_arrays(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of forty, other arrays in every call, some of which lie otherwise; results are the caller's."""
    monkeypatch.setattr(replay, "CALLS", 1)
    rng = np.random.default_rng(5)
    count = 40
    equation = ",".join(f"{chr(192 + k)}{chr(193 + k)}" for k in range(count))
    equation += f"->{chr(192)}{chr(192 + count)}"
    shapes = [(3, 5), (5, 3)] * (count // 2)
    expr = einloom.compile(equation, *shapes, dtype=dtype, device="gpu")
    kept = []
    for turn in range(12):
        signs = [np.zeros(shape, dtype) for shape in shapes]
        for x in signs:  # one number in each row, so that no product outgrows a half
            x[np.arange(len(x)), rng.integers(0, x.shape[1], len(x))] = rng.choice((-1, 1), len(x))
        if turn % 3 == 1:
            signs[4] = np.asfortranarray(signs[4])
        if turn % 5 == 4:
            signs[7] = np.repeat(signs[7], 2, axis=1)[:, ::2]
        wide = "c16" if dtype.startswith("c") else "f8"
        want = np.linalg.multi_dot([x.astype(wide) for x in signs])
        kept.append((expr(*map(on_card.up, signs)), want.astype(dtype)))
    for found, want in kept:
        np.testing.assert_array_equal(on_card.down(found), want)
    assert cache_info()["cuda graphs"].currsize > 0


def test_graphs_beside_each_other() -> None:
    """Two expressions with wide trees on eight streams, arrays that are freed at once."""
    from concurrent.futures import ThreadPoolExecutor

    gpu: Any = backend.get("gpu")
    rng = np.random.default_rng(9)
    equation = "ab,bc,cd,de,ef,fg,gh,hi->ai"
    expressions = [einloom.compile(equation, *[(n, n)] * 8, device="gpu") for n in (24, 60)]

    def work(k: int) -> None:
        size = (24, 60)[k % 2]
        with gpu.xp.cuda.Stream(non_blocking=True):
            for turn in range(40):
                signs = [rng_of[k].choice((-1.0, 0, 0, 1), (size, size)) for _ in range(8)]
                found = expressions[k % 2](*map(gpu.to_device, signs))
                if turn % 8 == 7:
                    np.testing.assert_array_equal(found.get(), np.linalg.multi_dot(signs))

    rng_of = [np.random.default_rng(int(rng.integers(1 << 30))) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_a_captured_stream_of_the_user() -> None:
    """What is recorded by somebody else is called as it is."""
    gpu: Any = backend.get("gpu")
    arrays = [on_card.up(np.ones((4, 4))) for _ in range(3)]
    expr = einloom.compile("ij,kj,kj->ij", *arrays, device="gpu")
    for _ in range(10):
        expr(*arrays)
    stream = gpu.xp.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            found = expr(*arrays)
        finally:
            graph = stream.end_capture()
        graph.launch()
        stream.synchronize()
    np.testing.assert_array_equal(found.get(), np.full((4, 4), 4.0))


@pytest.mark.parametrize("strip", [False, True])
def test_slices_of_arrays_of_the_host(strip: bool) -> None:
    """Pieces that are uploaded while others are multiplied, which takes longer than a copy."""
    gpu: Any = backend.get("gpu")
    rng = np.random.default_rng(11)
    shapes = (24, 600, 500), (24, 500, 7, 40), (7, 40, 600)
    arrays = [rng.integers(-2, 3, shape) * 1.0 for shape in shapes]
    equation = "sab,sbtc,tca->ac"
    plan = replace(einloom.plan(equation, *arrays, strip_exponent=strip), sliced=(0, 3))
    want = np.einsum("sab,sbtc,tca->ac", *arrays, optimize=True)
    expr = Expression(plan, backend=gpu)
    for size in (1, 5, 168):
        found = expr.run_slices(*arrays, slices_per_task=size, devices=("gpu:0",))
        mantissa, exponent = found if strip else (found, 0.0)
        np.testing.assert_allclose(on_card.down(mantissa) * 10.0**exponent, want, rtol=1e-12)

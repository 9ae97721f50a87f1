"""einsum has kernels from the first call where they save enough, else once doing without has cost as much."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import einloom
from einloom import options
from einloom.backend.cost_model import MODELS, CostModel
from einloom.backend.cpu import jit
from einloom.backend.cpu.lanes import pays
from einloom.backend.prediction import predict_lanes
from einloom.contract import once
from einloom.contract.expression import Expression
from einloom.program.chains import product_groups

einsum_module = import_module("einloom.contract.einsum")  # the package has a function of that name
SMALL = 1 << 18

SCRIPT = """
import sys
import numpy as np
import einloom

rng = np.random.default_rng(0)
sizes = rng.integers(40, 200, 13)
chain = [rng.random((m, n)) for m, n in zip(sizes, sizes[1:])]
letters = "abcdefghijklm"
equation = ",".join(a + b for a, b in zip(letters, letters[1:])) + "->am"
thin = rng.random((900, 17)), rng.random((900, 1000))
first = einloom.einsum(equation, *chain), einloom.einsum("ki,kj->ij", *thin)
print("numba" in sys.modules)
small = np.ones((90000, 3, 3), complex)
einloom.compile("bij,bjk->bik", small, small)(small, small)
print("numba" in sys.modules)
einloom.clear_caches()
again = einloom.einsum(equation, *chain), einloom.einsum("ki,kj->ij", *thin)
print(all(np.array_equal(x, y) for x, y in zip(first, again)))
"""


def test_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains and thin products of milliseconds load no compiler, and have the same bits once there is one."""
    for name in ("EINLOOM_SMALL", "EINLOOM_PATIENCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EINLOOM_BARE", "0")  # else numba may not be asked for what is kept
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["False", "True", "True"], "")


def worth(equation: str, *shapes: tuple[int, ...]) -> bool:
    return once._are_worth_it(einloom.plan(equation, *shapes, dtype="c16"), 0.5, SMALL)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [(300, 300), (300, 300)], False),  # nothing is saved
        ("ki,kj->ij", [(900, 17), (900, 1000)], False),  # too little
        ("bij,bjk->bik", [(400000, 2, 2), (400000, 2, 2)], True),  # most
        ("bij,bjk->bik", [(9000, 2, 2), (9000, 2, 2)], False),  # most of very little
        ("ij,j->i", [(1000, 1000), (1000,)], False),
        ("i,j->ij", [(3000,), (3000,)], False),  # the same bits: `patience` counts seconds there
        ("ij,jk->ik", [(0, 300), (300, 300)], False),
    ],
)
def test_what_is_worth_it(equation: str, shapes: Any, expected: bool) -> None:
    assert worth(equation, *shapes) == expected


@pytest.mark.parametrize(
    "settings", [{"patience": 0}, {"provider": "native"}, {"engine": "loops"}, {"small": 0}]
)
def test_options_that_ask_for_kernels(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "_are_worth_it", lambda *_: pytest.fail("weighed all the same"))
    plan = einloom.plan("ij,jk->ik", (30, 30), (30, 30))
    with options(**{"patience": 0.5, "small": SMALL} | settings):
        once.for_few_calls(plan)


def test_einsum_follows_patience(rng: np.random.Generator) -> None:
    """What was compiled for one patience is not taken for another."""
    x, y = rng.random((900, 17)), rng.random((900, 1000))
    with options(patience=60, small=SMALL):
        patient = einloom.einsum("ki,kj->ij", x, y)
    with options(patience=0, small=SMALL):
        at_once = einloom.einsum("ki,kj->ij", x, y)
    np.testing.assert_allclose(patient, at_once, rtol=1e-12)
    assert np.array_equal(patient, x.T @ y)


# ---- kernels that come later -------------------------------------------------------------------

THIN = ("ki,kj->ij", (900, 17), (900, 1000))  # strips save half of a call
SQUARE = ("ij,jk->ik", (100, 100), (100, 100))  # nothing is saved


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As a process that has loaded no kernel, where kernels are kept: loading takes a millisecond. By the
    general model of costs, whatever the processor."""
    MODELS.use(CostModel())
    with options(patience=0, small=SMALL):  # its kernel is here, or is kept
        einloom.compile(*THIN, dtype="f8")(*(np.ones(shape) for shape in THIN[1:]))
    einloom.clear_caches()
    monkeypatch.setattr(once, "loading_seconds", lambda: 1e-3)
    with options(patience=0.5, small=SMALL):
        yield
    einloom.clear_caches()
    MODELS.use(None)


def seen(equation: str, *operands: Any) -> tuple[Any, Any]:
    """The result of a call, and what was prepared for it."""
    result = einloom.einsum(equation, *operands)
    kept = list(einsum_module._EXPRESSIONS._items.values())
    return result, kept[-1] if kept else None


def operands_of(case: Any, rng: np.random.Generator) -> tuple[str, Any, Any]:
    equation, *shapes = case
    return (equation, *(rng.random(shape) for shape in shapes))


@pytest.mark.parametrize("n", [2, 3, 4, 6, 8, 12])
def test_what_lanes_save_counts_only_where_they_run(n: int) -> None:
    """Those that would refuse a group are no reason to load kernels."""
    MODELS.use(CostModel())
    try:
        plan = einloom.plan("zij,zjk->zik", (20000, n, n), (20000, n, n), dtype="f8")
        (group,) = product_groups(plan.program)
        products = once._products(plan.program)
        (one,) = products.values()
        saved = once._saved(plan.program, products, SMALL)
        by_lanes = one.plain - predict_lanes(group.plan).seconds
        assert saved == pytest.approx(
            max(by_lanes if pays(group.plan) else 0, one.plain - one.compiled)
        )
    finally:
        MODELS.use(None)


@pytest.mark.usefixtures("patient")
def test_kernels_come_when_their_loading_is_lost(rng: np.random.Generator) -> None:
    """At a call whose number the cost model tells; the bits are those of `compile` from then on."""
    call = operands_of(THIN, rng)
    plain, saved = once._seconds(einloom.plan(*THIN, dtype="f8"), SMALL)
    assert 0 < saved < plain
    plan = einloom.plan(*call)
    last = 1 + max(once.SEEN, -int(-1e-3 // saved))  # the first call is not counted
    results, kinds = [], []
    for _ in range(last + 3):
        result, found = seen(*call)
        results.append(result)
        kinds.append(type(found))
    at = kinds.index(Expression)
    assert abs(at - last) <= 1
    assert {*kinds[1:at]} == {once.FewCalls}
    assert {*kinds[at:]} == {Expression}
    assert all(np.array_equal(x, call[1].T @ call[2]) for x in results[:at])
    compiled = einloom.compile(plan)(*call[1:])
    assert all(np.array_equal(x, compiled) for x in results[at:])
    np.testing.assert_allclose(results[0], results[-1], rtol=1e-12)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("keywords", [{}, {"order": "C"}, {"optimize": "greedy"}])
def test_that_number_is_the_same_every_time(keywords: Any, rng: np.random.Generator) -> None:
    """Calls by the fast way count as those that go the long one do."""
    numbers = set()
    for _ in range(2):
        einloom.clear_caches()
        call, kinds = operands_of(THIN, rng), []
        for _ in range(60):
            einloom.einsum(*call, **keywords)
            kinds += map(type, list(einsum_module._EXPRESSIONS._items.values())[-1:])
        numbers.add(kinds.index(Expression))
    assert len(numbers) == 1


@pytest.mark.usefixtures("patient")
def test_where_nothing_is_saved_no_call_counts_any_more(rng: np.random.Generator) -> None:
    call = operands_of(SQUARE, rng)
    for _ in range(2 * once.SEEN):
        _, found = seen(*call)
    assert type(found) is once.FewCalls
    assert found.is_settled
    assert einsum_module._RECENT.items[call[0]][1] is found.fast


@pytest.mark.usefixtures("patient")
def test_small_contractions_never_count(rng: np.random.Generator) -> None:
    x = rng.random((8, 8))
    for _ in range(3):
        _, found = seen("ij,jk->ik", x, x)
    assert type(found) is Expression


MEDIUM = {  # fewer than SMALL multiplications, and what runs once there were many calls
    "rows": (("pi,pi->p", (2000, 24), (2000, 24)), "dots"),
    "lines": (("ikb,kb->ib", (4, 4, 3000), (4, 3000)), "loops"),
    "lanes": (("bij,bj->bi", (3000, 4, 4), (3000, 4)), "fused"),
}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("name", MEDIUM)
def test_medium_contractions_have_kernels_after_many_calls(
    name: str, rng: np.random.Generator
) -> None:
    """`small` counts for the first ones, and for `compile`."""
    case, engine = MEDIUM[name]
    call = operands_of(case, rng)
    with options(patience=0, small=SMALL * once.MEDIUM):  # its kernel is here, or is kept
        einloom.compile(*call)(*call[1:])
    einloom.einsum(*call)
    first, found = seen(*call)
    assert type(found) is once.FewCalls
    plain = einloom.compile(*call)
    assert engine not in str(plain.explain(*call[1:]))
    assert np.array_equal(first, plain(*call[1:]))
    for _ in range(10000):
        result, found = seen(*call)
        if type(found) is Expression:
            break
    assert type(found) is Expression
    assert engine in str(found.explain(*call[1:]))
    np.testing.assert_allclose(result, first, rtol=1e-11, atol=1e-11)
    einloom.clear_caches()
    with options(small=SMALL * 8):  # it has too few for that
        einloom.einsum(*call)
        assert type(seen(*call)[1]) is Expression


@pytest.mark.usefixtures("patient")
def test_endless_patience(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "loading_seconds", lambda: float("inf"))
    call = operands_of(THIN, rng)
    with options(patience=float("inf")):
        for _ in range(4 * once.SEEN):
            result, found = seen(*call)
    assert type(found) is once.FewCalls
    assert np.array_equal(result, call[1].T @ call[2])


@pytest.mark.usefixtures("patient")
def test_kernels_that_are_not_kept_are_put_off(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call waits for a compiler until as much is lost as that takes."""
    contract, asked = Expression.contract, []

    def refused(self: Expression, *arguments: Any) -> Any:
        if type(self) is Expression and getattr(jit._here, "kept_only", False):
            asked.append(self)
            raise jit.NotKept("multiply_strips")
        return contract(self, *arguments)

    monkeypatch.setattr(Expression, "contract", refused)
    call = operands_of(THIN, rng)
    for _ in range(60):
        result, found = seen(*call)
    assert len(asked) == 1
    assert type(found) is once.FewCalls
    assert not found.is_settled
    assert np.array_equal(result, call[1].T @ call[2])
    found.limit = 0.0  # previously failed: they were tried, and put off, again and again
    result, found = seen(*call)
    assert len(asked) == 1
    assert type(found) is Expression
    np.testing.assert_allclose(result, call[1].T @ call[2], rtol=1e-12)


@pytest.mark.usefixtures("patient")
def test_what_is_tried_may_need_more_memory_than_the_call(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Previously failed: a call with `out` raised the error of the one that was to tell what is kept."""
    contract = Expression.contract

    def limited(self: Expression, arrays: Any, out: Any = None, *others: Any) -> Any:
        if out is None:
            raise MemoryError
        return contract(self, arrays, out, *others)

    monkeypatch.setattr(Expression, "contract", limited)
    equation, *operands = operands_of(THIN, rng)
    out = np.empty((17, 1000))
    for _ in range(60):
        einloom.einsum(equation, *operands, out=out)
    np.testing.assert_allclose(out, operands[0].T @ operands[1], rtol=1e-12)


@pytest.mark.usefixtures("patient")
def test_long_calls_are_not_made_twice(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To see what is kept; they have kernels once calls have lost as much as a compiler takes to load."""
    monkeypatch.setattr(once, "BRIEF", 0.0)
    monkeypatch.setattr(once, "kept_only", lambda: pytest.fail("called once more"))
    call = operands_of(THIN, rng)
    for _ in range(2 * once.SEEN):
        _, found = seen(*call)
    assert type(found) is once.FewCalls
    assert found.limit > 50
    found.limit = 0.0
    assert type(seen(*call)[1]) is Expression


@pytest.mark.usefixtures("patient")
def test_several_threads_at_once(rng: np.random.Generator) -> None:
    call = operands_of(THIN, rng)
    with ThreadPoolExecutor(8) as pool:
        contexts = [copy_context() for _ in range(200)]  # threads of a pool have not these options
        results = list(pool.map(lambda own: own.run(einloom.einsum, *call), contexts))
    assert type(seen(*call)[1]) is Expression
    expected = call[1].T @ call[2]
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_a_kernel_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within `kept_only` it is not compiled, and after it it may be."""
    made = jit.Kernel(lambda x: x)
    monkeypatch.setattr(jit, "_dispatcher", lambda function: function)
    with jit.kept_only():
        with jit.kept_only(), pytest.raises(jit.NotKept):
            made(7)
        with pytest.raises(jit.NotKept):  # previously failed
            made(7)
    assert made(7) == 7


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("dtype", ["int64", "uint8", "float16", "bool", "longdouble"])
def test_dtypes_that_blas_does_not_know(dtype: str, rng: np.random.Generator) -> None:
    """Previously failed: KeyError, once calls were counted."""
    x, y = (rng.integers(0, 2, shape).astype(dtype) for shape in ((50, 100, 500), (100, 50)))
    expected = np.einsum("aed,ea->ade", x, y)
    for _ in range(2 * once.SEEN):
        assert np.array_equal(einloom.einsum("aed,ea->ade", x, y), expected)

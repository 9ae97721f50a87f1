"""A limit is met or refused before anything runs; the predicted peak is never exceeded."""

from __future__ import annotations

import math
import re
import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.names import said
from tests.networks import chain, grid, star

import einloom
from einloom import MemoryLimitError, Network, OptionError
from einloom.contract import arguments, delivery, expression, first, in_line

EQUATION = "ab,bc,cd->ad"
SHAPES = ((40, 400), (400, 40), (40, 400))
BEST = einloom.plan(EQUATION, *SHAPES).peak_bytes
ARRAYS = [np.ones(shape) for shape in SHAPES]
HELD = 8 * (3 * 40 * 400 + 40 * 400)  # operands and result: no plan and no slicing needs less
SMALL = [np.ones((4, 6)), np.ones((6, 4)), np.ones((4, 6))]  # sliced to the last label in no time


def outer(path: Any = "auto", **keywords: Any) -> Any:
    return einloom.plan(EQUATION, *SHAPES, planner=path, **keywords)


# Limits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit", [BEST, BEST + 1, f"{BEST} B", f"{BEST + 1024 >> 10}KiB", "1GiB", 1e12]
)
def test_a_limit_that_is_met(limit: Any) -> None:
    plan = outer(memory_limit=limit)
    assert plan == outer()  # a limit that the best plan meets changes nothing
    got = einloom.einsum(EQUATION, *ARRAYS, memory_limit=limit)
    np.testing.assert_array_equal(got, np.full((40, 400), 16000.0))
    assert einloom.compile(EQUATION, *SHAPES, memory_limit=limit).peak_bytes == BEST


@pytest.mark.parametrize("limit", [700, 1, "0.7 kB"])
@pytest.mark.parametrize("call", ["plan", "compile", "einsum", "einsum_path"])
def test_a_limit_that_is_not(call: str, limit: Any) -> None:
    """The error names the limit and the smallest peak; that one, given as the limit, is met."""
    with pytest.raises(MemoryLimitError, match=rf"^{call}: the memory limit is .*") as caught:
        getattr(einloom, call)(EQUATION, *SMALL, memory_limit=limit)
    assert isinstance(caught.value, MemoryError)
    (smallest,) = re.findall(
        r"smallest predicted peak found is .* \((\d+) bytes\)", str(caught.value)
    )
    assert int(smallest) <= einloom.plan(EQUATION, *SMALL).peak_bytes
    getattr(einloom, call)(EQUATION, *SMALL, memory_limit=int(smallest))


def test_out_is_untouched_when_the_limit_is_not_met() -> None:
    out = np.full((40, 400), 7.0)
    with pytest.raises(MemoryLimitError):
        einloom.einsum(EQUATION, *ARRAYS, out=out, memory_limit=1000)


def test_a_path_that_exceeds_the_limit_is_sliced() -> None:
    """Only the planner of ours looks for another path."""
    path = [(1, 2), (0, 1)]
    dear = outer(path).peak_bytes
    assert dear > BEST
    found = outer(path, memory_limit=BEST)
    assert found.path == tuple(path)
    assert found.sliced
    assert found.peak_bytes <= BEST
    with pytest.raises(MemoryLimitError):
        outer(path, memory_limit=HELD)
    with pytest.raises(MemoryLimitError):
        outer(False, memory_limit=1000)
    assert outer(memory_limit=BEST).peak_bytes == BEST


def test_a_leaner_plan_is_found_where_the_cheapest_is_too_large() -> None:
    """Cheapest in multiplications is not smallest: the limit makes the planner look on."""
    for network in (grid(4, 4, 3), grid(4, 4, 6), grid(3, 5, 4), star(7, 5)):
        limit = smallest_peak(network)
        assert limit <= einloom.plan(network).peak_bytes
        assert einloom.plan(network, memory_limit=limit).peak_bytes <= limit


def smallest_peak(network: Network) -> int:
    """What the error of a limit of one byte names."""
    with pytest.raises(MemoryLimitError) as caught:
        einloom.plan(network, memory_limit=1)
    (found,) = re.findall(r"\((\d+) bytes\)", str(caught.value).split("smallest")[1])
    return int(found)


def test_no_limit_changes_no_plan() -> None:
    network = grid(4, 5, 3)
    assert einloom.plan(network, memory_limit="1PiB") == einloom.plan(network)


# Options and fractions ----------------------------------------------------------------------------


def test_the_option_is_the_default() -> None:
    with einloom.options(memory_limit=HELD):
        for call in ("plan", "compile", "einsum", "einsum_path"):
            with pytest.raises(MemoryLimitError, match=rf"^{call}: "):
                getattr(einloom, call)(EQUATION, *ARRAYS)
        assert outer(memory_limit=BEST).peak_bytes == BEST  # the argument goes first
    with einloom.options(memory_limit="2GiB"):
        assert outer() == outer(memory_limit=None)
    assert outer().peak_bytes == BEST


def test_the_option_holds_for_equations_already_compiled() -> None:
    """einsum remembers an expression, but not past a change of the limit."""
    einloom.einsum(EQUATION, *ARRAYS)
    with einloom.options(memory_limit=HELD), pytest.raises(MemoryLimitError):
        einloom.einsum(EQUATION, *ARRAYS)
    einloom.einsum(EQUATION, *ARRAYS)


@pytest.mark.parametrize("as_option", [False, True])
def test_a_fraction_of_what_is_available(monkeypatch: pytest.MonkeyPatch, as_option: bool) -> None:
    monkeypatch.setattr(arguments, "available_bytes", lambda: 4 * BEST)

    def planned(limit: float) -> Any:
        if not as_option:
            return outer(memory_limit=limit)
        with einloom.options(memory_limit=limit):
            return outer()

    assert planned(0.25).peak_bytes == BEST
    assert planned(0.999).peak_bytes == BEST
    with pytest.raises(MemoryLimitError, match=f"{int(0.1 * 4 * BEST)} bytes"):
        planned(0.1)


def test_a_fraction_of_the_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "available_bytes", lambda: None)
    with pytest.raises(OptionError, match=r"memory_limit=0\.5.*give bytes"):
        outer(memory_limit=0.5)
    assert outer(memory_limit=BEST).peak_bytes == BEST


@pytest.mark.parametrize(
    "limit",
    [0, -1, 0.0, -0.5, 1.5, float("nan"), float("inf"), float("-inf"), True, "", "much", "-4GiB", "0",
     "nan", "inf", [1], (1,), {}, object()],
    ids=said,
)  # fmt: skip
def test_limits_without_meaning(limit: Any) -> None:
    for call in ("plan", "compile", "einsum", "einsum_path"):
        with pytest.raises(OptionError, match=rf"^{call}\(memory_limit=.*Give bytes"):
            getattr(einloom, call)(EQUATION, *ARRAYS, memory_limit=limit)
    with pytest.raises(OptionError, match=r"^options\(memory_limit="):
        einloom.options(memory_limit=limit).__enter__()


# What is available ------------------------------------------------------------------------------


@pytest.fixture
def scarce(monkeypatch: pytest.MonkeyPatch) -> int:
    """Little memory, and a check from the first byte on."""
    monkeypatch.setattr(delivery, "available_bytes", lambda: 100_000)
    for module in (expression, first, in_line):
        monkeypatch.setattr(module, "CHECK_FROM", 0)
    einloom.clear_caches()
    return 100_000


@pytest.mark.usefixtures("scarce")
def test_a_peak_above_what_is_available_is_refused_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from einloom.program.executable import Executable

    def never(*arrays: Any, **keywords: Any) -> None:
        raise AssertionError("something ran")

    monkeypatch.setattr(Executable, "__call__", never)
    monkeypatch.setattr(Executable, "run", never, raising=False)
    column, row = np.ones((400, 1)), np.ones((1, 400))
    message = (
        r"predicted peak of .* is 1\.\d+ MiB, but 97\.66 KiB are available.*memory_limit=106400 "
    )
    with pytest.raises(MemoryLimitError, match=message):
        einloom.einsum("ij,jk->ik", column, row)
    with pytest.raises(MemoryLimitError, match=message):
        einloom.compile("ij,jk->ik", column, row)(column, row)


@pytest.mark.usefixtures("scarce")
def test_operands_are_held_already() -> None:
    """Only what the call allocates must still fit."""
    big = np.ones((1000, 1000))
    assert einloom.einsum("ij->i", big).shape == (1000,)
    assert einloom.einsum("ij->ji", big).shape == (1000, 1000)
    assert einloom.einsum("ij,j->i", big, big[0]).shape == (1000,)  # no copy of big is certain
    out, column = np.zeros((400, 400)), np.ones((400, 1))
    assert einloom.einsum("ij,kj->ik", column, column, out=out) is out  # out is there already


@pytest.mark.usefixtures("scarce")
def test_planning_what_does_not_fit_is_no_error() -> None:
    """Plans are made for other machines too."""
    assert einloom.plan("ij,jk->ik", (10**6, 10**6), (10**6, 10**6)).peak_bytes > 10**13
    assert len(einloom.einsum_path("ij,jk->ik", (10**6, 10), (10, 10**6))[0]) == 2


def test_unknown_memory_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "available_bytes", lambda: None)
    for module in (expression, first, in_line):
        monkeypatch.setattr(module, "CHECK_FROM", 0)
    assert einloom.einsum("ij,jk->", np.ones((3, 4)), np.ones((4, 2))) == 24


def test_more_than_any_machine_has() -> None:
    vast = np.broadcast_to(np.float64(1), (2**24, 2**24))
    with pytest.raises(MemoryLimitError, match="PiB"):
        einloom.einsum("ij,jk->ik", vast, vast)
    with pytest.raises(MemoryLimitError, match="PiB"):
        einloom.einsum("ij,kl->ijkl", vast, vast)


# The prediction is an upper bound -----------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """An einsum of some megabytes, of zeros: in float16 sums of ones would overflow."""

    equation: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = ("f8",)
    keywords: dict[str, Any] = field(default_factory=dict)
    strided: bool = False

    def __str__(self) -> str:
        return f"{self.equation} {','.join(self.dtypes)} {self.keywords or ''}" + "s" * self.strided

    def operands(self) -> list[np.ndarray]:
        """C-contiguous, or every other element backwards."""
        dtypes = self.dtypes * len(self.shapes) if len(self.dtypes) == 1 else self.dtypes
        if not self.strided:
            return [np.zeros(s, d) for s, d in zip(self.shapes, dtypes, strict=True)]
        wide = [np.zeros([2 * n for n in s], d) for s, d in zip(self.shapes, dtypes, strict=True)]
        return [x[(*(slice(None, None, -2) for _ in x.shape), ...)] for x in wide]


M = (500, 500)
CALLS = [
    *(Call("ij,jk->ik", (M, M), (d,)) for d in ("f8", "f4", "c16", "f2", "i4", "?")),
    Call("ij,jk->ik", ((200, 200), (200, 200)), ("g",)),
    *(Call(f"ij,jk->{out}", (M, M)) for out in ("ki", "i", "k", "")),
    *(Call("ij,jk,kl->il", (M, M, M), (d,)) for d in ("f8", "f2", "c8")),
    *(Call("ij,jk,kl->il", (M, M, M), keywords={"order": order}) for order in "CFA"),
    Call("ij,jk->ik", (M, M), ("f4", "c16")),
    Call("ij,jk,kl->il", (M, M, M), ("i2", "f4", "f8")),
    Call("ij,jk->ik", (M, M), ("f4",), {"dtype": "f8"}),
    Call("ij,jk->ik", (M, M), ("c16",), {"conj": (0, 1)}),
    Call("ij,jk->ik", (M, M), strided=True),
    Call("ij,kj->ik", (M, M), strided=True),
    Call("ij,jk,kl->il", (M, M, M), ("f2",), strided=True),
    Call("ij->ji", (M,), keywords={"dtype": "f4", "casting": "same_kind"}),
    Call("ij->j", (M,)),
    Call("ij->j", (M,), ("f2",)),
    Call("ii->i", (M,), keywords={"dtype": "c16"}),
    Call("iij->ji", ((90, 90, 90),), keywords={"order": "C"}),
    Call("iij,jk->ik", ((90, 90, 90), (90, 500))),
    Call("i,j->ij", ((900,), (900,))),
    Call("i,j,k->kji", ((90,), (90,), (90,))),
    Call("bij,bjk->bik", ((200, 40, 40), (200, 40, 40))),
    Call("bij,bjk->ikb", ((200, 40, 40), (200, 40, 40)), ("f4",)),
    Call("ibj,bjk->ibk", ((40, 200, 40), (200, 40, 40)), strided=True),
    Call("bij,bjk->bik", ((20000, 4, 4), (20000, 4, 4))),
    Call("bij,bjk->bik", ((20000, 4, 4), (20000, 4, 4)), ("i8",)),
    Call("ij,ij->ij", (M, M)),
    Call("ij,ij->ji", (M, M), ("i8",)),
    Call("ij,j->ij", (M, (500,))),
    Call("ij,ij,ij->ij", (M, M, M)),
    Call("ij,ij,ij->i", (M, M, M), keywords={"optimize": False}),
    Call("ij,jk,kl->il", ((50, 50),) * 3, keywords={"optimize": False}),
    Call("ij,jk,kl->il", ((50, 50),) * 3, ("f2",), {"optimize": False}),
    Call("i->ii", ((900,),), keywords={"embed_diagonal": True}),
    Call("ij,jk->iki", ((90, 90), (90, 90)), keywords={"embed_diagonal": True}),
    Call("ij,jk->ik", ((500, 1), M)),
    Call("abcd,cdef->abef", ((30, 20, 20, 30), (20, 30, 30, 20))),
    Call("abcd,dbef->eacf", ((30, 20, 20, 30), (30, 20, 30, 20))),
    Call("abcd,dbef->eacf", ((30, 20, 20, 30), (30, 20, 30, 20)), ("f4",), strided=True),
    Call("ai,bj,ck,ijk->abc", ((60, 60), (60, 60), (60, 60), (60, 60, 60))),
    Call("(ij,kl),jk->il", ((40, 40),) * 3),
    Call("xab,xbc,xcd->xad", ((60, 50, 50),) * 3),
    Call("ij,jk->ik", ((500, 0), (0, 500))),
]
SLACK = 512 << 10  # Python's own objects, and the buffers of NumPy's loops


@pytest.mark.parametrize("small", [None, 0, math.inf], ids=["default", "kernels", "no kernels"])
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_the_measured_peak_stays_below(call: Call, small: float | None) -> None:
    operands = call.operands()
    keywords = dict(call.keywords)
    planner = keywords.pop("optimize", "auto")
    keywords.pop("casting", None)
    changes = {} if small is None else {"small": small}
    with einloom.options(**changes):
        compiled = einloom.compile(call.equation, *operands, planner=planner, **keywords)
    compiled(*operands)  # numba compiles now
    tracemalloc.start()
    try:
        result = compiled(*operands)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    held = sum(math.prod(x.shape) * x.itemsize for x in operands)
    assert peak + held <= compiled.peak_bytes + SLACK, f"predicted {compiled.peak_bytes}"
    shares = any(np.may_share_memory(result, x) for x in operands)
    assert shares or result.nbytes + held <= compiled.peak_bytes


def test_the_peak_of_a_long_chain_counts_what_is_alive() -> None:
    """Intermediates die when they are used: the peak is that of two steps, not of fifty."""
    compiled = einloom.compile(
        chain(50, 200), planner=[(0, 1)] + [(0, k) for k in range(48, 0, -1)]
    )
    operands = compiled.plan.network.shapes
    inputs = sum(8 * math.prod(shape) for shape in operands)
    assert compiled.peak_bytes <= inputs + 5 * 8 * 200**2
    arrays = [np.eye(200) for _ in operands]
    compiled(*arrays)
    tracemalloc.start()
    compiled(*arrays)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak + inputs <= compiled.peak_bytes + SLACK

"""Slices run in ranges, here, on threads and in processes: the same bits, whoever is first."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from tests.sliced_plans import FLOATS, integers, lattice, random_plan, reals, same_bits

import einloom
from einloom import (
    CallError,
    DTypeError,
    MemoryLimitError,
    OptionError,
    ShapeError,
)
from einloom._base.options import options
from einloom.contract import slices, workers

SPAWN = partial(ProcessPoolExecutor, 2, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with SPAWN() as pool:
        yield pool


class Late(ThreadPoolExecutor):
    """Threads that sleep before each task, for times from a seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(3)
        self._random = random.Random(seed)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        delay = self._random.choice([0, 0, 0.01])
        return super().submit(lambda: (time.sleep(delay), fn(*args, **kwargs))[1])


# Results ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [range(k * 25, k * 25 + 25) for k in range(4)], ids=str)
def test_ranges_add_up_to_the_whole(seeds: range) -> None:
    for seed in seeds:
        plan = random_plan(seed)
        try:
            expr, operands = einloom.compile(plan), integers(plan, seed)
            want = expr(*operands)
            for size in (None, 1, 2, 5, 10**6):
                got = expr.run_slices(*operands, slices_per_task=size)
                assert type(got) is type(want)
                assert np.asarray(got).dtype == np.asarray(want).dtype
                np.testing.assert_array_equal(got, want)
                if plan.sliced and np.ndim(got) and plan.order in "CF":
                    assert got.flags[f"{plan.order}_CONTIGUOUS"]
        except Exception as error:
            error.add_note(f"random_plan({seed}):\n{plan}")
            raise


@pytest.mark.parametrize("seeds", [range(k * 15, k * 15 + 15) for k in range(2)], ids=str)
def test_exponents_kept_apart(seeds: range) -> None:
    for seed in seeds:
        plan = random_plan(seed, FLOATS, strip_exponent=True)
        expr, operands = einloom.compile(plan), integers(plan, seed)
        mantissa, exponent = expr(*operands)
        for size in (None, 1, 3):
            got = expr.run_slices(*operands, slices_per_task=size)
            assert type(got[0]) is type(mantissa)
            assert type(got[1]) is float
            assert got[1] == exponent
            np.testing.assert_allclose(
                np.asarray(got[0], complex), np.asarray(mantissa, complex), rtol=2e-3
            )


def test_exponents_far_apart() -> None:
    """Ranges of 10**-300, of 0 and of 10**300 as they are met."""
    plan = einloom.plan("ij,ij->j", (9, 2), (9, 2), strip_exponent=True)
    scale = np.array([0, 1e-300, 1e-300, 0, 0, 1e300, 1, 1e300, 0])
    x = np.ones((9, 2)) * scale[:, None]
    for labels in ((0,), (0, 1)):
        expr = einloom.compile(replace(plan, sliced=labels))
        for size in (1, 2, 4):
            mantissa, exponent = expr.run_slices(x, x, slices_per_task=size)
            assert exponent == 600
            np.testing.assert_allclose(mantissa, 2.0)


@pytest.mark.parametrize("strip", [False, True])
def test_the_bits_depend_on_neither_workers_nor_order(
    threads: Executor, processes: Executor, strip: bool
) -> None:
    for seed in range(8):
        plan = random_plan(seed, FLOATS, strip_exponent=strip)
        expr, operands = einloom.compile(plan), reals(plan, seed)
        run = partial(expr.run_slices, *operands, slices_per_task=2)
        want = run(threads=1)
        for executor in (threads, processes):
            assert same_bits(run(executor=executor), want), seed


def test_operands_of_any_layout(threads: Executor, processes: Executor) -> None:
    """Strides are not sent, and decide which kernels run."""
    plan = replace(einloom.plan("aij,ajk,ail->lk", *[(3, 40, 40)] * 3), sliced=(0,))
    r, expr = np.random.default_rng(0), einloom.compile(plan)
    base = [r.standard_normal((80, 3, 40)).transpose(1, 2, 0)[:, :, ::2] for _ in range(3)]
    run = partial(expr.run_slices, *base, slices_per_task=1)
    want = run(threads=1)
    np.testing.assert_allclose(want, expr(*base))
    assert same_bits(run(executor=threads), want)
    assert same_bits(run(executor=processes), want)


def test_any_order_of_completion() -> None:
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    want = expr.run_slices(*operands, slices_per_task=1, threads=1)
    for seed in range(5):
        with Late(seed) as pool:
            got = expr.run_slices(*operands, slices_per_task=1, executor=pool)
        assert same_bits(got, want)


def test_constants(processes: Executor) -> None:
    plan = replace(einloom.plan("ij,jk,kl,lm->im", *[(4, 4)] * 4), sliced=(1, 4))
    a, b, c, d = integers(plan)
    expr = einloom.compile(plan, constants={1: b, 2: np.asfortranarray(c)})
    for executor in (None, processes):
        np.testing.assert_array_equal(expr.run_slices(a, d, executor=executor), a @ b @ c @ d)


def test_a_view_comes_back_as_an_array_of_its_own() -> None:
    x = np.arange(6.0).reshape(2, 3)
    got = einloom.compile("ij->ji", x).run_slices(x)
    np.testing.assert_array_equal(got, x.T)
    assert not np.shares_memory(got, x)


def test_torch_in_torch_out() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(3, 4, dtype=torch.float64)
    plan = replace(einloom.plan("ij,ij->i", (3, 4), (3, 4)), sliced=(1,))
    got = einloom.compile(plan).run_slices(x, x)
    assert isinstance(got, torch.Tensor)
    assert (got == 4).all()


# How it runs ------------------------------------------------------------------------------------


def test_no_more_than_asked_for_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor wait for those before them."""
    seen = []
    begin = slices._Tasks.begin

    def counting(self: Any, span: Any) -> None:
        begin(self, span)
        seen.append(len(self._under_way) + len(self._results))

    monkeypatch.setattr(slices._Tasks, "begin", counting)
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    with ThreadPoolExecutor(2) as pool:
        expr.run_slices(*operands, slices_per_task=1, executor=pool, in_flight=3)
        assert max(seen) <= 3
        seen.clear()
        expr.run_slices(*operands, slices_per_task=1, executor=pool)
        assert max(seen) <= 2 * workers.AHEAD


def test_operands_are_sent_when_asked_for(processes: Executor) -> None:
    """And not again by the ranges that follow."""
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    sent = []

    class Counting(Executor):
        _max_workers = 2

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            sent.append(args[1] is not None)
            return processes.submit(fn, *args, **kwargs)

    expr.run_slices(*operands, slices_per_task=1, executor=Counting())
    assert len(sent) >= plan.n_slices
    assert 2 <= sum(sent) <= 8  # two workers, which may take turns by chance


def test_large_operands_are_read_from_files(
    processes: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a folder that is gone afterwards, in whatever order their axes lie."""
    monkeypatch.setattr(workers, "FILED", 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    reads = []
    reduce = workers.Work.__reduce__

    def reducing(self: Any) -> Any:
        reads.append(sorted(path.name for path in tmp_path.glob("*/*")))
        return reduce(self)

    monkeypatch.setattr(workers.Work, "__reduce__", reducing)
    plan = replace(einloom.plan("aij,ajk,a->ik", (3, 20, 20), (3, 20, 20), (3,)), sliced=(0,))
    x, y, z = reals(plan)
    x = x.transpose(2, 0, 1).copy().transpose(1, 2, 0)
    expr = einloom.compile(plan)
    got = expr.run_slices(x, y, z, slices_per_task=1, executor=processes)
    assert same_bits(got, expr.run_slices(x, y, z, slices_per_task=1, threads=1))
    assert reads[0] == ["0.operand", "1.operand"]
    assert not [*tmp_path.iterdir()]


def _blas_threads(count: int) -> set[int]:
    pools = threadpoolctl.threadpool_info()
    return {count, *(pool["num_threads"] for pool in pools if pool["user_api"] == "blas")}


def test_threads_in_a_task(monkeypatch: pytest.MonkeyPatch, threads: Executor) -> None:
    seen = []
    partial_of = workers.OneRange.partial

    def looking(self: Any, *arguments: Any) -> Any:
        seen.append(_blas_threads(einloom.get_options().threads or 0))
        return partial_of(self, *arguments)

    monkeypatch.setattr(workers.OneRange, "partial", looking)
    expr, x = einloom.compile("ij,jk->ik", (2, 2), (2, 2)), np.ones((2, 2))
    before = _blas_threads(0)
    with threadpoolctl.threadpool_limits(2, "blas"):
        for executor, asked in ((threads, None), (None, 1), (threads, 2), (None, 2)):
            expr.run_slices(x, x, executor=executor, threads=asked)
    assert seen == [{1}, {1}, {2}, {2}]
    assert _blas_threads(0) == before


def test_the_callers_options_hold_in_processes(processes: Executor) -> None:
    """Which kernels run must not depend on the worker's environment."""
    plan = lattice()
    expr = einloom.compile(plan)
    with options(small=0, engine="loops"), np.errstate(over="ignore"):
        work = slices._work(plan, expr._executable, expr._executable, [], 1)
    told = pickle.loads(pickle.dumps(work)).settings
    assert (told.threads, told.small, told.engine) == (1, 0, "loops")
    assert told.errors["over"] == "ignore"


def test_tasks_are_worth_sending() -> None:
    """Tiny slices are one task, huge ones a task each, and a part of the result is one at least."""

    def size(plan: Any, nbytes: int = 8) -> int:
        ranged = einloom.compile(plan)._executable
        return slices.slices_per_task(plan, ranged, nbytes)

    assert size(lattice()) == lattice().n_slices
    plan = einloom.plan("ij,jk->ik", (10**4, 10**6), (10**6, 10**4))
    assert size(replace(plan, sliced=(1,))) == 245
    assert size(replace(plan, sliced=(0,)), 1 << 26) == 1
    assert size(replace(plan, sliced=(0,)), 1 << 24) == 3


def test_progress_counts_slices(capsys: pytest.CaptureFixture[str]) -> None:
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    with options(progress=True), pytest.MonkeyPatch.context() as patch:
        patch.setattr("einloom._base.progress.Progress.__init__.__defaults__", (-1.0,))
        expr.run_slices(*operands, slices_per_task=5)
    assert "slices [########################] 100%" in capsys.readouterr().err


def test_other_errors_are_raised_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the slices that they are of, and nothing runs on."""

    def fail(self: Any, *arguments: Any) -> None:
        raise MemoryLimitError("none left")

    monkeypatch.setattr(workers.Work, "partial", fail)
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    with ThreadPoolExecutor(2) as pool:
        for executor in (None, pool):
            with pytest.raises(MemoryLimitError, match="none left") as caught:
                expr.run_slices(*operands, slices_per_task=9, executor=executor)
            assert "slices 0 to 8" in caught.value.__notes__[0]


# Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"executor": 3}, CallError, r"executor=3\): give None, an executor"),
        ({"executor": lambda: 3}, CallError, "the function made a int"),
        ({"slices_per_task": 0}, OptionError, "slices_per_task=0"),
        ({"slices_per_task": -5}, OptionError, "slices_per_task=-5"),
        ({"slices_per_task": 2.0}, OptionError, "slices_per_task=2.0"),
        ({"threads": 0}, OptionError, "threads=0"),
        ({"threads": True}, OptionError, "threads=True"),
        ({"in_flight": -1}, OptionError, "in_flight=-1"),
        ({"retries": -1}, OptionError, "retries=-1"),
        ({"retries": None}, OptionError, "retries=None"),
        ({"checkpoint": 7}, OptionError, "checkpoint=7"),
        ({"checkpoint": ""}, OptionError, "checkpoint=''"),
    ],
)
def test_bad_arguments(keywords: dict[str, Any], error: type[Exception], message: str) -> None:
    plan = lattice()
    with pytest.raises(error, match=rf"^run_slices\(.*{message}"):
        einloom.compile(plan).run_slices(*reals(plan), **keywords)


def test_wrong_operands() -> None:
    expr, x = einloom.compile("ij,jk->ik", (2, 3), (3, 4)), np.ones((2, 3))
    with pytest.raises(ShapeError, match=r"^run_slices: takes 2 arrays, got 1"):
        expr.run_slices(x)
    with pytest.raises(ShapeError, match=r"^run_slices: operand 1 has shape"):
        expr.run_slices(x, x)
    with pytest.raises(DTypeError, match=r"^run_slices: operand 0 has dtype"):
        expr.run_slices(x.astype("f4"), np.ones((3, 4)))

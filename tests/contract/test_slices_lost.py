"""Processes that end in the middle of a run: what they had begun is run again, or the error says why not."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest
from tests.sliced_plans import kill_at, lattice, reals, same_bits

import einloom
from einloom import WorkerLostError

SPAWN = partial(ProcessPoolExecutor, max_workers=2, mp_context=multiprocessing.get_context("spawn"))


def test_a_broken_pool_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[ProcessPoolExecutor] = []

    def make() -> ProcessPoolExecutor:
        pools.append(SPAWN())
        return pools[-1]

    kill_at(monkeypatch, {3, 20}, lambda: [*pools[-1]._processes][:1])
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    got = expr.run_slices(*operands, slices_per_task=1, executor=make)
    monkeypatch.undo()
    assert same_bits(got, expr.run_slices(*operands, slices_per_task=1, threads=1))
    assert len(pools) > 1
    with pytest.raises(RuntimeError):
        pools[-1].submit(int)  # it was shut down


def test_a_given_pool_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    with SPAWN() as pool:
        kill_at(monkeypatch, {3}, lambda: [*pool._processes])
        with pytest.raises(WorkerLostError, match=r"takes no more tasks.*checkpoint="):
            expr.run_slices(*operands, slices_per_task=1, executor=pool)


def test_retries_end() -> None:
    """Whatever is sent to a worker, it ends."""
    pools: list[ProcessPoolExecutor] = []

    def make() -> ProcessPoolExecutor:
        pools.append(SPAWN(max_workers=1))
        pools[-1].submit(os._exit, 1)  # the first task of its only worker
        return pools[-1]

    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    with pytest.raises(WorkerLostError, match="more than retries=1 times"):
        expr.run_slices(*operands, executor=make, retries=1)
    assert len(pools) <= 3

"""Slices on a Dask cluster of two processes, and when these are killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.sliced_plans import kill_at, lattice, reals, same_bits

import einloom
from einloom import CallError


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two worker processes on this machine; ended ones are started anew."""
    distributed = pytest.importorskip("distributed")
    folder: Path = tmp_path_factory.mktemp("dask")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
            local_directory=str(folder),
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def pids(client: Any) -> list[int]:
    client.wait_for_workers(2, timeout=30)
    return sorted(client.run(os.getpid).values())


def test_dask(client: Any) -> None:
    """The work is on both workers before the first range; nothing of it stays."""
    for strip in (False, True):
        plan = lattice(strip_exponent=strip)
        expr, operands = einloom.compile(plan), reals(plan)
        run = partial(expr.run_slices, *operands, slices_per_task=4)
        want = run(threads=1)
        assert same_bits(run(executor=client), want)
        assert same_bits(run(executor=client.get_executor()), want)


@pytest.mark.parametrize("count", [1, 2])
def test_dask_workers_are_killed(client: Any, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """One, or all, and with them the operands that were sent."""
    before = pids(client)
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    want = expr.run_slices(*operands, slices_per_task=1, threads=1)
    kill_at(monkeypatch, {3}, lambda: before[:count])
    got = expr.run_slices(*operands, slices_per_task=1, executor=client)
    monkeypatch.undo()
    assert same_bits(got, want)
    assert not set(before[:count]) & set(pids(client))


def test_clients_that_cannot_be_used(client: Any) -> None:
    distributed = pytest.importorskip("distributed")
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    closed = distributed.Client(client.scheduler.address, set_as_default=False)
    closed.close()
    with pytest.raises(CallError, match="the Dask client is closed"):
        expr.run_slices(*operands, executor=closed)

    class Asynchronous:
        asynchronous, scatter, nthreads = True, None, None

    with pytest.raises(CallError, match=r"give Client\(asynchronous=False\)"):
        expr.run_slices(*operands, executor=Asynchronous())

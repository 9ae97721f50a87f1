"""A run that ended early goes on from its checkpoint, to the same bits; what is damaged is computed again."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sliced_plans import FLOATS, lattice, random_plan, reals, same_bits

import einloom
from einloom import OptionError
from einloom.contract import checkpoint, slices, workers
from einloom.contract.checkpoint import FOLD, Checkpoint

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(einloom.__file__).parents[1]


@pytest.fixture(autouse=True)
def _no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint.os, "fsync", lambda number: None)


class Ended(BaseException):
    """What ends a run early."""


def end_after(patch: pytest.MonkeyPatch, count: int) -> None:
    """End the run after so many files were written."""
    add, seen = Checkpoint.add, 0

    def adding(self: Any, partial: Any) -> None:
        nonlocal seen
        if seen == count:
            raise Ended
        seen += 1
        add(self, partial)

    patch.setattr(Checkpoint, "add", adding)


def submitted(patch: pytest.MonkeyPatch) -> list[Any]:
    """Spans of the ranges that are computed from now on."""
    begin, spans = slices._Tasks.begin, list[Any]()

    def beginning(self: Any, span: Any) -> None:
        spans.append(span)
        begin(self, span)

    patch.setattr(slices._Tasks, "begin", beginning)
    return spans


@pytest.mark.parametrize("strip", [False, True])
def test_ended_anywhere(tmp_path: Path, strip: bool) -> None:
    """Sums and parts of the result, half precisions, exponents: the same bits as in one run."""
    for seed in range(8):
        plan = random_plan(seed, FLOATS, strip_exponent=strip)
        expr, operands = einloom.compile(plan), reals(plan, seed)
        want = expr.run_slices(*operands, slices_per_task=1)
        folder = tmp_path / str(seed)
        for count in (1, 11):
            with pytest.MonkeyPatch.context() as patch:
                end_after(patch, count)
                with suppress(Ended):
                    expr.run_slices(*operands, slices_per_task=1, checkpoint=folder)
        got = expr.run_slices(*operands, slices_per_task=1, checkpoint=folder)
        assert same_bits(got, want), seed
        with pytest.MonkeyPatch.context() as patch:
            spans = submitted(patch)
            again = expr.run_slices(*operands, slices_per_task=1, checkpoint=str(folder))
        assert same_bits(again, want)
        assert spans == []
        assert len([*folder.iterdir()]) == getattr(expr._executable, "n_parts", 1)


def test_few_files_are_kept(tmp_path: Path) -> None:
    """As many as there are parts of the result, and few more: sums take the place of what they are of."""
    plan = replace(einloom.plan("ijk,ijl->ikl", (10, 9, 2), (10, 9, 2)), sliced=(0, 1))
    expr, operands = einloom.compile(plan), reals(plan)
    want = expr.run_slices(*operands, slices_per_task=1)
    assert same_bits(expr.run_slices(*operands, slices_per_task=1, checkpoint=tmp_path), want)
    assert len([*tmp_path.iterdir()]) == 10  # one for each i
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    expr.run_slices(*operands, slices_per_task=1, checkpoint=tmp_path / "sum")
    assert len([*(tmp_path / "sum").iterdir()]) == 1
    with pytest.MonkeyPatch.context() as patch:
        end_after(patch, 60)
        with pytest.raises(Ended):
            expr.run_slices(*operands, slices_per_task=1, checkpoint=tmp_path / "ended")
    assert len([*(tmp_path / "ended").iterdir()]) <= FOLD


def test_what_was_done_before_an_error_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first range fails, those after it are done already."""

    class Inline(Executor):
        _max_workers = 2

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            try:
                future.set_result(fn(*args, **kwargs))
            except ZeroDivisionError as error:
                future.set_exception(error)
            return future

    partial_of = workers.Work.partial
    monkeypatch.setattr(
        workers.Work,
        "partial",
        lambda self, start, stop: partial_of(self, start // (start > 0), stop),
    )
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    with pytest.raises(ZeroDivisionError):
        expr.run_slices(*operands, slices_per_task=1, executor=Inline(), checkpoint=tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"{k}-{k + 1}.slices" for k in range(1, 2 * workers.AHEAD)}


KILLED = """
import os, signal
from pathlib import Path
import einloom
from concurrent.futures import ThreadPoolExecutor
from einloom.contract.checkpoint import Checkpoint
from tests.sliced_plans import lattice, reals
add, seen = Checkpoint.add, 0
def adding(self, partial):
    global seen
    seen += 1
    add(self, partial)
    if seen == 30:
        os.kill(os.getpid(), signal.SIGKILL)
Checkpoint.add = adding
plan = lattice()
expr, operands = einloom.compile(plan), reals(plan)
with ThreadPoolExecutor(2) as pool:
    expr.run_slices(*operands, slices_per_task=1, executor=pool, checkpoint={folder!r})
"""


def test_a_killed_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole process, without warning; another goes on."""
    plan, folder = lattice(), tmp_path / "ranges"
    variables = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(folder=str(folder))], env=variables, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    expr, operands = einloom.compile(plan), reals(plan)
    spans = submitted(monkeypatch)
    got = expr.run_slices(*operands, slices_per_task=1, threads=1, checkpoint=folder)
    assert 0 < len(spans) <= plan.n_slices - 25  # of 30 files up to three were sums
    assert same_bits(got, expr.run_slices(*operands, slices_per_task=1, threads=1))


@pytest.mark.parametrize("damage", ["cut", "one bit", "other head", "empty", "text"])
def test_damaged_files_are_not_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    want = expr.run_slices(*operands, slices_per_task=27, checkpoint=tmp_path)
    (path,) = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[:-1]
    elif damage == "one bit":
        data[-3] ^= 4
    elif damage == "other head":
        data = data.replace(b'"start": 0', b'"start": 1')
    elif damage == "empty":
        data = bytearray()
    else:
        data = bytearray("ein Brief\n", "utf-8")
    path.write_bytes(data)
    (tmp_path / "7-9.123.part").write_bytes(b"begun")
    with caplog.at_level(logging.WARNING, "einloom"), pytest.MonkeyPatch.context() as patch:
        spans = submitted(patch)
        got = expr.run_slices(*operands, slices_per_task=27, checkpoint=tmp_path)
    assert same_bits(got, want)
    assert len(spans) == 3
    assert f"{path} is not used" in caplog.text
    assert len([*tmp_path.iterdir()]) == 1


def test_a_file_that_changes_during_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    expr.run_slices(*operands, slices_per_task=27, checkpoint=tmp_path)
    (path,) = tmp_path.iterdir()
    read = Checkpoint.read

    def reading(*arguments: Any) -> Any:
        path.write_bytes(b"other")
        return read(*arguments)

    monkeypatch.setattr(Checkpoint, "read", reading)
    with pytest.raises(OptionError, match="was changed"):
        expr.run_slices(*operands, slices_per_task=27, checkpoint=tmp_path)


def test_checkpoints_of_other_runs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = lattice()
    expr, operands = einloom.compile(plan), reals(plan)
    expr.run_slices(*operands, slices_per_task=9, checkpoint=tmp_path)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def refused(expr: Any, operands: Any, size: int, message: str) -> None:
        with pytest.raises(OptionError, match=rf"^run_slices\(checkpoint=.*{message}.*remove"):
            expr.run_slices(*operands, slices_per_task=size, checkpoint=tmp_path)

    refused(expr, operands, 3, "slices_per_task=9, not 3")
    refused(expr, reals(plan, 1), 9, "same plan with other operands")
    other = einloom.compile(replace(plan, sliced=(0, 4, 7, 8)))
    refused(other, operands, 9, "another plan")
    constants = {0: operands[0]}
    refused(einloom.compile(plan, constants=constants), operands[1:], 9, "another plan")
    monkeypatch.setattr(checkpoint, "VERSION", 2)
    refused(expr, operands, 9, "format of version 1, this einloom reads 2")
    assert files == {path: path.read_bytes() for path in tmp_path.iterdir()}


def test_constants_are_operands(tmp_path: Path) -> None:
    plan = replace(einloom.plan("i,i->", (4,), (4,)), sliced=(0,))
    x = np.arange(4.0)
    for values, error in ((x, False), (x, False), (x + 1, True)):
        expr = einloom.compile(plan, constants={1: values})
        try:
            assert expr.run_slices(x, checkpoint=tmp_path) == 14
            assert not error
        except OptionError:
            assert error


def test_paths_and_dtypes_without_files(tmp_path: Path) -> None:
    plan = lattice()
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(OptionError, match="this folder cannot be made"):
        einloom.compile(plan).run_slices(*reals(plan), checkpoint=file)
    x = np.array([1, 2], object)
    with pytest.raises(OptionError, match="Python objects are not kept"):
        einloom.compile("i->", x).run_slices(x, checkpoint=tmp_path)

"""Independent subtrees side by side: which, that results stay, that more memory is counted."""

from __future__ import annotations

import decimal
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from benchmarks.memory import SLACK, peak_bytes
from tests.networks import chain, random_network
from tests.program.programs import assert_same, random_arrays, random_indices, random_program

import einloom
from einloom._base.options import get_options, options
from einloom.backend.cpu import cpu
from einloom.backend.cpu.backend import CpuBackend
from einloom.program import branches as module
from einloom.program import schedule as scheduling
from einloom.program.branches import Branches, branched
from einloom.program.builder import Builder
from einloom.program.executable import Executable
from einloom.program.extension import register_family, unregister_family
from einloom.program.ir import Program

DOT: dict[str, Any] = {"contracting": ((1,), (0,)), "batch": ((), ())}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any program that can be forked is, whatever it gains, and however high its peak becomes."""
    for name, value in (("LEAST", 0.0), ("GAIN", 100.0), ("START", -1.0)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(scheduling, "HIGHER", 100.0)


def pairs(n: int = 300, products: int = 4) -> Program:
    """A balanced tree of products of n by n."""
    build = Builder()
    level = [build.input("f8", (n, n)) for _ in range(products)]
    while len(level) > 1:
        level = [
            build("dot_general", a, b, **DOT) for a, b in zip(level[::2], level[1::2], strict=True)
        ]
    return build.finish(level[0])


def forks(executable: Executable) -> list[str]:
    return [ins.op for ins in executable.schedule.program.instructions if isinstance(ins, Branches)]


@pytest.mark.usefixtures("always")
def test_a_part_that_shows_some_of_a_larger_array_stays() -> None:
    """The whole array would be held, and only what is shown is counted."""
    for axes, forked in ((False, 1), (True, 0)):
        build = Builder()
        halves = []
        for _ in range(2):
            product = build("dot_general", *(build.input("f8", (40, 40)) for _ in range(2)), **DOT)
            slices = build("slice", product, starts=(0, 0), stops=(20, 20), steps=(1, 1))
            halves.append(slices if axes else product)
        program = build.finish(build("add", *halves))
        with options(threads=2):
            assert len(forks(Executable(program, cpu()))) == forked


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_a_balanced_tree(threads: int) -> None:
    rng = np.random.default_rng(0)
    with options(threads=threads):
        executable = Executable(pairs(40, 8), cpu())
    assert len(forks(executable)) == 1
    arrays = [rng.integers(-2, 3, (40, 40)).astype(float) for _ in range(8)]
    want = np.linalg.multi_dot(arrays)
    for _ in range(3):
        np.testing.assert_array_equal(executable(*arrays), want)
    out = np.full((40, 40), np.nan)
    assert executable(*arrays, out=out) is out
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(executable.interpret(*arrays), want)
    seconds: list[float] = []
    np.testing.assert_array_equal(executable.profile(*arrays, seconds=seconds), want)
    assert len(seconds) == len(executable.running[0].instructions) == 7


def test_what_gains_nothing_stays() -> None:
    line, small = Builder(), Builder()
    x = line.input("f8", (300, 300))
    for _ in range(4):  # each needs the one before
        x = line("dot_general", x, line.input("f8", (300, 300)), **DOT)
    for program in (line.finish(x), pairs(8)):
        assert branched(program, 2) is program
    assert branched(pairs(), 1) is not branched(pairs(), 2)
    assert branched(small.finish(small.input("f8", (2,))), 2).instructions == ()
    # steps that all threads share as it is
    assert branched(pairs(1500), 2).op_counts["dot_general"] == 3


def test_threads_take_time_to_wake_and_wait_for_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Previously failed: a few short steps side by side took longer than one after another, and a hundred of
    them, which gain by it, were not forked. Of an extension nothing is known: it makes no branch of its
    own, which would keep the others from being made."""
    few, many, tiny = pairs(100), pairs(70, 128), pairs(36, 256)
    for short, name in ((few, "START"), (tiny, "WAIT")):
        assert branched(short, 2) is short
        with monkeypatch.context() as patch:
            patch.setattr(module, name, 0.0)
            assert branched(short, 2) is not short
    assert branched(many, 2) is not many
    register_family("tests.alike.v1", lambda attrs, inputs: inputs)
    try:
        build = Builder()
        a, b, c = (build.input("f8", (150, 150)) for _ in range(3))
        abc, cba = (
            build("dot_general", build("dot_general", x, b, **DOT), y, **DOT)
            for x, y in ((a, c), (c, a))
        )
        total = build("add", abc, cba)
        (alike,) = build.extension("tests.alike.v1", build.input("f8", (150, 150)))
        program = build.finish(build("add", total, alike))
        monkeypatch.setattr(module, "START", 0.0)
        assert any(isinstance(ins, Branches) for ins in branched(program, 2).instructions)
    finally:
        unregister_family("tests.alike.v1")


def test_with_one_thread_nothing_is_forked() -> None:
    with options(threads=1):
        assert not forks(Executable(pairs(120, 32), cpu()))
    with options(threads=2):
        assert not forks(Executable(pairs(120, 32), CpuBackend(threads=1)))
    with options(threads=2):
        assert forks(Executable(pairs(120, 32), cpu()))


def test_in_short_programs_steps_that_are_shared_anyway_gain_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Previously failed: small networks of batches ran side by side, and took 1.3 times as long."""
    build = Builder()
    batch = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}
    made = build.input("f8", (500, 20, 20))
    for _ in range(4):
        made = build("dot_general", made, build.input("f8", (500, 20, 20)), **batch)
    program = build.finish(made)
    monkeypatch.setattr(module, "START", 1e-4)
    assert branched(program, 2) is not program
    assert branched(program, 2, lambda ins: True) is program
    monkeypatch.setattr(module, "SHORT", 0.0)
    assert branched(program, 2, lambda ins: True) is not program


@pytest.mark.usefixtures("always")
def test_what_two_subtrees_need_is_made_once() -> None:
    """A product that both read stays before them; a view of an input may be taken twice."""
    build = Builder()
    x, y = build.input("f8", (30, 30)), build.input("f8", (30, 30))
    shared = build("dot_general", x, y, **DOT)
    one = build("dot_general", shared, x, **DOT)
    other = build("dot_general", y, shared, **DOT)
    program = build.finish(build("dot_general", one, other, **DOT))
    executable = Executable(program, cpu())
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (30, 30)).astype(float) for _ in range(2))
    np.testing.assert_array_equal(executable(a, b), (a @ b @ a) @ (b @ a @ b))
    turned = Builder()
    x, y = turned.input("f8", (30, 30)), turned.input("f8", (30, 30))
    xt = turned("transpose", x, perm=(1, 0))
    one = turned("dot_general", xt, y, **DOT)
    other = turned("dot_general", y, xt, **DOT)
    program = turned.finish(turned("dot_general", one, other, **DOT))
    with options(threads=2):
        executable = Executable(program, cpu())
    assert forks(executable)
    np.testing.assert_array_equal(executable(a, b), (a.T @ b) @ (b @ a.T))


@pytest.mark.usefixtures("always")
def test_random_programs() -> None:
    forked = 0
    for seed in range(600):
        program = random_program(seed)
        arrays, indices = random_arrays(program, seed), random_indices(program, seed)
        with options(threads=2 + seed % 2):
            executable = Executable(program, cpu())
        want = executable.interpret(*arrays, indices=indices)
        got = executable(*arrays, indices=indices)
        if len(program.outputs) == 1:
            want, got = (want,), (got,)
        for one, other in zip(got, want, strict=True):
            assert_same(one, other)
        forked += len(forks(executable))
    assert forked > 3


@pytest.mark.usefixtures("always")
def test_random_networks_whole_and_in_slices() -> None:
    draw, forked, sliced = random.Random(3), 0, 0
    rng = np.random.default_rng(0)
    for _ in range(30):
        network = random_network(draw, tensors=8, sizes=(2, 3))
        arrays = [rng.integers(-2, 3, shape).astype(float) for shape in network.shapes]
        plan = einloom.plan(network, planner="greedy")
        with options(threads=1):
            want = einloom.compile(plan)(*arrays)
        with options(threads=2):
            expression = einloom.compile(plan)
            np.testing.assert_array_equal(expression(*arrays), want)
            forked += "side by side" in expression.explain()
            try:
                cut = einloom.plan(network, planner="greedy", memory_limit=plan.peak_bytes - 1)
            except einloom.MemoryLimitError:
                continue
            sliced += cut.n_slices > 1
            np.testing.assert_array_equal(einloom.compile(cut)(*arrays), want)
    assert forked > 5
    assert sliced > 5


@pytest.mark.usefixtures("always")
def test_peak_is_an_upper_bound() -> None:
    rng = np.random.default_rng(0)
    with options(threads=2):
        executable = Executable(pairs(400, 8), cpu())
        assert forks(executable)
        arrays = [rng.standard_normal((400, 400)) for _ in range(8)]
        executable(*arrays)
        measured = peak_bytes(lambda: executable(*arrays), arrays)
    assert measured <= executable.peak_bytes + SLACK
    assert executable.peak_bytes <= measured * 2


def test_a_peak_that_becomes_much_higher_is_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with options(threads=2):
        assert forks(Executable(pairs(120, 32), cpu()))
        peak = Executable(pairs(120, 32), cpu()).peak_bytes
        assert not forks(Executable(pairs(120, 32), cpu(), limit=peak - 1))
        assert forks(Executable(pairs(120, 32), cpu(), limit=peak))
        monkeypatch.setattr(scheduling, "HIGHER", 1.0)
        monkeypatch.setattr(scheduling, "MORE", 0)
        assert not forks(Executable(pairs(120, 32), cpu()))


@pytest.mark.usefixtures("always")
def test_parts_run_as_they_were_scheduled() -> None:
    with options(threads=2):
        executable = Executable(pairs(40, 4), cpu())
        assert [part.schedule for part in executable.parts] == [*executable.schedule.inside]
        with options(threads=1):
            parts = [Executable(part.program, cpu(1)) for part in executable.parts]
    assert [part.source for part in parts] == [part.source for part in executable.parts]
    assert [part.peak_bytes for part in parts] == [part.peak_bytes for part in executable.parts]


@pytest.mark.usefixtures("always")
def test_an_error_in_a_part_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    with options(threads=2):
        executable = Executable(pairs(40, 4), cpu())
    arrays = [np.ones((40, 40))] * 4
    with pytest.raises(ValueError, match=r"aligned|matmul"):
        executable(np.ones((3, 3)), *arrays[1:])
    np.testing.assert_array_equal(executable(*arrays), np.full((40, 40), 40.0**3))


@pytest.mark.usefixtures("always")
def test_eight_callers() -> None:
    rng = np.random.default_rng(0)
    with options(threads=2):
        executable = Executable(pairs(40, 8), cpu())
    arrays = [rng.integers(-2, 3, (40, 40)).astype(float) for _ in range(8)]
    want = np.linalg.multi_dot(arrays)
    with ThreadPoolExecutor(8) as callers:
        for got in callers.map(lambda _: executable(*arrays), range(64)):
            np.testing.assert_array_equal(got, want)


def test_options_and_contexts_reach_the_parts() -> None:
    seen: list[Any] = []
    with options(small=7, threads=2), decimal.localcontext(prec=50):
        cpu().together(lambda k: seen.append((get_options(), decimal.getcontext().prec)), 3)
    assert [(one.small, one.threads, prec) for one, prec in seen] == [(7, 1, 50)] * 3


def test_parts_take_the_threads_of_the_call() -> None:
    """What is compiled for four threads runs on one where that is asked for."""
    seen: list[int] = []
    with options(threads=1):
        cpu().together(lambda k: seen.append(threading.get_ident()), 4)
    CpuBackend(threads=1).together(lambda k: seen.append(threading.get_ident()), 4)
    assert set(seen) == {threading.get_ident()}


def test_objects_are_left_alone() -> None:
    build = Builder()
    level = [build.input("object", (60, 60)) for _ in range(4)]
    while len(level) > 1:
        level = [
            build("dot_general", a, b, **DOT) for a, b in zip(level[::2], level[1::2], strict=True)
        ]
    program = build.finish(level[0])
    assert branched(program, 2) is program


def test_more_threads_than_subtrees() -> None:
    program = branched(pairs(150, 8), 8)
    assert isinstance(program.instructions[0], Branches)
    assert len(program.instructions[0].parts) > 1


def test_what_parts_hold_is_certain() -> None:
    """Small results of large intermediates: what is asked of the system before a call counts those."""
    build = Builder()
    sums = []
    for _ in range(2):
        x = build("dot_general", *(build.input("f8", (200, 200)) for _ in range(2)), **DOT)
        sums.append(build("reduce_sum", build("dot_general", x, x, **DOT), axes=(0, 1)))
    program = build.finish(build("add", *sums))
    with options(threads=2):
        found = scheduling.schedule(program, cpu(), limit=None)
    with options(threads=1):
        plain = scheduling.schedule(program, cpu())
    assert found.certain_bytes >= plain.certain_bytes


@pytest.mark.usefixtures("always")
def test_static_indices_inside_parts() -> None:
    build = Builder()
    first, second = build.index("i", 3), build.index("j", 2)
    halves = []
    for index in (first, second):
        x = build.input("f8", (3, 40, 40))
        one = build("slice_at", x, axis=0, at=index)
        halves.append(build("dot_general", one, one, **DOT))
    program = build.finish(build("subtract", *halves))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (3, 40, 40)).astype(float) for _ in range(2))
    with options(threads=2):
        executable = Executable(program, cpu())
    assert forks(executable)
    for i in range(3):
        for j in range(2):
            np.testing.assert_array_equal(
                executable(a, b, indices=(i, j)), a[i] @ a[i] - b[j] @ b[j]
            )


def test_explain_and_source_show_every_step() -> None:
    network = einloom.Network(
        [(k, k + 1) for k in range(32)], (0, 32), dict.fromkeys(range(33), 120)
    )
    with options(threads=2):
        expression = einloom.compile(einloom.plan(network, planner=balanced(32)))
        text = expression.explain()
    assert text.count("dot_general") >= 31
    assert "side by side" in text
    assert expression.source.count("def run(") == 3


def balanced(n: int) -> list[tuple[int, ...]]:
    """The linear path of a balanced tree: neighbours, again and again."""
    return [(0, 1)] * (n - 1)


def test_a_limit_takes_the_leaner_way_before_it_slices() -> None:
    network = einloom.Network(
        [(k, k + 1) for k in range(32)], (0, 32), dict.fromkeys(range(33), 120)
    )
    with options(threads=2):
        plan = einloom.plan(network, planner=balanced(32))
        high = plan.peak_bytes
        with options(threads=1):
            low = einloom.plan(network, planner=balanced(32)).peak_bytes
        assert low < high
        for order in ("K", "C", "F"):
            lean = einloom.plan(network, planner=balanced(32), memory_limit=low, order=order)
            assert lean.n_slices == 1
            assert lean.peak_bytes <= low
            again = einloom.Plan.from_json(lean.to_json())
            assert again.memory_limit == low
            assert einloom.compile(again).peak_bytes <= low
        assert einloom.plan(network, planner=balanced(32), memory_limit=high) == plan
    with options(threads=1):
        planned = einloom.plan(network, planner=balanced(32), memory_limit=low)
    with options(threads=2):
        assert einloom.compile(planned).peak_bytes <= low


def test_a_chain_of_matrices_is_the_same_on_any_number_of_threads() -> None:
    network = chain(60, 2)
    sizes = {label: 2 + (label * 37) % 90 for label in range(61)}
    network = einloom.Network(network.inputs, network.output, sizes)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-1, 2, shape).astype(float) for shape in network.shapes]
    plan, found = einloom.plan(network), []
    for threads in (1, 2, 3):
        with options(threads=threads):
            found.append(einloom.compile(plan)(*arrays))
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], rtol=1e-12)

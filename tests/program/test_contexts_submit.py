"""Calls that are answered later, the cache of compiled programs, and faults in the middle of things."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future, InvalidStateError
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.program.mock_device import cpu_devices, mock_device
from tests.program.test_contexts_order import A, B, C, code, double, held_up

import einloom
from einloom import Code, Context, MemoryLimitError, Node, OptionError, OrderError, device_to_device
from einloom.program.builder import Builder
from einloom.program.compiling import Compiling
from einloom.program.dispatch import EXECUTABLES, executable_for
from einloom.program.executable import Executable
from einloom.program.extension import register_family, register_runtime, unregister_family
from einloom.program.ir import Program

SOURCE = str(Path(einloom.__file__).parents[1])


def constant(value: Any) -> Program:
    build = Builder()
    x = build.input("float64", (2,))
    filled = build("constant", dtype="float64", value=value)
    return build.finish(
        build("multiply", x, build("broadcast_in_dim", filled, axes=(), shape=(2,)))
    )


# ---- later answers -------------------------------------------------------------------------------


def test_submit_an_executable() -> None:
    """The result of a call, once and no more; several devices work beside each other."""
    executable = executable_for(constant(3.0))
    with cpu_devices("cpu:1", "cpu:2") as (one, two):
        begin = held_up(one)
        first = executable.submit(np.ones(2), device="cpu:1")
        second = executable.submit(np.full(2, 2.0), device=two)
        assert second.result(60).tolist() == [6, 6]
        assert not first.done()
        begin.set()
        assert first.result(60).tolist() == [3, 3]
        with pytest.raises(InvalidStateError):
            first.set_result(None)
        out = np.empty(2)
        assert executable.submit(np.ones(2), out=out, device=one).result(60) is out


def test_submit_an_expression() -> None:
    expr = einloom.compile("ij,jk->ik", (2, 3), (3, 2))
    a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    futures = [expr.submit(k * a, b, device=f"cpu:{k % 3}") for k in range(12)]
    for k, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(60), k * a @ b)
    refused = expr.submit(a, a)
    with pytest.raises(einloom.ShapeError, match="expression: operand 1"):
        refused.result(60)
    with pytest.raises(einloom.DeviceError):
        expr.submit(a, b, device="cpu:99")


def test_cancellation_before_the_start() -> None:
    executable = executable_for(constant(3.0))
    with cpu_devices("cpu:1") as (one,):
        begin = held_up(one)
        first, second = (executable.submit(np.ones(2), device=one) for _ in range(2))
        assert first.cancel()
        begin.set()
        assert second.result(60).tolist() == [3, 3]
        assert not second.cancel()
        with pytest.raises(CancelledError):
            first.result()


def test_routines_from_many_threads() -> None:
    """Sums of 200 runs of eight callers, by run and submit: none is lost, none done twice."""
    total = Node("total", (1000,))
    one = Node.constant("one", np.ones(1000))
    with cpu_devices("cpu:1") as (device,), Context(device) as root:
        add = root.zeros(total).link(code(lambda x: x, [one], [total], "add", accumulate=True))

        def caller(k: int) -> None:
            for number in range(25):
                if (k + number) % 2:
                    add.run()
                else:
                    add.submit()

        threads = [threading.Thread(target=caller, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert set(add.context.get(total).tolist()) == {200}


def test_contexts_from_many_threads() -> None:
    """Linking, transfers and closing side by side: nothing is left, whatever the order."""
    with cpu_devices("cpu:1", "cpu:2") as (one, two):
        w = Node.constant("w", np.full(2, 3.0))
        wrong: list[Any] = []

        def caller(k: int) -> None:
            here, there = (one, two) if k % 2 else (two, one)
            for number in range(10):
                with Context(here) as near, Context(there) as far:
                    held = near.put({A: np.full(2, float(number))})
                    made = held.link(code(lambda x, y: x * y, [A, w], [B], "made"))
                    move = device_to_device(B, far, made.context)
                    assert move is not None
                    made.submit()
                    move.submit()
                    got = move.context.get(B).tolist()
                    if got != [3 * number] * 2:
                        wrong.append(got)

        threads = [threading.Thread(target=caller, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        gc.collect()
        assert wrong == []
        assert [len(device.pools.sizes) for device in (one, two)] == [1, 1]  # the constant
        assert [device.contexts for device in (one, two)] == [0, 0]


# ---- compiled once -------------------------------------------------------------------------------


def test_the_cache_of_programs() -> None:
    """One for a program, its dtypes, shapes and device; programs that only compare as equal are not one."""
    einloom.clear_caches()
    template = einloom.trace(double, "float64[n]")
    one = executable_for(template, "cpu:1", [(3,)])
    assert executable_for(template, "cpu:1", [(3,)]) is one
    others = [
        executable_for(template, "cpu:2", [(3,)]),
        executable_for(template, "cpu:1", [(4,)]),
        executable_for(template, "cpu:1", [(3,)], ["float32"]),
    ]
    assert len({id(x) for x in (one, *others)}) == 4
    info = einloom.cache_info()["executables"]
    assert (info.hits, info.misses, info.currsize) == (1, 4, 4)
    assert constant(0.0) == constant(-0.0)
    plus, minus = executable_for(constant(0.0)), executable_for(constant(-0.0))
    assert not np.signbit(plus(np.ones(2))).any()
    assert np.signbit(minus(np.ones(2))).all()
    with einloom.options(threads=1):
        assert executable_for(template, "cpu:1", [(3,)]) is executable_for(
            template, "cpu:1", [(3,)]
        )
    einloom.clear_caches()
    assert len(EXECUTABLES._items) == 0


def test_an_executable_tells_how_it_was_compiled() -> None:
    """With which options; another program is compiled alike with them. Several tell it each."""
    template = einloom.trace(double, "float64[n]")
    with einloom.options(threads=1, provider="native", small=5):
        one = executable_for(template, "cpu:1", [(3,)])
    found = one.compiling
    assert (found.threads, found.small, found.provider, found.engine) == (1, 5, "native", None)
    with einloom.options(**found.changes):
        assert executable_for(template, "cpu:1", [(3,)]) is one
        assert Compiling.now() == found
    batch = []
    for threads in (1, 2):
        with einloom.options(threads=threads):
            batch.append(executable_for(template, "cpu:1", [(4,)]))
    assert [x.compiling.threads for x in batch] == [1, 2]
    with pytest.raises(FrozenInstanceError):
        found.threads = 3  # type: ignore[misc]


def test_a_context_compiles_and_runs_with_its_options() -> None:
    """Its children too, and nobody else; a fresh one has none of its own."""
    seen: list[tuple[int, str]] = []

    def run(attrs: Any, x: Any) -> tuple[Any, ...]:
        seen.append((einloom.get_options().threads or 0, einloom.get_options().provider))
        return (x + 1,)

    register_family("tests.noted.v1", lambda attrs, inputs: inputs)
    register_runtime("tests.noted.v1", "cpu", run)
    build = Builder()
    x = build.input("float64", (2,))
    program = build.finish(*build.extension("tests.noted.v1", x))
    a, b, c = (einloom.Node(name, (2,)) for name in "abc")
    own = {"threads": 1, "provider": "native"}
    with (
        einloom.options(threads=2),
        einloom.Context("cpu:5", options=own) as root,
        einloom.Context("cpu:5") as plain,
    ):
        assert (dict(root.options), dict(plain.options)) == (own, {})
        first = root.put({a: np.zeros(2)}).link(einloom.Code(program, [a], [b]))
        second = first.context.link(einloom.Code(program, [b], [c]))
        third = plain.put({a: np.zeros(2)}).link(einloom.Code(program, [a], [b]))
        assert dict(second.context.options) == own
        first.run()
        second.submit().result()
        third.run()
        assert seen == [(1, "native"), (1, "native"), (2, "blas")]
        executables = (first.executable, third.executable)
        assert [x.compiling.threads for x in executables if x is not None] == [1, 2]
        np.testing.assert_array_equal(second.context.get(c), [2, 2])
    unregister_family("tests.noted.v1")


@pytest.mark.parametrize(
    "options", [{"threads": 0}, {"provider": "none"}, {"budget": 3}, {1: 2}, "threads", 3]
)
def test_options_without_meaning(options: Any) -> None:
    with pytest.raises(OptionError, match="options"):
        einloom.Context("cpu:5", options=options)


def test_what_a_filter_leaves_out_is_not_compiled() -> None:
    """Programs for several shapes, of which some are not wanted: a comprehension says so."""
    einloom.clear_caches()
    template = einloom.trace(double, "float64[n]")
    batch = {n: executable_for(template, "cpu:1", [(n,)]) for n in range(1, 7) if n % 2}
    assert einloom.cache_info()["executables"].misses == 3
    for n, one in batch.items():
        np.testing.assert_array_equal(one(np.ones(n)), np.full(n, 2.0))


# ---- faults --------------------------------------------------------------------------------------


@pytest.fixture
def fault() -> Any:
    """A family that fails while the list that is given has something in it."""
    failing: list[Exception] = []

    def run(attrs: Any, x: Any) -> tuple[Any, ...]:
        if failing:
            raise failing[0]
        return (x + 1,)

    register_family("tests.fault.v1", lambda attrs, inputs: inputs)
    for backend in ("cpu", "mock"):
        register_runtime("tests.fault.v1", backend, run)
    build = Builder()
    x = build.input("float64", (2,))
    yield build.finish(*build.extension("tests.fault.v1", x)), failing
    unregister_family("tests.fault.v1")


def test_work_that_raises(fault: Any) -> None:
    """The exception is delivered; what reads the result is refused, naming it; all else goes on, and a
    run that succeeds makes it good."""
    program, failing = fault
    with cpu_devices("cpu:1", "cpu:2") as (one, two), Context(one) as root, Context(two) as other:
        first = root.put({A: np.ones(2)}).link(Code(program, [A], [B], name="first"))
        second = first.context.link(code(double, [B], [C], "second"))
        move = device_to_device(B, other, first.context)
        assert move is not None
        failing.append(FloatingPointError("in the kernel"))
        begin = held_up(one)
        failed, after, moved = first.submit(), second.submit(), move.submit()
        begin.set()
        with pytest.raises(FloatingPointError, match="in the kernel"):
            failed.result(60)
        for event in (after, moved):
            with pytest.raises(
                OrderError, match=r"'first', which failed \(FloatingPointError: in the"
            ):
                event.result(60)
        with pytest.raises(OrderError, match="'first'"):
            second.run()
        with pytest.raises(OrderError, match="'first'"):
            first.context.get(B)
        assert root.put({C: np.ones(2)}).get(C).tolist() == [1, 1]
        assert one.runner.submit(lambda future: lambda: "alive").result(60) == "alive"
        failing.clear()
        for routine in (first, second, move):
            routine.run()
        assert second.context.get(C).tolist() == [4, 4]
        assert move.context.get(B).tolist() == [2, 2]
    assert one.contexts == two.contexts == 0


def test_a_cancelled_reader_counts_as_not_run() -> None:
    with cpu_devices("cpu:1") as (one,), Context(one) as root:
        reader = root.put({A: np.ones(2)}).zeros(C).link(code(double, [A], [B], "reader"))
        writer = reader.context.link(code(double, [C], [A], "writer"))
        begin = held_up(one)
        read, written = reader.submit(), writer.submit()
        assert read.cancel()
        begin.set()
        with pytest.raises(OrderError, match="writer: not executed yet: 'reader', which reads a"):
            written.result(60)
        with pytest.raises(OrderError, match="get a: not executed yet: 'writer'"):
            writer.context.get(A)
        with pytest.raises(OrderError, match="was to be written by 'writer', which failed"):
            reader.context.get(A)


@pytest.mark.parametrize("policy", ["packed", "separate"])
@pytest.mark.parametrize("room", [100, 200, 400, 500, 600, 900])
def test_no_memory_in_the_middle_of_a_link(policy: Any, room: int) -> None:
    """All of it or nothing, wherever it fails; what there was before works, and so does a smaller link."""
    x, y, z = (Node(name, (20,)) for name in "xyz")
    w = Node.constant("w", np.ones(20))
    all_of_it = Code(lambda a, b: (a + b, a * b), [x, w], [y, z])
    with mock_device(room=room) as (device, memory):
        root = Context(device, policy=policy)

        def state() -> Any:
            constants = len(device.constants)
            return dict(memory.live), device.contexts, device.next_pool_id, constants

        with root:
            before, held = state(), None
            try:
                held = root.put({x: np.ones(20)})
                before = state()
                routine = held.link(all_of_it)
            except MemoryLimitError as error:
                assert "mock:0: no memory for pool" in str(error)  # noqa: PT017
                del error  # its traceback holds what was given up
                assert state() == before
            else:
                assert room > 600
                routine.run()
            if held is not None:
                assert held.get(x).tolist() == [1] * 20
        assert device.contexts == 0


def test_no_memory_for_the_merge_buffer() -> None:
    """The old slab is gone, so nothing is there; with room the same transfer works."""
    with mock_device(room=400) as (device, memory), Context(device) as root:
        held, other = root.put({A: np.ones(2)}), root.zeros(B)
        bring = device_to_device(B, other, held, into="merge", source=A)
        assert bring is not None
        use = bring.context.link(code(lambda x: x, [B.merged], [B], "use", accumulate=True))
        top, memory._top = memory._top, 399
        with pytest.raises(MemoryLimitError, match="pool 0"):
            bring.run()
        with pytest.raises(OrderError):
            use.run()
        memory._top = top
        bring.run()
        use.run()
        assert use.context.get(B).tolist() == [1, 1]


def test_nothing_is_left_of_a_process() -> None:
    """Work that is queued when the interpreter ends is done; no thread hinders it, none complains."""
    text = (
        "import time, numpy as np, einloom\n"
        "expr = einloom.compile('ij,jk->ik', (4, 4), (4, 4))\n"
        "for k in range(20):\n"
        "    f = expr.submit(np.ones((4, 4)), np.ones((4, 4)), device=f'cpu:{k % 2}')\n"
        "f.add_done_callback(lambda f: print('done', f.result()[0, 0]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-W", "error", "-c", text]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done 4.0\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_the_child_of_a_fork() -> None:
    """It has none of the threads, and begins anew."""
    text = (
        "import os, warnings, numpy as np, einloom\n"
        "warnings.simplefilter('ignore')\n"
        "expr = einloom.compile('ij,jk->ik', (4, 4), (4, 4))\n"
        "a = np.ones((4, 4))\n"
        "expr.submit(a, a).result()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    ok = expr.submit(a, a).result(30)[0, 0] == 4\n"
        "    x = einloom.Node('x', (4, 4))\n"
        "    held = einloom.Context().put({x: a})\n"
        "    os._exit(0 if ok and held.get(x)[0, 0] == 1 else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), expr.submit(a, a).result()[0, 0])\n"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "0 4.0\n"), done.stderr


def test_futures_are_pythons_own() -> None:
    executable = Executable(constant(1.0), einloom.device().backend)
    assert isinstance(executable.submit(np.ones(2)), Future)


# ---- previously failed ---------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_the_child_of_a_fork_does_not_wait_for_the_parents_work() -> None:
    text = (
        "import os, threading, warnings, numpy as np, einloom\n"
        "warnings.simplefilter('ignore')\n"
        "x, y = einloom.Node('x', (2,)), einloom.Node('y', (2,))\n"
        "held = einloom.Context('cpu:1').put({x: np.ones(2)})\n"
        "make = held.link(einloom.Code(lambda a: a + a, [x], [y], name='make'))\n"
        "begin = threading.Event()\n"
        "held.device.runner.submit(lambda future: begin.wait)\n"
        "made = make.submit()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        make.context.get(y)\n"
        "    except einloom.OrderError:\n"
        "        make.run()\n"
        "        ok = isinstance(made.exception(30), einloom.OrderError)\n"
        "        os._exit(0 if ok and make.context.get(y)[0] == 2 else 1)\n"
        "    os._exit(2)\n"
        "begin.set()\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), make.context.get(y))\n"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "0 [2. 2.]\n"), done.stderr

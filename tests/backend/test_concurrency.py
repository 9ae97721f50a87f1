"""Kernels of every kind at once: in Python threads, after a fork, and beside the user's own numba code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import path
from tests.backend.calls import CALLS, OF_THEIR_OWN, operands, some_dtype

import einloom
from einloom._base.options import options
from einloom.backend.cpu import cpu
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep
from einloom.backend.spec import ArraySpec

Array = np.ndarray[Any, Any]
PATIENCE = 120


def work(seed: int, rounds: int, threads: int) -> None:
    """One call of every kind, `rounds` times, all results checked; integers, so that they are exact."""
    rng = np.random.default_rng(seed)
    spec = ArraySpec(np.dtype("int64"), (60, 70))
    steps = (FusionStep("multiply", (0, 1)), FusionStep("add", (2, 0)))
    rows = {"axes": (0,)}
    batch = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}
    with options(small=0, threads=threads):
        chain = cpu().fuse(ElementwiseFusionPlan((spec, spec), steps, (3, 2)))
        total = cpu().fuse(ElementwiseFusionPlan((spec, spec), steps, (3,), "reduce_sum", (0,)))
        assert chain is not None
        assert total is not None
        for _ in range(rounds):
            x, y = rng.integers(-99, 99, (2, 60, 70))
            a, b = rng.integers(-9, 9, (2, 48, 12, 12)).astype(float)
            both = chain(x, y)
            np.testing.assert_array_equal(both[0], x * y + x)
            np.testing.assert_array_equal(both[1], x * y)
            np.testing.assert_array_equal(total(x, y), (x * y + x).sum(0))
            np.testing.assert_array_equal(cpu().apply("reduce_sum", rows, x), x.sum(0))
            np.testing.assert_array_equal(cpu().apply("copy", {}, x.T), x.T)
            np.testing.assert_array_equal(cpu().apply("dot_general", batch, a, b), a @ b)
            np.testing.assert_array_equal(cpu().apply("sign", {}, x), np.sign(x))
            large = cpu().apply("add", {}, np.full((400, 400), x[0, 0]), np.ones((400, 400), int))
            assert (large == x[0, 0] + 1).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_eight_threads(threads: int) -> None:
    work(99, 1, threads)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda seed: work(seed, 8, threads), range(8)))
    finally:
        sys.setswitchinterval(interval)


Case = tuple[str, str, dict[str, Any], list[Array], list[bytes]]


def result(how: str, op: str, attrs: dict[str, Any], arrays: list[Array]) -> list[bytes]:
    """The bytes of every output, by two threads where kernels are forced."""
    with path(how), options(threads=2):
        found = cpu().apply(op, attrs, *arrays)
    return [x.tobytes() for x in (found if isinstance(found, tuple) else (found,))]


MOST = 6  # calls of an op


def every_call() -> list[Case]:
    """Some calls of every op, in two layouts and on two paths, with what one thread finds."""
    cases: list[Case] = []
    tried: Counter[str] = Counter()
    for k, call in enumerate(CALLS):
        dtype = some_dtype(call.op)
        if dtype.name not in cpu().capabilities().get(call.op, ()) or tried[call.op] == MOST:
            continue
        tried[call.op] += 1
        arrays = operands(call, dtype, "transposed" if k % 2 else "C", np.random.default_rng(k))
        for how in ("as shipped", "two threads"):
            want = result(how, call.op, call.attrs, arrays)
            cases.append((how, call.op, call.attrs, arrays, want))
    return cases


def same_again(cases: list[Case], seed: int) -> None:
    """To the last bit, half of them, in an order of this thread's own."""
    for k in np.random.default_rng(seed).permutation(len(cases))[: len(cases) // 2]:
        how, op, attrs, arrays, want = cases[k]
        assert result(how, op, attrs, arrays) == want, (how, op, attrs, arrays)


@pytest.mark.slow
def test_every_call_in_eight_threads() -> None:
    cases = every_call()
    assert {op for _, op, *_ in cases} == set(cpu().capabilities()) - OF_THEIR_OWN
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda seed: same_again(cases, seed), range(8)))
    finally:
        sys.setswitchinterval(interval)


def test_one_chain_in_eight_threads(rng: np.random.Generator) -> None:
    """Tables for the strides of one caller never serve another's arrays."""
    shape = (30, 30)
    spec = ArraySpec(np.dtype("int64"), shape)
    steps = (FusionStep("multiply", (0, 1)),)
    x, y = rng.integers(-99, 99, (2, 60, 60))
    pairs = [
        (x[:30, :30], y[:30, :30].T),
        (x[::2, ::2], y[:30, 30:]),
        (x.T[:30, :30], y[1::2, ::-2]),
    ]
    with options(small=0):
        kernel = cpu().fuse(ElementwiseFusionPlan((spec, spec), steps, (2,)))
    assert kernel is not None

    def call(n: int) -> None:
        a, b = pairs[n % 3]
        with options(small=0, threads=1 + n % 2):
            for _ in range(60):
                np.testing.assert_array_equal(kernel(a, b), a * b)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(call, range(8)))
    finally:
        sys.setswitchinterval(interval)


def run_script(text: str) -> None:
    """In a process of its own, which shares the compiled kernels on disk."""
    roots = (Path(einloom.__file__).parents[1], Path(__file__).parents[2])
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, roots))}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text]
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr


FORK = """
import os, signal, threading
from tests.backend.test_concurrency import work
work(0, 2, {threads})
busy = threading.Thread(target=work, args=(1, 20, {threads}))  # at work while the process forks
busy.start()
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        work(2, 3, {threads})
        work(2, 1, 2)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
busy.join()
work(3, 1, {threads})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("threads", [1, 2])
def test_forked_child(threads: int) -> None:
    run_script(FORK.format(threads=threads))


EVERY_CALL = """
import os, signal
from tests.backend.test_concurrency import every_call, same_again
cases = every_call()
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        same_again(cases, 0)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
same_again(cases, 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_every_call_in_a_forked_child() -> None:
    """After they were used in the parent, whose workers the child does not have."""
    run_script(EVERY_CALL)


NUMBA = """
import threading
import numba, numpy as np
from tests.backend.test_concurrency import work

@numba.njit(parallel=True)
def total(x):
    found = 0.0
    for i in numba.prange(x.size):
        found += x[i]
    return found

def check():
    assert total(np.ones(10000)) == 10000

def elsewhere(run, *arguments):
    thread = threading.Thread(target=run, args=arguments)
    thread.start()
    thread.join()

numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
before = numba.get_num_threads()
check()
work(0, 2, 2)
check()
elsewhere(check)
elsewhere(work, 1, 2, 2)
check()
work(2, 1, 2)
assert numba.get_num_threads() == before
"""


def test_beside_prange() -> None:
    """The user's own parallel loops, before, between and after ours, from two threads in turn."""
    run_script(NUMBA)

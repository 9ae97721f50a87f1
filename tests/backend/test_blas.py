"""BLAS has one thread while ours are at work, in every library of the process, and its own again after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl
from threadpoolctl import threadpool_info, threadpool_limits

import einloom
from einloom._base.options import options
from einloom.backend.cpu import blas, cpu, sharing
from einloom.backend.cpu.blas import ONE_BLAS_THREAD, OneThread

pytestmark = pytest.mark.skipif(
    not any(pool["user_api"] == "blas" for pool in threadpool_info()),
    reason="no BLAS library whose threads can be set",
)
SETTING = 2  # threads of every library before each test
PATIENCE = 60


def counts() -> set[int]:
    """Threads of the BLAS libraries of this process."""
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _setting() -> Any:
    with threadpool_limits(SETTING, "blas"):
        assert counts() == {SETTING}
        yield
        assert counts() == {SETTING}


def test_inside_and_after() -> None:
    with ONE_BLAS_THREAD:
        assert counts() == {1}
        with ONE_BLAS_THREAD, ONE_BLAS_THREAD:
            assert counts() == {1}
        assert counts() == {1}
    assert counts() == {SETTING}


def test_errors() -> None:
    with pytest.raises(ZeroDivisionError), ONE_BLAS_THREAD, ONE_BLAS_THREAD:
        raise ZeroDivisionError
    assert counts() == {SETTING}


def test_at_most() -> None:
    """The fewest threads that anybody inside wants, and never more than there were."""
    with threadpool_limits(4, "blas"):
        with ONE_BLAS_THREAD.at_most(3):
            assert counts() == {3}
            with ONE_BLAS_THREAD.at_most(2):
                assert counts() == {2}
                with ONE_BLAS_THREAD:
                    assert counts() == {1}
                assert counts() == {2}
            with ONE_BLAS_THREAD.at_most(8):
                assert counts() == {3}
            assert counts() == {3}
        with ONE_BLAS_THREAD.at_most(8):
            assert counts() == {4}
        with pytest.raises(ZeroDivisionError), ONE_BLAS_THREAD.at_most(3):
            raise ZeroDivisionError
        assert counts() == {4}


def test_at_most_when_the_first_in_is_not_the_last_out() -> None:
    one = ONE_BLAS_THREAD.at_most(1)
    with ONE_BLAS_THREAD.at_most(SETTING):
        one.__enter__()
        assert counts() == {1}
    assert counts() == {1}
    one.__exit__(None, None, None)
    assert counts() == {SETTING}


def test_what_was_set_meanwhile_is_restored() -> None:
    """The setting before the first entry, whatever it is by then."""
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            with ONE_BLAS_THREAD:
                assert counts() == {1}
            assert counts() == {threads}


def test_first_in_is_not_last_out() -> None:
    """Each of two threads enters before the other leaves: restored by whoever is last."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with ONE_BLAS_THREAD:
            entered.set()
            assert leave.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    with ONE_BLAS_THREAD:
        holder.start()
        assert entered.wait(PATIENCE)
    assert counts() == {1}
    leave.set()
    holder.join(PATIENCE)
    assert counts() == {SETTING}


def test_eight_threads() -> None:
    """One inside for as long as any is; the last restores."""
    together = threading.Barrier(8, timeout=PATIENCE)

    def work(seed: int) -> None:
        for n in range(40):
            with ONE_BLAS_THREAD:
                if n % 10 == 0:
                    together.wait()
                    assert counts() == {1}
                np.ones((20, 20)) @ np.ones((20, 20))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert counts() == {SETTING}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_while_another_thread_is_inside() -> None:
    """The child's BLAS is as it was, and its guard is free."""
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with ONE_BLAS_THREAD:
            entered.set()
            assert leave.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    assert entered.wait(PATIENCE)
    with ONE_BLAS_THREAD._lock:  # as if it were just entering
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)
            before = counts()
            with ONE_BLAS_THREAD:
                inside = counts()
            os._exit(0 if (before, inside, counts()) == ({SETTING}, {1}, {SETTING}) else 1)
    status = os.waitpid(child, 0)[1]
    assert counts() == {1}
    leave.set()
    holder.join(PATIENCE)
    assert status == 0


PROCESS = """
import sys
from threadpoolctl import threadpool_info
from einloom.backend.cpu.blas import ONE_BLAS_THREAD
def counts():
    return sorted(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas")
order = sys.argv[1]
if order == "before":
    import scipy.linalg
if order == "between":
    with ONE_BLAS_THREAD:
        pass
if order in ("between", "after"):
    import scipy.linalg
before = counts()
with ONE_BLAS_THREAD:
    assert set(counts()) == {1}, counts()
    if order == "inside":
        import scipy.linalg
        before = None
if before is not None:
    assert counts() == before, (before, counts())
before = counts()
with ONE_BLAS_THREAD:
    assert set(counts()) == {1}, counts()
assert counts() == before, (before, counts())
"""


NUMPY_ALONE = """
import sys
from einloom.backend import processor
from einloom.backend.cpu.blas import ONE_BLAS_THREAD
with ONE_BLAS_THREAD, ONE_BLAS_THREAD.at_most(2):
    pass
is_known = processor.of_blas("set_num_threads") is not None
print(is_known, "threadpoolctl" in sys.modules)
"""


def test_no_library_is_looked_for_beside_numpys_own() -> None:
    root = Path(einloom.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", NUMPY_ALONE],
        env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    is_known, has_looked = done.stdout.split()
    assert is_known != has_looked, done.stderr


@pytest.mark.parametrize("order", ["before", "between", "after", "inside"])
def test_libraries_loaded_at_any_time(order: str) -> None:
    """SciPy brings a BLAS of its own: before the guard was first used, or later, or meanwhile."""
    root = Path(einloom.__file__).parents[1]
    variables = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", PROCESS, order]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_libraries_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as no module was loaded that may bring one."""
    guard, searches = OneThread(), []
    monkeypatch.setattr(blas._NumpyBlas, "found", lambda: None)

    class Controller(threadpoolctl.ThreadpoolController):  # type: ignore[misc]
        def __init__(self) -> None:
            searches.append(self)
            super().__init__()

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Controller)
    for _ in range(3):
        with guard:
            assert guard._before
    assert len(searches) == 1
    monkeypatch.setitem(sys.modules, blas._WITNESSES[-1], sys)
    with guard, guard:
        assert len(searches) == 2


@pytest.mark.parametrize("name", ["float32", "complex128"])
def test_batches_of_matrices(
    name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shared among our threads, each of which multiplies with a BLAS of one, which might use its own."""
    x, y = (rng.standard_normal((64, 80, 80)).astype(name) for _ in range(2))
    attrs = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}
    seen: list[set[int]] = []
    run = sharing.parallel_for
    monkeypatch.setattr(
        sharing, "parallel_for", lambda piece, n: (seen.append(counts()), run(piece, n))
    )
    with options(small=0, threads=2, engine="batched gemm"):
        got = cpu().apply("dot_general", attrs, x, y)
    assert seen == [{1}]
    assert counts() == {SETTING}
    want = x.astype(complex) @ y.astype(complex)
    assert abs(got - want).max() < 1e3 * np.finfo(name).eps

"""What happens to parallel regions run in one way: `python -m benchmarks.region WAY MODE [QUICK]`.

A process of its own, since numba keeps one threading layer for a process's life, and since some do not
survive. A region adds 1 to as many counters as there are threads, which tells whether it ran; QUICK
takes few samples, and little patience with a child that hangs.

    cost       prints the median seconds of a region, one called after the other
    rested     the same, each after some milliseconds in which every thread has gone to sleep: most of it
               is the time the system needs to wake one
    work       the same, with tens of microseconds of arithmetic in each piece: a way that is quick when
               there is nothing to do may have left every piece to its caller
    together   runs regions in eight Python threads at once; prints 0 when all counted right
    fork       runs a region, forks, and prints the child's exit code (-n: killed by signal n)
"""

from __future__ import annotations

import ctypes
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import files
from typing import Any

import numpy as np

from einloom._base.options import num_threads
from einloom.backend.cpu.kernels.wait import watch
from einloom.backend.cpu.threads import parallel_for

Region = Callable[[Any], None]  # adds 1 to each counter, in parallel
Piece = Callable[[Any, int], None]  # adds 1 to counter k
SPINS = 8000
CALLERS = 8
REST = 5e-3  # seconds
SAMPLES, PATIENCE = 300, 10  # calls or batches of them; seconds for the child of a fork
QUICK_SAMPLES, QUICK_PATIENCE = 20, 2


def main(way: str, mode: str, quick: str = "") -> int:
    _, _, layer = way.partition("numba ")
    if layer:
        prepare_numba(layer)
    region = region_of(way, _compiled(_spin) if mode == "work" else _count)
    samples = QUICK_SAMPLES if quick else SAMPLES
    figure: float
    if mode in ("cost", "work"):
        figure = _cost(region, samples)
    elif mode == "rested":
        figure = _cost(region, samples, REST)
    elif mode == "together":
        figure = _together(region, samples)
    else:
        figure = _fork(region, QUICK_PATIENCE if quick else PATIENCE)
    if layer and sys.modules["numba"].threading_layer() != layer:
        raise RuntimeError(f"numba did not take the layer {layer}")
    print(figure, flush=True)
    return 0


# ---- pieces -----------------------------------------------------------------------------------


def _count(counters: Any, k: int) -> None:
    counters[k] += 1


def _spin(counters: Any, k: int) -> None:
    x = float(counters[k])
    for _ in range(SPINS):  # each division waits for the one before
        x = 1.0 / (1.0 + x)
    counters[k] += 1 if x > 0.0 else 2


def _compiled(piece: Piece) -> Piece:
    from numba import njit

    compiled: Piece = njit(nogil=True)(piece)
    return compiled


# ---- ways -------------------------------------------------------------------------------------


def region_of(way: str, piece: Piece) -> Region:
    """The way of running pieces that has this name; its first region is behind it."""
    if way == "einloom":
        region = _ours(piece)
    elif way == "ThreadPoolExecutor":
        region = _executor(piece, ThreadPoolExecutor(num_threads()))
    elif way == "one thread":
        region = _serial(piece)
    else:
        region = _numba(piece)
    region(np.zeros(num_threads(), np.int64))
    return region


def _serial(piece: Piece) -> Region:
    def region(counters: Any) -> None:
        for k in range(len(counters)):
            piece(counters, k)

    return region


def _ours(piece: Piece) -> Region:
    # threads look before they sleep once a kernel has been compiled, as in any process with large work
    watch(np.zeros(1, np.int64), 0, 1, 0)

    def region(counters: Any) -> None:
        def run(start: int, stop: int) -> None:
            for k in range(start, stop):
                piece(counters, k)

        parallel_for(run, len(counters))

    return region


def _executor(piece: Piece, pool: ThreadPoolExecutor) -> Region:
    def region(counters: Any) -> None:
        others = [pool.submit(piece, counters, k) for k in range(1, len(counters))]
        piece(counters, 0)
        for other in others:
            other.result()

    return region


def _numba(piece: Piece) -> Region:
    from numba import njit, prange

    inner = piece if hasattr(piece, "py_func") else _compiled(piece)

    @njit(parallel=True, nogil=True)
    def region(counters: Any) -> None:
        for k in prange(counters.size):
            inner(counters, k)

    compiled: Region = region
    return compiled


def prepare_numba(layer: str) -> None:
    """What must be settled before numba is imported."""
    os.environ["NUMBA_THREADING_LAYER"] = layer
    os.environ["NUMBA_NUM_THREADS"] = str(num_threads())
    if layer == "tbb":
        load_tbb()


def load_tbb() -> None:
    """Load the library of the package tbb, which lies where the loader does not look for it."""
    for file in files("tbb") or ():
        if file.name.startswith("libtbb.so."):
            ctypes.CDLL(os.fspath(file.locate()), ctypes.RTLD_GLOBAL)
            return
    raise RuntimeError("the package tbb has no libtbb.so")


# ---- modes ------------------------------------------------------------------------------------


def _cost(region: Region, samples: int, rest: float = 0.0) -> float:
    counters = np.zeros(num_threads(), np.int64)
    batch, seconds = 1 if rest else 20, []
    for _ in range(samples):
        time.sleep(rest)
        start = time.perf_counter()
        for _ in range(batch):
            region(counters)
        seconds.append((time.perf_counter() - start) / batch)
    if not np.all(counters == batch * samples):
        raise RuntimeError("regions did not run as often as they were called")
    return statistics.median(seconds)


def _together(region: Region, calls: int) -> int:
    counters = np.zeros((CALLERS, num_threads()), np.int64)
    ready = threading.Barrier(CALLERS)

    def caller(mine: Any) -> None:
        ready.wait()
        for _ in range(calls):
            region(mine)

    threads = [threading.Thread(target=caller, args=(row,)) for row in counters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0 if np.all(counters == calls) else 1


def _fork(region: Region, patience: int) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(patience)
    counters = np.zeros(num_threads(), np.int64)
    region(counters)
    os._exit(0 if np.all(counters == 1) else 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

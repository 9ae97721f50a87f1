"""What figures were measured on: processor, versions, and the rates of GEMM and copies at the moment."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from einloom._base.options import num_threads

Contender = Callable[[], Any]
PACKAGES = ("numpy", "scipy", "numba", "opt_einsum", "cotengra", "torch", "numexpr", "tbb")


def machine(quick: bool = False) -> dict[str, Any]:
    """Facts of the machine, with GEMM and copy rates of this moment; all use `threads` threads."""
    n, size = (64, 1 << 16) if quick else (1024, 1 << 27)
    a = np.random.default_rng(0).random((n, n))
    source = np.ones(size, np.uint8)
    target = np.ones_like(source)
    copies = threaded_copy(2 * size)
    gemm = min(once(lambda: a @ a) for _ in range(5))
    single = min(once(lambda: np.copyto(target, source)) for _ in range(5))
    threaded = min(once(copies) for _ in range(5))
    return {
        "python": platform.python_version(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "threads": num_threads(),
        "versions": {package: _version(package) for package in PACKAGES},
        "gemm_gflops": 2 * n**3 / gemm / 1e9,
        "copy_gbytes": 2 * size / single / 1e9,
        "threaded_copy_gbytes": 2 * size / threaded / 1e9,
        "date": time.strftime("%Y-%m-%d"),
    }


def once(call: Contender, quick: bool = False) -> float:
    """Seconds of one call, repeated until the clock can see it unless `quick`."""
    repeats, spent = 1, 0.0
    while True:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        spent = time.perf_counter() - start
        if quick or spent > 2e-4 or repeats >= 1 << 14:
            return spent / repeats
        repeats *= 4


def threaded_copy(moved: int) -> Contender:
    """A copy that reads and writes `moved` bytes in all, each thread its part of them."""
    source = np.ones(max(1, moved // 2), np.uint8)
    target = np.ones_like(source)
    threads = num_threads()
    bounds = [len(source) * part // threads for part in range(threads + 1)]

    def part(k: int) -> None:
        np.copyto(target[bounds[k] : bounds[k + 1]], source[bounds[k] : bounds[k + 1]])

    def copy() -> Any:
        others = [_pool(threads).submit(part, k) for k in range(1, threads)]
        part(0)
        for other in others:
            other.result()
        return target

    return copy


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()

"""What figures were measured on: processor, versions, and the rates of GEMM and of copies."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from einloom import Plan
from einloom._base.options import num_threads
from einloom.backend import processor

from .roofline import Rates, flops_per_product, roofline

Contender = Callable[[], Any]
PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "opt_einsum",
    "cotengra",
    "torch",
    "jax",
    "pytblis",
    "numexpr",
    "tbb",
)
DTYPES = ("float32", "float64", "complex64", "complex128")
COPIED = 1 << 28  # bytes that the copy moves by which bandwidth is told
SIDE = 1536  # rows and columns of the product by which GEMM's rate in a round is told
COPIES, PRODUCTS = 10, 3  # of which the best counts there


def machine(quick: bool = False) -> dict[str, Any]:
    """Facts of the machine, with the rates of GEMM and of copies; all use `threads` threads."""
    size = 1 << 16 if quick else 1 << 27
    source = np.ones(size, np.uint8)
    target = np.ones_like(source)
    single = min(once(lambda: np.copyto(target, source)) for _ in range(5))
    best = rates(quick)
    return {
        "python": platform.python_version(),
        "processor": processor.name(processor.facts()),
        "blas": processor.blas_core(),
        "cpus": os.cpu_count(),
        "threads": num_threads(),
        "versions": {package: version_of(package) for package in PACKAGES},
        "gemm_gflops": {dtype: rate / 1e9 for dtype, rate in best.gemm.items()},
        "copy_gbytes": 2 * size / single / 1e9,
        "threaded_copy_gbytes": best.copy / 1e9,
        "date": time.strftime("%Y-%m-%d"),
    }


@cache
def rates(quick: bool = False) -> Rates:
    """The best rates that GEMM and a threaded copy reach, measured once for a run."""
    copy, size = _kept_copy(quick)
    return Rates(
        gemm={dtype: _gemm_rate(dtype, quick) for dtype in DTYPES},
        copy=max(size / once(copy) for _ in range(10)),
    )


def _gemm_rate(dtype: str, quick: bool) -> float:
    """Flops a second."""
    best = 0.0
    for n in (64,) if quick else (1024, 2048):
        product, flops = _product(dtype, n)
        best = max(best, *(flops / once(product) for _ in range(5)))
    return best


class Roof(NamedTuple):
    """A roofline, and the rates that it was computed by."""

    seconds: float
    gemm: float  # flops a second
    copy: float  # bytes a second


def present_roofline(plan: Plan, quick: bool = False) -> Callable[[], Roof] | None:
    """What tells the roofline of a plan by the best rates that GEMM and a copy reach when it is called; None
    for a dtype that has none. What they work on is kept."""
    dtype = plan.dtype.name
    if dtype not in DTYPES:
        return None
    (product, flops), (copy, size) = _kept_product(dtype, 64 if quick else SIDE), _kept_copy(quick)

    def now() -> Roof:
        # the copy first: after a product a thread of BLAS keeps one of its cores for 100 ms
        copied = max(size / once(copy, quick) for _ in range(1 if quick else COPIES))
        gemm = max(flops / once(product, quick) for _ in range(1 if quick else PRODUCTS))
        seconds = roofline(plan, Rates({dtype: gemm}, copied))
        assert seconds is not None
        return Roof(seconds, gemm, copied)

    return now


def _product(dtype: str, n: int) -> tuple[Contender, int]:
    """The product of two matrices of n by n, and its flops."""
    a = np.random.default_rng(0).random((n, n)).astype(dtype)
    out = np.empty_like(a)
    return partial(np.dot, a, a, out=out), flops_per_product(a.dtype.kind) * n**3


_kept_product = cache(_product)


@cache
def _kept_copy(quick: bool) -> tuple[Contender, int]:
    size = 1 << 16 if quick else COPIED
    return threaded_copy(size), size


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


def version_of(package: str) -> str | None:
    """None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None

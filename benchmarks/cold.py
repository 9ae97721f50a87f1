"""A process that contracts one problem once, from its string, by somebody's default settings.

    python -m benchmarks.cold WHO PROBLEM.json REFERENCE.npy

It prints the seconds of that call, and how many more it spent on imports. Nor are the making of operands
and the check of the result counted; planning is. The address space is limited, since some default paths
need 2^33 elements.
"""

from __future__ import annotations

import builtins
import importlib
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from einloom._base.options import num_threads
from einloom.contract.problem_file import read_problem

from . import peers
from .harness import agree

GUARD = 6 << 30  # bytes that a process may map beyond what it has when everything is imported
TOLERANCE = 1e-8


def main(who: str, problem_file: str, reference_file: str) -> int:
    problem = read_problem(problem_file)
    einsum, to_operand = CONTENDERS[who]()
    operands = [to_operand(x) for x in problem.arrays(0)]
    with threadpool_limits(num_threads(), user_api="blas"):
        np.dot(np.ones((64, 64)), np.ones((64, 64)))  # the threads of BLAS start
        _guard_memory()
        with timed_imports() as imports:
            start = time.perf_counter()
            result = einsum(problem.equation, *operands)
            seconds = time.perf_counter() - start
    if not agree(np.asarray(result), np.load(reference_file), TOLERANCE):
        print(f"{who} disagrees with the reference", file=sys.stderr)
        return 1
    print(seconds - sum(imports), sum(imports))
    return 0


@contextmanager
def timed_imports() -> Iterator[list[float]]:
    """The seconds of every import meanwhile; those inside another, or beside it in a thread, not apart."""
    spent: list[float] = []
    depth, start = 0, 0.0
    lock = threading.Lock()

    def timed(load: Callable[..., Any]) -> Callable[..., Any]:
        def loading(*arguments: Any, **keywords: Any) -> Any:
            nonlocal depth, start
            with lock:
                depth += 1
                start = time.perf_counter() if depth == 1 else start
            try:
                return load(*arguments, **keywords)
            finally:
                with lock:
                    depth -= 1
                    if depth == 0:
                        spent.append(time.perf_counter() - start)

        return loading

    with (
        mock.patch.object(builtins, "__import__", timed(builtins.__import__)),
        mock.patch.object(importlib, "import_module", timed(importlib.import_module)),
    ):
        yield spent


def _guard_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + GUARD
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


Contender = tuple[Callable[..., Any], Callable[[Any], Any]]


def _ours() -> Contender:
    import einloom

    return einloom.einsum, np.asarray


def _numpy() -> Contender:
    return lambda *operands: np.einsum(*operands, optimize=True), np.asarray


def _opt_einsum() -> Contender:
    import opt_einsum

    return opt_einsum.contract, np.asarray


def _torch() -> Contender:
    torch = _need(peers.torch(), "torch")
    return torch.einsum, torch.from_numpy


def _cotengra() -> Contender:
    return _need(peers.cotengra(), "cotengra").einsum, np.asarray


def _need(module: Any, name: str) -> Any:
    if module is None:
        raise ImportError(f"{name} is not installed")
    return module


CONTENDERS: dict[str, Callable[[], Contender]] = {
    "einloom": _ours,
    "np.einsum": _numpy,
    "opt_einsum": _opt_einsum,
    "torch.einsum": _torch,
    "cotengra": _cotengra,
}

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""How much memory kernels take beyond their output: what docs/kernels.md states, measured.

Traced are NumPy's and Python's allocations. Lent memory is not, so outputs are given by `out`; nor is the
tile that a compiled kernel allocates for itself, whose size its source bounds.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from einloom._base.options import options
from einloom.backend.catalogue import infer
from einloom.backend.cpu import cpu
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep
from einloom.backend.spec import ArraySpec

THREADS = 2
BLOCK = 1 << 15
N = 1 << 21


def peak(call: Callable[[], Any]) -> int:
    """Bytes allocated at the worst moment of a second call; the first compiles and fills tables."""
    with options(threads=THREADS):
        call()
        tracemalloc.start()
        try:
            call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def spec(x: Any) -> ArraySpec:
    return ArraySpec(x.dtype, x.shape)


SQUARE = np.zeros((2048, 1024))
DEEP = np.zeros((2,) * 21)
CASES: dict[str, tuple[str, dict[str, Any], tuple[Any, ...], int]] = {
    "transposition": ("copy", {}, (SQUARE.T,), 8 << 10),
    "runs": ("copy", {}, (np.zeros((8, 256, 1024)).transpose(1, 0, 2),), 8 << 10),
    "tables": ("copy", {}, (DEEP.transpose(1, 3, 5, 0, *range(6, 20), 2, 4, 20),), 300 << 10),
    "ufunc": ("add", {}, (SQUARE, SQUARE), 8 << 10),
    "several steps": ("divide", {}, (np.ones(N, "i4"), np.ones(N, "i4")), 4 * 8 * BLOCK * THREADS),
    "cast": ("cast", {"dtype": "int8"}, (np.zeros(N),), 4 * 8 * BLOCK * THREADS),
    "sum of rows": ("reduce_sum", {"axes": (1,)}, (SQUARE,), 64 << 10),
    "sum of columns": ("reduce_sum", {"axes": (0,)}, (SQUARE,), 8 * 4096 * THREADS + SQUARE.nbytes // 16),
    "sum of all": ("reduce_sum", {"axes": (0, 1)}, (SQUARE.T,), 64 << 10),
    "argmax": ("argmax", {"axis": 0}, (SQUARE,), 2 * 8 * BLOCK * THREADS),
    "pad": ("pad", {"low": (1, 1), "high": (0, -1), "interior": (0, 0), "value": 0}, (SQUARE,), 8 << 10),
    "concatenate": ("concatenate", {"axis": 0}, (SQUARE, SQUARE), 8 << 10),
    "tril": ("tril", {"k": 0}, (SQUARE,), 8 << 10),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_kernels(name: str) -> None:
    op, attrs, arrays, bound = CASES[name]
    inputs = tuple(map(spec, arrays))
    outputs = infer(op, attrs, inputs)
    kernel, out = (
        cpu().bind(op, attrs, inputs, outputs),
        np.empty(outputs[0].shape, outputs[0].dtype),
    )
    assert peak(lambda: kernel(*arrays, out=out)) <= bound + (16 << 10)  # threads, tables, views


@pytest.mark.parametrize(("op", "bound"), [("sqrt", 8 << 10), ("exp", 3 * (512 << 10) * THREADS)])
def test_chains(op: str, bound: int) -> None:
    x = np.zeros(N)
    steps = (FusionStep("multiply", (0, 1)), FusionStep(op, (2,)), FusionStep("add", (3, 0)))
    kernel = cpu().fuse(ElementwiseFusionPlan((spec(x), spec(x)), steps, (4,)))
    assert kernel is not None
    out = np.empty(N)
    assert peak(lambda: kernel(x, x, out=out)) <= bound + (16 << 10)

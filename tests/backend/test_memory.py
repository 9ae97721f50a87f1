"""How much memory kernels take beyond their output: what docs/kernels.md states, measured.

Traced are NumPy's and Python's allocations, among them what is otherwise lent; not the tile that a
compiled kernel allocates for itself, whose size its source bounds. Outputs are given by `out`.
"""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from einloom._base.options import options
from einloom.backend.catalogue import infer
from einloom.backend.cpu import buffers, cpu, elementwise, matrices
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep
from einloom.backend.spec import ArraySpec, dtype_from_name

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


@pytest.fixture(autouse=True)
def nothing_is_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lent memory is mapped, which no tracer sees; so NumPy allocates."""
    for module in (buffers, matrices):
        monkeypatch.setattr(module, "LENT", 1 << 62)
    monkeypatch.setattr(elementwise, "LARGE", 1 << 62)


def test_partial_results_are_traced() -> None:
    x = np.zeros((1 << 14, 128))
    assert peak(lambda: buffers.empty(x.shape, x.dtype)) >= x.nbytes


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
    "normal exponent": ("normal_exponent", {}, (SQUARE.T,), 2 * 8 * BLOCK * THREADS),
    "normal exponent, complex": ("normal_exponent", {}, (SQUARE.view("c16"),), 8 * BLOCK * THREADS),
    "ldexp": ("ldexp", {}, (SQUARE, np.array(3)), 8 << 10),
    "ldexp, halves": ("ldexp", {}, (np.zeros(N, "f2"), np.array(3)), 4 * 8 * BLOCK * THREADS),
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


# ---- reductions ---------------------------------------------------------------------------------

LAYOUTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    # shape in memory, permutation, axes that are reduced
    "first": ((2048, 1024), (0, 1), (0,)),
    "last": ((2048, 1024), (0, 1), (1,)),
    "middle": ((64, 256, 128), (0, 1, 2), (1,)),
    "first and last": ((64, 256, 128), (0, 1, 2), (0, 2)),
    "transposed, first": ((2048, 1024), (1, 0), (0,)),
    "transposed, last": ((2048, 1024), (1, 0), (1,)),
    "permuted": ((64, 256, 128), (2, 0, 1), (0, 2)),
    "short last": ((1 << 18, 8), (0, 1), (1,)),
    "short first": ((8, 1 << 18), (0, 1), (0,)),
    "beside a short one": ((1 << 19, 4), (0, 1), (0,)),
    "all": ((2048, 1024), (0, 1), (0, 1)),
    "all of a permuted one": ((64, 256, 128), (2, 0, 1), (0, 1, 2)),
}
HALF = ("float16", "bfloat16")


def excess(op: str, x: Any, axes: tuple[int, ...]) -> int:
    """Bytes taken beyond what `scratch_bytes` states, and beyond threads, tables and views."""
    attrs: dict[str, Any] = {"axes": axes}
    if op in ("reduce_max", "reduce_min"):
        attrs["initial"] = None
    inputs = (spec(x),)
    outputs = infer(op, attrs, inputs)
    kernel = cpu().bind(op, attrs, inputs, outputs)
    out = np.empty(outputs[0].shape, outputs[0].dtype)
    with options(threads=THREADS):
        stated = cpu().scratch_bytes(op, attrs, inputs)
    return peak(lambda: kernel(x, out=out)) - stated - (16 << 10)


def zeros(name: str, layout: str, start: int = 0) -> tuple[Any, tuple[int, ...]]:
    """An operand that starts at this byte of its memory, and the axes to reduce."""
    dtype = dtype_from_name(name)
    if dtype.kind == "V":
        pytest.importorskip("ml_dtypes")
    shape, perm, axes = LAYOUTS[layout]
    memory = np.zeros(math.prod(shape) * dtype.itemsize + start, np.uint8)[start:]
    return memory.view(dtype).reshape(shape).transpose(perm), axes


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "name",
    [
        *("float64", "float16"),
        *(
            pytest.param(x, marks=pytest.mark.slow)
            for x in ("float32", "int32", "complex64", "bfloat16")
        ),
    ],
)
def test_reductions(name: str, layout: str) -> None:
    x, axes = zeros(name, layout)
    ops = ("reduce_sum", "reduce_mean", "reduce_max") if name == "float64" else ("reduce_sum",)
    for op in ops:
        assert excess(op, x, axes) <= 0, op


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "name",
    ["float64", "float32", "complex64", *HALF],
)
def test_reductions_at_odd_addresses(name: str, layout: str) -> None:
    """Operands that no kernel can load are not copied whole."""
    x, axes = zeros(name, layout, start=1)
    assert not x.flags.aligned
    assert excess("reduce_sum", x, axes) <= 0


# ---- indexing: previously failed ----------------------------------------------------------------

INDICES = np.arange(N // 4)
ALONG: dict[str, Any] = {"axis": 0, "mode": "add", "unique_indices": False}
GATHER: dict[str, Any] = {
    "offset_dims": (), "collapsed_slice_dims": (0,), "start_index_map": (0,), "index_vector_dim": 1,
    "slice_sizes": (1,),
}  # fmt: skip
FOLD: dict[str, Any] = {
    "sizes": (N // 4,), "kernel": (1,), "strides": (1,), "dilation": (1,), "low": (0,), "high": (0,)
}  # fmt: skip
SCATTER: dict[str, Any] = {
    "update_window_dims": (1, 2), "inserted_window_dims": (), "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}  # fmt: skip


def unaligned(x: Any) -> Any:
    """x one byte behind where it might lie."""
    memory = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    memory[...] = x
    return memory


def indexing_excess(op: str, attrs: dict[str, Any], *arrays: Any) -> int:
    """Bytes taken beyond what is stated, and beyond threads, buffers of NumPy and views."""
    inputs = tuple(map(spec, arrays))
    outputs = infer(op, attrs, inputs)
    kernel = cpu().bind(op, attrs, inputs, outputs)
    out = np.empty(outputs[0].shape, outputs[0].dtype)
    with options(threads=THREADS):
        stated = cpu().scratch_bytes(op, attrs, inputs, outputs)
    return peak(lambda: kernel(*arrays, out=out)) - stated - (256 << 10)


LINE = unaligned(np.ones(N // 4))
UNALIGNED: dict[str, tuple[str, dict[str, Any], tuple[Any, ...]]] = {
    "take": ("take", {"axis": 0}, (LINE, INDICES)),
    "take_along_axis": ("take_along_axis", {"axis": 0}, (LINE, INDICES)),
    "gather": ("gather", GATHER, (LINE, INDICES[:, None])),
    "gather, indices": ("gather", GATHER, (np.ones(N // 4), unaligned(INDICES[:, None]))),
    "set": ("scatter_along_axis", {**ALONG, "mode": "set"}, (LINE, INDICES, LINE)),
    "add": ("scatter_along_axis", ALONG, (LINE, INDICES, LINE)),
    "fold": ("fold", FOLD, (LINE[None],)),
    "runs of a window": (
        "scatter", SCATTER,
        (np.zeros((N // 4, 2)), np.zeros((1, 1), int), np.ones((1, 2, N // 4)).transpose(0, 2, 1)),
    ),
    "a large window": (
        "scatter", SCATTER,
        (unaligned(np.zeros((N // 4, 2))), np.zeros((1, 1), int), np.ones((1, N // 4, 2))),
    ),
    "many windows": (
        "scatter", SCATTER,
        (unaligned(np.zeros((N // 16, 4))), INDICES[: N // 16, None], np.ones((N // 16, 1, 4))),
    ),
    "indices at odd places": ("take", {"axis": 0}, (np.ones(N // 4), unaligned(INDICES))),
    "narrow indices": ("take", {"axis": 0}, (np.ones(N // 4), np.zeros(N // 4, "i2"))),
}  # fmt: skip


@pytest.mark.parametrize("name", UNALIGNED)
@pytest.mark.parametrize("small", [0, np.inf])
def test_indexing_of_any_layout(name: str, small: float) -> None:
    op, attrs, arrays = UNALIGNED[name]
    with options(small=small):
        assert indexing_excess(op, attrs, *arrays) <= 0


@pytest.mark.parametrize("name", ["take", "take_along_axis", "set", "add", "many windows"])
def test_indexing_states_no_copies(name: str) -> None:
    """What is stated does not grow with the arrays."""
    op, attrs, arrays = UNALIGNED[name]
    inputs = tuple(map(spec, arrays))
    stated = cpu().scratch_bytes(op, attrs, inputs, infer(op, attrs, inputs))
    assert stated <= 4 << 20

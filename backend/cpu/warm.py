"""Compiling ahead: after `warmup()` the first large call waits for no compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..._base.options import options
from ..._base.progress import Progress
from ..catalogue import Attrs
from ..dtypes import real_of
from ..fusion import ProductFusionPlan, ProductStep
from ..spec import ArraySpec, dtype_from_name
from .backend import CpuBackend, cpu
from .dealing import LONG, MANY
from .draws import NORMAL, UNIFORM, fill
from .lanes import DTYPES as LANES

COMMON = ("float32", "float64", "complex64", "complex128")
_REDUCTIONS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean")
_SHAPES = (  # each once with a result in the accumulator's dtype and, but for all axes, one in its own
    ((64,), (0,)),  # all axes, the last
    ((64, 16), (1,)),
    ((64, 64), (0,)),  # the first and middle ones: near rows
    ((8, 64), (0,)),
    ((64, 4096), (0,)),  # far ones
    ((8, 4096), (0,)),
    ((64, 8), (1,)),  # a short last one
)


def warmup(dtypes: str | Iterable[Any] = COMMON) -> int:
    """Compile the kernels of moves, contractions, reductions, transforms, draws, indexing, orders, scans and
    windows; returns how many calls.

    What is compiled stays in the user's cache folder, so that later processes only load it. Chains of
    elementwise ops are compiled when a plan of them first runs. A progress line is drawn as for all
    long work (see `options(progress=)`). Half a minute to a minute for a dtype; a fraction of a second
    where the folder has its kernels already.

    Args:
        dtypes: a name or several names or NumPy dtypes; those that compiled kernels do not compute
            with are moved only.

    >>> from einloom import warmup
    >>> warmup(["longdouble"]) > 0
    True
    """
    if isinstance(dtypes, str):
        dtypes = (dtypes,)
    names = [dtype_from_name(name) if isinstance(name, str) else np.dtype(name) for name in dtypes]
    calls = [call for dtype in names for call in _calls(cpu(), dtype)]
    with options(small=0, threads=1), Progress("compiling kernels", len(calls), 0.0) as progress:
        for call in calls:
            call()
            progress.advance()
    return len(calls)


def _calls(backend: CpuBackend, dtype: np.dtype[Any]) -> Iterator[Callable[[], Any]]:
    """Small calls that between them reach each kernel in each form that depends on strides."""
    square = np.ones((64, 64), dtype)
    for x in (square.T, square[:, :48], square[:, ::-1]):  # transposition, runs, tables
        yield lambda x=x: backend.apply("copy", {}, x)  # type: ignore[misc]
    supported = backend.capabilities()
    matrices = np.ones((64, 4, 4), dtype)
    batch = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}
    one = {"contracting": ((1,), (0,)), "batch": ((), ())}
    outer = {"contracting": ((), ()), "batch": ((), ())}
    large = np.ones((128, 128), dtype)
    if dtype.name in supported["dot_general"]:
        yield lambda: backend.apply("dot_general", batch, matrices, matrices)  # in a loop nest
        yield lambda: _in_lines(backend, matrices)
        for engine in ("blocked", "strips"):
            yield lambda engine=engine: _by(engine, backend, one, large)  # type: ignore[misc]
        vector = np.ones(256, dtype)
        yield lambda: backend.apply("dot_general", outer, vector, vector)
    if dtype.char in LANES:
        rows = {"contracting": ((1,), (1,)), "batch": ((0,), (0,))}
        yield lambda: backend.apply("dot_general", rows, large, large)
        # complex numbers take the kernel of real ones
        real = matrices.real.astype(real_of(dtype))
        spec = ArraySpec(real.dtype, real.shape)
        step = ProductStep((0, 1), (0, 1, 3))
        terms = (0, 1, 2), (0, 2, 3)
        plan = ProductFusionPlan((spec, spec), terms, (step,), step.labels, (0,), spec)
        yield lambda: _fused("lanes", backend, plan, real)
        ones = ArraySpec(dtype, large.shape)
        step = ProductStep((0, 1), (0, 2))
        turns = ProductFusionPlan((ones, ones), ((0, 1), (1, 2)), (step,), step.labels, (), ones)
        yield lambda: _fused("sequence", backend, turns, large)
    if dtype.char in "FD":  # transforms of real lines take the same kernel
        yield lambda: backend.apply("fft", {"axes": (0,)}, np.ones((128, 256), dtype))
    if dtype.name in NORMAL:
        yield lambda: fill(UNIFORM[dtype.name], (0, 0), np.empty(64, dtype))
        yield lambda: fill(NORMAL[dtype.name], (0, 0), np.empty(64, dtype))
    for op, attrs, operands in indexing_calls(dtype):
        if dtype.name in supported[op]:
            yield partial(backend.apply, op, attrs, *operands)
    for op in _REDUCTIONS:
        if dtype.name not in supported[op]:
            continue
        for shape, axes in _SHAPES:
            x = np.ones(shape, dtype)
            attrs = {"axes": axes}
            if op in ("reduce_max", "reduce_min"):
                attrs["initial"] = None
            yield lambda op=op, attrs=attrs, x=x: backend.apply(op, attrs, x)  # type: ignore[misc]


def indexing_calls(dtype: np.dtype[Any]) -> Iterator[tuple[str, Attrs, tuple[Any, ...]]]:
    """Calls that reach the kernels of gathers, scatters, orders, scans, windows and words."""
    x, places = np.ones((8, 8), dtype), np.zeros((8, 8), np.int64)
    along: Attrs = {"axis": 0}
    yield "take", along, (x, places)
    rows = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    yield "scatter", rows, (x, places[:, :1], x)
    long = np.ones(LONG // dtype.itemsize, dtype)
    many = max(MANY, len(long) // 8)
    anywhere = (
        np.arange(many) * (len(long) // 2 - 1) % len(long)
    )  # no two in a row are near each other
    for mode in ("set", "add"):
        attrs = {**along, "mode": mode, "unique_indices": False}
        yield "scatter_along_axis", attrs, (x, places, x)
        yield "scatter_along_axis", attrs, (long, anywhere, long[:many])
    for kind in ("sum", "prod", "max") if dtype.kind != "c" else ("sum", "prod"):
        yield "associative_scan", {**along, "kind": kind}, (x,)
    yield "argsort", {**along, "descending": False}, (x,)
    window = {"kernel": (3,), "strides": (1,), "dilation": (1,), "low": (1,), "high": (1,)}
    yield "unfold", window, (x,)
    yield "fold", {"sizes": (8,), **window}, (np.ones((8, 3, 8), dtype),)
    if dtype.itemsize == 4 and dtype.kind in "iu":
        pairs = x.reshape(-1, 2)
        yield "threefry2x32", {}, (pairs, pairs)
        yield "threefry2x32", {}, (np.broadcast_to(pairs[0], pairs.shape), pairs)


def _fused(engine: str, backend: CpuBackend, plan: ProductFusionPlan, x: Any) -> None:
    with options(engine=engine):
        kernel = backend.fuse(plan)
    assert kernel is not None
    kernel(x, x)


def _in_lines(backend: CpuBackend, matrices: Any) -> Any:
    """Products whose batches lie last in all arrays, in a loop nest."""
    last = np.ascontiguousarray(matrices.T)
    attrs = {"contracting": ((1,), (0,)), "batch": ((2,), (2,))}
    spec = ArraySpec(last.dtype, last.shape)
    with options(engine="loops"):
        result = ArraySpec(last.dtype, matrices.shape, (1, 2, 0))
        return backend.bind("dot_general", attrs, (spec, spec), (result,))(last, last)


def _by(engine: str, backend: CpuBackend, attrs: Attrs, x: Any) -> Any:
    with options(engine=engine):
        return backend.apply("dot_general", attrs, x, x)

"""Measuring the cost model of this machine: products, by BLAS and by our kernels, streams and moves.

Rates are the best of several runs; the edges, which say how much of the rate small matrices reach, are
fitted to products of many shapes by least squares of logarithms. What is not measured is as shipped. Whether
contractions are sooner by what was measured is another question: contract/tuning.py tries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._base.options import num_threads
from ..blocked import MEASURED as SIDE
from ..catalogue import Attrs, DotDims, dot_dims
from ..cost_model import CostModel, shipped
from ..protocol import Kernel
from ..spec import ArraySpec
from .blocked import bind_blocked
from .matrices import bind_matrices
from .move import move
from .strips import bind_strips

FEW = (4, 8, 16, 48)  # rows, columns or contracted elements of narrow matrices
WIDE = 384  # of the other two
STRIPS = 1000
"""Rows, columns and contracted elements of the product in strips: rows at a power of two would share few
sets of the caches, and count for all sizes."""
BATCH = 32  # matrices that are shared out

Shape3 = tuple[int, int, int]
Bind = Callable[[DotDims, tuple[ArraySpec, ArraySpec], ArraySpec], Kernel]


def measured() -> CostModel:
    """The shipped model with what was measured of this machine in place of what is measured of any; some
    seconds."""
    products = SIDE**3 / _seconds_of_product((SIDE, SIDE, SIDE), 1)
    stream = 2 * 8 * 4096**2 / _seconds_of_product((4096, 4096, 8), 1)
    model = shipped()._replace(
        products=products, stream=stream, moves=_rate_of_moves(), threads=num_threads()
    )
    model = model._replace(
        strips=STRIPS**3 / _seconds_in_strips() / products,
        blocks=SIDE**3 / _seconds_in_blocks() / products,
        blocks_single=_seconds_of_product((SIDE, SIDE, SIDE), 1, "f4") / _seconds_in_blocks("f4"),
    )
    shapes = _narrow()
    return model._replace(
        edges=_edges(products, [(x, _seconds_of_product(x, BATCH) / BATCH) for x in shapes]),
        threaded=_edges(products, [(x, _seconds_of_product(x, 1)) for x in shapes]),
    )


def _narrow() -> list[Shape3]:
    """Rows, columns and contracted elements: matrices that are narrow on one side, and one that is not."""
    found: list[Shape3] = [(WIDE, WIDE, WIDE)]
    for few in FEW:
        found += [(few, WIDE, WIDE), (WIDE, few, WIDE), (WIDE, WIDE, few)]
    return found


def _seconds_of_product(shape: Shape3, batch: int, dtype: str = "f8") -> float:
    """Of the products of a batch, as the CPU backend makes them; a narrow result has short rows."""
    return _seconds_by(bind_matrices, shape, batch, dtype)


def _seconds_in_strips() -> float:
    """Of a product of large matrices, by our own kernel."""
    return _seconds_by(bind_strips, (STRIPS, STRIPS, STRIPS))


def _seconds_in_blocks(dtype: str = "f8") -> float:
    """The same by the one that packs both operands."""
    return _seconds_by(
        lambda dims, _, out: bind_blocked(dims, out), (SIDE, SIDE, SIDE), dtype=dtype
    )


def _seconds_by(bind: Bind, shape: Shape3, batch: int = 1, dtype: str = "f8") -> float:
    m, n, k = shape
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.random((batch, *x)).astype(dtype) for x in ((m, k), (k, n)))
    axes: Attrs = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}
    if batch == 1:
        lhs, rhs = lhs[0], rhs[0]
        axes = {"contracting": ((1,), (0,)), "batch": ((), ())}
    dims = dot_dims(axes, lhs.shape, rhs.shape)
    specs = (ArraySpec(lhs.dtype, lhs.shape), ArraySpec(rhs.dtype, rhs.shape))
    out = np.empty((batch, m, n) if batch > 1 else (m, n), dtype)
    kernel = bind(dims, specs, ArraySpec(out.dtype, out.shape))
    return _best(lambda: kernel(lhs, rhs, out=out))


def _rate_of_moves() -> float:
    """Bytes a second of arrays whose axes are reversed; of powers of two, whose lines exclude each other from
    the caches, it may be a quarter of that."""
    source = np.random.default_rng(0).random((60, 60, 60, 20))
    target = np.empty(source.shape[::-1])
    return source.nbytes / _best(lambda: move(target, source.transpose(3, 2, 1, 0)))


def _edges(rate: float, measured: Sequence[tuple[Shape3, float]]) -> tuple[int, int, int]:
    """a, b, c of rate * m/(m + a) * n/(n + b) * k/(k + c), by least squares of logarithms."""
    from scipy.optimize import least_squares

    sizes = np.array([shape for shape, _ in measured], float)
    reached = np.array([np.prod(shape) / seconds for shape, seconds in measured]) / rate

    def differences(x: Any) -> Any:
        return np.log(sizes / (sizes + np.exp(x))).sum(axis=1) - np.log(reached)

    found = least_squares(differences, np.log([8.0, 8.0, 4.0]), loss="soft_l1", f_scale=0.2)
    a, b, c = (int(np.clip(round(float(np.exp(x))), 1, 256)) for x in found.x)
    return a, b, c


def _best(call: Callable[[], Any], rounds: int = 7) -> float:
    """Least seconds of a call, after one that warms up; short calls are repeated."""
    call()
    best = float("inf")
    for _ in range(rounds):
        start, count = time.perf_counter(), 0
        while count == 0 or time.perf_counter() - start < 2e-3:
            call()
            count += 1
        best = min(best, (time.perf_counter() - start) / count)
    return best

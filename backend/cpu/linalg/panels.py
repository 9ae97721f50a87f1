"""Runs kernels of many small matrices: which element of which array goes to which vector of scratch.

A panel is as many matrices as a cache line has real numbers. Arrays may have any strides; tables that depend
on shapes and strides alone are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...._base.caches import Cache
from ...cost_model import FAR
from ...dtypes import real_of
from ..buffers import empty
from ..kernels.vectors import LINE
from ..lanes import aligned, offset_table, squares_of
from ..strided import axis_table, merge_axes, readable
from ..threads import Run
from .turns import in_turns

Array = np.ndarray[Any, Any]
AHEAD = 2  # panels between the one that is read and the one that is fetched
APART = 2  # cache lines between matrices, for that: what is nearer the machine foresees
LEAST = 4  # panels that one call of a kernel takes, where there are more


class Port(NamedTuple):
    """An array and the vectors of scratch where its elements are: `origin` + index @ `steps`, the index
    being that of its last axes, as many as there are steps. There are a scratch of matrices and one of
    real numbers."""

    array: Array
    steps: tuple[int, ...]
    origin: int = 0
    in_reals: bool = False


def run_panels(
    kernel: Callable[..., None],
    ports: Sequence[Port],
    sizes: Sequence[int],
    vectors: int,
    reals: int,
    dtype: np.dtype[Any],
    *results: Array,
) -> None:
    """Call the kernel for all panels, on all threads.

    Args:
        kernel: one of kernels/linalg.
        ports: the arrays, with one shape of batch.
        sizes: what the kernel is told behind the width.
        vectors: of elements of `dtype` in scratch.
        reals: vectors of real numbers besides, one at least.
        dtype: of the matrices.
        results: further arguments of the kernel, indexed by the number of the matrix.
    """
    real = real_of(dtype)
    ports = [port._replace(array=readable(port.array)) for port in ports]
    batch = ports[0].array.shape[: ports[0].array.ndim - len(ports[0].steps)]
    count = int(np.prod(batch, dtype=np.int64))
    if count == 0:
        return
    key = tuple(
        (port.array.shape, port.array.strides, port.array.dtype.char, *port[1:]) for port in ports
    )
    parts = dtype.itemsize // real.itemsize
    width = LINE // real.itemsize
    outer, places, table = _TABLES.get_or(
        (key, vectors, reals),
        lambda: _tables(ports, batch, width, (vectors * parts, reals), real.itemsize),
    )
    table = table.copy()
    table[:, 0] = [x.__array_interface__["data"][0] for x, *_ in ports]
    table[:, 4] &= table[:, 0] % LINE == 0
    numbers = np.array((width, *sizes), np.int64)
    limits = _limits(real)

    def begin() -> Run:
        flat = aligned((vectors + 1) * parts * width, real)  # one more: what nobody asked for
        scratch = flat.view(dtype), flat, aligned((reals + 1) * width, real)

        def run(start: int, stop: int) -> None:
            kernel(start, stop, table, outer, places, numbers, limits, *scratch, *results)

        return run

    in_turns(begin, -(-count // width), LEAST)


_TABLES: Cache[tuple[Array, Array, Array]] = Cache("panels of matrices", 256)


def _tables(
    ports: Sequence[Port], batch: tuple[int, ...], width: int, spare: tuple[int, int], size: int
) -> tuple[Array, Array, Array]:
    """`spare`: the vectors of real numbers that nobody asked for, of either scratch."""
    strides = [tuple(stride // size for stride in port.array.strides) for port in ports]
    axes = merge_axes([(n, *(of[axis] for of in strides)) for axis, n in enumerate(batch)]) or [
        (1, *(0 for _ in ports))
    ]
    table: list[tuple[int, ...]] = []
    places: list[Array] = []
    at = 0
    for port, of in zip(ports, strides, strict=True):
        parts = port.array.itemsize // size
        shape = port.array.shape[len(batch) :]
        inner = of[len(batch) :]
        within = np.arange(parts)
        offsets = offset_table(list(zip(shape, inner, strict=True)))[:, None] + within
        rows = port.origin + offset_table(list(zip(shape, port.steps, strict=True)))
        rows = (rows[:, None] * parts + within) * width
        nowhere = spare[port.in_reals] * width
        squares = squares_of(offsets.ravel(), rows.ravel(), width, nowhere) if rows.size else ()
        is_far = port.array.nbytes > FAR
        step = axes[-1][1 + len(table)]
        ahead = AHEAD * width * step if is_far and abs(step) >= APART * width else 0
        streams = is_far and all(used == width and base % width == 0 for base, used, *_ in squares)
        streams = streams and all(axis[1 + len(table)] % width == 0 for axis in axes)
        table.append((0, at, len(squares), ahead, streams))
        places.append(np.ravel(squares).astype(np.int64))
        at += len(squares) * (2 + width)
    return axis_table(axes, len(ports)), np.concatenate(places), np.array(table, np.int64)


@cache
def _limits(real: np.dtype[Any]) -> Array:
    """What gauss.py says, then for jacobi.py the exponent that columns are scaled to, and the smallest
    square of a column."""
    info = np.finfo(real)
    lift = info.nmant + 12
    top = info.maxexp - 2
    high = info.maxexp // 4 - 4
    floor = np.sqrt(float(info.tiny)) / float(info.eps)
    return np.array([info.eps, info.tiny, info.max, 2.0**lift, lift, top, high, floor], real)


def made(shape: tuple[int, ...], dtype: Any) -> Array:
    """A new array, of memory that was used before where it is large."""
    return empty(shape, np.dtype(dtype))

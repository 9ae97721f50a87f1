"""Which threads products of matrices run on.

BLAS has threads of its own, and so have we. A thread of BLAS that is done looks for more work for some 100 ms
(2²⁸ ticks of the processor's clock), and whoever else needs its core then has half of it. So a program has
one pool at work: BLAS's, where large products are all that it shares among threads; else ours, and BLAS
computes on one thread of each. What is shared how depends on shapes, dtypes and the number of threads alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from ..._base.options import get_options, num_threads
from ..cost_model import ENOUGH, LONG, SHARED, THREADED, WIDE
from ..processor import is_openblas
from ..spec import Axes, Shape
from .blas import ONE_BLAS_THREAD
from .blas_batch import TOO_SMALL, multiply_batch
from .buffers import empty
from .quiet import fill, quietly
from .threads import has_begun, parallel_for

BLAS = frozenset("fdFD")
IS_OPENBLAS = is_openblas()  # known before the first call, of which to ask takes 8 µs
STREAMED = 8 << 20  # bytes of operands and result from which several threads read more a second
# multiplications of real numbers, in one product, from which our threads gain more than their start takes
SPLIT = 1 << 22
VECTOR = 9216  # the same of a matrix and a vector, from which BLAS uses its threads
LINES = 16  # neighbouring rows or columns that one thread has
MOST_PARTS = 1024  # that are given out one by one
WORTH_A_CALL = (
    1 << 17
)  # multiplications of such a part, at least: Python takes as long as for some ten thousand
LARGE = 64 << 20  # bytes of a matrix and a vector from which memory decides, not who begins first
HELD = 500  # elements of a result for which np.matmul keeps the interpreter's lock
HELD_LONG = 1 << 17  # multiplications of which that matters: some ten microseconds
PIECE = 16  # terms of a piece of a sum, at least

BEGUN = 1 << 24  # multiplications up to which it takes longer to begin a thread than it saves

Way = Literal["plain", "one thread", "loops", "rows", "columns", "contracted"]
"""
plain       numpy.matmul as it is: small products, or large ones that BLAS shares among its threads
one thread  the same, with one thread of BLAS
loops       our threads share the matrices of a batch
rows        our threads share the rows of each result; columns likewise
contracted  our threads share long sums, of which a small result is the total
"""


def way_of(
    loops: Shape,
    matrices: tuple[int, int, int],
    nbytes: int,
    dtype: np.dtype[Any],
    own_threads: bool,
) -> Way:
    """How prod(loops) products [m, k] x [k, n] of so many bytes in all are shared; with `own_threads`, BLAS
    uses none of its own."""
    m, n, k = matrices
    one, calls = m * n * k, math.prod(loops)
    forced = get_options().small == 0
    if dtype.char not in BLAS:
        return "plain"
    real = one * (1 if dtype.kind == "f" else 4)  # multiplications of real numbers
    enough = calls * one >= (1 if forced else ENOUGH) or nbytes >= STREAMED
    if calls >= WIDE and enough and one < SHARED:
        return "loops"
    is_vector = min(m, n) == 1
    # our threads begin later than BLAS's, by a tenth of a millisecond
    is_soon_done = is_vector and not own_threads and nbytes < LARGE
    if real >= SPLIT and k >= LONG * (m + n) and not is_soon_done:
        return "contracted"
    if not own_threads or (one < (VECTOR if is_vector else threaded_from(dtype)) and not forced):
        return "plain"
    if forced or calls * real >= SPLIT or (is_vector and nbytes >= STREAMED):
        return "rows" if m >= n else "columns"
    return "one thread"


def multiply(left: Any, right: Any, product: Any, way: Way) -> Any:
    """product[..., i, j] = sum_k left[..., i, k] * right[..., k, j], of arrays whose matrices BLAS can read;
    `product` is filled and returned."""
    if way == "loops":
        _over_loops(left, right, product)
    elif way == "rows" or way == "columns":
        _over_lines(left, right, product, way == "rows")
    elif way == "contracted":
        _over_contracted(left, right, product)
    elif way == "one thread":
        with ONE_BLAS_THREAD:
            _matmul(left, right, product)
    else:
        _matmul(left, right, product)
    return product


def multiply_once(left: Any, right: Any, product: Any, way: Way) -> Any:
    """The same, to the same bits, for a first call: threads that have not begun would begin too late for few
    small matrices."""
    *loops, m, n = product.shape
    # long sums of few elements are made in pieces
    if way != "loops" or has_begun() or m * n <= HELD:
        return multiply(left, right, product, way)
    one = m * n * left.shape[-1]
    if one > TOO_SMALL and len(loops) == 1 and multiply_batch(left, right, product):
        return product
    if math.prod(loops) * one <= BEGUN:
        if not may_be_shared(left, right):  # numbers alone: objects are no BLAS's
            quietly(np.matmul, left, right, out=product)
            return product
        way = "one thread"
    return multiply(left, right, product, way)


def shared_bytes(
    way: Way, loops: int, matrices: tuple[int, int, int], itemsize: int, threads: int
) -> int:
    """Upper bound of what `multiply` allocates: totals of threads, and sums of pieces of each, where a thread
    may have so few elements."""
    m, n, k = matrices
    if way in ("plain", "one thread"):
        return 0
    size = loops * m * n
    totals = (threads - 1) * size * itemsize if way == "contracted" else 0
    lines = LINES * max(0, -(-max(m, n) // LINES) // threads - 1)  # that each thread has, at least
    least = {"contracted": size, "loops": m * n}.get(way, loops * min(m, n) * lines)
    if least > HELD or HELD * k < HELD_LONG:
        return totals
    return totals + threads * 4 * HELD * itemsize


def _matmul(left: Any, right: Any, product: Any) -> None:
    fill(np.matmul, left, right, product)


def _matmul_beside(left: Any, right: Any, product: Any, least: int = 0) -> None:
    """The same beside other threads. np.matmul keeps the interpreter's lock where its results have few
    elements, however long their sums are: these are computed in so many pieces that it gives it up. `least`
    is the size of the smallest of several results whose sums are all to have pieces of the same length."""
    least, k = least or max(1, product.size), left.shape[-1]
    pieces = HELD // least + 1
    length = k // pieces
    if pieces == 1 or length < PIECE or least * k < HELD_LONG:
        _matmul(left, right, product)
        return
    *loops, m, n = product.shape
    cut = pieces * length
    lefts = left[..., :cut].reshape(*left.shape[:-1], pieces, length)
    rights = right[..., :cut, :].reshape(*right.shape[:-2], pieces, length, n)
    sums = empty((*loops, pieces, m, n), product.dtype)
    _matmul(np.swapaxes(lefts, -3, -2), rights, sums)
    if cut < k:
        _matmul(left[..., cut:], right[..., cut:, :], product)
        quietly(np.add, sums[..., 0, :, :], product, out=sums[..., 0, :, :])
    quietly(np.add.reduce, sums, axis=-3, out=product)


def _over_lines(left: Any, right: Any, product: Any, by_rows: bool) -> None:
    def piece(start: int, stop: int) -> None:
        part = slice(start * LINES, stop * LINES)
        if by_rows:
            _matmul_beside(left[..., part, :], right, product[..., part, :])
        else:
            _matmul_beside(left, right[..., part], product[..., part])

    with ONE_BLAS_THREAD:
        parallel_for(piece, -(-product.shape[-2 if by_rows else -1] // LINES))


def _over_contracted(left: Any, right: Any, product: Any) -> None:
    k = left.shape[-1]
    parts = min(num_threads(), k)
    bounds = [k * part // parts for part in range(parts + 1)]
    sums = [product, *(empty(product.shape, product.dtype) for _ in range(parts - 1))]
    tasks = [(slice(*ends), total) for ends, total in zip(pairwise(bounds), sums, strict=True)]

    def piece(start: int, stop: int) -> None:
        for part, total in tasks[start:stop]:
            _matmul_beside(left[..., part], right[..., part, :], total)

    with ONE_BLAS_THREAD:
        parallel_for(piece, parts)
    with np.errstate(all="ignore"):
        for total in sums[1:]:
            np.add(product, total, out=product)


def _over_loops(left: Any, right: Any, product: Any) -> None:
    loops: Shape = product.shape[:-2]
    work = product.size * left.shape[-1]
    axes = _shared_axes(left.shape, right.shape, loops, work)
    places = math.prod(loops[axis] for axis in axes)
    together = places // min(places, num_threads()) if len(axes) == 1 else 1
    least = product.size // places * together

    def piece(start: int, stop: int) -> None:
        for at in _parts(loops, axes, start, stop):
            a, b = (
                x[tuple(k if n > 1 else slice(None) for k, n in zip(at, x.shape, strict=False))]
                for x in (left, right)
            )
            _matmul_beside(a, b, product[at], least)

    with ONE_BLAS_THREAD if may_be_shared(left, right) else nullcontext():
        parallel_for(piece, places)


def threaded_from(dtype: np.dtype[Any]) -> int:
    """Multiplications of one product from which BLAS may use its threads."""
    return THREADED if dtype.char in "fd" else THREADED // 8


def may_be_shared(left: Any, right: Any) -> bool:
    """Whether BLAS may use its threads for single matrices of these. That of wheels for x86-64 does so for
    real ones from a number of multiplications on (65536 * GEMM_MULTITHREAD_THRESHOLD), for complex ones from
    an eighth of it, and sooner for a matrix times a vector or its own transpose."""
    (m, k), n = left.shape[-2:], right.shape[-1]
    most = threaded_from(left.dtype)
    is_small = IS_OPENBLAS and min(m, n) > 1 and m * n * k <= most
    # NumPy takes a matrix for another's transpose if it begins where that does and its strides are that one's
    # the other way round
    if is_small and (k == 1 or left.strides[-2:] == right.strides[:-3:-1]):
        is_small = not np.may_share_memory(left, right)
    return not is_small


def _shared_axes(left: Shape, right: Shape, loops: Shape, work: int) -> Axes:
    """Loops that are shared out: those of the operand with the larger matrices, each of which is then
    read once for all products that need it; if these are too few or too many, or so little is to be done for
    each that Python takes longer, the longest or the first."""
    larger = right if right[-1] >= left[-2] else left
    axes = tuple(axis for axis, n in enumerate(larger[:-2]) if n > 1)
    places = math.prod(loops[axis] for axis in axes)
    is_worth_it = work >= places * WORTH_A_CALL or max(loops) < num_threads()
    if len(axes) > 1 and WIDE <= places <= MOST_PARTS and is_worth_it:
        return axes
    if max(loops) >= WIDE:
        return (max(range(len(loops)), key=loops.__getitem__),)
    return next(tuple(range(d)) for d in range(len(loops) + 1) if math.prod(loops[:d]) >= WIDE)


def _parts(loops: Shape, axes: Axes, start: int, stop: int) -> Iterator[tuple[slice, ...]]:
    """Slices of all loops for positions start..stop along one axis, or one by one along several."""
    whole = [slice(None)] * len(loops)
    if len(axes) == 1:
        whole[axes[0]] = slice(start, stop)
        yield tuple(whole)
        return
    for position in range(start, stop):
        for axis in reversed(axes):
            position, k = divmod(position, loops[axis])
            whole[axis] = slice(k, k + 1)
        yield tuple(whole)

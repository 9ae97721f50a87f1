"""Two small arrays with the same axes, multiplied element by element and added up along some of them.

For out[b] = sum_k x[k, b] * y[k, b] BLAS would have a call for each b, of 15 ns and more, and copies where k
does not lie last. NumPy multiplies all elements at once, and BLAS adds products up for all b (`small_sums`).
Products of many elements are formed and added up in pieces that stay in a core's own cache.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._base.options import get_options
from ..catalogue import DotDims
from ..dtypes import real_of
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, Shape
from .quiet import quietly
from .sharing import BLAS
from .small_sums import MOST, Sum, small_sum

SUMS = 3  # so many of which BLAS makes as fast one by one
LONG = 31  # products of neighbours, of more of which BLAS makes a sum as fast
PIECE = 1 << 17  # products that are formed before they are added up: 1 MiB of float64
COLUMNS, TIMES = 8, 64
"""Complex sums of so many neighbours at most are made by adding up the columns of their products, where there
are so many times as many sums as products in each: BLAS takes 10 to 20 ns for each sum. 2000 sums of three
take 7.5 us and not 40, 1000 of six 10 and not 22."""


def are_element_by_element(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> bool:
    """Whether this contraction of few elements is such a one, and BLAS would take longer. Where one array is
    turned, sums have to be many more than what each adds up; and complex numbers that lie last are added up
    as fast by BLAS, but for a few of them."""
    if not dims.m == dims.n == 1 or dims.lhs_free or dims.rhs_free or output.layout is not None:
        return False
    if not dims.lhs_contracting or dims.lhs_batch != tuple(sorted(dims.lhs_batch)):
        return False
    if output.dtype.char not in BLAS or max(x.size for x in inputs) >= min(
        MOST, get_options().small
    ):
        return False
    is_last = len(inputs[0].shape) - 1 in dims.lhs_contracting
    are_rows = is_last and min(dims.lhs_contracting) > max(dims.lhs_batch, default=-1)
    if _turned(dims) is not None:
        are_many = dims.batch > 2 * dims.k
    else:
        are_many = dims.batch > SUMS and not (are_rows and dims.k > LONG)
    if is_last and output.dtype.kind == "c":
        return are_rows and dims.k <= COLUMNS and dims.batch >= TIMES * dims.k
    return are_many


def element_by_element_bytes(inputs: tuple[ArraySpec, ...], output: ArraySpec) -> int:
    """Upper bound of what the kernel allocates: products of a piece, a copy of them, and first sums."""
    lhs = inputs[0]
    first = lhs.nbytes // max(1, lhs.shape[0]) if lhs.shape else lhs.nbytes
    return 3 * min(lhs.nbytes, max(PIECE * lhs.dtype.itemsize, first)) + 2 * output.nbytes


def bind_element_by_element(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec
) -> Kernel:
    """All products, in the order of lhs, and their sums."""
    perm = _turned(dims)
    shape, contracted = inputs[0].shape, dims.lhs_contracting
    count = shape[0]
    piece = PIECE // 4 if _few_columns(shape, contracted, output.dtype) else PIECE
    step = min(count, max(1, piece * count // inputs[0].size))
    if step == count:
        whole = _sums((count, *shape[1:]), contracted, output.dtype)

        def sums(lhs: Any, rhs: Any) -> Any:
            return whole(np.multiply(lhs, rhs, np.empty(shape, output.dtype)))

    else:
        sums = _in_pieces(shape, contracted, output, step)

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        found = quietly(sums, lhs, rhs if perm is None else rhs.transpose(perm))
        if out is None:
            return found
        np.copyto(out, found)
        return out

    return run


def _in_pieces(shape: Shape, contracted: Axes, output: ArraySpec, step: int) -> Any:
    """The same for so many rows of the first axis at a time."""
    count, dtype = shape[0], output.dtype
    of_step = _sums((step, *shape[1:]), contracted, dtype)
    rest = count % step
    of_rest = _sums((rest, *shape[1:]), contracted, dtype) if rest else of_step
    is_added = 0 in contracted

    def sums(lhs: Any, rhs: Any) -> Any:
        room = np.empty((step, *shape[1:]), dtype)
        out = np.zeros(output.shape, dtype) if is_added else np.empty(output.shape, dtype)
        for start in range(0, count, step):
            stop = min(start + step, count)
            products = np.multiply(lhs[start:stop], rhs[start:stop], room[: stop - start])
            found = (of_step if stop - start == step else of_rest)(products)
            if is_added:
                out += found
            else:
                out[start:stop] = found
        return out

    return sums


def _sums(shape: Shape, axes: Axes, dtype: np.dtype[Any]) -> Sum:
    """What adds up a contiguous array of products."""
    kept = tuple([n for axis, n in enumerate(shape) if axis not in axes])
    columns = _few_columns(shape, axes, dtype)
    if columns:
        return lambda x: _added(x.reshape(*kept, columns))
    parts = (2,) if dtype.kind == "c" else ()  # see `small_sums`
    real = real_of(dtype)
    total = small_sum((*shape, *parts), axes, real)
    if total is None:
        return lambda x: np.add.reduce(x, axes)
    if not parts:
        return total
    return lambda x: total(x.view(real)).view(dtype).reshape(kept)


def _few_columns(shape: Shape, axes: Axes, dtype: np.dtype[Any]) -> int:
    """How many complex numbers that lie last each sum has, if they are few; else 0."""
    columns = math.prod([shape[axis] for axis in axes])
    is_last = min(axes) == len(shape) - len(axes)
    return columns if dtype.kind == "c" and is_last and columns <= COLUMNS else 0


def _added(x: Any) -> Any:
    """The sum over the last axis, of a few elements, column by column."""
    if x.shape[-1] == 1:
        return x[..., 0]
    total = np.add(x[..., 0], x[..., 1])
    for k in range(2, x.shape[-1]):
        np.add(total, x[..., k], total)
    return total


def _turned(dims: DotDims) -> Axes | None:
    """How rhs is transposed to have its axes as lhs has them; None for not at all."""
    left, right = dims.lhs_batch + dims.lhs_contracting, dims.rhs_batch + dims.rhs_contracting
    perm = tuple([axis for _, axis in sorted(zip(left, right, strict=True))])
    return None if perm == tuple(range(len(perm))) else perm

"""How the CPU runs one `dot_general`: a ladder from BLAS to loops, in the order of `dot_engine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..._base.options import get_options
from ..catalogue import Attrs, DotDims, dot_dims, infer
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, compute_dtype
from . import loops, sum_product
from .blas import ONE_BLAS_THREAD
from .buffers import LARGE, empty
from .cast import bind_cast
from .move import move, packed
from .threads import parallel_for

Engine = Literal["zeros", "multiply", "gemm", "batched gemm", "matmul", "loops"]
BLAS = frozenset("fdFD")
ROW = 16  # columns of a matrix from which a compiled loop over them beats numpy.matmul
SHARED = 1 << 21  # multiplications per matrix below which BLAS gains nothing from its own threads
WIDE_BATCH = 7  # matrices of the leading batch axis, at least one more, to share them out
TINY = 512  # multiplications per matrix below which a BLAS call costs more than its work


def dot_engine(dims: DotDims, dtype: np.dtype[np.generic]) -> Engine:
    """Which rung runs this contraction.

    zeros         some size is 0
    gemm          one matrix product of BLAS dtype
    loops         enough work for a compiled loop nest over rows of 16 or more, and: matrices so small
                  that calling BLAS for each costs more than its work, or a dtype without BLAS
    multiply      nothing is contracted: a broadcast product
    batched gemm  one BLAS call per matrix of the batch (numpy.matmul)
    matmul        any other dtype, by NumPy's loops
    """
    per_matrix = dims.m * dims.n * dims.k
    work = dims.batch * per_matrix
    if work == 0:
        return "zeros"
    is_blas = dtype.char in BLAS
    if is_blas and dims.batch == 1 and dims.k > 1:
        return "gemm"
    small = get_options().small
    if work >= max(1, small) and dtype.char in loops.DTYPES and dims.k <= loops.DEPTH:
        if dims.k == 1:
            if max(dims.m, dims.n) < TINY:
                return "loops"
        elif (dims.n >= ROW or small == 0) and (not is_blas or per_matrix < TINY):
            return "loops"
    if dims.k == 1:
        return "multiply"
    return "batched gemm" if is_blas else "matmul"


def bind_dot_general(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """A kernel for one `dot_general` of these shapes."""
    if compute_dtype(output.dtype) != output.dtype:
        return _bind_through_float32(bind_dot_general, attrs, inputs, output)
    lhs, rhs = inputs
    dims = dot_dims(attrs, lhs.shape, rhs.shape)
    engine = dot_engine(dims, output.dtype)
    if engine == "zeros":
        return _bind_zeros(output)
    if engine == "loops":
        return loops.bind_loops(dims, output)
    if engine == "multiply":
        return _bind_multiply(dims, inputs, output)
    if engine == "gemm" and not dims.lhs_batch:
        return _bind_gemm(dims, inputs, output)
    return _bind_batched(dims, inputs, output)


def matmul_attrs(inputs: tuple[ArraySpec, ...]) -> Attrs:
    """The attributes of the `dot_general` that a `matmul` is."""
    ndim = len(inputs[0].shape)
    batch = tuple(range(ndim - 2))
    return {"contracting": ((ndim - 1,), (ndim - 2,)), "batch": (batch, batch)}


def bind_matmul(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """A `matmul` is a `dot_general` of the last two axes."""
    return bind_dot_general(matmul_attrs(inputs), inputs, output)


def bind_sum_product(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """A kernel for `sum_product`; half precisions are multiplied and added in float32."""
    if compute_dtype(output.dtype) != output.dtype:
        return _bind_through_float32(sum_product.bind_blocks, attrs, inputs, output)
    blocks = sum_product.bind_blocks(attrs, inputs, output)

    def run(*operands: Any, out: Any = None) -> Any:
        with np.errstate(all="ignore"):
            return blocks(*operands, out=out)

    return run


def _bind_through_float32(
    binder: Callable[..., Kernel], attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec
) -> Kernel:
    """There is no BLAS for half precisions: convert, compute, round once."""
    wide = tuple(ArraySpec(compute_dtype(spec.dtype), spec.shape) for spec in inputs)
    result = ArraySpec(compute_dtype(output.dtype), output.shape)
    widen = [bind_cast({}, (x,), y) for x, y in zip(inputs, wide, strict=True)]
    kernel, narrow = binder(attrs, wide, result), bind_cast({}, (result,), output)

    def run(*operands: Any, out: Any = None) -> Any:
        product = kernel(*(cast(x) for cast, x in zip(widen, operands, strict=True)))
        return narrow(product, out=out)

    return run


def dot_scratch_bytes(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> int:
    """Upper bound of packed copies: both operands where BLAS needs matrices, tables for loops."""
    lhs, rhs = inputs
    wide = compute_dtype(lhs.dtype)
    if wide != lhs.dtype:  # operands and result in float32, and what that product needs
        inputs = (ArraySpec(wide, lhs.shape), ArraySpec(wide, rhs.shape))
        result = infer("dot_general", attrs, inputs)[0]
        return sum(x.nbytes for x in (*inputs, result)) + dot_scratch_bytes(attrs, inputs)
    dims = dot_dims(attrs, lhs.shape, rhs.shape)
    engine = dot_engine(dims, lhs.dtype)
    if engine in ("zeros", "multiply"):
        return 0
    copies = lhs.nbytes + rhs.nbytes
    if engine == "loops":  # tables, and packed operands where strides are no whole elements
        return 16 * (loops.TILE + dims.k) + copies
    return copies


def _bind_zeros(output: ArraySpec) -> Kernel:
    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        if out is None:
            return np.zeros(output.shape, output.dtype)
        out[...] = np.zeros((), output.dtype)
        return out

    return run


def _bind_multiply(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    # [batch, m, 1...] * [batch, 1..., n]; contracted axes have size 1 and are dropped
    lhs_perm = dims.lhs_batch + dims.lhs_free + dims.lhs_contracting
    rhs_perm = dims.rhs_batch + dims.rhs_free + dims.rhs_contracting
    lhs_shape = [inputs[0].shape[axis] for axis in dims.lhs_batch + dims.lhs_free]
    batch_shape = [inputs[1].shape[axis] for axis in dims.rhs_batch]
    free_shape = [inputs[1].shape[axis] for axis in dims.rhs_free]
    lhs_view = (*lhs_shape, *(1 for _ in free_shape))
    rhs_view = (*batch_shape, *(1 for _ in dims.lhs_free), *free_shape)

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        left = lhs.transpose(lhs_perm).reshape(lhs_view)
        right = rhs.transpose(rhs_perm).reshape(rhs_view)
        if out is None:
            out = empty(output.shape, output.dtype)  # always an array, row-major; never a scalar
        with np.errstate(all="ignore"):
            return np.multiply(left, right, out=out)

    return run


def _bind_gemm(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    lhs_perm, rhs_perm = dims.lhs_free + dims.lhs_contracting, dims.rhs_contracting + dims.rhs_free
    lhs_matrix, rhs_matrix = (dims.m, dims.k), (dims.k, dims.n)
    if _plain(lhs_perm, inputs[0], lhs_matrix) and _plain(rhs_perm, inputs[1], rhs_matrix):

        def run_plain(lhs: Any, rhs: Any, out: Any = None) -> Any:
            if out is None:
                return _dot(lhs, rhs, output)
            return np.dot(lhs, rhs, out) if _takes_products(out) else _matmul(lhs, rhs, out)

        return run_plain
    shape = output.shape

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        left = packed(lhs.transpose(lhs_perm), lhs_matrix)
        right = packed(rhs.transpose(rhs_perm), rhs_matrix)
        # np.dot, not matmul: it packs what BLAS cannot read, where matmul falls back to slow loops
        if out is None:
            return _dot(left, right, output).reshape(shape)
        if _takes_products(out):
            np.dot(left, right, out=out.reshape(dims.m, dims.n))
            return out
        np.copyto(out, _dot(left, right, output).reshape(shape))
        return out

    return run


def _dot(left: Any, right: Any, output: ArraySpec) -> Any:
    """np.dot of two matrices, into lent memory where the product is large."""
    if output.nbytes < LARGE:
        return np.dot(left, right)
    shape = (left.shape[0], right.shape[1])
    return np.dot(left, right, out=empty(shape, output.dtype))


def _bind_batched(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    lhs_perm = dims.lhs_batch + dims.lhs_free + dims.lhs_contracting
    rhs_perm = dims.rhs_batch + dims.rhs_contracting + dims.rhs_free
    batch = tuple(inputs[0].shape[axis] for axis in dims.lhs_batch)
    lhs_matrices, rhs_matrices = (*batch, dims.m, dims.k), (*batch, dims.k, dims.n)
    shape, products = output.shape, (*batch, dims.m, dims.n)
    per_matrix = dims.m * dims.n * dims.k
    shared = (
        output.dtype.char in BLAS
        and dims.batch * per_matrix >= max(1, get_options().small)
        and per_matrix < SHARED
        and batch[:1] > (WIDE_BATCH,)
    )

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        left = _blas_ready(packed(lhs.transpose(lhs_perm), lhs_matrices))
        right = _blas_ready(packed(rhs.transpose(rhs_perm), rhs_matrices))
        is_direct = out is not None and _takes_products(out)
        product = out.reshape(products) if is_direct else empty(products, output.dtype)
        if shared:
            _matmul_shared(left, right, product)
        else:
            with np.errstate(all="ignore"):
                np.matmul(left, right, out=product)
        if out is None:
            return product.reshape(shape)
        if not is_direct:
            np.copyto(out, product.reshape(shape))
        return out

    return run


def _takes_products(out: Any) -> bool:
    """Whether BLAS writes its matrices where they belong: they lie one after another."""
    return bool(out.flags.c_contiguous and out.flags.aligned)


def _matmul_shared(left: Any, right: Any, product: Any) -> None:
    """Matrices of a batch shared among our threads, BLAS on one thread for each."""

    def piece(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            np.matmul(left[start:stop], right[start:stop], out=product[start:stop])

    with ONE_BLAS_THREAD:
        parallel_for(piece, len(product))


def _plain(perm: Axes, spec: ArraySpec, matrix: tuple[int, int]) -> bool:
    return perm == tuple(range(len(perm))) and spec.shape == matrix


def _matmul(lhs: Any, rhs: Any, out: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.matmul(_blas_ready(lhs), _blas_ready(rhs), out=out)


def _blas_ready(x: Any) -> Any:
    """x itself when each of its matrices has unit stride along one axis, else a packed copy."""
    rows, columns = x.strides[-2:]
    m, n, size = x.shape[-2], x.shape[-1], x.itemsize
    if (columns == size and (m == 1 or rows >= n * size)) or (
        rows == size and (n == 1 or columns >= m * size)
    ):
        return x
    return move(empty(x.shape, x.dtype), x)

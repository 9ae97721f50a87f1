"""How the CPU runs one `dot_general`: a ladder from BLAS to loops, in the order of `dot_engine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..._base.options import get_options
from ..catalogue import Attrs, DotDims, dot_dims, infer
from ..matrices import TINY, contraction_of, orders_of, plan_products
from ..protocol import Kernel
from ..spec import ArraySpec, compute_dtype
from . import loops, sum_product
from .buffers import empty_as
from .cast import bind_cast
from .matrices import BLAS, bind_matrices, packed_bytes

Engine = Literal["zeros", "multiply", "gemm", "batched gemm", "matmul", "loops"]
ROW = 16  # columns of a matrix from which a compiled loop over them beats numpy.matmul's


def dot_engine(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec | None = None
) -> Engine:
    """Which rung runs this contraction.

    zeros         some size is 0
    gemm          one matrix product of BLAS dtype
    loops         enough work for a compiled loop nest, and: matrices so small that calling BLAS for each
                  would take longer, or a dtype without BLAS and rows of 16 or more
    multiply      nothing is contracted: a broadcast product
    batched gemm  one BLAS call per matrix of the batch (numpy.matmul)
    matmul        any other dtype, by NumPy's loops
    """
    per_matrix = dims.m * dims.n * dims.k
    work = dims.batch * per_matrix
    dtype = inputs[0].dtype
    if work == 0:
        return "zeros"
    is_blas = dtype.char in BLAS
    if is_blas and dims.batch == 1 and dims.k > 1:
        return "gemm"
    if _suits_loops(dims, inputs, output, is_blas):
        return "loops"
    if dims.k == 1:
        return "multiply"
    return "batched gemm" if is_blas else "matmul"


def _suits_loops(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec | None, is_blas: bool
) -> bool:
    lhs, rhs = inputs
    per_matrix, small = dims.m * dims.n * dims.k, get_options().small
    if dims.batch * per_matrix < max(1, small) or dims.k > loops.DEPTH:
        return False
    if lhs.dtype.char not in loops.DTYPES:
        return False
    if dims.k == 1:
        return max(dims.m, dims.n) < TINY
    if not is_blas:
        return dims.n >= ROW or small == 0
    if per_matrix >= TINY or small == 0:
        return per_matrix < TINY
    step, left, right = contraction_of(dims, lhs, rhs)
    return plan_products(step, orders_of(step, left, right, (lhs, rhs, output))).calls == 0


def bind_dot_general(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """A kernel for one `dot_general` of these shapes."""
    if compute_dtype(output.dtype) != output.dtype:
        return _bind_through_float32(bind_dot_general, attrs, inputs, output)
    lhs, rhs = inputs
    dims = dot_dims(attrs, lhs.shape, rhs.shape)
    engine = dot_engine(dims, inputs, output)
    if engine == "zeros":
        return _bind_zeros(output)
    if engine == "loops":
        return loops.bind_loops(dims, output)
    if engine == "multiply":
        return _bind_multiply(dims, inputs, output)
    return bind_matrices(dims, inputs, output)


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
    result = ArraySpec(compute_dtype(output.dtype), output.shape, output.layout)
    widen = [bind_cast({}, (x,), y) for x, y in zip(inputs, wide, strict=True)]
    kernel, narrow = binder(attrs, wide, result), bind_cast({}, (result,), output)

    def run(*operands: Any, out: Any = None) -> Any:
        product = kernel(*(cast(x) for cast, x in zip(widen, operands, strict=True)))
        return narrow(product, out=out)

    return run


def dot_scratch_bytes(
    attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec | None = None
) -> int:
    """Upper bound of packed copies: operands where BLAS needs matrices, tables for loops."""
    axes = {name: attrs[name] for name in ("batch", "contracting")}
    output = output or infer("dot_general", axes, inputs)[0]
    lhs, rhs = inputs
    wide = compute_dtype(lhs.dtype)
    if wide != lhs.dtype:  # operands and result in float32, and what that product needs
        inputs = tuple(ArraySpec(wide, x.shape) for x in inputs)
        output = ArraySpec(wide, output.shape, output.layout)
        return sum(x.nbytes for x in (*inputs, output)) + dot_scratch_bytes(attrs, inputs, output)
    dims = dot_dims(attrs, lhs.shape, rhs.shape)
    engine = dot_engine(dims, inputs, output)
    if engine in ("zeros", "multiply"):
        return 0
    if engine == "loops":  # tables, and packed operands where strides are no whole elements
        return 16 * (loops.TILE + dims.k) + lhs.nbytes + rhs.nbytes
    return packed_bytes(dims, inputs, output)


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
        if out is None:  # always an array, never a scalar
            out = empty_as(output)
        with np.errstate(all="ignore"):
            return np.multiply(left, right, out=out)

    return run

"""How the CPU runs one `dot_general`: a ladder from BLAS to loops, in the order of `dot_engine`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from ..._base.caches import Quick
from ..._base.options import get_options, num_threads
from ..blocked import panel_seconds
from ..catalogue import Attrs, DotDims, infer, known_dims
from ..contraction import DEPTH, Contraction, Orders, contraction_of, orders_of
from ..cost_model import MODELS
from ..fusion import ElementwiseFusionPlan, FusionStep
from ..matrices import TINY
from ..outer import lines_of
from ..products import plan_decided, plan_plain
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, Shape, compute_dtype
from . import blocked, dots, lines, loops, strips, sum_product, sums
from .buffers import allocator
from .cast import bind_cast
from .fused import ALIKE_DTYPES, Elementwise, bind_alone, bind_fused, fused_scratch_bytes
from .jit import NotKept, kept_only
from .matrices import FEW, bind_matrices, packed_bytes
from .matrices import uses_threads as matrices_use_threads
from .pairs import are_mixed, as_converted, as_pairs, bind_pairs, pays
from .patience import ALONE, loading_seconds
from .quiet import fill
from .sharing import BLAS

Engine = Literal[
    "zeros", "multiply", "gemm", "batched gemm", "matmul", "loops", "blocked", "strips", "sums", "dots",
    "lines", "sum product",
]  # fmt: skip
ROW = 16  # columns of a matrix from which a compiled kernel beats numpy.matmul's loops
# int64 and int32, 10^9 multiplications a second on one thread of an x86-64 CPU with AVX-512 (m x k x n):
#               1024^3  256^3   64^3    32^3, 16^3, 8^3 in a batch  512x4x512  4x1024x1024  1024x1024x4
# blocked       17, 34  16, 32  6, 9    6, 12   4, 8     2, 1       3, 7       4, 12        1.9, 3.2
# loops          8, 17   5, 12  3, 6    4,  5   2, 3   0.6, 0.6     6, 12      6, 18        0.4, 0.4
# numpy.matmul   -      .8, 1.2 1.2, 1.7 1.5, 1.6 1.5, 1.6 1.4, 1.6 1.5, 1.5   0.4, 0.4     1.3, 1.3
THIN = 8  # rows or contracted elements below which packing takes longer than it saves
BLOCK = 1 << 11  # multiplications per matrix from which packing beats numpy.matmul's loops
# float16: 1024^3 35, 256^3 21, 64^3 8, 1024x1024x4 1.1; converted to float32 for BLAS 37, 21, 9, 1.9. Where
# both take as long, no copy of a whole operand in float32 is what decides.
HALF = 1 << 21  # multiplications per matrix of half precisions from which they are not converted
NARROW = 32  # least rows, columns and contracted elements of such a matrix
LARGER = 4  # times `small`: elements of a product without sums from which it is worth a compiler
FREQUENT = 8  # of `small`: elements from which it is where it is asked for often
SHARED = 2  # of `small`: elements from which threads share it then
MOST_KNOWN = 64  # ways in which its arrays may lie


def dot_engine(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec | None = None
) -> Engine:
    """Which rung runs this contraction.

    zeros         some size is 0
    ...           the rung that the option `engine` names, if it can run this contraction
    blocked       enough work in matrices large enough to pack, of integers, truth values or half precisions:
                  a compiled product; and of real numbers where BLAS, with the copies that it needs, should
                  take longer (`panel_seconds`)
    strips        real numbers with enough work, where BLAS has few rows to work with, would copy operands, or
                  write a large result that it adds little to, and should take longer (`plan_strips`)
    sums          enough work, and a vector, or one for each batch, beside an operand that has all labels: of
                  real and complex numbers if BLAS would need a copy of that, of integers always, of truth
                  values for many vectors; products are added up as it is read
    dots          real and complex numbers, enough work, a pair of vectors for each of many batches, and what
                  is contracted last in memory in both: each sum is added up in registers
    gemm          one matrix product of BLAS dtype
    lines         real and complex numbers, batches that lie last in all arrays, and matrices so small that
                  BLAS should take longer, with its copies: NumPy multiplies lines and adds them up
    loops         something is contracted, enough work for a compiled loop nest, and: matrices so small that
                  calling BLAS for each would take longer, or integers and rows of 16 or more
    multiply      nothing is contracted: a broadcast product, compiled where that is worth it
    batched gemm  one BLAS call per matrix of the batch (numpy.matmul)
    matmul        any other dtype, by NumPy's loops

    Half precisions that are not blocked take the rung of float32. One more runs everything, but only where
    it is asked for: sum product, which forms all products by broadcasting and adds them up. The provider
    "native" takes it for what would be BLAS's and no kernel of ours runs. The provider "plain" leaves
    products of real and complex numbers that sum something to BLAS and to NumPy's lines; those of integers
    and truth values, and blocks of half precisions, are the same with every provider.
    """
    now = get_options()
    is_plain = now.provider == "plain" and now.engine is None and inputs[0].dtype.char in BLAS
    if is_plain and (dims.k < 2 or dims.batch < 2 or _work(dims) == 0):
        return "zeros" if _work(dims) == 0 else _by_blas(dims, inputs, output)  # told at once
    key = (dims, inputs, output, now.small, now.engine, now.provider, MODELS.current)
    found = _ENGINES.items.get(key)
    if found is None:
        _ENGINES.misses += 1
        found = _engine(dims, inputs, output)
        _ENGINES.put(key, found)
    else:
        _ENGINES.hits += 1
    return found


_ENGINES: Quick[Engine] = Quick("engines of products", 4096)


def _engine(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec | None = None
) -> Engine:
    if _work(dims) == 0:
        return "zeros"
    dtype, asked, provider = inputs[0].dtype, get_options().engine, get_options().provider
    is_blas = dtype.char in BLAS
    is_plain = is_blas and provider == "plain"
    if is_plain and asked is None:
        return _by_blas(dims, inputs, output)
    suits_blocks = blocked.suits_dtype(dtype) and (
        _suits_blocks(dims, inputs, output) if asked is None else asked == "blocked"
    )
    if suits_blocks:
        return "blocked"
    if compute_dtype(dtype) != dtype:
        return dot_engine(
            dims, tuple(map(_widened, inputs)), output and _widened(output, output.layout)
        )
    for engine, can_run in _able(dims, dtype).items():
        if engine == asked and can_run:
            return engine
    if is_plain:
        return _by_blas(dims, inputs, output)
    if is_blas and provider == "native":
        return _without_blas(dims, inputs, output)
    if is_blas and (by := plan_decided(*_step(dims, inputs, output)).by) != "products":
        return by
    if is_blas and dims.batch == 1 and dims.k > 1:
        return "gemm"
    if _suits_sums(dims, dtype):
        return "sums"
    if _suits_loops(dims, inputs, output, is_blas):
        return "loops"
    if dims.k == 1:
        return "multiply"
    return "batched gemm" if is_blas else "matmul"


def _by_blas(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec | None) -> Engine:
    """The rung of real or complex numbers without kernels of ours."""
    if dims.k == 1:
        return "multiply"
    if dims.batch == 1:
        return "gemm"
    return "lines" if plan_plain(*_step(dims, inputs, output)).by == "lines" else "batched gemm"


def _without_blas(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec | None) -> Engine:
    """The rung of real or complex numbers where BLAS is not to be called."""
    if dims.k == 1:
        return "multiply"
    if dims.m == dims.n == 1 and plan_decided(*_step(dims, inputs, output)).by == "dots":
        return "dots"
    if _suits_loops(dims, inputs, output, is_blas=True):
        return "loops"
    if dims.batch > 1 and plan_plain(*_step(dims, inputs, output)).by == "lines":
        return "lines"
    dtype, is_large = inputs[0].dtype, _work(dims) >= max(1, get_options().small)
    if is_large and blocked.suits_dtype(dtype):
        return "blocked"
    return "loops" if is_large and _able(dims, dtype)["loops"] else "sum product"


def _work(dims: DotDims) -> int:
    return dims.batch * dims.m * dims.n * dims.k


def _able(dims: DotDims, dtype: np.dtype[np.generic]) -> dict[Engine, bool]:
    """Whether each rung, if it is asked for, can run a contraction with at least one multiplication."""
    is_blas = dtype.char in BLAS
    return {
        "multiply": dims.k == 1,
        "gemm": is_blas and dims.batch == 1,
        "batched gemm": is_blas and dims.batch > 1,
        "matmul": not is_blas,
        "loops": dtype.char in loops.DTYPES and dims.k <= DEPTH,
        "strips": is_blas,
        "dots": is_blas and dtype.isnative and dims.k > 1 and dims.m == dims.n == 1,
        "sums": (is_blas or dtype.kind in "biu") and dtype.isnative and _is_vector(dims),
        "lines": is_blas and dims.batch > 1 and dims.k > 1,
        "sum product": True,
    }


def _is_vector(dims: DotDims) -> bool:
    """Whether one operand has all labels, and something is added up."""
    return dims.k > 1 and min(dims.m, dims.n) == 1


def _suits_sums(dims: DotDims, dtype: np.dtype[np.generic]) -> bool:
    """Of integers, which takes from a twentieth of the time of blocks or NumPy (uint8, `ij,ij->j`) to as
    long; and of truth values where there are many vectors: of one, each sum ends with the first that is
    true."""
    if not _is_vector(dims) or _work(dims) < max(1, get_options().small) or not dtype.isnative:
        return False
    return dtype.kind in "iu" or (dtype.kind == "b" and dims.batch > 1)


def _suits_blocks(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec | None) -> bool:
    m, n, k = dims.m, dims.n, dims.k
    dtype = inputs[0].dtype
    if dims.batch * m * n * k < max(1, get_options().small):
        return False
    if dtype.char in BLAS:
        step, orders = _step(dims, inputs, output)
        in_panels = panel_seconds(step, orders)
        return in_panels is not None and in_panels < plan_decided(step, orders).seconds
    if compute_dtype(dtype) != dtype:
        return m * n * k >= HALF and min(m, n, k) >= NARROW
    if m * n * k < BLOCK or max(m, n) < ROW or k == 1 or _suits_sums(dims, dtype):
        return False
    suits_loops = min(m, n, k) < THIN and n >= ROW and k <= DEPTH
    return not (suits_loops and dtype.char in loops.DTYPES)


def _suits_loops(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec | None, is_blas: bool
) -> bool:
    per_matrix, small = dims.m * dims.n * dims.k, get_options().small
    if dims.batch * per_matrix < max(1, small) or dims.k > DEPTH:
        return False
    if inputs[0].dtype.char not in loops.DTYPES:
        return False
    if dims.k == 1:
        return False
    if not is_blas:
        return dims.n >= ROW or small == 0
    if small == 0 and per_matrix < TINY:
        return True
    return plan_decided(*_step(dims, inputs, output)).calls == 0


def _packed_for_strips(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec
) -> tuple[bool, bool]:
    """Whether lhs and rhs are copied for strips; none where these were only asked for."""
    found = plan_decided(*_step(dims, inputs, output))
    return found.packed[:2] if found.by == "strips" else (False, False)


def _step(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec | None
) -> tuple[Contraction, Orders]:
    lhs, rhs = inputs
    step, left, right = contraction_of(dims, lhs, rhs)
    return step, orders_of(step, left, right, (lhs, rhs, output))


def engine_of(
    attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec | None = None
) -> Engine:
    """Which rung runs this `dot_general`; a real and a complex operand take that of real ones."""
    if are_mixed(inputs):
        output = output or _result(attrs, inputs)
        if pays(attrs, inputs, output):
            inputs, output = as_pairs(attrs, inputs, output)
        else:
            inputs = as_converted(inputs, output.dtype)
    return dot_engine(known_dims(attrs, inputs[0].shape, inputs[1].shape), inputs, output)


def _result(attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> ArraySpec:
    axes = {name: attrs[name] for name in ("batch", "contracting")}
    return infer("dot_general", axes, inputs)[0]


def uses_threads(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> bool:
    """Whether threads of ours work for the kernel of this `dot_general` even where those of BLAS may."""
    if are_mixed(inputs):
        if pays(attrs, inputs, output):
            inputs, output = as_pairs(attrs, inputs, output)
        else:
            inputs = as_converted(inputs, output.dtype)
    dims = known_dims(attrs, inputs[0].shape, inputs[1].shape)
    engine = dot_engine(dims, inputs, output)
    if engine in ("gemm", "batched gemm"):
        return matrices_use_threads(dims, inputs, output)
    if engine == "strips":
        return strips.uses_threads(dims, inputs, _packed_for_strips(dims, inputs, output))
    if engine == "dots":
        return dots.uses_threads(dims, output)
    if engine == "loops":
        return loops.uses_threads(dims)
    return engine in ("blocked", "sums") or (
        engine == "multiply" and (_large_multiply(output) is not None or _is_shared_often(output))
    )


def bind_dot_general(
    attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec, own_threads: bool = False
) -> Kernel:
    """A kernel for one `dot_general` of these shapes; with `own_threads`, BLAS uses none of its own."""
    binder = partial(bind_dot_general, own_threads=own_threads)
    if are_mixed(inputs):
        if pays(attrs, inputs, output):
            return bind_pairs(binder, attrs, inputs, output)
        return _bind_converted(binder, attrs, inputs, output, output.dtype)
    lhs, rhs = inputs
    dims = known_dims(attrs, lhs.shape, rhs.shape)
    engine = dot_engine(dims, inputs, output)
    if engine == "zeros":
        return _bind_zeros(output)
    if engine == "blocked":
        return blocked.bind_blocked(dims, output)
    if compute_dtype(output.dtype) != output.dtype:
        return _bind_converted(binder, attrs, inputs, output, np.dtype(np.float32))
    if engine == "strips":
        return strips.bind_strips(dims, inputs, output, _packed_for_strips(dims, inputs, output))
    if engine == "sums":
        return sums.bind_sums(dims, inputs, output)
    if engine == "dots":
        otherwise = partial(bind_matrices, dims, inputs, output, own_threads)
        if get_options().provider == "native":
            otherwise = partial(bind_sum_product, _summed(dims, inputs), inputs, output)
        return dots.bind_dots(dims, output, cache(otherwise))
    if engine == "loops":
        return loops.bind_loops(dims, output)
    if engine == "multiply":
        return _bind_multiply(dims, inputs, output)
    if engine == "lines":
        return lines.bind_lines(dims, inputs, output)
    if engine == "sum product":
        return bind_sum_product(_summed(dims, inputs), inputs, output)
    return bind_matrices(dims, inputs, output, own_threads)


def _summed(dims: DotDims, inputs: tuple[ArraySpec, ...]) -> Attrs:
    """The attributes of the `sum_product` that a `dot_general` is."""
    step, left, right = contraction_of(dims, *inputs)
    return {"terms": (left, right), "output": (*step.batch, *step.rows, *step.columns)}


def matmul_attrs(inputs: tuple[ArraySpec, ...]) -> Attrs:
    """The attributes of the `dot_general` that a `matmul` is."""
    ndim = len(inputs[0].shape)
    batch = tuple(range(ndim - 2))
    return {"contracting": ((ndim - 1,), (ndim - 2,)), "batch": (batch, batch)}


def bind_matmul(
    attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec, own_threads: bool = False
) -> Kernel:
    """A `matmul` is a `dot_general` of the last two axes."""
    return bind_dot_general(matmul_attrs(inputs), inputs, output, own_threads)


def bind_sum_product(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """A kernel for `sum_product`; half precisions are multiplied and added in float32."""
    if compute_dtype(output.dtype) != output.dtype:
        return _bind_converted(sum_product.bind_blocks, attrs, inputs, output, np.dtype(np.float32))
    blocks = sum_product.bind_blocks(attrs, inputs, output)

    def run(*operands: Any, out: Any = None) -> Any:
        with np.errstate(all="ignore"):
            return blocks(*operands, out=out)

    return run


def _bind_converted(
    binder: Callable[..., Kernel],
    attrs: Attrs,
    inputs: tuple[ArraySpec, ...],
    output: ArraySpec,
    dtype: np.dtype[Any],
) -> Kernel:
    """Convert, compute, round once: half precisions, or a small real operand beside a complex one."""
    wide = as_converted(inputs, dtype)
    result = ArraySpec(dtype, output.shape, output.layout)
    widen = [
        None if x.dtype == dtype else bind_cast({}, (x,), y)
        for x, y in zip(inputs, wide, strict=True)
    ]
    kernel, narrow = binder(attrs, wide, result), bind_cast({}, (result,), output)
    is_same = output.dtype == dtype

    def run(*operands: Any, out: Any = None) -> Any:
        converted = (
            x if cast is None else cast(x) for cast, x in zip(widen, operands, strict=True)
        )
        if is_same:
            return kernel(*converted, out=out)
        return narrow(kernel(*converted), out=out)

    return run


def _widened(spec: ArraySpec, layout: Axes | None = None) -> ArraySpec:
    return ArraySpec(compute_dtype(spec.dtype), spec.shape, layout)


def dot_scratch_bytes(
    attrs: Attrs,
    inputs: tuple[ArraySpec, ...],
    output: ArraySpec | None = None,
    threads: int | None = None,
) -> int:
    """Upper bound of packed copies: operands where BLAS needs matrices, tables for loops, panels."""
    output = output or _result(attrs, inputs)
    if are_mixed(inputs):
        if pays(attrs, inputs, output):
            real, result = as_pairs(attrs, inputs, output)
            return dot_scratch_bytes(attrs, real, result, threads)
        whole = as_converted(inputs, output.dtype)
        copies = sum(y.nbytes for x, y in zip(inputs, whole, strict=True) if x.dtype != y.dtype)
        return copies + dot_scratch_bytes(attrs, whole, output, threads)
    lhs, rhs = inputs
    dims = known_dims(attrs, lhs.shape, rhs.shape)
    engine = dot_engine(dims, inputs, output)
    if engine == "zeros":
        return 0
    if engine == "dots":  # and a whole result where `out` has gaps
        if get_options().provider == "native":
            return output.nbytes + sum_product.scratch_bytes(_summed(dims, inputs), inputs)
        return output.nbytes + packed_bytes(dims, inputs, output, threads or num_threads())
    if engine == "blocked":  # panels, and copies of operands whose strides are no whole elements
        panels = blocked.blocked_bytes(dims, output, threads or num_threads())
        return panels + sum(x.nbytes for x in (lhs, rhs) if x.layout is None)
    if compute_dtype(lhs.dtype) != lhs.dtype:  # all in float32, and what that product needs
        inputs, output = tuple(map(_widened, inputs)), _widened(output, output.layout)
        return sum(x.nbytes for x in (*inputs, output)) + dot_scratch_bytes(
            attrs, inputs, output, threads
        )
    if engine == "strips":  # and copies of operands, also where strides may be no whole elements
        packs = _packed_for_strips(dims, inputs, output)
        copies = sum(
            x.nbytes for x, packed in zip(inputs, packs, strict=True) if x.layout is None or packed
        )
        return strips.strips_bytes(dims, output, threads or num_threads()) + copies
    if engine == "sums":
        return sums.sums_bytes(dims, inputs, output, threads or num_threads())
    if engine == "lines":
        return lines.lines_bytes(dims, lhs, output)
    if engine == "multiply":
        plan = _large_multiply(output)
        copies = _lines(dims, inputs, output)[1]
        if plan is None:
            return copies
        return copies + fused_scratch_bytes(plan, (0, 1), 0, threads or num_threads())
    if engine == "loops":  # tables, and packed operands where strides are no whole elements
        return loops.loops_bytes(dims) + lhs.nbytes + rhs.nbytes
    if engine == "sum product":
        return sum_product.scratch_bytes(_summed(dims, inputs), inputs)
    return packed_bytes(dims, inputs, output, threads or num_threads())


def _bind_zeros(output: ArraySpec) -> Kernel:
    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        if out is None:
            return np.zeros(output.shape, output.dtype)
        out[...] = np.zeros((), output.dtype)
        return out

    return run


def _lines(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec
) -> tuple[tuple[Shape | None, Shape | None], int]:
    """To which shape each operand of a product without sums is repeated and copied, its axes being those of
    the result as they lie in memory; None for one that is read where it lies. And the bytes of all copies."""
    step, orders = _step(dims, inputs, output)
    lhs, rhs = (tuple(x for x in order or () if x not in step.contracted) for order in orders[:2])
    out = orders[2] or ()
    found = lines_of(step.sizes, lhs, rhs, out)
    first = len(out) - found.axes
    left, right = (
        tuple(step.sizes[x] if at >= first or x in order else 1 for at, x in enumerate(out))
        if is_copied
        else None
        for order, is_copied in zip((lhs, rhs), found.copied, strict=True)
    )
    return (left, right), sum(math.prod(x) for x in (left, right) if x) * step.itemsize


def _bind_multiply(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    # axes of the result as they lie in memory; those that an operand has not are of size 1 there, and
    # contracted ones, all of size 1, are dropped
    n_lhs = len(dims.lhs_batch + dims.lhs_free)
    order = tuple(range(len(output.shape))) if output.layout is None else output.layout
    shape = tuple(output.shape[axis] for axis in order)
    of_lhs = dict(enumerate(dims.lhs_batch + dims.lhs_free))
    of_rhs = dict(enumerate(dims.rhs_batch)) | dict(enumerate(dims.rhs_free, n_lhs))
    lhs_perm = (*(of_lhs[axis] for axis in order if axis in of_lhs), *dims.lhs_contracting)
    rhs_perm = (*(of_rhs[axis] for axis in order if axis in of_rhs), *dims.rhs_contracting)
    lhs_view = tuple(output.shape[axis] if axis in of_lhs else 1 for axis in order)
    rhs_view = tuple(output.shape[axis] if axis in of_rhs else 1 for axis in order)
    if lhs_perm == tuple(range(len(lhs_perm))):
        lhs_perm = ()
    if rhs_perm == tuple(range(len(rhs_perm))):
        rhs_perm = ()
    make = allocator(ArraySpec(output.dtype, shape))
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    plan = _large_multiply(output)
    large = None if plan is None else bind_fused(plan)
    often = None if large is not None else _bind_often(ArraySpec(output.dtype, shape))
    multiply = often or partial(fill, np.multiply)
    (lhs_wide, rhs_wide), _ = _lines(dims, inputs, output)
    is_tight = output.size < FEW and large is None and often is None
    if is_tight and lhs_wide is None and rhs_wide is None:
        left = _small_view(
            lhs_perm, tuple(axis in of_lhs for axis in order), len(dims.lhs_contracting)
        )
        right = _small_view(
            rhs_perm, tuple(axis in of_rhs for axis in order), len(dims.rhs_contracting)
        )
        return _multiply_small(left, right, make, None if output.layout is None else (order, back))
    # fewer axes take NumPy less time, where the arrays show them
    merged = ((dims.batch, dims.m, 1), (dims.batch, 1, dims.n), (dims.batch, dims.m, dims.n))
    is_plain = not (lhs_perm or rhs_perm or lhs_wide or rhs_wide) and output.layout is None

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        left = (lhs.transpose(lhs_perm) if lhs_perm else lhs).reshape(lhs_view)
        right = (rhs.transpose(rhs_perm) if rhs_perm else rhs).reshape(rhs_view)
        if lhs_wide is not None:
            left = np.ascontiguousarray(np.broadcast_to(left, lhs_wide))
        if rhs_wide is not None:
            right = np.ascontiguousarray(np.broadcast_to(right, rhs_wide))
        # always an array, never a scalar
        target = make() if out is None else out if output.layout is None else out.transpose(order)
        if large is not None:
            large(left, right, out=target)
        else:
            flat = target
            if is_plain and all(x.flags.c_contiguous for x in (lhs, rhs, target)):
                left, right, flat = (
                    x.reshape(shape) for x, shape in zip((lhs, rhs, target), merged, strict=True)
                )
            multiply(left, right, flat)
        if out is not None:
            return out
        return target if output.layout is None else target.transpose(back)

    return run


def _small_view(perm: Axes, has: tuple[bool, ...], contracted: int) -> tuple[Axes, tuple[Any, ...]]:
    """How an operand that has these axes of the result is transposed, and then indexed: new axes ahead are
    left to broadcasting, and contracted ones have one element. Neither where it is read as it stands."""
    own = has[has.index(True) :] if True in has else ()
    if all(own) and not contracted:
        return perm, ()
    # with the dots it is an array where it has one element, never that element
    return perm, (*(slice(None) if is_own else None for is_own in own), *(0,) * contracted, ...)


def _multiply_small(
    left: tuple[Axes, tuple[Any, ...]],
    right: tuple[Axes, tuple[Any, ...]],
    make: Callable[[], Any],
    turned: tuple[Axes, Axes] | None,
) -> Kernel:
    """NumPy's product of a few elements, of which each look at an array takes a tenth; operands are looked at
    as `_small_view` says. `turned`: to the order of the result in memory, and back."""
    (lhs_perm, lhs_index), (rhs_perm, rhs_index) = left, right

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        if lhs_perm:
            lhs = lhs.transpose(lhs_perm)
        if lhs_index:
            lhs = lhs[lhs_index]
        if rhs_perm:
            rhs = rhs.transpose(rhs_perm)
        if rhs_index:
            rhs = rhs[rhs_index]
        if turned is None:
            if out is None:
                out = make()
            fill(np.multiply, lhs, rhs, out)
            return out
        target = make() if out is None else out.transpose(turned[0])
        fill(np.multiply, lhs, rhs, target)
        return target.transpose(turned[1]) if out is None else out

    return run


class _Often:
    """`often(left, right, out)` for a product without sums of medium size. NumPy takes less time for it than
    loading a kernel does, but it may be asked for again and again: the kernel, which gives the same bits,
    comes when NumPy took as long for this product alone; one that is not kept, so that a compiler would be
    loaded, when it took as long as that takes."""

    def __init__(self, kernel: Elementwise, threads: int | None) -> None:
        self.kernel, self.threads = kernel, threads
        self.spent = 0.0  # seconds of NumPy
        self.known: dict[Any, bool] = {}  # is the kernel for arrays that lie so here? else not kept

    def __call__(self, left: Any, right: Any, out: Any) -> None:
        if self.spent >= get_options().patience * ALONE and self._compiled(left, right, out):
            return
        start = time.perf_counter()
        fill(np.multiply, left, right, out)
        self.spent += time.perf_counter() - start

    def _compiled(self, left: Any, right: Any, out: Any) -> bool:
        """False where it is too early, or no kernel reads such arrays."""
        lie = (out.shape, left.strides, right.strides, out.strides)
        is_here = self.known.get(lie)
        if is_here:
            return self.kernel((out,), (left, right), self.threads)
        is_time = self.spent >= get_options().patience
        if not is_time and (is_here is False or self.spent < loading_seconds(ALONE)):
            return False
        try:  # one thread: what it may not compile, another one would
            with nullcontext() if is_time else kept_only():
                done = self.kernel((out,), (left, right), 1)
        except NotKept:
            done = False
        if len(self.known) < MOST_KNOWN or lie in self.known:
            self.known[lie] = done
        return done


def _bind_often(result: ArraySpec) -> _Often | None:
    """None where NumPy is as fast, or other bits would come."""
    if result.size < max(1, get_options().small / FREQUENT):
        return None
    kernel = bind_alone(_product_of(result))
    return None if kernel is None else _Often(kernel, None if _is_shared_often(result) else 1)


def _is_shared_often(result: ArraySpec) -> bool:
    """Whether threads share the kernel that a product without sums has once it was asked for often."""
    return result.dtype.char in ALIKE_DTYPES and result.size >= max(1, get_options().small / SHARED)


def _large_multiply(output: ArraySpec) -> ElementwiseFusionPlan | None:
    """A product of two arrays of the result's shape, if it is worth a compiler and threads at once. Smaller
    ones have their kernel later (`_Often`), but for complex numbers, which it rounds otherwise: these have it
    where kernels are asked for whatever they take to load."""
    small = get_options().small
    is_asked = output.dtype.kind == "c" and get_options().provider != "plain"
    if output.size < max(1, (1 if is_asked else LARGER) * small) or output.dtype.hasobject:
        return None
    order = output.layout or range(len(output.shape))
    return _product_of(ArraySpec(output.dtype, tuple(output.shape[axis] for axis in order)))


def _product_of(result: ArraySpec) -> ElementwiseFusionPlan:
    return ElementwiseFusionPlan((result, result), (FusionStep("multiply", (0, 1)),), (2,))

"""Reductions over any subset of axes, accumulated wider than the operands' dtype.

`accumulators` says in which dtype. Small work goes to NumPy, and sums of real and complex numbers to BLAS
(`small_sums`); large work to a generated kernel (see `reduction`), which reads every element once, wherever
the axes lie.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._base.options import get_options
from ..catalogue import Attrs
from ..dtypes import real_of
from ..fusion import ElementwiseFusionPlan, FusionStep
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, Shape
from .accumulators import UFUNCS, DType, accumulator
from .buffers import empty
from .elementwise import BLOCK, blocks_within
from .quiet import quietly
from .reduction import LANES, PARTIAL, Reduction
from .small_sums import MOST, small_sum
from .source import Body, body_of
from .strided import MOST_AXES, element_strides
from .threads import parallel_for

CONVERTED = 1 << 12  # elements from which they are converted at once
FEW = 64  # elements of a sum over several axes, small enough to be added up one after another


def bind_reduce(op: str) -> Callable[..., Kernel]:
    """Bind reduce_sum, reduce_prod, reduce_max, reduce_min or reduce_mean."""

    def bind(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
        (x,) = inputs
        axes, initial = attrs["axes"], attrs.get("initial")
        count = 1
        for axis in axes:
            count *= x.shape[axis]
        ufunc = UFUNCS[op, "logical" if x.dtype.kind == "b" else ""]
        wide = accumulator(op, x.dtype)
        compiled = _compiled(op, attrs, x, output)
        turned = _turned(x, axes)
        # a ufunc's reduction and no more
        is_all = initial is None and op != "reduce_mean" and x.size > 0 and x.dtype.kind in "fciu"
        is_large = x.size >= max(1, get_options().small)
        is_brief = is_all and turned is None and not is_large
        is_all &= wide == output.dtype
        few = _few(axes, x, output) if op == "reduce_sum" and initial is None else None

        def run(x: Any, out: Any = None) -> Any:
            if few is not None and x.flags.aligned and (x.flags.c_contiguous or _lies_in_order(x)):
                total = quietly(few, x)
                if out is None:
                    return total
                np.copyto(out, total)
                return out
            if out is None:
                out = empty(output.shape, output.dtype)
            if is_brief:
                if wide == output.dtype:
                    return quietly(ufunc.reduce, x, axes, wide, out)
                return quietly(_reduce_and_round, ufunc, x, axes, wide, out)
            # between elements, or at odd addresses: NumPy, which copies a buffer's worth at a time
            if compiled is not None and is_large and element_strides(x) is not None:
                compiled(x, out)
                if initial is not None:
                    ufunc(out, np.asarray(initial).astype(out.dtype), out=out)
                return out
            with np.errstate(all="ignore"):
                where = axes
                if turned is not None and not x.flags.c_contiguous:
                    x, where = np.ascontiguousarray(x.transpose(turned[0])).reshape(turned[1]), 0
                if is_all:
                    return ufunc.reduce(x, where, wide, out)
                total = _reduced(ufunc, x, where, wide)
                if initial is not None:
                    total = ufunc(total, np.asarray(initial).astype(wide))
                if op == "reduce_mean":
                    total = np.true_divide(total, count)
                np.copyto(out, total, casting="unsafe")
            return out

        return run

    return bind


def _few(axes: Axes, x: ArraySpec, output: ArraySpec) -> Callable[[Any], Any] | None:
    """What adds up an array of few numbers, whose axes lie in order; None for others, and where NumPy is as
    fast."""
    now, dtype, shape = get_options(), output.dtype, output.shape
    if dtype.char not in "fdFD" or not x.dtype.isnative or now.provider == "native":
        return None
    if not 0 < x.size < min(MOST, now.small):
        return None
    parts = (2,) if dtype.kind == "c" else ()  # real and imaginary ones, side by side
    total = small_sum((*x.shape, *parts), axes)
    if total is None:
        return None
    wide = accumulator("reduce_sum", dtype)
    if wide == dtype and not parts:
        return lambda x: total(np.ascontiguousarray(x))
    if not parts:
        return lambda x: total(x.astype(wide, order="C")).astype(dtype)

    def of_pairs(x: Any) -> Any:
        x = x.astype(wide, order="C", copy=False)
        return total(x.view(np.float64)).view(wide).reshape(shape).astype(dtype, copy=False)

    return of_pairs


def _reduce_and_round(ufunc: Any, x: Any, axes: Axes, wide: DType, out: Any) -> Any:
    if CONVERTED <= x.size < MOST:
        x = x.astype(wide)  # at once: NumPy converts piece by piece
    np.copyto(out, ufunc.reduce(x, axes, wide), casting="unsafe")
    return out


def _lies_in_order(x: Any) -> bool:
    """Whether the axes lie as in a row-major array, with gaps, so that a copy is soon made."""
    strides = x.strides
    return all(map(operator.ge, strides, strides[1:])) and strides[-1] > 0


def _compiled(
    op: str, attrs: Attrs, x: ArraySpec, output: ArraySpec
) -> Callable[[Any, Any], None] | None:
    """What runs large reductions of x, or None where compiled kernels do not know its dtype."""
    axes = attrs["axes"]
    if x.size == 0:
        return None
    if x.dtype.name in ("float16", "bfloat16"):
        return _compiled_half(op, axes, x)
    body = body_of((x,), (), (0,))
    if body is None:
        return None
    if x.dtype.kind == "c" and op in ("reduce_sum", "reduce_mean"):
        return _compiled_complex(op, axes, x, output)
    reduction = Reduction(ElementwiseFusionPlan((x,), (), (0,), op, axes), body)
    return lambda x, out: reduction((out,), (x,))


def _compiled_half(op: str, axes: Axes, x: ArraySpec) -> Callable[[Any, Any], None]:
    """Half precisions as 16 bits that are widened in registers; the result is rounded once."""
    body = Body((np.dtype(np.uint16),), (f"v1 = widened_{x.dtype.name}(v0)",), ("v1",))
    reduction = Reduction(ElementwiseFusionPlan((x,), (), (0,), op, axes), body)
    (wide,) = reduction.accumulators

    def run(x: Any, out: Any) -> None:
        result = empty(out.shape, wide)
        reduction((result,), (x.view(np.uint16),))
        with np.errstate(all="ignore"):
            np.copyto(out, result, casting="unsafe")

    return run


def _compiled_complex(
    op: str, axes: Axes, x: ArraySpec, output: ArraySpec
) -> Callable[[Any, Any], None]:
    """Sums of complex numbers as sums of real ones, which have vector instructions.

    Where the fastest axis is also that of the result, the parts are one more axis behind it; else they
    are two results of one pass.
    """
    real = real_of(x.dtype)
    pairs = ArraySpec(real, (*x.shape, 2))
    plan = ElementwiseFusionPlan((pairs,), (), (0,), op, axes)
    behind = Reduction(plan, body_of((pairs,), (), (0,)))
    steps = (FusionStep("real", (0,)), FusionStep("imag", (0,)))
    plan = ElementwiseFusionPlan((x,), steps, (1, 2), op, axes)
    both = Reduction(plan, body_of(plan.values(), steps, (1, 2)))

    last_kept = max((axis for axis in range(len(x.shape)) if axis not in axes), default=-1)

    def run(x: Any, out: Any) -> None:
        pace = [(abs(stride) or 1 << 62, -axis) for axis, stride in enumerate(x.strides)]
        fastest = -min(pace, default=(0, 0))[1]
        if fastest != last_kept or x.ndim == MOST_AXES:  # NumPy has none for the parts
            both((out.real, out.imag), (x,))
        elif out.flags.c_contiguous:
            behind((_parts(out),), (_parts(x),))
        else:
            whole = np.empty(out.shape, out.dtype)
            behind((_parts(whole),), (_parts(x),))
            np.copyto(out, whole)

    return run


def _parts(x: Any) -> Any:
    """Real and imaginary parts along a last axis of their own, as a view."""
    real = x.real
    return np.lib.stride_tricks.as_strided(real, (*x.shape, 2), (*x.strides, real.itemsize))


def _turned(x: ArraySpec, axes: Axes) -> tuple[Axes, Shape] | None:
    """How NumPy's loops are made long: it walks short axes in short ones, and a copy with these axes first,
    as one, has long ones. The order of the axes and the copy's shape, or None where that does not pay."""
    count = math.prod(x.shape[axis] for axis in axes)
    is_small = x.size < get_options().small
    if not (len(axes) > 1 and is_small and x.dtype.kind in "fciu" and 0 < count <= FEW <= x.size):
        return None
    kept = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    return (*axes, *kept), (count, *(x.shape[axis] for axis in kept))


def _reduced(ufunc: Any, x: Any, axes: Axes | int, wide: DType) -> Any:
    """The reduction in the accumulator's dtype, by NumPy."""
    keywords: dict[str, Any] = {}
    if ufunc.identity is None and 0 in x.shape:
        keywords["initial"] = _least(ufunc, wide)
    if x.dtype.kind == "V":  # NumPy's reductions do not know the dtypes of ml_dtypes
        x = x.astype(np.float32)
    if x.dtype.kind == "b":
        return ufunc.reduce(x, axis=axes)
    return ufunc.reduce(x, axis=axes, dtype=wide, **keywords)


def _least(ufunc: Any, dtype: DType) -> Any:
    """What max or min of nothing is, before `initial` is taken in."""
    if dtype.kind in "fO":
        return -np.inf if ufunc is np.maximum else np.inf
    info: Any = np.iinfo(dtype)
    return info.min if ufunc is np.maximum else info.max


def reduce_scratch_bytes(x: ArraySpec, axes: Axes, threads: int) -> int:
    """Accumulators of each thread, partial results, and the result before it is rounded."""
    result = math.prod(n for axis, n in enumerate(x.shape) if axis not in axes)
    wide = max(16, x.dtype.itemsize)
    if x.size < get_options().small:
        return wide * result + _copies(x) * x.nbytes + 2 * widened_bytes(x)
    return wide * (LANES * threads + 2 * x.size // PARTIAL + result) + widened_bytes(x)


def _copies(x: ArraySpec) -> int:
    """How often as many bytes as x has are allocated for few elements: in double precision or in order, once
    more where lines are short, and half as much for first sums."""
    if x.size >= MOST:
        return 1  # made of axes one after another, by `_turned`
    return {"e": 4, "f": 5, "F": 5, "d": 3, "D": 3}.get(x.dtype.char, 1)


def widened_bytes(x: ArraySpec) -> int:
    """A copy in float32 of what NumPy's reductions do not know."""
    return 4 * x.size if x.dtype.kind == "V" else 0


def bind_argument(function: Any) -> Callable[..., Kernel]:
    """Bind argmax or argmin: the first extreme index, that of the first NaN where there is one."""

    def bind(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
        axis = attrs["axis"]

        def run(x: Any, out: Any = None) -> Any:
            if out is None:
                out = empty(output.shape, output.dtype)
            if x.dtype.kind == "V":
                x = x.astype(np.float32)
            return _argument(function, np.moveaxis(x, axis, -1), out)

        return run

    return bind


def _argument(function: Any, x: Any, out: Any) -> Any:
    """Along the last axis of x, in blocks: NumPy copies what does not lie contiguous there."""
    if x.size < max(1, get_options().small) or not out.ndim:
        out[...] = function(x, axis=-1)
        return out
    axis = int(np.argmax(out.shape))
    rows, targets = np.moveaxis(x, axis, 0), np.moveaxis(out, axis, 0)
    step = max(1, BLOCK // x.itemsize * len(rows) // x.size)

    def piece(start: int, stop: int) -> None:
        for at in range(start, stop, step):
            part = slice(at, min(at + step, stop))
            block = targets[part]
            for inside in blocks_within(block.shape, BLOCK // x.itemsize // x.shape[-1]):
                block[inside] = function(rows[part][inside], axis=-1)

    parallel_for(piece, len(rows))
    return out

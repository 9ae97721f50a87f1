"""Elementwise ops by NumPy's vectorised loops, cut into pieces for our threads.

`EVALUATE[op](out, *operands)` writes one block; strides are free, shapes are equal. What takes more
than one step is run block by block, so that its temporaries stay in cache: at most `TEMPORARIES`
arrays of `BLOCK` bytes in each thread. Half precisions are computed in float32.
`out` may be an operand itself, but not overlap one otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..._base.options import get_options
from ..catalogue import Attrs
from ..protocol import Kernel
from ..spec import ArraySpec, Shape, compute_dtype
from .buffers import LARGE, empty
from .threads import parallel_for

Evaluate = Callable[..., Any]
BLOCK = 1 << 18  # bytes: a few fit an L2 cache, and threads seldom wait for the interpreter
TEMPORARIES = 4


def bind_elementwise(evaluate: Evaluate) -> Callable[..., Kernel]:
    """Bind an op to what evaluates one block of it."""

    def bind(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
        block = through_float32(evaluate, inputs, output)
        cut = evaluate not in ONE_STEP or block is not evaluate

        is_large = output.nbytes >= LARGE

        def run(*operands: Any, out: Any = None) -> Any:
            if out is None:
                out = _like(operands, output) if is_large else np.empty(output.shape, output.dtype)
            return over_blocks(block, out, operands, cut)

        return run

    return bind


def _like(operands: tuple[Any, ...], output: ArraySpec) -> Any:
    """A new large output, in the memory order of the operands where they agree on one.

    Row-major output of two transposed operands would be written across the order of reading.
    """
    axes = range(len(output.shape))
    orders = {tuple(sorted(axes, key=lambda axis: -abs(x.strides[axis]))) for x in operands}
    order = orders.pop()
    if orders or any(0 in x.strides for x in operands):
        return empty(output.shape, output.dtype)
    out = empty(tuple(output.shape[axis] for axis in order), output.dtype)
    return out.transpose(tuple(order.index(axis) for axis in axes))


def over_blocks(evaluate: Evaluate, out: Any, operands: tuple[Any, ...], cut: bool) -> Any:
    """Run `evaluate(out, *operands)` in parallel pieces; with `cut`, in blocks of bounded size."""
    if out.size < max(1, get_options().small):
        return _at_once(evaluate, out, operands)
    return over_pieces(lambda: evaluate, out, operands, BLOCK if cut else None)


def _at_once(evaluate: Evaluate, out: Any, operands: tuple[Any, ...]) -> Any:
    if out.size or not out.ndim:
        with np.errstate(all="ignore"):
            evaluate(out, *operands)
    return out


def over_pieces(
    begin: Callable[[], Evaluate], out: Any, operands: tuple[Any, ...], block: int | None
) -> Any:
    """The same, in blocks of so many bytes; each piece begins an evaluation that it alone uses, and
    that may hence keep its scratch from block to block.
    """
    if out.size < max(1, get_options().small):
        return _at_once(begin(), out, operands)
    arrays = [out, *operands]
    if all(x.flags.c_contiguous for x in arrays):
        arrays = [x.reshape(-1) for x in arrays]
    axis = int(np.argmax(arrays[0].shape))
    first, *others = (np.moveaxis(x, axis, 0) for x in arrays)
    rows = len(first)
    elements = out.size if block is None else block // max(x.itemsize for x in arrays)
    step = max(1, elements * rows // first.size)

    def piece(start: int, stop: int) -> None:
        run = begin()
        with np.errstate(all="ignore"):  # of this thread: warnings would come from nowhere
            for at in range(start, stop, step):
                part = slice(at, min(at + step, stop))
                target = first[part]
                for inside in blocks_within(target.shape, elements):
                    run(target[inside], *(x[part][inside] for x in others))

    parallel_for(piece, rows)
    return out


def blocks_within(shape: Shape, elements: int) -> Iterator[tuple[Any, ...]]:
    """Indices of pieces of at most so many elements that together cover an array of this shape.

    >>> list(blocks_within((2, 3), 3)) == [(0, ...), (1, ...)]
    True
    """
    lead = 0
    while lead < len(shape) and math.prod(shape[lead:]) > max(1, elements):
        lead += 1
    if lead < len(shape) or not shape:
        for index in np.ndindex(*shape[:lead]):
            yield (*index, ...)
        return
    for index in np.ndindex(*shape[:-1]):  # even the last axis is too long
        for start in range(0, shape[-1], max(1, elements)):
            yield (*index, slice(start, start + max(1, elements)))


def slices_within(shape: Shape, elements: int) -> Iterator[tuple[slice, ...]]:
    """The same pieces, in row-major order, with a slice for every axis.

    >>> list(slices_within((2, 3), 3))
    [(slice(0, 1, None), slice(None, None, None)), (slice(1, 2, None), slice(None, None, None))]
    """
    for index in blocks_within(shape, elements):
        cut = [at if isinstance(at, slice) else slice(at, at + 1) for at in index if at is not ...]
        yield (*cut, *(slice(None),) * (len(shape) - len(cut)))


def through_float32(evaluate: Evaluate, inputs: Sequence[ArraySpec], output: ArraySpec) -> Evaluate:
    """`evaluate` itself, or what widens half precisions for it and rounds its result once.

    NumPy's own loops for float16 widen and round once, too; they serve where an op is one of them.
    """
    wide_enough = all(compute_dtype(spec.dtype) == spec.dtype for spec in inputs)
    if wide_enough or (evaluate in ONE_STEP and all(s.dtype.char in "e?" for s in inputs)):
        return evaluate
    wide = [compute_dtype(spec.dtype) for spec in inputs]
    target = compute_dtype(output.dtype)

    def block(out: Any, *operands: Any) -> None:
        widened = [x.astype(dtype, copy=False) for x, dtype in zip(operands, wide, strict=True)]
        if out.dtype == target:
            evaluate(out, *widened)
        else:
            result = np.empty(out.shape, target)
            evaluate(result, *widened)
            out[...] = result

    return block


# ---- what one block of each op is -------------------------------------------------------------


def _ufunc(ufunc: Any) -> Evaluate:
    def evaluate(out: Any, *operands: Any) -> None:
        ufunc(*operands, out=out)

    ONE_STEP.add(evaluate)
    return evaluate


ONE_STEP: set[Evaluate] = set()


def _one_step(evaluate: Evaluate) -> Evaluate:
    ONE_STEP.add(evaluate)
    return evaluate


def _compare(ufunc: Any) -> Evaluate:
    @_one_step
    def evaluate(out: Any, x: Any, y: Any) -> None:
        if x.dtype.kind == "O":
            out[...] = ufunc(x, y)
        else:
            ufunc(x, y, out=out)

    return evaluate


def _rounded(ufunc: Any) -> Evaluate:
    @_one_step
    def evaluate(out: Any, x: Any) -> None:
        if x.dtype.kind in "iu":  # NumPy < 2.1 would return floats
            out[...] = x
        else:
            ufunc(x, out=out)

    return evaluate


def _divide(out: Any, x: Any, y: Any) -> None:
    if out.dtype.kind not in "iu":
        np.true_divide(x, y, out=out)
        return
    quotient = np.floor_divide(x, y)  # 0 where y is 0
    if out.dtype.kind == "i":
        quotient += (quotient * y != x) & ((x < 0) != (y < 0)) & (y != 0)
    out[...] = quotient


def _power(out: Any, x: Any, y: Any) -> None:
    if out.dtype.kind != "i":
        np.power(x, y, out=out)
        return
    result = np.power(x, np.maximum(y, 0))
    negative = y < 0
    if negative.any():
        unit = np.where(x == -1, 1 - 2 * (y & 1), x == 1)
        result = np.where(negative, unit, result)
    out[...] = result


def _reciprocal(out: Any, x: Any) -> None:
    if out.dtype.kind in "iu":
        out[...] = np.where((x == 1) | (x == -1 if out.dtype.kind == "i" else False), x, 0)
    else:
        np.divide(np.ones((), x.dtype), x, out=out)


def _sign(out: Any, x: Any) -> None:
    if x.dtype.kind != "c":
        np.sign(x, out=out)
        return
    real, imag, modulus = x.real, x.imag, np.absolute(x)
    if np.isinf(modulus).any():
        real, imag, modulus = _shrunk(real, imag, np.isinf(modulus))
    modulus = np.where(modulus == 0, np.ones((), modulus.dtype), modulus)
    # part by part: complex division takes 1 / modulus first, which a subnormal one does not have
    real, imag = real / modulus, imag / modulus
    out.real, out.imag = real, imag


def _shrunk(real: Any, imag: Any, beyond: Any) -> tuple[Any, Any, Any]:
    """Parts in the same direction whose modulus is finite, and that modulus, where it is `beyond`.

    One infinite part outweighs the other; two have no direction, hence NaN.
    """
    endless = np.isinf(real), np.isinf(imag)
    either, both = endless[0] | endless[1], endless[0] & endless[1]
    real, imag = (
        np.where(either, np.copysign(unbounded, part), np.where(beyond, part / 4, part))
        for part, unbounded in zip((real, imag), endless, strict=True)
    )
    return real, imag, np.where(both, np.nan, np.hypot(real, imag))


def _clamp(out: Any, x: Any, low: Any, high: Any) -> None:
    np.minimum(np.maximum(x, low), high, out=out)


def _select(out: Any, pred: Any, x: Any, y: Any) -> None:
    out[...] = np.where(pred, x, y)


@_one_step
def _conj(out: Any, x: Any) -> None:
    if x.dtype.kind in "cO":
        np.conjugate(x, out=out)
    else:
        out[...] = x


@_one_step
def _real(out: Any, x: Any) -> None:
    out[...] = x.real


@_one_step
def _imag(out: Any, x: Any) -> None:
    out[...] = x.imag if x.dtype.kind == "c" else np.zeros((), out.dtype)


def _rsqrt(out: Any, x: Any) -> None:
    np.divide(np.ones((), x.dtype), np.sqrt(x), out=out)


def _log1p(out: Any, x: Any) -> None:
    if x.dtype.kind != "c":
        np.log1p(x, out=out)
        return
    # NumPy's own is log|1 + x| as it stands, of which nothing is left where x is small;
    # |1 + x|**2 = 1 + (a * (2 + a) + b * b) for x = a + bi
    a, b = x.real, x.imag
    near = np.abs(a) + np.abs(b) < 0.5
    real = np.where(near, np.log1p(a * (2 + a) + b * b) / 2, np.log(np.hypot(1 + a, b)))
    imag = np.arctan2(b, 1 + a)
    out.real, out.imag = real, imag


@_one_step
def _erf(out: Any, x: Any) -> None:
    from scipy.special import erf

    erf(x, out=out)


def _round_half_away(out: Any, x: Any) -> None:
    if x.dtype.kind in "iu":
        out[...] = x
        return
    whole = np.trunc(x)  # not trunc(x + 0.5): that rounds 0.49999999999999994 up
    whole += np.copysign(np.abs(x - whole) >= 0.5, x)
    out[...] = np.copysign(whole, x)


EVALUATE: dict[str, Evaluate] = {
    "add": _ufunc(np.add),
    "subtract": _ufunc(np.subtract),
    "multiply": _ufunc(np.multiply),
    "divide": _divide,
    "remainder": _ufunc(np.fmod),
    "power": _power,
    "maximum": _ufunc(np.maximum),
    "minimum": _ufunc(np.minimum),
    "atan2": _ufunc(np.arctan2),
    "bitwise_and": _ufunc(np.bitwise_and),
    "bitwise_or": _ufunc(np.bitwise_or),
    "bitwise_xor": _ufunc(np.bitwise_xor),
    "bitwise_not": _ufunc(np.invert),
    "equal": _compare(np.equal),
    "not_equal": _compare(np.not_equal),
    "less": _compare(np.less),
    "less_equal": _compare(np.less_equal),
    "greater": _compare(np.greater),
    "greater_equal": _compare(np.greater_equal),
    "select": _select,
    "clamp": _clamp,
    "negate": _ufunc(np.negative),
    "reciprocal": _reciprocal,
    "absolute": _ufunc(np.absolute),
    "sign": _sign,
    "conj": _conj,
    "real": _real,
    "imag": _imag,
    "sqrt": _ufunc(np.sqrt),
    "rsqrt": _rsqrt,
    "exp": _ufunc(np.exp),
    "expm1": _ufunc(np.expm1),
    "log": _ufunc(np.log),
    "log1p": _log1p,
    "sin": _ufunc(np.sin),
    "cos": _ufunc(np.cos),
    "tan": _ufunc(np.tan),
    "asin": _ufunc(np.arcsin),
    "acos": _ufunc(np.arccos),
    "atan": _ufunc(np.arctan),
    "sinh": _ufunc(np.sinh),
    "cosh": _ufunc(np.cosh),
    "tanh": _ufunc(np.tanh),
    "erf": _erf,
    "floor": _rounded(np.floor),
    "ceil": _rounded(np.ceil),
    "trunc": _rounded(np.trunc),
    "round": _rounded(np.rint),
    "round_half_away": _round_half_away,
}
"""For each elementwise op, what writes one block of its output; the ops of dtype bool are logical."""

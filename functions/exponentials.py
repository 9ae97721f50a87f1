"""Sums of exponentials that neither overflow nor vanish: logsumexp, softmax, log_softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._base.errors import DTypeError
from ..backend.dtypes import class_of, real_of
from ..backend.spec import Axes, Shape, dtype_name
from ..program.trace import broadcast_shape
from .values import DType, Ops, Out, common, last, operands, several_axes


def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    *,
    out: Any = None,
) -> Any:
    """log of the sum of b exp(a) over axes, for exponents of any size.

    With t the largest a whose weight is not 0 this is t + log(m + r): m is the sum of the weights at t, r
    that of b exp(a - t) elsewhere. Where r is small beside m it is t + log m + log1p(r / m), so that r counts
    however small it is.

    Args:
        a: array of numbers; of complex ones t is the largest real part.
        axis: an axis or several; None: all.
        b: weights, which broadcast with a; elements of weight 0 do not count, be they infinite.
        keepdims: keep the axes, with size 1.
        return_sign: return log |sum| and the sum's sign, or phase; without it negative sums give NaN.
        out: where the logarithm is written.

    Returns:
        array without the axes, -inf where nothing counts; with return_sign (logarithm, sign).

    Raises:
        ShapeError, CallError, DTypeError: no such axis, shapes that do not broadcast, no numbers.

    As `scipy.special.logsumexp`. Half precisions are computed in float32.

    >>> import numpy as np
    >>> logsumexp([1000.0, 1000.0])
    np.float64(1000.6931471805599)
    >>> logsumexp([1.0, 1.0], b=[1, -2], return_sign=True)
    (np.float64(1.0), np.float64(-1.0))
    """
    call = "logsumexp"
    given = (a,) if b is None else (a, b)
    ops, values = operands(call, *given)
    into = Out(call, out, ops)
    dtype = _inexact(call, common(call, values))
    work = _working(dtype)
    shape = broadcast_shape(call, *(x.shape for x in values))
    axes = several_axes(call, axis, len(shape))
    values = [ops.broadcast(ops.convert(x, work), shape) for x in values]
    top, total, near = _sums(ops, *values, axes=axes)
    if return_sign:
        size = ops.op("absolute", total)
        near = None if near is None else (near[0], near[1], ops.op("absolute", near[2]))
    else:
        size = total
        top = ops.convert(top, work)
    found = ops.op("add", _logarithm(ops, size, near), top)
    kept = axes if keepdims else ()
    found = _narrowed(ops, found, dtype if not return_sign else real_of(dtype), kept)
    found = into.finished(found, *given)
    if not return_sign:
        return found
    sign = _narrowed(ops, ops.op("sign", total), dtype, kept)
    return found, Out(call, None, ops).finished(sign, *given)


def _sums(ops: Ops, x: Any, b: Any = None, *, axes: Axes) -> tuple[Any, Any, Any]:
    """t, the sum of b exp(x - t), and of real numbers (where r is small, r / m, m) for the sum m + r."""
    none = _filled(ops, 0, x.dtype, x.shape)
    counts = None if b is None else ops.op("not_equal", b, none)
    level, top, shift = _shift(ops, x, counts, axes)
    terms = ops.op("exp", ops.op("subtract", x, ops.convert(shift, x.dtype)))
    if counts is not None:
        terms = ops.op("select", counts, ops.op("multiply", b, terms), none)
    if x.dtype.kind == "c":
        return top, ops.op("reduce_sum", terms, axes=axes), None
    highest = ops.op("equal", level, shift)
    most = ops.op("reduce_sum", ops.op("select", highest, terms, none), axes=axes)
    rest = ops.op("reduce_sum", ops.op("select", highest, none, terms), axes=axes)
    half = ops.op("multiply", ops.op("absolute", most), _filled(ops, 0.5, x.dtype, most.shape))
    is_small = ops.op("less", ops.op("absolute", rest), half)
    return top, ops.op("add", most, rest), (is_small, ops.op("divide", rest, most), most)


def _shift(ops: Ops, x: Any, counts: Any, axes: Axes) -> tuple[Any, Any, Any]:
    """The real part of x where it counts, its largest along the axes, and that repeated; 0 if not finite."""
    real = real_of(x.dtype)
    level = ops.op("real", x) if x.dtype.kind == "c" else x
    if counts is not None:
        level = ops.op("select", counts, level, _filled(ops, -math.inf, real, x.shape))
    top = ops.op("reduce_max", level, axes=axes, initial=-math.inf)
    infinite = _filled(ops, math.inf, real, top.shape)
    is_finite = ops.op("less", ops.op("absolute", top), infinite)
    top = ops.op("select", is_finite, top, _filled(ops, 0, real, top.shape))
    return level, top, _repeated(ops, top, axes, x.shape)


def _logarithm(ops: Ops, size: Any, near: Any) -> Any:
    """log of the sum: log m + log1p(r / m) where r is small."""
    found = ops.op("log", size)
    if near is None:
        return found
    is_small, ratio, most = near
    fine = ops.op("add", ops.op("log1p", ratio), ops.op("log", most))
    return ops.op("select", is_small, fine, found)


def softmax(x: Any, axis: Any = None, *, out: Any = None) -> Any:
    """exp(x) over its sum along axes: positive numbers whose sum is 1.

    Args:
        x: array of numbers.
        axis: an axis or several; None: all.
        out: where the result is written.

    Returns:
        array of the shape of x; `out` if given.

    Raises:
        ShapeError, CallError, DTypeError: no such axis, no numbers, or `out` does not fit.

    As `scipy.special.softmax`. Half precisions are computed in float32.

    >>> softmax([0.0, 0.0])
    array([0.5, 0.5])
    """
    ops, into, dtype, terms, axes = _terms("softmax", x, axis, out)
    terms = ops.op("exp", terms)
    total = _repeated(ops, ops.op("reduce_sum", terms, axes=axes), axes, terms.shape)
    return _final(ops, into, dtype, "divide", terms, total, x)


def log_softmax(x: Any, axis: Any = None, *, out: Any = None) -> Any:
    """The logarithm of `softmax`, right also where that vanishes: x - logsumexp(x).

    Arguments, result and errors are those of `softmax`. As `scipy.special.log_softmax`.

    >>> log_softmax([0.0, 1000.0])
    array([-1000.,     0.])
    """
    ops, into, dtype, terms, axes = _terms("log_softmax", x, axis, out)
    total = ops.op("log", ops.op("reduce_sum", ops.op("exp", terms), axes=axes))
    return _final(ops, into, dtype, "subtract", terms, _repeated(ops, total, axes, terms.shape), x)


def _terms(call: str, x: Any, axis: Any, out: Any) -> tuple[Ops, Out, DType, Any, Axes]:
    """x - t for the largest t along the axes."""
    ops, (value,) = operands(call, x)
    into, dtype = Out(call, out, ops), _inexact(call, value.dtype)
    axes = several_axes(call, axis, len(value.shape))
    value = ops.convert(value, _working(dtype))
    _, _, shift = _shift(ops, value, None, axes)
    return ops, into, dtype, ops.op("subtract", value, ops.convert(shift, value.dtype)), axes


def _final(ops: Ops, into: Out, dtype: DType, op: str, x: Any, y: Any, given: Any) -> Any:
    fits = dtype == x.dtype and into.fits(x.shape, dtype, x, y)
    found = last(ops, into, into.array if fits else None, op, x, y)
    return into.finished(ops.convert(found, dtype), given)


# ---- dtypes and shapes ---------------------------------------------------------------------------


def _inexact(call: str, dtype: DType) -> DType:
    """The dtype of logarithms: float64 for integers."""
    kind = class_of(dtype)
    if kind in ("bool", "int", "uint"):
        return np.dtype(np.float64)
    if kind not in ("float", "complex"):
        raise DTypeError(
            f"{call}: operands of {dtype_name(dtype)}; convert them to float or complex"
        )
    return dtype


def _working(dtype: DType) -> DType:
    return np.dtype(np.float32) if dtype.name in ("float16", "bfloat16") else dtype


def _filled(ops: Ops, value: float, dtype: DType, shape: Shape) -> Any:
    return ops.broadcast(ops.constant(value, dtype), shape)


def _repeated(ops: Ops, x: Any, axes: Axes, shape: Shape) -> Any:
    """x with the axes that were reduced, repeated along them."""
    x = ops.op("expand_dims", x, axes=axes) if axes else x
    return ops.broadcast(x, shape)


def _narrowed(ops: Ops, x: Any, dtype: DType, kept: Axes) -> Any:
    x = ops.convert(x, dtype)
    return ops.op("expand_dims", x, axes=kept) if kept else x

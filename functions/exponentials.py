"""Sums of exponentials that neither overflow nor vanish: logsumexp, softmax, log_softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._base.errors import DTypeError
from ..backend.dtypes import class_of, real_of
from ..backend.spec import Axes, Shape, dtype_name
from ..program.trace import Session, Traced, broadcast_shape
from .values import DType, Out, Record, common, evaluated, operands, several_axes


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
        return_sign: return the logarithm of the sum's absolute value, and its sign or phase; without it
            negative sums give NaN.
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
    values = operands(call, *given)
    into, dtype = Out(call, out, values), _inexact(call, common(call, values))
    shape = broadcast_shape(call, *(x.shape for x in values))
    axes = several_axes(call, axis, len(shape))
    settings = (axes, dtype, bool(keepdims))
    if return_sign:
        found, sign = evaluated(_size_and_sign, values, *settings, several=True)
        return into.finished(found, *given), Out(call, None).finished(sign, *given)
    kept = tuple(1 if k in axes else n for k, n in enumerate(shape) if keepdims or k not in axes)
    place = into.place(kept, dtype, *values)
    return into.finished(evaluated(_logarithm, values, *settings, out=place), *given)


def _logarithm(session: Session, a: Traced, *rest: Any) -> Traced:
    *weights, axes, dtype, keepdims = rest
    top, total, near = _sums(session, (a, *weights), axes, dtype)
    found = session.op("add", _log(session, total, near), session.convert(top, total.dtype))
    return _narrowed(session, found, dtype, axes if keepdims else ())


def _size_and_sign(session: Session, a: Traced, *rest: Any) -> tuple[Traced, Traced]:
    *weights, axes, dtype, keepdims = rest
    top, total, near = _sums(session, (a, *weights), axes, dtype)
    if near is not None:
        near = (near[0], near[1], session.op("absolute", near[2]))
    found = session.op("add", _log(session, session.op("absolute", total), near), top)
    kept = axes if keepdims else ()
    return (
        _narrowed(session, found, real_of(dtype), kept),
        _narrowed(session, session.op("sign", total), dtype, kept),
    )


def _sums(
    session: Session, values: Sequence[Traced], axes: Axes, dtype: DType
) -> tuple[Any, Any, Any]:
    """t, the sum of b exp(x - t), and of real numbers (where r is small, r / m, m) for the sum m + r."""
    shape = broadcast_shape("logsumexp", *(x.shape for x in values))
    x, *weights = (session.broadcast(session.convert(v, _working(dtype)), shape) for v in values)
    none = _filled(session, 0, x.dtype, x.shape)
    counts = session.op("not_equal", weights[0], none) if weights else None
    level, top, shift = _shift(session, x, counts, axes)
    terms = session.op("exp", session.op("subtract", x, session.convert(shift, x.dtype)))
    if counts is not None:
        terms = session.op("select", counts, session.op("multiply", weights[0], terms), none)
    if x.dtype.kind == "c":
        return top, session.op("reduce_sum", terms, axes=axes), None
    highest = session.op("equal", level, shift)
    most = session.op("reduce_sum", session.op("select", highest, terms, none), axes=axes)
    rest = session.op("reduce_sum", session.op("select", highest, none, terms), axes=axes)
    half = session.op(
        "multiply", session.op("absolute", most), _filled(session, 0.5, x.dtype, most.shape)
    )
    is_small = session.op("less", session.op("absolute", rest), half)
    return top, session.op("add", most, rest), (is_small, session.op("divide", rest, most), most)


def _shift(session: Session, x: Any, counts: Any, axes: Axes) -> tuple[Any, Any, Any]:
    """The real part of x where it counts, its largest along the axes, and that repeated; 0 if not finite."""
    real = real_of(x.dtype)
    level = session.op("real", x) if x.dtype.kind == "c" else x
    if counts is not None:
        level = session.op("select", counts, level, _filled(session, -math.inf, real, x.shape))
    top = session.op("reduce_max", level, axes=axes, initial=-math.inf)
    infinite = _filled(session, math.inf, real, top.shape)
    is_finite = session.op("less", session.op("absolute", top), infinite)
    top = session.op("select", is_finite, top, _filled(session, 0, real, top.shape))
    return level, top, _repeated(session, top, axes, x.shape)


def _log(session: Session, size: Any, near: Any) -> Any:
    """log of the sum: log m + log1p(r / m) where r is small."""
    found = session.op("log", size)
    if near is None:
        return found
    is_small, ratio, most = near
    fine = session.op("add", session.op("log1p", ratio), session.op("log", most))
    return session.op("select", is_small, fine, found)


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
    return _over("softmax", _softmax, x, axis, out)


def log_softmax(x: Any, axis: Any = None, *, out: Any = None) -> Any:
    """The logarithm of `softmax`, right also where that vanishes: x - logsumexp(x).

    Arguments, result and errors are those of `softmax`. As `scipy.special.log_softmax`.

    >>> log_softmax([0.0, 1000.0])
    array([-1000.,     0.])
    """
    return _over("log_softmax", _log_softmax, x, axis, out)


def _over(call: str, record: Record, x: Any, axis: Any, out: Any) -> Any:
    (value,) = operands(call, x)
    into, dtype = Out(call, out, (value,)), _inexact(call, value.dtype)
    axes = several_axes(call, axis, len(value.shape))
    place = into.place(value.shape, dtype, value)
    return into.finished(evaluated(record, (value,), axes, dtype, out=place), x)


def _softmax(session: Session, x: Traced, axes: Axes, dtype: DType) -> Traced:
    terms = session.op("exp", _lowered(session, x, axes, dtype))
    total = _repeated(session, session.op("reduce_sum", terms, axes=axes), axes, terms.shape)
    return session.convert(session.op("divide", terms, total), dtype)


def _log_softmax(session: Session, x: Traced, axes: Axes, dtype: DType) -> Traced:
    terms = _lowered(session, x, axes, dtype)
    total = session.op("log", session.op("reduce_sum", session.op("exp", terms), axes=axes))
    found = session.op("subtract", terms, _repeated(session, total, axes, terms.shape))
    return session.convert(found, dtype)


def _lowered(session: Session, x: Traced, axes: Axes, dtype: DType) -> Traced:
    """x - t for the largest t along the axes."""
    x = session.convert(x, _working(dtype))
    _, _, shift = _shift(session, x, None, axes)
    return session.op("subtract", x, session.convert(shift, x.dtype))


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


def _filled(session: Session, value: float, dtype: DType, shape: Shape) -> Any:
    return session.broadcast(session.constant(value, dtype), shape)


def _repeated(session: Session, x: Any, axes: Axes, shape: Shape) -> Any:
    """x with the axes that were reduced, repeated along them."""
    x = session.op("expand_dims", x, axes=axes) if axes else x
    return session.broadcast(x, shape)


def _narrowed(session: Session, x: Any, dtype: DType, kept: Axes) -> Any:
    x = session.convert(x, dtype)
    return session.op("expand_dims", x, axes=kept) if kept else x

"""Transforms of traced values: they become instructions of the program that is recorded.

Transforms of a program are unnormalised. What `norm` asks for is a product with a constant behind the
transform, or with what the sizes give where they are known later; padding and cutting is a `pad` before it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._base.errors import CallError, DTypeError, ShapeError
from ..backend.dims import DimExpr, as_size, exceeds
from ..backend.spec import Axes
from ..program.trace import Session, Traced
from . import family
from .arguments import norm_code, position, positions
from .plans import KINDS

WIDE = {"float16": "float32", "bfloat16": "float32"}


def check_plain(call: str, overwrite_x: bool, out: Any, plan: Any) -> None:
    if overwrite_x or out is not None:
        raise CallError(f"{call}(out=..., overwrite_x=...): a traced value cannot be written into")
    if plan is not None:
        raise CallError(f"{call}(plan=...): inside trace the program is the plan; leave it out")


def transformed(
    call: str, x: Traced, n: Any, axis: Any, norm: Any, type_: int, orthogonalize: Any
) -> Traced:
    """Append a transform to the trace of x; `call` is the name of the public function."""
    session = x.session
    session.slot(x, f"{call}: x")
    base = call.rstrip("n2")
    kind, forward = KINDS[base]
    axes, lengths = _axes(call, x, n, axis)
    x = _numbers(call, kind, x, session)
    if kind == "c2r":
        known = n is not None
        last = lengths[-1] if known else 2 * (x.shape[axes[-1]] - 1)
        lengths = (*lengths[:-1], last // 2 + 1)
        _check_lengths(call, (*lengths, last))
    _check_lengths(call, lengths)
    x = _fitted(x, axes, lengths, session)
    code = norm_code(norm, forward, call)
    if kind in ("dct", "dst"):
        return family.record(kind, x, axes, type_, code, orthogonalize)
    total = math.prod((*lengths[:-1], last) if kind == "c2r" else lengths)
    if kind == "c2r":
        x = session.op("conj", x) if forward else x
        y = session.op("irfft", x, axes=axes, n=last)
    elif kind == "r2c":
        y = session.op("rfft", x, axes=axes)
    else:
        y = session.op("fft" if forward else "ifft", x, axes=axes)
    if code:
        y = _divided(y, total, code, x if kind == "r2c" else y, axes, session)
    return session.op("conj", y) if kind == "r2c" and not forward else y


def _axes(call: str, x: Traced, n: Any, axis: Any) -> tuple[Axes, tuple[Any, ...]]:
    if not call.endswith(("n", "2")):
        k = position(axis, x.ndim, call)
        return (k,), (x.shape[k] if n is None else as_size(n),)
    if n is None:
        return positions(None, axis, x.shape, call)
    s = [as_size(size) for size in (n if isinstance(n, (tuple, list)) else (n,))]
    marks, _ = positions([1] * len(s), axis, x.shape, call)
    pairs = zip(s, marks, strict=True)
    return marks, tuple(x.shape[k] if type(m) is int and m == -1 else m for m, k in pairs)


def _check_lengths(call: str, lengths: tuple[Any, ...]) -> None:
    if not lengths:
        raise ShapeError(f"{call}(axes=()): inside trace at least 1 axis must be transformed")
    if any(exceeds(1, size) for size in lengths):
        raise ShapeError(f"{call}: invalid number of data points {lengths} specified")


def _numbers(call: str, kind: str, x: Traced, session: Session) -> Traced:
    if x.dtype.kind == "c":
        if kind in ("r2c", "dct", "dst"):
            raise DTypeError(f"{call}: x must be a real sequence, got {x!r}")
        return x
    if x.dtype.kind != "f" or x.dtype.name in WIDE:
        x = session.convert(x, np.dtype(WIDE.get(x.dtype.name, "float64")))
    complex_of = {"float32": "complex64", "float64": "complex128", "longdouble": "clongdouble"}
    if kind == "c2r":
        name = "longdouble" if x.dtype.char == "g" else x.dtype.name
        return session.convert(x, np.dtype(complex_of[name]))
    return x


def _fitted(x: Traced, axes: Axes, lengths: tuple[Any, ...], session: Session) -> Traced:
    high: list[Any] = [0] * x.ndim
    for axis, size in zip(axes, lengths, strict=True):
        high[axis] = size - x.shape[axis]
    if all(type(n) is int and n == 0 for n in high):
        return x
    none = (0,) * x.ndim
    return session.op("pad", x, low=none, high=tuple(high), interior=none, value=0)


def _divided(
    y: Traced, total: Any, code: int, source: Traced, axes: Axes, session: Session
) -> Traced:
    """y / total, or y / sqrt(total); where that is known later, sizes are read off `source`."""
    if not isinstance(total, DimExpr):
        return y * (1 / total if code == 2 else 1 / math.sqrt(total))
    number = session.op("shape_of", source, axis=axes[0])
    for axis in axes[1:]:
        number = session.op("multiply", number, session.op("shape_of", source, axis=axis))
    number = session.convert(number, np.dtype(np.float64))
    number = session.op("sqrt", number) if code == 1 else number
    number = session.convert(number, y.dtype)
    return session.op("divide", y, session.broadcast(number, y.shape))

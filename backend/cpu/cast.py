"""Conversions between dtypes: `convert` loses nothing, `cast` saturates, wraps or drops."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from ..._base.errors import DTypeError
from ..catalogue import Attrs
from ..dtypes import class_of, integer_range
from ..protocol import Kernel
from ..spec import ArraySpec, is_lowprec
from .buffers import empty
from .elementwise import Evaluate, over_blocks

FEW = 1 << 14  # elements that are converted at once, without a look at threads or blocks
WIDER = frozenset(a + b for a in "biufc" for b in "biufc")  # kinds of dtypes that NumPy knows


def bind_cast(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """out = x in another dtype; see `evaluate_cast` for what is lost and how."""
    source, target = inputs[0].dtype, output.dtype
    evaluate, cut = evaluate_cast(source, target)
    # nothing is lost, so that nothing can warn
    is_brief = (
        output.size < FEW and source.kind + target.kind in WIDER and np.can_cast(source, target)
    )

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        if is_brief:
            np.copyto(out, x)
            return out
        return over_blocks(evaluate, out, (x,), cut)

    return run


def evaluate_cast(source: np.dtype[Any], target: np.dtype[Any]) -> tuple[Evaluate, bool]:
    """What writes one block, and whether it needs temporaries.

    Floats go to integers by truncation, those out of range to the nearest end, NaN to 0. Integers wrap.
    Complex numbers keep their real part. Anything but 0 is True. What is too large for a float is inf.
    Python's numbers, of dtype object, saturate as floats do, the integers among them too.
    """
    if source.kind == "O" and target.kind != "O":
        return _of_objects(target), True
    if source.kind == "c" and target.kind not in "cO" and target.kind != "b":
        of_real, _ = evaluate_cast(np.dtype(source.char.lower()), target)
        return (lambda out, x: of_real(out, x.real)), True
    is_float = class_of(source) == "float" or source.name.startswith("float8")
    if is_float and integer_range(target) is not None:
        return _saturating(target), True
    if is_lowprec(source) and is_lowprec(target) and source != target:
        return (lambda out, x: _assign(out, x.astype(np.float32))), True
    return _assign, False


def _assign(out: Any, x: Any) -> None:
    np.copyto(out, x, casting="unsafe")


def _saturating(target: np.dtype[Any]) -> Evaluate:
    bounds = integer_range(target)
    assert bounds is not None
    low, high = bounds
    carrier = target if target.kind in "iu" else np.dtype(np.int8)

    def evaluate(out: Any, x: Any) -> None:
        if x.dtype.itemsize < 4:  # a half precision cannot hold the bounds
            x = x.astype(np.float32)
        inside = np.where(x == x, np.clip(x, low, float(high + 1)), 0)  # high + 1: a power of two
        whole = inside.astype(carrier)  # of high + 1 it is undefined, and mended next
        whole[x >= float(high + 1)] = high
        out[...] = whole

    return evaluate


# ---- Python's numbers -------------------------------------------------------------------------


def _of_objects(target: np.dtype[Any]) -> Evaluate:
    bounds = integer_range(target)
    if bounds is not None:
        return _one_by_one(lambda x: _whole(x, *bounds), target if target.kind in "iu" else np.int8)
    if target.kind == "b":
        return _one_by_one(bool, target)
    carrier = np.dtype(np.float64) if is_lowprec(target) else target
    return _one_by_one(_complex if target.kind == "c" else _float, carrier)


def _one_by_one(convert: Callable[[Any], Any], carrier: Any) -> Evaluate:
    def number(x: Any) -> Any:
        if not _is_number(x):
            raise _no_number(x)
        try:
            return convert(x)
        except (TypeError, ValueError):
            raise _no_number(x) from None

    def evaluate(out: Any, x: Any) -> None:
        numbers = np.fromiter((number(item) for item in x.flat), carrier, x.size)
        _assign(out, numbers.reshape(x.shape))

    return evaluate


def _is_number(x: Any) -> bool:
    """Strings of digits are none, though int() and float() read them."""
    if isinstance(
        x, np.generic
    ):  # all of NumPy's scalars have __float__, its strings and dates too
        return class_of(x.dtype) not in ("object", "other")
    return isinstance(x, Number) or hasattr(x, "__float__") or hasattr(x, "__index__")


def _no_number(x: Any) -> DTypeError:
    return DTypeError(
        f"cast: the operand has dtype object and holds a {type(x).__module__}."
        f"{type(x).__qualname__} that is no number; replace it first"
    )


def _whole(x: Any, low: int, high: int) -> int:
    x = _real(x)
    if x != x:
        return 0
    try:
        return min(max(int(x), low), high)
    except OverflowError:  # infinite
        return high if x > 0 else low


def _float(x: Any) -> Any:
    x = _real(x)
    if isinstance(x, np.longdouble):  # float() would round it
        return x
    try:
        return float(x)
    except OverflowError:  # a large integer
        return float("inf") if x > 0 else -float("inf")


def _complex(x: Any) -> Any:
    if isinstance(x, (np.longdouble, np.clongdouble)):
        return x
    return complex(x) if isinstance(x, (complex, np.complexfloating)) else complex(_float(x))


def _real(x: Any) -> Any:
    return x.real if isinstance(x, (complex, np.complexfloating)) else x

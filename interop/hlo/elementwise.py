"""Elementwise ops in StableHLO: those of its own, and those that are made of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backend.catalogue import Attrs
from ...backend.vocabulary import STABLEHLO
from .text import BOOL, DType, Rule, Specs, Text, Value, Values

DIRECT = (
    "add", "subtract", "multiply", "maximum", "minimum", "atan2", "bitwise_and",
    "bitwise_or", "bitwise_xor", "select", "negate", "sqrt", "rsqrt", "exp", "expm1", "log",
    "log1p", "sin", "cos", "tan", "tanh", "bitwise_not",
)  # fmt: skip
COMPARISONS = {
    "equal": "EQ",
    "not_equal": "NE",
    "less": "LT",
    "less_equal": "LE",
    "greater": "GT",
    "greater_equal": "GE",
}
ROUNDINGS = ("floor", "ceil", "round", "round_half_away")


def direct(op: str) -> Rule:
    """The op of StableHLO that has the same law."""

    def rule(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
        return text.op(STABLEHLO[op], *xs, dtype=specs[0].dtype)

    return rule


def comparison(direction: str) -> Rule:
    def rule(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
        return text.compare(direction, *xs)

    return rule


def one(build: Callable[[Text, Value], Value]) -> Rule:
    """A rule of one operand."""

    def rule(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
        return build(text, xs[0])

    return rule


def same(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """Values are immutable there: what is a view or a copy here is the operand itself."""
    return xs[0]


# ---- arithmetic -------------------------------------------------------------------------------


def divide(text: Text, x: Value, y: Value) -> Value:
    """x / 0 = 0 for integers, and the smallest integer over -1 wraps: StableHLO defines neither."""
    if x.dtype.kind not in "iu":
        return text.op("divide", x, y)
    zero = text.compare("EQ", y, text.like(0, y))
    quotient = text.op("divide", x, safe(text, y))
    if x.dtype.kind == "i":
        minus = text.compare("EQ", y, text.like(-1, y))
        quotient = text.select(minus, text.op("negate", x), quotient)
    return text.select(zero, text.like(0, x), quotient)


def safe(text: Text, y: Value) -> Value:
    """A divisor with 1 in place of 0 and -1."""
    found = text.compare("EQ", y, text.like(0, y))
    if y.dtype.kind == "i":
        found = text.op("or", found, text.compare("EQ", y, text.like(-1, y)))
    return text.select(found, text.like(1, y), y)


def _divide(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return divide(text, *xs)


def _remainder(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    x, y = xs
    return text.op("remainder", x, safe(text, y) if y.dtype.kind in "iu" else y)


def _power(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """Of integers by squares, one for each bit of the exponent: StableHLO leaves overflow open."""
    x, y = xs
    if x.dtype.kind not in "iu":
        return text.op("power", x, y)
    unit, zero = text.like(1, x), text.like(0, x)
    found, square, rest = unit, x, y
    for _ in range(8 * x.dtype.itemsize):
        odd = text.compare("NE", text.op("and", rest, unit), zero)
        found = text.select(odd, text.op("multiply", found, square), found)
        square = text.op("multiply", square, square)
        rest = text.op("shift_right_logical", rest, unit)
    if x.dtype.kind == "u":
        return found
    minus = text.compare("EQ", x, text.like(-1, x))
    kept = text.op("or", text.compare("EQ", x, unit), minus)  # whose powers are their own inverses
    drop = text.op("and", text.compare("LT", y, zero), text.op("not", kept))
    return text.select(drop, zero, found)


def _clamp(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    x, low, high = xs
    return text.op("minimum", text.op("maximum", x, low), high)


def _reciprocal(text: Text, x: Value) -> Value:
    return divide(text, text.like(1, x), x)


def _absolute(text: Text, x: Value) -> Value:
    kind = x.dtype.kind
    return x if kind == "u" else text.op("abs", x, dtype=real_of(x.dtype))


def _sign(text: Text, x: Value) -> Value:
    return text.op("minimum", x, text.like(1, x)) if x.dtype.kind == "u" else text.op("sign", x)


# ---- complex numbers --------------------------------------------------------------------------


def real_of(dtype: DType) -> DType:
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def real(text: Text, x: Value) -> Value:
    return text.op("real", x, dtype=real_of(x.dtype)) if x.dtype.kind == "c" else x


def imag(text: Text, x: Value) -> Value:
    if x.dtype.kind != "c":
        return text.like(0, x)
    return text.op("imag", x, dtype=real_of(x.dtype))


def conj(text: Text, x: Value) -> Value:
    if x.dtype.kind != "c":
        return x
    return text.op("complex", real(text, x), text.op("negate", imag(text, x)), dtype=x.dtype)


# ---- functions that StableHLO has not ----------------------------------------------------------


def _atan(text: Text, x: Value) -> Value:
    return text.op("atan2", x, text.like(1, x))


def _leg(text: Text, x: Value) -> Value:
    """sqrt(1 - x**2)."""
    unit = text.like(1, x)
    return text.op(
        "sqrt", text.op("multiply", text.op("subtract", unit, x), text.op("add", unit, x))
    )


def _asin(text: Text, x: Value) -> Value:
    return text.op("atan2", x, _leg(text, x))


def _acos(text: Text, x: Value) -> Value:
    return text.op("atan2", _leg(text, x), x)


def _sinh(text: Text, x: Value) -> Value:
    """(u + u / (u + 1)) / 2 with u = exp(|x|) - 1, in halves that do not overflow early; the sign of x."""
    size, unit = text.op("abs", x), text.like(1, x)
    u = text.op("exponential_minus_one", size)
    near = text.op("add", u, text.op("divide", u, text.op("add", u, unit)))
    near = text.op("multiply", near, text.like(0.5, x))
    far = text.op("exponential", text.op("subtract", size, text.like(np.log(2.0), x)))
    found = text.select(text.compare("LT", size, text.like(10.0, x)), near, far)
    return text.select(text.compare("LT", x, text.like(0, x)), text.op("negate", found), found)


def _cosh(text: Text, x: Value) -> Value:
    shift = text.like(np.log(2.0), x)
    right = text.op("exponential", text.op("subtract", x, shift))
    left = text.op("exponential", text.op("subtract", text.op("negate", x), shift))
    return text.op("add", right, left)


COMPOSED: dict[str, Callable[[Text, Value], Value]] = {
    "asin": _asin,
    "acos": _acos,
    "atan": _atan,
    "sinh": _sinh,
    "cosh": _cosh,
}
"""Of real numbers; complex ones have cuts that these formulas miss."""


# ---- rounding, conversion -----------------------------------------------------------------------


def _trunc(text: Text, x: Value) -> Value:
    if x.dtype.kind in "iu":
        return x
    up, down = text.op("ceil", x), text.op("floor", x)
    return text.select(text.compare("LT", x, text.like(0, x)), up, down)


def rounding(op: str) -> Rule:
    """Integers are rounded already."""

    def rule(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
        return xs[0] if xs[0].dtype.kind in "iu" else text.op(STABLEHLO[op], xs[0])

    return rule


def convert(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """Floats saturate to integers and NaN is 0; complex numbers keep their real parts."""
    x, dtype = xs[0], specs[0].dtype
    if dtype == BOOL and x.dtype != BOOL:
        return text.compare("NE", x, text.like(0, x))
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = real(text, x)
    if dtype.kind in "iu" and x.dtype.kind not in "biu":
        return _saturated(text, x, dtype)
    return text.convert(x, dtype)


def _saturated(text: Text, x: Value, dtype: DType) -> Value:
    bounds: Any = np.iinfo(dtype)
    inside = text.convert(x, dtype)
    low, high = text.full(bounds.min, dtype, x.shape), text.full(bounds.max, dtype, x.shape)
    below = text.compare("LE", x, text.like(float(bounds.min), x))
    above = text.compare("GE", x, text.like(float(bounds.max + 1), x))
    found = text.select(above, high, text.select(below, low, inside))
    return text.select(text.compare("EQ", x, x), found, text.full(0, dtype, x.shape))


RULES: dict[str, Rule] = {
    **{op: direct(op) for op in DIRECT},
    **{op: comparison(direction) for op, direction in COMPARISONS.items()},
    **{op: rounding(op) for op in ROUNDINGS},
    **{op: one(build) for op, build in COMPOSED.items()},
    **dict.fromkeys(("identity", "copy", "contiguous"), same),
    **dict.fromkeys(("convert", "cast"), convert),
    "divide": _divide,
    "power": _power,
    "remainder": _remainder,
    "clamp": _clamp,
    "reciprocal": one(_reciprocal),
    "absolute": one(_absolute),
    "sign": one(_sign),
    "conj": one(conj),
    "real": one(real),
    "imag": one(imag),
    "trunc": one(_trunc),
}

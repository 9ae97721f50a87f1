"""What every elementwise op means on single numbers, and the way from array elements to them and back.

Elements become Python's own numbers: bool, int, exact `Decimal`, pairs of them for complex numbers, or
the object itself. The result is rounded once, to the nearest element of the output's dtype.
"""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from tests.backend import series
from tests.backend.series import CONTEXT, NAN, ONE, ZERO, Z

from einloom.backend.dtypes import class_of

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]


# ---- from elements to numbers, and back ----------------------------------------------------------


def number(x: Any, dtype: DType) -> Any:
    """One element, as `tolist` gives it, as a number."""
    if dtype.kind == "c":
        return Z(_decimal(x.real), _decimal(x.imag))
    if class_of(dtype) == "float" or (class_of(dtype) == "storage" and "int" not in dtype.name):
        return _decimal(x)
    return x


def _decimal(x: Any) -> Decimal:
    if float(x) == x:
        return Decimal(float(x))
    if not np.isfinite(x) or x == 0:
        return Decimal(str(x))
    numerator, denominator = x.as_integer_ratio()  # long double
    return Decimal(numerator) / Decimal(denominator)


def element(x: Any, dtype: DType) -> Any:
    """The element of `dtype` nearest to a number; integers modulo 2**bits."""
    kind = class_of(dtype)
    if kind == "float" or (kind == "storage" and "int" not in dtype.name):
        return nearest(x if isinstance(x, Decimal) else Decimal(x), dtype)
    if kind == "complex":
        x = x if isinstance(x, Z) else Z(Decimal(x), ZERO)
        real = np.zeros((), dtype).real.dtype
        out = np.zeros((), dtype)
        out.real, out.imag = nearest(x.re, real), nearest(x.im, real)
        return out[()]
    if kind in ("int", "uint", "storage"):
        low, high = bounds(dtype)
        return (int(x) - low) % (high - low + 1) + low
    return bool(x) if kind == "bool" else x


def bounds(dtype: DType) -> tuple[int, int]:
    """Least and largest value of an integer dtype."""
    info = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def nearest(x: Decimal, dtype: DType) -> Any:
    """The float nearest to x, half to even: overflow gives infinity (NaN where there is none)."""
    if not x.is_finite() or x == 0:
        return np.longdouble(str(x)).astype(dtype)
    info = np.finfo(dtype) if dtype.char in "efdg" else ml_dtypes.finfo(dtype)
    numerator, denominator = x.as_integer_ratio()
    exponent = abs(numerator).bit_length() - denominator.bit_length()
    if abs(numerator) << max(0, -exponent) < denominator << max(0, exponent):
        exponent -= 1  # now 2**exponent <= |x| < 2**(exponent + 1)
    quantum = max(exponent, int(info.minexp)) - int(info.nmant)
    whole, rest = divmod(numerator << max(0, -quantum), scaled := denominator << max(0, quantum))
    whole += 2 * rest > scaled or (2 * rest == scaled and whole % 2)
    with np.errstate(over="ignore"):
        value = np.ldexp(np.longdouble(whole), quantum)
        return np.copysign(value, -1 if numerator < 0 else 1).astype(dtype)


KINDS = {"bool": "b", "int": "i", "uint": "i", "float": "f", "complex": "c"}


def apply(op: str, arrays: Sequence[Array], dtype: DType) -> Array:
    """`op` on every element, one after another."""
    shape = arrays[0].shape
    out = np.zeros(shape, dtype)
    kind = KINDS.get(class_of(arrays[-1].dtype), "O")
    with decimal.localcontext(CONTEXT):
        columns = [[number(v, x.dtype) for v in x.ravel().tolist()] for x in arrays]
        results = [SCALARS[op](kind, *row) for row in zip(*columns, strict=True)]
        for i, value in zip(np.ndindex(*shape), results, strict=True):
            out[i] = element(value, dtype)
    return out


# ---- the ops ------------------------------------------------------------------------------------

Scalar = Callable[..., Any]
SCALARS: dict[str, Scalar] = {}
ELEMENTARY = ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
              "cosh", "tanh", "erf")  # fmt: skip
FUNCTIONS = frozenset((*ELEMENTARY, "power", "atan2", "rsqrt"))
"""Ops that may be off by a few spacings; the others yield the element nearest to the number."""


def by_kind(op: str, otherwise: Scalar, **kinds: Scalar) -> None:
    """A rule takes the kind of the data (b, i, f, c or O), then one number for each operand."""
    SCALARS[op] = lambda kind, *numbers: kinds.get(kind, otherwise)(*numbers)


def truncated(x: int, y: int) -> int:
    """x / y without its fraction; 0 where y is 0."""
    if y == 0:
        return 0
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def power_of_integers(x: int, y: int) -> int:
    """Modulo 2**64, which every width divides."""
    if y >= 0:
        return pow(x, y, 1 << 64)
    return {1: 1, -1: 1 - 2 * (y % 2)}.get(x, 0)


def larger(x: Any, y: Any) -> Any:
    return NAN if x != x or y != y else (x if x > y else y)


def smaller(x: Any, y: Any) -> Any:
    return NAN if x != x or y != y else (x if x < y else y)


def remainder(x: Decimal, y: Decimal) -> Decimal:
    """x - y * trunc(x / y); the quotient may have thousands of digits."""
    if x.is_nan() or y.is_nan() or x.is_infinite() or y == 0:
        return NAN
    if y.is_infinite() or x == 0:
        return x
    rest = abs(Fraction(x)) % abs(Fraction(y))
    return (Decimal(rest.numerator) / Decimal(rest.denominator)).copy_sign(x)


def sign(x: Any) -> Any:
    size = abs(x)
    if isinstance(x, Z):
        return x if size == 0 else Z(x.re / size, x.im / size)
    return x if x == 0 or x != x else (ONE if x > 0 else -ONE)


def rounded(how: str) -> Scalar:
    return lambda x: x.to_integral_value(rounding=how)


def itself(x: Any) -> Any:
    return x


by_kind("add", operator.add, b=operator.or_)
by_kind("subtract", operator.sub)
by_kind("multiply", operator.mul, b=operator.and_)
by_kind("divide", operator.truediv, i=truncated)
by_kind("remainder", remainder, i=lambda x, y: x - y * truncated(x, y) if y else 0)
by_kind("power", series.power, i=power_of_integers, O=operator.pow)
by_kind("maximum", larger)
by_kind("minimum", smaller)
by_kind("atan2", series.angle)
by_kind("bitwise_and", operator.and_)
by_kind("bitwise_or", operator.or_)
by_kind("bitwise_xor", operator.xor)
by_kind("bitwise_not", operator.invert, b=operator.not_)
by_kind("equal", operator.eq)
by_kind("not_equal", operator.ne)
by_kind("less", operator.lt)
by_kind("less_equal", operator.le)
by_kind("greater", operator.gt)
by_kind("greater_equal", operator.ge)
by_kind("select", lambda pred, x, y: x if pred else y)
by_kind("clamp", lambda x, low, high: smaller(larger(x, low), high))
by_kind("identity", itself)
by_kind("negate", operator.neg, f=Decimal.copy_negate)
by_kind("reciprocal", lambda x: ONE / x, i=lambda x: truncated(1, x), c=lambda x: series.UNIT / x)
by_kind("absolute", abs, f=Decimal.copy_abs)
by_kind("sign", sign, i=lambda x: (x > 0) - (x < 0))
by_kind("conj", itself, c=Z.conjugate)
by_kind("real", itself, c=lambda x: x.re)
by_kind("imag", lambda x: 0, c=lambda x: x.im)
by_kind("sqrt", series.sqrt)
by_kind("rsqrt", lambda x: ONE / x.sqrt(), c=lambda x: series.UNIT / series.sqrt(x))
for _name in ELEMENTARY:
    by_kind(_name, getattr(series, _name))
by_kind("floor", rounded(ROUND_FLOOR), i=itself)
by_kind("ceil", rounded(ROUND_CEILING), i=itself)
by_kind("trunc", rounded(ROUND_DOWN), i=itself)
by_kind("round", rounded(ROUND_HALF_EVEN), i=itself)
by_kind("round_half_away", rounded(ROUND_HALF_UP), i=itself)


def cast(x: Any, source: DType, target: DType) -> Any:
    """A number of one dtype in another: saturated, wrapped or cut as the catalogue says."""
    if isinstance(x, Z) and target.kind not in "cbO":
        x = x.re
    if target.kind == "b":
        return x.re != 0 or x.im != 0 if isinstance(x, Z) else x != 0
    whole = class_of(target) in ("int", "uint") or "int" in target.name
    if whole and (isinstance(x, Decimal) or source.kind == "O"):  # Python's integers have no width
        low, high = bounds(target)
        if x != x:
            return 0
        return low if x <= low else high if x >= high else math.trunc(x)
    return x

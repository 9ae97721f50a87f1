"""Elementwise ops: each as one function of arrays of the same shape, or of few.

Integers are never divided by 0, nor the least one by -1, and no float out of range is converted: what a
device then gives is nobody's promise. Half precisions are computed in single precision and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..dtypes import class_of, integer_range
from ..protocol import Kernel
from ..spec import ArraySpec
from .arrays import Binder, into, widened
from .modules import Module, companion

Formula = Callable[..., Any]


def bind_elementwise(formula: Formula) -> Binder:
    def bind(xp: Module, attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
        return into(xp, lambda *operands: formula(xp, *widened(operands)), output)

    return bind


def bind_cast(xp: Module, attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    target = output.dtype
    return into(xp, lambda x: cast(xp, x, target), output)


def cast(xp: Module, x: Any, target: np.dtype[Any]) -> Any:
    """x in another dtype, in new memory: floats saturate to integers, NaN to 0; integers wrap; anything but
    0 is True; of complex numbers the real part is kept."""
    if target.kind == "b":
        return (widened((x,))[0] != 0) if x.dtype.kind != "b" else x.copy()
    if x.dtype.kind == "c" and target.kind != "c":
        x = x.real
    bounds = integer_range(target)
    (x,) = widened((x,))
    if bounds is None or class_of(x.dtype) != "float":
        return x.astype(target)
    low, high = bounds
    above = x >= float(high + 1)  # a power of two, which every float has
    inside = xp.where((x == x) & ~above, xp.maximum(x, float(low)), 0)
    return xp.where(above, target.type(high), inside.astype(target))


# ---- formulas -----------------------------------------------------------------------------------


def _ufunc(name: str) -> Formula:
    return lambda xp, *operands: getattr(xp, name)(*operands)


def _rounded(name: str) -> Formula:
    """Integers are whole as they are."""
    return lambda xp, x: x.copy() if x.dtype.kind in "biu" else getattr(xp, name)(x)


def _divide(xp: Module, x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return xp.true_divide(x, y)
    is_zero = y == 0
    if x.dtype.kind == "u":
        return xp.where(is_zero, 0, xp.floor_divide(x, xp.where(is_zero, 1, y))).astype(x.dtype)
    turns = y == -1
    safe = xp.where(is_zero | turns, 1, y).astype(x.dtype)
    quotient = xp.floor_divide(x, safe)
    quotient += ((quotient * safe != x) & ((x < 0) != (safe < 0))).astype(x.dtype)
    return xp.where(turns, -x, xp.where(is_zero, 0, quotient))


def _remainder(xp: Module, x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return xp.fmod(x, y)
    return xp.where(y == 0, 0, x - _divide(xp, x, y) * y)


def _power(xp: Module, x: Any, y: Any) -> Any:
    if x.dtype.kind != "i":
        return xp.power(x, y)
    unit = xp.where(x == -1, 1 - 2 * (y & 1), (x == 1).astype(x.dtype))
    return xp.where(y < 0, unit, xp.power(x, xp.maximum(y, 0)))


def _reciprocal(xp: Module, x: Any) -> Any:
    if x.dtype.kind == "u":
        return (x == 1).astype(x.dtype)
    if x.dtype.kind == "i":
        return xp.where((x == 1) | (x == -1), x, 0)
    return xp.true_divide(x.dtype.type(1), x)


def _sign(xp: Module, x: Any) -> Any:
    if x.dtype.kind != "c":
        return xp.sign(x)
    real, imag, modulus = x.real, x.imag, xp.absolute(x)
    real, imag, modulus = _shrunk(xp, real, imag, modulus)
    modulus = xp.where(modulus == 0, modulus.dtype.type(1), modulus)
    return _complex(xp, x.dtype, real / modulus, imag / modulus)


def _shrunk(xp: Module, real: Any, imag: Any, modulus: Any) -> tuple[Any, Any, Any]:
    """Parts in the same direction whose modulus is finite: one infinite part outweighs the other, and two
    have no direction, hence NaN."""
    one, quarter = real.dtype.type(1), real.dtype.type(0.25)
    beyond, endless = xp.isinf(modulus), (xp.isinf(real), xp.isinf(imag))
    either, both = endless[0] | endless[1], endless[0] & endless[1]
    real, imag = (
        xp.where(
            either,
            xp.copysign(unbounded.astype(part.dtype), part),
            part * xp.where(beyond, quarter, one),
        )
        for part, unbounded in zip((real, imag), endless, strict=True)
    )
    shrunk = xp.where(both, real.dtype.type(np.nan), xp.hypot(real, imag))
    return real, imag, xp.where(beyond, shrunk, modulus)


def _complex(xp: Module, dtype: np.dtype[Any], real: Any, imag: Any) -> Any:
    made = xp.empty(real.shape, dtype)
    made.real, made.imag = real, imag
    return made


def _expm1(xp: Module, x: Any) -> Any:
    if x.dtype.kind != "c":
        return xp.expm1(x)
    # e^a cos b - 1 = (e^a - 1) cos b - 2 sin(b/2)**2 for x = a + bi: CuPy's loses all digits of a small x
    a, b = x.real, x.imag
    real = xp.expm1(a) * xp.cos(b) - 2 * xp.sin(b / 2) ** 2
    return _complex(xp, x.dtype, real, xp.exp(a) * xp.sin(b))


def _log1p(xp: Module, x: Any) -> Any:
    if x.dtype.kind != "c":
        return xp.log1p(x)
    # |1 + x|**2 = 1 + (a (2 + a) + b b) for x = a + bi: something is left of a small x
    a, b = x.real, x.imag
    near = xp.absolute(a) + xp.absolute(b) < 0.5
    real = xp.where(near, xp.log1p(a * (2 + a) + b * b) / 2, xp.log(xp.hypot(1 + a, b)))
    return _complex(xp, x.dtype, real, xp.arctan2(b, 1 + a))


def _round_half_away(xp: Module, x: Any) -> Any:
    if x.dtype.kind in "biu":
        return x.copy()
    whole = xp.trunc(x)  # not trunc(x + 0.5): that rounds 0.49999999999999994 up
    whole += xp.copysign((xp.absolute(x - whole) >= 0.5).astype(x.dtype), x)
    return xp.copysign(whole, x)


def _imag(xp: Module, x: Any) -> Any:
    return x.imag.copy() if x.dtype.kind == "c" else xp.zeros(x.shape, x.dtype)


def _erf(xp: Module, x: Any) -> Any:
    return companion(xp, "scipy.special").erf(x)


FORMULAS: dict[str, Formula] = {
    **{
        op: _ufunc(name)
        for op, name in {
            "add": "add", "subtract": "subtract", "multiply": "multiply", "maximum": "maximum",
            "minimum": "minimum", "atan2": "arctan2", "bitwise_and": "bitwise_and",
            "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "bitwise_not": "invert",
            "equal": "equal", "not_equal": "not_equal", "less": "less", "less_equal": "less_equal",
            "greater": "greater", "greater_equal": "greater_equal", "select": "where",
            "negate": "negative", "absolute": "absolute", "sqrt": "sqrt", "exp": "exp",
            "log": "log", "sin": "sin", "cos": "cos", "tan": "tan",
            "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": "sinh", "cosh": "cosh",
            "tanh": "tanh",
        }.items()
    },
    **{
        op: _rounded(name)
        for op, name in {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint"}.items()
    },
    "divide": _divide,
    "remainder": _remainder,
    "power": _power,
    "clamp": lambda xp, x, low, high: xp.minimum(xp.maximum(x, low), high),
    "reciprocal": _reciprocal,
    "sign": _sign,
    "conj": lambda xp, x: xp.conjugate(x) if x.dtype.kind == "c" else x.copy(),
    "real": lambda xp, x: x.real.copy(),
    "imag": _imag,
    "rsqrt": lambda xp, x: xp.true_divide(x.dtype.type(1), xp.sqrt(x)),
    "expm1": _expm1,
    "log1p": _log1p,
    "erf": _erf,
    "round_half_away": _round_half_away,
}  # fmt: skip
"""What each elementwise op is, of an array module and arrays; the ops of dtype bool are logical."""

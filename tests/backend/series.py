"""Functions of real and complex numbers to a hundred digits and more, from their series and definitions.

Real numbers are `decimal.Decimal`, whose arithmetic knows infinity, NaN and the sign of zero; complex
ones are pairs of them. Nothing here asks NumPy or the C library for a function.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

CONTEXT = decimal.Context(prec=120, traps=[], Emin=-999_999, Emax=999_999)
ZERO, ONE, TWO, HALF, NAN = (Decimal(text) for text in ("0", "1", "2", "0.5", "NaN"))


@dataclass(frozen=True, slots=True)
class Z:
    """A complex number."""

    re: Decimal
    im: Decimal

    def __add__(self, other: Z) -> Z:
        return Z(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Z) -> Z:
        return Z(self.re - other.re, self.im - other.im)

    def __neg__(self) -> Z:
        return Z(-self.re, -self.im)

    def __mul__(self, other: Z) -> Z:
        return Z(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def __truediv__(self, other: Z) -> Z:
        square = other.re * other.re + other.im * other.im
        top = self * other.conjugate()
        return Z(top.re / square, top.im / square)

    def __abs__(self) -> Decimal:
        return (self.re * self.re + self.im * self.im).sqrt()

    def conjugate(self) -> Z:
        return Z(self.re, -self.im)


J = Z(ZERO, ONE)
UNIT = Z(ONE, ZERO)
Number = Any  # Decimal or Z
Function = Callable[[Number], Number]


def _series(first: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """The sum of terms, each `ratio(n)` times the one before, until they no longer count."""
    total = term = first
    n = 1
    while abs(term) > Decimal("1e-130") and n < 2000:
        term = term * ratio(n)
        total += term
        n += 1
    return total


def _atan(x: Decimal) -> Decimal:
    """atan x = 2 atan(x / (1 + sqrt(1 + x*x))), four times; then x - x**3/3 + x**5/5 ..."""
    if not x.is_finite():
        return x if x.is_nan() else (PI * HALF).copy_sign(x)
    for _ in range(4):
        x = x / (ONE + (ONE + x * x).sqrt())
    power, total, n = x, x, 1
    while abs(power) > Decimal("1e-130"):
        power = -power * x * x
        n += 2
        total += power / n
    return 16 * total


with decimal.localcontext(CONTEXT):
    PI = 4 * _atan(ONE)


def angle(y: Decimal, x: Decimal) -> Decimal:
    """Of the point (x, y), in [-pi, pi]; the sign of a zero y decides between the two ends."""
    if x.is_nan() or y.is_nan():
        return NAN
    if x.is_infinite() and y.is_infinite():
        return (PI / 4 if x > 0 else 3 * PI / 4).copy_sign(y)
    if x == 0 and y == 0:
        return (ZERO if not x.is_signed() else PI).copy_sign(y)
    if abs(y) > abs(x):
        return (PI * HALF - _atan(x / abs(y))).copy_sign(y)
    return _atan(y / x) if x > 0 else (PI - _atan(abs(y / x))).copy_sign(y)


def _real_sin(x: Decimal) -> Decimal:
    if not x.is_finite():
        return NAN
    x = x.remainder_near(2 * PI)
    return _series(x, lambda n: -x * x / (2 * n * (2 * n + 1)))


def _real_cos(x: Decimal) -> Decimal:
    if not x.is_finite():
        return NAN
    x = x.remainder_near(2 * PI)
    return _series(ONE, lambda n: -x * x / (2 * n * (2 * n - 1)))


def exp(x: Number) -> Number:
    if isinstance(x, Z):
        size = x.re.exp()
        return Z(size * _real_cos(x.im), size * _real_sin(x.im))
    return x.exp()


def log(x: Number) -> Number:
    return Z(abs(x).ln(), angle(x.im, x.re)) if isinstance(x, Z) else x.ln()


def sqrt(x: Number) -> Number:
    if not isinstance(x, Z):
        return x.sqrt()
    size = abs(x)
    return Z(((size + x.re) * HALF).sqrt(), ((size - x.re) * HALF).sqrt().copy_sign(x.im))


def expm1(x: Number) -> Number:
    if _is_tiny(x):
        return x
    return exp(x) - _one(x)


def log1p(x: Number) -> Number:
    if _is_tiny(x):
        return x
    return log(_one(x) + x)


def sin(x: Number) -> Number:
    return sinh(J * x) / J if isinstance(x, Z) else _real_sin(x)


def cos(x: Number) -> Number:
    return cosh(J * x) if isinstance(x, Z) else _real_cos(x)


def tan(x: Number) -> Number:
    return sin(x) / cos(x)


def sinh(x: Number) -> Number:
    if _is_tiny(x) or (not isinstance(x, Z) and x.is_infinite()):
        return x
    return (exp(x) - exp(-x)) * (Z(HALF, ZERO) if isinstance(x, Z) else HALF)


def cosh(x: Number) -> Number:
    return (exp(x) + exp(-x)) * (Z(HALF, ZERO) if isinstance(x, Z) else HALF)


def tanh(x: Number) -> Number:
    if not isinstance(x, Z) and (_is_tiny(x) or abs(x) > 100):
        return x if _is_tiny(x) else ONE.copy_sign(x)
    return sinh(x) / cosh(x)


def asin(x: Number) -> Number:
    if isinstance(x, Z):
        return log(J * x + sqrt(UNIT - x * x)) / J
    return angle(x, (ONE - x * x).sqrt()) if not abs(x) > 1 else NAN


def acos(x: Number) -> Number:
    if isinstance(x, Z):
        return Z(PI * HALF, ZERO) - asin(x)
    return angle((ONE - x * x).sqrt(), x) if not abs(x) > 1 else NAN


def atan(x: Number) -> Number:
    if not isinstance(x, Z):
        return _atan(x)
    return (log(UNIT - J * x) - log(UNIT + J * x)) * J * Z(HALF, ZERO)


def erf(x: Decimal) -> Decimal:
    if x.is_nan() or abs(x) > 12:
        return x if x.is_nan() else ONE.copy_sign(x)
    total = power = x
    n = 0
    while abs(power) > Decimal("1e-125"):
        n += 1
        power = -power * x * x / n
        total += power / (2 * n + 1)
    return TWO / PI.sqrt() * total


def power(x: Number, y: Number) -> Number:
    """exp(y log x); what IEEE 754 asks of pow at zero, one, infinity and for whole y."""
    if isinstance(x, Z):
        return exp(y * log(x))
    if y == 0 or x == 1:
        return ONE
    if x.is_nan() or y.is_nan():
        return NAN
    if y.is_infinite():
        return (ONE if abs(x) == 1 else (y if (abs(x) > 1) == (y > 0) else ZERO)).copy_abs()
    whole = y == y.to_integral_value()
    odd = whole and y % 2 != 0
    if x == 0 or x.is_infinite():
        size = ZERO if (x == 0) == (y > 0) else Decimal("Infinity")
        return size.copy_sign(x) if odd else size
    if x < 0:
        size = (y * (-x).ln()).exp() if whole else NAN
        return -size if odd else size
    return (y * x.ln()).exp()


def _is_tiny(x: Number) -> bool:
    """Whether f(x) = x + O(x*x) is x to fifty digits."""
    return not isinstance(x, Z) and abs(x) < Decimal("1e-50")


def _one(x: Number) -> Number:
    return UNIT if isinstance(x, Z) else ONE

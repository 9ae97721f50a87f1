"""What random words become: uniform and normal numbers, and integers below a bound.

One text for arrays, as it stands, and for single words, compiled. It has sums, products, quotients and
square roots of float64 only, in a stated order, each rounded by itself: so every number is the same in
all bits wherever these are rounded as IEEE 754 says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LOW = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
ONE = 1023 << 52  # bits of 1.0
HALF_ROOT = 0x3FE6A09E667F3BCD  # bits of sqrt(1/2)
LN2 = 0.6931471805599453


def below_one64(a: Any, b: Any) -> Any:
    """float64 in [0, 1): the upper 53 bits of b and a; both terms and their sum are exact."""
    return b * 2.0**-32 + (a >> np.uint32(11)) * 2.0**-53


def below_one32(word: Any) -> Any:
    """float32 in [0, 1): the upper 24 bits of a word."""
    return np.float32(word >> np.uint32(8)) * np.float32(2.0**-24)


# ---- normal numbers ------------------------------------------------------------------------------


def chance64(a: Any, b: Any) -> Any:
    """A number in (0, 1] for the radius: 64 bits and 1, in units of 2**-64, rounded."""
    return ((b * 2.0**32 + a) + 1.0) * 2.0**-64


def chance32(word: Any) -> Any:
    """A number in (0, 1] for the radius: 32 bits and 1, in units of 2**-32."""
    return (word + 1.0) * 2.0**-32


def exponent(bits: Any) -> Any:
    """e of a positive x = m 2**e with m in [sqrt(1/2), sqrt(2)), from the bits of x."""
    return ((bits + (ONE - HALF_ROOT)) >> 52) - 1023


def radius(m: Any, e: Any) -> Any:
    """sqrt(-2 ln(m 2**e))."""
    return np.sqrt(squared_radius(m, e))


def squared_radius(m: Any, e: Any) -> Any:
    """-2 ln(m 2**e), with ln m = 2 artanh((m - 1)/(m + 1)).

    The polynomial interpolates artanh's series at Chebyshev's points; its relative error is below 2**-58.
    """
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 0.15312407327532816 + z * 0.14810973380600034
    p = 0.18183636193523078 + z * p
    p = 0.22222196973714656 + z * p
    p = 0.2857142876141885 + z * p
    p = 0.3999999999929891 + z * p
    p = 0.6666666666666765 + z * p
    p = 2.0 + z * p
    return -2.0 * (e * LN2 + s * p)


def turned(word: Any) -> Any:
    """A word with the quarter of the circle in its two upper bits, and where in it in the others."""
    return np.uint32(word + np.uint32(1 << 29))


def rest_of(word: Any) -> Any:
    """The angle in turns beyond the middle of its quarter, in [-1/8, 1/8)."""
    return (np.int32(word & np.uint32((1 << 30) - 1)) - np.int32(1 << 29)) * 2.0**-32


def on_circle(quarter: Any, f: Any) -> tuple[Any, Any]:
    """cos and sin of 2 pi (quarter/4 + f) for |f| <= 1/8."""
    c, s = near_one(f)
    odd = (quarter & np.uint32(1)) == 1
    left = 1.0 - np.int32((quarter + np.uint32(1)) & np.uint32(2))
    below = 1.0 - np.int32(quarter & np.uint32(2))
    return left * either(odd, s, c), below * either(odd, c, s)


def near_one(f: Any) -> tuple[Any, Any]:
    """cos and sin of 2 pi f for |f| <= 1/8.

    Polynomials interpolate at Chebyshev's points; their relative errors are below 2**-54.
    """
    x = f * f
    s = -15.093804209987114 + x * 3.7808689593022957
    s = 42.058685020160894 + x * s
    s = -76.70585970427454 + x * s
    s = 81.60524927594804 + x * s
    s = -41.341702240399634 + x * s
    s = f * (6.283185307179586 + x * s)
    c = 7.903091687751697 - x * 1.6968494702918826
    c = -26.426250908622137 + x * c
    c = 60.244641328867296 + x * c
    c = -85.45681720652271 + x * c
    c = 64.93939402266795 + x * c
    c = -19.739208802178716 + x * c
    return 1.0 + x * c, s


def either(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y."""
    return np.where(condition, x, y)


def _either(condition: Any, x: Any, y: Any) -> Any:
    return x if condition else y


either.compiled = _either  # type: ignore[attr-defined]


# ---- integers ------------------------------------------------------------------------------------


def scaled(a: Any, b: Any, bound0: Any, bound1: Any) -> tuple[Any, Any]:
    """Upper and lower 64 bits of (2**32 b + a) (2**32 bound1 + bound0), all words as uint64."""
    low, middle, other, high = a * bound0, a * bound1, b * bound0, b * bound1
    carry = (low >> HALF) + (middle & LOW) + (other & LOW)
    high = high + (middle >> HALF) + (other >> HALF) + (carry >> HALF)
    return high, (carry << HALF) | (low & LOW)

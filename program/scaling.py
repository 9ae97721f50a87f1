"""Exponents kept apart: an array as x * 2**-k, so that no product of many arrays over- or underflows.

With 1/2 <= 2**k max |x| < 1 an array is normalised by 2**k. A sum of K products of normalised arrays is below
K in absolute value; what is lost below is smaller than the largest terms by the whole range of the dtype.
Multiplication by a power of two rounds nothing, and exponents are integers, which add up exactly. Only at the
end the power of two becomes one of ten.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend.dtypes import real_of
from ..backend.spec import ArraySpec, compute_dtype, dtype_name
from .builder import Builder
from .ir import Program

LOG10_2 = math.log10(2)
# log10(2) = HIGH + LOW, where HIGH has so few bits that its product with an exponent below 2**28 is exact
HIGH = 20201781 / 2**26
LOW = 5.801722962879576e-10
SLACK = 2.0**-40  # a power of ten that rounding has put just below itself is one all the same


class Scaling:
    """Normalises arrays of one dtype in a program that is being written, and adds up their exponents.

    `total` is a slot with the exponents so far. Complex numbers are as large as the larger of their parts. An
    array with an element that is infinite or not a number stays as it is.
    """

    def __init__(
        self, build: Builder, dtype: np.dtype[np.generic], total: int | None = None
    ) -> None:
        self._build, self._dtype, self._total = build, dtype, total
        self._numbers: dict[tuple[float, str], int] = {}

    def normalised(self, slot: int) -> int:
        """slot * 2**k, whose largest absolute value is from 1/2 to 1; k is added to the total."""
        build = self._build
        k = build("normal_exponent", slot)
        self._total = k if self._total is None else build("add", self._total, k)
        return build("ldexp", slot, k)

    def binary(self, slot: int) -> tuple[int, int]:
        """(x, k) with slot * 2**-(total before) = x * 2**-k, x normalised, k an int64."""
        slot = self.normalised(slot)
        assert self._total is not None
        return slot, self._total

    def decimal(self, slot: int) -> tuple[int, int]:
        """(x, e) with slot * 2**-(total before) = x * 10**e, e a whole float64, 1 <= max |x| < 10 up to
        rounding; e is 0 for zeros."""
        build, (slot, total) = self._build, self.binary(slot)
        real: np.dtype[Any] = real_of(self._dtype)
        k = build("negate", build.convert(total, np.dtype(np.float64)))
        largest = self._largest(slot)
        zero, one = self._number(0.0, real), self._number(1.0, real)
        is_zero = build("equal", largest, zero)
        is_finite = build("less_equal", largest, self._number(float(np.finfo(real).max), real))
        # any number serves where there is no exponent
        largest = build("select", is_zero, one, build("select", is_finite, largest, one))
        log = build("log", build.convert(largest, np.dtype(np.float64)))
        log = build("multiply", log, self._number(1 / math.log(10)))
        log = build("add", log, build("multiply", k, self._number(LOG10_2)))
        exponent = build("floor", build("add", log, self._number(SLACK)))
        # 2**k = 10**(k log10(2)): the difference first, since k log10(2) may be large and rounded
        rest = build("subtract", build("multiply", k, self._number(HIGH)), exponent)
        rest = build("add", rest, build("multiply", k, self._number(LOW)))
        factor = build.convert(build("power", self._number(10.0), rest), self._dtype)
        shape = build.spec(slot).shape
        if shape:
            factor = build("broadcast_in_dim", factor, shape=shape, axes=())
        slot = build("multiply", slot, factor)
        return slot, build("select", is_zero, self._number(0.0), exponent)

    def _largest(self, slot: int) -> int:
        build, axes = self._build, tuple(range(len(self._build.spec(slot).shape)))
        is_complex = self._dtype.kind == "c"
        parts = [build("real", slot), build("imag", slot)] if is_complex else [slot]
        found = [build("absolute", part) for part in parts]
        if axes:
            found = [build("reduce_max", part, axes=axes, initial=None) for part in found]
        return found[0] if len(found) == 1 else build("maximum", *found)

    def _number(self, value: float, dtype: np.dtype[np.generic] | None = None) -> int:
        key = value, "float64" if dtype is None else dtype_name(dtype)
        if key not in self._numbers:
            self._numbers[key] = self._build("constant", value=value, dtype=key[1])
        return self._numbers[key]


def to_decimal(spec: ArraySpec) -> Program:
    """The program that takes x, in the dtype of computation, and k to (mantissa, e):
    x * 2**-k = mantissa * 10**e, the mantissa of this dtype and shape.

    >>> from einloom.backend.cpu import cpu
    >>> from einloom.program.executable import Executable
    >>> program = to_decimal(ArraySpec(np.dtype(np.float64), (2,)))
    >>> mantissa, exponent = Executable(program, cpu())(np.array([0.5, 0.25]), np.array(-3000))
    >>> print(mantissa.round(3), exponent)  # 2**2999 = 6.1511596...e902
    [6.151 3.076] 902.0
    """
    build, wide = Builder(), compute_dtype(spec.dtype)
    x, k = build.input(wide, spec.shape), build.input(np.int64, ())
    mantissa, exponent = Scaling(build, wide, k).decimal(x)
    return build.finish(build.convert(mantissa, spec.dtype), exponent)

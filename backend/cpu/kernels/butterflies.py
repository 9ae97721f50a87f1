"""Small discrete Fourier transforms in registers, for as many lines at once as a vector has lanes.

Like those of vectors.py, the names are put into a kernel's globals before it is compiled. A unit is a
vector of real parts and, right behind it, the vector of imaginary parts.
"""

from __future__ import annotations

import math
from typing import Any

RADICES = (8, 4, 2, 3, 5, 7)
"""Lengths that there are butterflies for, in the order in which a length is divided by them."""

Pair = tuple[Any, Any]
"""Vectors of real and imaginary parts."""


def butterfly(radix: int, line: int, is_last: bool) -> Any:
    """butterfly(scratch, x, step, y, hop, twiddles, at): for t below the radix r

    unit y + t hop = w_t sum_j exp(-2 pi i j t / r) unit x + j step, where w_0 is 1 and the others are the
    complex numbers twiddles[at:]; the last butterflies of a transform have none.
    """
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    from .vectors import _data

    word = ir.IntType(64)
    i = types.int64

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = signature.args[0].dtype.bitwidth
        lanes = line * 8 // bits
        vector = ir.VectorType(ir.FloatType() if bits == 32 else ir.DoubleType(), lanes)
        data = _data(context, builder, signature.args[0], args[0])
        table = _data(context, builder, signature.args[5], args[5])
        x, step, y, hop, at = args[1], args[2], args[3], args[4], args[6]

        def place(start: Any, by: Any, k: int, part: int) -> Any:
            shift = builder.mul(by, ir.Constant(word, k))
            index = builder.add(builder.add(start, shift), ir.Constant(word, part * lanes))
            return builder.bitcast(builder.gep(data, (index,)), vector.as_pointer())

        def spread(k: int) -> Any:
            one = builder.load(builder.gep(table, (builder.add(at, ir.Constant(word, k)),)))
            nothing = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(nothing, one, ir.Constant(ir.IntType(32), 0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            return builder.shuffle_vector(first, nothing, zeros)

        units = [
            (
                builder.load(place(x, step, j, 0), align=bits // 8),
                builder.load(place(x, step, j, 1), align=bits // 8),
            )
            for j in range(radix)
        ]
        for t, unit in enumerate(dft(Arithmetic(builder, vector), units)):
            if t and not is_last:
                unit = _product(builder, unit, (spread(2 * t - 2), spread(2 * t - 1)))
            for part in (0, 1):
                builder.store(unit[part], place(y, hop, t, part), align=bits // 8)
        return context.get_dummy_value()

    @intrinsic  # type: ignore[untyped-decorator]
    def call(
        typing: Any, scratch: Any, x: Any, step: Any, y: Any, hop: Any, twiddles: Any, at: Any
    ) -> Any:
        return types.void(scratch, i, i, i, i, twiddles, i), emit

    return call


def _product(builder: Any, x: Pair, w: Pair) -> Pair:
    flags = ("contract",)
    real = builder.fsub(
        builder.fmul(x[0], w[0], flags=flags), builder.fmul(x[1], w[1], flags=flags), flags=flags
    )
    imag = builder.fadd(
        builder.fmul(x[0], w[1], flags=flags), builder.fmul(x[1], w[0], flags=flags), flags=flags
    )
    return real, imag


class Arithmetic:
    """Sums, differences and products with numbers, of pairs of vectors."""

    def __init__(self, builder: Any, vector: Any) -> None:
        self.builder, self.vector = builder, vector

    def add(self, x: Pair, y: Pair) -> Pair:
        plus = self.builder.fadd
        return plus(x[0], y[0], flags=("contract",)), plus(x[1], y[1], flags=("contract",))

    def subtract(self, x: Pair, y: Pair) -> Pair:
        minus = self.builder.fsub
        return minus(x[0], y[0], flags=("contract",)), minus(x[1], y[1], flags=("contract",))

    def scale(self, x: Pair, number: float) -> Pair:
        from llvmlite import ir

        factor = ir.Constant(self.vector, [number] * self.vector.count)
        times = self.builder.fmul
        return times(x[0], factor, flags=("contract",)), times(x[1], factor, flags=("contract",))

    def minus_i(self, x: Pair) -> Pair:
        """-i x."""
        from llvmlite import ir

        zero = ir.Constant(self.vector, [-0.0] * self.vector.count)
        return x[1], self.builder.fsub(zero, x[0])


def dft(a: Any, x: list[Any]) -> list[Any]:
    """[sum_j exp(-2 pi i j k / n) x[j] for k below n], by halves for even n."""
    n = len(x)
    if n == 1:
        return x
    if n % 2:
        return _odd(a, x)
    even, odd = dft(a, x[::2]), dft(a, x[1::2])
    turned = [_turned(a, y, k, n) for k, y in enumerate(odd)]
    pairs = list(zip(even, turned, strict=True))
    return [a.add(u, v) for u, v in pairs] + [a.subtract(u, v) for u, v in pairs]


def _turned(a: Any, x: Any, k: int, n: int) -> Any:
    """exp(-2 pi i k / n) x for n = 2, 4, 8."""
    eighth = 8 * k // n
    if eighth == 0:
        return x
    if eighth == 2:
        return a.minus_i(x)
    half = math.sqrt(0.5)
    turned = a.minus_i(x)
    # (1 - i) x and (-1 - i) x
    return a.scale(a.add(x, turned) if eighth == 1 else a.subtract(turned, x), half)


def _odd(a: Any, x: list[Any]) -> list[Any]:
    """By x[j] + x[n-j] and x[j] - x[n-j], which have real and imaginary factors."""
    n = len(x)
    half = range(1, (n + 1) // 2)
    sums = [a.add(x[j], x[n - j]) for j in half]
    differences = [a.subtract(x[j], x[n - j]) for j in half]
    first = x[0]
    for one in sums:
        first = a.add(first, one)
    out: list[Any] = [first] + [None] * (n - 1)
    for k in half:
        real, imag = x[0], None
        for j, (s, d) in enumerate(zip(sums, differences, strict=True), 1):
            angle = 2 * math.pi * (j * k % n) / n
            real = a.add(real, a.scale(s, math.cos(angle)))
            term = a.scale(d, math.sin(angle))
            imag = term if imag is None else a.add(imag, term)
        turned = a.minus_i(imag)
        out[k], out[n - k] = a.add(real, turned), a.subtract(real, turned)
    return out

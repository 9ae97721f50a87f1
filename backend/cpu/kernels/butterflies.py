"""Small discrete Fourier transforms in registers, for as many lines at once as a vector has lanes.

Like those of vectors.py, the names are put into a kernel's globals before it is compiled. A unit is a
vector of real parts and, right behind it, the vector of imaginary parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
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
    from numba import types
    from numba.extending import intrinsic

    i = types.int64

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scratch = _Units(context, builder, signature, args, line)
        table = None if is_last else _Table(context, builder, signature.args[5], args[5], args[6])
        x, step, y, hop = args[1:5]
        units = [scratch.load(x, step, j) for j in range(radix)]
        for t, unit in enumerate(_transformed(scratch, units, table)):
            scratch.store(y, hop, t, unit)
        return context.get_dummy_value()

    @intrinsic  # type: ignore[untyped-decorator]
    def call(
        typing: Any, scratch: Any, x: Any, step: Any, y: Any, hop: Any, twiddles: Any, at: Any
    ) -> Any:
        return types.void(scratch, i, i, i, i, twiddles, i), emit

    return call


def entering(radix: int, line: int) -> Any:
    """entering(scratch, address, start, step, y, hop, twiddles, at, flipped): as `butterfly`, but what is
    read are a cache line of complex numbers and the next, from element start + j step on of the array at
    the address; with real and imaginary parts exchanged if `flipped`."""
    from numba import types
    from numba.extending import intrinsic

    i = types.int64

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scratch = _Units(context, builder, signature, args, line)
        address, start, step, y, hop, _, at, flipped = args[1:]
        outside = scratch.at(address)
        table = _Table(context, builder, signature.args[6], args[6], at)
        units = [outside.load_pairs(start, step, j, flipped) for j in range(radix)]
        for t, unit in enumerate(_transformed(scratch, units, table)):
            scratch.store(y, hop, t, unit)
        return context.get_dummy_value()

    @intrinsic  # type: ignore[untyped-decorator]
    def call(
        typing: Any, scratch: Any, address: Any, start: Any, step: Any, y: Any, hop: Any,
        twiddles: Any, at: Any, flipped: Any,
    ) -> Any:  # fmt: skip
        return types.void(scratch, i, i, i, i, i, twiddles, i, i), emit

    return call


def leaving(radix: int, line: int) -> Any:
    """leaving(scratch, x, step, address, start, hop, scale, flipped, streams): the last butterfly, whose
    results times a number are written as `entering` reads; past the caches if `streams`, which whole cache
    lines can be."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    i = types.int64

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scratch = _Units(context, builder, signature, args, line)
        x, step, address, start, hop, scale, flipped, streams = args[1:]
        outside = scratch.at(address)
        units = [scratch.load(x, step, j) for j in range(radix)]
        factor = _spread(builder, scale, scratch.vector)
        pairs = [
            outside.pairs((builder.fmul(re, factor), builder.fmul(im, factor)), flipped)
            for re, im in _transformed(scratch, units, None)
        ]
        with builder.if_else(builder.trunc(streams, ir.IntType(1))) as branches:
            for branch, is_streaming in zip(branches, (True, False), strict=True):
                with branch:
                    for t, unit in enumerate(pairs):
                        outside.store(start, hop, t, unit, is_streaming)
        return context.get_dummy_value()

    @intrinsic  # type: ignore[untyped-decorator]
    def call(
        typing: Any, scratch: Any, x: Any, step: Any, address: Any, start: Any, hop: Any,
        scale: Any, flipped: Any, streams: Any,
    ) -> Any:  # fmt: skip
        return types.void(scratch, i, i, i, i, i, scratch.dtype, i, i), emit

    return call


def tangled(line: int) -> Any:
    """tangle(scratch, a, b, to_a, to_b, turns, at, real, imag): units a and b hold X[k] and X[h - k], whose
    parts are multiplied by two numbers; 2 Z[k] and 2 Z[h - k], as half_lines.py has them, are written with
    real and imaginary parts exchanged."""

    def emit(a: Arithmetic, x: Pair, y: Pair, w: Pair, factors: Pair) -> tuple[Pair, Pair]:
        builder = a.builder
        x, y = a.by_parts(x, factors), a.conjugate(a.by_parts(y, factors))
        even = a.add(x, y)
        odd = a.minus_i(_product(builder, a.subtract(x, y), a.conjugate(w)))
        first, second = a.subtract(even, odd), a.conjugate(a.add(even, odd))
        return first[::-1], second[::-1]

    return _tangle(line, emit)


def untangled(line: int) -> Any:
    """untangle(scratch, a, b, to_a, to_b, turns, at, real, imag): from 2 Z to X, whose parts are multiplied
    by two numbers."""

    def emit(a: Arithmetic, x: Pair, y: Pair, w: Pair, factors: Pair) -> tuple[Pair, Pair]:
        y = a.conjugate(y)
        even = a.add(x, y)
        odd = _product(a.builder, a.minus_i(a.subtract(x, y)), w)
        second = a.conjugate(a.subtract(even, odd))
        return a.by_parts(a.add(even, odd), factors), a.by_parts(second, factors)

    return _tangle(line, emit)


def _tangle(line: int, emit: Any) -> Any:
    from numba import types
    from numba.extending import intrinsic

    i = types.int64

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scratch = _Units(context, builder, signature, args, line)
        a, b, to_a, to_b, _, at, real, imag = args[1:]
        w = _Table(context, builder, signature.args[5], args[5], at).number(0, scratch.vector)
        factors = tuple(_spread(builder, x, scratch.vector) for x in (real, imag))
        x, y = scratch.load(a, a, 0), scratch.load(b, b, 0)
        first, second = emit(Arithmetic(builder, scratch.vector), x, y, w, factors)
        scratch.store(to_a, a, 0, first)
        scratch.store(to_b, b, 0, second)
        return context.get_dummy_value()

    @intrinsic  # type: ignore[untyped-decorator]
    def call(
        typing: Any, scratch: Any, a: Any, b: Any, to_a: Any, to_b: Any, turns: Any, at: Any,
        real: Any, imag: Any,
    ) -> Any:  # fmt: skip
        number = scratch.dtype
        return types.void(scratch, i, i, i, i, turns, i, number, number), code

    return call


def _transformed(scratch: _Units, units: list[Pair], table: _Table | None) -> list[Pair]:
    """The small transform, times the twiddles if there are any."""
    results: list[Pair] = dft(Arithmetic(scratch.builder, scratch.vector), units)
    if table is None:
        return results
    turned = (
        _product(scratch.builder, unit, table.number(k, scratch.vector))
        for k, unit in enumerate(results[1:])
    )
    return [results[0], *turned]


class _Units:
    """Units of an array: where a vector of real parts begins, and behind it that of imaginary ones."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any, line: int) -> None:
        from llvmlite import ir

        from .vectors import _data

        bits = signature.args[0].dtype.bitwidth
        self.builder, self.size = builder, bits // 8
        self.lanes = line * 8 // bits
        self.vector = ir.VectorType(ir.FloatType() if bits == 32 else ir.DoubleType(), self.lanes)
        self.data = _data(context, builder, signature.args[0], args[0])

    def at(self, address: Any) -> _Units:
        """Of the array at an address, of the same dtype."""
        other = object.__new__(_Units)
        other.__dict__ |= self.__dict__
        other.data = self.builder.inttoptr(address, self.data.type)
        return other

    def _place(self, start: Any, by: Any, k: int, part: int) -> Any:
        from llvmlite import ir

        word = ir.IntType(64)
        shift = self.builder.mul(by, ir.Constant(word, k))
        index = self.builder.add(
            self.builder.add(start, shift), ir.Constant(word, part * self.lanes)
        )
        return self.builder.bitcast(self.builder.gep(self.data, (index,)), self.vector.as_pointer())

    def load(self, start: Any, by: Any, k: int) -> Pair:
        first, second = (
            self.builder.load(self._place(start, by, k, part), align=self.size) for part in (0, 1)
        )
        return first, second

    def store(self, start: Any, by: Any, k: int, unit: Pair, is_streaming: bool = False) -> None:
        from .vectors import mark_streaming

        align = self.size * self.lanes if is_streaming else self.size
        for part in (0, 1):
            store = self.builder.store(unit[part], self._place(start, by, k, part), align=align)
            if is_streaming:
                mark_streaming(self.builder, store)

    def load_pairs(self, start: Any, by: Any, k: int, flipped: Any) -> Pair:
        """The unit of numbers whose imaginary parts follow their real ones."""
        n = self.lanes
        v, w = self.load(start, by, k)
        re, im = (self._shuffled(v, w, range(part, 2 * n, 2)) for part in (0, 1))
        return self._exchanged(re, im, flipped)

    def pairs(self, unit: Pair, flipped: Any) -> Pair:
        """The reverse: two vectors of numbers as they lie in memory."""
        n = self.lanes
        re, im = self._exchanged(*unit, flipped)
        first, second = (
            self._shuffled(re, im, [j // 2 + n * (j % 2) for j in range(at, at + n)])
            for at in (0, n)
        )
        return first, second

    def _shuffled(self, x: Any, y: Any, order: Iterable[int]) -> Any:
        from llvmlite import ir

        mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), list(order))
        return self.builder.shuffle_vector(x, y, mask)

    def _exchanged(self, re: Any, im: Any, flipped: Any) -> Pair:
        from llvmlite import ir

        is_flipped = self.builder.icmp_signed("!=", flipped, ir.Constant(flipped.type, 0))
        return self.builder.select(is_flipped, im, re), self.builder.select(is_flipped, re, im)


class _Table:
    """Complex numbers of a table, in every lane."""

    def __init__(self, context: Any, builder: Any, kind: Any, table: Any, at: Any) -> None:
        from .vectors import _data

        self.builder, self.data, self.at = builder, _data(context, builder, kind, table), at

    def number(self, k: int, vector: Any) -> Pair:
        from llvmlite import ir

        def spread(part: int) -> Any:
            index = self.builder.add(self.at, ir.Constant(ir.IntType(64), 2 * k + part))
            return _spread(
                self.builder, self.builder.load(self.builder.gep(self.data, (index,))), vector
            )

        return spread(0), spread(1)


def _spread(builder: Any, value: Any, vector: Any) -> Any:
    from llvmlite import ir

    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, nothing, zeros)


def _product(builder: Any, x: Pair, w: Pair) -> Pair:
    real = _fma(builder, x[0], w[0], builder.fneg(builder.fmul(x[1], w[1])))
    imag = _fma(builder, x[0], w[1], builder.fmul(x[1], w[0]))
    return real, imag


def _fma(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """x y + z, rounded once."""
    from .value_types import called

    return called(builder, "fma", x.type, x, y, z)


class Arithmetic:
    """Sums, differences and products with numbers, of pairs of vectors.

    Which products are rounded together with a sum is said, not left to the compiler: a line has the same
    bits whichever form of a butterfly transforms it.
    """

    def __init__(self, builder: Any, vector: Any) -> None:
        self.builder, self.vector = builder, vector

    def add(self, x: Pair, y: Pair) -> Pair:
        plus = self.builder.fadd
        return plus(x[0], y[0]), plus(x[1], y[1])

    def subtract(self, x: Pair, y: Pair) -> Pair:
        minus = self.builder.fsub
        return minus(x[0], y[0]), minus(x[1], y[1])

    def scale(self, x: Pair, number: float) -> Pair:
        factor, times = self._filled(number), self.builder.fmul
        return times(x[0], factor), times(x[1], factor)

    def add_scaled(self, x: Pair, y: Pair, number: float) -> Pair:
        """x + number y, rounded once."""
        factor = self._filled(number)
        re, im = (_fma(self.builder, v, factor, u) for u, v in zip(x, y, strict=True))
        return re, im

    def minus_i(self, x: Pair) -> Pair:
        """-i x."""
        return x[1], self.builder.fneg(x[0])

    def by_parts(self, x: Pair, factors: Pair) -> Pair:
        """Real and imaginary parts, each times a factor."""
        times = self.builder.fmul
        return times(x[0], factors[0]), times(x[1], factors[1])

    def conjugate(self, x: Pair) -> Pair:
        return x[0], self.builder.fneg(x[1])

    def _filled(self, number: float) -> Any:
        from llvmlite import ir

        return ir.Constant(self.vector, [number] * self.vector.count)


def dft(a: Any, x: list[Any]) -> list[Any]:
    """[sum_j exp(-2 pi i j k / n) x[j] for k below n], by halves for even n."""
    n = len(x)
    if n == 1:
        return x
    if n % 2:
        return _odd(a, x)
    even, odd = dft(a, x[::2]), dft(a, x[1::2])
    first, second = [], []
    for k, (u, y) in enumerate(zip(even, odd, strict=True)):
        v, factor = _turned(a, y, k, n)
        first.append(a.add(u, v) if factor == 1 else a.add_scaled(u, v, factor))
        second.append(a.subtract(u, v) if factor == 1 else a.add_scaled(u, v, -factor))
    return first + second


def _turned(a: Any, x: Any, k: int, n: int) -> tuple[Any, float]:
    """exp(-2 pi i k / n) x for n = 2, 4, 8, but for a real factor."""
    eighth = 8 * k // n
    if eighth == 0:
        return x, 1
    turned = a.minus_i(x)
    if eighth == 2:
        return turned, 1
    # (1 - i) x and (-1 - i) x
    return a.add(x, turned) if eighth == 1 else a.subtract(turned, x), math.sqrt(0.5)


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
            real = a.add_scaled(real, s, math.cos(angle))
            sine = math.sin(angle)
            imag = a.scale(d, sine) if imag is None else a.add_scaled(imag, d, sine)
        turned = a.minus_i(imag)
        out[k], out[n - k] = a.add(real, turned), a.subtract(real, turned)
    return out

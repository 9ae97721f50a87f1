"""Numbers of many matrices at once: values of numba that are vectors, one lane for each matrix.

`fetch(x, k)` reads the k-th vector of an array, `put(x, k, v)` writes it. Between them stands ordinary
arithmetic: + - * /, comparisons, which give a mask, & | ~ of masks, and `choose(mask, v, w)`. A vector of
complex numbers lies in memory as its real parts, then its imaginary parts; its operators are those of complex
numbers, so that one text serves both kinds.

The names are put into a kernel's globals before it is compiled, like those of vectors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Emit = Callable[..., Any]


def intrinsics(line: int) -> dict[str, Any]:
    """The words of kernels whose lanes make up a cache line of so many bytes; v, w are lanes, x is an array:

    fetch(x, k), put(x, k, v): the k-th vector of x.
    filled(v, number): real lanes, as many as v has, of one number.
    conj(v), real(v), imag(v), size1(v) = |re| + |im|, square(v) = re² + im² and root(v): by elements.
    copysign(v, w), larger(v, w): of real lanes.
    choose(mask, v, w): v where the mask is true, else w. any_lane(mask): whether it is true anywhere.
    exponent_of(v): floor(log2 |v|) of normal numbers. power_of(v): 2^v of whole numbers in the range of
    normal ones. Both of real lanes.
    """
    from .value_types import register

    register()
    return {
        "fetch": _fetch(line),
        "put": _put(line),
        "filled": _filled(),
        "conj": _of_parts(_conj),
        "real": _of_parts(lambda builder, a, b: a, gives_real=True),
        "imag": _of_parts(_imag, gives_real=True),
        "size1": _of_parts(_size1, gives_real=True),
        "square": _of_parts(_square, gives_real=True),
        "root": _of_parts(_root, gives_real=True),
        "copysign": _of_two("copysign"),
        "larger": _of_two("maxnum"),
        "choose": _choose(),
        "any_lane": _any_lane(),
        "exponent_of": _of_parts(_exponent, gives_real=True),
        "power_of": _of_parts(_power, gives_real=True),
    }


# ---- memory -------------------------------------------------------------------------------------


def _kind(x: Any, line: int) -> Any:
    from numba import types

    from .value_types import Lanes

    real = x.dtype.underlying_float if isinstance(x.dtype, types.Complex) else x.dtype
    return Lanes(x.dtype, line * 8 // real.bitwidth)


def _places(context: Any, builder: Any, signature: Any, args: Any, kind: Any) -> list[Any]:
    """Pointers to the parts of a vector."""
    from llvmlite import ir

    from .value_types import vector
    from .vectors import _data

    data = _data(context, builder, signature.args[0], args[0])
    part = vector(kind)
    pointer = builder.bitcast(data, part.as_pointer())
    word = ir.IntType(64)
    count = 2 if kind.is_complex else 1
    first = builder.mul(args[1], ir.Constant(word, count))
    return [builder.gep(pointer, (builder.add(first, ir.Constant(word, k)),)) for k in range(count)]


def _fetch(line: int) -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def fetch(typing: Any, x: Any, k: Any) -> Any:
        kind = _kind(x, line)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from .value_types import whole

            places = _places(context, builder, signature, args, kind)
            align = kind.real.bitwidth // 8
            return whole(builder, *(builder.load(place, align=align) for place in places))

        return kind(x, types.int64), emit

    return fetch


def _put(line: int) -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def put(typing: Any, x: Any, k: Any, v: Any) -> Any:
        kind = _kind(x, line)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from .value_types import constant, parts

            places = _places(context, builder, signature, args, kind)
            a, b = parts(builder, args[2])
            values = (a, constant(a.type, 0.0) if b is None else b)
            for place, value in zip(places, values, strict=False):
                builder.store(value, place, align=kind.real.bitwidth // 8)
            return context.get_dummy_value()

        return types.void(x, types.int64, v), emit

    return put


def _filled() -> Any:
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def filled(typing: Any, like: Any, number: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from .value_types import filled, vector

            kind = like.parts
            value = context.cast(builder, args[1], signature.args[1], kind.dtype)
            return filled(builder, value, vector(kind))

        return like.parts(like, number), emit

    return filled


# ---- by elements --------------------------------------------------------------------------------


def _of_parts(emit: Emit, gives_real: bool = False) -> Any:
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def of_parts(typing: Any, v: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from .value_types import parts

            return emit(builder, *parts(builder, args[0]))

        return (v.parts if gives_real else v)(v), code

    return of_parts


def _conj(builder: Any, a: Any, b: Any) -> Any:
    from .value_types import whole

    return whole(builder, a, None if b is None else builder.fneg(b))


def _imag(builder: Any, a: Any, b: Any) -> Any:
    from .value_types import constant

    return constant(a.type, 0.0) if b is None else b


def _size1(builder: Any, a: Any, b: Any) -> Any:
    from .value_types import absolute

    size = absolute(builder, a)
    return size if b is None else builder.fadd(size, absolute(builder, b))


def _square(builder: Any, a: Any, b: Any) -> Any:
    flags = ("contract",)
    square = builder.fmul(a, a, flags=flags)
    return (
        square if b is None else builder.fadd(square, builder.fmul(b, b, flags=flags), flags=flags)
    )


def _root(builder: Any, a: Any, b: Any) -> Any:
    from .value_types import called

    return called(builder, "sqrt", a.type, a)


def _of_two(name: str) -> Any:
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def of_two(typing: Any, v: Any, w: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from .value_types import called

            return called(builder, name, args[0].type, *args)

        return v(v, v), emit

    return of_two


def _words(kind: Any) -> tuple[Any, int, int]:
    """Integers as wide as the numbers, bits of the fraction, and the bias of the exponent."""
    from llvmlite import ir

    if isinstance(kind.element, ir.FloatType):
        return ir.VectorType(ir.IntType(32), kind.count), 23, 127
    return ir.VectorType(ir.IntType(64), kind.count), 52, 1023


def _exponent(builder: Any, a: Any, b: Any) -> Any:
    from .value_types import constant

    word, bits, bias = _words(a.type)
    moved = builder.lshr(builder.bitcast(a, word), constant(word, bits))
    biased = builder.and_(moved, constant(word, 2 * bias + 1))
    return builder.sitofp(builder.sub(biased, constant(word, bias)), a.type)


def _power(builder: Any, a: Any, b: Any) -> Any:
    from .value_types import constant

    word, bits, bias = _words(a.type)
    biased = builder.add(builder.fptosi(a, word), constant(word, bias))
    return builder.bitcast(builder.shl(biased, constant(word, bits)), a.type)


# ---- masks --------------------------------------------------------------------------------------


def _choose() -> Any:
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def choose(typing: Any, mask: Any, v: Any, w: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from .value_types import constant, parts, whole

            (a, b), (c, d) = parts(builder, args[1]), parts(builder, args[2])
            first = builder.select(args[0], a, c)
            if b is None and d is None:
                return first
            zero = constant(a.type, 0.0)
            second = builder.select(args[0], zero if b is None else b, zero if d is None else d)
            return whole(builder, first, second)

        kind = v if v.is_complex else w
        return kind(mask, v, w), emit

    return choose


def _any_lane() -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def any_lane(typing: Any, mask: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            word = ir.IntType(mask.count)
            bits = builder.bitcast(args[0], word)
            return builder.icmp_unsigned("!=", bits, ir.Constant(word, 0))

        return types.boolean(mask), emit

    return any_lane

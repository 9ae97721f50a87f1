"""Arithmetic across lanes: the same sums of products for many indices of a batch at once.

Like those of vectors.py, the names are put into a kernel's globals before it is compiled. A strip is as many
lanes as STRIP cache lines hold; the sums of a strip stay in registers.
"""

from __future__ import annotations

from typing import Any

STRIP = 4  # cache lines: as many sums at once as hide how long a multiplication takes
PAIRS = 2  # of complex numbers, which take four sums each


def dot_lanes(line: int) -> Any:
    """dot_lanes(sums, x, y, places, depth, of_x, of_y, to, at_x, at_y): for the lanes l of a strip

    sums[to + l] = sum_k x[at_x + places[of_x + k] + l] * y[at_y + places[of_y + k] + l].
    """
    return _dot(line, is_scalar=False, is_complex=False)


def scale_lanes(line: int) -> Any:
    """The same with one x for all lanes: x[at_x + places[of_x + k]]."""
    return _dot(line, is_scalar=True, is_complex=False)


def dot_complex_lanes(line: int) -> Any:
    """dot_complex_lanes(sums, ..., at_y, pitch, sign_x, sign_y): the same of complex numbers, whose imaginary
    parts lie `pitch` elements behind their real ones and are multiplied by the sign."""
    return _dot(line, is_scalar=False, is_complex=True)


def scale_complex_lanes(line: int) -> Any:
    """The same with one x for all lanes, whose imaginary part follows its real one."""
    return _dot(line, is_scalar=True, is_complex=True)


def _dot(line: int, is_scalar: bool, is_complex: bool) -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    from .vectors import _data

    word = ir.IntType(64)
    count = PAIRS if is_complex else STRIP
    pairs = ((0, 0), (1, 1), (0, 1), (1, 0)) if is_complex else ((0, 0),)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sums = signature.args[0]
        bits = sums.dtype.bitwidth
        element = ir.FloatType() if bits == 32 else ir.DoubleType()
        lanes = line * 8 // bits
        vector = ir.VectorType(element, lanes)
        to_data, x_data, y_data, table = (
            _data(context, builder, kind, value)
            for kind, value in zip(signature.args[:4], args[:4], strict=True)
        )
        depth, of_x, of_y, to, at_x, at_y, *complex_args = args[4:]
        pitch = complex_args[0] if is_complex else None

        def pointer(data: Any, start: Any, k: int) -> Any:
            at = builder.gep(data, (builder.add(start, ir.Constant(word, k * lanes)),))
            return builder.bitcast(at, vector.as_pointer())

        def spread(data: Any, start: Any) -> Any:
            nothing = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(
                nothing, builder.load(builder.gep(data, (start,))), ir.Constant(ir.IntType(32), 0)
            )
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            return builder.shuffle_vector(one, nothing, zeros)

        def part(start: Any, which: int, step: Any) -> Any:
            return builder.add(start, step) if which else start

        zero = ir.Constant(vector, [0.0] * lanes)
        before = builder.block
        body, after = (builder.append_basic_block(name) for name in ("body", "after"))
        builder.branch(body)

        builder.position_at_end(body)
        k = builder.phi(word)
        k.add_incoming(ir.Constant(word, 0), before)
        totals = [[builder.phi(vector) for _ in range(count)] for _ in pairs]
        for row in totals:
            for total in row:
                total.add_incoming(zero, before)
        x_at = builder.add(at_x, builder.load(builder.gep(table, (builder.add(of_x, k),))))
        y_at = builder.add(at_y, builder.load(builder.gep(table, (builder.add(of_y, k),))))
        one = ir.Constant(word, 1)
        parts = range(2 if is_complex else 1)
        ys = [
            [
                builder.load(pointer(y_data, part(y_at, w, pitch), c), align=bits // 8)
                for c in range(count)
            ]
            for w in parts
        ]
        if is_scalar:
            xs = [[spread(x_data, part(x_at, w, one))] * count for w in parts]
        else:
            xs = [
                [
                    builder.load(pointer(x_data, part(x_at, w, pitch), c), align=bits // 8)
                    for c in range(count)
                ]
                for w in parts
            ]
        added = [
            [
                builder.fadd(
                    total,
                    builder.fmul(xs[a][c], ys[b][c], flags=("contract",)),
                    flags=("contract",),
                )
                for c, total in enumerate(row)
            ]
            for (a, b), row in zip(pairs, totals, strict=True)
        ]
        following = builder.add(k, one)
        k.add_incoming(following, body)
        for row, values in zip(totals, added, strict=True):
            for total, value in zip(row, values, strict=True):
                total.add_incoming(value, body)
        builder.cbranch(builder.icmp_signed("<", following, depth), body, after)

        builder.position_at_end(after)
        if not is_complex:
            for c in range(count):
                builder.store(added[0][c], pointer(to_data, to, c), align=bits // 8)
            return context.get_dummy_value()
        sign_x, sign_y = (filled(builder, sign, vector) for sign in complex_args[1:])
        both = builder.fmul(sign_x, sign_y)
        for c in range(count):
            rr, ii, ri, jr = (row[c] for row in added)
            real = builder.fsub(rr, builder.fmul(both, ii))
            imaginary = builder.fadd(builder.fmul(sign_y, ri), builder.fmul(sign_x, jr))
            builder.store(real, pointer(to_data, to, c), align=bits // 8)
            builder.store(imaginary, pointer(to_data, builder.add(to, pitch), c), align=bits // 8)
        return context.get_dummy_value()

    i = types.int64
    if is_complex:

        @intrinsic  # type: ignore[untyped-decorator]
        def dot_complex(
            typing: Any, sums: Any, x: Any, y: Any, places: Any, depth: Any, of_x: Any, of_y: Any,
            to: Any, at_x: Any, at_y: Any, pitch: Any, sign_x: Any, sign_y: Any,
        ) -> Any:  # fmt: skip
            real = sums.dtype
            return types.void(sums, x, y, places, i, i, i, i, i, i, i, real, real), emit

        return dot_complex

    @intrinsic  # type: ignore[untyped-decorator]
    def dot(
        typing: Any, sums: Any, x: Any, y: Any, places: Any, depth: Any, of_x: Any, of_y: Any,
        to: Any, at_x: Any, at_y: Any,
    ) -> Any:  # fmt: skip
        return types.void(sums, x, y, places, i, i, i, i, i, i), emit

    return dot


def filled(builder: Any, value: Any, vector: Any) -> Any:
    """A vector of that type whose elements are all `value`."""
    from llvmlite import ir

    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, nothing, zeros)


def peek() -> Any:
    """peek(address, start, like): element `start` of the array at an address, of the dtype of `like`."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def peek(typing: Any, address: Any, start: Any, like: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(_at(builder, args[0], args[1], like))

        return like.dtype(types.int64, types.int64, like), emit

    return peek


def poke() -> Any:
    """poke(address, start, value): write that element."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def poke(typing: Any, address: Any, start: Any, value: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[2], _at(builder, args[0], args[1], value))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, value), emit

    return poke


def _at(builder: Any, address: Any, start: Any, kind: Any) -> Any:
    from llvmlite import ir

    bits = getattr(kind, "dtype", kind).bitwidth
    element = ir.FloatType() if bits == 32 else ir.DoubleType()
    return builder.gep(builder.inttoptr(address, element.as_pointer()), (start,))

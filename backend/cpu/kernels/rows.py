"""The inner product of two rows, by vectors that run along them.

Like those of vectors.py, the name is put into a kernel's globals before it is compiled.
"""

from __future__ import annotations

from typing import Any

LINES = 4  # vectors of a row at once: as many sums as hide how long a multiplication takes


def dot_row(line: int) -> Any:
    """dot_row(like, x, y, depth): sum_k x[k] * y[k] of rows at these addresses, in the dtype of `like`.

    Numbers are added up in vectors, and these in pairs. What is left of a row is read under a mask. Of
    complex numbers, x times y has the terms of the real part, and x times y with its parts exchanged those of
    the imaginary one. A product and its sum may be one operation.
    """
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    from .across import filled
    from .registers import masked_load, number_of

    word, index = ir.IntType(64), ir.IntType(32)

    @intrinsic  # type: ignore[untyped-decorator]
    def dot_row(typing: Any, like: Any, x: Any, y: Any, depth: Any) -> Any:
        element, size, parts = number_of(like.dtype)
        lanes = line // size
        vector = ir.VectorType(element, lanes)
        # of complex numbers half of the vectors, which have two sums each
        many = LINES // parts
        swap = ir.Constant(ir.VectorType(index, lanes), [k ^ 1 for k in range(lanes)])

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _, x, y, depth = args
            length = builder.mul(depth, ir.Constant(word, parts))
            zero = ir.Constant(vector, [0.0] * lanes)

            def place(start: Any, at: Any) -> Any:
                address = builder.add(start, builder.mul(at, ir.Constant(word, size)))
                return builder.inttoptr(address, vector.as_pointer())

            def added(totals: list[Any], a: Any, b: Any) -> list[Any]:
                others = [b] if parts == 1 else [b, builder.shuffle_vector(b, b, swap)]
                return [
                    builder.fadd(
                        total, builder.fmul(a, other, flags=("contract",)), flags=("contract",)
                    )
                    for total, other in zip(totals, others, strict=True)
                ]

            def either(values: list[Any], here: Any, others: list[Any], there: Any) -> list[Any]:
                """`values` where control comes from the block `here`, `others` where from `there`."""
                merged = [builder.phi(vector) for _ in values]
                for phi, value, other in zip(merged, values, others, strict=True):
                    phi.add_incoming(value, here)
                    phi.add_incoming(other, there)
                return merged

            def add_up(totals: list[list[Any]], at: Any, stop: Any) -> tuple[list[list[Any]], Any]:
                """As many vectors at once as there are totals, while all of them end before `stop`."""
                step = ir.Constant(word, lanes * len(totals))
                before = builder.block
                body, after = (builder.append_basic_block(name) for name in ("body", "after"))
                last = builder.sub(stop, step)
                builder.cbranch(builder.icmp_signed("<=", at, last), body, after)
                builder.position_at_end(body)
                k = builder.phi(word)
                k.add_incoming(at, before)
                sums = [[builder.phi(vector) for _ in row] for row in totals]
                following = []
                for n, (row, given) in enumerate(zip(sums, totals, strict=True)):
                    for total, begun in zip(row, given, strict=True):
                        total.add_incoming(begun, before)
                    here = builder.add(k, ir.Constant(word, n * lanes))
                    a, b = (builder.load(place(start, here), align=size) for start in (x, y))
                    following.append(added(row, a, b))
                behind = builder.add(k, step)
                k.add_incoming(behind, body)
                for row, values in zip(sums, following, strict=True):
                    for total, value in zip(row, values, strict=True):
                        total.add_incoming(value, body)
                builder.cbranch(builder.icmp_signed("<=", behind, last), body, after)
                builder.position_at_end(after)
                found = [
                    either(given, before, values, body)
                    for given, values in zip(totals, following, strict=True)
                ]
                reached = builder.phi(word)
                reached.add_incoming(at, before)
                reached.add_incoming(behind, body)
                return found, reached

            totals, at = add_up([[zero] * parts for _ in range(many)], ir.Constant(word, 0), length)
            one, *others = totals
            for other in others:
                one = [builder.fadd(p, q) for p, q in zip(one, other, strict=True)]
            (one,), at = add_up([one], at, length)
            rest = builder.sub(length, at)
            before = builder.block
            with builder.if_then(builder.icmp_signed(">", rest, ir.Constant(word, 0))):
                words = ir.VectorType(word, lanes)
                numbers = ir.Constant(words, list(range(lanes)))
                mask = builder.icmp_signed("<", numbers, filled(builder, rest, words))
                a, b = (masked_load(builder, place(start, at), mask, size) for start in (x, y))
                last = added(one, a, b)
                inside = builder.block
            sums = either(one, before, last, inside)

            def halves(total: Any, stop: int) -> Any:
                """Lanes added up in pairs, until `stop` are left."""
                while total.type.count > stop:
                    n = total.type.count // 2
                    low, high = (
                        builder.shuffle_vector(
                            total,
                            total,
                            ir.Constant(ir.VectorType(index, n), list(range(k, k + n))),
                        )
                        for k in (0, n)
                    )
                    total = builder.fadd(low, high)
                return total

            def lane(total: Any, k: int) -> Any:
                return builder.extract_element(total, ir.Constant(index, k))

            if parts == 1:
                return lane(halves(sums[0], 1), 0)
            real, imaginary = (halves(total, 2) for total in sums)
            result = context.make_complex(builder, like.dtype)
            result.real = builder.fsub(lane(real, 0), lane(real, 1))
            result.imag = builder.fadd(lane(imaginary, 0), lane(imaginary, 1))
            return result._getvalue()

        i = types.int64
        return like.dtype(like, i, i, i), emit

    return dot_row

"""Threefry-2x32 with 20 rounds, written in LLVM: many pairs of words side by side.

A round waits for the one before it, so that vectors of several blocks must be under way at a time; a loop
over single pairs becomes vectors of four, one after another.
"""

from __future__ import annotations

from typing import Any

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
LINE = 64


def encipher_pairs(lanes: int, one_key: bool, streaming: bool = False) -> Any:
    """encipher(out, keys, counters, at): out[at + i] from counters[at + i] and keys[at + i], or keys[0].

    Pairs are integers of 64 bits, the first word the lower half. Streaming takes a result that begins
    with a line of the caches, and writes past them.
    """
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def encipher(typing: Any, out: Any, keys: Any, counters: Any, at: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds = signature.args
            data = [_data(context, builder, kinds[k], args[k]) for k in range(3)]
            counter = builder.load(_pairs(builder, data[2], args[3], lanes), align=8)
            if one_key:
                key = _splat(builder, builder.load(data[1]), lanes)
            else:
                key = builder.load(_pairs(builder, data[1], args[3], lanes), align=8)
            found = _block(builder, key, counter, lanes)
            align = LINE if streaming else 8
            store = builder.store(found, _pairs(builder, data[0], args[3], lanes), align=align)
            if streaming:
                one = builder.module.add_metadata((ir.Constant(ir.IntType(32), 1),))
                store.set_metadata("nontemporal", one)
            return context.get_dummy_value()

        return types.void(out, keys, counters, types.uint64), emit

    return encipher


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    from numba.np.arrayobj import make_array

    return make_array(kind)(context, builder, value).data


def _pairs(builder: Any, data: Any, at: Any, lanes: int) -> Any:
    """Where a vector of pairs begins."""
    from llvmlite import ir

    vector = ir.VectorType(ir.IntType(64), lanes)
    return builder.bitcast(builder.gep(data, (at,)), vector.as_pointer())


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    from llvmlite import ir

    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    for k in range(lanes):
        vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), k))
    return vector


def _block(builder: Any, key: Any, counter: Any, lanes: int) -> Any:
    from llvmlite import ir

    word, pair = (ir.VectorType(ir.IntType(bits), lanes) for bits in (32, 64))
    half = ir.Constant(pair, [32] * lanes)

    def constant(n: int) -> Any:
        return ir.Constant(word, [n] * lanes)

    def halves(x: Any) -> list[Any]:
        return [builder.trunc(x, word), builder.trunc(builder.lshr(x, half), word)]

    k0, k1 = halves(key)
    words = [k0, k1, builder.xor(builder.xor(k0, k1), constant(PARITY))]
    a, b = (builder.add(x, k) for x, k in zip(halves(counter), words, strict=False))
    for r in range(20):
        turn = ROTATIONS[r % 8]
        a = builder.add(a, b)
        b = builder.or_(builder.shl(b, constant(turn)), builder.lshr(b, constant(32 - turn)))
        b = builder.xor(b, a)
        if r % 4 == 3:
            group = (r + 1) // 4
            a = builder.add(a, words[group % 3])
            b = builder.add(builder.add(b, words[(group + 1) % 3]), constant(group))
    return builder.or_(builder.zext(a, pair), builder.shl(builder.zext(b, pair), half))

"""Threefry-2x32 in LLVM: the text of the cipher for many pairs of words side by side.

A round waits for the one before it, so that vectors of several blocks must be under way at a time; a loop
over single pairs becomes vectors of four, one after another.
"""

from __future__ import annotations

from typing import Any

from .cipher import enciphered, schedule


def encipher_pairs(lanes: int, one_key: bool) -> Any:
    """encipher(out, keys, counters, at): out[at + i] from counters[at + i] and keys[at + i], or keys[0].

    Pairs are integers of 64 bits, the first word the lower half.
    """
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
            builder.store(found, _pairs(builder, data[0], args[3], lanes), align=8)
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

    def halves(x: Any) -> list[Words]:
        parts = (builder.trunc(x, word), builder.trunc(builder.lshr(x, half), word))
        return [Words(builder, part) for part in parts]

    a, b = (
        builder.zext(x.value, pair) for x in enciphered(schedule(*halves(key)), *halves(counter))
    )
    return builder.or_(a, builder.shl(b, half))


class Words:
    """A vector of words whose operators emit instructions, so that the cipher's text serves here as well."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def __add__(self, other: Any) -> Words:
        return self._emitted("add", other)

    def __xor__(self, other: Any) -> Words:
        return self._emitted("xor", other)

    def __or__(self, other: Any) -> Words:
        return self._emitted("or_", other)

    def __lshift__(self, other: Any) -> Words:
        return self._emitted("shl", other)

    def __rshift__(self, other: Any) -> Words:
        return self._emitted("lshr", other)

    def _emitted(self, instruction: str, other: Any) -> Words:
        from llvmlite import ir

        if not isinstance(other, Words):
            kind = self.value.type
            other = Words(self.builder, ir.Constant(kind, [int(other)] * kind.count))
        found = getattr(self.builder, instruction)(self.value, other.value)
        return Words(self.builder, found)

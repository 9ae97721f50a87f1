"""Threefry-2x32 in LLVM: the text of the cipher for many pairs of words side by side.

A round waits for the one before it, so that vectors of several blocks must be under way at a time; a loop
over single pairs becomes vectors of four, one after another. With 32 registers of 512 bits, blocks of 64
pairs wait less than blocks of 32; in half as many registers of half that they would not fit.
"""

from __future__ import annotations

from typing import Any

from .cipher import enciphered, schedule


def encipher_pairs(lanes: int, one_key: bool, streaming: bool = False) -> Any:
    """encipher(out, keys, counters, at): out[at + i] from counters[at + i] and keys[at + i].

    Pairs are integers of 64 bits, the first word the lower half. One key for all is such an integer.
    Streaming stores go past the caches; out[at] must then start on a cache line.
    """
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def encipher(typing: Any, out: Any, keys: Any, counters: Any, at: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds, (_, given, _, start) = signature.args, args
            data = [_data(context, builder, kinds[k], args[k]) for k in (0, 2)]
            prefer_whole_lines(builder.function)
            width = _at_once(lanes)
            for first in range(0, lanes, width):
                at = builder.add(start, start.type(first))
                target, source = (_pairs(builder, x, at, width) for x in data)
                if one_key:
                    key = _splat(builder, given, width)
                else:
                    keys_at = _data(context, builder, kinds[1], given)
                    key = builder.load(_pairs(builder, keys_at, at, width), align=8)
                found = _block(builder, key, builder.load(source, align=8), width)
                _store(builder, found, target, streaming)
            return context.get_dummy_value()

        return types.void(out, keys, counters, types.uint64), emit

    return encipher


def _at_once(lanes: int) -> int:
    """Pairs of one block: as many as leave registers for its keys."""
    from llvmlite import binding

    return min(lanes, 64 if binding.get_host_cpu_features().get("avx512f") else 32)


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    from numba.np.arrayobj import make_array

    return make_array(kind)(context, builder, value).data


def _pairs(builder: Any, data: Any, at: Any, lanes: int) -> Any:
    """Where a vector of pairs begins."""
    from llvmlite import ir

    vector = ir.VectorType(ir.IntType(64), lanes)
    return builder.bitcast(builder.gep(data, (at,)), vector.as_pointer())


def _store(builder: Any, pairs: Any, pointer: Any, streaming: bool) -> None:
    from .vectors import LINE, mark_streaming

    store = builder.store(pairs, pointer, align=LINE if streaming else 8)
    if streaming:
        mark_streaming(builder, store)


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    from llvmlite import ir

    vector = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    for k in range(lanes):
        vector = builder.insert_element(vector, value, ir.Constant(ir.IntType(32), k))
    return vector


def prefer_whole_lines(function: Any) -> None:
    """Vectors of 512 bits where the CPU has them; LLVM by itself takes half of that on most CPUs."""
    set.add(
        function.attributes, '"prefer-vector-width"="512"'
    )  # `add` knows no attributes with values


def _block(builder: Any, key: Any, counter: Any, lanes: int) -> Any:
    """The blocks of `lanes` pairs, whose words are parted by one shuffle each and joined by another."""
    from llvmlite import ir

    words = ir.VectorType(ir.IntType(32), 2 * lanes)

    def shuffled(x: Any, y: Any, order: list[int]) -> Any:
        return builder.shuffle_vector(
            x, y, ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order)
        )

    def halves(pairs: Any) -> list[Words]:
        both = builder.bitcast(pairs, words)
        parts = (shuffled(both, both, list(range(half, 2 * lanes, 2))) for half in (0, 1))
        return [Words(builder, part) for part in parts]

    a, b = enciphered(schedule(*halves(key)), *halves(counter))
    joined = shuffled(a.value, b.value, [half * lanes + k for k in range(lanes) for half in (0, 1)])
    return builder.bitcast(joined, counter.type)


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

"""Between lanes as they lie in memory and lanes as vectors: squares that are transposed in registers.

Like those of vectors.py, the names are put into a kernel's globals before it is compiled. A square has as
many lanes, and as many elements of each, as a cache line has elements. What is in memory is given by an
address.
"""

from __future__ import annotations

from functools import partial
from typing import Any


def gather_square(line: int) -> Any:
    """gather_square(scratch, places, rows, k, address, start, offsets, at): for lanes i and elements j

    scratch[places[rows + j] + k + i] = element start + offsets[at + i] + j of the array at the address.
    """
    return _square(line, _gather, is_part=False)


def gather_part(line: int) -> Any:
    """The same with one more argument: so many elements j are read, what is written for others is 0."""
    return _square(line, _gather, is_part=True)


def scatter_square(line: int) -> Any:
    """The reverse: the array is written, from scratch."""
    return _square(line, _scatter, is_part=False)


def stream_square(line: int) -> Any:
    """The same past the caches; every address written is that of a cache line."""
    return _square(line, partial(_scatter, streaming=True), is_part=False)


def scatter_part(line: int) -> Any:
    """scatter_square with one more argument: so many elements j are written."""
    return _square(line, _scatter, is_part=True)


def prefetch_lanes(line: int, writes: bool) -> Any:
    """prefetch_lanes(scratch, address, start, offsets, at): for lanes i the cache line of

    element start + offsets[at + i] of the array at the address is fetched while the caller goes on, to the
    second of the caches: to be read or, with `writes`, to be written. It may lie outside the array.
    """
    from numba import types
    from numba.extending import intrinsic

    i = types.int64

    @intrinsic  # type: ignore[untyped-decorator]
    def prefetch(typing: Any, scratch: Any, address: Any, start: Any, offsets: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from .vectors import _data

            inside, table = (_data(context, builder, signature.args[k], args[k]) for k in (0, 3))
            base = builder.inttoptr(args[1], inside.type)
            for lane in range(line // (scratch.dtype.bitwidth // 8)):
                offset = builder.load(builder.gep(table, (builder.add(args[4], _index(lane)),)))
                _prefetch(builder, base, builder.add(args[2], offset), writes)
            return context.get_dummy_value()

        return types.void(scratch, i, i, offsets, i), code

    return prefetch


def prefetch_pair(line: int, writes: bool) -> Any:
    """prefetch_pair(scratch, address, start): the same of one cache line and the next."""
    from numba import types
    from numba.extending import intrinsic

    i = types.int64

    @intrinsic  # type: ignore[untyped-decorator]
    def prefetch(typing: Any, scratch: Any, address: Any, start: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from .vectors import _data

            inside = _data(context, builder, signature.args[0], args[0])
            base = builder.inttoptr(args[1], inside.type)
            n = line // (scratch.dtype.bitwidth // 8)
            for start in (args[2], builder.add(args[2], _index(n))):
                _prefetch(builder, base, start, writes)
            return context.get_dummy_value()

        return types.void(scratch, i, i), code

    return prefetch


def _prefetch(builder: Any, base: Any, start: Any, writes: bool) -> None:
    from .registers import prefetch

    address = builder.ptrtoint(builder.gep(base, (start,)), _index(0).type)
    prefetch(builder, address, writes, cache=2)


def gather_line(line: int) -> Any:
    """gather_line(scratch, k, address, start): one cache line of elements from there to scratch[k]."""
    return _line(line, reads=True)


def scatter_line(line: int) -> Any:
    """The reverse."""
    return _line(line, reads=False)


def gather_pairs(line: int) -> Any:
    """gather_pairs(scratch, k, pitch, address, start): a cache line of real parts, from there, to scratch[k],
    of the imaginary parts that follow each to scratch[k + pitch]."""
    return _pairs(line, reads=True)


def scatter_pairs(line: int) -> Any:
    """The reverse."""
    return _pairs(line, reads=False)


def _square(line: int, emit: Any, is_part: bool) -> Any:
    from numba import types
    from numba.extending import intrinsic

    i = types.int64

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from .vectors import _data

        scratch, table, offsets = (
            _data(context, builder, signature.args[k], args[k]) for k in (0, 1, 6)
        )
        rows, k, address, start, at = args[2], args[3], args[4], args[5], args[7]
        size = signature.args[0].dtype.bitwidth // 8
        n = line // size
        base = builder.inttoptr(address, scratch.type)

        def vector_in_scratch(j: int) -> Any:
            row = builder.load(builder.gep(table, (builder.add(rows, _index(j)),)))
            return builder.add(row, k)

        def lane_in_memory(j: int) -> Any:
            offset = builder.load(builder.gep(offsets, (builder.add(at, _index(j)),)))
            return builder.add(start, offset)

        used = _mask(builder, args[8], n) if is_part else None
        emit(builder, scratch, base, vector_in_scratch, lane_in_memory, size, n, used)
        return context.get_dummy_value()

    if is_part:

        @intrinsic  # type: ignore[untyped-decorator]
        def part(
            typing: Any, scratch: Any, places: Any, rows: Any, k: Any, address: Any, start: Any,
            offsets: Any, at: Any, used: Any,
        ) -> Any:  # fmt: skip
            return types.void(scratch, places, i, i, i, i, offsets, i, i), code

        return part

    @intrinsic  # type: ignore[untyped-decorator]
    def square(
        typing: Any, scratch: Any, places: Any, rows: Any, k: Any, address: Any, start: Any,
        offsets: Any, at: Any,
    ) -> Any:  # fmt: skip
        return types.void(scratch, places, i, i, i, i, offsets, i), code

    return square


def _gather(
    builder: Any, scratch: Any, base: Any, row: Any, lane: Any, size: int, n: int, used: Any
) -> None:
    from .vectors import _load, _store, _transposed

    vectors = []
    for i in range(n):
        start = lane(i)
        if used is None:
            vectors.append(_load(builder, base, start, size, n))
        else:
            vectors.append(_load_part(builder, base, start, size, n, used))
    for j, vector in enumerate(_transposed(builder, vectors, size, n)):
        _store(builder, vector, scratch, row(j), size, n, False)


def _scatter(
    builder: Any, scratch: Any, base: Any, row: Any, lane: Any, size: int, n: int, used: Any,
    streaming: bool = False,
) -> None:  # fmt: skip
    from .vectors import _load, _store, _transposed

    vectors = [_load(builder, scratch, row(j), size, n) for j in range(n)]
    for i, vector in enumerate(_transposed(builder, vectors, size, n)):
        if used is None:
            _store(builder, vector, base, lane(i), size, n, streaming)
        else:
            _store_part(builder, vector, base, lane(i), size, n, used)


def _line(line: int, reads: bool) -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def move_line(typing: Any, scratch: Any, k: Any, address: Any, start: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from .vectors import _data, _load, _store

            inside = _data(context, builder, signature.args[0], args[0])
            outside = builder.inttoptr(args[2], inside.type)
            size = scratch.dtype.bitwidth // 8
            n = line // size
            if reads:
                vector = _load(builder, outside, args[3], size, n)
                _store(builder, vector, inside, args[1], size, n, False)
            else:
                vector = _load(builder, inside, args[1], size, n)
                _store(builder, vector, outside, args[3], size, n, False)
            return context.get_dummy_value()

        i = types.int64
        return types.void(scratch, i, i, i), code

    return move_line


def _pairs(line: int, reads: bool) -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def move_pairs(typing: Any, scratch: Any, k: Any, pitch: Any, address: Any, start: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from .vectors import _data, _load, _store

            inside = _data(context, builder, signature.args[0], args[0])
            outside = builder.inttoptr(args[3], inside.type)
            size = scratch.dtype.bitwidth // 8
            n = line // size
            rows = args[1], builder.add(args[1], args[2])
            halves = args[4], builder.add(args[4], _index(n))
            of, starts = (outside, halves) if reads else (inside, rows)
            to, ends = (inside, rows) if reads else (outside, halves)
            x, y = (_load(builder, of, start, size, n) for start in starts)
            for half, end in enumerate(ends):
                if reads:  # real parts, then imaginary ones
                    order = [*range(half, 2 * n, 2)]
                else:
                    order = [j // 2 + n * (j % 2) for j in range(half * n, half * n + n)]
                mask = ir.Constant(ir.VectorType(ir.IntType(32), n), order)
                _store(builder, builder.shuffle_vector(x, y, mask), to, end, size, n, False)
            return context.get_dummy_value()

        i = types.int64
        return types.void(scratch, i, i, i, i), code

    return move_pairs


# ---- vectors of which a part is read or written -----------------------------------------------


def _mask(builder: Any, used: Any, n: int) -> Any:
    """Which elements of a vector are below `used`."""
    from llvmlite import ir

    word = ir.VectorType(ir.IntType(64), n)
    nothing = ir.Constant(word, ir.Undefined)
    one = builder.insert_element(nothing, used, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), n), [0] * n)
    spread = builder.shuffle_vector(one, nothing, zeros)
    return builder.icmp_signed("<", ir.Constant(word, list(range(n))), spread)


def _load_part(builder: Any, data: Any, start: Any, size: int, n: int, used: Any) -> Any:
    """Nothing beyond the part is touched: it may be no memory of ours."""
    from llvmlite import ir

    pointer = _pointer(builder, data, start, size, n)
    vector = pointer.type.pointee
    word = ir.IntType(32)
    kind = ir.FunctionType(vector, (pointer.type, word, used.type, vector))
    name = f"llvm.masked.load.v{n}i{8 * size}.p0"
    return builder.call(
        _declared(builder, kind, name),
        (pointer, ir.Constant(word, size), used, ir.Constant(vector, [0] * n)),
    )


def _store_part(
    builder: Any, vector: Any, data: Any, start: Any, size: int, n: int, used: Any
) -> None:
    from llvmlite import ir

    pointer = _pointer(builder, data, start, size, n)
    word = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), (vector.type, pointer.type, word, used.type))
    name = f"llvm.masked.store.v{n}i{8 * size}.p0"
    builder.call(_declared(builder, kind, name), (vector, pointer, ir.Constant(word, size), used))


def _pointer(builder: Any, data: Any, start: Any, size: int, n: int) -> Any:
    from .vectors import _vector

    return builder.bitcast(builder.gep(data, (start,)), _vector(size, n).as_pointer())


def _declared(builder: Any, kind: Any, name: str) -> Any:
    from numba.core import cgutils

    return cgutils.get_or_insert_function(builder.module, kind, name)


def _index(k: int) -> Any:
    from llvmlite import ir

    return ir.Constant(ir.IntType(64), k)

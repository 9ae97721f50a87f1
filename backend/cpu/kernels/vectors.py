"""What numba has no word for: instructions of LLVM that kernels use by name.

The names are put into a kernel's globals before it is compiled; nothing is imported before that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LINE = 64  # bytes of a cache line
MOST = 16  # lanes of a block of small elements
PAIRS = 64  # of words that are enciphered at a time


def side(itemsize: int) -> int:
    """Elements along each side of a block that is transposed in registers."""
    return min(MOST, LINE // itemsize)


def intrinsics() -> dict[str, Any]:
    """The names: plus, times, largest, smallest; transpose_block, stream_block, copy_line, stream_line;
    widened_float16, widened_bfloat16; fresh, count_up, relax, count_ones; those of panels.py,
    registers.py, across.py, turns.py, calls.py, values.py, butterflies.py and words.py.

    plus and times of two floats may be reordered, so that a loop over them becomes vectors (the
    fastmath flag is on the one instruction, not on what the loop computes besides); largest and smallest
    are LLVM's maximum and minimum, NaN if either is. The widened ones give the float32 of what
    was read as its 16 bits.
    """
    from . import across, butterflies, calls, panels, registers, rows, turns, values, words

    highest, widest = registers.block_size()

    return {
        "plus": _of_two(_reordered("fadd")),
        "times": _of_two(_reordered("fmul")),
        "largest": _of_two(_named("llvm.maximum")),
        "smallest": _of_two(_named("llvm.minimum")),
        "widened_float16": _of_bits(from_float16),
        "widened_bfloat16": _of_bits(from_bfloat16),
        "transpose_block": transposing(streaming=False),
        "stream_block": transposing(streaming=True),
        "copy_line": _line(streaming=False),
        "stream_line": _line(streaming=True),
        "fresh": _fresh(),
        "relax": _relax(),
        "count_up": _count_up(),
        "multiply_block": panels.multiply_block(LINE),
        "pack": panels.pack(LINE),
        "pack_across": panels.pack_across(LINE),
        "pack_lines": panels.pack_lines(LINE),
        "unpack": panels.unpack(LINE),
        "walk": panels.walk(),
        "HIGHEST": highest,
        "LATER": registers.LATER,
        "WIDEST": widest,
        "multiply_strip": registers.multiply_strip(LINE),
        "pack_rows": registers.pack_rows(LINE),
        "bring_near": registers.bring_near(),
        "turn_lines": registers.turn_lines(LINE),
        "copy_element": registers.copy_element(adds=False),
        "add_element": registers.copy_element(adds=True),
        "dot_row": rows.dot_row(LINE),
        "dot_lanes": across.dot_lanes(LINE),
        "scale_lanes": across.scale_lanes(LINE),
        "dot_complex_lanes": across.dot_complex_lanes(LINE),
        "scale_complex_lanes": across.scale_complex_lanes(LINE),
        "gather_square": turns.gather_square(LINE),
        "prefetch_lanes": turns.prefetch_lanes(LINE, writes=False),
        "prefetch_lanes_to_write": turns.prefetch_lanes(LINE, writes=True),
        "prefetch_pair": turns.prefetch_pair(LINE, writes=False),
        "prefetch_pair_to_write": turns.prefetch_pair(LINE, writes=True),
        "gather_pairs": turns.gather_pairs(LINE),
        "gather_part": turns.gather_part(LINE),
        "gather_line": turns.gather_line(LINE),
        "scatter_square": turns.scatter_square(LINE),
        "scatter_pairs": turns.scatter_pairs(LINE),
        "stream_square": turns.stream_square(LINE),
        "scatter_part": turns.scatter_part(LINE),
        "scatter_line": turns.scatter_line(LINE),
        **{f"butterfly{r}": butterflies.butterfly(r, LINE, False) for r in butterflies.RADICES},
        **{f"final{r}": butterflies.butterfly(r, LINE, True) for r in butterflies.RADICES},
        **{f"entering{r}": butterflies.entering(r, LINE) for r in butterflies.RADICES},
        **{f"leaving{r}": butterflies.leaving(r, LINE) for r in butterflies.RADICES},
        "tangle": butterflies.tangled(LINE),
        "untangle": butterflies.untangled(LINE),
        "encipher_many": words.encipher_pairs(PAIRS, one_key=False),
        "encipher_many_alike": words.encipher_pairs(PAIRS, one_key=True),
        "encipher_stream": words.encipher_pairs(PAIRS, one_key=False, streaming=True),
        "encipher_stream_alike": words.encipher_pairs(PAIRS, one_key=True, streaming=True),
        "encipher_one": words.encipher_pairs(1, one_key=False),
        "encipher_one_alike": words.encipher_pairs(1, one_key=True),
        "count_ones": _count_ones(),
        "peek": across.peek(),
        "poke": across.poke(),
        "call_routine": calls.call_routine(),
        **values.intrinsics(LINE),
    }


# ---- arithmetic -------------------------------------------------------------------------------

Emit = Callable[[Any, Any, Any], Any]


def _of_two(emit: Emit) -> Any:
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def of_two(typing: Any, x: Any, y: Any) -> Any:
        if x != y:
            return None
        return x(x, x), lambda context, builder, signature, args: emit(builder, *args)

    return of_two


def _reordered(instruction: str) -> Emit:
    return lambda builder, x, y: getattr(builder, instruction)(x, y, flags=("reassoc", "nsz"))


def _named(name: str) -> Emit:
    from llvmlite import ir

    def emit(builder: Any, x: Any, y: Any) -> Any:
        kind = ir.FunctionType(x.type, (x.type, x.type))
        return builder.call(builder.module.declare_intrinsic(name, (x.type,), kind), (x, y))

    return emit


def _count_ones() -> Any:
    """count_ones(word): how many bits of an integer are 1."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def count_ones(typing: Any, word: Any) -> Any:
        if not isinstance(word, types.Integer):
            return None
        return word(word), lambda context, builder, signature, args: builder.ctpop(args[0])

    return count_ones


# ---- half precisions --------------------------------------------------------------------------


def _of_bits(emit: Callable[[Any, Any], Any]) -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def of_bits(typing: Any, bits: Any) -> Any:
        if bits != types.uint16:
            return None
        return types.float32(bits), lambda context, builder, signature, args: emit(builder, *args)

    return of_bits


def alike(x: Any, element: Any) -> Any:
    """The type of as many of `element` as x has."""
    from llvmlite import ir

    return ir.VectorType(element, x.type.count) if isinstance(x.type, ir.VectorType) else element


def constant(kind: Any, value: Any) -> Any:
    """A number, or a vector of it."""
    from llvmlite import ir

    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def from_bfloat16(builder: Any, bits: Any) -> Any:
    from llvmlite import ir

    word = alike(bits, ir.IntType(32))
    moved = builder.shl(builder.zext(bits, word), constant(word, 16))
    return builder.bitcast(moved, alike(bits, ir.FloatType()))


def from_float16(builder: Any, bits: Any) -> Any:
    """By arithmetic on vectors of integers, since not every CPU has an instruction for it.

    Exponent and fraction move to where float32 has them; the product with 2^112 mends the exponent's
    bias, of subnormal numbers too; what comes out at 2^16 or more was infinite or NaN.
    """
    from llvmlite import ir

    word, single = alike(bits, ir.IntType(32)), alike(bits, ir.FloatType())
    bits = builder.zext(bits, word)
    moved = builder.shl(builder.and_(bits, constant(word, 0x7FFF)), constant(word, 13))
    scaled = builder.fmul(builder.bitcast(moved, single), constant(single, 2.0**112))
    special = builder.fcmp_ordered(">=", scaled, constant(single, 2.0**16))
    plain = builder.bitcast(scaled, word)
    magnitude = builder.select(special, builder.or_(plain, constant(word, 0x7F800000)), plain)
    sign = builder.shl(builder.and_(bits, constant(word, 0x8000)), constant(word, 16))
    return builder.bitcast(builder.or_(magnitude, sign), single)


# ---- waiting ----------------------------------------------------------------------------------


def _fresh() -> Any:
    """fresh(x): x[0] as it is in memory now, for an array that another thread writes."""
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def fresh(typing: Any, x: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _data(context, builder, signature.args[0], args[0])
            return builder.load_atomic(pointer, "acquire", x.dtype.bitwidth // 8)

        return x.dtype(x), emit

    return fresh


def _count_up() -> Any:
    """count_up(x): x[0] as it was before one was added to it, which no other thread does at once."""
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def count_up(typing: Any, x: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            pointer = _data(context, builder, signature.args[0], args[0])
            one = ir.Constant(ir.IntType(x.dtype.bitwidth), 1)
            return builder.atomic_rmw("add", pointer, one, "acq_rel")

        return x.dtype(x), emit

    return count_up


def _relax() -> Any:
    """relax(): let another thread have the core, where one is waiting for it (sched_yield)."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def relax(typing: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir
            from numba.core import cgutils

            kind = ir.FunctionType(ir.IntType(32), ())
            function = cgutils.get_or_insert_function(builder.module, kind, "sched_yield")
            builder.call(function, ())
            return context.get_dummy_value()

        return types.void(), emit

    return relax


# ---- moving -----------------------------------------------------------------------------------


def transposing(streaming: bool = False) -> Any:
    """transpose_block(dst, src, rows, columns, d, s): for a block of side n, r and c below n,

    dst[d + rows[r] + c] = src[s + columns[c] + r]. Both are read and written as vectors; the block is
    transposed between them in log2(n) rounds that exchange its off-diagonal quarters. Streaming stores
    go past the caches; every vector must then start on a cache line.
    """
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def transpose_block(
        typing: Any, dst: Any, src: Any, rows: Any, columns: Any, r: Any, c: Any, d: Any, s: Any
    ) -> Any:
        size = dst.dtype.bitwidth // 8
        n = side(size)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to, of, at_rows, at_columns = (
                _data(context, builder, kind, value)
                for kind, value in zip(signature.args[:4], args[:4], strict=True)
            )
            r, c, d, s = args[4:]
            vectors = []
            for k in range(n):
                offset = builder.load(builder.gep(at_columns, (builder.add(c, _index(k)),)))
                start = builder.add(builder.add(s, offset), r)
                vectors.append(_load(builder, of, start, size, n))
            vectors = _transposed(builder, vectors, size, n)
            for k in range(n):
                offset = builder.load(builder.gep(at_rows, (builder.add(r, _index(k)),)))
                start = builder.add(builder.add(d, offset), c)
                _store(builder, vectors[k], to, start, size, n, streaming)
            return context.get_dummy_value()

        u = types.uint64
        return types.void(dst, src, rows, columns, u, u, u, u), emit

    return transpose_block


def fetching() -> Any:
    """fetch(src, s): have the cache line of src[s] brought near."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def fetch(typing: Any, src: Any, s: Any) -> Any:
        from .registers import prefetch

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            element = builder.gep(_data(context, builder, signature.args[0], args[0]), (args[1],))
            prefetch(builder, builder.ptrtoint(element, _index(0).type))
            return context.get_dummy_value()

        return types.void(src, types.int64), emit

    return fetch


def _line(streaming: bool) -> Any:
    """copy_line(dst, src, d, s): one cache line of elements from src[s] to dst[d]."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def copy_line(typing: Any, dst: Any, src: Any, d: Any, s: Any) -> Any:
        size = dst.dtype.bitwidth // 8

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to = _data(context, builder, signature.args[0], args[0])
            of = _data(context, builder, signature.args[1], args[1])
            vector = _load(builder, of, args[3], size, LINE // size)
            _store(builder, vector, to, args[2], size, LINE // size, streaming)
            return context.get_dummy_value()

        return types.void(dst, src, types.uint64, types.uint64), emit

    return copy_line


def _index(k: int) -> Any:
    from llvmlite import ir

    return ir.Constant(ir.IntType(64), k)


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    from numba.np.arrayobj import make_array

    return make_array(kind)(context, builder, value).data


def _vector(size: int, n: int) -> Any:
    """n elements: integers of their size, those of 16 bytes as two."""
    from llvmlite import ir

    return ir.VectorType(ir.IntType(8 * min(size, 8)), n * max(1, size // 8))


def _load(builder: Any, data: Any, start: Any, size: int, n: int) -> Any:
    pointer = builder.bitcast(builder.gep(data, (start,)), _vector(size, n).as_pointer())
    return builder.load(pointer, align=min(size, 8))


def _store(
    builder: Any, vector: Any, data: Any, start: Any, size: int, n: int, streaming: bool
) -> None:
    pointer = builder.bitcast(builder.gep(data, (start,)), vector.type.as_pointer())
    if not streaming:
        builder.store(vector, pointer, align=min(size, 8))
        return
    mark_streaming(builder, builder.store(vector, pointer, align=size * n))


def mark_streaming(builder: Any, store: Any) -> None:
    """Let what is stored go past the caches."""
    from llvmlite import ir

    one = builder.module.add_metadata((ir.Constant(ir.IntType(32), 1),))
    store.set_metadata("nontemporal", one)


def _transposed(builder: Any, vectors: list[Any], size: int, n: int) -> list[Any]:
    from llvmlite import ir

    words = max(1, size // 8)

    def shuffled(x: Any, y: Any, lanes: list[int]) -> Any:
        mask = [lane * words + word for lane in lanes for word in range(words)]
        return builder.shuffle_vector(
            x, y, ir.Constant(ir.VectorType(ir.IntType(32), len(mask)), mask)
        )

    vectors, width = list(vectors), n // 2
    while width:
        for i in range(n):
            if i & width:
                continue
            x, y = vectors[i], vectors[i + width]
            # lanes n.. are those of y; x gives its right quarter for y's left one
            vectors[i] = shuffled(x, y, [j if not j & width else n + j - width for j in range(n)])
            vectors[i + width] = shuffled(
                x, y, [j + width if not j & width else n + j for j in range(n)]
            )
        width //= 2
    return vectors

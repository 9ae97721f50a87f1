"""Sums of products in registers, of a left operand that is read where it lies.

Like those of vectors.py, the names are put into a kernel's globals before it is compiled. Addresses and
offsets are in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

LATER = 8  # rows that are brought near, of a power of two


def block_size() -> tuple[int, int]:
    """Most rows of a block of sums, and the cache lines of its columns, that stay in registers beside a line
    of the right operand: 21 of the 32 of AVX-512, 10 of the 16 half as long ones of AVX2. (Of 24 and 12 LLVM
    puts some into memory, once something is fetched ahead.) Of complex numbers half as many rows, rounded up:
    products with real and with imaginary parts are added up apart."""
    from llvmlite import binding

    return (7, 3) if binding.get_host_cpu_features().get("avx512f") else (5, 1)


def multiply_strip(line: int) -> Any:
    """multiply_strip(like, height, lines, out, out_rows, out_columns, place, left, left_rows, first, of_left,
    right, of_right, is_packed, depth, columns, adds, streams, later, fetches): for i < height and j <
    columns, which fill so many lines,

    out[out_rows[first + i] + j] (+)= sum_k left[left_rows[first + i] + of_left[k]] * right[of_right[k] + j]

    in numbers of the dtype of `like`: `out`, `left`, `right` and the tables of offsets are addresses. (Arrays
    would be counted by locked instructions, which wait until everything before them is stored.) Of `right`
    whole lines are read; if it is packed, these follow each other without offsets. The columns of a line lie
    one after another in `out`, from the offset out_columns[place + j] of its first one on. With `streams`,
    all of which must then start on cache lines, whole lines go past the caches. A product and its sum may be
    one operation.

    With `fetches`, the lines that will be written are brought near at the beginning: stores would wait for
    them one after another. What comes next is brought near meanwhile: left[later[k % LATER] + of_left[k]],
    where `later` are offsets of rows (those of one row share a line where contracted elements are
    neighbours), and of `right`, if it is not packed, as many lines behind those that are read.
    """
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    from .panels import _spread
    from .vectors import mark_streaming

    word = ir.IntType(64)
    highest, most = block_size()

    @intrinsic  # type: ignore[untyped-decorator]
    def multiply_strip(
        typing: Any, like: Any, height: Any, lines: Any, out: Any, out_rows: Any, out_columns: Any,
        place: Any, left: Any, left_rows: Any, first: Any, of_left: Any, right: Any, of_right: Any,
        is_packed: Any, depth: Any, columns: Any, adds: Any, streams: Any, later: Any, fetches: Any,
    ) -> Any:  # fmt: skip
        element, size, parts = number_of(like.dtype)
        vector = ir.VectorType(element, line // size)
        lanes = line // (size * parts)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            height, lines, out, _, _, first_column, left, _, first, _, right, _ = args[1:13]
            is_packed, depth, columns, adds, streams, _, fetches = args[13:]
            to_rows, to_columns, of_rows, left_table, right_table, later = (
                builder.inttoptr(args[at], word.as_pointer()) for at in (4, 5, 8, 10, 12, 18)
            )

            def number(n: int) -> Any:
                return ir.Constant(word, n)

            def at(address: Any, kind: Any) -> Any:
                return builder.inttoptr(address, kind.as_pointer())

            def place(rows: Any, i: int) -> Any:
                return builder.load(builder.gep(rows, (builder.add(first, number(i)),)))

            def add_up(n_rows: int, n_lines: int, packed: bool) -> list[Any]:
                # of a complex element both parts are spread, each over a register
                starts = [
                    builder.add(builder.add(left, place(of_rows, i)), number(part * size))
                    for i in range(n_rows)
                    for part in range(parts)
                ]
                before = builder.block
                body, after = (builder.append_basic_block(name) for name in ("body", "after"))
                builder.branch(body)
                builder.position_at_end(body)
                k = builder.phi(word)
                k.add_incoming(number(0), before)
                if packed:
                    row = builder.phi(word)
                    row.add_incoming(right, before)
                totals = [builder.phi(vector) for _ in range(n_rows * parts * n_lines)]
                for total in totals:
                    total.add_incoming(ir.Constant(vector, [0.0] * vector.count), before)
                offset = builder.load(builder.gep(left_table, (k,)))
                if not packed:
                    row = builder.add(right, builder.load(builder.gep(right_table, (k,))))
                values = [
                    builder.load(at(builder.add(row, number(line * x)), vector), align=size)
                    for x in range(n_lines)
                ]
                added: list[Any] = []
                for start in starts:
                    x = _spread(builder, at(builder.add(start, offset), element), vector)
                    for y in values:
                        term = builder.fmul(x, y, flags=("contract",))
                        added.append(builder.fadd(totals[len(added)], term, flags=("contract",)))
                # what is brought near stands last: loads behind it would be made in its order, and values
                # wait for their turn in more registers than there are
                which = builder.and_(k, number(LATER - 1))
                after_it = builder.add(left, builder.load(builder.gep(later, (which,))))
                prefetch(builder, builder.add(after_it, offset))
                for x in range(n_lines, 2 * n_lines) if not packed else ():
                    prefetch(builder, builder.add(row, number(line * x)))
                step = builder.add(k, number(1))
                k.add_incoming(step, body)
                if packed:
                    row.add_incoming(builder.add(row, number(n_lines * line)), body)
                for total, value in zip(totals, added, strict=True):
                    total.add_incoming(value, body)
                builder.cbranch(builder.icmp_signed("<", step, depth), body, after)
                builder.position_at_end(after)
                return added if parts == 1 else joined(added, n_lines)

            def joined(sums: list[Any], n_lines: int) -> list[Any]:
                """Of sums (x, y) of real parts times (c, d), and (z, w) of imaginary ones: (x - w, y + z)."""
                swap = ir.Constant(
                    ir.VectorType(ir.IntType(32), vector.count),
                    [i ^ 1 for i in range(vector.count)],
                )
                signs = ir.Constant(vector, [(-1.0, 1.0)[i % 2] for i in range(vector.count)])
                found = []
                for at in range(len(sums)):
                    if at // n_lines % 2 == 0:
                        turned = builder.shuffle_vector(sums[at + n_lines], signs, swap)
                        turned = builder.fmul(turned, signs, flags=("contract",))
                        found.append(builder.fadd(sums[at], turned, flags=("contract",)))
                return found

            def write(sums: list[Any], n_rows: int, n_lines: int) -> None:
                across = []
                for x in range(n_lines):
                    column = builder.add(first_column, number(x * lanes))
                    across.append(builder.load(builder.gep(to_columns, (column,))))

                def each_line() -> Iterator[tuple[int, Any, Any]]:
                    # a row's address is made where it is written: all of them at once would not fit the
                    # registers, and stores of addresses would wait behind those of sums
                    rest = iter(sums)
                    for i in range(n_rows):
                        start = builder.add(out, place(to_rows, i))
                        for x in range(n_lines):
                            yield x, next(rest), at(builder.add(start, across[x]), vector)

                is_whole = builder.icmp_signed(">=", columns, number(n_lines * lanes))
                with builder.if_else(is_whole) as (whole, part):
                    with whole, builder.if_else(adds) as (adding, plain):
                        with adding:
                            for _, total, target in each_line():
                                total = builder.fadd(total, builder.load(target, align=size))
                                builder.store(total, target, align=size)
                        with plain, builder.if_else(streams) as (streaming, kept):
                            with streaming:
                                for _, total, target in each_line():
                                    mark_streaming(
                                        builder, builder.store(total, target, align=line)
                                    )
                            with kept:
                                for _, total, target in each_line():
                                    builder.store(total, target, align=size)
                    with part:  # all lines but the last one are whole
                        rest = builder.sub(columns, number((n_lines - 1) * lanes))
                        mask = lanes_below(builder, vector, builder.mul(rest, number(parts)))
                        with builder.if_else(adds) as (adding, plain):
                            with adding:
                                for x, total, target in each_line():
                                    if x < n_lines - 1:
                                        before = builder.load(target, align=size)
                                        total = builder.fadd(total, before)
                                        builder.store(total, target, align=size)
                                    else:
                                        before = masked_load(builder, target, mask, size)
                                        total = builder.fadd(total, before)
                                        masked_store(builder, total, target, mask, size)
                            with plain:
                                for x, total, target in each_line():
                                    if x < n_lines - 1:
                                        builder.store(total, target, align=size)
                                    else:
                                        masked_store(builder, total, target, mask, size)

            with builder.if_then(fetches), cgutils.for_range(builder, height) as row:
                place_of_row = builder.load(builder.gep(to_rows, (builder.add(first, row.index),)))
                with cgutils.for_range(builder, lines) as column:
                    at_line = builder.add(first_column, builder.mul(column.index, number(lanes)))
                    to_line = builder.load(builder.gep(to_columns, (at_line,)))
                    target = builder.add(builder.add(out, place_of_row), to_line)
                    prefetch(builder, target, to_write=True)

            end = builder.append_basic_block("multiplied")
            case = builder.add(builder.mul(height, number(most)), lines)
            case = builder.select(is_packed, case, builder.neg(case))
            switch = builder.switch(case, end)
            for n_rows, n_lines in product(range(1, -(-highest // parts) + 1), range(1, most + 1)):
                for packed in (True, False):
                    block = builder.append_basic_block(f"by_{n_rows}_and_{n_lines}")
                    number_of_case = n_rows * most + n_lines
                    switch.add_case(number(number_of_case if packed else -number_of_case), block)
                    builder.position_at_end(block)
                    write(add_up(n_rows, n_lines, packed), n_rows, n_lines)
                    builder.branch(end)
            builder.position_at_end(end)
            return context.get_dummy_value()

        i, truth = types.int64, types.boolean
        return types.void(like, *[i] * 12, truth, i, i, truth, truth, i, truth), emit

    return multiply_strip


def pack_rows(line: int) -> Any:
    """pack_rows(like, to, pitch, lines, src, offsets, first, depth, count): for k < depth, `count` elements
    that lie one after another from the address src + offsets[first + k] on, which fill so many lines, as
    whole lines from the address to + k * pitch on, with zeros behind them. The table of offsets is an
    address."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    word = ir.IntType(64)
    _, most = block_size()

    @intrinsic  # type: ignore[untyped-decorator]
    def pack_rows(
        typing: Any, like: Any, to: Any, pitch: Any, lines: Any, src: Any, offsets: Any, first: Any,
        depth: Any, count: Any,
    ) -> Any:  # fmt: skip
        element, size, parts = number_of(like.dtype)
        vector = ir.VectorType(element, line // size)
        lanes = line // (size * parts)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to, pitch, lines, src, table, first, depth, count = args[1:]
            table = builder.inttoptr(table, word.as_pointer())

            def number(n: int) -> Any:
                return ir.Constant(word, n)

            def copy_rows(n_lines: int, mask: Any, end: Any) -> None:
                before = builder.block
                body = builder.append_basic_block("rows")
                builder.branch(body)
                builder.position_at_end(body)
                k = builder.phi(word)
                k.add_incoming(number(0), before)
                source = builder.add(
                    src, builder.load(builder.gep(table, (builder.add(first, k),)))
                )
                target = builder.add(to, builder.mul(k, pitch))
                for x in range(n_lines):
                    at, of = (
                        builder.inttoptr(builder.add(y, number(x * line)), vector.as_pointer())
                        for y in (target, source)
                    )
                    is_part = mask is not None and x == n_lines - 1
                    found = (
                        masked_load(builder, of, mask, size)
                        if is_part
                        else builder.load(of, align=size)
                    )
                    builder.store(found, at, align=size)
                step = builder.add(k, number(1))
                k.add_incoming(step, body)
                builder.cbranch(builder.icmp_signed("<", step, depth), body, end)

            end = builder.append_basic_block("packed")
            switch = builder.switch(lines, end)
            for n_lines in range(1, most + 1):
                whole, part = (builder.append_basic_block(name) for name in ("whole", "part"))
                block = builder.append_basic_block(f"of_{n_lines}")
                switch.add_case(number(n_lines), block)
                builder.position_at_end(block)
                is_whole = builder.icmp_signed(">=", count, number(n_lines * lanes))
                builder.cbranch(is_whole, whole, part)
                builder.position_at_end(whole)
                copy_rows(n_lines, None, end)
                builder.position_at_end(part)
                rest = builder.sub(count, number((n_lines - 1) * lanes))
                rest = builder.mul(rest, number(parts))
                copy_rows(n_lines, lanes_below(builder, vector, rest), end)
            builder.position_at_end(end)
            return context.get_dummy_value()

        i = types.int64
        return types.void(like, *[i] * 8), emit

    return pack_rows


def turn_lines(line: int) -> Any:
    """turn_lines(like, to, pitch, src, places, first, ahead): for r and c below the elements of a line, the
    element r at the address src + places[first + c] becomes element c of the line at the address to + r *
    pitch. The table of places is an address. What lies `ahead` bytes behind the elements is brought near."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    from .vectors import _transposed

    @intrinsic  # type: ignore[untyped-decorator]
    def turn_lines(
        typing: Any, like: Any, to: Any, pitch: Any, src: Any, places: Any, first: Any, ahead: Any
    ) -> Any:
        element, size, parts = number_of(like.dtype)
        n = line // (size * parts)
        vector = ir.VectorType(element, line // size)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to, pitch, src, table, first, ahead = args[1:]
            table = builder.inttoptr(table, ir.IntType(64).as_pointer())
            vectors = []
            for c in range(n):
                at = builder.gep(table, (builder.add(first, ir.Constant(first.type, c)),))
                address = builder.add(src, builder.load(at))
                vectors.append(
                    builder.load(builder.inttoptr(address, vector.as_pointer()), align=size)
                )
                prefetch(builder, builder.add(address, ahead))
            for r, x in enumerate(_transposed(builder, vectors, 8 * parts, n)):
                address = builder.add(to, builder.mul(pitch, ir.Constant(pitch.type, r)))
                builder.store(x, builder.inttoptr(address, vector.as_pointer()), align=size)
            return context.get_dummy_value()

        i = types.int64
        return types.void(like, *[i] * 6), emit

    return turn_lines


def bring_near() -> Any:
    """bring_near(address): the cache line there is fetched to the second of the caches while the caller goes
    on. It may be nobody's."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def bring_near(typing: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            prefetch(builder, args[0], cache=2)
            return context.get_dummy_value()

        return types.void(types.int64), emit

    return bring_near


def copy_element(adds: bool) -> Any:
    """copy_element, add_element(like, to, src): one element at the address src to the address to, or to the
    element there."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def copy_element(typing: Any, like: Any, to: Any, src: Any) -> Any:
        element, size, parts = number_of(like.dtype)
        pointer = ir.VectorType(element, parts).as_pointer()

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            target, source = (builder.inttoptr(x, pointer) for x in args[1:])
            x = builder.load(source, align=size)
            if adds:
                x = builder.fadd(builder.load(target, align=size), x)
            builder.store(x, target, align=size)
            return context.get_dummy_value()

        return types.void(like, types.int64, types.int64), emit

    return copy_element


def number_of(dtype: Any) -> tuple[Any, int, int]:
    """Of a real or complex dtype of numba's: LLVM's type of a part, its bytes, and the number of parts."""
    from numba import types

    from .panels import _element

    if isinstance(dtype, types.Complex):
        return _element(dtype.underlying_float), dtype.bitwidth // 16, 2
    return _element(dtype), dtype.bitwidth // 8, 1


def prefetch(builder: Any, address: Any, to_write: bool = False, cache: int = 1) -> None:
    """Have the line at this address brought to that cache; one that is nobody's does no harm."""
    from llvmlite import ir
    from numba.core import cgutils

    pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), (pointer, word, word, word))
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    numbers = (ir.Constant(word, n) for n in (int(to_write), 4 - cache, 1))  # of data
    builder.call(fetch, (builder.inttoptr(address, pointer), *numbers))


def lanes_below(builder: Any, vector: Any, count: Any) -> Any:
    """A mask of the first `count` lanes."""
    from llvmlite import ir

    n = vector.count
    words = ir.VectorType(count.type, n)
    nothing = ir.Constant(words, ir.Undefined)
    zero = ir.IntType(32)
    one = builder.insert_element(nothing, count, ir.Constant(zero, 0))
    counts = builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(zero, n), [0] * n))
    return builder.icmp_signed("<", ir.Constant(words, [*range(n)]), counts)


def masked_load(builder: Any, pointer: Any, mask: Any, size: int) -> Any:
    """What lies there in lanes of the mask, of which alone memory is read; zeros in others."""
    from llvmlite import ir
    from numba.core import cgutils

    vector = pointer.type.pointee
    kind = ir.FunctionType(vector, (pointer.type, ir.IntType(32), mask.type, vector))
    load = cgutils.get_or_insert_function(builder.module, kind, _masked("load", vector, size))
    align, zeros = ir.Constant(ir.IntType(32), size), ir.Constant(vector, [0.0] * vector.count)
    return builder.call(load, (pointer, align, mask, zeros))


def masked_store(builder: Any, value: Any, pointer: Any, mask: Any, size: int) -> None:
    """Write the lanes of the mask."""
    from llvmlite import ir
    from numba.core import cgutils

    kind = ir.FunctionType(ir.VoidType(), (value.type, pointer.type, ir.IntType(32), mask.type))
    store = cgutils.get_or_insert_function(builder.module, kind, _masked("store", value.type, size))
    builder.call(store, (value, pointer, ir.Constant(ir.IntType(32), size), mask))


def _masked(what: str, vector: Any, size: int) -> str:
    return f"llvm.masked.{what}.v{vector.count}f{8 * size}.p0"

"""What a product of packed panels is made of: one block in registers, and how elements get in and out.

Like those of vectors.py, the names are put into a kernel's globals before it is compiled.
"""

from __future__ import annotations

from typing import Any

HEIGHT = 4
"""Rows of sums that stay in registers: with one cache line of columns they fill half of those of AVX2."""
ROWS, LINES = 8, 2
"""Rows of sums of floating-point numbers in registers, and cache lines of their columns: 16 of 32 registers
of AVX-512. Each row and each line takes a load, of which two are made in the time of two products."""

TOGETHER, NEAR = 32, 8  # cache lines of a row that are packed together, and such rows

NUMBERS, TRUTH, FLOAT16, BFLOAT16 = range(4)
"""What the elements of a buffer are; half precisions are given as their 16 bits."""


def block_shape(dtype: Any, line: int) -> tuple[int, int]:
    """Rows and columns of a block of sums of this dtype (of NumPy or numba).

    A sum of products takes several cycles until it can be added to: a block needs as many sums as the
    registers can hold. Multiplying integers takes longer, and their matrices are smaller.
    """
    lanes = line // dtype.itemsize
    return (lanes, LINES * lanes) if dtype.kind == "f" else (HEIGHT, lanes)


def multiply_block(line: int) -> Any:
    """multiply_block(sums, left, right, depth, at, pitch, at_left, at_right, adds): for the rows i and the
    columns j of a block of `block_shape`,

    sums[at + i * pitch + j] (+)= sum_k left[at_left + k * rows + i] * right[at_right + k * columns + j].

    As many sums as there are registers for stay in these; a product and its sum may be one fused operation.
    Nothing is done if `sums` are of another dtype than the panels.
    """
    import numpy as np
    from llvmlite import binding, ir
    from numba import types
    from numba.extending import intrinsic
    from numba.np.numpy_support import as_dtype

    from .registers import prefetch
    from .vectors import _data

    word = ir.IntType(64)
    is_wide = bool(binding.get_host_cpu_features().get("avx512f"))

    @intrinsic  # type: ignore[untyped-decorator]
    def multiply_block(
        typing: Any, sums: Any, left: Any, right: Any,
        depth: Any, at: Any, pitch: Any, at_left: Any, at_right: Any, adds: Any,
    ) -> Any:  # fmt: skip
        dtype: np.dtype[Any] = as_dtype(sums.dtype)
        height, width = block_shape(dtype, line)
        lanes = line // dtype.itemsize
        vector = ir.VectorType(_element(sums.dtype), lanes)

        def product(builder: Any, total: Any, x: Any, y: Any) -> Any:
            if dtype.kind != "f":
                return builder.add(total, builder.mul(x, y))
            return builder.fadd(total, builder.fmul(x, y, flags=("contract",)), flags=("contract",))

        def plus_sum(builder: Any, x: Any, y: Any) -> Any:
            return builder.fadd(x, y) if dtype.kind == "f" else builder.add(x, y)

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if sums.dtype != left.dtype:
                return context.get_dummy_value()
            to, a, b = (
                _data(context, builder, kind, value)
                for kind, value in zip(signature.args[:3], args[:3], strict=True)
            )
            depth, at, pitch, at_left, at_right, adds = args[3:]
            zero = ir.Constant(vector, [0.0 if dtype.kind == "f" else 0] * lanes)

            def plus(x: Any, n: int) -> Any:
                return builder.add(x, ir.Constant(word, n))

            def pointer(base: Any, start: Any) -> Any:
                return builder.bitcast(builder.gep(base, (start,)), vector.as_pointer())

            def add_up(rows: range, lines: range) -> None:
                targets = [
                    pointer(to, plus(builder.add(at, builder.mul(ir.Constant(word, i), pitch)), j))
                    for i in rows
                    for j in lines
                ]
                for target in targets:
                    prefetch(builder, builder.ptrtoint(target, word))
                before = builder.block
                body, after = (builder.append_basic_block(name) for name in ("body", "after"))
                builder.branch(body)

                builder.position_at_end(body)
                k = builder.phi(word)
                k.add_incoming(ir.Constant(word, 0), before)
                totals = [builder.phi(vector) for _ in targets]
                for total in totals:
                    total.add_incoming(zero, before)
                start = builder.add(at_right, builder.mul(k, ir.Constant(word, width)))
                of_b = [
                    builder.load(pointer(b, plus(start, j)), align=dtype.itemsize) for j in lines
                ]
                start = builder.add(at_left, builder.mul(k, ir.Constant(word, height)))
                added: list[Any] = []
                for i in rows:
                    of_a = _spread(builder, builder.gep(a, (plus(start, i),)), vector)
                    for line_of_b in of_b:
                        added.append(product(builder, totals[len(added)], of_a, line_of_b))
                step = plus(k, 1)
                k.add_incoming(step, body)
                for total, value in zip(totals, added, strict=True):
                    total.add_incoming(value, body)
                builder.cbranch(builder.icmp_signed("<", step, depth), body, after)

                builder.position_at_end(after)
                with builder.if_else(adds) as (adding, plain):
                    with adding:
                        for target, value in zip(targets, added, strict=True):
                            value = plus_sum(
                                builder, value, builder.load(target, align=dtype.itemsize)
                            )
                            builder.store(value, target, align=dtype.itemsize)
                    with plain:
                        for target, value in zip(targets, added, strict=True):
                            builder.store(value, target, align=dtype.itemsize)

            rows, columns = (min(height, ROWS), width) if is_wide else (HEIGHT, lanes)
            for i in range(0, height, rows):
                for j in range(0, width, columns):
                    add_up(range(i, i + rows), range(j, j + columns, lanes))
            return context.get_dummy_value()

        i = types.int64
        return types.void(sums, left, right, i, i, i, i, i, types.boolean), emit

    return multiply_block


def _spread(builder: Any, pointer: Any, vector: Any) -> Any:
    """A vector of one element."""
    from llvmlite import ir

    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, builder.load(pointer), ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, nothing, zeros)


def entering() -> Any:
    """entering(x, sums, kind): an element of an operand as a number of the dtype of sums."""
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def entering(typing: Any, x: Any, sums: Any, kind: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _entered(builder, args[0], _element(sums.dtype), args[2])

        return sums.dtype(x, sums, kind), emit

    return entering


def leaving() -> Any:
    """leaving(x, out, kind): a sum as an element of out: integers modulo 2**bits, half precisions rounded to
    nearest, ties to even."""
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def leaving(typing: Any, x: Any, out: Any, kind: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _left(builder, args[0], _element(out.dtype), args[2])

        return out.dtype(x, out, kind), emit

    return leaving


def entering_line(line: int) -> Any:
    """entering_line(sums, at, x, start, kind): `entering` of a run of x to a cache line of sums."""
    return _line(line, lambda builder, value, to, kind: _entered(builder, value, to, kind), 0)


def leaving_line(line: int) -> Any:
    """leaving_line(out, start, sums, at, kind): `leaving` of a cache line of sums to a run of out."""
    return _line(line, lambda builder, value, to, kind: _left(builder, value, to, kind), 1)


def entering_pieces(line: int) -> Any:
    """enter_pieces(dst, d, src, s, t, cut, end): a cache line of floating-point numbers or words as long,

    dst[d + i] = src[s + i] for i < cut, src[t + i] for cut <= i < end, and 0 from there on.
    """

    def emit(builder: Any, to: Any, of: Any, rest: Any, masks: Any, size: int) -> None:
        from .registers import masked_load

        x, y = (masked_load(builder, *x, size) for x in zip((of, rest), masks, strict=True))
        builder.store(builder.select(masks[0], x, y), to, align=size)

    return _of_pieces(line, emit, is_read=True)


def leaving_pieces(line: int) -> Any:
    """leave_pieces(dst, d, src, s, e, cut, end): of a cache line at src[s], as above,

    dst[d + i] = src[s + i] for i < cut, dst[e + i] = src[s + i] for cut <= i < end.
    """

    def emit(builder: Any, to: Any, of: Any, rest: Any, masks: Any, size: int) -> None:
        from .registers import masked_store

        value = builder.load(of, align=size)
        for target, mask in zip((to, rest), masks, strict=True):
            masked_store(builder, value, target, mask, size)

    return _of_pieces(line, emit, is_read=False)


def _of_pieces(line: int, emit_pieces: Any, is_read: bool) -> Any:
    """The second piece is of what `is_read`, or of what is written. Nothing is done with numbers that would
    change on the way, or are too short for masks."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def of_pieces(
        typing: Any, dst: Any, d: Any, src: Any, s: Any, other: Any, cut: Any, end: Any
    ) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if dst.dtype.bitwidth != src.dtype.bitwidth or dst.dtype.bitwidth < 32:
                return context.get_dummy_value()
            to, d, of, s, other, cut, end = args
            second = (src, of, other) if is_read else (dst, to, other)
            vector, size = _floats(line, dst.dtype)
            places = (
                _at(context, builder, *x, vector) for x in ((dst, to, d), (src, of, s), second)
            )
            emit_pieces(builder, *places, _pieces(builder, vector, cut, end), size)
            return context.get_dummy_value()

        i = types.int64
        return types.void(dst, i, src, i, i, i, i), emit

    return of_pieces


def _floats(line: int, dtype: Any) -> tuple[Any, int]:
    """A line of numbers of such bits as floating-point ones, which masks are for; bytes of each."""
    from llvmlite import ir

    size = dtype.bitwidth // 8
    return ir.VectorType(ir.DoubleType() if size == 8 else ir.FloatType(), line // size), size


def _pieces(builder: Any, vector: Any, cut: Any, end: Any) -> tuple[Any, Any]:
    """Masks of lanes below cut, and of those from there on below end."""
    from .registers import lanes_below

    below = lanes_below(builder, vector, cut)
    return below, builder.and_(builder.not_(below), lanes_below(builder, vector, end))


def _at(context: Any, builder: Any, kind: Any, array: Any, place: Any, vector: Any) -> Any:
    from .vectors import _data

    data = _data(context, builder, kind, array)
    return builder.bitcast(builder.gep(data, (place,)), vector.as_pointer())


def _line(line: int, convert: Any, of: int) -> Any:
    """dst[d + j] = convert(src[s + j]) for as many j as numbers of dst (0) or src (1) fill a cache line."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    from .vectors import _data

    @intrinsic  # type: ignore[untyped-decorator]
    def over_line(typing: Any, dst: Any, d: Any, src: Any, s: Any, kind: Any) -> Any:
        lanes = line * 8 // (dst, src)[of].dtype.bitwidth

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            to, start, source, at, kind = args
            target, value = (
                builder.bitcast(
                    builder.gep(_data(context, builder, array, x), (place,)),
                    ir.VectorType(_element(array.dtype), lanes).as_pointer(),
                )
                for array, x, place in ((dst, to, start), (src, source, at))
            )
            x = builder.load(value, align=src.dtype.bitwidth // 8)
            x = convert(builder, x, _element(dst.dtype), kind)
            builder.store(x, target, align=dst.dtype.bitwidth // 8)
            return context.get_dummy_value()

        return types.void(dst, types.int64, src, types.int64, kind), emit

    return over_line


def _element(dtype: Any) -> Any:
    from llvmlite import ir
    from numba import types

    floats = {types.float32: ir.FloatType, types.float64: ir.DoubleType}
    return floats[dtype]() if dtype in floats else ir.IntType(dtype.bitwidth)


def _is_float(kind: Any) -> bool:
    from llvmlite import ir

    return isinstance(kind, (ir.FloatType, ir.DoubleType))


def _is(builder: Any, kind: Any, value: int) -> Any:
    from llvmlite import ir

    return builder.icmp_signed("==", kind, ir.Constant(kind.type, value))


def _entered(builder: Any, x: Any, to: Any, kind: Any) -> Any:
    from llvmlite import ir

    from .vectors import alike, from_bfloat16, from_float16

    if _is_float(getattr(x.type, "element", x.type)):
        return x
    if isinstance(to, ir.FloatType):
        return builder.select(
            _is(builder, kind, BFLOAT16), from_bfloat16(builder, x), from_float16(builder, x)
        )
    wide, width = alike(x, to), x.type.element.width if hasattr(x.type, "element") else x.type.width
    truth = builder.zext(builder.icmp_signed("!=", x, ir.Constant(x.type, None)), wide)
    number = builder.sext(x, wide) if width < to.width else x
    return builder.select(_is(builder, kind, TRUTH), truth, number)


def _left(builder: Any, x: Any, to: Any, kind: Any) -> Any:

    from .vectors import alike

    if _is_float(to):
        return x
    element = getattr(x.type, "element", x.type)
    if _is_float(element):
        bits = builder.select(
            _is(builder, kind, BFLOAT16), _to_bfloat16(builder, x), _to_float16(builder, x)
        )
        return builder.trunc(bits, alike(x, to))
    return builder.trunc(x, alike(x, to)) if element.width > to.width else x


def _to_bfloat16(builder: Any, x: Any) -> Any:
    """The upper half of float32, rounded: half of the last place is added, less one bit for a tie with an
    even number. A NaN keeps its upper bits and becomes quiet."""
    from llvmlite import ir

    from .vectors import alike, constant

    word = alike(x, ir.IntType(32))
    bits = builder.bitcast(x, word)
    upper = builder.lshr(bits, constant(word, 16))
    odd = builder.and_(upper, constant(word, 1))
    rounded = builder.add(bits, builder.add(odd, constant(word, 0x7FFF)))
    rounded = builder.lshr(rounded, constant(word, 16))
    is_nan = builder.fcmp_unordered("uno", x, x)
    return builder.select(is_nan, builder.or_(upper, constant(word, 0x40)), rounded)


def _to_float16(builder: Any, x: Any) -> Any:
    """By arithmetic, since not every CPU has an instruction for it.

    From 2^-14 on the exponent is moved and the fraction rounded as above; what carries beyond the largest
    number is infinite. Below, the sum with 1/2 rounds to multiples of 2^-24, the least subnormal number.
    """
    from llvmlite import ir

    from .vectors import alike, constant

    word = alike(x, ir.IntType(32))
    bits = builder.bitcast(x, word)
    sign = builder.and_(builder.lshr(bits, constant(word, 16)), constant(word, 0x8000))
    magnitude = builder.and_(bits, constant(word, 0x7FFFFFFF))
    odd = builder.and_(builder.lshr(magnitude, constant(word, 13)), constant(word, 1))
    bias = (0xFFF - (112 << 23)) % (1 << 32)
    moved = builder.add(magnitude, builder.add(odd, constant(word, bias)))
    normal = builder.lshr(moved, constant(word, 13))
    shifted = builder.fadd(builder.bitcast(magnitude, x.type), constant(x.type, 0.5))
    tiny = builder.sub(builder.bitcast(shifted, word), constant(word, 0x3F000000))
    is_tiny = builder.icmp_unsigned("<", magnitude, constant(word, 0x38800000))
    is_large = builder.icmp_unsigned(">=", magnitude, constant(word, 0x47800000))
    is_nan = builder.fcmp_unordered("uno", x, x)
    result = builder.select(is_tiny, tiny, normal)
    result = builder.select(is_large, constant(word, 0x7C00), result)
    result = builder.select(is_nan, constant(word, 0x7E00), result)
    return builder.or_(sign, result)


def pack(line: int) -> Any:
    """pack(dst, d, pitch, step, steps, src, s, places, first, n, offsets, depth, count, kind): for i < count,

    dst[d + k * pitch + i] = src[s + places[first + i] + offsets[k]], or any number where first + i is not
    below n; places have some that can be read there.

    If they are as wide as a line, what lies one after another along i is read by lines; what does so along
    k, k + step, ... by blocks that are transposed in registers, while the next `count` are brought near.
    steps[j] is j * step * pitch.
    """
    import numpy as np
    from numba.extending import register_jitable

    from .vectors import fetching, transposing

    place = np.uint64  # an index that is not taken for one from the end
    enter, enter_line, block, fetch = entering(), entering_line(line), transposing(), fetching()
    is_run = register_jitable(_is_run)

    def pack(
        dst: Any, d: int, pitch: int, step: int, steps: Any, src: Any, s: int,
        places: Any, first: int, n: int, offsets: Any, depth: int, count: int, kind: int,
    ) -> None:  # fmt: skip
        is_line = count * dst.itemsize == line
        if is_line and is_run(places, first, n, count, 1):
            for k in range(depth):
                enter_line(dst, d + k * pitch, src, s + places[first] + offsets[k], kind)
            return
        done, has_next = 0, first + 2 * count <= n
        is_plain = kind == NUMBERS and dst.itemsize == src.itemsize and dst.itemsize >= 4
        while is_line and is_plain and done + step * count <= depth:
            if step == 1 and not is_run(offsets, done, depth, count, 1):
                for i in range(count):
                    dst[place(d + done * pitch + i)] = enter(
                        src[place(s + places[first + i] + offsets[done])], dst, kind
                    )
                done += 1
                continue
            for k in range(done, done + step):
                to = d + k * pitch
                if is_run(offsets, k, depth, count, step):
                    block(dst, src, steps, places, 0, first, to - first, s + offsets[k])
                    for i in range(count if has_next else 0):
                        fetch(src, s + places[first + count + i] + offsets[k])
                    continue
                for i in range(count):
                    start = s + places[first + i]
                    for j in range(count):
                        x = src[place(start + offsets[k + j * step])]
                        dst[place(to + steps[j] + i)] = enter(x, dst, kind)
            done += step * count
        for i in range(count):
            if first + i < n:
                start = s + places[first + i]
                for k in range(done, depth):
                    x = src[place(start + offsets[k])]
                    dst[place(d + k * pitch + i)] = enter(x, dst, kind)
            else:
                for k in range(done, depth):
                    dst[d + k * pitch + i] = 0

    return register_jitable(pack)


def pack_lines(line: int) -> Any:
    """pack_lines(dst, d, width, src, s, places, cuts, first, n, offsets, depth, kind): how many columns, in
    whole cache lines, have been packed from `first` on, below n and a line's rest,

    dst[d + (c // width * depth + k) * width + c % width] = src[s + places[j] + offsets[k]], c = j - first,

    until some line lies in more than two pieces, or in two of numbers that change on the way. The lines of a
    few k are copied before those of the next ones, so that what is read are long rows. cuts is scratch.
    """
    from numba.extending import register_jitable

    enter_line, enter_pieces = entering_line(line), entering_pieces(line)
    length_of_run = register_jitable(_length_of_run)

    def pack_lines(
        dst: Any, d: int, width: int, src: Any, s: int,
        places: Any, cuts: Any, first: int, n: int, offsets: Any, depth: int, kind: int,
    ) -> int:  # fmt: skip
        lanes = line // dst.itemsize
        is_plain = kind == NUMBERS and dst.itemsize == src.itemsize and dst.itemsize >= 4
        lines = 0
        while lines < TOGETHER and first + lines * lanes < n:
            j = first + lines * lanes
            end = min(lanes, n - j)
            cut = length_of_run(places, j, end)
            if cut < lanes and not (
                is_plain and cut + length_of_run(places, j + cut, end - cut) == end
            ):
                break
            cuts[lines] = cut
            lines += 1
        for start in range(0, depth, NEAR):
            stop = min(start + NEAR, depth)
            for at in range(lines):
                j, cut = at * lanes, cuts[at]
                to, of = d + j // width * width * depth + j % width, s + places[first + j]
                if cut == lanes:
                    for k in range(start, stop):
                        enter_line(dst, to + k * width, src, of + offsets[k], kind)
                    continue
                end = min(lanes, n - first - j)
                rest = of if cut == end else s + places[first + j + cut] - cut
                for k in range(start, stop):
                    enter_pieces(
                        dst, to + k * width, src, of + offsets[k], rest + offsets[k], cut, end
                    )
        return lines * lanes

    return register_jitable(pack_lines)


def pack_across(line: int) -> Any:
    """pack_across(dst, width, step, steps, src, s, places, first, n, offsets, depth, kind): whether, for all
    k and the columns j = first, ..., first + step * lanes - 1, by blocks that are transposed,

    dst[(j // width * depth + k) * width + j % width] = src[s + places[j] + offsets[k]]

    has been done: where elements lie one after another along j, j + step, ... steps is scratch.
    """
    from numba.extending import register_jitable

    from .vectors import transposing

    block = transposing()
    is_run = register_jitable(_is_run)

    def pack_across(
        dst: Any, width: int, step: int, steps: Any, src: Any, s: int,
        places: Any, first: int, n: int, offsets: Any, depth: int, kind: int,
    ) -> bool:  # fmt: skip
        lanes = line // dst.itemsize
        if kind != NUMBERS or dst.itemsize != src.itemsize or dst.itemsize < 4:
            return False
        if step % lanes != 0 or first % lanes != 0 or step * lanes % width != 0:
            return False
        for j in range(step):
            if not is_run(places, first + j, n, lanes, step):
                return False
        for j in range(first, first + step, lanes):
            for i in range(lanes):
                column = j + i * step
                steps[i] = column // width * width * depth + column % width
            for k in range(depth):
                block(dst, src, steps, places, 0, j, k * width - j, s + offsets[k])
        return True

    return register_jitable(pack_across)


def unpack(line: int) -> Any:
    """unpack(out, to, rows, first, count, columns, n, sums, at, pitch, kind): for i below count, j below n,

    out[to + rows[first + i] + columns[j]] = sums[at + i * pitch + j].
    """
    import numpy as np
    from numba.extending import register_jitable

    place = np.uint64
    leave, leave_line, leave_pieces = leaving(), leaving_line(line), leaving_pieces(line)
    length_of_run = register_jitable(_length_of_run)

    def unpack(
        out: Any, to: int, rows: Any, first: int, count: int, columns: Any, n: int,
        sums: Any, at: int, pitch: int, kind: int,
    ) -> None:  # fmt: skip
        lanes = line // sums.itemsize
        is_plain = kind == NUMBERS and out.itemsize == sums.itemsize and out.itemsize >= 4
        for j0 in range(0, n, lanes):
            end = min(lanes, n - j0)
            cut = length_of_run(columns, j0, end)
            of_rest = columns[j0]
            if cut < end:
                of_rest = columns[j0 + cut] - cut
            if cut == lanes:
                for i in range(count):
                    leave_line(
                        out, to + columns[j0] + rows[first + i], sums, at + i * pitch + j0, kind
                    )
            elif is_plain and cut + length_of_run(columns, j0 + cut, end - cut) == end:
                for i in range(count):
                    of_row = to + rows[first + i]
                    leave_pieces(
                        out,
                        of_row + columns[j0],
                        sums,
                        at + i * pitch + j0,
                        of_row + of_rest,
                        cut,
                        end,
                    )
            else:
                for i in range(count):
                    start = to + rows[first + i]
                    for j in range(j0, j0 + end):
                        x = sums[place(at + i * pitch + j)]
                        out[place(start + columns[j])] = leave(x, out, kind)

    return register_jitable(unpack)


def walk() -> Any:
    """walk(axes, start, count, first, second): offsets of elements start, start + 1, ... of `axes`, whose
    sizes are axes[0], in two arrays of strides axes[1] and axes[2]."""
    from numba.extending import register_jitable

    return register_jitable(_walk)


def _walk(axes: Any, start: int, count: int, first: Any, second: Any) -> None:
    last = axes.shape[1] - 1
    done = 0
    while done < count:
        rest, x, y = start + done, 0, 0
        run = count - done
        step_x, step_y = 0, 0
        for axis in range(last, -1, -1):
            at = rest % axes[0, axis]
            rest //= axes[0, axis]
            x += at * axes[1, axis]
            y += at * axes[2, axis]
            if axis == last:
                run = min(run, axes[0, axis] - at)
                step_x, step_y = axes[1, axis], axes[2, axis]
        for k in range(run):
            first[done + k] = x + k * step_x
            second[done + k] = y + k * step_y
        done += run


def _length_of_run(places: Any, first: int, most: int) -> int:
    """How many of at most so many places from the first one on are one after another."""
    count = min(most, 1)
    while count < most and places[first + count] == places[first] + count:
        count += 1
    return count


def _is_run(offsets: Any, first: int, n: int, count: int, step: int) -> bool:
    """Whether of n offsets those of first, first + step, ..., `count` of them, are one after another."""
    if first + (count - 1) * step >= n:
        return False
    start = offsets[first]
    run = True
    for k in range(1, count):
        run &= offsets[first + k * step] == start + k
    return run

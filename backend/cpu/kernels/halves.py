"""Two real lines as one complex line: what stands between their half spectra and its whole one.

For z = x + i y with real x and y, X[k] = (Z[k] + conj Z[n-k]) / 2 and Y[k] = (Z[k] - conj Z[n-k]) / 2i;
the other way Z[k] = X[k] + i Y[k] and Z[n-k] = conj X[k] + i conj Y[k]. In memory the bins of x and y
alternate, as the numbers of x and y do.

Like those of vectors.py, the names are put into a kernel's globals before it is compiled.
"""

from __future__ import annotations

from typing import Any


def scatter_halves(line: int) -> Any:
    """scatter_halves(scratch, ar, ai, br, bi, address, start): X[k] and Y[k] by turns, from element `start`
    of the array at the address on, of the parts of Z[k] at ar and ai, and those of Z[n-k] at br and bi."""
    return _moving(line, _scatter)


def gather_halves(line: int) -> Any:
    """The reverse: Z[k] and Z[n-k] are written to scratch, from X[k] and Y[k] by turns in memory."""
    return _moving(line, _gather)


def gather_ends(line: int) -> Any:
    """The same for k = 0 and k = n/2, where Z[k] is Z[n-k] and imaginary parts of X and Y count as 0."""
    return _moving(line, _gather_ends)


def _moving(line: int, emit: Any) -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    word = ir.IntType(64)
    i = types.int64

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        from .vectors import _data

        scratch = _data(context, builder, signature.args[0], args[0])
        bits = signature.args[0].dtype.bitwidth
        lanes = line * 8 // bits
        vector = ir.VectorType(ir.FloatType() if bits == 32 else ir.DoubleType(), lanes)
        outside = builder.inttoptr(args[5], scratch.type)

        def at(data: Any, start: Any, k: int = 0) -> Any:
            index = builder.add(start, ir.Constant(word, k * lanes))
            return builder.bitcast(builder.gep(data, (index,)), vector.as_pointer())

        inside = [at(scratch, place) for place in args[1:5]]
        memory = [at(outside, args[6], k) for k in range(4)]
        emit(_Registers(builder, vector, bits // 8), inside, memory)
        return context.get_dummy_value()

    @intrinsic  # type: ignore[untyped-decorator]
    def move(
        typing: Any, scratch: Any, ar: Any, ai: Any, br: Any, bi: Any, address: Any, start: Any
    ) -> Any:
        return types.void(scratch, i, i, i, i, i, i), code

    return move


class _Registers:
    """Loads, stores, sums and shuffles of vectors of one type."""

    def __init__(self, builder: Any, vector: Any, align: int) -> None:
        self.builder, self.vector, self.align = builder, vector, align

    def load(self, pointer: Any) -> Any:
        return self.builder.load(pointer, align=self.align)

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, pointer, align=self.align)

    def shuffled(self, x: Any, y: Any, lanes: list[int]) -> Any:
        from llvmlite import ir

        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
        return self.builder.shuffle_vector(x, y, mask)

    def halved(self, x: Any) -> Any:
        from llvmlite import ir

        return self.builder.fmul(x, ir.Constant(self.vector, [0.5] * self.vector.count))


def _scatter(r: _Registers, inside: list[Any], memory: list[Any]) -> None:
    ar, ai, br, bi = (r.load(pointer) for pointer in inside)
    b, n = r.builder, r.vector.count
    parts = [b.fadd(ar, br), b.fsub(ai, bi), b.fadd(ai, bi), b.fsub(br, ar)]
    xr, xi, yr, yi = map(r.halved, parts)
    for k, pointer in enumerate(memory):
        # elements k n ... of xr[0], xi[0], yr[0], yi[0], xr[1], ...
        spots = [divmod(k * n + e, 4) for e in range(n)]
        x = r.shuffled(xr, xi, [lane + n * (part % 2) for lane, part in spots])
        y = r.shuffled(yr, yi, [lane + n * (part % 2) for lane, part in spots])
        order = [e + n * (part // 2) for e, (_, part) in enumerate(spots)]
        r.store(r.shuffled(x, y, order), pointer)


def _taken_apart(r: _Registers, memory: list[Any]) -> list[Any]:
    """xr, xi, yr, yi from four vectors in which they take turns."""
    n = r.vector.count
    v = [r.load(pointer) for pointer in memory]
    found = []
    for part in range(4):
        halves = [
            r.shuffled(v[k], v[k + 1], [*range(part, 2 * n, 4)] * 2) for k in (0, 2)
        ]  # the first half of each is what counts
        order = [*range(n // 2), *range(n, n + n // 2)]
        found.append(r.shuffled(halves[0], halves[1], order))
    return found


def _gather(r: _Registers, inside: list[Any], memory: list[Any]) -> None:
    xr, xi, yr, yi = _taken_apart(r, memory)
    b = r.builder
    values = [b.fsub(xr, yi), b.fadd(xi, yr), b.fadd(xr, yi), b.fsub(yr, xi)]
    for value, pointer in zip(values, inside, strict=True):
        r.store(value, pointer)


def _gather_ends(r: _Registers, inside: list[Any], memory: list[Any]) -> None:
    xr, _, yr, _ = _taken_apart(r, memory)
    r.store(xr, inside[0])
    r.store(yr, inside[1])

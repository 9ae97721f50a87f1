"""The text of a fused kernel: loads, one expression a step, and a store or an accumulation.

Two shapes of loops, both over tiles that threads share. Operands are flat buffers; rank and strides
reach the kernel as numbers, so that a text is compiled once for its steps and dtypes, and for which
operands are contiguous ("c"), constant ("b") or strided ("s") along the columns; and once more for results
that go past the caches.

Indices are unsigned: a signed one costs a test for counting from the end, and no vectors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import real_of
from ..fusion import FusionStep
from ..spec import ArraySpec, own_char
from .formulas import COMPILED, formula, type_name

DType = np.dtype[Any]
LINE = 64  # bytes of a cache line


@dataclass(frozen=True, slots=True)
class Body:
    """What is computed for one element: a line for each step, and the names of the outputs."""

    inputs: tuple[DType, ...]
    lines: tuple[str, ...]
    outputs: tuple[str, ...]


def body_of(
    values: Sequence[ArraySpec], steps: Sequence[FusionStep], outputs: Sequence[int]
) -> Body | None:
    """The steps as expressions over v0, v1, ...; None where one of them has no formula."""
    inputs = len(values) - len(steps)
    lines = []
    for position, step in enumerate(steps):
        names = [f"v{k}" for k in step.operands]
        text = formula(step.op, step.attrs, names, [values[k].dtype for k in step.operands])
        if text is None:
            return None
        lines.append(f"v{inputs + position} = {text}")
    if any(own_char(spec.dtype) not in COMPILED or not spec.dtype.isnative for spec in values):
        return None
    dtypes = tuple(spec.dtype for spec in values[:inputs])
    return Body(dtypes, tuple(lines), tuple(f"v{k}" for k in outputs))


# ---- elementwise ------------------------------------------------------------------------------


def elementwise_source(body: Body, pattern: str, streams: bool = False) -> str:
    """out[tile, r, j] = body(in[tile, r, j]): `pattern` has a letter for each output, then input.

    `sizes` holds the rows and columns of a tile and of the whole; the last two outer axes count
    blocks of rows and of columns, of which the last may be short. With `streams`, the columns of each
    output are contiguous, and whole cache lines go past the caches: a row is computed into scratch that
    stays in them, and written from there.
    """
    outputs, inputs = len(body.outputs), len(body.inputs)
    buffers = [f"o{k}" for k in range(outputs)] + [f"i{k}" for k in range(inputs)]
    inner = [f"v{k} = {_load(f'i{k}', outputs + k, pattern)}" for k in range(inputs)]
    inner += body.lines
    targets = [
        f"row{k}[j]" if streams else f"o{k}[{_index(k, pattern[k])}]" for k in range(outputs)
    ]
    stores = [f"{target} = {name}" for target, name in zip(targets, body.outputs, strict=True)]
    streamed = range(outputs if streams else 0)
    hoisted = [line for line in inner[:inputs] if "j" not in line.partition("=")[2]]
    inner = [line for line in inner if line not in hoisted]
    return "\n".join(
        [
            "import math",
            "import numpy as np",
            "",
            "",
            f"def fused(start, stop, origins, outer, sizes, steps, {', '.join(buffers)}):",
            *_odometer_start("outer", len(buffers)),
            *(f"    row{k} = np.empty(sizes[2], o{k}.dtype)" for k in streamed),
            "    for _ in range(start, stop):",
            "        n_rows = min(sizes[0], sizes[1] - position[axes - 2] * sizes[0])",
            "        n_columns = min(sizes[2], sizes[3] - position[axes - 1] * sizes[2])",
            "        for r in range(n_rows):",
            *(
                f"            b{k} = np.uint64(at[{k}] + r * steps[0, {k}])"
                for k in range(len(buffers))
            ),
            *(f"            s{k} = steps[1, {k}]" for k, c in enumerate(pattern) if c == "s"),
            *(f"            {line}" for line in hoisted),
            "            for j in range(n_columns):",
            *(f"                {line}" for line in [*inner, *stores]),
            *(f"            {line}" for k in streamed for line in _streamed(k)),
            *_odometer_advance("outer", len(buffers), 8),
            "",
        ]
    )


def _streamed(k: int) -> list[str]:
    """The row of output k from scratch to where it belongs. Elements that lie between multiples of their
    size, as complex ones may, fill no whole cache line: they are stored one by one."""
    return [
        f"address, size = o{k}.ctypes.data + np.int64(b{k}) * o{k}.itemsize, o{k}.itemsize",
        f"head = n_columns if address % size else min(n_columns, -address % {LINE} // size)",
        f"end = n_columns - (n_columns - head) % ({LINE} // size)",
        "for j in range(head):",
        f"    o{k}[b{k} + np.uint64(j)] = row{k}[j]",
        f"for j in range(head, end, {LINE} // size):",
        f"    stream_line(o{k}, row{k}, b{k} + np.uint64(j), np.uint64(j))",
        "for j in range(end, n_columns):",
        f"    o{k}[b{k} + np.uint64(j)] = row{k}[j]",
    ]


def _index(k: int, letter: str, j: str = "j", suffix: str = "") -> str:
    base = f"b{k}{suffix}"
    return {"c": f"{base} + np.uint64({j})", "b": base, "s": f"{base} + np.uint64({j} * s{k})"}[
        letter
    ]


def _load(buffer: str, k: int, pattern: str) -> str:
    return f"{buffer}[{_index(k, pattern[k])}]"


def _odometer_start(table: str, buffers: int) -> list[str]:
    """Position number `start` among the axes of `table`, and each buffer's offset there."""
    return [
        f"    axes = {table}.shape[1]",
        "    position = np.zeros(max(axes, 1), np.int64)",
        "    at = origins.copy()",
        "    rest = start",
        "    for axis in range(axes - 1, -1, -1):",
        f"        position[axis] = rest % {table}[0, axis]",
        f"        rest //= {table}[0, axis]",
        f"        for k in range({buffers}):",
        f"            at[k] += position[axis] * {table}[1 + k, axis]",
    ]


def _odometer_advance(table: str, buffers: int, indent: int, prefix: str = "") -> list[str]:
    position, at, axes = f"{prefix}position", f"{prefix}at", f"{prefix}axes"
    lines = [
        f"for axis in range({axes} - 1, -1, -1):",
        f"    {position}[axis] += 1",
        f"    for k in range({buffers}):",
        f"        {at}[k] += {table}[1 + k, axis]",
        f"    if {position}[axis] < {table}[0, axis]:",
        "        break",
        f"    for k in range({buffers}):",
        f"        {at}[k] -= {table}[0, axis] * {table}[1 + k, axis]",
        f"    {position}[axis] = 0",
    ]
    return [" " * indent + line for line in lines]


# ---- reductions -------------------------------------------------------------------------------


def reduction_source(
    body: Body, accumulators: Sequence[DType], op: str, pattern: str, abreast: int
) -> str:
    """out[tile, c] = op over tiles, rows and lanes: each lane of a row keeps an accumulator.

    `pattern` has a letter for each input. `kept` counts over what stays, `reduced` over what does not;
    a row has `lanes` elements, of which those congruent modulo `period` are folded into one output.
    `abreast` rows are merged before an accumulator is touched.
    sizes = what a mean is divided by, rows, lanes of a row, lanes of the last row, period, columns in all.
    """
    nest = _Nest(body, accumulators, op, pattern)
    lanes = [
        (_ComplexProducts if op == "reduce_prod" and dtype.kind == "c" else _Lanes)(k, op, dtype)
        for k, dtype in enumerate(accumulators)
    ]
    single = nest.values("j", "")
    merged = [line for u in range(abreast) for line in nest.values("j", f"_{u}")]
    for k, lane in enumerate(lanes):
        single += lane.merged([nest.result(k, "")])
        merged += lane.merged([nest.result(k, f"_{u}") for u in range(abreast)])
    fold = [line for lane in lanes for line in lane.folded()]
    return nest.text(
        before=[line for lane in lanes for line in lane.made()],
        start=[
            "lanes = min(sizes[2], sizes[5] - position[axes - 1] * sizes[2])",
            "last = min(lanes, sizes[3])",
            "full = sizes[1] if last == lanes else sizes[1] - 1",
            f"whole = full - full % {abreast}",
            "for j in range(lanes):",
            *(f"    {line}" for lane in lanes for line in lane.begun()),
        ],
        reduce=[
            f"for r in range(0, whole, {abreast}):",
            *(f"    {line}" for u in range(abreast) for line in nest.offsets(f"r + {u}", f"_{u}")),
            "    for j in range(lanes):",
            *(f"        {line}" for line in merged),
            "for r in range(whole, sizes[1]):",
            "    width = lanes if r < full else last",
            *(f"    {line}" for line in nest.offsets("r", "")),
            "    for j in range(width):",
            *(f"        {line}" for line in single),
        ],
        finish=[
            "width = lanes",
            "period = min(sizes[4], lanes)",
            "while width > period:",
            "    half = (width // period + 1) // 2 * period",
            "    for j in range(width - half):",
            *(f"        {line}" for line in fold),
            "    width = half",
            "for j in range(period):",
            *(f"    {nest.store(k, lane.result())}" for k, lane in enumerate(lanes)),
        ],
    )


class _Lanes:
    """An accumulator for each lane j of an output: lines that make, begin, merge, fold and read them."""

    def __init__(self, k: int, op: str, dtype: DType) -> None:
        self.k, self.op, self.dtype = k, op, dtype

    def made(self) -> list[str]:
        return [f"a{self.k} = np.empty(sizes[2], np.{_scalar(self.dtype)})"]

    def begun(self) -> list[str]:
        return [f"a{self.k}[j] = {identity(self.op, self.dtype)}"]

    def merged(self, parts: list[str]) -> list[str]:
        return [f"a{self.k}[j] = {_tree(self.op, [f'a{self.k}[j]', *parts], self.dtype)}"]

    def folded(self) -> list[str]:
        return [
            f"a{self.k}[j] = {combined(self.op, self.result(), f'a{self.k}[j + half]', self.dtype)}"
        ]

    def result(self) -> str:
        return f"a{self.k}[j]"


class _ComplexProducts(_Lanes):
    """The same with real and imaginary parts in arrays of their own: vectors then need no shuffling."""

    def made(self) -> list[str]:
        real = _scalar(real_of(self.dtype))
        return [f"{part}{self.k} = np.empty(sizes[2], np.{real})" for part in ("re", "im")]

    def begun(self) -> list[str]:
        return [f"re{self.k}[j] = 1.0", f"im{self.k}[j] = 0.0"]

    def merged(self, parts: list[str]) -> list[str]:
        product = f"p{self.k} = {_tree(self.op, parts, self.dtype)}"
        return [product, *self._times(f"p{self.k}.real", f"p{self.k}.imag")]

    def folded(self) -> list[str]:
        return self._times(f"re{self.k}[j + half]", f"im{self.k}[j + half]")

    def _times(self, real: str, imag: str) -> list[str]:
        re, im, t = f"re{self.k}[j]", f"im{self.k}[j]", f"t{self.k}"
        return [
            f"{t} = {re} * {real} - {im} * {imag}",
            f"{im} = {re} * {imag} + {im} * {real}",
            f"{re} = {t}",
        ]

    def result(self) -> str:
        return f"complex(re{self.k}[j], im{self.k}[j])"


def run_source(
    body: Body, accumulators: Sequence[DType], op: str, pattern: str, abreast: int = 1
) -> str:
    """out[tile] = op over tiles and a run of sizes[2] elements.

    Blocks of sizes[1] elements are reduced by themselves and then added up, so that the rounding error
    of a long sum grows with the length of a block and the number of blocks, not with their product.
    """
    nest = _Nest(body, accumulators, op, pattern)
    count = range(nest.outputs)
    return nest.text(
        before=[],
        start=[f"t{k} = {identity(op, dtype)}" for k, dtype in enumerate(accumulators)],
        reduce=[
            *nest.offsets("0", ""),
            "for block in range(0, sizes[2], sizes[1]):",
            *(f"    a{k} = {identity(op, dtype)}" for k, dtype in enumerate(accumulators)),
            "    for j in range(block, min(block + sizes[1], sizes[2])):",
            *(f"        {line}" for line in nest.element("j", "", [f"a{k}" for k in count], True)),
            *(
                f"    t{k} = {combined(op, f't{k}', f'a{k}', dtype)}"
                for k, dtype in enumerate(accumulators)
            ),
        ],
        finish=["j = 0", *(nest.store(k, f"t{k}") for k in count)],
    )


class _Nest:
    """The loops that reductions share: over what is kept, then over tiles of what is reduced."""

    def __init__(self, body: Body, accumulators: Sequence[DType], op: str, pattern: str) -> None:
        self.body, self.accumulators, self.op = body, accumulators, op
        self.outputs, self.inputs = len(body.outputs), len(body.inputs)
        self.pattern = "c" * self.outputs + pattern

    def values(self, j: str, suffix: str) -> list[str]:
        """Loads and steps of one element, every name with a suffix."""
        lines = []
        for k in range(self.inputs):
            at = self.outputs + k
            index = _index(at, self.pattern[at], j, suffix)
            lines.append(f"v{k}{suffix} = i{k}[{index}]")
        return lines + [_suffixed(line, suffix) for line in self.body.lines]

    def result(self, k: int, suffix: str) -> str:
        """Output k of one element in the accumulator's dtype."""
        return f"{type_name(self.accumulators[k])}({self.body.outputs[k]}{suffix})"

    def element(
        self, j: str, suffix: str, targets: Sequence[str], in_register: bool = False
    ) -> list[str]:
        """One element, accumulated into `targets`."""
        lines = self.values(j, suffix)
        merge = accumulated if in_register else combined
        for k, dtype in enumerate(self.accumulators):
            lines.append(
                f"{targets[k]} = {merge(self.op, targets[k], self.result(k, suffix), dtype)}"
            )
        return lines

    def offsets(self, row: str, suffix: str) -> list[str]:
        """Where a row starts in each input."""
        return [
            f"b{k}{suffix} = np.uint64(r_at[{k}] + ({row}) * steps[0, {k}])"
            for k in range(self.outputs, self.outputs + self.inputs)
        ]

    def store(self, k: int, value: str) -> str:
        if self.op == "reduce_mean":
            value = f"{value} / sizes[0]"
        return f"o{k}[np.uint64(at[{k}] + j * steps[1, {k}])] = {value}"

    def text(
        self, before: list[str], start: list[str], reduce: list[str], finish: list[str]
    ) -> str:
        count = self.outputs + self.inputs
        buffers = [f"o{k}" for k in range(self.outputs)] + [f"i{k}" for k in range(self.inputs)]
        return "\n".join(
            [
                "import math",
                "import numpy as np",
                "",
                "",
                f"def fused(start, stop, origins, kept, reduced, sizes, steps, {', '.join(buffers)}):",
                *_odometer_start("kept", count),
                "    r_axes = reduced.shape[1]",
                "    tiles = 1",
                "    for axis in range(r_axes):",
                "        tiles *= reduced[0, axis]",
                "    r_position = np.zeros(max(r_axes, 1), np.int64)",
                "    r_at = at.copy()",
                *(
                    f"    s{k} = steps[1, {k}]"
                    for k in range(self.outputs, count)
                    if self.pattern[k] == "s"
                ),
                *(f"    {line}" for line in before),
                "    for _ in range(start, stop):",
                *(f"        {line}" for line in start),
                f"        for k in range({count}):",
                "            r_at[k] = at[k]",
                "        for _ in range(tiles):",
                *(f"            {line}" for line in reduce),
                *_odometer_advance("reduced", count, 12, "r_"),
                *(f"        {line}" for line in finish),
                *_odometer_advance("kept", count, 8),
                "",
            ]
        )


def _suffixed(line: str, suffix: str) -> str:
    return re.sub(r"\bv(\d+)\b", rf"v\g<1>{suffix}", line) if suffix else line


def _tree(op: str, terms: list[str], dtype: DType) -> str:
    """The reduction of several numbers, in pairs."""
    while len(terms) > 1:
        pairs = [combined(op, x, y, dtype) for x, y in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(pairs) * 2 :]
    return terms[0]


def _scalar(dtype: DType) -> str:
    return type_name(dtype).removeprefix("np.")


def identity(op: str, dtype: DType) -> str:
    """What leaves any number as it is under the reduction."""
    if op in ("reduce_sum", "reduce_mean", "reduce_prod"):
        return f"{type_name(dtype)}({'1' if op == 'reduce_prod' else '0'})"
    least = op == "reduce_max"
    if dtype.kind == "f":
        return f"{type_name(dtype)}({'-' if least else ''}np.inf)"
    if dtype.kind == "b":
        return "False" if least else "True"
    info = np.iinfo(dtype)
    return f"{type_name(dtype)}({info.min if least else info.max})"


def combined(op: str, x: str, y: str, dtype: DType) -> str:
    """The reduction of two numbers."""
    name = {
        "reduce_sum": "add",
        "reduce_mean": "add",
        "reduce_prod": "multiply",
        "reduce_max": "maximum",
        "reduce_min": "minimum",
    }[op]
    text = formula(name, {}, (x, y), (dtype, dtype))
    assert text is not None
    return text


def accumulated(op: str, x: str, y: str, dtype: DType) -> str:
    """The same, where one accumulator takes in a whole loop: in an order that vectors allow."""
    name = {
        "reduce_sum": "plus",
        "reduce_mean": "plus",
        "reduce_prod": "times",
        "reduce_max": "largest",
        "reduce_min": "smallest",
    }[op]
    return f"{name}({x}, {y})" if dtype.kind == "f" else combined(op, x, y, dtype)

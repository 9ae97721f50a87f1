"""Text of StableHLO, line by line: values with their types, literals, and the few ops that rules share.

Ops are written in MLIR's generic form, one form for all of them. Source: the specification of StableHLO,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._base.errors import Unsupported
from ...backend.catalogue import Attrs
from ...backend.spec import ArraySpec, Shape

DType = np.dtype[Any]

_NAMES = {
    "bool": "i1",
    **{f"int{n}": f"i{n}" for n in (4, 8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (4, 8, 16, 32, 64)},
    **{f"float{n}": f"f{n}" for n in (16, 32, 64)},
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}
BOOL, INDEX = np.dtype(np.bool_), np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class Value:
    """An SSA value: its name, dtype and shape."""

    name: str
    spec: ArraySpec

    @property
    def dtype(self) -> DType:
        return self.spec.dtype

    @property
    def shape(self) -> Shape:
        return self.spec.shape

    @property
    def ndim(self) -> int:
        return len(self.spec.shape)


Values = tuple[Value, ...]
Specs = tuple[ArraySpec, ...]
Rule = Callable[["Text", Attrs, Values, Specs], Value | Values]


def element(dtype: DType) -> str:
    """A dtype in StableHLO's words."""
    try:
        return _NAMES[dtype.name]
    except KeyError:
        raise Unsupported(
            f"stablehlo: there is no element type for {dtype.name}; convert to another dtype first"
        ) from None


def tensor(spec: ArraySpec) -> str:
    """The type of an array.

    >>> tensor(ArraySpec(np.dtype("float32"), (2, 3)))
    'tensor<2x3xf32>'
    """
    return f"tensor<{'x'.join([*map(str, spec.shape), element(spec.dtype)])}>"


def literal(value: Any, dtype: DType) -> str:
    """A number of this dtype, read back exactly.

    >>> literal(1e20, np.dtype("float64")), literal(float("inf"), np.dtype("float32"))
    ('1.0e+20', '0x7F800000')
    """
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "c":
        number = complex(value)
        part = np.dtype(dtype.char.lower())
        return f"({literal(number.real, part)}, {literal(number.imag, part)})"
    if dtype.kind in "iu":
        return str(int(value))
    with np.errstate(over="ignore"):  # bounds of integers may be infinite in half precision
        stored = np.array(value).astype(dtype)
    number = float(stored)
    if not math.isfinite(number):
        return f"0x{int(stored.view(f'u{dtype.itemsize}')):0{2 * dtype.itemsize}X}"
    shown = repr(number)
    return shown if "." in shown else shown.replace("e", ".0e")


def dims(values: Sequence[int]) -> str:
    """Integers as an attribute.

    >>> dims((1, 0)), dims(())
    ('array<i64: 1, 0>', 'array<i64>')
    """
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


@dataclass(slots=True)
class Text:
    """Appends ops to a text; each method returns the new value."""

    lines: list[str] = field(default_factory=list)
    count: int = 0
    prefix: str = "%"

    def fresh(self, dtype: DType, shape: Sequence[int]) -> Value:
        value = Value(f"{self.prefix}{self.count}", ArraySpec(dtype, tuple(shape)))
        self.count += 1
        return value

    def several(
        self,
        op: str,
        operands: Sequence[Value],
        results: Sequence[tuple[DType, Sequence[int]]],
        region: Sequence[str] = (),
        **attrs: str,
    ) -> Values:
        """One op of StableHLO with any number of results; `region` are the lines of its body."""
        made = tuple(self.fresh(*result) for result in results)
        body = ["({", *region, "})"] if region else []
        shown = ", ".join(f"{name} = {value}" for name, value in attrs.items())
        left = ", ".join(value.name for value in made)
        head = f'{left} = "stablehlo.{op}"({", ".join(x.name for x in operands)})'
        tail = f"{f' {{{shown}}}' if shown else ''} : {signature(operands, made)}"
        if body:
            self.lines += [f"{head} {body[0]}", *body[1:-1], f"{body[-1]}{tail}"]
        else:
            self.lines.append(f"{head}{tail}")
        return made

    def op(
        self,
        op: str,
        *operands: Value,
        dtype: DType | None = None,
        shape: Sequence[int] | None = None,
        region: Sequence[str] = (),
        **attrs: str,
    ) -> Value:
        """One op of StableHLO with one result, of the first operand's dtype and shape unless told."""
        result = (
            operands[0].dtype if dtype is None else dtype,
            operands[0].shape if shape is None else shape,
        )
        return self.several(op, operands, [result], region, **attrs)[0]

    # ---- what rules share ---------------------------------------------------------------------

    def full(self, value: Any, dtype: DType, shape: Sequence[int] = ()) -> Value:
        """An array of one number."""
        kind = tensor(ArraySpec(dtype, tuple(shape)))
        text = f"dense<{literal(value, dtype)}> : {kind}"
        return self.op("constant", dtype=dtype, shape=shape, value=text)

    def like(self, value: Any, x: Value) -> Value:
        return self.full(value, x.dtype, x.shape)

    def convert(self, x: Value, dtype: DType) -> Value:
        return x if x.dtype == dtype else self.op("convert", x, dtype=dtype)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return x if x.shape == tuple(shape) else self.op("reshape", x, shape=shape)

    def broadcast(self, x: Value, shape: Sequence[int], axes: Sequence[int]) -> Value:
        return self.op("broadcast_in_dim", x, shape=shape, broadcast_dimensions=dims(axes))

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        if tuple(perm) == tuple(range(x.ndim)):
            return x
        shape = [x.shape[axis] for axis in perm]
        return self.op("transpose", x, shape=shape, permutation=dims(perm))

    def slice(
        self, x: Value, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]
    ) -> Value:
        shape = [-((a - b) // step) for a, b, step in zip(starts, stops, steps, strict=True)]
        return self.op(
            "slice",
            x,
            shape=shape,
            start_indices=dims(starts),
            limit_indices=dims(stops),
            strides=dims(steps),
        )

    def pad(
        self, x: Value, value: Any, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
    ) -> Value:
        sizes = zip(x.shape, low, high, interior, strict=True)
        shape = [n + a + b + max(0, n - 1) * gap for n, a, b, gap in sizes]
        return self.op(
            "pad",
            x,
            self.full(value, x.dtype),
            shape=shape,
            edge_padding_low=dims(low),
            edge_padding_high=dims(high),
            interior_padding=dims(interior),
        )

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        kind = {"b": "UNSIGNED", "u": "UNSIGNED", "i": "SIGNED"}.get(x.dtype.kind, "FLOAT")
        return self.op(
            "compare",
            x,
            y,
            dtype=BOOL,
            comparison_direction=f"#stablehlo<comparison_direction {direction}>",
            compare_type=f"#stablehlo<comparison_type {kind}>",
        )

    def select(self, pred: Value, x: Value, y: Value) -> Value:
        return self.op("select", pred, x, y, dtype=x.dtype, shape=x.shape)

    def iota(self, shape: Sequence[int], axis: int, dtype: DType = INDEX) -> Value:
        return self.op("iota", dtype=dtype, shape=shape, iota_dimension=f"{axis} : i64")

    def concatenate(self, values: Sequence[Value], axis: int) -> Value:
        shape = list(values[0].shape)
        shape[axis] = sum(x.shape[axis] for x in values)
        return self.op("concatenate", *values, shape=shape, dimension=f"{axis} : i64")


def signature(operands: Sequence[Value], results: Sequence[Value]) -> str:
    """The type of a function from operands to results."""
    left = ", ".join(tensor(x.spec) for x in operands)
    right = ", ".join(tensor(x.spec) for x in results)
    return f"({left}) -> {right if len(results) == 1 else f'({right})'}"


def body(dtypes: Sequence[DType], build: Callable[[Text, Values], Sequence[Value]]) -> list[str]:
    """The lines of a region: a block over scalars of these dtypes, and what it returns."""
    inner = Text(prefix="%r")
    scalars = tuple(Value(f"%a{k}", ArraySpec(dtype, ())) for k, dtype in enumerate(dtypes))
    results = build(inner, scalars)
    heads = ", ".join(f"{x.name}: {tensor(x.spec)}" for x in scalars)
    return [
        f"^bb0({heads}):",
        *(f"  {line}" for line in (*inner.lines, returned("stablehlo", results))),
    ]


def returned(dialect: str, results: Sequence[Value]) -> str:
    """The last line of a block."""
    names = ", ".join(x.name for x in results)
    kinds = ", ".join(tensor(x.spec) for x in results)
    return f'"{dialect}.return"({names}) : ({kinds}) -> ()'

"""The thirty ops that every backend of graphs has, by the rules of ONNX: broadcasting, axes that count from
the end, parts left out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...program.trace import Traced, broadcast_shape
from .ops import (
    broadcast,
    broadcast_to,
    cast,
    constant,
    kept,
    node,
    one,
    positive,
    positives,
    reshape,
    several,
    size,
    taken,
)
from .tensors import dtype_of

BINARY = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Equal": "equal",
    "Greater": "greater", "Less": "less", "GreaterOrEqual": "greater_equal",
    "LessOrEqual": "less_equal", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "And": "bitwise_and", "Or": "bitwise_or", "Xor": "bitwise_xor",
}  # fmt: skip
UNARY = {
    "Neg": "negate", "Abs": "absolute", "Sqrt": "sqrt", "Exp": "exp", "Log": "log",
    "Identity": "identity", "BitwiseNot": "bitwise_not", "Not": "bitwise_not", "Sin": "sin",
    "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh",
    "Cosh": "cosh", "Tanh": "tanh", "Erf": "erf", "Sign": "sign", "Reciprocal": "reciprocal",
    "Floor": "floor", "Ceil": "ceil", "Round": "round",
}  # fmt: skip


def binary(op: str, x: Traced, y: Traced, count: int) -> Traced:
    return one(op, *broadcast(x, y))


def unary(op: str, x: Traced, count: int) -> Traced:
    return one(op, x)


for name, op in BINARY.items():
    node(name)(partial(binary, op))
for name, op in UNARY.items():
    node(name)(partial(unary, op))


@node("Pow")
def power(x: Traced, y: Traced, count: int) -> Traced:
    """In the dtype of x; an integer to a fraction goes through float64."""
    wide = np.float64 if x.dtype.kind in "iu" and y.dtype.kind == "f" else x.dtype
    base, exponent = broadcast(cast(x, wide), cast(y, wide))
    return cast(one("power", base, exponent), x.dtype)


@node("Where")
def where(condition: Traced, x: Traced, y: Traced, count: int) -> Traced:
    return one("select", *broadcast(condition, x, y))


@node("MatMul")
def matmul(x: Traced, y: Traced, count: int) -> Traced:
    """NumPy's: vectors become matrices for the while, leading axes broadcast."""
    rows, columns = x.ndim == 1, y.ndim == 1
    x = one("expand_dims", x, axes=(0,)) if rows else x
    y = one("expand_dims", y, axes=(1,)) if columns else y
    batch = broadcast_shape("MatMul", x.shape[:-2], y.shape[:-2])
    product = one(
        "matmul",
        broadcast_to(x, (*batch, *x.shape[-2:])),
        broadcast_to(y, (*batch, *y.shape[-2:])),
    )
    dropped = (product.ndim - 2,) * rows + (product.ndim - 1,) * columns
    return one("squeeze", product, axes=dropped)


# ---- reductions -----------------------------------------------------------------------------------


def reduction(
    op: str,
    x: Traced,
    count: int,
    axes: Sequence[int] = (),
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Traced:
    if not len(axes) and noop_with_empty_axes:
        return one("identity", x)
    chosen = positives(axes, x.ndim) if len(axes) else tuple(range(x.ndim))
    attrs: dict[str, Any] = {"axes": chosen}
    if not size([x.shape[axis] for axis in chosen]) and op in ("reduce_max", "reduce_min"):
        attrs["initial"] = of_nothing(op, x.dtype)
    elif op in ("reduce_max", "reduce_min"):
        attrs["initial"] = None
    return kept(one(op, x, **attrs), tuple(sorted(chosen)), keepdims)


def of_nothing(op: str, dtype: Any) -> Any:
    """The least number for a maximum, the largest for a minimum."""
    largest = op == "reduce_min"
    if dtype.kind == "b":
        return largest
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max if largest else np.iinfo(dtype).min)
    return float("inf") if largest else float("-inf")


for name in ("Sum", "Mean", "Max", "Min", "Prod"):
    node(f"Reduce{name}", axes=1)(partial(reduction, f"reduce_{name.lower()}"))


# ---- structure ------------------------------------------------------------------------------------


@node("Reshape", shape=1)
def reshaped(x: Traced, count: int, shape: Sequence[int], allowzero: int = 0) -> Traced:
    """0 stands for the size of x at that axis, -1 for what is left."""
    sizes = [int(n) or (0 if allowzero else x.shape[k]) for k, n in enumerate(shape)]
    if -1 in sizes:
        sizes[sizes.index(-1)] = size(x.shape) // size([n for n in sizes if n != -1])
    return reshape(x, sizes)


@node("Transpose")
def transpose(x: Traced, count: int, perm: Sequence[int] = ()) -> Traced:
    return one("transpose", x, perm=tuple(perm) or tuple(reversed(range(x.ndim))))


@node("Concat")
def concat(*xs: Traced, count: int, axis: int = 0) -> Traced:
    return one("concatenate", *xs, axis=positive(axis, xs[0].ndim))


@node("Slice", starts=1, ends=2, axes=3, steps=4)
def sliced(
    x: Traced,
    count: int,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] = (),
    steps: Sequence[int] = (),
) -> Traced:
    chosen = positives(axes, x.ndim) if len(axes) else tuple(range(len(starts)))
    strides = [int(n) for n in steps] or [1] * len(chosen)
    for axis, start, end, step in zip(chosen, starts, ends, strides, strict=True):
        x = taken(x, axis, int(start), int(end), step)
    return x


@node("Split", split=1)
def split(
    x: Traced, count: int, axis: int = 0, split: Sequence[int] = (), num_outputs: int = 0
) -> tuple[Traced, ...]:
    """Without sizes equal ones, as many as there are outputs; the last may be smaller."""
    axis = positive(axis, x.ndim)
    n, parts = x.shape[axis], num_outputs or count
    each = -(-n // parts)
    sizes = [int(k) for k in split] or [min(each, n - each * k) for k in range(parts)]
    return several("split", x, axis=axis, sizes=tuple(sizes))


@node("Squeeze", axes=1)
def squeeze(x: Traced, count: int, axes: Sequence[int] = ()) -> Traced:
    of_size_1 = tuple(axis for axis, n in enumerate(x.shape) if n == 1)
    return one("squeeze", x, axes=positives(axes, x.ndim) or of_size_1)


@node("Unsqueeze", axes=1)
def unsqueeze(x: Traced, count: int, axes: Sequence[int]) -> Traced:
    return one("expand_dims", x, axes=tuple(sorted(positives(axes, x.ndim + len(axes)))))


@node("Expand", shape=1)
def expand(x: Traced, count: int, shape: Sequence[int]) -> Traced:
    return broadcast_to(x, broadcast_shape("Expand", x.shape, tuple(int(n) for n in shape)))


@node("Gather")
def gather(x: Traced, indices: Traced, count: int, axis: int = 0) -> Traced:
    return one("take", x, indices, axis=positive(axis, x.ndim))


# ---- casts ----------------------------------------------------------------------------------------


@node("Cast")
def casted(
    x: Traced, count: int, to: int, saturate: int = 1, round_mode: bytes = b"nearest"
) -> Traced:
    """Floats saturate to those of 8 bits, if they are to, and wrap to integers of few bits.

    The catalogue's cast is the other way round in both.
    """
    target = dtype_of(to)
    if "float8_e8m0" in target.name:
        return cast(scale_above(x, target), target)
    if target.name.startswith("float8") and saturate:
        import ml_dtypes

        most = float(ml_dtypes.finfo(target).max)
        wide = cast(x, np.float32)
        return cast(one("clamp", wide, constant(wide, -most), constant(wide, most)), target)
    if target.name in ("int2", "uint2", "int4", "uint4"):
        return cast(cast(x, np.int8), target)
    return cast(x, target)


def scale_above(x: Traced, target: Any) -> Traced:
    """The power of two that is not below x, from the one that is nearest."""
    x = cast(x, np.float32)
    x = one("maximum", x, constant(x, 2.0**-127))
    nearest = cast(cast(x, target), np.float32)
    doubled = one("add", nearest, nearest)
    return one("select", one("less", nearest, x), doubled, nearest)

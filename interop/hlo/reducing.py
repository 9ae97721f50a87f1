"""Reductions, scans and orders in StableHLO: ops with a region."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._base.errors import Unsupported
from ...backend.catalogue import Attrs
from ...backend.rules import without
from .text import INDEX, DType, Rule, Specs, Text, Value, Values, body, dims

OPS = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
HALF = frozenset(("float16", "bfloat16"))


def identity(kind: str, dtype: DType) -> Any:
    """The number that changes no sum, product, maximum or minimum."""
    if kind in ("sum", "prod"):
        return kind == "prod"
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return bounds.min if kind == "max" else bounds.max
    if dtype.kind == "b":
        return kind == "min"
    return -np.inf if kind == "max" else np.inf


def wide(text: Text, x: Value, kind: str = "sum") -> Value:
    """Half precisions are accumulated in single precision."""
    halves = x.dtype.name in HALF and kind in ("sum", "prod")
    return text.convert(x, np.dtype(np.float32)) if halves else x


def reduced(text: Text, x: Value, axes: tuple[int, ...], kind: str) -> Value:
    """x with one axis or more added up, or whatever the kind says."""
    dtype = x.dtype
    x = wide(text, x, kind)
    region = body((x.dtype, x.dtype), lambda inner, pair: [inner.op(OPS[kind], *pair)])
    start = text.full(identity(kind, x.dtype), x.dtype)
    shape = without(x.shape, axes)
    found = text.op("reduce", x, start, shape=shape, region=region, dimensions=dims(sorted(axes)))
    return text.convert(found, dtype)


def reduction(kind: str) -> Rule:
    def rule(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
        found = reduced(text, xs[0], attrs["axes"], kind)
        if attrs.get("initial") is None:
            return found
        return text.op(OPS[kind], found, text.like(attrs["initial"], found))

    return rule


def _mean(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    x = wide(text, xs[0])
    total = reduced(text, x, attrs["axes"], "sum")
    count = 1
    for axis in attrs["axes"]:
        count *= x.shape[axis]
    return text.convert(text.op("divide", total, text.like(count, total)), specs[0].dtype)


def _is_nan(text: Text, x: Value) -> Value:
    return text.compare("NE", x, x)


def before(text: Text, x: Value, y: Value, direction: str) -> Value:
    """Whether x comes before y by `direction`, where NaN is the last."""
    found = text.compare(direction, x, y)
    if x.dtype.kind in "biu":
        return found
    return text.op("or", found, text.op("and", _is_nan(text, y), text.compare("EQ", x, x)))


def argument(kind: str) -> Rule:
    """Reduces pairs of a number and its index: the better number wins, NaN above all, then the first."""
    direction = {"max": "GT", "min": "LT"}[kind]

    def choose(text: Text, scalars: Values) -> list[Value]:
        x, i, y, j = scalars
        better, equal = text.compare(direction, x, y), text.compare("EQ", x, y)
        if x.dtype.kind not in "biu":
            nan, other = _is_nan(text, x), _is_nan(text, y)
            better = text.op("or", better, text.op("and", nan, text.op("not", other)))
            equal = text.op("or", equal, text.op("and", nan, other))
        first = text.op("and", equal, text.compare("LT", i, j))
        pick = text.op("or", better, first)
        return [text.select(pick, x, y), text.select(pick, i, j)]

    def rule(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
        x, axis = xs[0], attrs["axis"]
        region = body((x.dtype, INDEX, x.dtype, INDEX), choose)
        operands = (
            x,
            text.iota(x.shape, axis),
            text.full(identity(kind, x.dtype), x.dtype),
            text.full(np.iinfo(INDEX).max, INDEX),
        )
        results = [(x.dtype, specs[0].shape), (INDEX, specs[0].shape)]
        return text.several("reduce", operands, results, region, dimensions=dims((axis,)))[1]

    return rule


def _scan(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """log2(n) steps: each element takes in what stands 1, 2, 4, .. places before it."""
    x, axis, kind = wide(text, xs[0], attrs["kind"]), attrs["axis"], attrs["kind"]
    none, step = [0] * x.ndim, 1
    while step < x.shape[axis]:
        low = [step if k == axis else 0 for k in range(x.ndim)]
        shifted = text.pad(x, identity(kind, x.dtype), low, [-n for n in low], none)
        x = text.op(OPS[kind], shifted, x)
        step *= 2
    return text.convert(x, specs[0].dtype)


def _sorted(text: Text, attrs: Attrs, xs: Values, more: Values) -> Values:
    x = xs[0]
    if x.dtype.kind == "c":
        raise Unsupported(
            "stablehlo: sort, argsort of complex numbers compare in no op of it; sort the real parts"
        )
    direction = "GT" if attrs["descending"] else "LT"
    values = (x, *more)
    dtypes = [value.dtype for value in values for _ in range(2)]
    region = body(dtypes, lambda inner, pairs: [before(inner, pairs[0], pairs[1], direction)])
    results = [(value.dtype, value.shape) for value in values]
    dimension = f"{attrs['axis']} : i64"
    return text.several("sort", values, results, region, dimension=dimension, is_stable="true")


def _sort(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return _sorted(text, attrs, xs, ())[0]


def _argsort(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return _sorted(text, attrs, xs, (text.iota(xs[0].shape, attrs["axis"]),))[1]


RULES: dict[str, Rule] = {
    **{f"reduce_{kind}": reduction(kind) for kind in OPS},
    "reduce_mean": _mean,
    "argmax": argument("max"),
    "argmin": argument("min"),
    "associative_scan": _scan,
    "sort": _sort,
    "argsort": _argsort,
}

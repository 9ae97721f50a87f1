"""Reductions, scans, places of extremes, and powers of two that scale an array."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..cpu.accumulators import accumulator
from ..dtypes import real_of
from ..protocol import Kernel
from ..spec import ArraySpec, compute_dtype
from .arrays import Binder, filled, into, scalar, widened
from .modules import Module

Inputs = tuple[ArraySpec, ...]
LOGICAL = {"reduce_sum": "any", "reduce_max": "any", "reduce_prod": "all", "reduce_min": "all"}
PLAIN = {
    "reduce_sum": "sum",
    "reduce_mean": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
}


def bind_reduce(op: str) -> Binder:
    """CuPy's max and min take no `initial`, and nothing of no elements."""

    def bind(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
        (x,) = inputs
        axes, initial = attrs["axes"], attrs.get("initial")
        wide = accumulator(op, x.dtype)
        is_extreme = op in ("reduce_max", "reduce_min")
        function = getattr(xp, (LOGICAL if x.dtype.kind == "b" else PLAIN)[op])
        both = getattr(xp, "maximum" if op == "reduce_max" else "minimum")
        count = math.prod(x.shape[axis] for axis in axes)

        def compute(x: Any) -> Any:
            if not axes:
                total = x.astype(wide)
            elif is_extreme and not count:
                total = filled(xp, output.shape, _least(op, wide), wide)
            elif is_extreme or x.dtype.kind == "b":
                total = function(x.astype(wide, copy=False), axis=axes)
            else:
                total = function(x.astype(wide, copy=False), axis=axes, dtype=wide)
            if initial is not None:
                total = both(total, scalar(initial, wide))
            return total / (count or math.nan) if op == "reduce_mean" else total

        return into(xp, compute, output)

    return bind


def _least(op: str, dtype: np.dtype[Any]) -> Any:
    """What the extreme of nothing is, before `initial` is taken in."""
    largest = op == "reduce_max"
    if dtype.kind == "f":
        return -math.inf if largest else math.inf
    if dtype.kind == "b":
        return not largest
    info: Any = np.iinfo(dtype)
    return int(info.min if largest else info.max)


def bind_argument(name: str) -> Binder:
    def bind(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
        axis = attrs["axis"]

        def compute(x: Any) -> Any:
            if not output.size:
                return xp.zeros(output.shape, output.dtype)
            (x,) = widened((x,))
            found = getattr(xp, name)(x, axis=axis)
            if x.dtype.kind != "f":
                return found
            unknown = xp.isnan(x)  # of several CuPy finds one or the other
            return xp.where(xp.any(unknown, axis=axis), xp.argmax(unknown, axis=axis), found)

        return into(xp, compute, output)

    return bind


def bind_scan(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    axis, kind = attrs["axis"], attrs["kind"]
    op = f"reduce_{kind}"
    wide = accumulator(op, output.dtype)
    adds = kind in ("sum", "prod") and output.dtype.kind != "b"
    both = xp.maximum if kind in ("sum", "max") else xp.minimum

    def compute(x: Any) -> Any:
        if adds:
            function = xp.cumsum if kind == "sum" else xp.cumprod
            return function(x.astype(wide, copy=False), axis=axis, dtype=wide)
        return doubled(both, x.astype(wide), axis)

    return into(xp, compute, output)


def doubled(both: Callable[[Any, Any], Any], x: Any, axis: int) -> Any:
    """A scan by doubling, in ⌈log₂ n⌉ passes over x, which is written over.

    CuPy's ufuncs have no `accumulate` but for sums and products.
    W. Hillis, G. Steele, "Data parallel algorithms", CACM 29 (1986).
    """
    ahead, n, step = (slice(None),) * axis, x.shape[axis], 1
    while step < n:
        later = (*ahead, slice(step, None), ...)
        x[later] = both(x[later], x[(*ahead, slice(0, n - step), ...)])
        step *= 2
    return x


def bind_normal_exponent(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    wide = real_of(compute_dtype(inputs[0].dtype))

    def compute(x: Any) -> Any:
        if not x.size:
            return xp.zeros((), output.dtype)
        parts = (x.real, x.imag) if x.dtype.kind == "c" else (x,)
        each = [xp.max(xp.absolute(part.astype(wide, copy=False))) for part in parts]
        largest = each[0] if len(each) == 1 else xp.maximum(*each)
        exponent = xp.frexp(largest)[1]
        return xp.where((largest > 0) & (largest < math.inf), -exponent, 0)

    return into(xp, compute, output)


def bind_ldexp(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    """The exponent stays on the device."""
    most = 1 << 20  # beyond the exponents of every dtype, and within 32 bits

    def compute(x: Any, k: Any) -> Any:
        (x,) = widened((x,))
        exponent = xp.minimum(xp.maximum(k.astype(np.int64), -most), most).astype(np.int32)
        if x.dtype.kind != "c":
            return xp.ldexp(x, exponent)
        made = xp.empty(x.shape, x.dtype)
        made.real, made.imag = xp.ldexp(x.real, exponent), xp.ldexp(x.imag, exponent)
        return made

    return into(xp, compute, output)


BINDERS: dict[str, Binder] = {
    **{op: bind_reduce(op) for op in PLAIN},
    "argmax": bind_argument("argmax"),
    "argmin": bind_argument("argmin"),
    "associative_scan": bind_scan,
    "normal_exponent": bind_normal_exponent,
    "ldexp": bind_ldexp,
}

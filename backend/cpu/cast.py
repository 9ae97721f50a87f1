"""Conversions between dtypes: `convert` loses nothing, `cast` saturates, wraps or drops."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..dtypes import class_of, integer_range
from ..protocol import Kernel
from ..spec import ArraySpec, is_lowprec
from .buffers import empty
from .elementwise import Evaluate, over_blocks


def bind_cast(attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> Kernel:
    """out = x in another dtype; see `evaluate_cast` for what is lost and how."""
    evaluate, cut = evaluate_cast(inputs[0].dtype, output.dtype)

    def run(x: Any, out: Any = None) -> Any:
        if out is None:
            out = empty(output.shape, output.dtype)
        return over_blocks(evaluate, out, (x,), cut)

    return run


def evaluate_cast(source: np.dtype[Any], target: np.dtype[Any]) -> tuple[Evaluate, bool]:
    """What writes one block, and whether it needs temporaries.

    Floats go to integers by truncation, those out of range to the nearest end, NaN to 0. Integers wrap.
    Complex numbers keep their real part. Anything but 0 is True. What is too large for a float is inf.
    """
    if source.kind == "c" and target.kind not in "cO" and target.kind != "b":
        of_real, _ = evaluate_cast(np.dtype(source.char.lower()), target)
        return (lambda out, x: of_real(out, x.real)), True
    is_float = class_of(source) == "float" or source.name.startswith("float8")
    if is_float and integer_range(target) is not None:
        return _saturating(target), True
    if is_lowprec(source) and is_lowprec(target) and source != target:
        return (lambda out, x: _assign(out, x.astype(np.float32))), True
    return _assign, False


def _assign(out: Any, x: Any) -> None:
    np.copyto(out, x, casting="unsafe")


def _saturating(target: np.dtype[Any]) -> Evaluate:
    bounds = integer_range(target)
    assert bounds is not None
    low, high = bounds
    carrier = target if target.kind in "iu" else np.dtype(np.int8)

    def evaluate(out: Any, x: Any) -> None:
        if x.dtype.itemsize < 4:  # a half precision cannot hold the bounds
            x = x.astype(np.float32)
        inside = np.where(x == x, np.clip(x, low, float(high + 1)), 0)  # high + 1: a power of two
        whole = inside.astype(carrier)  # of high + 1 it is undefined, and mended next
        whole[x >= float(high + 1)] = high
        out[...] = whole

    return evaluate

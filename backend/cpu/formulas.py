"""What a compiled kernel writes for each elementwise op: one expression of typed scalars.

`formula` gives the text, or None where no expression is as fast and as exact as NumPy's vectorised
loops (exponentials, integer division, half precisions): such a chain is run in blocks instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..catalogue import Attrs
from ..spec import dtype_from_name, own_char

DType = np.dtype[Any]
COMPILED = frozenset("?bBhHiIlLqQfdFD")  # dtype characters that compiled kernels compute with


def type_name(dtype: DType) -> str:
    """The constructor of a scalar of this dtype, as text: integers by their size."""
    if dtype.kind == "b":
        return "np.bool_"
    return f"np.{dtype.name}"


def formula(op: str, attrs: Attrs, args: Sequence[str], dtypes: Sequence[DType]) -> str | None:
    """The expression of one op on scalars named `args`, of these dtypes."""
    if any(own_char(dtype) not in COMPILED for dtype in dtypes):
        return None
    if op in ("convert", "cast"):
        return _cast(args[0], dtypes[0], dtype_from_name(attrs["dtype"]))
    write = _FORMULAS.get(op)
    return None if write is None else write(args, dtypes[-1])


def _cast(x: str, source: DType, target: DType) -> str | None:
    if own_char(target) not in COMPILED:
        return None
    if source == target:
        return x
    if target.kind == "b":
        return f"({x} != 0)"
    if source.kind == "c" and target.kind != "c":
        return _cast(f"{x}.real", np.dtype(source.char.lower()), target)
    name = type_name(target)
    if source.kind == "f" and target.kind in "iu":
        info = np.iinfo(target)
        inside = f"({name}({x}) if {x} == {x} else {name}(0))"
        above = f"{x} >= {float(int(info.max) + 1)!r}"
        return f"({name}({info.max}) if {above} else ({name}({info.min}) if {x} <= {info.min} else {inside}))"
    return f"{name}({x})"


Write = Callable[[Sequence[str], DType], str | None]


def _typed(text: str, kinds: str, logical: str | None = None) -> Write:
    """An expression cast back to the dtype of its operands, whose kinds it serves."""

    def write(args: Sequence[str], dtype: DType) -> str | None:
        if dtype.kind == "b" and logical is not None:
            return f"({logical.format(*args)})"
        if dtype.kind not in kinds:
            return None
        return f"{type_name(dtype)}({text.format(*args, one=f'{type_name(dtype)}(1)')})"

    return write


def _bool(text: str, kinds: str = "biuf") -> Write:
    def write(args: Sequence[str], dtype: DType) -> str | None:
        return f"({text.format(*args)})" if dtype.kind in kinds else None

    return write


def _extreme(sign: str, logical: str) -> Write:
    def write(args: Sequence[str], dtype: DType) -> str | None:
        x, y = args
        if dtype.kind == "b":
            return f"({x} {logical} {y})"
        nan = f" | ({x} != {x})" if dtype.kind == "f" else ""
        return f"({x} if ({x} {sign} {y}){nan} else {y})" if dtype.kind in "iuf" else None

    return write


def _clamp(args: Sequence[str], dtype: DType) -> str | None:
    x, low, high = args
    above = _FORMULAS["maximum"]((x, low), dtype)
    return None if above is None else _FORMULAS["minimum"]((above, high), dtype)


def _real_rounding(function: str) -> Write:
    def write(args: Sequence[str], dtype: DType) -> str | None:
        if dtype.kind in "iu":
            return args[0]
        return f"{type_name(dtype)}({function}({args[0]}))" if dtype.kind == "f" else None

    return write


def _part(name: str) -> Write:
    def write(args: Sequence[str], dtype: DType) -> str | None:
        return f"{args[0]}.{name}" if dtype.kind == "c" else None

    return write


def _conj(args: Sequence[str], dtype: DType) -> str | None:
    return f"{args[0]}.conjugate()" if dtype.kind == "c" else args[0]


_FORMULAS: dict[str, Write] = {
    "add": _typed("{0} + {1}", "iufc", "{0} | {1}"),
    "subtract": _typed("{0} - {1}", "iufc"),
    "multiply": _typed("{0} * {1}", "iufc", "{0} & {1}"),
    "divide": _typed("{0} / {1}", "f"),
    "maximum": _extreme(">", "|"),
    "minimum": _extreme("<", "&"),
    "clamp": _clamp,
    "negate": _typed("-{0}", "iufc"),
    "reciprocal": _typed("{one} / {0}", "f"),
    "absolute": _typed("abs({0})", "if"),
    "conj": _conj,
    "identity": lambda args, dtype: args[0],
    "real": _part("real"),
    "imag": _part("imag"),
    "sqrt": _typed("math.sqrt({0})", "f"),
    "rsqrt": _typed("{one} / math.sqrt({0})", "f"),
    "floor": _real_rounding("np.floor"),
    "ceil": _real_rounding("np.ceil"),
    "trunc": _real_rounding("np.trunc"),
    "round": _real_rounding("np.rint"),
    "bitwise_and": _typed("{0} & {1}", "iu", "{0} & {1}"),
    "bitwise_or": _typed("{0} | {1}", "iu", "{0} | {1}"),
    "bitwise_xor": _typed("{0} ^ {1}", "iu", "{0} ^ {1}"),
    "bitwise_not": _typed("~{0}", "iu", "not {0}"),
    "equal": _bool("{0} == {1}", "biufc"),
    "not_equal": _bool("{0} != {1}", "biufc"),
    "less": _bool("{0} < {1}"),
    "less_equal": _bool("{0} <= {1}"),
    "greater": _bool("{0} > {1}"),
    "greater_equal": _bool("{0} >= {1}"),
    "select": lambda args, dtype: f"({args[1]} if {args[0]} else {args[2]})",
}

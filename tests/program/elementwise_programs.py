"""Elementwise ops, constants and conversions in random programs."""

from __future__ import annotations

import numpy as np
from tests.program.growing import (
    EXACT,
    GROW,
    TO,
    Growing,
    bound_of_product,
    grows,
    takes,
)

from einloom.backend.dtypes import reaches


@grows
def convert(g: Growing) -> object:
    x = g.any_slot()
    assert x is not None
    dtype = g.spec(x).dtype
    to = [name for name in TO[dtype.name] if reaches(dtype, np.dtype(name))]
    return g.add("convert", x, bound=g.bounds[x], dtype=g.random.choice(to)) if to else None


@grows
def cast(g: Growing) -> object:
    x = g.any_slot()
    assert x is not None
    to = g.random.choice((*TO[g.spec(x).dtype.name], "bool"))
    return g.add("cast", x, bound=g.bounds[x], dtype=to)


def _unary(op: str) -> None:
    def rule(g: Growing) -> object:
        x = g.any_slot(takes(op))
        return None if x is None else g.add(op, x, bound=g.bounds[x])

    GROW[op] = rule


for _op in (
    "copy", "contiguous", "identity", "conj", "negate", "real", "imag", "floor", "ceil", "trunc", "round",
    "round_half_away",
):  # fmt: skip
    _unary(_op)


def _real_unary(op: str) -> None:
    """What of a complex number is no integer."""

    def rule(g: Growing) -> object:
        x = g.any_slot(lambda spec: takes(op)(spec) and spec.dtype.kind != "c")
        return None if x is None else g.add(op, x, bound=g.bounds[x] + 1)

    GROW[op] = rule


for _op in ("absolute", "sign", "bitwise_not"):
    _real_unary(_op)

FUNCTIONS_AT = {  # where each function is an integer, in every dtype
    0: (
        "sqrt", "exp", "expm1", "log1p", "sin", "cos", "tan", "asin", "atan", "sinh", "cosh", "tanh", "erf",
    ),
    1: ("sqrt", "rsqrt", "log", "acos", "reciprocal"),
}  # fmt: skip


def _full(g: Growing, x: int, value: int) -> int | None:
    """A slot full of 0 or of 1, like x."""
    truth = g.add("equal" if value else "not_equal", x, x, bound=1)
    return None if truth is None else g.add("cast", truth, bound=1, dtype=g.spec(x).dtype.name)


def _function(op: str, value: int) -> None:
    def rule(g: Growing) -> object:
        like = g.any_slot(takes(op))
        x = None if like is None else _full(g, like, value)
        return None if x is None else g.add(op, x, bound=1)

    GROW[op] = rule


for _value, _ops in FUNCTIONS_AT.items():
    for _op in _ops:
        _function(_op, _value)


@grows
def atan2(g: Growing) -> object:
    """The angle of a point on the positive axis."""
    like = g.any_slot(takes("atan2"))
    if like is None:
        return None
    y, x = _full(g, like, 0), _full(g, like, 1)
    return None if x is None or y is None else g.add("atan2", y, x, bound=1)


@grows
def divide(g: Growing) -> object:
    """Integers by anything, others by 1."""
    x = g.any_slot(takes("divide"))
    if x is None:
        return None
    whole = g.spec(x).dtype.kind == "i"
    y = g.any_slot(lambda spec: spec == g.spec(x)) if whole else _full(g, x, 1)
    return None if y is None else g.add("divide", x, y, bound=g.bounds[x])


def _small(op: str) -> None:
    """x by 1 or 2: an exponent, a divisor."""

    def rule(g: Growing) -> object:
        x = g.any_slot(lambda spec: takes(op)(spec) and spec.dtype.kind != "c")
        y = None if x is None else _full(g, x, 1)
        if x is None or y is None:
            return None
        two = g.add("add", y, y, bound=2) if g.random.random() < 0.5 else None
        by = y if two is None else two
        return g.add(op, x, by, bound=max(2, g.bounds[x] ** 2))

    GROW[op] = rule


_small("power")
_small("remainder")


def _pair(g: Growing) -> tuple[int, int]:
    """Two slots of one spec, perhaps the same slot."""
    x = g.any_slot()
    assert x is not None
    y = g.any_slot(lambda spec: spec == g.spec(x))
    assert y is not None
    return x, y


def _binary(op: str) -> None:
    def rule(g: Growing) -> object:
        x, y = _pair(g)
        return g.add(op, x, y, bound=g.bounds[x] + g.bounds[y]) if takes(op)(g.spec(x)) else None

    GROW[op] = rule


for _op in (
    "add", "subtract", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal",
):  # fmt: skip
    _binary(_op)


def _bitwise(op: str) -> None:
    def rule(g: Growing) -> object:
        x = g.any_slot(takes(op))
        if x is None:
            return None
        y = g.any_slot(lambda spec: spec == g.spec(x))
        assert y is not None
        return g.add(op, x, y, bound=2 * (g.bounds[x] + g.bounds[y]))

    GROW[op] = rule


for _op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    _bitwise(_op)


@grows
def clamp(g: Growing) -> object:
    x = g.any_slot(takes("clamp"))
    if x is None:
        return None
    low, high = (g.any_slot(lambda spec: spec == g.spec(x)) for _ in range(2))
    assert low is not None
    assert high is not None
    return g.add("clamp", x, low, high, bound=max(g.bounds[slot] for slot in (x, low, high)))


@grows
def select(g: Growing) -> object:
    x, y = _pair(g)
    pred = g.add("not_equal", x, y, bound=1)
    if pred is None:
        return None
    return g.add("select", pred, x, y, bound=max(g.bounds[x], g.bounds[y]))


@grows
def multiply(g: Growing) -> object:
    x, y = _pair(g)
    return g.add("multiply", x, y, bound=bound_of_product(g, x, y))


@grows
def normal_exponent(g: Growing) -> object:
    x = g.any_slot(takes("normal_exponent"))
    return None if x is None else g.add("normal_exponent", x, bound=70)


@grows
def ldexp(g: Growing) -> object:
    """By a power of two that keeps integers integers."""
    x = g.any_slot(takes("ldexp"))
    value = g.random.choice((0, 1, 2))
    k = g.add("constant", bound=2, value=value, dtype="int64")
    if x is None or k is None:
        return None
    return g.add("ldexp", x, k, bound=g.bounds[x] * 4)


@grows
def constant(g: Growing) -> object:
    dtype = g.random.choice(tuple(EXACT))
    value = g.random.choice((0, 1, True, 2.0, -3, -0.0, 1 - 2j))
    if isinstance(value, complex) and not dtype.startswith("complex"):
        value = 1
    return g.add("constant", bound=3, value=value, dtype=dtype)

"""Scans, orders, indexing and windows in random programs; `programs.py` takes the rules from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from einloom.backend.catalogue import CATALOGUE
from einloom.backend.dtypes import class_of
from einloom.backend.spec import ArraySpec

Rule = Callable[[Any], object]
ORDERED = ("bool", "float", "int", "uint")


def with_axes(
    g: Any, op: str, least: int = 1, classes: tuple[str, ...] | None = None
) -> int | None:
    """A slot that the op takes, of axes that are not empty."""

    def accepts(spec: ArraySpec) -> bool:
        kind = class_of(spec.dtype)
        allowed = kind in CATALOGUE[op].dtypes and (classes is None or kind in classes)
        return allowed and len(spec.shape) >= least and 0 not in spec.shape

    found: int | None = g.any_slot(accepts)
    return found


def indices(g: Any, shape: tuple[int, ...]) -> int:
    """All 0 or all -1: legal for every axis that is not empty."""
    value = g.build("constant", value=g.random.choice((0, -1)), dtype="int64")
    return int(g.build("broadcast_in_dim", value, shape=shape, axes=()) if shape else value)


def some_axis(g: Any, x: int) -> int:
    return int(g.random.randrange(len(g.spec(x).shape)))


def associative_scan(g: Any) -> object:
    kind = g.random.choice(("sum", "prod", "max", "min"))
    x = with_axes(g, "associative_scan", 1, ORDERED if kind in ("max", "min") else None)
    if x is None:
        return None
    axis = some_axis(g, x)
    n, bound = g.spec(x).shape[axis], g.bounds[x]
    most = {"sum": n * bound, "prod": max(1, bound) ** n}.get(kind, bound)
    return g.add("associative_scan", x, bound=most, axis=axis, kind=kind)


def order(op: str) -> Rule:
    def rule(g: Any) -> object:
        x = with_axes(g, op)
        if x is None:
            return None
        axis = some_axis(g, x)
        bound = g.bounds[x] if op == "sort" else g.spec(x).shape[axis]
        return g.add(op, x, bound=bound, axis=axis, descending=g.random.random() < 0.5)

    return rule


def take(g: Any) -> object:
    x = with_axes(g, "take")
    if x is None:
        return None
    shape = g.random.choice(((), (1,), (2,), (2, 1)))
    return g.add("take", x, indices(g, shape), bound=g.bounds[x], axis=some_axis(g, x))


def take_along_axis(g: Any) -> object:
    x = with_axes(g, "take_along_axis")
    if x is None:
        return None
    axis, shape = some_axis(g, x), list(g.spec(x).shape)
    shape[axis] = g.random.choice((1, 2, 3))
    return g.add("take_along_axis", x, indices(g, tuple(shape)), bound=g.bounds[x], axis=axis)


def scatter_along_axis(g: Any) -> object:
    """A slot into itself, all at one place."""
    x = with_axes(g, "scatter_along_axis")
    if x is None:
        return None
    axis, shape = some_axis(g, x), g.spec(x).shape
    mode = g.random.choice(("set", "add"))
    bound = g.bounds[x] * (1 if mode == "set" else shape[axis] + 1)
    return g.add(
        "scatter_along_axis", x, indices(g, shape), x,
        bound=bound, axis=axis, mode=mode, unique_indices=False,
    )  # fmt: skip


def scatter(g: Any) -> object:
    """One whole slot added to another, or to itself, at 0."""
    x = with_axes(g, "scatter", 0)
    if x is None:
        return None
    updates = g.any_slot(lambda spec: spec == g.spec(x))
    axes = tuple(range(len(g.spec(x).shape)))
    starts = g.build("constant", value=g.random.choice((0, 0, 1)), dtype="int64")
    starts = g.build("broadcast_in_dim", starts, shape=(1,), axes=())
    attrs = {
        "update_window_dims": axes,
        "inserted_window_dims": (),
        "scatter_dims_to_operand_dims": axes[:1],
        "index_vector_dim": 0,
    }
    if not axes:
        return None
    return g.add("scatter", x, starts, updates, bound=g.bounds[x] + g.bounds[updates], **attrs)


def starts_in(g: Any, x: int) -> int:
    """Starts that may be outside: they are clamped."""
    value = g.build("constant", value=g.random.randint(-1, 3), dtype="int64")
    return int(g.build("broadcast_in_dim", value, shape=(len(g.spec(x).shape),), axes=()))


def dynamic_slice(g: Any) -> object:
    x = with_axes(g, "dynamic_slice", 0)
    if x is None:
        return None
    sizes = tuple(g.random.randint(1, n) for n in g.spec(x).shape)
    return g.add("dynamic_slice", x, starts_in(g, x), bound=g.bounds[x], sizes=sizes)


def dynamic_update_slice(g: Any) -> object:
    x = with_axes(g, "dynamic_update_slice", 0)
    if x is None:
        return None
    shape = g.spec(x).shape
    update = g.any_slot(
        lambda spec: (
            spec.dtype == g.spec(x).dtype
            and len(spec.shape) == len(shape)
            and all(m <= n for m, n in zip(spec.shape, shape, strict=True))
        )
    )
    bound = max(g.bounds[x], g.bounds[update])
    return g.add("dynamic_update_slice", x, update, starts_in(g, x), bound=bound)


def unfold(g: Any) -> object:
    """And often back."""
    x = with_axes(g, "unfold")
    if x is None:
        return None
    sizes = g.spec(x).shape[-g.random.randint(1, min(2, len(g.spec(x).shape))) :]
    attrs = {
        "kernel": tuple(g.random.randint(1, n) for n in sizes),
        "strides": tuple(g.random.randint(1, 2) for _ in sizes),
        "dilation": (1,) * len(sizes),
        "low": tuple(g.random.randint(0, 1) for _ in sizes),
        "high": tuple(g.random.randint(0, 1) for _ in sizes),
    }
    columns = g.add("unfold", x, bound=g.bounds[x], **attrs)
    if columns is not None and class_of(g.spec(columns).dtype) in CATALOGUE["fold"].dtypes:
        many = 1
        for n in attrs["kernel"]:
            many *= n
        g.add("fold", columns, bound=many * g.bounds[x], sizes=sizes, **attrs)
    return columns


def threefry2x32(g: Any) -> object:
    """Of pairs of integers, whatever they are."""
    x = g.any_slot(lambda spec: spec.dtype.name == "int64")
    if x is None:
        return None
    word = g.build("cast", x, dtype="int32")
    shape = (*g.spec(x).shape, 2)
    pairs = g.build("broadcast_in_dim", word, shape=shape, axes=tuple(range(len(g.spec(x).shape))))
    found = g.build("threefry2x32", pairs, pairs)
    return g.add("cast", found, bound=2**31, dtype="int64")


RULES: dict[str, Rule] = {
    "associative_scan": associative_scan,
    "sort": order("sort"),
    "argsort": order("argsort"),
    "take": take,
    "take_along_axis": take_along_axis,
    "scatter_along_axis": scatter_along_axis,
    "scatter": scatter,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "unfold": unfold,
    "threefry2x32": threefry2x32,
}

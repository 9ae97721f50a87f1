"""Moves, cuts and parts of arrays in random programs."""

from __future__ import annotations

import math
from typing import Any

from tests.program.growing import GROW, LARGEST, Growing, grows


@grows
def transpose(g: Growing) -> object:
    x = g.any_slot()
    assert x is not None
    axes = range(len(g.spec(x).shape))
    slot = g.add("transpose", x, bound=g.bounds[x], perm=tuple(g.random.sample(axes, len(axes))))
    if slot is not None and g.random.random() < 0.3:  # and back, or round again
        perm = g.calls[-1][3]["perm"]
        inverse = tuple(sorted(axes, key=lambda axis: perm[axis]))
        g.add("transpose", slot, bound=g.bounds[x], perm=g.random.choice((perm, inverse)))
    return slot


@grows
def squeeze(g: Growing) -> object:
    x = g.any_slot(lambda spec: 1 in spec.shape)
    if x is None:
        return None
    ones = [axis for axis, n in enumerate(g.spec(x).shape) if n == 1]
    return g.add("squeeze", x, bound=g.bounds[x], axes=g.some(ones))


@grows
def expand_dims(g: Growing) -> object:
    x = g.any_slot()
    assert x is not None
    count = g.random.randint(0, 2)
    axes = g.random.sample(range(len(g.spec(x).shape) + count), count)
    return g.add("expand_dims", x, bound=g.bounds[x], axes=tuple(axes))


@grows
def broadcast_in_dim(g: Growing) -> object:
    x = g.any_slot()
    assert x is not None
    old = g.spec(x).shape
    ndim = len(old) + g.random.randint(0, 2)
    axes = tuple(sorted(g.random.sample(range(ndim), len(old))))
    shape = [g.random.choice((1, 2, 3)) for _ in range(ndim)]
    for n, axis in zip(old, axes, strict=True):
        shape[axis] = n if n != 1 else shape[axis]
    return g.add("broadcast_in_dim", x, bound=g.bounds[x], shape=tuple(shape), axes=axes)


@grows
def extract_diagonal(g: Growing) -> object:
    x = g.any_slot(lambda spec: len(set(spec.shape)) < len(spec.shape))
    if x is None:
        return None
    shape = g.spec(x).shape
    size = g.random.choice([n for n in shape if shape.count(n) > 1])
    axes = [axis for axis, n in enumerate(shape) if n == size]
    return g.add("extract_diagonal", x, bound=g.bounds[x], axes=tuple(sorted(g.some(axes, 2))))


@grows
def embed_diagonal(g: Growing) -> object:
    x = g.any_slot(lambda spec: bool(spec.shape))
    if x is None:
        return None
    axis = g.random.randrange(len(g.spec(x).shape))
    copies = g.random.randint(1, 2)
    return g.add("embed_diagonal", x, bound=g.bounds[x], axis=axis, copies=copies)


@grows
def reshape(g: Growing) -> object:
    x = g.any_slot()
    assert x is not None
    shape = g.spec(x).shape
    to = g.random.choice(((*shape, 1), (math.prod(shape),), shape[::-1], (1, *shape)))
    return g.add("reshape", x, bound=g.bounds[x], shape=to)


@grows
def slice_(g: Growing) -> object:
    x = g.any_slot()
    assert x is not None
    shape = g.spec(x).shape
    ends = [sorted((g.random.randint(0, n), g.random.randint(0, n))) for n in shape]
    steps = tuple(g.random.randint(1, 2) for _ in shape)
    starts, stops = (tuple(pair[k] for pair in ends) for k in range(2))
    return g.add("slice", x, bound=g.bounds[x], starts=starts, stops=stops, steps=steps)


@grows
def slice_at(g: Growing) -> object:
    """Mostly at a static index."""
    x = g.any_slot(lambda spec: any(spec.shape))
    if x is None:
        return None
    axis = g.random.choice([axis for axis, n in enumerate(g.spec(x).shape) if n])
    n = g.spec(x).shape[axis]
    at: Any = g.random.randrange(n)
    if g.random.random() < 0.8:
        size = g.random.randint(1, n)
        at = g.build.index(f"k{len(g.last)}", size)
        g.last.append(size - 1)
    return g.add("slice_at", x, bound=g.bounds[x], axis=axis, at=at)


@grows
def reverse(g: Growing) -> object:
    x = g.any_slot()
    assert x is not None
    return g.add("reverse", x, bound=g.bounds[x], axes=g.some(range(len(g.spec(x).shape))))


@grows
def pad(g: Growing) -> object:
    x = g.any_slot()
    assert x is not None
    shape = g.spec(x).shape
    low, interior = (tuple(g.random.randint(0, 1) for _ in shape) for _ in range(2))
    high = tuple(g.random.randint(-min(1, n), 1) for n in shape)
    attrs = {"low": low, "high": high, "interior": interior, "value": 1}
    return g.add("pad", x, bound=g.bounds[x] + 1, **attrs)


@grows
def concatenate(g: Growing) -> object:
    x = g.any_slot(lambda spec: bool(spec.shape))
    if x is None:
        return None
    slots = [x] * g.random.randint(1, 3)
    axis = g.random.randrange(len(g.spec(x).shape))
    return g.add("concatenate", *slots, bound=g.bounds[x], axis=axis)


@grows
def split(g: Growing) -> object:
    """The one op here that may have several results."""
    x = g.any_slot(lambda spec: bool(spec.shape))
    if x is None:
        return None
    axis = g.random.randrange(len(g.spec(x).shape))
    n = g.spec(x).shape[axis]
    first = g.random.randint(0, n)
    sizes = g.random.choice(((n,), (first, n - first), (first, 0, n - first)))
    return g.add("split", x, bound=g.bounds[x], axis=axis, sizes=sizes)


def _triangle(op: str) -> None:
    def rule(g: Growing) -> object:
        x = g.any_slot(lambda spec: len(spec.shape) >= 2)
        k = g.random.randint(-1, 1)
        return None if x is None else g.add(op, x, bound=g.bounds[x], k=k)

    GROW[op] = rule


_triangle("tril")
_triangle("triu")


def _gather(op: str) -> None:
    """At whatever integers there are: starts are clamped."""

    def rule(g: Growing) -> object:
        x = g.any_slot()
        assert x is not None
        indices = g.any_slot(lambda spec: spec.dtype.name == "int64")
        if indices is None or g.random.random() < 0.3:
            value = g.random.randint(-1, 3)
            indices = g.add("constant", bound=3, value=value, dtype="int64")
        assert indices is not None
        shape, lengths = g.spec(x).shape, (*g.spec(indices).shape, 1)
        vectors = [axis for axis, n in enumerate(lengths) if n <= len(shape)]
        if not vectors:
            return None
        vector = g.random.choice(vectors)
        sizes = tuple(g.random.randint(min(1, n), n) for n in shape)
        collapsed = g.some([axis for axis, n in enumerate(sizes) if n == 1])
        kept = len(shape) - len(collapsed)
        ndim = kept + len(lengths) - 1 - (vector < len(lengths) - 1)
        attrs = {
            "offset_dims": tuple(sorted(g.random.sample(range(ndim), kept))),
            "collapsed_slice_dims": tuple(sorted(collapsed)),
            "start_index_map": tuple(g.random.sample(range(len(shape)), lengths[vector])),
            "index_vector_dim": vector,
            "slice_sizes": sizes,
        }
        return g.add(op, x, indices, bound=g.bounds[x], **attrs)

    GROW[op] = rule


_gather("gather")
_gather("gather_dynamic_slice_sizes")


@grows
def shape_of(g: Growing) -> object:
    x = g.any_slot(lambda spec: bool(spec.shape))
    if x is None:
        return None
    axis = g.random.randrange(len(g.spec(x).shape))
    return g.add("shape_of", x, bound=3 * LARGEST, axis=axis)


@grows
def pad_to_match(g: Growing) -> object:
    x = g.any_slot(lambda spec: bool(spec.shape))
    if x is None:
        return None
    axis = g.random.randrange(len(g.spec(x).shape))
    y = g.any_slot(lambda spec: len(spec.shape) > axis)
    assert y is not None
    return g.add("pad_to_match", x, y, bound=g.bounds[x], axis=axis)


@grows
def dynamic_truncate(g: Growing) -> object:
    """Cut and filled up again: other ops read no size that the data decide."""
    x = g.any_slot(lambda spec: bool(spec.shape))
    if x is None:
        return None
    size = g.any_slot(lambda spec: str(spec) == "int64[]")
    if size is None or g.random.random() < 0.5:
        size = g.build("constant", value=g.random.randint(-1, 4), dtype="int64")
    axis = g.random.randrange(len(g.spec(x).shape))
    cut = g.build("dynamic_truncate", x, size, axis=axis)
    if g.random.random() < 0.3:
        cut = g.build("reverse", cut, axes=g.some(range(len(g.spec(x).shape))))
    return g.add("pad_to_match", cut, x, bound=g.bounds[x], axis=axis)

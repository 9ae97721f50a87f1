"""Reductions, products and transforms in random programs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tests.program.growing import (
    GROW,
    LARGEST,
    Growing,
    bound_of_product,
    grows,
    takes,
)


@grows
def reduce_sum(g: Growing) -> object:
    x = g.any_slot()
    assert x is not None
    axes = g.some(range(len(g.spec(x).shape)))
    return g.add("reduce_sum", x, bound=g.bounds[x] * max(1, g.spec(x).size), axes=axes)


@grows
def reduce_prod(g: Growing) -> object:
    x = g.any_slot(lambda spec: 0 < spec.size < 20)
    if x is None:
        return None
    shape = g.spec(x).shape
    axes = g.some(range(len(shape)))
    count = math.prod(shape[axis] for axis in axes)
    bound = (g.bounds[x] * (2 if g.spec(x).dtype.kind == "c" else 1)) ** count
    return g.add("reduce_prod", x, bound=bound, axes=axes)


@grows
def reduce_mean(g: Growing) -> object:
    """Of equal numbers."""
    x = g.any_slot(takes("reduce_mean"))
    if x is None:
        return None
    shape, bound = g.spec(x).shape, g.bounds[x]
    axes = g.some([axis for axis, n in enumerate(shape) if n == 1])
    if g.random.random() < 0.5:
        return g.add("reduce_mean", x, bound=bound, axes=axes)
    wide = {"shape": (*shape, g.random.randint(1, 3)), "axes": tuple(range(len(shape)))}
    equal = g.add("broadcast_in_dim", x, bound=bound, **wide)
    if equal is None:
        return None
    return g.add("reduce_mean", equal, bound=bound, axes=(*axes, len(shape)))


def _extreme(op: str) -> None:
    def rule(g: Growing) -> object:
        x = g.any_slot(takes(op))
        if x is None:
            return None
        shape = g.spec(x).shape
        axes = g.some([axis for axis, n in enumerate(shape) if n])
        return g.add(op, x, bound=g.bounds[x] + 1, axes=axes, initial=g.random.choice((None, 1)))

    GROW[op] = rule


_extreme("reduce_max")
_extreme("reduce_min")


def _argument(op: str) -> None:
    def rule(g: Growing) -> object:
        x = g.any_slot(lambda spec: takes(op)(spec) and any(spec.shape))
        if x is None:
            return None
        axes = [axis for axis, n in enumerate(g.spec(x).shape) if n]
        return g.add(op, x, bound=LARGEST, axis=g.random.choice(axes))

    GROW[op] = rule


_argument("argmax")
_argument("argmin")


@grows
def matmul(g: Growing) -> object:
    """A matrix by its own transpose."""
    x = g.any_slot(lambda spec: len(spec.shape) >= 2)
    if x is None:
        return None
    ndim = len(g.spec(x).shape)
    perm = (*range(ndim - 2), ndim - 1, ndim - 2)
    turned = g.add("transpose", x, bound=g.bounds[x], perm=perm)
    if turned is None:
        return None
    bound = bound_of_product(g, x, turned) * max(1, g.spec(x).shape[-1])
    return g.add("matmul", x, turned, bound=bound)


@grows
def dot_general(g: Growing) -> object:
    """Often of a transpose or a conjugate, and by an operand with axes of the same sizes."""
    x = g.any_slot(lambda spec: len(spec.shape) > 1) if g.random.random() < 0.7 else g.any_slot()
    if x is None:
        return None
    dtype = g.spec(x).dtype
    y = x if g.random.random() < 0.5 else g.any_slot(lambda spec: spec.dtype == dtype)
    if g.random.random() < 0.6:
        axes = range(len(g.spec(x).shape))
        perm = tuple(g.random.sample(axes, len(axes)))
        x = g.add("transpose", x, bound=g.bounds[x], perm=perm)
    assert x is not None
    assert y is not None
    if dtype.kind == "c" and g.random.random() < 0.6:
        y = g.add("conj", y, bound=g.bounds[y])
    assert y is not None
    slot = _some_product(g, x, y)
    for _ in range(2):  # of a product that nobody else reads
        z = g.any_slot(lambda spec: spec.dtype == dtype and len(spec.shape) < 3)
        if slot is not None and z not in (None, slot):
            outer = _some_product(g, slot, z)  # type: ignore[arg-type]
            if outer is not None:
                g.forget(slot)
                return outer
    return slot


def _some_product(g: Growing, x: int, y: int) -> int | None:
    """Over some pairs of axes of the same size."""
    left, right = g.spec(x).shape, list(enumerate(g.spec(y).shape))
    roles: dict[str, tuple[list[int], list[int]]] = {"batch": ([], []), "contracting": ([], [])}
    for i in g.some(range(len(left)), len(left) // 2):
        partners = [pair for pair in right if pair[1] == left[i]]
        if partners:
            j = g.random.choice(partners)
            right.remove(j)
            role = roles[g.random.choice(("batch", "contracting", "contracting"))]
            role[0].append(i)
            role[1].append(j[0])
    attrs: dict[str, Any] = {name: (tuple(i), tuple(j)) for name, (i, j) in roles.items()}
    if g.random.random() < 0.2:
        attrs["conj"] = (g.random.random() < 0.5, g.random.random() < 0.5)
    bound = bound_of_product(g, x, y) * max(1, g.spec(x).size)
    product = g.add("dot_general", x, y, bound=bound, **attrs)
    return product if product is None else _added(g, product)


def _added(g: Growing, product: int) -> object:
    """The same product again, added to something of its shape: itself where there is nothing else."""
    if g.random.random() < 0.75:
        return product
    _, _, operands, attrs = g.calls[-1]
    same = [slot for slot in g.bounds if g.spec(slot) == g.spec(product)]
    acc = g.random.choice(same)
    factors = {name: g.random.choice((0, 1, 1, 2)) for name in ("alpha", "beta")}
    bound = sum(factors[k] * g.bounds[x] for k, x in (("alpha", product), ("beta", acc)))
    return g.add("dot_general_add", *operands, acc, bound=bound, **attrs, **factors)


GROW["dot_general_add"] = dot_general


@grows
def sum_product(g: Growing) -> object:
    first = g.any_slot()
    assert first is not None
    same = [slot for slot in g.bounds if g.spec(slot).dtype == g.spec(first).dtype]
    slots = [first, *g.random.choices(same, k=g.random.randint(0, 2))]
    sizes: list[int] = []
    terms = []
    for slot in slots:
        term: list[int] = []
        for n in g.spec(slot).shape:
            known = [label for label, m in enumerate(sizes) if m == n and label not in term]
            if known and g.random.random() < 0.7:
                term.append(g.random.choice(known))
            else:
                term.append(len(sizes))
                sizes.append(n)
        terms.append(tuple(term))
    output = g.some(range(len(sizes)))
    work = int(np.prod([max(1, n) for n in sizes], dtype=float))
    if work > 10 * LARGEST:
        return None
    bound = bound_of_product(g, *slots) * work
    return g.add("sum_product", *slots, bound=bound, terms=tuple(terms), output=output)


def _transform(op: str) -> None:
    """Along axes of length 1, 2 and 4, where all roots of unity are whole."""

    def rule(g: Growing) -> object:
        lengths = {1: 1, 2: 2, 3: 4} if op == "irfft" else {1: 1, 2: 2, 4: 4}
        plain = ("float32", "float64", "complex64", "complex128")
        x = g.any_slot(
            lambda spec: (
                takes(op)(spec)
                and spec.dtype.name in plain
                and any(n in lengths for n in spec.shape)
            )
        )
        if x is None:
            return None
        shape = g.spec(x).shape
        whole = (1, 2, 4)
        last = g.random.choice([axis for axis, n in enumerate(shape) if n in lengths])
        others = [axis for axis, n in enumerate(shape) if n in whole and axis != last]
        axes = (*(g.some(others) if others and g.random.random() < 0.5 else ()), last)
        n = lengths[shape[last]]
        total = n * math.prod(shape[axis] for axis in axes[:-1])
        attrs: Any = {"axes": axes, "n": n} if op == "irfft" else {"axes": axes}
        slot = g.add(op, x, bound=total * g.bounds[x], **attrs)
        inverse = {"fft": "ifft", "ifft": "fft"}.get(op)
        if slot is not None and inverse is not None and g.random.random() < 0.5:  # and back
            g.add(inverse, slot, bound=total**2 * g.bounds[x], axes=axes[::-1])
        return slot

    GROW[op] = rule


for _op in ("fft", "ifft", "rfft", "irfft"):
    _transform(_op)

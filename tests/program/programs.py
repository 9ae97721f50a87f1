"""Random programs over ops of every group that has kernels, whose results are exact in every dtype.

Every slot keeps a bound of its numbers, integers in every dtype, and nothing is built that could
exceed what its dtype holds exactly: any correct way to run a program then gives the same bits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from tests.backend.laws import meaning
from tests.cases import lay_out
from tests.program.indexing_programs import RULES

from einloom._base.options import options
from einloom.backend.catalogue import CATALOGUE, infer
from einloom.backend.dtypes import class_of, reaches
from einloom.backend.matrices import Contraction, Orders, Products
from einloom.backend.spec import ArraySpec
from einloom.program.builder import Builder
from einloom.program.ir import Program, instruction

layout_assignment: Any = import_module("einloom.program.passes.layout_assignment")

Array = np.ndarray[Any, Any]

EXACT = {
    "bool": 1,
    "int64": 2**50,
    "float32": 2**23,
    "float64": 2**50,
    "complex64": 2**23,
    "complex128": 2**50,
}
TO = {  # conversions that lose nothing
    "bool": ("int64", "float32", "float64", "complex64", "complex128"),
    "int64": ("float32", "float64", "complex128"),
    "float32": ("float64", "complex64"),
    "float64": ("int64", "float32", "complex128"),
    "complex64": ("complex128",),
    "complex128": ("complex64",),
}
SELDOM = (
    "power",
    "atan2",
    "remainder",
    "slice_at",
    "rfft",
    "irfft",
    "ifft",
    "erf",
    "extract_diagonal",
    "round_half_away",
    "threefry2x32",
)  # they need room, or a detour
OFTEN = (
    "transpose",
    "dot_general",
    "dot_general",
    "dot_general",
    "add",
    "conj",
    "reshape",
    "squeeze",
)
REDUCTIONS = frozenset(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean"))
LARGEST = 200  # elements of a slot
AXES = 6


class Growing:
    """A program under construction: what its slots may be used for."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.build = Builder()
        self.bounds: dict[int, int] = {}
        self.calls: list[tuple[int, str, tuple[int, ...], dict[str, Any]]] = []
        self.last: list[int] = []  # the last value of each static index

    def spec(self, slot: int) -> ArraySpec:
        return self.build.spec(slot)

    def any_slot(self, accept: Callable[[ArraySpec], bool] = lambda spec: True) -> int | None:
        """A slot, late ones rather than early ones."""
        found = [slot for slot in self.bounds if accept(self.spec(slot))]
        return found[-1 - int(len(found) * self.random.random() ** 2)] if found else None

    def some(self, items: Sequence[int], least: int = 0) -> tuple[int, ...]:
        return tuple(self.random.sample(items, self.random.randint(least, len(items))))

    def add(self, op: str, *operands: int, bound: int, **attrs: Any) -> int | None:
        """Append the op unless its result would be too large, in either sense."""
        resolved = instruction(op, operands, (), attrs).at(self.last)
        specs = infer(op, resolved, tuple(self.spec(slot) for slot in operands))
        for spec in specs:
            bound = 1 if spec.dtype.name == "bool" else bound
            if spec.size > LARGEST or len(spec.shape) > AXES or bound > EXACT[spec.dtype.name]:
                return None
        slots = self.build.several(op, *operands, **attrs)
        self.bounds |= dict.fromkeys(slots, bound)
        self.calls.append((slots[0], op, operands, attrs))
        return slots[0]

    def forget(self, slot: int) -> None:
        """From now on nothing reads it, and nothing is made like it."""
        del self.bounds[slot]
        self.calls = [call for call in self.calls if call[0] != slot]


Grow = Callable[[Growing], object]
GROW: dict[str, Grow] = {}


def grows(rule: Grow) -> Grow:
    GROW[rule.__name__.rstrip("_")] = rule
    return rule


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


def takes(op: str) -> Callable[[ArraySpec], bool]:
    """Whether the op takes operands of a dtype."""
    return lambda spec: class_of(spec.dtype) in CATALOGUE[op].dtypes


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


def _pair(g: Growing) -> tuple[int, int]:
    """Two slots of one spec, perhaps the same slot."""
    x = g.any_slot()
    assert x is not None
    y = g.any_slot(lambda spec: spec == g.spec(x))
    assert y is not None
    return x, y


def _product(g: Growing, *slots: int) -> int:
    """Bound of a product: of complex numbers, each part is a sum of two."""
    bound = 1
    for slot in slots:
        bound *= g.bounds[slot]
    twice = g.spec(slots[0]).dtype.kind == "c"
    return bound * 2 ** (len(slots) - 1) if twice else bound


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
    return g.add("multiply", x, y, bound=_product(g, x, y))


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
    bound = _product(g, x, turned) * max(1, g.spec(x).shape[-1])
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
    bound = _product(g, x, y) * max(1, g.spec(x).size)
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
    bound = _product(g, *slots) * work
    return g.add("sum_product", *slots, bound=bound, terms=tuple(terms), output=output)


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


def repeat(g: Growing) -> None:
    """The same call again, for common subexpressions."""
    if g.calls:
        slot, op, operands, attrs = g.random.choice(g.calls)
        g.bounds |= dict.fromkeys(g.build.several(op, *operands, **attrs), g.bounds[slot])


def random_program(seed: int) -> Program:
    """A verified program of a dozen instructions or so, with one to three results."""
    g = Growing(seed)
    own = g.random.choice(tuple(EXACT))
    for _ in range(g.random.randint(1, 4)):
        dtype = own if g.random.random() < 0.7 else g.random.choice(tuple(EXACT))
        shape = [g.random.choice((1, 2, 2, 3, 3)) for _ in range(g.random.randint(0, 3))]
        if shape and g.random.random() < 0.05:
            shape[0] = 0
        slot = g.build.input(dtype, tuple(shape))
        g.bounds[slot] = EXACT["bool"] if dtype == "bool" else 2
    ops = [*GROW, *SELDOM, *OFTEN * 4]
    for _ in range(g.random.randint(0, 20)):
        if g.random.random() < 0.12:
            repeat(g)
        else:
            GROW[g.random.choice(ops)](g)
    outputs = [g.any_slot() for _ in range(g.random.choice((1, 1, 1, 2, 3)))]
    return g.build.finish(*(slot for slot in outputs if slot is not None))


def random_arrays(program: Program, seed: int) -> list[Array]:
    """Small integers in every dtype, in various places in memory."""
    rng = np.random.default_rng(seed)
    arrays = []
    for spec in program.specs(program.inputs):
        x = np.asarray(rng.integers(0 if spec.dtype.kind == "b" else -2, 3, spec.shape))
        if spec.dtype.kind == "c":
            x = x + 1j * rng.integers(-2, 3, spec.shape)
        layout = ("C", "transposed", "sliced", "reversed", "readonly")[seed % 5]
        arrays.append(lay_out(np.asarray(x, spec.dtype), layout, rng))
    return arrays


def random_indices(program: Program, seed: int) -> tuple[int, ...]:
    """A value for every static index."""
    draw = random.Random(seed)
    return tuple(draw.randrange(index.size) for index in program.indices)


def by_laws(
    program: Program, arrays: Sequence[Array], indices: Sequence[int] = ()
) -> tuple[Array, ...]:
    """The results by the definitions of the ops, one after another."""
    values = dict(zip(program.inputs, arrays, strict=True))
    for ins in program.instructions:
        operands = [values[slot] for slot in ins.inputs]
        made = meaning(ins.op, ins.at(indices), operands, program.specs(ins.outputs))
        values |= dict(zip(ins.outputs, made, strict=True))
    return tuple(values[slot] for slot in program.outputs)


def forced(program: Program, wanted: bool = True) -> AbstractContextManager[Any]:
    """Compiled kernels for small arrays too, unless one would be compiled for a program alone."""
    wanted = wanted and not REDUCTIONS & set(program.op_counts)
    return options(small=0 if wanted else 10**9)


def any_layouts(patch: pytest.MonkeyPatch) -> None:
    """Small slots have layouts too, and whichever: not row-major where there is another."""

    def costs(step: Contraction, orders: Orders) -> Products:
        is_row_major = orders[2] is not None and orders[2] == tuple(sorted(orders[2]))
        seconds = crc32(repr(orders).encode()) + (is_row_major << 40)
        return Products(seconds, 0, (False, False, False))

    patch.setattr(layout_assignment, "LEAST", 0)
    patch.setattr(layout_assignment, "RATES", dict.fromkeys("?bBhHiIlLqQefdgFDGO", 1.0))
    patch.setattr(layout_assignment, "plan_products", costs)


def as_tuple(results: Any) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)


def assert_same(got: Any, want: Any) -> None:
    """Equal in number, dtypes, shapes and every element."""
    got, want = as_tuple(got), as_tuple(want)
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


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

GROW |= RULES

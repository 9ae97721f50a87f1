"""Shape rules of the catalogue: plain arithmetic on sizes, and the checks that it needs.

A rule takes the attributes and the shapes of the operands and returns the shape of the output, or a
list of shapes where an op has several outputs. It raises `ProgramError` when they do not fit.

A size may be a `DimExpr`, known later. A rule refuses what is wrong whatever the sizes turn out to
be (`differ`, `exceeds`) and lets pass what may be right; the same rule decides when they are integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._base.caches import Quick
from .._base.errors import ProgramError
from .dims import DimExpr, differ, exceeds, maximum, minimum, shapes_differ
from .spec import Axes, Shape

Attrs = dict[str, Any]
MOST_REACH = 1 << 62  # of windows: sums of two places still fit into 64 bits
Shapes = tuple[Shape, ...]


def freeze(value: Any) -> Any:
    """A hashable form of an attribute value: lists to tuples, NumPy scalars to Python's."""
    if isinstance(value, (list, tuple)):
        return tuple([item if type(item) is int else freeze(item) for item in value])
    return value.item() if isinstance(value, np.generic) else value


def told_apart(value: Any) -> Any:
    """A value that equals another one's only if both mean the same: 1 equals True, and 0.0 equals -0.0."""
    if isinstance(value, tuple):
        return tuple(map(told_apart, value))
    return type(value), repr(value) if isinstance(value, (float, complex)) else value


# ---- checks that rules share ------------------------------------------------------------------


def check_attrs(op: str, attrs: object) -> None:
    if not isinstance(attrs, dict):
        raise ProgramError(f"{op} takes its attributes as a dict, got {attrs!r}")


def check_axes(op: str, name: str, axes: Axes, ndim: int) -> None:
    """A tuple of axes in range, counted from the front, and distinct."""
    check_tuple(op, name, axes)
    for axis in axes:
        if type(axis) is not int or not 0 <= axis < ndim:
            raise ProgramError(f"{op}: {name}={axes} is out of range for {ndim} axes")
    if len(set(axes)) != len(axes):
        raise ProgramError(f"{op}: {name}={axes} names an axis twice")


def check_axis(op: str, axis: Any, ndim: int) -> None:
    """One axis in range, counted from the front."""
    if type(axis) is not int:
        raise ProgramError(f"{op}: axis={axis!r} must be an integer")
    if not 0 <= axis < ndim:
        raise ProgramError(f"{op}: axis={axis} is out of range for {ndim} axes")


def check_tuple(op: str, name: str, values: object) -> None:
    """Not a set, a range or a dict, which have no order or are no data of a program."""
    if type(values) is not tuple:
        raise ProgramError(f"{op}: {name}={values!r} must be a tuple of integers")


def check_integers(op: str, name: str, values: Any, count: int, least: int | None = 0) -> None:
    """A tuple of `count` Python integers or sizes known later, each >= least."""
    check_tuple(op, name, values)
    if len(values) != count or any(type(n) is not int and type(n) is not DimExpr for n in values):
        raise ProgramError(f"{op}: {name}={values} must be {count} integers")
    if least is not None and any(exceeds(least, n) for n in values):
        raise ProgramError(f"{op}: {name}={values} must be >= {least}")


def without(shape: Shape, axes: Axes) -> Shape:
    """The sizes of the other axes."""
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def replaced(shape: Shape, axis: int, n: int) -> Shape:
    """`shape` with another size at one axis."""
    return (*shape[:axis], n, *shape[axis + 1 :])


# ---- elementwise ------------------------------------------------------------------------------


def same(attrs: Attrs, shapes: Shapes) -> Shape:
    """Operands of one shape, which is the output's."""
    if any(shapes_differ(shape, shapes[0]) for shape in shapes):
        raise ProgramError(
            f"operands have shapes {', '.join(map(str, shapes))}; broadcast them first"
        )
    return shapes[0]


# ---- structural -------------------------------------------------------------------------------


def reshape(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), shape = shapes, attrs["shape"]
    check_integers("reshape", "shape", shape, len(shape))
    if differ(math.prod(shape), math.prod(x)):
        raise ProgramError(f"reshape: shape={shape} does not hold the elements of {x}")
    return tuple(shape)


def transpose(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), perm = shapes, attrs["perm"]
    check_axes("transpose", "perm", perm, len(x))
    if len(perm) != len(x):
        raise ProgramError(f"transpose: perm={perm} leaves out axes of {x}")
    return tuple(x[axis] for axis in perm)


def squeeze(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), axes = shapes, attrs["axes"]
    check_axes("squeeze", "axes", axes, len(x))
    if any(differ(x[axis], 1) for axis in axes):
        raise ProgramError(f"squeeze: axes={axes} of {x} are not all of size 1")
    return without(x, axes)


def expand_dims(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), axes = shapes, attrs["axes"]
    ndim = len(x) + len(axes)
    check_axes("expand_dims", "axes", axes, ndim)
    old = iter(x)
    return tuple(1 if axis in axes else next(old) for axis in range(ndim))


def broadcast_in_dim(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), shape, axes = shapes, attrs["shape"], attrs["axes"]
    check_axes("broadcast_in_dim", "axes", axes, len(shape))
    check_integers("broadcast_in_dim", "shape", shape, len(shape))
    if len(axes) != len(x) or sorted(axes) != list(axes):
        raise ProgramError(f"broadcast_in_dim: axes={axes} must increase, one for each of {x}")
    if any(differ(n, 1) and differ(n, shape[k]) for n, k in zip(x, axes, strict=True)):
        raise ProgramError(f"broadcast_in_dim: {x} does not fit into {shape} at axes {axes}")
    return tuple(shape)


def slice_(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), starts, stops, steps = shapes, attrs["starts"], attrs["stops"], attrs["steps"]
    check_integers("slice", "starts", starts, len(x))
    check_integers("slice", "stops", stops, len(x))
    check_integers("slice", "steps", steps, len(x), least=1)
    if any(exceeds(a, b) or exceeds(b, n) for a, b, n in zip(starts, stops, x, strict=True)):
        raise ProgramError(f"slice: need 0 <= starts={starts} <= stops={stops} <= sizes {x}")
    return tuple(-((a - b) // step) for a, b, step in zip(starts, stops, steps, strict=True))


def slice_at(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), axis, at = shapes, attrs["axis"], attrs["at"]
    check_axis("slice_at", axis, len(x))
    if type(at) not in (int, DimExpr) or exceeds(0, at) or exceeds(at + 1, x[axis]):
        raise ProgramError(f"slice_at: at={at} is no position of axis {axis} of {x}")
    return without(x, (axis,))


def reverse(attrs: Attrs, shapes: Shapes) -> Shape:
    check_axes("reverse", "axes", attrs["axes"], len(shapes[0]))
    return shapes[0]


def pad(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), low, high, interior = shapes, attrs["low"], attrs["high"], attrs["interior"]
    check_integers("pad", "low", low, len(x), least=None)
    check_integers("pad", "high", high, len(x), least=None)
    check_integers("pad", "interior", interior, len(x))
    sizes = zip(x, low, high, interior, strict=True)
    out = tuple(a + b + n + maximum(0, n - 1) * gap for n, a, b, gap in sizes)
    if any(exceeds(0, n) for n in out):
        raise ProgramError(f"pad: low={low} and high={high} crop more than {x} has")
    return out


def concatenate(attrs: Attrs, shapes: Shapes) -> Shape:
    axis = attrs["axis"]
    check_axis("concatenate", axis, len(shapes[0]))
    for shape in shapes:
        others = without(shape, (axis,))
        if len(shape) != len(shapes[0]) or shapes_differ(others, without(shapes[0], (axis,))):
            raise ProgramError(f"concatenate: {shape} and {shapes[0]} differ beside axis {axis}")
    return replaced(shapes[0], axis, sum(shape[axis] for shape in shapes))


def split(attrs: Attrs, shapes: Shapes) -> list[Shape]:
    (x,), axis, sizes = shapes, attrs["axis"], attrs["sizes"]
    check_axis("split", axis, len(x))
    check_integers("split", "sizes", sizes, len(sizes))
    if not sizes or differ(sum(sizes), x[axis]):
        raise ProgramError(f"split: sizes={sizes} do not add up to axis {axis} of {x}")
    return [replaced(x, axis, n) for n in sizes]


def extract_diagonal(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), axes = shapes, attrs["axes"]
    check_axes("extract_diagonal", "axes", axes, len(x))
    unequal = any(differ(x[axis], x[axes[0]]) for axis in axes)
    if len(axes) < 2 or unequal or sorted(axes) != list(axes):
        raise ProgramError(
            f"extract_diagonal: axes={axes} of {x} must be two or more, increasing, equal in size"
        )
    return without(x, axes[1:])


def embed_diagonal(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), axis, copies = shapes, attrs["axis"], attrs["copies"]
    check_axis("embed_diagonal", axis, len(x))
    if type(copies) is not int or copies < 1:
        raise ProgramError(f"embed_diagonal: copies={copies} must be positive")
    return x + (x[axis],) * copies


def triangle(attrs: Attrs, shapes: Shapes) -> Shape:
    if type(attrs["k"]) is not int or len(shapes[0]) < 2:
        raise ProgramError(f"tril, triu: k={attrs['k']!r} must be an integer, x have two axes")
    return shapes[0]


# ---- reductions, order ------------------------------------------------------------------------


def reduce(attrs: Attrs, shapes: Shapes) -> Shape:
    check_axes("reduction", "axes", attrs["axes"], len(shapes[0]))
    return without(shapes[0], attrs["axes"])


def reduce_ordered(attrs: Attrs, shapes: Shapes) -> Shape:
    """max and min have no identity: what is reduced must not be empty, or `initial` is given."""
    (x,), out, initial = shapes, reduce(attrs, shapes), attrs["initial"]
    if initial is not None and type(initial) not in (bool, int, float):
        raise ProgramError(f"reduce_max, reduce_min: initial={initial!r} is no real number")
    has_results = all(exceeds(n, 0) for n in out)
    if initial is None and has_results and any(x[axis] == 0 for axis in attrs["axes"]):
        raise ProgramError(
            f"reduce_max, reduce_min: {x} has nothing to reduce; reduce axes that have elements, or give "
            f"the op another initial than None"
        )
    return out


def argument(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), axis = shapes, attrs["axis"]
    check_axis("argmax, argmin", axis, len(x))
    if x[axis] == 0:
        raise ProgramError(f"argmax, argmin: axis {axis} of {x} is empty")
    return without(x, (axis,))


def scalar(attrs: Attrs, shapes: Shapes) -> Shape:
    """One number of the whole operand."""
    return ()


def ldexp(attrs: Attrs, shapes: Shapes) -> Shape:
    x, k = shapes
    if k != ():
        raise ProgramError(f"ldexp: k of shape {k} must be a scalar")
    return x


def scan(attrs: Attrs, shapes: Shapes) -> Shape:
    check_axis("associative_scan", attrs["axis"], len(shapes[0]))
    if attrs["kind"] not in ("sum", "prod", "max", "min"):
        raise ProgramError(f"associative_scan: kind={attrs['kind']!r} is not sum, prod, max or min")
    return shapes[0]


def sort(attrs: Attrs, shapes: Shapes) -> Shape:
    check_axis("sort, argsort", attrs["axis"], len(shapes[0]))
    if type(attrs["descending"]) is not bool:
        raise ProgramError(f"sort, argsort: descending={attrs['descending']!r} must be a bool")
    return shapes[0]


# ---- indexing ---------------------------------------------------------------------------------


def take(attrs: Attrs, shapes: Shapes) -> Shape:
    (x, indices), axis = shapes, attrs["axis"]
    check_axis("take", axis, len(x))
    return (*x[:axis], *indices, *x[axis + 1 :])


def take_along_axis(attrs: Attrs, shapes: Shapes) -> Shape:
    x, indices = shapes
    _check_along("take_along_axis", x, indices, attrs["axis"])
    return indices


def scatter_along_axis(attrs: Attrs, shapes: Shapes) -> Shape:
    x, indices, updates = shapes
    _check_along("scatter_along_axis", x, indices, attrs["axis"])
    if shapes_differ(updates, indices):
        raise ProgramError(f"scatter_along_axis: updates {updates} and indices {indices} differ")
    if attrs["mode"] not in ("set", "add") or type(attrs["unique_indices"]) is not bool:
        raise ProgramError('scatter_along_axis: mode is "set" or "add", unique_indices a bool')
    return x


def _check_along(op: str, x: Shape, indices: Shape, axis: int) -> None:
    check_axis(op, axis, len(x))
    if len(indices) != len(x) or shapes_differ(without(indices, (axis,)), without(x, (axis,))):
        raise ProgramError(f"{op}: indices {indices} and x {x} differ beside axis {axis}")


def gather(attrs: Attrs, shapes: Shapes) -> Shape:
    """StableHLO's gather without operand batching dimensions."""
    x, indices = shapes[:2]
    sizes, collapsed = attrs["slice_sizes"], attrs["collapsed_slice_dims"]
    check_integers("gather", "slice_sizes", sizes, len(x))
    check_axes("gather", "collapsed_slice_dims", collapsed, len(x))
    check_axes("gather", "start_index_map", attrs["start_index_map"], len(x))
    batch = _index_batch("gather", indices, attrs, len(attrs["start_index_map"]))
    if any(differ(sizes[axis], 1) for axis in collapsed):
        raise ProgramError(f"gather: slice_sizes={sizes} are not 1 at {collapsed}")
    if any(map(exceeds, sizes, x)):
        raise ProgramError(f"gather: windows of {sizes} do not fit into {x}")
    window = iter(without(tuple(sizes), collapsed))
    offset, ndim = attrs["offset_dims"], len(batch) + len(x) - len(collapsed)
    check_axes("gather", "offset_dims", offset, ndim)
    if len(offset) != len(x) - len(collapsed):
        raise ProgramError(f"gather: offset_dims={offset} must name each window axis kept")
    rows = iter(batch)
    return tuple(next(window) if axis in offset else next(rows) for axis in range(ndim))


def scatter(attrs: Attrs, shapes: Shapes) -> Shape:
    x, indices, updates = shapes
    inserted, window = attrs["inserted_window_dims"], attrs["update_window_dims"]
    check_axes("scatter", "inserted_window_dims", inserted, len(x))
    check_axes("scatter", "update_window_dims", window, len(updates))
    to_operand = attrs["scatter_dims_to_operand_dims"]
    check_axes("scatter", "scatter_dims_to_operand_dims", to_operand, len(x))
    batch = _index_batch("scatter", indices, attrs, len(to_operand))
    if shapes_differ(without(updates, window), batch) or len(window) != len(x) - len(inserted):
        raise ProgramError(f"scatter: updates {updates} do not fit indices {indices} and x {x}")
    room = without(x, inserted)
    if any(exceeds(updates[axis], n) for axis, n in zip(window, room, strict=True)):
        raise ProgramError(f"scatter: windows of updates {updates} do not fit into {x}")
    return x


def _index_batch(op: str, indices: Shape, attrs: Attrs, length: int) -> Shape:
    """Axes of the index array beside the one along which an index vector lies."""
    axis = attrs["index_vector_dim"]
    if type(axis) is not int or not 0 <= axis <= len(indices):
        raise ProgramError(f"{op}: index_vector_dim={axis} is out of range for {indices}")
    vector = indices[axis] if axis < len(indices) else 1
    if differ(vector, length):
        raise ProgramError(f"{op}: index vectors have {vector} entries, {length} are mapped")
    return without(indices, (axis,))


def dynamic_slice(attrs: Attrs, shapes: Shapes) -> Shape:
    (x, starts), sizes = shapes, attrs["sizes"]
    check_integers("dynamic_slice", "sizes", sizes, len(x))
    if shapes_differ(starts, (len(x),)) or any(map(exceeds, sizes, x)):
        raise ProgramError(f"dynamic_slice: starts {starts} or sizes={sizes} do not fit {x}")
    return tuple(sizes)


def dynamic_update_slice(attrs: Attrs, shapes: Shapes) -> Shape:
    x, update, starts = shapes
    fits = len(update) == len(x) and not any(map(exceeds, update, x))
    if shapes_differ(starts, (len(x),)) or not fits:
        raise ProgramError(f"dynamic_update_slice: update {update} or starts {starts} misfit {x}")
    return x


# ---- windows, random --------------------------------------------------------------------------


def unfold(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), kernel = shapes, attrs["kernel"]
    rank = len(kernel)
    if not 0 < rank <= len(x):
        raise ProgramError(f"unfold: kernel={kernel} must have 1 to {len(x)} axes")
    windows = window_counts("unfold", attrs, x[len(x) - rank :])
    return (*x[: len(x) - rank], math.prod(kernel), math.prod(windows))


def fold(attrs: Attrs, shapes: Shapes) -> Shape:
    (x,), kernel, sizes = shapes, attrs["kernel"], attrs["sizes"]
    check_integers("fold", "sizes", sizes, len(kernel))
    windows = math.prod(window_counts("fold", attrs, tuple(sizes)))
    if shapes_differ(x[-2:], (math.prod(kernel), windows)):
        raise ProgramError(f"fold: {x} does not end in ({math.prod(kernel)}, {windows})")
    return (*x[:-2], *sizes)


def window_counts(op: str, attrs: Attrs, sizes: Shape) -> Shape:
    """Positions of a window along each axis."""
    kernel, strides, dilation = attrs["kernel"], attrs["strides"], attrs["dilation"]
    low, high, rank = attrs["low"], attrs["high"], len(attrs["kernel"])
    for name in ("kernel", "strides", "dilation"):
        check_integers(op, name, attrs[name], rank, least=1)
    for name in ("low", "high"):
        check_integers(op, name, attrs[name], rank)
    reach = [sizes[d] + low[d] + high[d] for d in range(rank)]
    for name, values in (("strides", strides), ("dilation", dilation), ("padded sizes", reach)):
        if any(not exceeds(MOST_REACH, n) for n in values if type(n) is int):
            raise ProgramError(f"{op}: {name} {tuple(values)} must be below 2**62")
    room = [reach[d] - dilation[d] * (kernel[d] - 1) - 1 for d in range(rank)]
    if any(exceeds(0, n) for n in room):
        raise ProgramError(f"{op}: kernel={kernel} does not fit into {sizes} with its padding")
    return tuple(n // step + 1 for n, step in zip(room, strides, strict=True))


def threefry(attrs: Attrs, shapes: Shapes) -> Shape:
    key, counter = shapes
    if shapes_differ(key, counter) or not key or differ(key[-1], 2):
        raise ProgramError(f"threefry2x32: key {key} and counter {counter} must be equal, [..., 2]")
    return key


# ---- contraction ------------------------------------------------------------------------------


NO_CONJ = (False, False)


@dataclass(frozen=True, slots=True)
class DotDims:
    """The axes of a `dot_general` by role, and the sizes of the four groups."""

    lhs_batch: Axes
    lhs_free: Axes
    lhs_contracting: Axes
    rhs_batch: Axes
    rhs_contracting: Axes
    rhs_free: Axes
    batch: int
    m: int
    n: int
    k: int


def dot_dims(attrs: Attrs, lhs: Shape, rhs: Shape) -> DotDims:
    """Sort the axes of `dot_general` into batch, free and contracting ones, and check them.

    >>> dims = dot_dims({"contracting": ((2,), (1,)), "batch": ((0,), (0,))}, (7, 2, 3), (7, 3, 5))
    >>> dims.lhs_free, dims.rhs_free, (dims.batch, dims.m, dims.n, dims.k)
    ((1,), (2,), (7, 2, 5, 3))
    """
    (lhs_k, rhs_k), (lhs_b, rhs_b) = attrs["contracting"], attrs["batch"]
    for name, axes, shape in (("lhs", lhs_b + lhs_k, lhs), ("rhs", rhs_b + rhs_k, rhs)):
        check_axes("dot_general", f"{name} batch and contracting axes", axes, len(shape))
    for left, right in ((lhs_b, rhs_b), (lhs_k, rhs_k)):
        if shapes_differ([lhs[axis] for axis in left], [rhs[axis] for axis in right]):
            raise ProgramError(
                f"dot_general: sizes {[lhs[a] for a in left]} of lhs axes {left} and "
                f"{[rhs[a] for a in right]} of rhs axes {right} differ"
            )
    lhs_free = tuple(axis for axis in range(len(lhs)) if axis not in lhs_b and axis not in lhs_k)
    rhs_free = tuple(axis for axis in range(len(rhs)) if axis not in rhs_b and axis not in rhs_k)
    return DotDims(
        lhs_batch=lhs_b,
        lhs_free=lhs_free,
        lhs_contracting=lhs_k,
        rhs_batch=rhs_b,
        rhs_contracting=rhs_k,
        rhs_free=rhs_free,
        batch=math.prod(lhs[axis] for axis in lhs_b),
        m=math.prod(lhs[axis] for axis in lhs_free),
        n=math.prod(rhs[axis] for axis in rhs_free),
        k=math.prod(lhs[axis] for axis in lhs_k),
    )


_KNOWN: Quick[DotDims] = Quick("axes of products", 1024)


def known_dims(attrs: Attrs, lhs: Shape, rhs: Shape) -> DotDims:
    """`dot_dims` of a product that was checked before, with frozen attributes: looked up where it was met."""
    key = (attrs["contracting"], attrs["batch"], lhs, rhs)
    try:
        found = _KNOWN.items.get(key)
    except TypeError:  # lists of axes
        return dot_dims(attrs, lhs, rhs)
    if found is None:
        _KNOWN.misses += 1
        found = dot_dims(attrs, lhs, rhs)
        _KNOWN.put(key, found)
    else:
        _KNOWN.hits += 1
    return found


def dot_general(attrs: Attrs, shapes: Shapes) -> Shape:
    (lhs, rhs), conj = shapes, attrs["conj"]
    if type(conj) is not tuple or [type(flag) for flag in conj] != [bool, bool]:
        raise ProgramError(f"dot_general: conj={conj!r} must be two bools, for lhs and for rhs")
    dims = dot_dims(attrs, lhs, rhs)
    left = (lhs[axis] for axis in dims.lhs_batch + dims.lhs_free)
    return (*left, *(rhs[axis] for axis in dims.rhs_free))


def dot_general_add(attrs: Attrs, shapes: Shapes) -> Shape:
    product, acc = dot_general(attrs, shapes[:2]), shapes[2]
    if shapes_differ(product, acc):
        raise ProgramError(f"dot_general_add: the product has shape {product}, acc {acc}")
    return product


def matmul(attrs: Attrs, shapes: Shapes) -> Shape:
    lhs, rhs = shapes
    ranked = min(len(lhs), len(rhs)) >= 2 and not shapes_differ(lhs[:-2], rhs[:-2])
    if not ranked or differ(lhs[-1], rhs[-2]):
        raise ProgramError(f"matmul: need [batch, m, k] and [batch, k, n], got {lhs} and {rhs}")
    return (*lhs[:-1], rhs[-1])


def sum_product(attrs: Attrs, shapes: Shapes) -> Shape:
    terms, output = attrs["terms"], attrs["output"]
    if type(terms) is not tuple or len(terms) != len(shapes):
        raise ProgramError("sum_product: give one term for each operand, as a tuple")
    for name, labels in [("terms", term) for term in terms] + [("output", output)]:
        check_tuple("sum_product", name, labels)
    sizes: dict[int, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape) or len(set(term)) != len(term):
            raise ProgramError(
                f"sum_product: term {term} does not name the axes of {shape} once each"
            )
        for label, n in zip(term, shape, strict=True):
            if differ(sizes.setdefault(label, n), n):
                raise ProgramError(f"sum_product: label {label} has sizes {sizes[label]} and {n}")
    if len(set(output)) != len(output) or any(label not in sizes for label in output):
        raise ProgramError(f"sum_product: output {output} repeats a label or names an unknown one")
    return tuple(sizes[label] for label in output)


# ---- host -------------------------------------------------------------------------------------


def constant(attrs: Attrs, shapes: Shapes) -> Shape:
    if type(attrs["value"]) not in (bool, int, float, complex):
        raise ProgramError(f"constant: value={attrs['value']!r} is no Python number")
    return ()


def shape_of(attrs: Attrs, shapes: Shapes) -> Shape:
    check_axis("shape_of", attrs["axis"], len(shapes[0]))
    return ()


def dynamic_truncate(attrs: Attrs, shapes: Shapes) -> Shape:
    """The shape is an upper bound: how much is kept is known when the program runs."""
    x, size = shapes
    check_axis("dynamic_truncate", attrs["axis"], len(x))
    if size != ():
        raise ProgramError(f"dynamic_truncate: size has shape {size}, it must be a scalar")
    return x


def pad_to_match(attrs: Attrs, shapes: Shapes) -> Shape:
    (x, reference), axis = shapes, attrs["axis"]
    check_axis("pad_to_match", axis, min(len(x), len(reference)))
    return replaced(x, axis, maximum(x[axis], reference[axis]))


# ---- extensions: [batch..., m, n] -------------------------------------------------------------


def square(attrs: Attrs, shapes: Shapes) -> Shape:
    x = shapes[0]
    if len(x) < 2 or differ(x[-1], x[-2]):
        raise ProgramError(f"{x} is no batch of square matrices")
    return x


def solve(attrs: Attrs, shapes: Shapes) -> Shape:
    """a @ x = b for a [batch, n, n] and b [batch, n, k]."""
    a, b = square(attrs, shapes), shapes[-1]
    if len(b) != len(a) or shapes_differ(b[:-1], a[:-1]):
        raise ProgramError(f"right-hand sides {b} do not fit matrices {a}")
    return b


def lu(attrs: Attrs, shapes: Shapes) -> list[Shape]:
    x = _matrices(shapes[0])
    return [x, (*x[:-2], minimum(*x[-2:]))]


def full_pivot_lu(attrs: Attrs, shapes: Shapes) -> list[Shape]:
    x = _matrices(shapes[0])
    k = minimum(*x[-2:])
    return [x, (*x[:-2], k), (*x[:-2], k)]


def lu_solve(attrs: Attrs, shapes: Shapes) -> Shape:
    for pivots in shapes[1:-1]:
        if shapes_differ(pivots, shapes[0][:-1]):
            raise ProgramError(f"pivots {pivots} do not fit factors {shapes[0]}")
    return solve(attrs, (shapes[0], shapes[-1]))


def qr(attrs: Attrs, shapes: Shapes) -> list[Shape]:
    *batch, m, n = _matrices(shapes[0])
    k = minimum(m, n)
    return [(*batch, m, k), (*batch, k, n)]


def svd(attrs: Attrs, shapes: Shapes) -> list[Shape]:
    *batch, m, n = _matrices(shapes[0])
    k = minimum(m, n)
    return [(*batch, m, k), (*batch, k), (*batch, k, n)]


def eigen(attrs: Attrs, shapes: Shapes) -> list[Shape]:
    x = square(attrs, shapes)
    return [x[:-1], x]


def fft(attrs: Attrs, shapes: Shapes) -> Shape:
    check_axes("fft", "axes", attrs["axes"], len(shapes[0]))
    scale = attrs["scale"]
    if type(scale) is not float or not math.isfinite(scale):
        raise ProgramError(f"fft: scale={scale!r} must be a finite float")
    return shapes[0]


def rfft(attrs: Attrs, shapes: Shapes) -> Shape:
    x, axes = fft(attrs, shapes), attrs["axes"]
    return replaced(x, axes[-1], x[axes[-1]] // 2 + 1)


def irfft(attrs: Attrs, shapes: Shapes) -> Shape:
    x, axes, n = fft(attrs, shapes), attrs["axes"], attrs["n"]
    if type(n) not in (int, DimExpr) or exceeds(1, n) or differ(n // 2 + 1, x[axes[-1]]):
        raise ProgramError(f"irfft: n={n} does not belong to {x[axes[-1]]} bins")
    return replaced(x, axes[-1], n)


def _matrices(x: Shape) -> Shape:
    if len(x) < 2:
        raise ProgramError(f"{x} is no batch of matrices")
    return x

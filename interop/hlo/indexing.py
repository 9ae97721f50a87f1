"""Gathers, scatters and dynamic slices in StableHLO.

Where the catalogue raises for an index out of range, StableHLO can not: reads are clamped, writes
dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.catalogue import Attrs
from .reducing import OPS
from .text import INDEX, Rule, Specs, Text, Value, Values, body, dims


def wrapped(text: Text, indices: Value, n: int) -> Value:
    """Indices as int64, negative ones counted from the end."""
    indices = text.convert(indices, INDEX)
    negative = text.compare("LT", indices, text.like(0, indices))
    return text.select(negative, text.op("add", indices, text.like(n, indices)), indices)


def gathered(
    text: Text,
    x: Value,
    indices: Value,
    shape: Sequence[int],
    numbers: tuple[Sequence[int], Sequence[int], Sequence[int], int],
    sizes: Sequence[int],
) -> Value:
    """StableHLO's gather; numbers are offset_dims, collapsed_slice_dims, start_index_map and
    index_vector_dim."""
    offset, collapsed, starts, vector = numbers
    shown = (
        f"#stablehlo.gather<offset_dims = {sorted(offset)}, "
        f"collapsed_slice_dims = {sorted(collapsed)}, "
        f"start_index_map = {list(starts)}, index_vector_dim = {vector}>"
    )
    return text.op(
        "gather", x, indices, shape=shape, dimension_numbers=shown, slice_sizes=dims(sizes)
    )


def scattered(
    text: Text,
    operands: Values,
    numbers: tuple[Sequence[int], Sequence[int], Sequence[int], int],
    kind: str,
) -> Value:
    """StableHLO's scatter of x, indices and updates; numbers are update_window_dims,
    inserted_window_dims, scatter_dims_to_operand_dims and index_vector_dim."""
    x = operands[0]
    window, inserted, to_operand, vector = numbers
    shown = (
        f"#stablehlo.scatter<update_window_dims = {sorted(window)}, "
        f"inserted_window_dims = {sorted(inserted)}, "
        f"scatter_dims_to_operand_dims = {list(to_operand)}, index_vector_dim = {vector}>"
    )
    if kind == "set":
        region = body((x.dtype, x.dtype), lambda inner, pair: [pair[1]])
    else:
        region = body((x.dtype, x.dtype), lambda inner, pair: [inner.op(OPS[kind], *pair)])
    return text.op("scatter", *operands, region=region, scatter_dimension_numbers=shown)


def _take(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    (x, indices), axis, out = xs, attrs["axis"], specs[0].shape
    at = wrapped(text, indices, x.shape[axis])
    offset = [k for k in range(len(out)) if not axis <= k < axis + indices.ndim]
    sizes = [1 if k == axis else n for k, n in enumerate(x.shape)]
    return gathered(text, x, at, out, (offset, (axis,), (axis,), indices.ndim), sizes)


def vectors(text: Text, indices: Value, axis: int) -> Value:
    """The place in x of every element of `indices`, whose own value is the place along axis."""
    shape = (*indices.shape, 1)
    parts = [
        text.reshape(indices, shape) if k == axis else text.iota(shape, k)
        for k in range(indices.ndim)
    ]
    return text.concatenate(parts, indices.ndim)


def _take_along_axis(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    (x, indices), axis, every = xs, attrs["axis"], range(xs[0].ndim)
    at = vectors(text, wrapped(text, indices, x.shape[axis]), axis)
    return gathered(text, x, at, specs[0].shape, ((), every, every, x.ndim), [1] * x.ndim)


def _scatter_along_axis(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """The last of several updates of one place is the largest position among them: these are found first
    by a maximum, since StableHLO leaves the order of updates open."""
    if 0 in xs[1].shape:
        return xs[0]
    (x, indices, updates), axis, every = xs, attrs["axis"], range(xs[0].ndim)
    at = vectors(text, wrapped(text, indices, x.shape[axis]), axis)
    numbers = ((), every, every, x.ndim)
    if attrs["mode"] == "add":
        return scattered(text, (x, at, updates), numbers, "sum")
    if attrs["unique_indices"]:
        return scattered(text, (x, at, updates), numbers, "set")
    nobody = text.full(-1, INDEX, x.shape)
    last = scattered(text, (nobody, at, text.iota(updates.shape, axis)), numbers, "max")
    chosen = gathered(
        text, updates, vectors(text, last, axis), x.shape, numbers, [1] * x.ndim
    )  # clamped where nobody wrote
    return text.select(text.compare("GE", last, text.like(0, last)), chosen, x)


def _gather(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    numbers = (
        attrs["offset_dims"],
        attrs["collapsed_slice_dims"],
        attrs["start_index_map"],
        attrs["index_vector_dim"],
    )
    return gathered(text, xs[0], xs[1], specs[0].shape, numbers, attrs["slice_sizes"])


def _scatter(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """The window axes of updates are brought into rising order, as StableHLO wants them."""
    x, indices, updates = xs
    window = attrs["update_window_dims"]
    perm = list(range(updates.ndim))
    for place, axis in zip(sorted(window), window, strict=True):
        perm[place] = axis
    numbers = (
        window,
        attrs["inserted_window_dims"],
        attrs["scatter_dims_to_operand_dims"],
        attrs["index_vector_dim"],
    )
    return scattered(text, (x, indices, text.transpose(updates, perm)), numbers, "sum")


def _starts(text: Text, starts: Value) -> Values:
    return tuple(
        text.reshape(text.slice(starts, [k], [k + 1], [1]), ()) for k in range(starts.shape[0])
    )


def _dynamic_slice(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    x, starts = xs
    if x.ndim == 0:
        return x
    sizes = attrs["sizes"]
    return text.op("dynamic_slice", x, *_starts(text, starts), shape=sizes, slice_sizes=dims(sizes))


def _dynamic_update_slice(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    x, update, starts = xs
    if x.ndim == 0:
        return update
    return text.op("dynamic_update_slice", x, update, *_starts(text, starts))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("gather", "gather_dynamic_slice_sizes"), _gather),
    "take": _take,
    "take_along_axis": _take_along_axis,
    "scatter_along_axis": _scatter_along_axis,
    "scatter": _scatter,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}

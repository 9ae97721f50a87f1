"""Structural ops in StableHLO."""

from __future__ import annotations

from ...backend.catalogue import Attrs
from .text import Rule, Specs, Text, Value, Values, dims


def _reshape(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return text.reshape(xs[0], specs[0].shape)


def _transpose(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return text.transpose(xs[0], attrs["perm"])


def _broadcast(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return text.broadcast(xs[0], attrs["shape"], attrs["axes"])


def _slice(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return text.slice(xs[0], attrs["starts"], attrs["stops"], attrs["steps"])


def piece(text: Text, x: Value, axis: int, start: int, stop: int) -> Value:
    """x from start to stop along one axis."""
    starts, stops = [0] * x.ndim, list(x.shape)
    starts[axis], stops[axis] = start, stop
    return text.slice(x, starts, stops, [1] * x.ndim)


def _slice_at(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """A position that the call gives is a second operand."""
    axis, shape = attrs["axis"], specs[0].shape
    if len(xs) == 1:
        cut = piece(text, xs[0], axis, attrs["at"], attrs["at"] + 1)
        return text.reshape(cut, shape)
    x, at = xs
    sizes = [1 if k == axis else n for k, n in enumerate(x.shape)]
    zero = text.full(0, at.dtype)
    starts = [at if k == axis else zero for k in range(x.ndim)]
    cut = text.op("dynamic_slice", x, *starts, shape=sizes, slice_sizes=dims(sizes))
    return text.reshape(cut, shape)


def _split(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Values:
    found, start = [], 0
    for size in attrs["sizes"]:
        found.append(piece(text, xs[0], attrs["axis"], start, start + size))
        start += size
    return tuple(found)


def _reverse(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return text.op("reverse", xs[0], dimensions=dims(attrs["axes"]))


def _pad(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return text.pad(xs[0], attrs["value"], attrs["low"], attrs["high"], attrs["interior"])


def _pad_to_match(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    x, none = xs[0], [0] * xs[0].ndim
    high = [after - before for before, after in zip(x.shape, specs[0].shape, strict=True)]
    return text.pad(x, 0, none, high, none)


def _concatenate(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return text.concatenate(xs, attrs["axis"])


def _extract_diagonal(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """A gather at (i, i, ..) for every i."""
    x, axes, out = xs[0], attrs["axes"], specs[0].shape
    indices = text.iota((x.shape[axes[0]], len(axes)), 0)
    offset = [axis for axis in range(len(out)) if axis != axes[0]]
    sizes = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
    numbers = (
        f"#stablehlo.gather<offset_dims = {offset}, collapsed_slice_dims = {list(axes)}, "
        f"start_index_map = {list(axes)}, index_vector_dim = 1>"
    )
    return text.op(
        "gather", x, indices, shape=out, dimension_numbers=numbers, slice_sizes=dims(sizes)
    )


def _embed_diagonal(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    x, out = xs[0], specs[0].shape
    found, place = text.broadcast(x, out, range(x.ndim)), text.iota(out, attrs["axis"])
    nothing = text.full(0, x.dtype, out)
    for axis in range(x.ndim, len(out)):
        found = text.select(text.compare("EQ", place, text.iota(out, axis)), found, nothing)
    return found


def triangle(text: Text, x: Value, k: int, direction: str) -> Value:
    """x where column - row is at most k ("LE") or at least ("GE"), zero elsewhere."""
    rows, columns = text.iota(x.shape, x.ndim - 2), text.iota(x.shape, x.ndim - 1)
    reach = text.op("subtract", columns, rows)
    return text.select(text.compare(direction, reach, text.like(k, reach)), x, text.like(0, x))


def _tril(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return triangle(text, xs[0], attrs["k"], "LE")


def _triu(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return triangle(text, xs[0], attrs["k"], "GE")


def _constant(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return text.full(attrs["value"], specs[0].dtype)


def _shape_of(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return text.full(xs[0].shape[attrs["axis"]], specs[0].dtype)


# ---- windows ----------------------------------------------------------------------------------


def _places(attrs: Attrs) -> list[tuple[int, ...]]:
    """The offset of every element of the kernel, in row-major order."""
    kernel, dilation = attrs["kernel"], attrs["dilation"]
    found: list[tuple[int, ...]] = [()]
    for n, step in zip(kernel, dilation, strict=True):
        found = [(*left, k * step) for left in found for k in range(n)]
    return found


def _counts(attrs: Attrs, sizes: tuple[int, ...]) -> list[int]:
    """Positions of the window along each axis of padded sizes."""
    rows = zip(sizes, attrs["kernel"], attrs["strides"], attrs["dilation"], strict=True)
    return [(n - step * (k - 1) - 1) // stride + 1 for n, k, stride, step in rows]


def _unfold(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """A strided slice for each element of the kernel."""
    x, rank, strides = xs[0], len(attrs["kernel"]), attrs["strides"]
    lead = [0] * (x.ndim - rank)
    x = text.pad(x, 0, [*lead, *attrs["low"]], [*lead, *attrs["high"]], [0] * x.ndim)
    counts, batch = _counts(attrs, x.shape[len(lead) :]), specs[0].shape[:-2]
    pieces = []
    for place in _places(attrs):
        rows = zip(place, counts, strides, strict=True)
        stops = [*batch, *(a + (n - 1) * stride + 1 for a, n, stride in rows)]
        cut = text.slice(x, [*lead, *place], stops, [*(1 for _ in lead), *strides])
        pieces.append(text.reshape(cut, (*batch, 1, specs[0].shape[-1])))
    return text.concatenate(pieces, len(batch))


def _fold(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """The slices of `unfold`, put back with zeros between them, and added."""
    x, strides = xs[0], attrs["strides"]
    batch, low, high = x.shape[:-2], attrs["low"], attrs["high"]
    lead = [0] * len(batch)
    sizes = tuple(a + n + b for a, n, b in zip(low, attrs["sizes"], high, strict=True))
    counts, total = _counts(attrs, sizes), text.full(0, x.dtype, (*batch, *sizes))
    for k, place in enumerate(_places(attrs)):
        part = text.reshape(piece(text, x, len(batch), k, k + 1), (*batch, *counts))
        rows = zip(sizes, place, counts, strides, strict=True)
        rest = [n - a - (count - 1) * stride - 1 for n, a, count, stride in rows]
        gaps = [*lead, *(stride - 1 for stride in strides)]
        part = text.pad(part, 0, [*lead, *place], [*lead, *rest], gaps)
        total = text.op("add", total, part)
    return text.pad(
        total, 0, [*lead, *(-n for n in low)], [*lead, *(-n for n in high)], [0] * total.ndim
    )


RULES: dict[str, Rule] = {
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshape),
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "slice_at": _slice_at,
    "split": _split,
    "reverse": _reverse,
    "pad": _pad,
    "pad_to_match": _pad_to_match,
    "concatenate": _concatenate,
    "extract_diagonal": _extract_diagonal,
    "embed_diagonal": _embed_diagonal,
    "tril": _tril,
    "triu": _triu,
    "constant": _constant,
    "shape_of": _shape_of,
    "unfold": _unfold,
    "fold": _fold,
}

"""What every op of the catalogue means, index by index, and the check against it."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from tests.backend import scalars
from tests.backend.calls import Array, Attrs, Shape
from tests.backend.scalars import FUNCTIONS, element, number
from tests.backend.series import CONTEXT, NAN, ONE, ZERO, Z
from tests.dft import transformed
from tests.oracles import einsum_oracle, label_sizes, wrap
from tests.tolerance import assert_close, function_tolerance, smallest, tolerance

from einloom.backend.dtypes import class_of
from einloom.backend.spec import ArraySpec

Law = Callable[..., None]
LAWS: dict[str, Law] = {}


def law(rule: Law) -> Law:
    """Every rule writes its outputs, which start as zeros, from the definition."""
    LAWS[rule.__name__.rstrip("_")] = rule
    return rule


def everywhere(x: Array) -> Iterator[Shape]:
    yield from np.ndindex(*x.shape)


def meaning(
    op: str, attrs: Attrs, arrays: Sequence[Array], outputs: Sequence[ArraySpec]
) -> tuple[Array, ...]:
    """What `op` yields, by its definition."""
    equation = einsum_terms(op, attrs, [x.ndim for x in arrays])
    if equation is not None:
        return (einsum_oracle(*equation, conjugates(attrs, arrays), outputs[0].dtype),)
    if op in scalars.SCALARS:
        return (scalars.apply(op, arrays, outputs[0].dtype),)
    made = tuple(np.zeros(spec.shape, spec.dtype) for spec in settled(op, attrs, arrays, outputs))
    with decimal.localcontext(CONTEXT):
        LAWS[op](attrs, arrays, *made)
    return made


def settled(
    op: str, attrs: Attrs, arrays: Sequence[Array], outputs: Sequence[ArraySpec]
) -> list[ArraySpec]:
    """The outputs with the sizes that these operands decide, in place of bounds."""
    found = []
    for spec in outputs:
        shape = list(spec.shape)
        axis = attrs.get("axis")
        if op == "dynamic_truncate":
            shape = list(arrays[0].shape)
            shape[axis] = min(max(int(arrays[1]), 0), shape[axis])
        if op == "reverse":
            shape = list(arrays[0].shape)
        if op == "pad_to_match":
            shape = list(arrays[0].shape)
            shape[axis] = max(shape[axis], arrays[1].shape[axis])
        found.append(ArraySpec(spec.dtype, tuple(shape)))
    return found


# ---- host ---------------------------------------------------------------------------------------


@law
def shape_of(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    out[()] = arrays[0].shape[attrs["axis"]]


@law
def dynamic_truncate(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for o in everywhere(out):
        out[o] = arrays[0][o]


@law
def pad_to_match(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(arrays[0]):
        out[i] = arrays[0][i]


# ---- structural: nothing is computed ------------------------------------------------------------


@law
def reshape(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i, o in zip(everywhere(arrays[0]), everywhere(out), strict=True):
        out[o] = arrays[0][i]


@law
def transpose(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(arrays[0]):
        out[tuple(i[axis] for axis in attrs["perm"])] = arrays[0][i]


@law
def squeeze(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(arrays[0]):
        out[tuple(n for axis, n in enumerate(i) if axis not in attrs["axes"])] = arrays[0][i]


@law
def slice_at(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for o in everywhere(out):
        out[o] = arrays[0][(*o[: attrs["axis"]], attrs["at"], *o[attrs["axis"] :])]


@law
def expand_dims(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for o in everywhere(out):
        out[o] = arrays[0][tuple(n for axis, n in enumerate(o) if axis not in attrs["axes"])]


@law
def broadcast_in_dim(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    x = arrays[0]
    for o in everywhere(out):
        out[o] = x[tuple(o[axis] % x.shape[k] for k, axis in enumerate(attrs["axes"]))]


@law
def slice_(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for o in everywhere(out):
        steps = zip(attrs["starts"], o, attrs["steps"], strict=True)
        out[o] = arrays[0][tuple(start + n * step for start, n, step in steps)]


@law
def reverse(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    x = arrays[0]
    for o in everywhere(out):
        flipped = enumerate(zip(o, x.shape, strict=True))
        out[o] = x[tuple(n - 1 - i if axis in attrs["axes"] else i for axis, (i, n) in flipped)]


@law
def pad(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    x = arrays[0]
    out[...] = np.asarray(attrs["value"]).astype(out.dtype)
    for i in everywhere(x):
        steps = zip(attrs["low"], i, attrs["interior"], strict=True)
        spot = tuple(low + n * (gap + 1) for low, n, gap in steps)
        if all(0 <= n < size for n, size in zip(spot, out.shape, strict=True)):
            out[spot] = x[i]


@law
def concatenate(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    axis, start = attrs["axis"], 0
    for x in arrays:
        for i in everywhere(x):
            out[(*i[:axis], start + i[axis], *i[axis + 1 :])] = x[i]
        start += x.shape[axis]


@law
def split(attrs: Attrs, arrays: Sequence[Array], *outs: Array) -> None:
    axis, start = attrs["axis"], 0
    for out in outs:
        for o in everywhere(out):
            out[o] = arrays[0][(*o[:axis], start + o[axis], *o[axis + 1 :])]
        start += out.shape[axis]


@law
def extract_diagonal(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    others = attrs["axes"][1:]
    for i in everywhere(arrays[0]):
        if len({i[axis] for axis in attrs["axes"]}) == 1:
            out[tuple(n for axis, n in enumerate(i) if axis not in others)] = arrays[0][i]


@law
def embed_diagonal(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(arrays[0]):
        out[i + (i[attrs["axis"]],) * attrs["copies"]] = arrays[0][i]


@law
def tril(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(out):
        if i[-1] - i[-2] <= attrs["k"]:
            out[i] = arrays[0][i]


@law
def triu(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(out):
        if i[-1] - i[-2] >= attrs["k"]:
            out[i] = arrays[0][i]


@law
def copy(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(out):
        out[i] = arrays[0][i]


LAWS["contiguous"] = copy


@law
def cast(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    x = arrays[0]
    for i, value in zip(everywhere(x), x.ravel().tolist(), strict=True):
        if out.dtype.kind == "O":
            out[i] = value
        else:
            out[i] = element(scalars.cast(number(value, x.dtype), x.dtype, out.dtype), out.dtype)


LAWS["convert"] = cast  # where nothing is lost they agree


@law
def constant(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    out[()] = attrs["value"]


@law
def gather(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    x, indices = arrays
    sizes, vector = attrs["slice_sizes"], attrs["index_vector_dim"]
    if vector == indices.ndim:
        indices = indices.reshape((*indices.shape, 1))
    kept = [axis for axis in range(x.ndim) if axis not in attrs["collapsed_slice_dims"]]
    for o in everywhere(out):
        window = [n for axis, n in enumerate(o) if axis in attrs["offset_dims"]]
        batch = tuple(n for axis, n in enumerate(o) if axis not in attrs["offset_dims"])
        spot = [0] * x.ndim
        for k, axis in enumerate(attrs["start_index_map"]):
            start = int(indices[(*batch[:vector], k, *batch[vector:])])
            spot[axis] = min(max(start, 0), x.shape[axis] - sizes[axis])
        for axis, n in zip(kept, window, strict=True):
            spot[axis] += n
        out[o] = x[tuple(spot)]


LAWS["gather_dynamic_slice_sizes"] = gather


@law
def take(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    (x, indices), axis = arrays, attrs["axis"]
    for o in everywhere(out):
        spot = o[axis : axis + indices.ndim]
        out[o] = x[(*o[:axis], int(indices[spot]), *o[axis + indices.ndim :])]


@law
def take_along_axis(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    (x, indices), axis = arrays, attrs["axis"]
    for o in everywhere(out):
        out[o] = x[(*o[:axis], int(indices[o]), *o[axis + 1 :])]


@law
def scatter_along_axis(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    (x, indices, updates), axis = arrays, attrs["axis"]
    groups: dict[Shape, list[Shape]] = {}
    for i in everywhere(indices):
        spot = (*i[:axis], int(indices[i]) % x.shape[axis], *i[axis + 1 :])
        groups.setdefault(spot, []).append(i)
    copy(attrs, arrays, out)
    for spot, group in groups.items():
        if attrs["mode"] == "set":
            out[spot] = updates[group[-1]]
        else:
            out[spot] = added(x[spot], [updates[i] for i in group])


@law
def scatter(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    x, indices, updates = arrays
    vector, window = attrs["index_vector_dim"], attrs["update_window_dims"]
    if vector == indices.ndim:
        indices = indices.reshape((*indices.shape, 1))
    kept = [axis for axis in range(x.ndim) if axis not in attrs["inserted_window_dims"]]
    groups: dict[Shape, list[Shape]] = {}
    for u in everywhere(updates):
        batch = [n for axis, n in enumerate(u) if axis not in window]
        spot, fits = [0] * x.ndim, True
        sizes = dict(zip(kept, (updates.shape[axis] for axis in window), strict=True))
        for k, axis in enumerate(attrs["scatter_dims_to_operand_dims"]):
            spot[axis] = int(indices[(*batch[:vector], k, *batch[vector:])])
            fits = fits and 0 <= spot[axis] <= x.shape[axis] - sizes.get(axis, 1)
        for axis, of in zip(kept, window, strict=True):
            spot[axis] += u[of]
        if fits:
            groups.setdefault(tuple(spot), []).append(u)
    copy(attrs, arrays, out)
    for place, group in groups.items():
        out[place] = added(x[place], [updates[u] for u in group])


def added(x: Any, updates: list[Any]) -> Any:
    """An element and what is added to it, exactly."""
    dtype = np.asarray(x).dtype
    numbers = [number(np.asarray(value, dtype).tolist(), dtype) for value in (x, *updates)]
    return element(total(numbers, class_of(dtype)), dtype)


@law
def dynamic_slice(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    x, starts = arrays
    for o in everywhere(out):
        out[o] = x[tuple(n + k for n, k in zip(o, lowest(x, starts, out), strict=True))]


@law
def dynamic_update_slice(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    x, update, starts = arrays
    copy(attrs, arrays, out)
    for i in everywhere(update):
        out[tuple(n + k for n, k in zip(i, lowest(x, starts, update), strict=True))] = update[i]


def lowest(x: Array, starts: Array, window: Array) -> list[int]:
    """Where a window of that shape begins, clamped to fit."""
    rooms = (n - size for n, size in zip(x.shape, window.shape, strict=True))
    return [min(max(int(start), 0), room) for start, room in zip(starts, rooms, strict=True)]


# ---- windows, random numbers ---------------------------------------------------------------------


def taps(attrs: Attrs, shape: Shape, columns: Shape) -> Iterator[tuple[Shape, Shape]]:
    """Elements of the columns, and which element of the array each of them is, where it is one."""
    kernel, lead = attrs["kernel"], len(shape) - len(attrs["kernel"])
    sizes = shape[lead:]
    counts = tuple(
        (n + low + high - dilation * (k - 1) - 1) // step + 1
        for n, k, low, high, dilation, step in zip(
            sizes,
            kernel,
            *(attrs[name] for name in ("low", "high", "dilation", "strides")),
            strict=True,
        )
    )
    for c in np.ndindex(*columns):
        tap = np.unravel_index(c[-2], kernel)
        at = np.unravel_index(c[-1], counts)
        spot = tuple(
            int(w) * step + int(k) * dilation - low
            for w, k, step, dilation, low in zip(
                at, tap, attrs["strides"], attrs["dilation"], attrs["low"], strict=True
            )
        )
        if all(0 <= n < size for n, size in zip(spot, sizes, strict=True)):
            yield c, (*c[:-2], *spot)


@law
def unfold(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for c, i in taps(attrs, arrays[0].shape, out.shape):
        out[c] = arrays[0][i]


@law
def fold(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    (columns,) = arrays
    groups: dict[Shape, list[Any]] = {}
    for c, i in taps(attrs, out.shape, columns.shape):
        groups.setdefault(i, []).append(columns[c])
    for i, (first, *others) in groups.items():
        out[i] = added(first, others)


@law
def threefry2x32(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    """As J. Salmon and others print it (SC11), in Python's integers."""
    key, counter = arrays
    for at in np.ndindex(*out.shape[:-1]):
        k0, k1 = (int(n) % 2**32 for n in key[at])
        words = (k0, k1, 0x1BD11BDA ^ k0 ^ k1)
        a, b = ((int(n) + k) % 2**32 for n, k in zip(counter[at], words, strict=False))
        for r in range(20):
            a = (a + b) % 2**32
            turn = (13, 15, 26, 6, 17, 29, 16, 24)[r % 8]
            b = (b << turn | b >> (32 - turn)) % 2**32 ^ a
            if r % 4 == 3:
                s = (r + 1) // 4
                a = (a + words[s % 3]) % 2**32
                b = (b + words[(s + 1) % 3] + s) % 2**32
        out[at] = [element(word, out.dtype) for word in (a, b)]


# ---- order, scans --------------------------------------------------------------------------------


@law
def argsort(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    """By selection: the first of the least that are left comes next."""
    (x,), axis = arrays, attrs["axis"]
    for o in np.ndindex(*without(out.shape, axis)):
        line = (*o[:axis], slice(None), *o[axis:])
        values = x[line].tolist()
        left = list(range(len(values)))
        for k in range(len(values)):
            best = left[0]
            for i in left[1:]:
                if comes_first(values[i], values[best], attrs["descending"]):
                    best = i
            left.remove(best)
            out[(*o[:axis], k, *o[axis:])] = best


@law
def sort(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    (x,), axis = arrays, attrs["axis"]
    order = np.zeros(x.shape, np.int64)
    argsort(attrs, arrays, order)
    take_along_axis({"axis": axis}, [x, order], out)


def comes_first(x: Any, y: Any, falling: bool) -> bool:
    """Whether x must stand before y: NaN stands last, complex numbers go by their parts."""
    if x != x or y != y:
        return x == x
    x, y = ((z.real, z.imag) if isinstance(z, (complex, np.complexfloating)) else z for z in (x, y))
    return bool(x > y if falling else x < y)


def without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


@law
def associative_scan(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    (x,), axis = arrays, attrs["axis"]
    for o in np.ndindex(*without(out.shape, axis)):
        values = [
            number(value, x.dtype) for value in x[(*o[:axis], slice(None), *o[axis:])].tolist()
        ]
        for k in range(len(values)):
            found = SCANS[attrs["kind"]](values[: k + 1], class_of(x.dtype))
            out[(*o[:axis], k, *o[axis:])] = element(found, out.dtype)


# ---- reductions ---------------------------------------------------------------------------------


def reduction(name: str, fold: Callable[[list[Any], str], Any]) -> None:
    """A law from what a list of numbers of a kind comes to."""

    def rule(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
        x, initial = arrays[0], attrs.get("initial")
        groups: dict[Shape, list[Any]] = {o: [] for o in everywhere(out)}
        for i, value in zip(everywhere(x), x.ravel().tolist(), strict=True):
            kept = tuple(n for axis, n in enumerate(i) if axis not in attrs["axes"])
            groups[kept].append(number(value, x.dtype))
        for o, group in groups.items():
            if initial is not None:
                group.append(Decimal(initial) if class_of(x.dtype) == "float" else initial)
            out[o] = element(fold(group, class_of(x.dtype)), out.dtype)

    LAWS[name] = rule


def total(group: list[Any], kind: str) -> Any:
    if kind == "complex":
        return Z(sum((z.re for z in group), ZERO), sum((z.im for z in group), ZERO))
    return any(group) if kind == "bool" else sum(group)


def product(group: list[Any], kind: str) -> Any:
    if kind == "complex":
        return math.prod(group, start=Z(ONE, ZERO))
    return all(group) if kind == "bool" else math.prod(group)


def mean(group: list[Any], kind: str) -> Any:
    if not group:
        return Z(NAN, NAN) if kind == "complex" else NAN
    count, whole = Decimal(len(group)), total(group, kind)
    return Z(whole.re / count, whole.im / count) if kind == "complex" else whole / count


def extreme(better: Callable[[Any, Any], bool]) -> Callable[[list[Any], str], Any]:
    def fold(group: list[Any], kind: str) -> Any:
        return group[first_extreme(group, better)]

    return fold


def first_extreme(group: list[Any], better: Callable[[Any, Any], bool]) -> int:
    """Where the first NaN is, else the first element that none is better than."""
    best = 0
    for k, value in enumerate(group):
        if value != value:
            return k
        if better(value, group[best]):
            best = k
    return best


def more(x: Any, y: Any) -> bool:
    return bool(x > y)


def fewer(x: Any, y: Any) -> bool:
    return bool(x < y)


SCANS = {"sum": total, "prod": product, "max": extreme(more), "min": extreme(fewer)}

reduction("reduce_sum", total)
reduction("reduce_prod", product)
reduction("reduce_mean", mean)
reduction("reduce_max", extreme(more))
reduction("reduce_min", extreme(fewer))


def argument(name: str, better: Callable[[Any, Any], bool]) -> None:
    def rule(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
        x, axis = arrays[0], attrs["axis"]
        for o in everywhere(out):
            spots = [(*o[:axis], k, *o[axis:]) for k in range(x.shape[axis])]
            out[o] = first_extreme([x[i] for i in spots], better)

    LAWS[name] = rule


argument("argmax", more)
argument("argmin", fewer)


# ---- powers of two ------------------------------------------------------------------------------


@law
def normal_exponent(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    (x,) = arrays
    parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
    sizes = [abs(Fraction(*number.as_integer_ratio())) for part in parts for number in wide(part)]
    largest, k = max(sizes, default=Fraction(0)), 0
    while largest and largest * Fraction(2) ** k >= 1:
        k -= 1
    while largest and largest * Fraction(2) ** k < Fraction(1, 2):
        k += 1
    out[()] = k


@law
def ldexp(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    x, k = arrays
    for i in everywhere(out):
        out[i] = x[i] * np.asarray(2.0 ** int(k), x.dtype)[()]


def wide(x: Array) -> list[Any]:
    """The elements, as numbers that know their ratio of integers."""
    return [*(x if x.dtype.char == "g" else x.astype(np.float64)).flat]


# ---- contractions -------------------------------------------------------------------------------


def einsum_terms(op: str, attrs: Attrs, ranks: Sequence[int]) -> tuple[list[Any], Any] | None:
    """Ops that are sums of products, as labels of operands and output."""
    if op == "sum_product":
        return list(attrs["terms"]), attrs["output"]
    if op == "matmul":
        batch = tuple(range(ranks[0] - 2))
        return [(*batch, "m", "k"), (*batch, "k", "n")], (*batch, "m", "n")
    if op != "dot_general":
        return None
    lhs: list[Hashable] = [("m", axis) for axis in range(ranks[0])]
    rhs: list[Hashable] = [("n", axis) for axis in range(ranks[1])]
    for role in ("batch", "contracting"):
        for k, (i, j) in enumerate(zip(*attrs[role], strict=True)):
            lhs[i] = rhs[j] = (role, k)
    batch = tuple(("batch", k) for k in range(len(attrs["batch"][0])))
    free = [label for label in (*lhs, *rhs) if label[0] in ("m", "n")]  # type: ignore[index]
    return [tuple(lhs), tuple(rhs)], (*batch, *free)


def conjugates(attrs: Attrs, arrays: Sequence[Array]) -> list[Array]:
    """Operands, conjugated where a flag says so."""
    flags = enumerate(attrs.get("conj", ()))
    flagged = {k for k, flag in flags if flag and arrays[k].dtype.kind in "cO"}
    found = [np.conj(x) if k in flagged else x for k, x in enumerate(arrays)]
    return [np.asarray(x, own.dtype) for x, own in zip(found, arrays, strict=True)]


@law
def dot_general_add(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    lhs, rhs, acc = conjugates(attrs, arrays)
    alpha, beta = attrs.get("alpha", 1), attrs.get("beta", 1)
    if out.dtype.kind == "b":
        alpha, beta = bool(alpha), bool(beta)
    wide = {"f": np.longdouble, "V": np.longdouble, "c": np.clongdouble}.get(out.dtype.kind, object)
    dtype = out.dtype if wide is object else np.dtype(wide)
    equation = einsum_terms("dot_general", attrs, [lhs.ndim, rhs.ndim])
    assert equation is not None
    total = alpha * einsum_oracle(*equation, [lhs, rhs], dtype).astype(wide)
    if beta:
        total = total + beta * acc.astype(wide)
    out[...] = wrap(np.asarray(total, wide), out.dtype)


# ---- transforms ---------------------------------------------------------------------------------

FFTS = ("fft", "ifft", "rfft", "irfft")


def transform(op: str) -> None:
    def rule(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
        if out.size and arrays[0].size:
            x = transformed(op, arrays[0], attrs["axes"], attrs.get("n", 0))
            out[...] = x * attrs.get("scale", 1.0)

    LAWS[op] = rule


for name in FFTS:
    transform(name)


def transform_scale(op: str, attrs: Attrs, arrays: Sequence[Array], want: Array) -> Array:
    """What the terms of every output add up to, at most."""
    sizes = _modulus(arrays[0]).sum(axis=attrs["axes"], keepdims=True) * (1 + (op == "irfft"))
    return np.broadcast_to(sizes * abs(attrs.get("scale", 1.0)), want.shape)


# ---- the check ----------------------------------------------------------------------------------


def assert_means(
    got: Any,
    op: str,
    attrs: Attrs,
    arrays: Sequence[Array],
    outputs: ArraySpec | Sequence[ArraySpec],
    want: Sequence[Array] | None = None,
) -> None:
    """Assert that `got` is what `op` yields: exactly, but for the rounding that the op may do.

    `want` is the meaning, where it is known already.
    """
    outputs = (outputs,) if isinstance(outputs, ArraySpec) else tuple(outputs)
    outputs = settled(op, attrs, arrays, outputs)
    want = meaning(op, attrs, arrays, outputs) if want is None else want
    several = got if isinstance(got, tuple) else (got,)
    for one, right, spec in zip(several, want, outputs, strict=True):
        assert type(one) is np.ndarray
        assert (one.dtype, one.shape) == (spec.dtype, spec.shape)
        assert_near(one, right, op, attrs, arrays)


def assert_near(got: Array, want: Array, op: str, attrs: Attrs, arrays: Sequence[Array]) -> None:
    """What is infinite or NaN agrees exactly, and the rest within the bounds of the op."""
    if got.dtype.kind != "O" and got.tobytes() == want.tobytes():
        return
    bound, scale = rounding(op, attrs, arrays, want)
    got, want = _comparable(got), _comparable(want)
    if bound == 0:
        np.testing.assert_array_equal(got, want)
        return
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    assert_close(got[finite], want[finite], np.asarray(scale)[finite], bound)


COMPUTED = ("multiply", "divide", "reciprocal", "sqrt", "absolute", "sign")
"""Ops that are several roundings for complex numbers."""


def rounding(op: str, attrs: Attrs, arrays: Sequence[Array], want: Array) -> tuple[float, Array]:
    """How far a result may be from the nearest element: a share, and of what."""
    of_complex = class_of(arrays[-1].dtype) == "complex" if arrays else False
    if class_of(want.dtype) not in ("float", "complex"):
        return 0.0, want
    if op in scalars.SCALARS:
        if op not in FUNCTIONS and not (of_complex and op in COMPUTED):
            return 0.0, want
        kind = "function" if op in FUNCTIONS else "arithmetic"
        kind = "complex power" if of_complex and op == "power" else kind
        own = arrays[-1].dtype
        return function_tolerance(kind, own), np.maximum(_modulus(want), smallest(want.dtype))
    if op == "dot_general_add":
        product, count = dot_scale(attrs, arrays)
        factors = abs(attrs.get("alpha", 1)), abs(attrs.get("beta", 1))
        return tolerance(want.dtype, count, 3), factors[0] * product + factors[1] * _modulus(
            arrays[2]
        )
    if op in RUNNING:
        return RUNNING[op](attrs, arrays, want)
    equation = einsum_terms(op, attrs, [x.ndim for x in arrays])
    sizes = [x.shape for x in arrays]
    if op in ("reduce_sum", "reduce_mean"):
        labels = tuple(range(arrays[0].ndim))
        equation = [labels], tuple(axis for axis in labels if axis not in attrs["axes"])
    if op in FFTS:
        return tolerance(want.dtype, 4, 3), transform_scale(op, attrs, arrays, want)
    if op == "reduce_prod":
        count = math.prod(arrays[0].shape[axis] for axis in attrs["axes"])
        return tolerance(want.dtype, 0, count), np.maximum(_modulus(want), smallest(want.dtype))
    if equation is None:
        return 0.0, want
    inputs, kept = equation
    lengths = label_sizes(inputs, sizes)
    count = math.prod(n for label, n in lengths.items() if label not in kept)
    scale = einsum_oracle(inputs, kept, [_modulus(x) for x in arrays], np.longdouble)
    if op == "reduce_mean":
        scale = scale / max(1, count)
    return tolerance(want.dtype, count, len(arrays)), scale


def scan_rounding(attrs: Attrs, arrays: Sequence[Array], want: Array) -> tuple[float, Array]:
    axis, kind = attrs["axis"], attrs["kind"]
    count = want.shape[axis]
    if kind == "sum":
        return tolerance(want.dtype, count, 1), np.cumsum(_modulus(arrays[0]), axis)
    if kind == "prod":
        return tolerance(want.dtype, 0, count), np.maximum(_modulus(want), smallest(want.dtype))
    return 0.0, want


def sum_rounding(
    op: str, attrs: Attrs, arrays: Sequence[Array], want: Array
) -> tuple[float, Array]:
    if attrs.get("mode") == "set":
        return 0.0, want
    moduli = list(arrays)
    moduli[0], moduli[-1] = (_modulus(x).astype("f8") for x in (arrays[0], arrays[-1]))
    scale = np.zeros(want.shape)
    LAWS[op](attrs, moduli, scale)
    return tolerance(want.dtype, 1 + arrays[-1].size, 1), scale


RUNNING = {
    "associative_scan": scan_rounding,
    **{op: partial(sum_rounding, op) for op in ("scatter", "scatter_along_axis", "fold")},
}


def dot_scale(attrs: Attrs, arrays: Sequence[Array]) -> tuple[Array, int]:
    """Sums of the moduli of a product's terms, and how many each adds."""
    equation = einsum_terms("dot_general", attrs, [x.ndim for x in arrays[:2]])
    assert equation is not None
    count = math.prod(arrays[0].shape[axis] for axis in attrs["contracting"][0])
    return einsum_oracle(*equation, [_modulus(x) for x in arrays[:2]], np.longdouble), count


def _modulus(x: Array) -> Array:
    return np.abs(x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble))


def _comparable(x: Array) -> Array:
    """NumPy's own comparisons do not know NaN of the dtypes of ml_dtypes."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x

"""What every op of the catalogue means, index by index, and calls of it to try."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from tests.cases import draw, lay_out
from tests.oracles import einsum_oracle, label_sizes, wrap
from tests.tolerance import assert_close, tolerance

from einloom.backend.catalogue import infer
from einloom.backend.spec import ArraySpec, dtype_from_name

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]
Shape = tuple[int, ...]

NOT_BROADCAST = ("C", "F", "transposed", "sliced", "reversed", "unaligned", "readonly")
LAYOUTS = (*NOT_BROADCAST, "broadcast")
OUT_LAYOUTS = ("C", "F", "transposed", "sliced", "reversed", "unaligned")


@dataclass(frozen=True, slots=True)
class Call:
    """One application of an op to operands of these shapes."""

    op: str
    attrs: Attrs
    shapes: tuple[Shape, ...]

    def __str__(self) -> str:
        """The name of the test."""
        attrs = ",".join(f"{name}={value}" for name, value in self.attrs.items())
        shapes = ",".join("x".join(map(str, shape)) or "()" for shape in self.shapes)
        return f"{self.op} {shapes} {attrs}".replace(" ", "")

    def specs(self, dtype: np.dtype) -> tuple[ArraySpec, ...]:
        return tuple(ArraySpec(dtype, shape) for shape in self.shapes)

    def output(self, dtype: np.dtype) -> ArraySpec:
        return infer(self.op, self.attrs, self.specs(dtype))


def dot(lhs: Shape, rhs: Shape, batch: Any = ((), ()), contracting: Any = ((), ())) -> Call:
    return Call("dot_general", {"batch": batch, "contracting": contracting}, (lhs, rhs))


def terms(output: str, *operands: tuple[str, Shape]) -> Call:
    """sum_product with letters for labels."""
    attrs = {
        "terms": tuple(tuple(map(ord, letters)) for letters, _ in operands),
        "output": tuple(map(ord, output)),
    }
    return Call("sum_product", attrs, tuple(shape for _, shape in operands))


DOTS = (
    dot((), ()),
    dot((), (2, 3)),
    dot((3,), (4,)),
    dot((3,), (3,), contracting=((0,), (0,))),
    dot((3,), (3,), batch=((0,), (0,))),
    dot((2, 3), (3, 4), contracting=((1,), (0,))),
    dot((3, 2), (4, 3), contracting=((0,), (1,))),
    dot((2, 3), (3,), contracting=((1,), (0,))),
    dot((3,), (3, 2), contracting=((0,), (0,))),
    dot((2, 3), (2, 3), contracting=((0, 1), (0, 1))),
    dot((2, 3), (3, 2), contracting=((1, 0), (0, 1))),
    dot((4, 2, 3), (4, 3, 2), ((0,), (0,)), ((2,), (1,))),
    dot((2, 4, 3), (3, 4, 2), ((1,), (1,)), ((2,), (0,))),
    dot((4, 3), (4, 3), ((0,), (0,)), ((1,), (1,))),
    dot((4, 3), (4, 2), ((0,), (0,))),
    dot((4, 3), (2, 4, 3), ((1, 0), (2, 1))),
    dot((2, 3, 2, 2), (2, 2, 3, 2), ((1, 3), (2, 0)), ((2,), (3,))),
    dot((1, 2, 3), (1, 3, 2), ((0,), (0,)), ((2,), (1,))),
    dot((2, 1), (1, 3), contracting=((1,), (0,))),
    dot((1, 1), (1, 1), ((0,), (0,)), ((1,), (1,))),
    dot((2, 0), (0, 3), contracting=((1,), (0,))),
    dot((0, 2), (2, 3), contracting=((1,), (0,))),
    dot((0, 2), (0, 3), ((0,), (0,))),
)

SUM_PRODUCTS = (
    terms("", ("", ())),
    terms("a", ("a", (3,))),
    terms("", ("ab", (2, 3))),
    terms("ba", ("ab", (2, 3)), ("b", (3,))),
    terms("a", ("ab", (2, 3)), ("b", (3,)), ("ab", (2, 3))),
    terms("abc", ("a", (2,)), ("b", (3,)), ("c", (2,))),
    terms("cb", ("ab", (2, 3)), ("ac", (2, 2)), ("a", (2,))),
    terms("", ("ab", (2, 3)), ("bc", (3, 2)), ("ca", (2, 2))),
    terms("db", ("abc", (2, 3, 2)), ("cd", (2, 4)), ("", ())),
    terms("c", ("ab", (2, 0)), ("bc", (0, 3))),
    terms("ab", ("ab", (2, 0)), ("a", (2,))),
)

CALLS = (
    *(
        Call("transpose", {"perm": perm}, (shape,))
        for perm, shape in (
            ((), ()),
            ((0,), (3,)),
            ((1, 0), (2, 3)),
            ((0, 1), (2, 3)),
            ((2, 0, 1), (2, 3, 4)),
            ((1, 0), (0, 3)),
        )
    ),
    *(
        Call("squeeze", {"axes": axes}, (shape,))
        for axes, shape in (
            ((), (2, 3)),
            ((0,), (1,)),
            ((2, 0), (1, 3, 1)),
            ((1,), (1, 1, 0)),
        )
    ),
    *(
        Call("expand_dims", {"axes": axes}, (shape,))
        for axes, shape in (((), ()), ((0, 1), ()), ((0, 2), (3,)), ((3, 1), (2, 3)), ((1,), (0,)))
    ),
    *(
        Call("broadcast_in_dim", {"shape": shape, "axes": axes}, (x,))
        for shape, axes, x in (
            ((), (), ()),
            ((2, 3), (), ()),
            ((2, 3), (1,), (3,)),
            ((2, 3), (0,), (2,)),
            ((2, 3, 2), (0, 2), (1, 2)),
            ((0, 3), (1,), (3,)),
            ((0,), (0,), (1,)),
        )
    ),
    *(
        Call("extract_diagonal", {"axes": axes}, (shape,))
        for axes, shape in (
            ((0, 1), (3, 3)),
            ((0, 2), (2, 3, 2)),
            ((1, 2), (2, 3, 3)),
            ((0, 1, 2), (2, 2, 2)),
            ((0, 2, 3), (2, 3, 2, 2)),
            ((0, 1), (0, 0)),
        )
    ),
    *(
        Call("embed_diagonal", {"axis": axis, "copies": copies}, (shape,))
        for axis, copies, shape in (
            (0, 1, (3,)),
            (0, 2, (2,)),
            (1, 1, (2, 3)),
            (0, 1, (3, 2)),
            (0, 1, (0, 2)),
        )
    ),
    *(Call(op, {}, (shape,)) for op in ("copy", "conj") for shape in ((), (4,), (2, 3, 2), (0, 2))),
    *(
        Call(op, {}, (shape, shape))
        for op in ("add", "multiply")
        for shape in ((), (4,), (2, 3, 2), (0, 2))
    ),
    *(
        Call("reduce_sum", {"axes": axes}, (shape,))
        for axes, shape in (
            ((), ()),
            ((), (2, 3)),
            ((0,), (5,)),
            ((1,), (2, 3)),
            ((2, 0), (2, 3, 2)),
            ((0, 1), (2, 3)),
            ((1,), (2, 0)),
            ((0,), (2, 0)),
        )
    ),
    *DOTS,
    *SUM_PRODUCTS,
)
"""Legal for every dtype; `convert` and `constant` depend on dtypes and have tables of their own."""


# ---- meanings ----------------------------------------------------------------------------------

Law = Callable[[Attrs, Sequence[Array], Array], None]
LAWS: dict[str, Law] = {}


def law(rule: Law) -> Law:
    """Every rule writes `out`, which starts as zeros, from the definition."""
    LAWS[rule.__name__] = rule
    return rule


def everywhere(x: Array) -> Iterator[Shape]:
    yield from np.ndindex(*x.shape)


@law
def transpose(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(arrays[0]):
        out[tuple(i[axis] for axis in attrs["perm"])] = arrays[0][i]


@law
def squeeze(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(arrays[0]):
        out[tuple(n for axis, n in enumerate(i) if axis not in attrs["axes"])] = arrays[0][i]


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
def convert(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(out):
        out[i] = np.asarray(arrays[0][i]).astype(out.dtype)[()]


@law
def copy(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(out):
        out[i] = arrays[0][i]


@law
def conj(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    for i in everywhere(out):
        x = arrays[0][i]
        out[i] = x.real - 1j * x.imag if out.dtype.kind == "c" else x


@law
def add(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    if out.dtype.kind in "biu":
        x, y = (array.astype(object) for array in arrays)
        out[...] = wrap(np.asarray(x + y, object), out.dtype)
        return
    for i in everywhere(out):
        out[i] = arrays[0][i] + arrays[1][i]


@law
def constant(attrs: Attrs, arrays: Sequence[Array], out: Array) -> None:
    out[()] = attrs["value"]


def einsum_terms(op: str, attrs: Attrs, ranks: Sequence[int]) -> tuple[list[Any], Any] | None:
    """Ops that are sums of products, as labels of operands and output."""
    if op == "multiply":
        return [tuple(range(rank)) for rank in ranks], tuple(range(ranks[0]))
    if op == "reduce_sum":
        labels = tuple(range(ranks[0]))
        return [labels], tuple(axis for axis in labels if axis not in attrs["axes"])
    if op == "sum_product":
        return list(attrs["terms"]), attrs["output"]
    if op != "dot_general":
        return None
    lhs: list[Hashable] = [("m", axis) for axis in range(ranks[0])]
    rhs: list[Hashable] = [("n", axis) for axis in range(ranks[1])]
    for role in ("batch", "contracting"):
        for k, (i, j) in enumerate(zip(*attrs[role], strict=True)):
            lhs[i] = rhs[j] = (role, k)
    batch = [("batch", k) for k in range(len(attrs["batch"][0]))]
    free = [label for label in (*lhs, *rhs) if label[0] in ("m", "n")]  # type: ignore[index]
    return [tuple(lhs), tuple(rhs)], (*batch, *free)


def meaning(op: str, attrs: Attrs, arrays: Sequence[Array], output: ArraySpec) -> Array:
    """What `op` yields, by its definition."""
    equation = einsum_terms(op, attrs, [x.ndim for x in arrays])
    if equation is not None:
        return einsum_oracle(*equation, arrays, output.dtype)
    out = np.zeros(output.shape, output.dtype)
    LAWS[op](attrs, arrays, out)
    return out


def assert_means(
    got: Any, op: str, attrs: Attrs, arrays: Sequence[Array], output: ArraySpec
) -> None:
    """Assert that `got` is what `op` yields: exactly, but for the rounding of sums of products."""
    assert type(got) is np.ndarray
    assert (got.dtype, got.shape) == (output.dtype, output.shape)
    want = meaning(op, attrs, arrays, output)
    equation = einsum_terms(op, attrs, [x.ndim for x in arrays])
    if equation is None or output.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    inputs, kept = equation
    sizes = label_sizes(inputs, [x.shape for x in arrays])
    count = prod(size for label, size in sizes.items() if label not in kept)
    scale = einsum_oracle(inputs, kept, [abs(x) for x in arrays], np.longdouble)
    assert_close(got, want, scale, tolerance(output.dtype, count, len(arrays), output.dtype))


# ---- operands ----------------------------------------------------------------------------------


def layouts_of(dtype: np.dtype, layouts: Sequence[str]) -> list[str]:
    """Those that memory of this dtype can have: Python objects are always aligned."""
    return [layout for layout in layouts if dtype.kind != "O" or layout != "unaligned"]


def values(
    rng: np.random.Generator, shape: Shape, dtype: np.dtype, to: np.dtype | None = None
) -> Array:
    """Numbers that use every bit of their dtype, or those few that all dtypes `to` have."""
    if dtype.kind == "O":
        return np.asarray(rng.integers(-9 if to is None else 0, 9, shape)).astype(object)
    return draw(rng, shape, dtype, dtype if to is None else to)


def operands(
    call: Call, dtype: str | np.dtype, layout: str, rng: np.random.Generator
) -> list[Array]:
    dtype = dtype_from_name(dtype) if isinstance(dtype, str) else dtype
    return [lay_out(values(rng, shape, dtype), layout, rng) for shape in call.shapes]


def junk(spec: ArraySpec, layout: str, rng: np.random.Generator) -> Array:
    """An `out` full of what must not survive."""
    fill = 77 if spec.dtype.kind in "biuO" else np.nan
    return lay_out(np.full(spec.shape, fill).astype(spec.dtype), layout, rng)

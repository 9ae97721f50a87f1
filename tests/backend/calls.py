"""Which calls of every op the tests try, for every dtype; and operands for them, in any layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.cases import draw, lay_out

from einloom.backend.catalogue import CATALOGUE, infer
from einloom.backend.dtypes import class_of
from einloom.backend.spec import ArraySpec, dtype_from_name

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
Attrs = dict[str, Any]
Shape = tuple[int, ...]

NOT_BROADCAST = ("C", "F", "transposed", "sliced", "reversed", "unaligned", "readonly")
LAYOUTS = (*NOT_BROADCAST, "broadcast")
OUT_LAYOUTS = ("C", "F", "transposed", "sliced", "reversed", "unaligned")

CELLS: dict[str, Callable[[Shape], bool]] = {  # what every op meets, and by which shapes
    "contiguous": lambda shape: 0 not in shape,
    "transposed": lambda shape: len(shape) == 2 and 0 not in shape,
    "sliced": lambda shape: len(shape) > 0 and 0 not in shape,
    "broadcast": lambda shape: len(shape) > 0 and 0 not in shape,
    "flipped": lambda shape: len(shape) > 0 and 0 not in shape,
    "permuted rank 3": lambda shape: len(shape) == 3 and 0 not in shape,
    "rank 5": lambda shape: len(shape) == 5,
    "scalar": lambda shape: shape == (),
    "empty": lambda shape: 0 in shape,
}


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

    def specs(self, dtype: DType) -> tuple[ArraySpec, ...]:
        """Of operands whose data have this dtype; predicates and indices keep their own."""
        row = CATALOGUE[self.op]
        last = len(row.operands) - 1
        return tuple(
            ArraySpec(_own_dtype(row.classes[min(k, last)]) or dtype, shape)
            for k, shape in enumerate(self.shapes)
        )

    def takes(self, dtype: DType) -> bool:
        """Whether data of this dtype may be operands."""
        return class_of(dtype) in CATALOGUE[self.op].takes(self.attrs)

    def outputs(self, dtype: DType) -> tuple[ArraySpec, ...]:
        return infer(self.op, self.attrs, self.specs(dtype))

    def output(self, dtype: DType) -> ArraySpec:
        return self.outputs(dtype)[0]


def _own_dtype(apart: Any) -> DType | None:
    if apart is None:
        return None
    return np.dtype(bool if "bool" in apart and "int" not in apart else np.int64)


def some_dtype(op: str) -> DType:
    """A dtype that the op takes: float64, else int64, else bool, else complex128."""
    kinds = CATALOGUE[op].dtypes
    names = (("float", "float64"), ("int", "int64"), ("bool", "bool"), ("complex", "complex128"))
    return np.dtype(next(name for kind, name in names if kind in kinds))


# ---- the table ----------------------------------------------------------------------------------


def dot(
    lhs: Shape, rhs: Shape, batch: Any = ((), ()), contracting: Any = ((), ()), **more: Any
) -> Call:
    return Call("dot_general", {"batch": batch, "contracting": contracting, **more}, (lhs, rhs))


def dot_add(call: Call, **more: Any) -> Call:
    """The same product, added to something."""
    attrs = {**call.attrs, **more}
    return Call("dot_general_add", attrs, (*call.shapes, call.output(np.dtype("f8")).shape))


def terms(output: str, *operands: tuple[str, Shape]) -> Call:
    """sum_product with letters for labels."""
    attrs = {
        "terms": tuple(tuple(map(ord, letters)) for letters, _ in operands),
        "output": tuple(map(ord, output)),
    }
    return Call("sum_product", attrs, tuple(shape for _, shape in operands))


def unary(op: str, names: str, *rows: tuple[Any, ...]) -> list[Call]:
    """Calls of an op of one operand: a row is the values of its attributes, then the shape."""
    return [Call(op, dict(zip(names.split(), row[:-1], strict=True)), (row[-1],)) for row in rows]


def folded(
    kernel: Shape, strides: Shape, dilation: Shape, low: Shape, high: Shape, shape: Shape
) -> Call:
    """The fold of what these windows are in an array of this shape."""
    attrs = {"kernel": kernel, "strides": strides, "dilation": dilation, "low": low, "high": high}
    columns = Call("unfold", attrs, (shape,)).output(np.dtype("f8")).shape
    return Call("fold", {"sizes": shape[len(shape) - len(kernel) :], **attrs}, (columns,))


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
    dot((2, 1, 2, 3, 2), (3, 2, 2), ((0,), (1,)), ((3, 4), (0, 2))),
    dot((1, 2, 3), (1, 3, 2), ((0,), (0,)), ((2,), (1,))),
    dot((2, 1), (1, 3), contracting=((1,), (0,))),
    dot((1, 1), (1, 1), ((0,), (0,)), ((1,), (1,))),
    dot((2, 0), (0, 3), contracting=((1,), (0,))),
    dot((0, 2), (2, 3), contracting=((1,), (0,))),
    dot((0, 2), (0, 3), ((0,), (0,))),
)

CONJUGATES = (  # every one of `conjugated` in backend/cpu/products.py
    dot((2, 3), (3, 4), contracting=((1,), (0,)), conj=(True, False)),
    dot((2, 3), (3, 4), contracting=((1,), (0,)), conj=(False, True)),
    dot((2, 3), (3, 4), contracting=((1,), (0,)), conj=(True, True)),
    dot((4, 3), (3,), contracting=((1,), (0,)), conj=(True, False)),
    dot((3,), (3, 4), contracting=((0,), (0,)), conj=(False, True)),
    dot((4, 2, 3), (4, 3, 2), ((0,), (0,)), ((2,), (1,)), conj=(True, False)),
    dot((2, 1, 2, 3, 2), (3, 2, 2), ((0,), (1,)), ((3, 4), (0, 2)), conj=(True, True)),
    dot((2, 0), (0, 3), contracting=((1,), (0,)), conj=(True, False)),
    dot((), (), conj=(True, True)),
)

ADDED = (
    *(dot_add(call) for call in DOTS),
    *(dot_add(call, alpha=2, beta=3) for call in CONJUGATES),
    *(
        dot_add(dot((2, 3), (3, 4), contracting=((1,), (0,))), **factors)
        for factors in (
            {"alpha": 2},
            {"beta": 2},
            {"beta": 0},
            {"alpha": 3, "beta": 0},
            {"alpha": 0},
            {"alpha": 0, "beta": 0},
            {"alpha": 2, "beta": 3},
        )
    ),
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
    terms("ea", ("abcde", (2, 1, 3, 2, 2)), ("cb", (3, 1))),
    terms("c", ("ab", (2, 0)), ("bc", (0, 3))),
    terms("ab", ("ab", (2, 0)), ("a", (2,))),
)

GATHERS = (  # the attributes in the order of the catalogue, then x and indices
    ((), (0,), (0,), 0, (1,), (3,), ()),
    ((1,), (0,), (0,), 1, (1, 3), (2, 3), (5, 1)),
    ((0,), (), (0,), 0, (2,), (5,), (1,)),
    ((1, 2), (), (1, 0), 0, (2, 3), (4, 5), (2, 3)),
    ((0, 2), (), (0, 1), 1, (2, 2), (4, 3), (3, 2)),
    ((0,), (1,), (1,), 2, (2, 1), (3, 4), (2, 2)),
    ((2,), (0, 2), (2, 0), 2, (1, 2, 1), (3, 4, 2), (2, 3, 2)),
    ((0, 1, 3), (), (1,), 2, (2, 1, 2), (2, 3, 2), (2, 1)),
    ((0, 1, 3), (0, 3), (3, 1, 4), 0, (1, 2, 1, 1, 2), (2, 3, 1, 4, 2), (3, 2)),
    ((0, 1), (), (), 1, (2, 2), (3, 4), (3, 0)),
    ((), (), (), 0, (), (), (0,)),
    ((1,), (0,), (0,), 1, (1, 0), (3, 0), (2, 1)),
    ((0, 1), (), (0, 1), 0, (0, 2), (0, 3), (2,)),
    ((1,), (0,), (0,), 1, (1, 3), (2, 3), (0, 1)),
)

SCATTERS = (  # the attributes in the order of the catalogue, then x, indices and updates
    ((), (0,), (0,), 0, (3,), (1,), ()),
    ((1,), (0,), (0,), 1, (2, 3), (5, 1), (5, 3)),
    ((0,), (), (0,), 0, (5,), (1,), (2,)),
    ((1, 2), (), (1, 0), 1, (4, 5), (3, 2), (3, 2, 3)),
    ((0, 2), (), (0, 1), 1, (4, 3), (3, 2), (2, 3, 2)),
    ((0,), (1,), (1,), 2, (3, 4), (2, 2), (2, 2, 2)),
    ((2,), (0, 2), (2, 0), 2, (3, 4, 2), (2, 3, 2), (2, 3, 2)),
    ((0, 1, 3), (), (1,), 2, (2, 3, 2), (2, 1), (2, 1, 2, 2, 1)),
    ((0, 1, 3), (0, 3), (3, 1, 4), 0, (2, 3, 1, 4, 2), (3, 2), (2, 1, 2, 2)),
    ((0, 1), (), (), 1, (3, 4), (3, 0), (2, 2, 3)),
    ((), (), (), 0, (), (0,), ()),
    ((1,), (0,), (0,), 1, (3, 0), (2, 1), (2, 0)),
    ((1,), (0,), (0,), 1, (2, 3), (0, 1), (0, 3)),
)

ALONG: tuple[tuple[int, Shape, Shape], ...] = (  # axis, x, indices
    (0, (4,), (6,)),
    (0, (3, 4), (5, 4)),
    (1, (3, 4), (3, 2)),
    (1, (2, 3, 2), (2, 4, 2)),
    (0, (3, 2, 2), (3, 2, 2)),
    (3, (2, 1, 2, 3, 2), (2, 1, 2, 5, 2)),
    (1, (2, 1), (2, 3)),
    (0, (3, 2), (0, 2)),
    (1, (0, 2), (0, 3)),
)

ORDERED: tuple[tuple[int, Shape], ...] = (
    (0, (6,)),
    (0, (5, 2)),
    (1, (2, 5)),
    (1, (2, 4, 2)),
    (3, (2, 1, 2, 4, 2)),
    (0, (1, 2)),
    (0, (0, 2)),
    (1, (0, 3)),
)

SLICES: tuple[tuple[Shape, Shape], ...] = (  # x, and a window of it
    ((), ()),
    ((5,), (2,)),
    ((3, 4), (2, 4)),
    ((3, 4, 2), (1, 2, 2)),
    ((2, 1, 3, 2, 2), (1, 1, 2, 2, 1)),
    ((3, 4), (0, 2)),
    ((0, 2), (0, 1)),
)

WINDOWS: tuple[tuple[Shape, Shape, Shape, Shape, Shape, Shape], ...] = (
    # kernel, strides, dilation, low, high, x
    ((2,), (1,), (1,), (0,), (0,), (5,)),
    ((3,), (2,), (1,), (1,), (0,), (2, 6)),
    ((2,), (1,), (3,), (1,), (2,), (2, 3)),
    ((2, 2), (1, 1), (1, 1), (0, 0), (0, 0), (3, 4)),
    ((2, 1), (2, 1), (1, 2), (1, 0), (0, 2), (2, 3, 2)),
    ((1, 3), (1, 3), (1, 1), (0, 1), (0, 1), (2, 1, 2, 2, 4)),
    ((2, 2, 1), (1, 2, 1), (1, 1, 1), (0, 1, 0), (1, 1, 0), (2, 2, 2)),
    ((2,), (1,), (1,), (0,), (0,), (0, 3)),
    ((2,), (1,), (1,), (1,), (1,), (2, 0)),
)

ELEMENTWISE_SHAPES: tuple[Shape, ...] = ((), (3, 4), (2, 3, 4), (2, 1, 3, 2, 2), (2, 0, 3))
COPIED: tuple[Shape, ...] = ((), (4,), (2, 3), (2, 3, 2), (2, 1, 2, 3, 2), (0, 2))
REDUCED: tuple[tuple[Any, Shape], ...] = (
    ((), ()),
    ((), (2, 3)),
    ((0,), (5,)),
    ((1,), (2, 3)),
    ((0,), (2, 3)),
    ((2, 0), (2, 3, 2)),
    ((1,), (2, 3, 2)),
    ((0, 1), (2, 3)),
    ((1, 4, 2), (2, 3, 1, 2, 2)),
    ((0,), (2, 0)),
)

CALLS: tuple[Call, ...] = (
    *(
        Call(op, {}, (shape,) * len(row.operands))
        for op, row in CATALOGUE.items()
        if row.group == "elementwise"
        for shape in ELEMENTWISE_SHAPES
    ),
    *unary(
        "reshape",
        "shape",
        ((), ()),
        ((1, 1), ()),
        ((), (1,)),
        ((6,), (2, 3)),
        ((3, 2), (2, 3)),
        ((2, 2, 3), (4, 3)),
        ((4, 3), (2, 2, 3)),
        ((6, 4), (2, 3, 1, 2, 2)),
        ((3, 0), (0, 2)),
    ),
    *unary(
        "transpose",
        "perm",
        ((), ()),
        ((0,), (3,)),
        ((1, 0), (2, 3)),
        ((0, 1), (2, 3)),
        ((2, 0, 1), (2, 3, 4)),
        ((4, 1, 3, 0, 2), (2, 3, 1, 2, 2)),
        ((1, 0), (0, 3)),
    ),
    *unary(
        "broadcast_in_dim",
        "shape axes",
        ((), (), ()),
        ((2, 3), (), ()),
        ((2, 3), (1,), (3,)),
        ((2, 3), (0,), (2,)),
        ((2, 3, 2), (0, 2), (1, 2)),
        ((2, 3, 2), (0, 1, 2), (2, 1, 2)),
        ((2, 2, 3, 1, 2, 2), (0, 2, 3, 4, 5), (2, 1, 1, 2, 2)),
        ((0, 3), (1,), (3,)),
        ((0,), (0,), (1,)),
        ((2, 0), (1,), (0,)),
    ),
    *unary(
        "slice",
        "starts stops steps",
        ((), (), (), ()),
        ((1,), (4,), (1,), (5,)),
        ((0,), (5,), (2,), (5,)),
        ((1, 0), (4, 4), (2, 3), (5, 4)),
        ((0, 1, 0), (2, 3, 4), (1, 1, 2), (2, 3, 4)),
        ((0, 1, 0, 0, 1), (2, 3, 1, 2, 2), (1, 2, 3, 1, 1), (2, 3, 1, 2, 2)),
        ((2, 2), (2, 3), (1, 1), (2, 3)),
        ((0, 0), (0, 3), (1, 2), (0, 3)),
    ),
    *unary(
        "reverse",
        "axes",
        ((), ()),
        ((), (3,)),
        ((0,), (4,)),
        ((1,), (2, 3)),
        ((0, 2), (2, 3, 4)),
        ((4, 1), (2, 3, 1, 2, 2)),
        ((0, 1), (0, 3)),
    ),
    *unary(
        "pad",
        "low high interior value",
        ((), (), (), 1, ()),
        ((1,), (2,), (0,), 0, (3,)),
        ((1,), (0,), (2,), 3, (3,)),
        ((-1, 2), (0, -1), (0, 0), 1, (3, 4)),
        ((-2, -3), (-1, 1), (1, 2), 1, (3, 4)),
        ((1, 0, -1), (0, 1, 2), (0, 1, 0), 1, (2, 3, 4)),
        ((0, 1, 0, 0, 2), (0, 0, 1, 0, 0), (1, 0, 0, 0, 0), 1, (2, 1, 1, 2, 2)),
        ((1,), (2,), (5,), 1, (0,)),
        ((1, -2), (1, -2), (0, 0), 1, (2, 4)),
        ((0, 0), (0, 2), (0, 0), 0, (2, 0)),
    ),
    *(
        Call("concatenate", {"axis": axis}, shapes)
        for axis, shapes in (
            (0, ((3,),)),
            (0, ((2,), (3,))),
            (1, ((2, 1), (2, 3), (2, 2))),
            (0, ((1, 3), (2, 3))),
            (1, ((2, 2, 2), (2, 1, 2))),
            (3, ((2, 1, 3, 1, 2), (2, 1, 3, 2, 2))),
            (0, ((0,), (3,), (0,))),
            (1, ((0, 2), (0, 3))),
        )
    ),
    *unary(
        "split",
        "axis sizes",
        (0, (3,), (3,)),
        (0, (2, 1, 0), (3,)),
        (1, (1, 2), (2, 3)),
        (1, (2, 1), (2, 3, 2)),
        (4, (1, 1), (2, 1, 3, 2, 2)),
        (0, (0, 0), (0, 3)),
    ),
    *unary(
        "squeeze",
        "axes",
        ((), ()),
        ((), (2, 3)),
        ((0,), (1,)),
        ((2, 0), (1, 3, 1)),
        ((3, 0), (1, 3, 2, 1, 2)),
        ((1,), (1, 1, 0)),
    ),
    *unary(
        "slice_at",
        "axis at",
        (0, 2, (3,)),
        (1, 0, (2, 3)),
        (2, 1, (2, 3, 2)),
        (4, 1, (2, 1, 3, 2, 2)),
        (0, 1, (2, 0)),
    ),
    *unary(
        "expand_dims",
        "axes",
        ((), ()),
        ((0, 1), ()),
        ((0, 2), (3,)),
        ((3, 1), (2, 3)),
        ((2,), (2, 3, 2)),
        ((0, 6), (2, 1, 3, 2, 2)),
        ((1,), (0,)),
    ),
    *unary(
        "extract_diagonal",
        "axes",
        ((0, 1), (3, 3)),
        ((0, 2), (2, 3, 2)),
        ((1, 2), (2, 3, 3)),
        ((0, 1, 2), (2, 2, 2)),
        ((0, 2, 3), (2, 3, 2, 2)),
        ((1, 4), (2, 3, 1, 2, 3)),
        ((0, 1), (0, 0)),
    ),
    *unary(
        "embed_diagonal",
        "axis copies",
        (0, 1, (3,)),
        (0, 2, (2,)),
        (1, 1, (2, 3)),
        (0, 1, (3, 2)),
        (1, 1, (2, 3, 2)),
        (3, 1, (2, 1, 2, 2, 2)),
        (0, 1, (0, 2)),
    ),
    *(
        call
        for op in ("tril", "triu")
        for call in unary(
            op,
            "k",
            (0, (3, 3)),
            (1, (2, 4)),
            (-1, (4, 2)),
            (-5, (2, 3)),
            (5, (2, 3)),
            (0, (2, 3, 3)),
            (1, (2, 1, 2, 3, 3)),
            (0, (2, 0)),
            (0, (0, 2, 2)),
        )
    ),
    *(Call(op, {}, (shape,)) for op in ("copy", "contiguous") for shape in COPIED),
    *(
        call
        for op in ("reduce_sum", "reduce_prod", "reduce_mean")
        for call in unary(op, "axes", *REDUCED, ((1,), (2, 0)), ((0, 1), (2, 0)))
    ),
    *(
        call
        for op in ("reduce_max", "reduce_min")
        for call in unary(
            op,
            "axes initial",
            *((axes, None, shape) for axes, shape in REDUCED),
            ((0,), 1, (4,)),
            ((1,), 0, (2, 3)),
            ((), 1, ()),
            ((1,), 1, (2, 0)),
            ((0, 1), 0, (2, 0)),
            ((0,), 1, (2, 0)),
        )
    ),
    *(
        call
        for op in ("argmax", "argmin")
        for call in unary(
            op,
            "axis",
            (0, (5,)),
            (0, (1,)),
            (1, (3, 4)),
            (0, (3, 4)),
            (1, (2, 3, 2)),
            (0, (3, 2, 2)),
            (3, (2, 1, 3, 2, 2)),
            (0, (2, 0)),
        )
    ),
    *(
        Call(op, {}, (shape, *others))
        for op, others in (("normal_exponent", ()), ("ldexp", ((),)))
        for shape in COPIED
    ),
    *DOTS,
    *CONJUGATES,
    *ADDED,
    *(
        Call("matmul", {}, shapes)
        for shapes in (
            ((2, 3), (3, 4)),
            ((1, 1), (1, 1)),
            ((2, 1), (1, 3)),
            ((2, 2, 3), (2, 3, 2)),
            ((2, 1, 2, 2, 3), (2, 1, 2, 3, 1)),
            ((2, 0), (0, 3)),
            ((0, 2, 3), (0, 3, 2)),
        )
    ),
    *SUM_PRODUCTS,
    *(
        Call(op, dict(zip(CATALOGUE[op].attributes, row, strict=False)), row[-2:])
        for op in ("gather", "gather_dynamic_slice_sizes")
        for row in GATHERS
    ),
    *(
        Call(op, {"axis": axis}, (shape, *others))
        for op, others in (("shape_of", ()), ("dynamic_truncate", ((),)))
        for axis, shape in (
            (0, (3,)),
            (1, (2, 3)),
            (0, (5, 2)),
            (1, (2, 3, 2)),
            (4, (2, 1, 3, 2, 2)),
            (1, (2, 0)),
        )
    ),
    *(
        Call("pad_to_match", {"axis": axis}, shapes)
        for axis, shapes in (
            (0, ((3,), (5,))),
            (0, ((3,), (2,))),
            (1, ((2, 3), (2, 5))),
            (0, ((2, 3), (4,))),
            (1, ((2, 3, 2), (1, 4))),
            (0, ((2, 1, 3, 2, 2), (3, 1, 1))),
            (0, ((0, 2), (3,))),
            (1, ((2, 0), (2, 0))),
        )
    ),
    *unary(
        "associative_scan",
        "axis kind",
        *((axis, kind, shape) for axis, shape in ORDERED for kind in ("sum", "prod", "max", "min")),
    ),
    *(
        Call(op, {"axis": axis, "descending": falling}, (shape,))
        for op in ("sort", "argsort")
        for axis, shape in ORDERED
        for falling in (False, True)
    ),
    *(
        Call("take", {"axis": axis}, shapes)
        for axis, shapes in (
            (0, ((3,), ())),
            (0, ((3,), (5,))),
            (0, ((3, 4), (2,))),
            (1, ((3, 4), (2, 3))),
            (1, ((2, 3, 2), (4,))),
            (2, ((2, 3, 4), (2,))),
            (3, ((2, 1, 2, 3, 2), (2, 2))),
            (0, ((2, 3), (0,))),
            (1, ((0, 2), (3,))),
            (0, ((2, 0), (3,))),
        )
    ),
    *(Call("take_along_axis", {"axis": axis}, (shape, indices)) for axis, shape, indices in ALONG),
    *(
        Call(
            "scatter_along_axis",
            {"axis": axis, "mode": mode, "unique_indices": False},
            (shape, indices, indices),
        )
        for axis, shape, indices in ALONG
        for mode in ("set", "add")
    ),
    *(
        Call("scatter", dict(zip(CATALOGUE["scatter"].attributes, row[:4], strict=True)), row[4:])
        for row in SCATTERS
    ),
    *(Call("dynamic_slice", {"sizes": sizes}, (shape, (len(shape),))) for shape, sizes in SLICES),
    *(Call("dynamic_update_slice", {}, (shape, sizes, (len(shape),))) for shape, sizes in SLICES),
    *unary("unfold", "kernel strides dilation low high", *WINDOWS),
    *(folded(*row) for row in WINDOWS),
    *(
        Call("threefry2x32", {}, (shape, shape))
        for shape in (
            (2,),
            (3, 2),
            (2, 3, 2),
            (2, 1, 2, 3, 2),
            (0, 2),
        )
    ),
    *(
        Call(op, attrs, (shape,))
        for op in ("fft", "ifft", "rfft")
        for attrs, shape in (
            ({"axes": (0,)}, (3,)),
            ({"axes": (1,)}, (2, 5)),
            ({"axes": (0,), "scale": 0.5}, (4, 3)),
            ({"axes": (1, 0), "scale": 1 / 8}, (4, 2)),
            ({"axes": (2, 0)}, (3, 2, 4)),
            ({"axes": (1,)}, (2, 1, 3)),
            ({"axes": (4, 2), "scale": 0.75}, (2, 1, 3, 2, 2)),
            ({"axes": (1,)}, (0, 4)),
            ({"axes": (0,)}, (0, 2)),
        )
    ),
    *(Call(op, {"axes": ()}, (shape,)) for op in ("fft", "ifft") for shape in ((), (2, 3))),
    *(
        Call("irfft", {"axes": axes, "n": n} | scale, (shape,))
        for axes, n, scale, shape in (
            ((0,), 4, {}, (3,)),
            ((1,), 5, {}, (2, 3)),
            ((0,), 4, {"scale": 0.25}, (3, 2)),
            ((1, 0), 6, {"scale": 1 / 16}, (4, 3)),
            ((0, 2), 7, {}, (3, 2, 4)),
            ((4, 2), 5, {"scale": 0.5}, (2, 1, 3, 2, 2)),
            ((1,), 1, {}, (0, 1)),
        )
    ),
)
"""Legal for every dtype; `convert`, `cast` and `constant` have tables of their own."""

OF_THEIR_OWN = frozenset(("convert", "cast", "constant"))


def calls(op: str) -> list[Call]:
    return [call for call in CALLS if call.op == op]


def legal(op: str, dtype: DType) -> list[Call]:
    """Those that may have data of this dtype."""
    return [call for call in calls(op) if call.takes(dtype)]


# ---- operands -----------------------------------------------------------------------------------

INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    -3,
    7,
)  # and the ends of the dtype: where division and power are special


def layouts_of(dtype: DType, layouts: Sequence[str]) -> list[str]:
    """Those that memory of this dtype can have: Python objects are always aligned."""
    return [layout for layout in layouts if dtype.kind != "O" or layout != "unaligned"]


def values(rng: np.random.Generator, shape: Shape, dtype: DType, to: DType | None = None) -> Array:
    """Numbers that use every bit of their dtype, or those few that all dtypes `to` have."""
    if dtype.kind == "O":
        return np.asarray(rng.integers(-9 if to is None else 0, 9, shape)).astype(object)
    if class_of(dtype) == "storage":
        low = 0 if "uint" in dtype.name or to is not None else -8
        return np.asarray(rng.integers(low, 8, shape)).astype(dtype)
    return draw(rng, shape, dtype, dtype if to is None else to)


def special_integers(rng: np.random.Generator, x: Array) -> Array:
    """x with some of its integers replaced by those at which ops have rules of their own."""
    if x.dtype.kind not in "iu":
        return x
    info = np.iinfo(x.dtype)
    pool = [n for n in (*INTEGERS, info.min, info.max) if info.min <= n <= info.max]
    drawn = np.array(pool, x.dtype)[rng.integers(0, len(pool), x.shape)]
    return np.where(rng.random(x.shape) < 0.5, drawn, x)


CLAMPED = {
    **dict.fromkeys(("gather", "gather_dynamic_slice_sizes", "scatter", "dynamic_slice"), 1),
    "dynamic_update_slice": 2,
}
"""Ops whose indices may be any, and which operand they are."""

WRAPPED = ("take", "take_along_axis", "scatter_along_axis")


def operands(
    call: Call, dtype: str | DType, layout: str | Sequence[str], rng: np.random.Generator
) -> list[Array]:
    """Fresh operands of a call, all laid out so or each in its own way."""
    dtype = dtype_from_name(dtype) if isinstance(dtype, str) else dtype
    elementwise = CATALOGUE[call.op].group == "elementwise"
    layouts = [layout] * len(call.shapes) if isinstance(layout, str) else layout
    arrays = []
    for position, spec in enumerate(call.specs(dtype)):
        x = values(rng, spec.shape, spec.dtype)
        if elementwise:
            x = special_integers(rng, x)
        if dtype.kind == "O" and position == 1:
            if call.op == "divide":  # Python's own integers raise where others give 0 or infinity
                x = np.asarray(x + 10, object)
            if call.op == "power":  # and turn into floats
                x = np.asarray(abs(x), object)
        if call.op == "dynamic_truncate" and position == 1:  # none, some, all and more
            x = rng.integers(-1, arrays[0].shape[call.attrs["axis"]] + 2, ())
        if call.op == "ldexp" and position == 1:
            x = rng.integers(-3, 4, ())
        if (
            call.op in CLAMPED and position == CLAMPED[call.op]
        ):  # before the operand, in it and behind
            x = rng.integers(-2, max(arrays[0].shape, default=0) + 2, spec.shape)
        if call.op in WRAPPED and position == 1:
            n = arrays[0].shape[call.attrs["axis"]]
            x = rng.integers(-n, max(n, 1), spec.shape)
        arrays.append(lay_out(x, layouts[position], rng))
    return arrays


def junk(spec: ArraySpec, layout: str, rng: np.random.Generator) -> Array:
    """An `out` full of what must not survive."""
    fill: Any = np.nan
    if class_of(spec.dtype) in ("bool", "int", "uint", "object") or "int" in spec.dtype.name:
        fill = 5
    return lay_out(np.full(spec.shape, fill).astype(spec.dtype), layout, rng)


def arrangements(call: Call, dtype: DType) -> Iterator[tuple[str, ...]]:
    """Layouts of the operands with which to try a call: the same for all, and mixed ones."""
    count, shape = len(call.shapes), max(call.shapes, key=len)
    names = layouts_of(dtype, LAYOUTS)
    if shape == ():
        names = ["C", "readonly"]
    elif 0 in shape or (CATALOGUE[call.op].group == "elementwise" and len(shape) != 2):
        names = ["C", "transposed"]
    for k, name in enumerate(names):
        yield (name,) * count
        if count > 1:
            yield tuple(names[(k + 3 * position) % len(names)] for position in range(count))


def missing_cells(op: str) -> set[str]:
    """Cells that no call of an op in the table fills."""
    shapes = [max(call.shapes, key=len) for call in calls(op)]
    return {cell for cell, fits in CELLS.items() if not any(map(fits, shapes))}

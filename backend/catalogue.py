"""The op catalogue: one row per op, from which checks, inference and documentation are derived.

A row names the operands and attributes of an op, the dtypes it takes and yields, the rule of its
shapes and its law in one line; the last string says which reference document asks for it, and under
which name (nx; onnx; tf, tenferro). `infer` is the only check of dtypes and shapes.

Operands share one dtype, but for those with a class behind a colon ("pred:bool", "starts:index"); an op
that mixes takes a real operand beside a complex one of the same precision, as it is.
An attribute may have a default, with which it is left out of programs.
Conventions are row-major: `dot_general` returns [batch..., lhs free..., rhs free...], as StableHLO.
A reduction drops its axes (`expand_dims` brings them back). Session ops are silent: no warning is
given for overflow, division by zero or NaN, since a kernel of several threads has nobody to warn. A
matrix product may warn as numpy.dot does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from .._base.errors import DTypeError, EinloomError, ProgramError
from . import rules
from .dtypes import (
    ANY,
    COMPLEX,
    FLOAT,
    FLOATING,
    INEXACT,
    NUMBERS,
    OPERAND_CLASSES,
    ORDERED,
    REAL,
    SIGNED_OR_NOT,
    WHOLE,
    WORDS,
    DType,
    Policy,
    Result,
    check_convert,
    check_number,
    check_target,
    class_of,
    mixed,
    result_dtype,
)
from .rules import Attrs, DotDims, Shapes, dot_dims, known_dims
from .spec import ArraySpec, Shape, dtype_from_name

__all__ = ["CATALOGUE", "Attrs", "DotDims", "OpRow", "dot_dims", "infer", "known_dims", "row_of"]

Category = Literal["session", "boundary", "host", "extension"]
View = Literal["never", "maybe", "always"]
ShapeRule = Callable[[Attrs, Shapes], Shape | list[Shape]]


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op: its operands, attributes, dtypes, shapes and law."""

    name: str
    group: str
    operands: tuple[str, ...]  # names; "*name" takes any number
    classes: tuple[Policy | None, ...]  # of operands that stand apart; None: one of the data
    attributes: tuple[str, ...]
    defaults: Mapping[str, Any]  # of attributes that may be left out
    category: Category
    dtypes: Policy  # classes of dtypes that the data operands may have
    results: tuple[Result, ...]  # of each output; one serves any number
    shape: ShapeRule
    law: str
    view: View = "never"  # whether the output shares the operand's memory
    asked: str = ""
    mixes: bool = False  # whether one of two operands may be real and the other complex
    over: str = "acc"  # the operand that the output may be written over
    narrower: tuple[tuple[str, str, Policy], ...] = ()  # dtypes where an attribute has this value

    def takes(self, attrs: Attrs) -> Policy:
        """The classes of dtypes that the data operands may have, with these attributes."""
        found = (allowed for name, value, allowed in self.narrower if attrs[name] == value)
        return next(found, self.dtypes)

    @property
    def is_view(self) -> bool:
        return self.view == "always"

    @property
    def is_variadic(self) -> bool:
        return bool(self.operands) and self.operands[-1].startswith("*")

    def writes_over(self, position: int) -> bool:
        """Whether the output may lie exactly where this operand does: each of its elements is read no
        later than that of the output is written."""
        at = min(position, len(self.operands) - 1)
        return self.group == "elementwise" or self.operands[at] == self.over


CATALOGUE: dict[str, OpRow] = {}
GATHERS = ("gather", "gather_dynamic_slice_sizes")


def row_of(op: str) -> OpRow:
    """The catalogue row of `op`."""
    try:
        return CATALOGUE[op]
    except (KeyError, TypeError):  # or op cannot be hashed
        raise ProgramError(f"unknown op {op!r}; the catalogue has {', '.join(CATALOGUE)}") from None


def infer(op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> tuple[ArraySpec, ...]:
    """Dtypes and shapes of the outputs of `op`, after checking operands and attributes.

    >>> import numpy as np
    >>> x = ArraySpec(np.dtype("int8"), (2, 5))
    >>> print(*infer("transpose", {"perm": (1, 0)}, (x,)))
    int8[5,2]
    >>> print(*infer("split", {"axis": 1, "sizes": (2, 3)}, (x,)))
    int8[2,2] int8[2,3]
    """
    row = row_of(op)
    if len(inputs) != len(row.operands) and not (row.is_variadic and len(inputs) >= 1):
        raise ProgramError(f"{op} takes operands ({', '.join(row.operands)}), got {len(inputs)}")
    rules.check_attrs(op, attrs)
    if set(attrs) | set(row.defaults) != set(row.attributes):
        raise ProgramError(
            f"{op} takes attributes ({', '.join(row.attributes)}), got ({', '.join(map(str, attrs))})"
        )
    attrs = {**row.defaults, **attrs}
    try:
        data = _data_dtype(row, attrs, inputs)
        shapes = row.shape(attrs, tuple(x.shape for x in inputs))
        several = shapes if isinstance(shapes, list) else [shapes]
        results = row.results if len(row.results) > 1 else row.results * len(several)
        return tuple(
            ArraySpec(_checked_result(op, result, data, attrs), shape)
            for result, shape in zip(results, several, strict=True)
        )
    except DTypeError:
        raise
    except EinloomError as error:
        text = str(error)
        raise type(error)(text if op in text else f"{op}: {text}") from None
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise ProgramError(f"{op}: attributes {attrs} are malformed ({error})") from None


def _data_dtype(row: OpRow, attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> DType | None:
    """The common dtype of the data operands, checked against the row's policy."""
    data: ArraySpec | None = None
    takes = row.takes(attrs)
    for position, spec in enumerate(inputs):
        at = min(position, len(row.operands) - 1)
        apart = row.classes[at]
        allowed = takes if apart is None else apart
        if class_of(spec.dtype) not in allowed:
            raise DTypeError(
                f"{row.name}: operand {row.operands[at].lstrip('*')} is {spec}; it takes "
                f"{', '.join(sorted(allowed))}"
            )
        if apart is not None:
            continue
        if data is not None and row.mixes and mixed(data.dtype, spec.dtype):
            data = spec if spec.dtype.kind == "c" else data
            continue
        if data is not None and spec.dtype != data.dtype:
            raise DTypeError(
                f"{row.name}: dtypes of {_told(data)} and {_told(spec)} differ; convert one first"
            )
        data = data or spec
    return None if data is None else data.dtype


def _told(spec: ArraySpec) -> str:
    return f"{spec}{'' if spec.dtype.isnative else ' of foreign byte order'}"


def _checked_result(op: str, result: Result, data: DType | None, attrs: Attrs) -> DType:
    if result == "attribute":
        dtype = dtype_from_name(attrs["dtype"])
        if op in ("convert", "cast") and data is not None:
            check_target(op, data, dtype)
        if op == "convert" and data is not None:
            check_convert(data, dtype)
    else:
        assert data is not None, "only constants have no operands"
        dtype = result_dtype(result, data)
    if "value" in attrs:
        check_number(op, "value", attrs["value"], dtype)
    for name in ("initial", "alpha", "beta"):
        if name in attrs and not (name == "initial" and attrs[name] is None):
            check_number(op, name, attrs[name], dtype, whole=True)
    return dtype


# ---- the table --------------------------------------------------------------------------------


def _op(
    name: str,
    operands: str,
    attributes: str,
    dtypes: Policy,
    results: str,
    shape: ShapeRule,
    law: str,
    asked: str = "",
    *,
    view: View = "never",
    category: Category = "session",
    mixes: bool = False,
    over: str = "acc",
    narrower: tuple[tuple[str, str, Policy], ...] = (),
    **defaults: Any,
) -> None:
    """Add a row; `_GROUP` is the heading it stands under."""
    pairs = [operand.partition(":") for operand in operands.split()]
    CATALOGUE[name] = OpRow(
        name,
        _GROUP[-1],
        tuple(operand for operand, _, _ in pairs),
        tuple(OPERAND_CLASSES.get(apart) for _, _, apart in pairs),
        (*attributes.split(), *defaults),
        MappingProxyType(defaults),
        category,
        dtypes,
        tuple(results.split()),  # type: ignore[arg-type]
        shape,
        law,
        view,
        asked,
        mixes,
        over,
        narrower,
    )


_GROUP = [""]
_GATHER = "offset_dims collapsed_slice_dims start_index_map index_vector_dim slice_sizes"
_SCATTER = "update_window_dims inserted_window_dims scatter_dims_to_operand_dims index_vector_dim"
# fmt: off

_GROUP.append("elementwise")
_op("add", "x y", "", NUMBERS, "same", rules.same,
    "out = x + y; integers wrap, or for bool", "nx add, onnx Add, tf Add")
_op("subtract", "x y", "", SIGNED_OR_NOT, "same", rules.same,
    "out = x - y; integers wrap", "nx sub, onnx Sub")
_op("multiply", "x y", "", NUMBERS, "same", rules.same,
    "out = x * y; integers wrap, and for bool", "nx mul, onnx Mul, tf Mul")
_op("divide", "x y", "", SIGNED_OR_NOT, "same", rules.same,
    "out = x / y; integers truncate toward zero, x / 0 = 0", "nx div, onnx Div, tf Div")
_op("remainder", "x y", "", REAL, "same", rules.same,
    "out = x - y * trunc(x / y), the sign of x; integers: x % 0 = 0", "nx mod_")
_op("power", "x y", "", SIGNED_OR_NOT, "same", rules.same,
    "out = x ** y; integers wrap, a negative exponent gives 0 unless x is 1 or -1",
    "nx pow, onnx Pow, tf Pow")
_op("maximum", "x y", "", ORDERED, "same", rules.same,
    "out = max(x, y), NaN if either is; or for bool", "nx max, tf Maximum")
_op("minimum", "x y", "", ORDERED, "same", rules.same,
    "out = min(x, y), NaN if either is; and for bool", "nx min, tf Minimum")
_op("atan2", "y x", "", FLOAT, "same", rules.same,
    "out = angle of the point (x, y) in [-pi, pi]", "nx atan2")
_op("bitwise_and", "x y", "", WHOLE, "same", rules.same,
    "out = x & y", "nx and_")
_op("bitwise_or", "x y", "", WHOLE, "same", rules.same,
    "out = x | y", "nx or_")
_op("bitwise_xor", "x y", "", WHOLE, "same", rules.same,
    "out = x ^ y", "nx xor")
_op("equal", "x y", "", NUMBERS, "bool", rules.same,
    "out = x == y", "nx cmpeq, onnx Equal, tf Compare Eq")
_op("not_equal", "x y", "", NUMBERS, "bool", rules.same,
    "out = x != y; NaN differs from all", "nx cmpne")
_op("less", "x y", "", ORDERED, "bool", rules.same,
    "out = x < y", "nx cmplt, onnx Less, tf Compare Lt")
_op("less_equal", "x y", "", ORDERED, "bool", rules.same,
    "out = x <= y", "nx cmple, tf Compare Le")
_op("greater", "x y", "", ORDERED, "bool", rules.same,
    "out = x > y", "onnx Greater, tf Compare Gt")
_op("greater_equal", "x y", "", ORDERED, "bool", rules.same,
    "out = x >= y", "tf Compare Ge")
_op("select", "pred:bool x y", "", ANY, "same", rules.same,
    "out = x where pred, else y", "nx where, onnx Where, tf Select")
_op("clamp", "x low high", "", ORDERED, "same", rules.same,
    "out = minimum(maximum(x, low), high); NaN if any is", "onnx Clip, tf Clamp")
_op("identity", "x", "", ANY, "same", rules.same,
    "out = x", "onnx Identity", view="always")
_op("negate", "x", "", SIGNED_OR_NOT, "same", rules.same,
    "out = -x; integers wrap", "nx neg, onnx Neg, tf Neg")
_op("reciprocal", "x", "", SIGNED_OR_NOT, "same", rules.same,
    "out = 1 / x; integers truncate, 1 / 0 = 0", "nx recip, onnx Reciprocal")
_op("absolute", "x", "", SIGNED_OR_NOT, "real", rules.same,
    "out = modulus of x, real; integers wrap", "nx abs, onnx Abs, tf Abs")
_op("sign", "x", "", SIGNED_OR_NOT, "same", rules.same,
    "out = x / modulus of x; 0 at 0, NaN at NaN", "nx sign, tf Sign")
_op("conj", "x", "", ANY, "same", rules.same,
    "out = conjugate of x; of a real x, a copy", "tf Conj")
_op("real", "x", "", NUMBERS, "real", rules.same,
    "out = real part of x")
_op("imag", "x", "", NUMBERS, "real", rules.same,
    "out = imaginary part of x; 0 for a real x")
_op("sqrt", "x", "", INEXACT, "same", rules.same,
    "out = square root of x", "nx sqrt, onnx Sqrt, tf Sqrt")
_op("rsqrt", "x", "", FLOATING, "same", rules.same,
    "out = 1 / sqrt(x)", "tf Rsqrt")
_op("exp", "x", "", FLOATING, "same", rules.same,
    "out = e ** x", "nx exp, onnx Exp, tf Exp")
_op("expm1", "x", "", FLOATING, "same", rules.same,
    "out = e ** x - 1, exact near 0", "tf Expm1")
_op("log", "x", "", FLOATING, "same", rules.same,
    "out = natural logarithm of x", "nx log, onnx Log, tf Log")
_op("log1p", "x", "", FLOATING, "same", rules.same,
    "out = log(1 + x), exact near 0", "tf Log1p")
_op("sin", "x", "", FLOATING, "same", rules.same,
    "out = sine of x in radians", "nx sin, tf Sin")
_op("cos", "x", "", FLOATING, "same", rules.same,
    "out = cosine of x in radians", "nx cos, tf Cos")
_op("tan", "x", "", FLOATING, "same", rules.same,
    "out = tangent of x in radians", "nx tan")
_op("asin", "x", "", FLOATING, "same", rules.same,
    "out = arc sine of x", "nx asin")
_op("acos", "x", "", FLOATING, "same", rules.same,
    "out = arc cosine of x", "nx acos")
_op("atan", "x", "", FLOATING, "same", rules.same,
    "out = arc tangent of x", "nx atan")
_op("sinh", "x", "", FLOATING, "same", rules.same,
    "out = hyperbolic sine of x", "nx sinh")
_op("cosh", "x", "", FLOATING, "same", rules.same,
    "out = hyperbolic cosine of x", "nx cosh")
_op("tanh", "x", "", FLOATING, "same", rules.same,
    "out = hyperbolic tangent of x", "nx tanh, onnx Tanh, tf Tanh")
_op("erf", "x", "", FLOAT, "same", rules.same,
    "out = 2 / sqrt(pi) * integral of exp(-t*t) from 0 to x", "nx erf")
_op("floor", "x", "", REAL, "same", rules.same,
    "out = largest integer <= x", "nx floor")
_op("ceil", "x", "", REAL, "same", rules.same,
    "out = smallest integer >= x", "nx ceil")
_op("trunc", "x", "", REAL, "same", rules.same,
    "out = x rounded toward zero", "nx trunc")
_op("round", "x", "", REAL, "same", rules.same,
    "out = nearest integer, half to even")
_op("round_half_away", "x", "", REAL, "same", rules.same,
    "out = nearest integer, half away from zero", "nx round")
_op("bitwise_not", "x", "", WHOLE, "same", rules.same,
    "out = ~x; not for bool")

_GROUP.append("structural")
_op("reshape", "x", "shape", ANY, "same", rules.reshape,
    "the elements in row-major order under another shape; a view where strides allow",
    "nx reshape, onnx Reshape, tf Reshape", view="maybe")
_op("transpose", "x", "perm", ANY, "same", rules.transpose,
    "out[i_perm] = x[i]: axis k is axis perm[k]",
    "nx permute, onnx Transpose, tf Transpose", view="always")
_op("broadcast_in_dim", "x", "shape axes", ANY, "same", rules.broadcast_in_dim,
    "axis k of x becomes axis axes[k] of out; the others repeat x",
    "nx expand, onnx Expand, tf BroadcastInDim", view="always")
_op("slice", "x", "starts stops steps", ANY, "same", rules.slice_,
    "out[i] = x[starts + i * steps], up to stops", "nx shrink, onnx Slice, tf Slice", view="always")
_op("slice_at", "x", "axis at", ANY, "same", rules.slice_at,
    "one position of an axis, which goes; `at` may be a static index", "ocannl static indices",
    view="always")
_op("reverse", "x", "axes", ANY, "same", rules.reverse,
    "out[.., i, ..] = x[.., n-1-i, ..] along axes", "nx flip, tf Reverse", view="always")
_op("pad", "x", "low high interior value", ANY, "same", rules.pad,
    "value around x and, interior of them, between its elements; low, high < 0 crop", "nx pad, tf Pad")
_op("concatenate", "*x", "axis", ANY, "same", rules.concatenate,
    "the operands one after another along axis", "nx cat, onnx Concat, tf Concatenate")
_op("split", "x", "axis sizes", ANY, "same", rules.split,
    "consecutive pieces of these sizes along axis", "onnx Split", view="always")
_op("squeeze", "x", "axes", ANY, "same", rules.squeeze,
    "drops axes of size 1", "onnx Squeeze", view="always")
_op("expand_dims", "x", "axes", ANY, "same", rules.expand_dims,
    "inserts axes of size 1 at `axes` of out", "onnx Unsqueeze", view="always")
_op("extract_diagonal", "x", "axes", ANY, "same", rules.extract_diagonal,
    "out[.., i, ..] = x[.., i, .., i, ..]: the axes become one, in place of the first",
    "tf ExtractDiag", view="always")
_op("embed_diagonal", "x", "axis copies", ANY, "same", rules.embed_diagonal,
    "out[.., i, .., i] = x[.., i, ..], zero elsewhere: `copies` further axes go last", "tf EmbedDiag")
_op("tril", "x", "k", ANY, "same", rules.triangle,
    "x on and below diagonal k of the last two axes, zero above", "tf Tril")
_op("triu", "x", "k", ANY, "same", rules.triangle,
    "x on and above diagonal k of the last two axes, zero below", "tf Triu")
_op("convert", "x", "dtype", ANY, "attribute", rules.same,
    "out = x in a dtype that NumPy's promotion takes it to", "tf Convert")
_op("cast", "x", "dtype", ANY - {"other"}, "attribute", rules.same,
    "out = x in any dtype: floats and objects saturate to integers, NaN to 0; integers wrap; "
    "complex keeps its real part",
    "nx cast, onnx Cast")
_op("copy", "x", "", ANY, "same", rules.same,
    "out = x in fresh, row-major memory", "nx copy")
_op("contiguous", "x", "", ANY, "same", rules.same,
    "out = x in row-major memory; x itself if it is", "nx contiguous", view="maybe")

_GROUP.append("reductions")
_op("reduce_sum", "x", "axes", NUMBERS, "same", rules.reduce,
    "out = sum of x over axes, accumulated wide; integers wrap, or for bool",
    "nx reduce_sum, onnx ReduceSum, tf ReduceSum")
_op("reduce_prod", "x", "axes", NUMBERS, "same", rules.reduce,
    "out = product of x over axes, accumulated wide; integers wrap, and for bool",
    "nx reduce_prod, tf ReduceProd")
_op("reduce_max", "x", "axes initial", ORDERED, "same", rules.reduce_ordered,
    "out = largest of x over axes and initial; NaN if any is",
    "nx reduce_max, onnx ReduceMax, tf ReduceMax")
_op("reduce_min", "x", "axes initial", ORDERED, "same", rules.reduce_ordered,
    "out = smallest of x over axes and initial; NaN if any is", "nx reduce_min, tf ReduceMin")
_op("reduce_mean", "x", "axes", FLOATING, "same", rules.reduce,
    "out = mean of x over axes, accumulated wide; NaN of nothing", "onnx ReduceMean")
_op("argmax", "x", "axis", ORDERED, "index", rules.argument,
    "out = index of the first largest element along axis, of the first NaN if any",
    "nx argmax, onnx ArgMax")
_op("argmin", "x", "axis", ORDERED, "index", rules.argument,
    "out = index of the first smallest element along axis, of the first NaN if any", "nx argmin")
_op("associative_scan", "x", "axis kind", NUMBERS, "same", rules.scan,
    "out[i] = sum, prod, max or min of x[0..i] along axis", "nx associative_scan",
    narrower=(("kind", "max", ORDERED), ("kind", "min", ORDERED)))

_GROUP.append("scaling")
_op("normal_exponent", "x", "", FLOATING, "index", rules.scalar,
    "out = k with 1/2 <= 2**k max |x| < 1, of complex numbers over their parts; 0 if there is none")
_op("ldexp", "x k:index", "", FLOATING, "same", rules.ldexp,
    "out = x * 2**k, one k for all of x", over="x")

_GROUP.append("order")
_op("sort", "x", "axis descending", NUMBERS, "same", rules.sort,
    "out = x sorted along axis, NaN last both ways; zeros, and NaN, in any order", "nx sort")
_op("argsort", "x", "axis descending", NUMBERS, "index", rules.sort,
    "out = indices that sort x along axis, stable both ways", "nx argsort")

_GROUP.append("indexing")
_op("take", "x indices:index", "axis", ANY, "same", rules.take,
    "out = x[.., indices, ..] at axis; negatives count from the end once", "onnx Gather")
_op("take_along_axis", "x indices:index", "axis", ANY, "same", rules.take_along_axis,
    "out[.., i, ..] = x[.., indices[.., i, ..], ..]", "nx gather")
_op("gather", "x indices:index", _GATHER, ANY, "same", rules.gather,
    "windows of x at index vectors, clamped to fit (StableHLO)", "tf Gather")
_op("scatter", "x indices:index updates", _SCATTER, NUMBERS, "same", rules.scatter,
    "x with windows of updates added at index vectors; those outside are dropped", "tf Scatter")
_op("scatter_along_axis", "x indices:index updates", "axis mode unique_indices",
    ANY, "same", rules.scatter_along_axis,
    "out = x, then out[.., indices[i], ..] set to or increased by updates[i]; the last wins",
    "nx scatter", narrower=(("mode", "add", NUMBERS),))
_op("dynamic_slice", "x starts:index", "sizes", ANY, "same", rules.dynamic_slice,
    "the window of x at starts, clamped to fit", "tf DynamicSlice")
_op("dynamic_update_slice", "x update starts:index", "", ANY, "same", rules.dynamic_update_slice,
    "x with update written at starts, clamped to fit", "tf DynamicUpdateSlice")
_op("gather_dynamic_slice_sizes", "x indices:index", _GATHER, ANY, "same", rules.gather,
    "gather whose window sizes come from other shapes", "tf GatherDynamicSliceSizes")

_GROUP.append("windows")
_op("unfold", "x", "kernel strides dilation low high", ANY, "same", rules.unfold,
    "windows of the last axes as columns: [batch, kernel, positions], zero outside", "nx unfold")
_op("fold", "x", "sizes kernel strides dilation low high", NUMBERS, "same", rules.fold,
    "adds columns back at their windows: the adjoint of unfold", "nx fold")

_GROUP.append("random")
_op("threefry2x32", "key counter", "", WORDS, "same", rules.threefry,
    "Threefry-2x32 with 20 rounds of each pair of words along the last axis", "nx threefry")

_GROUP.append("contraction")
_op("dot_general", "lhs rhs", "contracting batch", NUMBERS, "same", rules.dot_general,
    "out[b, m, n] = sum_k lhs[b, m, k] * rhs[b, k, n]; groups of axes, [batch, lhs free, rhs free]; "
    "operands with a conj flag are conjugated; a real one may stand beside a complex one",
    "tf DotGeneral", category="boundary", mixes=True, conj=rules.NO_CONJ)
# a row of its own: the other reads two operands everywhere, and is nothing but a sum of products
_op("dot_general_add", "lhs rhs acc", "contracting batch", NUMBERS, "same", rules.dot_general_add,
    "out = alpha * dot_general(lhs, rhs) + beta * acc; acc is not read where beta is 0",
    category="boundary", conj=rules.NO_CONJ, alpha=1, beta=1)
_op("matmul", "lhs rhs", "", NUMBERS, "same", rules.matmul,
    "out[b, m, n] = sum_k lhs[b, m, k] * rhs[b, k, n]; the batch axes lead",
    "nx matmul, onnx MatMul", category="boundary")
_op("sum_product", "*x", "terms output", NUMBERS, "same", rules.sum_product,
    "out[o] = sum over the other labels of prod_i x_i[terms_i], without intermediates",
    category="boundary")

_GROUP.append("host")
_op("constant", "", "value dtype", ANY, "attribute", rules.constant,
    "out = a scalar that the program carries", "onnx Constant, tf Constant", category="host")
_op("shape_of", "x", "axis", ANY, "index", rules.shape_of,
    "out = size of axis", "onnx Shape, tf ShapeOf", category="host")
_op("dynamic_truncate", "x size:index", "axis", ANY, "same", rules.dynamic_truncate,
    "the first `size` elements along axis, clamped; the shape is a bound",
    "tf DynamicTruncate", view="always", category="host")
_op("pad_to_match", "x reference:any", "axis", ANY, "same", rules.pad_to_match,
    "x with zeros behind it until axis is as long as reference's", "tf PadToMatch", category="host")

_GROUP.append("linalg")
_op("cholesky", "a", "", FLOATING, "same", rules.square,
    "a = out @ out^H with out lower triangular", "nx cholesky, tf Cholesky", category="extension")
_op("triangular_solve", "a b", "lower trans unit_diagonal side", FLOATING, "same", rules.solve,
    "op(a) @ out = b, or out @ op(a) = b, for triangular a",
    "nx triangular_solve, tf TriangularSolve", category="extension")
_op("lu", "a", "", FLOATING, "same index", rules.lu,
    "a[pivots] = L @ U, both in one array", "tf Lu", category="extension")
_op("lu_solve", "lu pivots:index b", "trans", FLOATING, "same", rules.lu_solve,
    "op(a) @ out = b by the factors of a", "tf LuSolve", category="extension")
_op("full_piv_lu", "a", "", FLOATING, "same index index", rules.full_pivot_lu,
    "a[rows][:, columns] = L @ U", "tf FullPivLu", category="extension")
_op("full_piv_lu_solve", "lu rows:index columns:index b", "trans", FLOATING, "same", rules.lu_solve,
    "op(a) @ out = b by the factors of a", "tf FullPivLuSolve", category="extension")
_op("solve", "a b", "", FLOATING, "same", rules.solve,
    "a @ out = b", "tf Solve", category="extension")
_op("qr", "a", "", FLOATING, "same same", rules.qr,
    "a = q @ r, q with orthonormal columns, r upper triangular", "nx qr, tf Qr", category="extension")
_op("svd", "a", "", FLOATING, "same real same", rules.svd,
    "a = u @ diag(s) @ vh, s falling", "nx svd, tf Svd", category="extension")
_op("eigh", "a", "", FLOATING, "real same", rules.eigen,
    "a @ v = v @ diag(w) for Hermitian a, w rising", "nx eigh, tf Eigh", category="extension")
_op("eig", "a", "", FLOATING, "complex complex", rules.eigen,
    "a @ v = v @ diag(w)", "nx eig, tf Eig", category="extension")

_GROUP.append("fft")
_op("fft", "x", "axes", FLOATING, "complex", rules.fft,
    "out[k] = scale * sum_n x[n] exp(-2 pi i k n / N) over axes", "nx fft, tf Fft",
    category="extension", scale=1.0)
_op("ifft", "x", "axes", FLOATING, "complex", rules.fft,
    "out[n] = scale * sum_k x[k] exp(+2 pi i k n / N) over axes, not divided by N",
    "nx ifft, tf Ifft", category="extension", scale=1.0)
_op("rfft", "x", "axes", FLOAT, "complex", rules.rfft,
    "fft of real x, its last axis cut to N // 2 + 1", "nx rfft, tf Rfft",
    category="extension", scale=1.0)
_op("irfft", "x", "axes n", COMPLEX, "real", rules.irfft,
    "ifft of a half spectrum to n real numbers along the last axis, not divided",
    "nx irfft, tf Irfft", category="extension", scale=1.0)
# fmt: on

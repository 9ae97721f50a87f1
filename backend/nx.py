"""Nx's backend interface: its 81 functions, under its names, over the op catalogue.

A tensor is a numpy.ndarray of any strides, and a context a `Backend`. The functions follow Nx where it
decides otherwise than the catalogue: what computes writes into an `out` that the caller gives and returns
it; indices are int32; `round` goes half away from zero and `abs` keeps a complex dtype; singular values
and eigenvalues are float64, what `eig` gives is complex128. Shapes and dtypes are checked by the rules of the
catalogue, though Nx's frontend guarantees them; dtypes are the catalogue's, which are more than Nx has.

OCaml's labelled arguments are keywords here, and its polymorphic variants strings.

>>> import numpy as np
>>> from einloom.backend import nx
>>> x = np.array([-2.5, 2.5, 3.0])
>>> nx.round(x, out=np.empty(3))
array([-3.,  3.,  3.])
>>> nx.argmax(x, axis=0, keepdims=True, out=np.empty(1, np.int32))
array([2], dtype=int32)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from .nx_calls import (
    Array,
    as_int32,
    binary,
    call,
    compute,
    index_result,
    pairs_of,
    reduced,
    reduction,
    tensor,
    tuple_of,
    unary,
)
from .nx_fft import fft, ifft, irfft, rfft
from .nx_linalg import cholesky, eig, eigh, matmul, qr, svd, triangular_solve
from .nx_tensors import (
    assign,
    buffer,
    cast,
    cat,
    context,
    contiguous,
    copy,
    dtype,
    expand,
    flip,
    from_host,
    full,
    pad,
    permute,
    reshape,
    shrink,
    to_host,
    view,
)
from .spec import dtype_name

__all__ = [
    "abs", "acos", "add", "and_", "argmax", "argmin", "argsort", "asin", "assign",
    "associative_scan", "atan", "atan2", "buffer", "cast", "cat", "ceil", "cholesky", "cmpeq",
    "cmple", "cmplt", "cmpne", "context", "contiguous", "copy", "cos", "cosh", "div", "dtype",
    "eig", "eigh", "erf", "exp", "expand", "fft", "flip", "floor", "fold", "from_host", "full",
    "gather", "ifft", "irfft", "log", "matmul", "max", "min", "mod_", "mul", "neg", "or_", "pad",
    "permute", "pow", "qr", "recip", "reduce_max", "reduce_min", "reduce_prod", "reduce_sum",
    "reshape", "rfft", "round", "scatter", "shrink", "sign", "sin", "sinh", "sort", "sqrt", "sub",
    "svd", "tan", "tanh", "threefry", "to_host", "triangular_solve", "trunc", "unfold", "view",
    "where", "xor",
]  # fmt: skip

# ---- elementwise ----------------------------------------------------------------------------------

add = binary("add", "add")
sub = binary("sub", "subtract")
mul = binary("mul", "multiply")
div = binary("div", "divide")
mod_ = binary("mod_", "remainder")
pow = binary("pow", "power")
atan2 = binary("atan2", "atan2")
cmpeq = binary("cmpeq", "equal")
cmpne = binary("cmpne", "not_equal")
cmplt = binary("cmplt", "less")
cmple = binary("cmple", "less_equal")
max = binary("max", "maximum")
min = binary("min", "minimum")
xor = binary("xor", "bitwise_xor")
or_ = binary("or_", "bitwise_or")
and_ = binary("and_", "bitwise_and")

neg = unary("neg", "negate")
recip = unary("recip", "reciprocal")
sqrt = unary("sqrt", "sqrt")
sign = unary("sign", "sign")
exp = unary("exp", "exp")
log = unary("log", "log")
sin = unary("sin", "sin")
cos = unary("cos", "cos")
tan = unary("tan", "tan")
asin = unary("asin", "asin")
acos = unary("acos", "acos")
atan = unary("atan", "atan")
sinh = unary("sinh", "sinh")
cosh = unary("cosh", "cosh")
tanh = unary("tanh", "tanh")
trunc = unary("trunc", "trunc")
ceil = unary("ceil", "ceil")
floor = unary("floor", "floor")
round = unary("round", "round_half_away")
erf = unary("erf", "erf")


def abs(x: Array, *, out: Array) -> Array:
    """out = modulus of x, in the dtype of x: of complex numbers with an imaginary part of 0."""
    if tensor("abs", x).dtype.kind != "c":
        return compute("abs", "absolute", x, out=out)
    modulus = call("abs", "absolute", x)
    return compute("abs", "cast", modulus, out=out, dtype=dtype_name(x.dtype))


def where(cond: Array, if_true: Array, if_false: Array, *, out: Array) -> Array:
    """out = if_true where cond, else if_false."""
    return compute("where", "select", cond, if_true, if_false, out=out)


# ---- reductions, order ----------------------------------------------------------------------------

reduce_sum = reduction("reduce_sum")
reduce_prod = reduction("reduce_prod")
reduce_max = reduction("reduce_max", initial=None)
reduce_min = reduction("reduce_min", initial=None)


def argmax(x: Array, *, axis: int, keepdims: bool, out: Array) -> Array:
    """out = int32 index of the first largest element along axis, of the first NaN if any."""
    return _argument("argmax", x, axis, keepdims, out)


def argmin(x: Array, *, axis: int, keepdims: bool, out: Array) -> Array:
    """out = int32 index of the first smallest element along axis, of the first NaN if any."""
    return _argument("argmin", x, axis, keepdims, out)


def _argument(name: str, x: Array, axis: int, keepdims: bool, out: Array) -> Array:
    found = call(name, name, x, axis=axis)
    index_result(name, x, axis, found, reduced(name, out, (axis,), keepdims, x))
    return out


Scan = Literal["sum", "prod", "max", "min"]


def associative_scan(x: Array, *, axis: int, op: Scan, out: Array) -> Array:
    """out[i] = sum, prod, max or min of x[0], ..., x[i] along axis."""
    return compute("associative_scan", "associative_scan", x, out=out, axis=axis, kind=op)


def sort(x: Array, *, axis: int, descending: bool, out: Array) -> Array:
    """out = x sorted along axis, NaN last either way."""
    return compute("sort", "sort", x, out=out, axis=axis, descending=descending)


def argsort(x: Array, *, axis: int, descending: bool, out: Array) -> Array:
    """out = int32 indices that sort x along axis; of equals the one of the lower index comes first."""
    found = call("argsort", "argsort", x, axis=axis, descending=descending)
    return index_result("argsort", x, axis, found, out)


# ---- random ---------------------------------------------------------------------------------------


def threefry(key: Array, counter: Array, *, out: Array) -> Array:
    """out = Threefry-2x32 with 20 rounds of the counter under the key: int32, the last axis of size 2."""
    key, counter = (as_int32("threefry", "a word", x) for x in (key, counter))
    return compute("threefry", "threefry2x32", key, counter, out=out)


# ---- indexing, windows ----------------------------------------------------------------------------


def gather(data: Array, indices: Array, *, axis: int, out: Array) -> Array:
    """out[.., i, ..] = data[.., indices[.., i, ..], ..] at `axis`.

    Args:
        data: any dtype.
        indices: int32, of data's shape but for `axis`; negatives count from the end once.
        out: of the shape of indices and the dtype of data.

    Raises:
        IndexError: an index is out of range.

    >>> import numpy as np
    >>> from einloom.backend import nx
    >>> nx.gather(np.array([5.0, 6.0]), np.array([1, -2, 1], np.int32), axis=0, out=np.empty(3))
    array([6., 5., 6.])
    """
    return compute(
        "gather",
        "take_along_axis",
        data,
        as_int32("gather", "indices", indices),
        out=out,
        axis=axis,
    )


def scatter(
    template: Array,
    *,
    indices: Array,
    updates: Array,
    axis: int,
    mode: Literal["set", "add"] = "set",
    unique_indices: bool = False,
) -> Array:
    """A copy of template with [.., indices[i], ..] at `axis` set to updates[i], or increased by it.

    Updates are applied in row-major order: of several for one place the last is set, or all are added.

    Args:
        template: any dtype; numbers for "add".
        indices: int32, of template's shape but for `axis`; negatives count from the end once.
        updates: of the shape of indices and the dtype of template.
        unique_indices: a hint that no place has several updates.

    Raises:
        IndexError: an index is out of range.

    >>> import numpy as np
    >>> from einloom.backend import nx
    >>> at, updates = np.array([1, 1, 2], np.int32), np.array([10.0, 40.0, 20.0])
    >>> nx.scatter(np.zeros(4), indices=at, updates=updates, axis=0).tolist()
    [0.0, 40.0, 20.0, 0.0]
    >>> nx.scatter(np.zeros(4), indices=at, updates=updates, axis=0, mode="add").tolist()
    [0.0, 50.0, 20.0, 0.0]
    """
    attrs: dict[str, Any] = {"axis": axis, "mode": mode, "unique_indices": unique_indices}
    index = as_int32("scatter", "indices", indices)
    return call("scatter", "scatter_along_axis", template, index, updates, **attrs)


def unfold(
    t: Array,
    *,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> Array:
    """Windows of the last K axes as columns: out[.., k, w] = t[.., w * stride + k * dilation - before].

    Args:
        t: [leading..., spatial...], K spatial axes.
        kernel_size, stride, dilation: K positive integers each.
        padding: K pairs (before, after) of how many zeros are thought around t.

    Returns:
        [leading..., prod(kernel_size), positions]: places in the window and windows, both in row-major
        order.

    >>> import numpy as np
    >>> from einloom.backend import nx
    >>> how = {"kernel_size": (2,), "stride": (1,), "dilation": (1,), "padding": ((0, 0),)}
    >>> nx.unfold(np.array([1, 2, 3]), **how)
    array([[1, 2],
           [2, 3]])
    """
    window = _window("unfold", kernel_size, stride, dilation)
    low, high = pairs_of("unfold", "padding", padding, len(window["kernel"]))
    return call("unfold", "unfold", t, **window, low=low, high=high)


def fold(
    t: Array,
    *,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> Array:
    """Columns added back at their windows: the adjoint of `unfold`.

    Args:
        t: [leading..., prod(kernel_size), positions], as `unfold` makes it of [leading..., output_size...].
        output_size: sizes of the K spatial axes.

    Returns:
        [leading..., output_size...]: what falls on the padding is dropped.

    >>> import numpy as np
    >>> from einloom.backend import nx
    >>> how = {"kernel_size": (2,), "stride": (1,), "dilation": (1,), "padding": ((0, 0),)}
    >>> nx.fold(np.array([[1, 2], [2, 3]]), output_size=(3,), **how)
    array([1, 4, 3])
    """
    window = _window("fold", kernel_size, stride, dilation)
    low, high = pairs_of("fold", "padding", padding, len(window["kernel"]))
    sizes = tuple_of("fold", "output_size", output_size)
    return call("fold", "fold", t, sizes=sizes, **window, low=low, high=high)


def _window(
    name: str, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> dict[str, Any]:
    return {
        "kernel": tuple_of(name, "kernel_size", kernel),
        "strides": tuple_of(name, "stride", stride),
        "dilation": tuple_of(name, "dilation", dilation),
    }

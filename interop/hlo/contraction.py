"""Products, solves and Fourier transforms in StableHLO."""

from __future__ import annotations

from typing import Any

from ...backend.catalogue import Attrs
from ...backend.dtypes import complex_of
from .elementwise import conj, real_of
from .moving import triangle
from .reducing import reduced, wide
from .text import Rule, Specs, Text, Value, Values, dims

HIGHEST = "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"


def product(text: Text, lhs: Value, rhs: Value, attrs: Attrs, shape: tuple[int, ...]) -> Value:
    """The op of the same name, in full precision; half precisions are accumulated in single precision."""
    (lhs_k, rhs_k), (lhs_b, rhs_b) = attrs["contracting"], attrs["batch"]
    dtype = lhs.dtype if lhs.dtype.kind == "c" else rhs.dtype
    flags = attrs.get("conj", (False, False))
    lhs, rhs = (
        conj(text, wide(text, text.convert(x, dtype)))
        if flag
        else wide(text, text.convert(x, dtype))
        for x, flag in zip((lhs, rhs), flags, strict=True)
    )
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {list(lhs_b)}, "
        f"rhs_batching_dimensions = {list(rhs_b)}, "
        f"lhs_contracting_dimensions = {list(lhs_k)}, rhs_contracting_dimensions = {list(rhs_k)}>"
    )
    found = text.op(
        "dot_general",
        lhs,
        rhs,
        shape=shape,
        dot_dimension_numbers=numbers,
        precision_config=HIGHEST,
    )
    return text.convert(found, dtype)


def _dot_general(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    return product(text, xs[0], xs[1], attrs, specs[0].shape)


def _dot_general_add(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    lhs, rhs, acc = xs
    alpha, beta = attrs.get("alpha", 1), attrs.get("beta", 1)
    found = scaled(text, product(text, lhs, rhs, attrs, specs[0].shape), alpha)
    return found if beta == 0 else text.op("add", found, scaled(text, acc, beta))


def scaled(text: Text, x: Value, factor: Any) -> Value:
    return x if factor == 1 else text.op("multiply", x, text.like(factor, x))


def _matmul(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    ndim = xs[0].ndim
    lead = tuple(range(ndim - 2))
    numbers = {"contracting": ((ndim - 1,), (ndim - 2,)), "batch": (lead, lead)}
    return product(text, xs[0], xs[1], numbers, specs[0].shape)


def _sum_product(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """A product over all labels, output labels first, and a sum over the others: for whoever compiles the
    text to fuse."""
    output, dtype, terms = attrs["output"], specs[0].dtype, attrs["terms"]
    sizes: dict[int, int] = {}
    for term, x in zip(terms, xs, strict=True):
        sizes |= dict(zip(term, x.shape, strict=True))
    labels = [*output, *(label for label in sizes if label not in output)]
    shape: list[int] = [sizes[label] for label in labels]
    found: Value | None = None
    for term, x in zip(terms, xs, strict=True):
        places = [labels.index(label) for label in term]
        order = sorted(range(x.ndim), key=places.__getitem__)
        x = text.broadcast(text.transpose(wide(text, x), order), shape, sorted(places))
        found = x if found is None else text.op("multiply", found, x)
    assert found is not None, "an operand at least"
    rest = tuple(range(len(output), len(labels)))
    return text.convert(reduced(text, found, rest, "sum") if rest else found, dtype)


# ---- matrices ---------------------------------------------------------------------------------


def _cholesky(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """What stands on the other side of the diagonal is left open there."""
    upper = bool(attrs.get("upper", False))
    factor = text.op("cholesky", xs[0], lower=_flag(not upper))
    return triangle(text, factor, 0, "GE" if upper else "LE")


TRANS = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def _triangular_solve(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    a, b = xs
    return text.op(
        "triangular_solve",
        a,
        b,
        shape=b.shape,
        left_side=_flag(attrs.get("side", "left") == "left"),
        lower=_flag(attrs.get("lower", False)),
        unit_diagonal=_flag(attrs.get("unit_diagonal", False)),
        transpose_a=f"#stablehlo<transpose {TRANS[attrs.get('trans', 'N')]}>",
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"


# ---- Fourier transforms -----------------------------------------------------------------------


def along(text: Text, x: Value, axis: int, kind: str, n: int, dtype: Any) -> Value:
    """One transform of length n along any axis: StableHLO transforms the last ones."""
    perm = [k for k in range(x.ndim) if k != axis]
    x = text.transpose(x, [*perm, axis])
    last = n // 2 + 1 if kind == "RFFT" else n
    shape = (*x.shape[:-1], last)
    kinds = f"#stablehlo<fft_type {kind}>"
    x = text.op("fft", x, dtype=dtype, shape=shape, fft_type=kinds, fft_length=dims((n,)))
    back = [k if k < axis else k - 1 for k in range(x.ndim)]
    back[axis] = x.ndim - 1
    return text.transpose(x, back)


def _fft(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    x = text.convert(xs[0], specs[0].dtype)
    for axis in attrs["axes"]:
        x = along(text, x, axis, "FFT", x.shape[axis], x.dtype)
    return scaled(text, x, attrs.get("scale", 1.0))


def _ifft(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    """StableHLO divides by the length; the catalogue does not."""
    x, scale = text.convert(xs[0], specs[0].dtype), attrs.get("scale", 1.0)
    for axis in attrs["axes"]:
        scale *= x.shape[axis]
        x = along(text, x, axis, "IFFT", x.shape[axis], x.dtype)
    return scaled(text, x, scale)


def _rfft(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    dtype = specs[0].dtype
    if 0 in xs[0].shape:  # a sum over nothing
        return text.full(0, dtype, specs[0].shape)
    *others, last = attrs["axes"]
    x = text.convert(xs[0], real_of(dtype))
    x = along(text, x, last, "RFFT", x.shape[last], dtype)
    return _fft(text, {**attrs, "axes": others}, (x,), specs)


def _irfft(text: Text, attrs: Attrs, xs: Values, specs: Specs) -> Value:
    x, n = xs[0], attrs["n"]
    x = text.convert(x, complex_of(x.dtype))
    *others, last = attrs["axes"]
    scale = attrs.get("scale", 1.0) * n
    for axis in others:
        scale *= x.shape[axis]
        x = along(text, x, axis, "IFFT", x.shape[axis], x.dtype)
    return scaled(text, along(text, x, last, "IRFFT", n, real_of(x.dtype)), scale)


RULES: dict[str, Rule] = {
    "dot_general": _dot_general,
    "dot_general_add": _dot_general_add,
    "matmul": _matmul,
    "sum_product": _sum_product,
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "fft": _fft,
    "ifft": _ifft,
    "rfft": _rfft,
    "irfft": _irfft,
}

FAMILIES: dict[str, Rule] = {
    "linalg.cholesky.v1": _cholesky,
    "linalg.triangular_solve.v1": _triangular_solve,
}
"""Extension families that StableHLO has an op for, as the functions of `einloom.linalg` record them."""

"""What stands around a product of `contraction`: conjugates of its operands, and what it is added to."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..catalogue import Attrs, infer
from ..dtypes import class_of, mixed
from ..protocol import Kernel
from ..rules import NO_CONJ
from ..spec import ArraySpec, compute_dtype
from .buffers import empty_as
from .cast import bind_cast
from .contraction import bind_dot_general, dot_scratch_bytes
from .elementwise import EVALUATE, Evaluate, bind_elementwise, over_blocks, through_float32

Conjugated = Literal[
    "nothing", "lhs", "rhs", "operands", "result", "lhs and result", "rhs and result"
]


def conjugated(attrs: Attrs, lhs: ArraySpec, rhs: ArraySpec) -> Conjugated:
    """What is conjugated around the product of plain operands; operands are, in a copy.

    nothing                 there is no flag, or the numbers are real
    result                  both flags: conj(a) . conj(b) = conj(a . b); a flag beside a real operand,
                            where the result has fewer elements than the other
    lhs, rhs                one flag: that operand
    operands                both flags, of objects: conj may turn products round, as that of quaternions
    lhs, rhs, and result    one flag, where the other operand and the result have fewer elements:
                            conj(a) . b = conj(a . conj(b))
    """
    has_meaning = (class_of(x.dtype) in ("complex", "object") for x in (lhs, rhs))
    left, right = map(all, zip(attrs.get("conj", NO_CONJ), has_meaning, strict=True))
    if not (left or right):
        return "nothing"
    if class_of(lhs.dtype) == "object":
        return "operands" if left and right else "lhs" if left else "rhs"
    if left and right:
        return "result"
    (out,) = infer(
        "dot_general", {name: attrs[name] for name in ("batch", "contracting")}, (lhs, rhs)
    )
    if mixed(lhs.dtype, rhs.dtype):
        own = lhs if left else rhs
        return "result" if out.size < own.size else "lhs" if left else "rhs"
    if left:
        return "lhs" if lhs.size <= rhs.size + out.size else "rhs and result"
    return "rhs" if rhs.size <= lhs.size + out.size else "lhs and result"


def bind_product(
    attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec, own_threads: bool = False
) -> Kernel:
    """A kernel for one `dot_general`; with `own_threads`, BLAS uses none of its own."""
    lhs, rhs = inputs
    kernel = bind_dot_general(attrs, inputs, output, own_threads)
    which = conjugated(attrs, lhs, rhs)
    if which == "nothing":
        return kernel
    bind_conj = bind_elementwise(EVALUATE["conj"])
    of_lhs, of_rhs, of_result = (bind_conj({}, (spec,), spec) for spec in (lhs, rhs, output))

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        if which.startswith(("lhs", "operands")):
            lhs = of_lhs(lhs, out=empty_as(inputs[0]))
        if which.startswith(("rhs", "operands")):
            rhs = of_rhs(rhs, out=empty_as(inputs[1]))
        product = kernel(lhs, rhs, out=out)
        return of_result(product, out=product) if which.endswith("result") else product

    return run


def bind_product_added(
    attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec, own_threads: bool = False
) -> Kernel:
    """A kernel for `dot_general_add`, whose `out` may be acc; half precisions are added up in float32 and
    rounded once."""
    *operands, acc = inputs
    *wide, result = (ArraySpec(compute_dtype(x.dtype), x.shape) for x in (*operands, output))
    kernel = bind_product(attrs, (wide[0], wide[1]), result, own_threads)
    total = _total(attrs.get("alpha", 1), attrs.get("beta", 1), result.dtype)
    block = through_float32(total, (result, acc), output)
    is_half = result.dtype != output.dtype
    widen = [bind_cast({}, (x,), y) for x, y in zip(operands, wide, strict=True)]

    def run(lhs: Any, rhs: Any, acc: Any, out: Any = None) -> Any:
        if is_half:
            lhs, rhs = (cast(x) for cast, x in zip(widen, (lhs, rhs), strict=True))
        product = kernel(lhs, rhs)  # apart from out, which may be acc
        if out is None:
            out = empty_as(output)
        return over_blocks(block, out, (product, acc), cut=True)

    return run


def _total(alpha: Any, beta: Any, dtype: np.dtype[np.generic]) -> Evaluate:
    """What writes one block of alpha * product + beta * acc, over the product on the way."""
    by_alpha, by_beta = _factor(alpha, dtype), _factor(beta, dtype)

    def evaluate(out: Any, product: Any, acc: Any) -> None:
        if alpha != 1:
            np.multiply(product, by_alpha, out=product)
        if beta == 0:
            np.copyto(out, product)
        elif beta == 1:
            np.add(product, acc, out=out)
        else:
            np.multiply(acc, by_beta, out=out)
            np.add(out, product, out=out)

    return evaluate


def _factor(value: Any, dtype: np.dtype[np.generic]) -> Any:
    """A Python number as a scalar of this dtype, infinite where that has none so large."""
    with np.errstate(over="ignore"):
        return value if dtype.hasobject else np.asarray(value).astype(dtype)


def product_scratch_bytes(
    attrs: Attrs,
    inputs: tuple[ArraySpec, ...],
    output: ArraySpec | None = None,
    threads: int | None = None,
) -> int:
    """Upper bound of what these kernels allocate: copies of operands, and the product before it is
    added."""
    lhs, rhs, *added = inputs
    which = conjugated(attrs, lhs, rhs)
    total = dot_scratch_bytes(attrs, (lhs, rhs), output, threads)
    if which.startswith(("lhs", "operands")):
        total += lhs.nbytes
    if which.startswith(("rhs", "operands")):
        total += rhs.nbytes
    for acc in added:
        wide = compute_dtype(acc.dtype)
        # of half precisions the product is counted as such, acc and the sum are wide block by block
        total += acc.nbytes if wide == acc.dtype else 2 * acc.size * wide.itemsize
    return total

"""Products as ops: of two operands, added to a third, and sums of products of many, pair by pair."""

from __future__ import annotations

from typing import Any

from ..catalogue import Attrs
from ..cpu.contraction import matmul_attrs
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, compute_dtype
from .arrays import Binder, into, put, scalar
from .modules import Module
from .product import Product

Inputs = tuple[ArraySpec, ...]


def bind_dot_general(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    product = Product(xp, attrs, inputs, output)

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        found = product(lhs, rhs, out)
        return out if found is out and out is not None else put(xp, found, output, out)

    return run


def bind_matmul(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    return bind_dot_general(xp, matmul_attrs(inputs), inputs, output)


def bind_dot_general_add(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    alpha, beta = attrs.get("alpha", 1), attrs.get("beta", 1)
    product = Product(xp, attrs, inputs[:2], output)
    wide = compute_dtype(output.dtype)
    by, of = scalar(alpha, wide), scalar(beta, wide)

    def run(lhs: Any, rhs: Any, acc: Any, out: Any = None) -> Any:
        is_one_call = wide == output.dtype and product.rung_of_sum(lhs, rhs) == "gemm"
        if is_one_call and product.is_blas and (out is None or product.can_write(out)):
            target = xp.empty(output.shape, output.dtype) if out is None else out
            if beta != 0 and target is not acc:
                xp.copyto(target, acc)
            if product.gemm(lhs, rhs, target, by, of):
                return target
        total = product(lhs, rhs, is_wide=True)
        total = total if alpha == 1 else total * by
        if beta != 0:
            acc = acc.astype(wide, copy=False)
            total = total + (acc if beta == 1 else acc * of)
        return put(xp, total, output, out)

    return run


# ---- sums of products -----------------------------------------------------------------------------


def bind_sum_product(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    """Pair by pair, from the left; a label is summed as soon as nobody else has it."""
    terms, kept = attrs["terms"], attrs["output"]
    wide = compute_dtype(output.dtype)

    def compute(*operands: Any) -> Any:
        found: Any = None
        labels: Axes = ()
        for k, (x, term) in enumerate(zip(operands, terms, strict=True)):
            later = frozenset(kept).union(*terms[k + 1 :])
            x, own = _diagonal(xp, x.astype(wide, copy=False), term)
            if found is not None:
                found, labels = _paired(xp, found, labels, x, own, later)
            else:
                found, labels = x, own
            found, labels = _summed(xp, found, labels, later)
        found = found.transpose([labels.index(label) for label in kept])
        return found.copy() if len(operands) == 1 else found  # of one operand it may be a view

    return into(xp, compute, output)


def _diagonal(xp: Module, x: Any, term: Axes) -> tuple[Any, Axes]:
    """A view in which every label is one axis."""
    labels = tuple(dict.fromkeys(term))
    if len(labels) == len(term):
        return x, labels
    axes = [[axis for axis, label in enumerate(term) if label == one] for one in labels]
    shape = tuple(x.shape[group[0]] for group in axes)
    strides = tuple(sum(x.strides[axis] for axis in group) for group in axes)
    return xp.lib.stride_tricks.as_strided(x, shape, strides), labels


def _summed(xp: Module, x: Any, labels: Axes, later: frozenset[int]) -> tuple[Any, Axes]:
    axes = tuple(axis for axis, label in enumerate(labels) if label not in later)
    if not axes:
        return x, labels
    total = xp.any(x, axis=axes) if x.dtype.kind == "b" else xp.sum(x, axis=axes, dtype=x.dtype)
    return total, tuple(label for label in labels if label in later)


def _paired(
    xp: Module, x: Any, left: Axes, y: Any, right: Axes, later: frozenset[int]
) -> tuple[Any, Axes]:
    shared = [label for label in left if label in right]
    groups = [[label for label in shared if (label in later) is kept] for kept in (True, False)]
    batch, contracting = (
        (tuple(left.index(label) for label in group), tuple(right.index(label) for label in group))
        for group in groups
    )
    specs = tuple(ArraySpec(one.dtype, one.shape) for one in (x, y))
    product = Product(xp, {"batch": batch, "contracting": contracting}, specs)
    free = (*(a for a in left if a not in shared), *(b for b in right if b not in shared))
    return product(x, y), (*groups[0], *free)


BINDERS: dict[str, Binder] = {
    "dot_general": bind_dot_general,
    "dot_general_add": bind_dot_general_add,
    "matmul": bind_matmul,
    "sum_product": bind_sum_product,
}

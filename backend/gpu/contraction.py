"""Pairwise products: the ladder, from no copy at all to two.

zeros      a size is 0: nothing is called
gemm       batch, free and contracted axes fuse as they lie: strided-batched cuBLAS
cutensor   they do not, cuTENSOR is there and knows the dtype: it reads any strides
packed     what does not fuse is copied into the order of a product first

A contraction of which nothing is copied is left to cuBLAS: cuTENSOR spends a second on its first plan.
Integers and bool go through the module's own matmul. Half precisions are widened, so they accumulate in
single precision; TF32 and the like are never asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..catalogue import Attrs
from ..cpu.contraction import matmul_attrs
from ..protocol import Kernel
from ..rules import DotDims, dot_dims
from ..spec import ArraySpec, Axes, compute_dtype
from . import cutensor
from .arrays import Binder, into, put, scalar
from .modules import Module
from .move import contiguous

Inputs = tuple[ArraySpec, ...]


class Groups(NamedTuple):
    """The axes of an operand, in the order in which a batched matrix has them."""

    batch: Axes
    rows: Axes
    columns: Axes


def bind_dot_general(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    product = Product(xp, attrs, inputs, output)
    return into(xp, product, output)


def bind_matmul(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    return bind_dot_general(xp, matmul_attrs(inputs), inputs, output)


def bind_dot_general_add(xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec) -> Kernel:
    alpha, beta = attrs.get("alpha", 1), attrs.get("beta", 1)
    product = Product(xp, attrs, inputs[:2], output)
    wide = compute_dtype(output.dtype)
    by, of = scalar(alpha, wide), scalar(beta, wide)

    def run(lhs: Any, rhs: Any, acc: Any, out: Any = None) -> Any:
        total = product(lhs, rhs)
        total = total if alpha == 1 else total * by
        if beta != 0:
            acc = acc.astype(wide, copy=False)
            total = total + (acc if beta == 1 else acc * of)
        return put(xp, total, output, out)

    return run


class Product:
    """One dot_general on an array module; a call takes the first rung that fits the operands' strides."""

    def __init__(
        self, xp: Module, attrs: Attrs, inputs: Inputs, output: ArraySpec | None = None
    ) -> None:
        lhs, rhs = inputs
        self.xp, self.attrs = xp, attrs
        self.dims = dot_dims(attrs, lhs.shape, rhs.shape)
        dtype = np.result_type(compute_dtype(lhs.dtype), compute_dtype(rhs.dtype))
        self.dtype, self.conj = dtype, attrs.get("conj", (False, False))
        self.shape = (
            *(lhs.shape[axis] for axis in self.dims.lhs_batch + self.dims.lhs_free),
            *(rhs.shape[axis] for axis in self.dims.rhs_free),
        )

    def __call__(self, lhs: Any, rhs: Any) -> Any:
        """The product in the dtype that it is computed in; a bool one as bool."""
        lhs, rhs = (self._operand(x, conj) for x, conj in zip((lhs, rhs), self.conj, strict=True))
        rung = self.rung(lhs, rhs)
        if rung == "zeros":
            return self.xp.zeros(self.shape, self.dtype)
        if rung == "cutensor":
            found = cutensor.contract(self.xp, lhs, rhs, self.dims, self.shape)
            if found is not None:
                return found
        return self._matmul(lhs, rhs)

    def _operand(self, x: Any, conj: bool) -> Any:
        x = x.astype(self.dtype, copy=False)
        return self.xp.conjugate(x) if conj and self.dtype.kind == "c" else x

    def rung(self, lhs: Any, rhs: Any) -> str:
        if not min(self.dims.batch, self.dims.m, self.dims.n, self.dims.k):
            return "zeros"
        order = contracted_order(self.dims, lhs, rhs)
        if not sum(copied(x, groups) for x, groups in zip((lhs, rhs), order, strict=True)):
            return "gemm"
        return "cutensor" if cutensor.takes(self.xp, self.dtype, lhs, rhs) else "packed"

    def _matmul(self, lhs: Any, rhs: Any) -> Any:
        """By batched matrices, [batch, m, k] and [batch, k, n]; what does not fuse is copied."""
        left, right = contracted_order(self.dims, lhs, rhs)
        dims, is_bool = self.dims, self.dtype.kind == "b"
        shapes = (dims.batch, dims.m, dims.k), (dims.batch, dims.k, dims.n)
        a, b = (
            self._matrices(x, groups).reshape(shape)
            for x, groups, shape in zip((lhs, rhs), (left, right), shapes, strict=True)
        )
        if is_bool:  # counts of true terms, which may not wrap
            a, b = a.astype(np.int32), b.astype(np.int32)
        product = self.xp.matmul(a, b) if dims.batch > 1 else self.xp.matmul(a[0], b[0])
        return (product != 0 if is_bool else product).reshape(self.shape)

    def _matrices(self, x: Any, groups: Groups) -> Any:
        """x with the axes of each group side by side, one copy where they do not fuse."""
        turned = x.transpose(groups.batch + groups.rows + groups.columns)
        return contiguous(self.xp, turned) if copied(x, groups) else turned


def contracted_order(dims: DotDims, lhs: Any, rhs: Any) -> tuple[Groups, Groups]:
    """Both operands' axes, the contracted ones in the order of which the fewest bytes are copied."""
    pairs = list(zip(dims.lhs_contracting, dims.rhs_contracting, strict=True))
    orders = [
        pairs,
        sorted(pairs, key=lambda pair: -abs(lhs.strides[pair[0]])),
        sorted(pairs, key=lambda pair: -abs(rhs.strides[pair[1]])),
    ]
    found = []
    for order in orders:
        left, right = tuple(i for i, _ in order), tuple(j for _, j in order)
        groups = (
            Groups(dims.lhs_batch, dims.lhs_free, left),
            Groups(dims.rhs_batch, right, dims.rhs_free),
        )
        cost = sum(copied(x, each) for x, each in zip((lhs, rhs), groups, strict=True))
        found.append((cost, groups))
    return min(found, key=lambda one: one[0])[1]


def copied(x: Any, groups: Groups) -> int:
    """Bytes of x that are copied because the axes of a group do not fuse, or no axis of a matrix is unit.

    cuBLAS reads a matrix whose rows or columns lie side by side, at a distance that is no less than one.
    """
    fused = [fused_stride(x, axes) for axes in groups]
    if any(stride is None for _, stride in fused):
        return int(x.nbytes)
    (_, batch), (m, row), (n, column) = fused
    item = x.itemsize
    if batch is None or row is None or column is None or batch < 0 or batch % item:
        return int(x.nbytes)
    by_rows = (n == 1 or column == item) and (m == 1 or (row >= n * item and row % item == 0))
    by_columns = (m == 1 or row == item) and (n == 1 or (column >= m * item and column % item == 0))
    return 0 if by_rows or by_columns else int(x.nbytes)


def fused_stride(x: Any, axes: Sequence[int]) -> tuple[int, int | None]:
    """Size and stride in bytes of some axes as one, the slowest first; None where they do not fuse."""
    size, stride = 1, 0
    for axis in reversed(axes):
        n, step = x.shape[axis], x.strides[axis]
        if n == 1:
            continue
        if size == 1:
            stride = step
        elif step != stride * size:
            return math.prod(x.shape[axis] for axis in axes), None
        size *= n
    return size, stride


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


def engine_of(xp: Module, op: str, attrs: Attrs, inputs: Inputs) -> str:
    """The rung for row-major operands."""
    attrs = matmul_attrs(inputs) if op == "matmul" else attrs
    product = Product(xp, attrs, inputs)
    lhs, rhs = (Strided(spec) for spec in inputs)
    return product.rung(lhs, rhs)


class Strided:
    """What `rung` reads of an array, without one."""

    def __init__(self, spec: ArraySpec) -> None:
        dtype = compute_dtype(spec.dtype)
        self.shape, self.ndim, self.itemsize = spec.shape, len(spec.shape), dtype.itemsize
        self.nbytes = spec.size * dtype.itemsize
        order = spec.layout or tuple(range(self.ndim))
        strides, step = [0] * self.ndim, dtype.itemsize
        for axis in reversed(order):
            strides[axis], step = step, step * spec.shape[axis]
        self.strides = tuple(strides)

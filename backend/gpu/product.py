"""Pairwise products: the ladder, from no copy at all to two.

zeros      a size is 0: nothing is called
small      matrices of a batch too small for a call of BLAS to be worth it, products that sum nothing, and
           those of few terms of which an operand would be copied: one launch of our own, of any strides,
           where long sums are a warp's
thin       few terms, and a large result in rows, whose bytes decide: one launch of our own that copies
           nothing, of float32 and float64
pieces     many terms of float32, and a large result in rows, where multiplications decide: tiles of our own,
           for which an operand is copied if neither terms nor rows of it lie side by side; where numbers are
           used often, launches before take them apart
gemm       batch, free and contracted axes fuse as they lie: strided-batched cuBLAS; or they do once the
           first free axes of one operand count as a batch, for which the other stays where it is
cutensor   they do not, copies of them would take longer than the product, cuTENSOR is there and knows the
           dtype: it reads any strides
packed     what does not fuse is copied into the order of a product first

A contraction of which nothing is copied is left to cuBLAS: cuTENSOR spends a second on its first plan.
Integers and bool go through the module's own matmul. Half precisions are read as they are and summed in
single precision. float32 and complex64 are rounded to fewer digits only where the option `precision` asks
for it; pieces lose none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._base.options import get_options
from ..catalogue import Attrs
from ..cpu.contraction import matmul_attrs
from ..rules import DotDims, dot_dims
from ..spec import ArraySpec, Axes, compute_dtype
from . import cutensor
from .arrays import element_strides
from .blas import Multiply
from .cuda.kernel import CudaKernel
from .cuda.products import SHORT, products
from .cuda.types import type_of
from .gemm import DTYPES, SUMMED, Gemm, Matrices, bound, gemm_of
from .launch import can_launch, launcher
from .memory import address
from .modules import Array, Module
from .move import contiguous
from .tiles import in_pieces, in_thin, is_in_pieces, is_thin, may_be_in_pieces

Inputs = tuple[ArraySpec, ...]
MOST_KNOWN = 8
LEAST = 16  # rows, columns and terms of matrices for which a batch of them beats a copy
Pair = tuple[Any, Any]
FEW, FEWER = 1 << 22, 1 << 20
"""Terms of all sums, of short ones and of long ones: they are added up sooner than operands are copied."""
LONG = 4096  # terms of one sum that a warp may add up: beyond, it takes longer than copies
WORTH_IT = 8
"""Of the result this part must be copied otherwise: a batch of products takes longer to write it."""
OPERATIONS = 16
"""Operations for each byte that would be copied up to which cuTENSOR takes a product. On an H200 it was ahead
of copies by 1.05 to 1.8 in 5 of 6 products with 4 to 12; with 18 and more it was behind in most, by up to
1.8, and given the least workspace by up to 4."""
MANY = 1024
"""Terms of a product in pieces from which it is added to an array by passes of their own."""
SMALL = 8  # rows, columns and terms of sums up to which many matrices are one launch of our own


class Groups(NamedTuple):
    """The axes of an operand, in the order in which a batched matrix has them."""

    batch: Axes
    rows: Axes
    columns: Axes


class Parted(NamedTuple):
    """A product with a batch of free axes of one operand.

    Attributes:
        nbytes: of the other operand, if that is copied.
        batch: its length.
        groups: the axes of lhs, rhs and the result, those of a copy as they lie in it.
        orders: the axes of each operand in the order in which it is copied, None where it stays.
    """

    nbytes: int
    batch: int
    groups: tuple[Groups, Groups, Groups]
    orders: tuple[Axes | None, Axes | None]


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
        is_half = lhs.dtype == rhs.dtype and lhs.dtype.name in SUMMED
        self.read = lhs.dtype if is_half else dtype  # what operands are read as
        self.is_blas = self.read.name in DTYPES
        self.has_kernel = can_launch(xp) and type_of(self.read) is not None
        self.precision = get_options().precision
        self.known: dict[Any, Multiply] = {}  # what calls came to, by the strides of all three
        self.shape = (
            *(lhs.shape[axis] for axis in self.dims.lhs_batch + self.dims.lhs_free),
            *(rhs.shape[axis] for axis in self.dims.rhs_free),
        )
        sizes = (math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))
        self.fresh = tuple(self.read.itemsize * size for size in sizes)  # strides of a new result

    def __call__(self, lhs: Array, rhs: Array, out: Any = None, is_wide: bool = False) -> Any:
        """The product, in `out` if that is returned; else in the dtype that it is read in, or if `is_wide`
        in that which it is summed in."""
        is_known = not is_wide or self.dtype == self.read
        if is_known and (found := self._again(lhs, rhs, out)) is not None:
            return found
        lhs, rhs = (x.astype(self.read, copy=False) for x in (lhs, rhs))
        rung = self.rung(lhs, rhs, self._is_in_rows(out))
        if rung == "zeros":
            return self.xp.zeros(self.shape, self.dtype)
        made = self.dtype if is_wide else self.read
        if rung == "small":
            target = self._target(made, out)
            left, right = (x.astype(made, copy=False) for x in (lhs, rhs))
            kernel = self._small(left, right, target)
            if kernel is not None:
                multiply = _launching(self.xp, kernel)
                multiply(left, right, target)
                self._know(left, right, target, multiply)
                return target
        if rung in ("thin", "pieces"):
            in_tiles = self._in_tiles(rung, lhs, rhs)
            if in_tiles is not None:
                target = self._target(self.read, out)
                in_tiles(lhs, rhs, target)
                if (lhs.strides, rhs.strides, target.strides) not in self.known:
                    self._know(lhs, rhs, target, in_tiles)  # else cuBLAS did it
                return target
        if rung == "cutensor":
            left, right = (
                self._conjugated(*pair) for pair in zip((lhs, rhs), self.conj, strict=True)
            )
            found = cutensor.contract(self.xp, left, right, self.dims, self.shape, out)
            if found is not None:
                return found
        # what is asked for need not lie as cuBLAS writes
        places = (None,) if out is None else (out, None)
        for place in places if self.is_blas else ():
            target = self._target(made, place)
            if self.gemm(lhs, rhs, target):
                return target
        return self._matmul(lhs, rhs)

    def _again(self, lhs: Array, rhs: Array, out: Any) -> Any:
        """What the call before did, if it was one launch or call of cuBLAS on arrays that lay like these.

        Arrays of a program lie in the same way every time: the ladder is gone through once.
        """
        read = self.read
        if not self.known or lhs.dtype != read or rhs.dtype != read:
            return None
        fit = out if out is not None and out.dtype == read else None
        strides = self.fresh if fit is None else fit.strides
        multiply = self.known.get((lhs.strides, rhs.strides, strides))
        size = read.itemsize
        if multiply is None or address(lhs) % size or address(rhs) % size:
            return None
        if fit is None:
            fit = self.xp.empty(self.shape, read)
        elif address(fit) % size:
            return None
        multiply(lhs, rhs, fit)
        return fit

    def _target(self, dtype: Any, out: Any) -> Any:
        is_fit = out is not None and out.dtype == dtype
        return out if is_fit else self.xp.empty(self.shape, dtype)

    def _conjugated(self, x: Array, conj: bool) -> Any:
        return self.xp.conjugate(x) if conj and x.dtype.kind == "c" else x

    def _is_in_rows(self, out: Any) -> bool:
        """Whether a result in `out`, or the new one where that is of another dtype, lies in rows."""
        if out is None or out.dtype != self.read:
            return True
        return out.strides == self.fresh and element_strides(out) is not None

    def rung(self, lhs: Array, rhs: Array, in_rows: bool = True) -> str:
        """Which step of the ladder takes a product of arrays that lie like these.

        Args:
            in_rows: whether what is written lies in rows.
        """
        dims = self.dims
        if not min(dims.batch, dims.m, dims.n, dims.k):
            return "zeros"
        if self.has_kernel and self._is_small():
            return "small"
        if in_rows and self.has_kernel:
            if is_thin(self.xp, dims, self.read, self.precision, lhs, rhs):
                return "thin"
            if may_be_in_pieces(dims, self.read, self.precision):
                to_copy = 0 if self.is_one_call(lhs, rhs) else self._bytes_to_copy(lhs, rhs)
                if is_in_pieces(self.xp, dims, to_copy, lhs, rhs):
                    return "pieces"
        if self.is_one_call(lhs, rhs):
            return "gemm"
        most = FEW if dims.k <= SHORT else FEWER if self.is_blas and dims.k <= LONG else 0
        if dims.batch * dims.m * dims.n * dims.k <= most and self.has_kernel:
            return "small"
        is_worth = self._operations() <= OPERATIONS * self._bytes_to_copy(lhs, rhs)
        is_taken = is_worth and cutensor.takes(self.xp, self.read, lhs, rhs)
        return "cutensor" if is_taken else "packed"

    def rung_of_sum(self, lhs: Array, rhs: Array) -> str:
        """The same where it is added to an array. cuBLAS adds as it writes, and what has few terms is little
        to copy beside its result; where there are many, passes over the result are little beside what pieces
        gain."""
        rung = self.rung(lhs, rhs)
        is_for_blas = rung == "thin" or (rung == "pieces" and self.dims.k < MANY)
        return "gemm" if is_for_blas else rung

    def _operations(self) -> int:
        """On real numbers."""
        dims = self.dims
        each = 8 if self.read.kind == "c" else 2
        return each * dims.batch * dims.m * dims.n * dims.k

    def _bytes_to_copy(self, lhs: Array, rhs: Array) -> int:
        order = contracted_order(self.dims, lhs, rhs)
        return sum(copied(x, groups) for x, groups in zip((lhs, rhs), order, strict=True))

    def is_one_call(self, lhs: Array, rhs: Array) -> bool:
        """Whether nothing is copied for a product of matrices."""
        if not min(self.dims.batch, self.dims.m, self.dims.n, self.dims.k):
            return False
        if not self._bytes_to_copy(lhs, rhs):
            return True
        parted = self._parted(lhs, rhs)
        return parted is not None and not parted.nbytes

    # ---- one launch of our own -----------------------------------------------------------------

    def _is_small(self) -> bool:
        dims = self.dims
        few = dims.batch > 1 and max(dims.m, dims.n, dims.k) <= SMALL
        return few or not dims.lhs_contracting

    def _small(self, lhs: Array, rhs: Array, out: Any) -> CudaKernel | None:
        dims = self.dims
        strides = tuple(map(element_strides, (out, lhs, rhs)))
        of_out, of_lhs, of_rhs = strides
        if of_out is None or of_lhs is None or of_rhs is None:
            return None
        batch, rows, columns = len(dims.lhs_batch), len(dims.lhs_free), len(dims.rhs_free)
        left = (*(of_lhs[a] for a in dims.lhs_batch + dims.lhs_free), *(0,) * columns)
        right = [of_rhs[a] for a in dims.rhs_batch + dims.rhs_free]
        right[batch:batch] = [0] * rows
        summed = (
            tuple(lhs.shape[axis] for axis in dims.lhs_contracting),
            tuple(of_lhs[axis] for axis in dims.lhs_contracting),
            tuple(of_rhs[axis] for axis in dims.rhs_contracting),
        )
        free = (self.shape, of_out, left, tuple(right))
        conj = self.conj if self.read.kind == "c" else (False, False)
        return products(out.dtype.name, free, summed, tuple(conj))

    def _in_tiles(self, rung: str, lhs: Array, rhs: Array) -> Multiply | None:
        if rung == "thin":
            return in_thin(self.xp, self.dims, self.read, self.precision, lhs, rhs)
        return in_pieces(self.xp, self.dims, lhs, rhs, self._by_cublas)

    def _by_cublas(self, lhs: Array, rhs: Array, out: Array) -> None:
        """A product of a dtype of cuBLAS's, in rows, which stays with it from now on."""
        if not self.gemm(lhs, rhs, out):
            self.xp.copyto(out, self._matmul(lhs, rhs))

    # ---- products of matrices ------------------------------------------------------------------

    def gemm(self, lhs: Array, rhs: Array, out: Array, alpha: Any = 1, beta: Any = 0) -> bool:
        """out = alpha lhs rhs + beta out by cuBLAS, if it can write there; operands are copied if they must
        be."""
        dims, target = self.dims, self._dense(out)
        if not self.is_blas or target is None:
            return False
        parted, factors = self._parted(lhs, rhs), (alpha, beta)
        if parted is not None and self._multiplied((lhs, rhs), parted, out, factors):
            return True
        order = contracted_order(dims, lhs, rhs)
        spans = [_spans(*map(len, groups)) for groups in order]
        operands = [
            self._matrices(x.astype(self.read, copy=False), groups)
            for x, groups in zip((lhs, rhs), order, strict=True)
        ]
        conj = self.conj if self.read.kind == "c" else (False, False)
        call = self._call(operands, spans, target, conj)
        if call is None and any(conj):  # no flag says that
            operands = [
                contiguous(self.xp, self._conjugated(x, flag))
                for x, flag in zip(operands, conj, strict=True)
            ]
            call = self._call(operands, spans, target, (False, False))
        if call is None:
            return False
        multiply = bound(self.xp, call, self.read, out.dtype, factors, self.precision)
        multiply(operands[0], operands[1], out)
        orders = [
            None if address(x) == address(y) else groups.batch + groups.rows + groups.columns
            for x, y, groups in zip(operands, (lhs, rhs), order, strict=True)
        ]
        if orders == [None, None]:
            self._know(lhs, rhs, out, multiply, factors)
        elif not any(conj):
            self._know(lhs, rhs, out, _packing(self.xp, multiply, *orders), factors)
        return True

    def can_write(self, out: Array) -> bool:
        """Whether cuBLAS can: rows or columns of the result lie side by side."""
        return self._dense(out) is not None

    def _dense(self, out: Array) -> Matrices | None:
        dims = self.dims
        counts = (len(axes) for axes in (dims.lhs_batch, dims.lhs_free, dims.rhs_free))
        target = as_matrices(out, _spans(*counts))
        return target if target is not None and target.are_dense else None

    def _multiplied(self, operands: Pair, parted: Parted, out: Array, factors: Pair) -> bool:
        """out = alpha lhs rhs + beta out by one call with a batch of free axes, if there is one."""
        conj = self.conj if self.read.kind == "c" else (False, False)
        given, orders = operands, parted.orders
        operands = tuple(
            x if order is None else contiguous(self.xp, x.transpose(order))
            for x, order in zip(given, orders, strict=True)
        )
        found = (as_matrices(x, g) for x, g in zip((*operands, out), parted.groups, strict=True))
        lhs, rhs, target = found
        if lhs is None or rhs is None or target is None:
            return False
        call = gemm_of(lhs, rhs, target, parted.batch, conj)
        if call is None:
            return False
        multiply = bound(self.xp, call, self.read, out.dtype, factors, self.precision)
        multiply(*operands, out)
        if orders != (None, None):
            multiply = _packing(self.xp, multiply, *orders)
        self._know(*given, out, multiply, factors)
        return True

    def _parted(self, lhs: Array, rhs: Array) -> Parted | None:
        """The shortest batch of free axes of one operand with which it is not copied, and the other is not
        either, or is small beside it; None where nothing is copied anyway, where a batch takes more, and
        where the matrices that are left are small."""
        dims = self.dims
        if dims.lhs_batch or min(dims.m, dims.n, dims.k) < LEAST or any(self.conj):
            return None
        found: list[Parted] = []
        left, right = len(dims.lhs_free), len(dims.rhs_free)
        of_left, of_right = tuple(range(left)), tuple(range(left, left + right))
        for a, b in orders_of(dims, lhs, rhs):
            costs = copied(lhs, a), copied(rhs, b)
            if not any(costs):
                return None
            is_left = costs[0] > costs[1]
            x, free = (lhs, dims.lhs_free) if is_left else (rhs, dims.rhs_free)
            beside = b if is_left else a  # the other one's axes
            if WORTH_IT * min(costs) > max(costs) or WORTH_IT * x.size < dims.m * dims.n:
                continue
            order = None if not min(costs) else beside.rows + beside.columns
            other = beside if order is None else _spans(0, len(beside.rows), len(beside.columns))
            for cut in range(1, len(free)):
                first, rest = free[:cut], free[cut:]
                batch = math.prod(x.shape[axis] for axis in first)
                if batch * LEAST > (dims.m if is_left else dims.n):
                    break
                if is_left:
                    own = Groups(first, rest, a.columns)
                    groups = own, other, Groups(of_left[:cut], of_left[cut:], of_right)
                else:
                    own = Groups(first, b.rows, rest)
                    groups = other, own, Groups(of_right[:cut], of_left, of_right[cut:])
                if not copied(x, own):
                    orders = (None, order) if is_left else (order, None)
                    found.append(Parted(min(costs), batch, groups, orders))
        return min(found, key=lambda one: one[:2], default=None)

    def _know(
        self, lhs: Array, rhs: Array, out: Array, multiply: Multiply, factors: Pair = (1, 0)
    ) -> None:
        """Keep a product without factors for arrays that lie like these."""
        if factors != (1, 0) or not lhs.dtype == rhs.dtype == out.dtype == self.read:
            return
        if any(element_strides(x) is None for x in (lhs, rhs, out)):
            return  # what lies between elements took a way of its own
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        self.known[lhs.strides, rhs.strides, out.strides] = multiply

    def _call(
        self, operands: list[Array], spans: list[Groups], out: Matrices, conj: tuple[bool, bool]
    ) -> Gemm | None:
        lhs, rhs = (as_matrices(x, groups) for x, groups in zip(operands, spans, strict=True))
        return None if lhs is None or rhs is None else gemm_of(lhs, rhs, out, self.dims.batch, conj)

    def _matmul(self, lhs: Array, rhs: Array) -> Any:
        """By batched matrices, [batch, m, k] and [batch, k, n]; what does not fuse is copied."""
        lhs, rhs = (
            self._conjugated(x.astype(self.dtype, copy=False), conj)
            for x, conj in zip((lhs, rhs), self.conj, strict=True)
        )
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

    def _matrices(self, x: Array, groups: Groups) -> Any:
        """x with the axes of each group side by side, one copy where they do not fuse."""
        turned = x.transpose(groups.batch + groups.rows + groups.columns)
        if element_strides(x) is None:  # between elements
            return turned.copy(order="C")
        return contiguous(self.xp, turned) if copied(x, groups) else turned


def _launching(xp: Module, kernel: CudaKernel) -> Multiply:
    start = launcher(xp, kernel)
    return lambda lhs, rhs, out: start(out, lhs, rhs)


def _packing(xp: Module, multiply: Multiply, left: Axes | None, right: Axes | None) -> Multiply:
    """With operands copied first into the order of these axes."""

    def packed(lhs: Array, rhs: Array, out: Array) -> None:
        a = lhs if left is None else contiguous(xp, lhs.transpose(left))
        b = rhs if right is None else contiguous(xp, rhs.transpose(right))
        multiply(a, b, out)

    return packed


def _spans(batch: int, rows: int, columns: int) -> Groups:
    """The axes 0, 1, ... in groups of so many."""
    axes = tuple(range(batch + rows + columns))
    return Groups(axes[:batch], axes[batch : batch + rows], axes[batch + rows :])


def as_matrices(x: Array, groups: Groups) -> Matrices | None:
    """The axes of each group as one, where they fuse."""
    if element_strides(x) is None:
        return None
    (_, batch), (m, row), (n, column) = (fused_stride(x, axes) for axes in groups)
    if batch is None or row is None or column is None:
        return None
    return Matrices(m, n, batch // x.itemsize, row // x.itemsize, column // x.itemsize)


def orders_of(dims: DotDims, lhs: Array, rhs: Array) -> list[tuple[Groups, Groups]]:
    """Both operands' axes, the contracted ones in the order that was given, or as they lie in either."""
    pairs = list(zip(dims.lhs_contracting, dims.rhs_contracting, strict=True))
    orders = [
        pairs,
        sorted(pairs, key=lambda pair: -abs(lhs.strides[pair[0]])),
        sorted(pairs, key=lambda pair: -abs(rhs.strides[pair[1]])),
    ]
    found = []
    for order in orders:
        left, right = tuple(i for i, _ in order), tuple(j for _, j in order)
        found.append(
            (
                Groups(dims.lhs_batch, dims.lhs_free, left),
                Groups(dims.rhs_batch, right, dims.rhs_free),
            )
        )
    return found


def contracted_order(dims: DotDims, lhs: Array, rhs: Array) -> tuple[Groups, Groups]:
    """That of which the fewest bytes are copied."""
    return min(
        orders_of(dims, lhs, rhs), key=lambda pair: copied(lhs, pair[0]) + copied(rhs, pair[1])
    )


def copied(x: Array, groups: Groups) -> int:
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


def fused_stride(x: Array, axes: Sequence[int]) -> tuple[int, int | None]:
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


def engine_of(xp: Module, op: str, attrs: Attrs, inputs: Inputs) -> str:
    """The rung for row-major operands."""
    attrs = matmul_attrs(inputs) if op == "matmul" else attrs
    product = Product(xp, attrs, inputs)
    lhs, rhs = (Strided(spec) for spec in inputs)
    return product.rung_of_sum(lhs, rhs) if op == "dot_general_add" else product.rung(lhs, rhs)


class Strided:
    """What `rung` reads of an array, without one."""

    def __init__(self, spec: ArraySpec) -> None:
        dtype = compute_dtype(spec.dtype)
        self.shape, self.ndim, self.itemsize = spec.shape, len(spec.shape), dtype.itemsize
        self.size, self.nbytes = spec.size, spec.size * dtype.itemsize
        order = spec.layout or tuple(range(self.ndim))
        strides, step = [0] * self.ndim, dtype.itemsize
        for axis in reversed(order):
            strides[axis], step = step, step * spec.shape[axis]
        self.strides = tuple(strides)

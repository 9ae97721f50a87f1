"""A contraction as products of matrices that BLAS reads where they lie.

Which axes are matrices, which are loops around them and what is copied first is decided by
`plan_matrices` of backend/matrices.py, for the orders that the specs name, row-major where they name none.
Arrays may lie otherwise all the same (users' operands do): what then does not fit is copied when the kernel
runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._base.caches import Cache
from ..._base.options import get_options
from ..catalogue import DotDims
from ..contraction import Contraction, Labels, contraction_of, orders_of
from ..cost_model import MODELS
from ..matrices import WIDEST, Products, is_tall, plan_matrices
from ..protocol import Kernel
from ..spec import ArraySpec, Axes, Shape
from .buffers import LARGE, LENT, allocator, empty, empty_as, fresh
from .move import move, packed, reshaped_view
from .quiet import fill, quietly
from .sharing import BLAS, STREAMED, Way, multiply, multiply_once, shared_bytes, way_of
from .summed_products import (
    are_element_by_element,
    bind_element_by_element,
    element_by_element_bytes,
)

SHORT = 31  # most elements of rows that are multiplied and added up all at once, where there are
MANY_ROWS = 128  # at least, and where the products
NEAR = 1 << 20  # bytes stay in a core's own cache
FEW = 1 << 14  # elements of each array below which what Python does around NumPy matters


def bind_matrices(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec, own_threads: bool = False
) -> Kernel:
    """A kernel for a contraction with at least one multiplication; see `_Views` for what it looks at. With
    `own_threads`, BLAS uses none of its own."""
    lhs, rhs = inputs
    lhs_perm, rhs_perm = dims.lhs_free + dims.lhs_contracting, dims.rhs_contracting + dims.rhs_free
    # np.dot of objects loses errors; of other dtypes without BLAS it is no faster than matmul
    one = not dims.lhs_batch and output.layout is None and output.dtype.char in BLAS
    if (
        one
        and not is_tall(dims.m, dims.n, dims.k)
        and _plain(lhs_perm, lhs, (dims.m, dims.k))
        and _plain(rhs_perm, rhs, (dims.k, dims.n))
    ):
        return _bind_plain(output, _way_of_one(dims, inputs, output, own_threads))
    if _are_rows(dims, inputs, output):
        if _are_short(dims):
            return _bind_short_rows(dims, output)
        if not (_are_shorter(dims, output) and are_element_by_element(dims, inputs, output)):
            return _bind_rows(output)
    if are_element_by_element(dims, inputs, output):
        return bind_element_by_element(dims, inputs, output)
    step, plan, views = _laid_out(dims, inputs, output)
    if one and not views.loops and views.is_row_major and not plan.packed[2]:
        return _bind_one(views, inputs, output, _way_of_one(dims, inputs, output, own_threads))
    return _bind_loops(views, plan, inputs, output, _way(views, step, plan, output, own_threads))


def way_where_they_lie(
    amounts: tuple[int, int, int, int], nbytes: int, dtype: np.dtype[Any], is_matrix: bool
) -> Way | None:
    """On which threads `bind_matrices` would multiply batches of matrices [m, k] x [k, n] that BLAS can read,
    if that were all there is to do; None where it would look closer. `is_matrix`: whether there is one pair
    of row-major arrays of two axes."""
    batch, m, n, k = amounts
    if batch > 1 and m == n == 1:
        return None
    # see `plan_matrices`: of few columns and more rows it may write the result transposed first
    if n > 1 and (is_tall(m, n, k) or not (is_matrix or m <= n or m >= WIDEST)):
        return None
    loops = (batch,) if batch > 1 else ()
    way = way_of(loops, (m, n, k), nbytes, dtype, own_threads=False)
    if way == "plain" or way == "loops":
        return way
    return way_of(loops, (m, n, k), nbytes, dtype, own_threads=True)


def matrices(x: Any, batch: int, shape: tuple[int, int], is_row_major: bool) -> Any:
    """A row-major array as such a batch, whose matrices have this shape and are perhaps column-major."""
    rows, columns = shape
    inner = shape if is_row_major else (columns, rows)
    whole = (batch, *inner) if batch > 1 else inner
    if x.shape != whole:
        x = x.reshape(whole)
    return x if is_row_major else x.swapaxes(-1, -2)


def multiply_where_they_lie(left: Any, right: Any, way: Way) -> Any:
    """What the kernel of `bind_matrices` makes of such batches, for a first call."""
    product = fresh((*left.shape[:-1], right.shape[-1]), left.dtype, (left, right))
    if way == "plain" and left.ndim == 2:
        return np.dot(left, right, out=product)
    return multiply_once(left, right, product, way)


def uses_threads(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> bool:
    """Whether our own threads work for such a kernel even where those of BLAS may: they share products out,
    or copy large operands."""
    step, plan, views = _laid_out(dims, inputs, output)
    if any(n >= LARGE for n, copied in zip(step.nbytes, plan.packed, strict=True) if copied):
        return True
    return _way(views, step, plan, output, own_threads=False) != "plain"


class _Laid(NamedTuple):
    """A contraction as products of matrices."""

    step: Contraction
    plan: Products
    views: _Views


_LAID: Cache[_Laid] = Cache("products of matrices", 1024)


def _laid_out(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> _Laid:
    """It is asked for when memory is planned, when threads are chosen and when the kernel is bound."""
    lhs, rhs = inputs
    key = (dims, lhs, rhs, output, MODELS.current)
    found = _LAID.get(key)
    if found is None:
        step, left, right = contraction_of(dims, lhs, rhs)
        orders = orders_of(step, left, right, (lhs, rhs, output))
        plan = plan_matrices(step, orders)
        found = _LAID.put(key, _Laid(step, plan, _Views(step, plan, left, right, orders)))
    return found


def _way_of_one(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec, own_threads: bool
) -> Way:
    nbytes = sum(x.nbytes for x in (*inputs, output))
    return way_of((), (dims.m, dims.n, dims.k), nbytes, output.dtype, own_threads)


def _way(
    views: _Views, step: Contraction, plan: Products, output: ArraySpec, own_threads: bool
) -> Way:
    m, n, k = map(step.size, (plan.rows, plan.columns, plan.contracted))
    return way_of(tuple(views.loops), (m, n, k), sum(step.nbytes), output.dtype, own_threads)


def packed_bytes(
    dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec, threads: int
) -> int:
    """Upper bound of what is copied, since an operand whose order is not known may have to be, and of sums
    that are shared out."""
    lhs, rhs = inputs
    step, plan, views = _laid_out(dims, inputs, output)
    if _are_rows(dims, inputs, output) and _are_short(dims):
        return lhs.nbytes + output.nbytes
    if are_element_by_element(dims, inputs, output):
        return element_by_element_bytes(inputs, output)
    is_copied = (
        plan.packed[0] or lhs.layout is None,
        plan.packed[1] or rhs.layout is None,
        plan.packed[2],
    )
    copied = sum(
        x.nbytes for x, is_one in zip((lhs, rhs, output), is_copied, strict=True) if is_one
    )
    one, itemsize = (dims.m, dims.n, dims.k), output.dtype.itemsize
    m, n, k = map(step.size, (plan.rows, plan.columns, plan.contracted))
    shared = (
        shared_bytes(_way_of_one(dims, inputs, output, own_threads=True), 1, one, itemsize, threads),
        shared_bytes(
            _way(views, step, plan, output, own_threads=True),
            math.prod(views.loops), (m, n, k), itemsize, threads,
        ),
    )  # fmt: skip
    return copied + max(shared)


class _Views:
    """How each array is looked at: axes permuted by `perm`, then reshaped to [loops..., rows, columns].

    Loops that are neighbours in every array are one; an array that does not depend on a loop has size 1
    there, which matmul broadcasts.
    """

    def __init__(
        self,
        step: Contraction,
        plan: Products,
        left: Labels,
        right: Labels,
        orders: Sequence[Labels],
    ) -> None:
        self.sizes = step.sizes
        inner = {*plan.rows, *plan.columns}
        given = [
            None if copied else order for copied, order in zip(plan.packed, orders, strict=True)
        ]
        labels = [x for x in orders[2] if x not in inner]
        if plan.packed[2]:  # a temporary: batches first, where matmul finds them fastest
            labels.sort()
        merged = _merged(labels, step, given)
        self.loops = [step.size(group) for group in merged]
        sides = ({*step.batch, *step.rows}, {*step.batch, *step.columns})
        matrices = (
            (plan.rows, plan.contracted),
            (plan.contracted, plan.columns),
        )
        out_axes: Labels = (*labels, *plan.rows, *plan.columns)
        self.perms: list[Axes] = []
        self.shapes: list[Shape] = []
        for own, has, matrix in zip((left, right), sides, matrices, strict=True):
            axis_of = {label: axis for axis, label in enumerate(own)}
            order = [x for x in labels if x in has] + [x for group in matrix for x in group]
            self.perms.append(tuple(axis_of[x] for x in order))
            loops = (step.size(group) if group[0] in has else 1 for group in merged)
            self.shapes.append((*loops, *(step.size(group) for group in matrix)))
        self.perms.append(out_axes)
        self.shapes.append((*self.loops, step.size(plan.rows), step.size(plan.columns)))
        self.is_row_major = out_axes == tuple(range(len(out_axes)))


def _merged(
    labels: Iterable[int], step: Contraction, orders: Sequence[Labels | None]
) -> list[list[int]]:
    """Groups of loops that every array has as neighbours, or not at all."""
    group_of = {
        x: k for k, group in enumerate((step.batch, step.rows, step.columns)) for x in group
    }
    places = [None if o is None else {x: at for at, x in enumerate(o)} for o in orders]
    merged: list[list[int]] = []
    for x in labels:
        before = merged[-1][-1] if merged else None
        if (
            before is not None
            and group_of[before] == group_of[x]
            and all(at is None or x not in at or at[x] == at[before] + 1 for at in places)
        ):
            merged[-1].append(x)
        else:
            merged.append([x])
    return merged


def _plain(perm: Axes, spec: ArraySpec, matrix: tuple[int, int]) -> bool:
    return perm == tuple(range(len(perm))) and spec.shape == matrix and spec.layout is None


def _are_rows(dims: DotDims, inputs: tuple[ArraySpec, ...], output: ArraySpec) -> bool:
    """Whether the last axes of two arrays are multiplied and added up, the others being the same: not much
    of it, and real numbers (numpy.vecdot conjugates)."""
    batch = tuple(range(len(output.shape)))
    return (
        _HAS_VECDOT
        and len(batch) > 0
        and dims.lhs_batch == dims.rhs_batch == batch
        and dims.lhs_contracting == dims.rhs_contracting == (len(batch),)
        and output.dtype.char in "fd"
        and output.layout is None
        and sum(x.nbytes for x in inputs) < STREAMED
    )


def _bind_rows(output: ArraySpec) -> Kernel:
    make = allocator(output)

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        return quietly(np.vecdot, lhs, rhs, out=make() if out is None else out)

    return run


def _are_short(dims: DotDims) -> bool:
    """Whether rows take less time all at once than one after another, since BLAS adds up less than 32
    elements number by number: 2000 rows of four elements take half of the time, of 24 take 0.8 to 1.0 of it,
    and in single precision all of them a third to a fifth."""
    return dims.k <= SHORT and dims.batch >= MANY_ROWS and 8 * dims.batch * dims.k <= NEAR


def _are_shorter(dims: DotDims, output: ArraySpec) -> bool:
    """Whether they do in pieces, too, where all at once leave the cache: 25000 rows of eight elements take
    0.6 of the time (float64) or 0.3 (float32), 8333 of 24 take 1.1 or 0.4."""
    return dims.batch >= MANY_ROWS and dims.k <= (
        SHORT if output.dtype.itemsize == 4 else SHORT // 2
    )


def _bind_short_rows(dims: DotDims, output: ArraySpec) -> Kernel:
    """All products, and what they come to by a matrix times a vector of ones."""
    make, ones, products = allocator(output), np.ones(dims.k, output.dtype), (dims.batch, dims.k)
    is_line = len(output.shape) == 1

    def line_of_sums(lhs: Any, rhs: Any) -> Any:
        return np.dot(np.multiply(lhs, rhs, order="C"), ones)

    def sums_into(lhs: Any, rhs: Any, out: Any) -> Any:
        rows = np.multiply(lhs, rhs, order="C").reshape(products)
        if out.flags.c_contiguous and out.flags.aligned:
            np.dot(rows, ones, out=out.reshape(-1))
        else:
            out[...] = np.dot(rows, ones).reshape(out.shape)
        return out

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        # sums warn as products do: infinite numbers of both signs, or numbers that are too large together
        if out is None and is_line:
            return quietly(line_of_sums, lhs, rhs)
        return quietly(sums_into, lhs, rhs, make() if out is None else out)

    return run


_HAS_VECDOT = np.lib.NumpyVersion(np.__version__) >= "2.0.0"


def _bind_plain(output: ArraySpec, way: Way) -> Kernel:
    """Operands and result are the matrices themselves."""
    is_small = output.nbytes < LENT
    if way != "plain":
        return _bind_shared(output, way)
    dot = np.dot  # to look it up takes a thirtieth of a small call

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        if out is None:
            return dot(lhs, rhs) if is_small else _dot(lhs, rhs, output)
        if _takes_products(out):
            return dot(lhs, rhs, out)
        with np.errstate(all="ignore"):
            return np.matmul(_blas_ready(lhs), _blas_ready(rhs), out=out)

    return run


def _bind_shared(output: ArraySpec, way: Way) -> Kernel:
    """The same on threads that `way` names."""

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        left, right = _blas_ready(lhs), _blas_ready(rhs)
        if out is None:
            return multiply(left, right, empty(output.shape, output.dtype), way)
        if _is_blas_ready(out) and out.flags.aligned:
            return multiply(left, right, out, way)
        np.copyto(out, multiply(left, right, empty(output.shape, output.dtype), way))
        return out

    return run


def _are_few(inputs: tuple[ArraySpec, ...], output: ArraySpec) -> bool:
    """Whether what Python does around NumPy matters, and no kernel of ours would copy what lies badly."""
    most = max(x.size for x in (*inputs, output))
    return most < min(FEW, get_options().small)


def _look(views: _Views, side: int) -> Callable[[Any], Any]:
    """What shows a small operand as `views` has it; NumPy copies what it cannot show."""
    perm, shape = views.perms[side], views.shapes[side]
    if perm == tuple(range(len(perm))):
        return lambda x: x.reshape(shape)
    return lambda x: x.transpose(perm).reshape(shape)


def _bind_few(views: _Views, output: ArraySpec) -> Kernel:
    """One product of small matrices: of what `_bind_one` does, no more than has to be."""
    of_lhs, of_rhs, matrix = _look(views, 0), _look(views, 1), views.shapes[2]
    shape, dot = output.shape, np.dot

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        left, right = of_lhs(lhs), of_rhs(rhs)
        if out is None:
            return dot(left, right).reshape(shape)
        if _takes_products(out):
            dot(left, right, out.reshape(matrix))
        else:
            np.copyto(out, dot(left, right).reshape(shape))
        return out

    return run


def _bind_one(views: _Views, inputs: tuple[ArraySpec, ...], output: ArraySpec, way: Way) -> Kernel:
    """One product of matrices, whose axes are those of the result in order."""
    (lhs_perm, rhs_perm, _), (lhs_shape, rhs_shape, matrix) = views.perms, views.shapes
    shape = output.shape
    if way == "plain" and _are_few(inputs, output):
        return _bind_few(views, output)
    product = None if way == "plain" else _bind_shared(ArraySpec(output.dtype, matrix), way)

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        left = packed(lhs.transpose(lhs_perm), lhs_shape)
        right = packed(rhs.transpose(rhs_perm), rhs_shape)
        if product is not None:
            if out is None:
                return product(left, right).reshape(shape)
            if _takes_products(out):
                product(left, right, out=out.reshape(matrix))
            else:
                np.copyto(out, product(left, right).reshape(shape))
            return out
        # np.dot, not matmul: it packs what BLAS cannot read, where matmul falls back to slow loops
        if out is None:
            return _dot(left, right, output).reshape(shape)
        if _takes_products(out):
            np.dot(left, right, out=out.reshape(matrix))
            return out
        np.copyto(out, _dot(left, right, output).reshape(shape))
        return out

    return run


def _dot(left: Any, right: Any, output: ArraySpec) -> Any:
    """np.dot of two matrices, into lent memory where the product is large."""
    if output.nbytes < LENT:
        return np.dot(left, right)
    shape = (left.shape[0], right.shape[1])
    return np.dot(left, right, out=empty(shape, output.dtype))


def _bind_few_loops(views: _Views, output: ArraySpec) -> Kernel:
    """numpy.matmul over loops of small matrices: of what `_bind_loops` does, no more than has to be."""
    of_lhs, of_rhs, products = _look(views, 0), _look(views, 1), views.shapes[2]
    shape, dtype = output.shape, output.dtype

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        left, right = of_lhs(lhs), of_rhs(rhs)
        is_written = out is not None and _takes_products(out)
        product = out.reshape(products) if is_written else np.empty(products, dtype)
        fill(
            np.matmul,
            left if _is_blas_ready(left) else left.copy(),
            right if _is_blas_ready(right) else right.copy(),
            product,
        )
        if out is None:
            return product.reshape(shape)
        if not is_written:
            np.copyto(out, product.reshape(shape))
        return out

    return run


def _bind_loops(
    views: _Views, plan: Products, inputs: tuple[ArraySpec, ...], output: ArraySpec, way: Way
) -> Kernel:
    """numpy.matmul over the loops, on threads that `way` names."""
    (lhs_perm, rhs_perm, out_perm), (lhs_shape, rhs_shape, products) = views.perms, views.shapes
    unmerged = tuple(views.sizes[x] for x in out_perm)
    dtype = output.dtype
    is_row_major = views.is_row_major and output.layout is None and not plan.packed[2]
    if way == "plain" and is_row_major and output.dtype.char in BLAS and _are_few(inputs, output):
        return _bind_few_loops(views, output)

    def run(lhs: Any, rhs: Any, out: Any = None) -> Any:
        left = _blas_ready(packed(lhs.transpose(lhs_perm), lhs_shape))
        right = _blas_ready(packed(rhs.transpose(rhs_perm), rhs_shape))
        if out is None and is_row_major:
            return multiply(left, right, empty(products, dtype), way).reshape(output.shape)
        if out is None:
            out = empty_as(output)
        target = out.transpose(out_perm)
        product: Any = None if plan.packed[2] else reshaped_view(target, products)
        if product is not None and _is_blas_ready(product) and product.flags.aligned:
            multiply(left, right, product, way)
        else:
            product = multiply(left, right, _temporary(products, dtype), way)
            move(target, product.reshape(unmerged))
        return out

    return run


def _temporary(shape: Shape, dtype: np.dtype[Any]) -> Any:
    """For products of matrices, in the order that BLAS writes fastest: long rows."""
    *loops, m, n = shape
    return empty(shape, dtype) if m <= n else empty((*loops, n, m), dtype).swapaxes(-1, -2)


def _takes_products(out: Any) -> bool:
    """Whether BLAS writes its matrices where they belong: they lie one after another."""
    return bool(out.flags.c_contiguous and out.flags.aligned)


def _blas_ready(x: Any) -> Any:
    """x itself when each of its matrices has unit stride along one axis, else a packed copy."""
    return x if _is_blas_ready(x) else move(empty(x.shape, x.dtype), x)


def _is_blas_ready(x: Any) -> bool:
    rows, columns = x.strides[-2:]
    m, n, size = x.shape[-2], x.shape[-1], x.itemsize
    return bool(
        (columns == size and (m == 1 or rows >= n * size))
        or (rows == size and (n == 1 or columns >= m * size))
    )

"""First calls: what a few products need is done at once, without a plan, a program and an expression.

To prepare an expression takes a millisecond or two, a thousand times as long as a small product. A loop gets
that back; a script that contracts once what it has does not. So the first call of an equation with operands
of these shapes looks whether it is nothing but products that BLAS reads where they lie, or that sum nothing.
If so, they are bound and called one after another, as the instructions of the program would be: the tree is
the planner's, axes have the order that lowering gives them, and what the passes would change is not for here.
So the second call, which prepares an expression, has the same bits.

Whether such products have compiled kernels that round otherwise than BLAS is decided here for both
(`are_for_blas`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._base.options import PATIENCE, Options, get_options, options
from ..backend.catalogue import Attrs, known_dims
from ..backend.cost_model import RATES
from ..backend.cpu import cpu
from ..backend.cpu.buffers import fresh, in_layout
from ..backend.cpu.matrices import matrices, multiply_where_they_lie, way_where_they_lie
from ..backend.cpu.patience import counted, too_early
from ..backend.cpu.quiet import quietly
from ..backend.matrices import contraction_of, is_tall
from ..backend.spec import LARGE, ArraySpec, Axes, Shape
from ..program.passes.layout_assignment import along
from .plan import Plan
from .planners.core.run import exact_path
from .planners.problem import Problem

MOST_OPERANDS = 8
MOST_BYTES = 64 << 20  # of a result; for more it is looked first whether there is memory
FEW = 1 << 24  # multiplications of a product of any shape,
CLOSE = 4 << 20  # of so many bytes of operands and result,
MANY = 1 << 12  # and of so many matrices, each of which is a call of BLAS
WIDE = 64  # rows, columns and terms of matrices from which kernels save little:
ONE = 1 << 30  # multiplications of one such product
BATCH = 1 << 28  # and of a batch of them
STEPS = 1 << 20  # multiplications of several products, which so few threads do not share


class Amounts(NamedTuple):
    """What a product of `batch` matrices [m, k] x [k, n] comes to."""

    batch: int
    m: int
    n: int
    k: int
    nbytes: int  # of operands and result

    @property
    def multiplications(self) -> int:
        return self.batch * self.m * self.n * self.k

    @property
    def is_close(self) -> bool:
        """Whether it takes about a millisecond at most, whatever its shape."""
        return self.multiplications <= FEW and self.nbytes <= CLOSE and self.batch <= MANY


def are_for_blas(products: Sequence[Amounts]) -> bool:
    """Whether products that BLAS reads where they lie are left to it, since kernels would save less in fifty
    calls than loading them takes. Those that sum nothing have no kernels that round otherwise."""
    if len(products) > 1:
        total = sum(one.multiplications for one in products)
        return total <= STEPS and all(one.is_close for one in products)
    (one,) = products
    if one.k == 1 or one.is_close:
        return True
    is_wide = min(one.m, one.n, one.k) >= WIDE
    return is_wide and one.multiplications <= (ONE if one.batch == 1 else BATCH)


class _Product(NamedTuple):
    """One `dot_general` of two arrays held so far, by the labels of their axes."""

    operands: tuple[int, int]
    lhs: str
    rhs: str
    batch: str
    rows: str
    columns: str
    summed: str
    amounts: Amounts

    @property
    def labels(self) -> str:
        return self.batch + self.rows + self.columns

    @property
    def attrs(self) -> Attrs:
        return {
            "batch": (_axes(self.batch, self.lhs), _axes(self.batch, self.rhs)),
            "contracting": (_axes(self.summed, self.lhs), _axes(self.summed, self.rhs)),
        }


def first_result(text: str, arrays: Sequence[Any]) -> Any:
    """The result for arrays of NumPy; None where more is to be done, or something is wrong."""
    if not _is_usual(get_options()):
        return None
    left, arrow, shown = text.partition("->")
    if " " in text:
        left, shown = left.replace(" ", ""), shown.replace(" ", "")
    terms = left.split(",")
    if len(terms) != len(arrays) or not 2 <= len(terms) <= MOST_OPERANDS:
        return None
    if not arrow:  # as NumPy has it
        shown = "".join(sorted([x for x in left.replace(",", "") if left.count(x) == 1]))
    sizes = _sizes(terms, shown, arrays)
    if sizes is None:
        return None
    terms, output = _without_ones(terms, shown, sizes)
    if not all(terms):
        return None
    arrays = [
        x if len(term) == x.ndim else x.reshape([n for n in x.shape if n > 1])
        for term, x in zip(terms, arrays, strict=True)
    ]
    itemsize = arrays[0].itemsize
    path = (0, 1) if len(terms) == 2 else _path(terms, output, sizes, itemsize)
    products = _products(terms, output, sizes, itemsize, path)
    if products is None or not are_for_blas([one.amounts for one in products]):
        return None
    labels = products[-1].labels
    perm = None if labels == output else _axes(output, labels)
    if all(one.summed for one in products):
        result = _where_they_lie(products, sizes, arrays)
    else:
        result = _multiplied(products, sizes, arrays, perm if shown == output else None)
    if result is None:
        result = _bound(products, sizes, arrays, perm if shown == output else None)
    if perm is not None:
        result = result.transpose(perm)
    if shown != output:
        result = result[tuple([None if sizes[x] == 1 else slice(None) for x in shown])]
    return result if shown else result[()]


def are_left_to_blas(plan: Plan) -> bool:
    """Whether a plan is for such products, whoever calls it."""
    network, dtypes = plan.network, {*plan.dtypes, plan.dtype}
    n, is_whole = len(network.terms), not (plan.conj or plan.sliced or plan.strip_exponent)
    if not (2 <= n <= MOST_OPERANDS and len(dtypes) == 1 and is_whole and not any(plan.layouts)):
        return False
    if plan.dtype.char not in RATES or any(len(step) != 2 for step in plan.ssa_path):
        return False
    *terms, output = ("".join(map(chr, term)) for term in (*network.terms, network.output_axes))
    sizes = {chr(label): size for label, size in enumerate(network.extents)}
    if not _are_plain(terms, output, network.shapes, sizes):
        return False
    terms, output = _without_ones(terms, output, sizes)
    if not all(terms):
        return False
    path = [x for step in plan.ssa_path for x in step]
    products = _products(terms, output, sizes, plan.dtype.itemsize, path)
    return products is not None and are_for_blas([one.amounts for one in products])


def _is_usual(now: Options) -> bool:
    """Whether no option asks for other kernels than are taken here, or for a limit."""
    return (
        now.provider == "blas" and now.engine is None and now.small > 0
        and now.patience >= PATIENCE and now.memory_limit is None
    )  # fmt: skip


def _sizes(terms: Sequence[str], output: str, arrays: Sequence[Any]) -> dict[str, int] | None:
    """The size of each label, where all is plain: arrays of one dtype of BLAS in row-major order."""
    sizes: dict[str, int] = {}
    dtype = arrays[0].dtype
    if dtype.char not in RATES or not dtype.isnative:
        return None
    for term, x in zip(terms, arrays, strict=True):
        flags = x.flags
        if x.dtype != dtype or not flags.c_contiguous or not flags.aligned:
            return None
        if len(term) != x.ndim or not term.isalpha():
            return None
        sizes |= zip(term, x.shape, strict=True)
    return sizes if _are_plain(terms, output, [x.shape for x in arrays], sizes) else None


def _are_plain(
    terms: Sequence[str], output: str, shapes: Sequence[Shape], sizes: dict[str, int]
) -> bool:
    """Whether no axis has size 0, none is broadcast, and no label stands twice in a term."""
    for term, shape in zip(terms, shapes, strict=True):
        if len(set(term)) != len(term) or any(
            sizes[x] != n or n < 1 for x, n in zip(term, shape, strict=True)
        ):
            return False
    return len(set(output)) == len(output) and sizes.keys() >= set(output)


def _without_ones(
    terms: Sequence[str], output: str, sizes: dict[str, int]
) -> tuple[list[str], str]:
    """Terms and output without labels of size 1: lowering takes such axes away, and puts them back at the
    end."""
    if 1 not in sizes.values():
        return [*terms], output
    *kept, result = ("".join([x for x in term if sizes[x] > 1]) for term in (*terms, output))
    return kept, result


def _path(terms: Sequence[str], output: str, sizes: dict[str, int], itemsize: int) -> Sequence[int]:
    """The planner's best tree of a few tensors, as pairs one after another (`planners.few`)."""
    holders = dict.fromkeys(sizes, 0)
    for k, term in enumerate((*terms, output)):
        for label in term:
            holders[label] |= 1 << k
    multiplied, moved, written = Problem("time", None, itemsize).terms()
    held, extents = [*holders.values()], [*sizes.values()]
    return exact_path(len(terms), held, extents, multiplied, 2.0 * moved + written)


def _products(
    terms: Sequence[str], output: str, sizes: dict[str, int], itemsize: int, path: Sequence[int]
) -> list[_Product] | None:
    """The steps of this tree, as lowering makes them; None where BLAS would not read one where it lies, or
    where passes may give an array another order."""
    held = [*terms]
    found: list[_Product] = []
    for i, j in zip(path[::2], path[1::2], strict=True):
        a, b = held[i], held[j]
        held[i] = held[j] = ""
        is_last = len(found) == len(terms) - 2
        if is_last and _is_better_swapped(a, b, output):
            i, j, a, b = j, i, b, a
        kept = output if is_last else "".join([output, *held])
        one = _product((i, j), a, b, kept, sizes, itemsize)
        if one is None or (len(terms) > 2 and _is_looked_at(one, itemsize)):
            return None
        found.append(one)
        held.append(one.labels)
    last = found[-1]
    if last.summed and last.labels != output and _result_bytes(last, itemsize) >= LARGE:
        return None
    return found


def _product(
    operands: tuple[int, int], a: str, b: str, kept: str, sizes: dict[str, int], itemsize: int
) -> _Product | None:
    """The product of operands with labels a and b, of which those in `kept` stay."""
    shared = [x for x in (a if len(a) >= len(b) else b) if x in a and x in b]
    batch = "".join([x for x in shared if x in kept])
    summed = "".join([x for x in shared if x not in kept])
    rows = "".join([x for x in a if x not in shared])
    columns = "".join([x for x in b if x not in shared])
    if any(x not in kept for x in rows + columns):
        return None
    if summed and not (_lies(a, batch, rows, summed) and _lies(b, batch, columns, summed)):
        return None
    many, m, n, k = [
        math.prod([sizes[x] for x in group]) for group in (batch, rows, columns, summed)
    ]
    nbytes = itemsize * many * (m * k + k * n + m * n)
    if itemsize * many * m * n >= MOST_BYTES:
        return None
    return _Product(operands, a, b, batch, rows, columns, summed, Amounts(many, m, n, k, nbytes))


def _is_better_swapped(a: str, b: str, output: str) -> bool:
    """As lowering has it: whether the result lists the labels of b before those of a."""
    for x in output:
        if (x in a) != (x in b):
            return x in b
    return False


def _lies(term: str, batch: str, own: str, summed: str) -> bool:
    """Whether an operand in row-major order is a batch of matrices."""
    return term in (batch + own + summed, batch + summed + own)


def _axes(labels: str, of: str) -> Axes:
    return tuple([of.index(x) for x in labels])


def _result_bytes(one: _Product, itemsize: int) -> int:
    batch, m, n, _, _ = one.amounts
    return batch * m * n * itemsize


def _is_looked_at(one: _Product, itemsize: int) -> bool:
    """Whether the layout pass looks at the result of one of several products."""
    _, m, n, k, _ = one.amounts
    return is_tall(m, n, k) or _result_bytes(one, itemsize) >= LARGE


def _where_they_lie(
    products: Sequence[_Product], sizes: dict[str, int], arrays: Sequence[Any]
) -> Any:
    """The result without binding a kernel; None where it is not as simple as that."""
    ways = []
    for one in products:
        is_matrix = len(one.lhs) == len(one.rhs) == 2 and one.lhs[1] == one.rhs[0]
        way = way_where_they_lie(one.amounts[:4], one.amounts.nbytes, arrays[0].dtype, is_matrix)
        if way is None or (way != "plain" and len(products) > 1):
            return None
        ways.append(way)
    held = [*arrays]
    for one, way in zip(products, ways, strict=True):
        i, j = one.operands
        batch, m, n, k, _ = one.amounts
        left = matrices(held[i], batch, (m, k), one.lhs.endswith(one.summed))
        right = matrices(held[j], batch, (k, n), one.rhs.endswith(one.columns))
        made = multiply_where_they_lie(left, right, way)
        held.append(made.reshape([sizes[x] for x in one.labels]))
        held[i] = held[j] = None
    return held[-1]


def _multiplied(
    products: Sequence[_Product], sizes: dict[str, int], arrays: Sequence[Any], perm: Axes | None
) -> Any:
    """The result of one product of real numbers that sums nothing, by NumPy on one thread: what takes time is
    the system, which clears its pages. None where it is not as simple as that, or kernels are at hand. All
    ways give the same bits."""
    (one, *others), dtype = products, arrays[0].dtype
    if others or dtype.char not in "fd":
        return None
    made = ArraySpec(dtype, tuple([sizes[x] for x in one.labels]))
    if perm is not None:
        lhs, rhs = (ArraySpec(dtype, arrays[k].shape) for k in one.operands)
        made = _as_shown(one, lhs, rhs, made, perm)
    if made.nbytes >= LARGE and not too_early():
        return None
    out = in_layout(made, partial(fresh, dtype=dtype, before=max(x.nbytes for x in arrays)))
    factors = [
        _broadcast(arrays[k], term, one.labels)
        for k, term in zip(one.operands, (one.lhs, one.rhs), strict=True)
    ]
    with counted():
        return quietly(np.multiply, *factors, out=out)


def _broadcast(x: Any, term: str, labels: str) -> Any:
    """x with its axes in the order of `labels`, and axes of size 1 for those that it has not."""
    order = _axes("".join([label for label in labels if label in term]), term)
    at = iter(x.transpose(order).shape)
    return x.transpose(order).reshape([next(at) if label in term else 1 for label in labels])


def _bound(
    products: Sequence[_Product], sizes: dict[str, int], arrays: Sequence[Any], perm: Axes | None
) -> Any:
    """The result by the kernels that a program would have."""
    backend, held, before = cpu(), [*arrays], max(x.nbytes for x in arrays)
    specs = [ArraySpec(x.dtype, x.shape) for x in arrays]
    calls: list[tuple[Attrs, tuple[ArraySpec, ...], tuple[ArraySpec, ...]]] = []
    for one in products:
        i, j = one.operands
        made = ArraySpec(specs[0].dtype, tuple([sizes[x] for x in one.labels]))
        if perm is not None and not one.summed and one is products[-1]:
            made = _as_shown(one, specs[i], specs[j], made, perm)
        specs.append(made)
        calls.append((one.attrs, (specs[i], specs[j]), (made,)))
    with options(provider="plain"):
        # what sums nothing runs the same way without
        own_threads = any(
            backend.uses_threads("dot_general", *call)
            for one, call in zip(products, calls, strict=True)
            if one.summed
        )
        kernels = [backend.bind("dot_general", *each, own_threads) for each in calls]
    for one, kernel, (_, _, (made,)) in zip(products, kernels, calls, strict=True):
        i, j = one.operands
        # no call has been before this one whose memory would be lent
        out = in_layout(made, partial(fresh, dtype=made.dtype, before=before))
        held.append(kernel(held[i], held[j], out=out))
        held[i] = held[j] = None
    return held[-1]


def _as_shown(
    one: _Product, lhs: ArraySpec, rhs: ArraySpec, made: ArraySpec, perm: Axes
) -> ArraySpec:
    """The result of a product without sums in the order that the layout pass gives it: it is made as it is
    shown."""
    if made.nbytes >= LARGE:
        step, left, right = contraction_of(known_dims(one.attrs, lhs.shape, rhs.shape), lhs, rhs)
        perm = along(step, (left, right), perm)
    return made if perm == tuple(range(len(perm))) else replace(made, layout=perm)

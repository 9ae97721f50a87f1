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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from .._base.caches import Quick
from .._base.options import PATIENCE, get_options, options
from ..backend.catalogue import Attrs, known_dims
from ..backend.contraction import contraction_of
from ..backend.cost_model import RATES
from ..backend.cpu import cpu
from ..backend.cpu.buffers import fresh, in_layout
from ..backend.cpu.elementwise import EVALUATE, over_blocks
from ..backend.cpu.matrices import matrices, multiply_where_they_lie, way_where_they_lie
from ..backend.cpu.patience import counted, too_early
from ..backend.cpu.quiet import quietly
from ..backend.matrices import is_tall
from ..backend.spec import LARGE, ArraySpec, Axes, Shape
from ..program.passes.layout_assignment import LONG_LINE, SOME, along
from .cost import size_of
from .delivery import CHECK_FROM
from .plan import Plan
from .planners.core.run import exact_path
from .planners.problem import Problem
from .roles import Roles, is_better_swapped, lies, roles

MOST_OPERANDS = 8
FEW = 1 << 24  # multiplications of a product of any shape,
CLOSE = 4 << 20  # of so many bytes of operands and result,
MANY = 1 << 12  # and of so many matrices, each of which is a call of BLAS
WIDE = 64  # rows, columns and terms of matrices from which kernels save little:
ONE = 1 << 30  # multiplications of one such product
BATCH = 1 << 28  # and of a batch of them
STEPS = 1 << 20  # multiplications of several products, which so few threads do not share
SHARED = 16 << 20
"""Bytes of a product without sums from which threads gain more than their start takes; those from
`CHECK_FROM` on are no first call's."""


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


class _Letters(NamedTuple):
    """An equation that names each axis by a letter of its own, whose number is its label."""

    terms: tuple[Axes, ...]
    shown: Axes


_LETTERS: Quick[_Letters | Literal[False]] = Quick("equations of first calls", 1024)


class _Network(NamedTuple):
    """Operands without axes of size 1, which lowering takes away at the door; the labels of the result with
    such axes, and without; and whether there are any."""

    terms: tuple[Axes, ...]
    shown: Axes
    output: Axes
    sizes: Mapping[int, int]
    itemsize: int
    has_ones: bool


class _Step(NamedTuple):
    """One `dot_general` of two arrays held so far, by the labels of their axes."""

    operands: tuple[int, int]
    lhs: Axes
    rhs: Axes
    roles: Roles
    labels: Axes  # of the result


# a plan's labels are other numbers than letters are: the second call of an equation has steps of its own
_STEPS: Quick[list[_Step] | Literal[False]] = Quick("steps of first calls", 4096)


class _Product(NamedTuple):
    """A step for operands of some sizes."""

    step: _Step
    amounts: Amounts
    shape: Shape

    @property
    def attrs(self) -> Attrs:
        _, lhs, rhs, (batch, _, _, summed), _ = self.step
        return {
            "batch": (_axes(batch, lhs), _axes(batch, rhs)),
            "contracting": (_axes(summed, lhs), _axes(summed, rhs)),
        }


def first_result(text: str, arrays: Sequence[Any]) -> Any:
    """The result for arrays of NumPy; None where more is to be done, or something is wrong."""
    now = get_options()
    if now.asks_for_kernels or now.patience < PATIENCE or now.memory_limit is not None:
        return None
    network = _network_of(text, arrays)
    if network is None:
        return None
    path = (0, 1) if len(arrays) == 2 else _path(network)
    products = _products(network, path)
    if products is None or not are_for_blas([one.amounts for one in products]):
        return None
    shown, output, sizes = network.shown, network.output, network.sizes
    operands = arrays
    if network.has_ones:
        operands = [x.reshape([n for n in x.shape if n > 1]) for x in arrays]
    labels = products[-1].step.labels
    perm = None if labels == output else _axes(output, labels)
    # what is shown as it is made, but for the order of its axes, may be made in that order or another one
    order = None if shown != output else tuple(range(len(output))) if perm is None else perm
    result = _where_they_lie(products, operands)
    if result is None:
        result = _multiplied(products, operands, order)
    if result is None:
        result = _bound(products, operands, order)
    if perm is not None:
        result = result.transpose(perm)
    if shown != output:
        result = result[tuple([None if sizes[x] == 1 else slice(None) for x in shown])]
    return result if shown else result[()]


def are_left_to_blas(plan: Plan) -> bool:
    """Whether a plan is for such products, whoever calls it."""
    network, dtype = plan.network, plan.dtype
    n, is_more = len(network.terms), plan.conj or plan.sliced or plan.strip_exponent
    if is_more or not 2 <= n <= MOST_OPERANDS or any(plan.layouts):
        return False
    if {*plan.dtypes} != {dtype} or dtype.char not in RATES:
        return False
    if any(len(step) != 2 for step in plan.ssa_path):
        return False
    plain = _plain(plan)
    if plain is None:
        return False
    products = _products(plain, [x for step in plan.ssa_path for x in step])
    return products is not None and are_for_blas([one.amounts for one in products])


def _network_of(text: str, arrays: Sequence[Any]) -> _Network | None:
    """Of row-major arrays of one dtype of BLAS, whose equation names each axis by a letter; None if some axis
    has size 0 or is broadcast, or some operand is one number."""
    letters = _LETTERS.get(text)
    if letters is None:
        letters = _letters_of(text) or False
        _LETTERS.put(text, letters)
    if letters is False or len(letters.terms) != len(arrays):
        return None
    dtype = arrays[0].dtype
    if dtype.char not in RATES or not dtype.isnative or dtype.metadata:
        return None
    sizes: dict[int, int] = {}
    has_ones = False
    for term, x in zip(letters.terms, arrays, strict=True):
        own, flags, shape = x.dtype, x.flags, x.shape
        if own is not dtype and (own != dtype or own.metadata):
            return None
        if not flags.c_contiguous or not flags.aligned or len(shape) != len(term) or 0 in shape:
            return None
        for label, n in zip(term, shape, strict=True):
            if sizes.setdefault(label, n) != n:
                return None
        has_ones = has_ones or 1 in shape
    terms, shown = letters
    if has_ones:
        return _without_ones(terms, shown, sizes, dtype.itemsize)
    return _Network(terms, shown, shown, sizes, dtype.itemsize, has_ones)


def _letters_of(text: str) -> _Letters | None:
    """The equation, if no letter stands twice in a term or in the result."""
    left, arrow, shown = text.partition("->")
    if " " in text:
        left, shown = left.replace(" ", ""), shown.replace(" ", "")
    terms = left.split(",")
    letters = "".join(terms)
    if not letters.isalpha() or not 2 <= len(terms) <= MOST_OPERANDS or "" in terms:
        return None
    if not arrow:  # as NumPy has it
        shown = "".join(sorted([x for x in letters if letters.count(x) == 1]))
    if [x for x in shown if x not in letters]:
        return None
    for term in (*terms, shown):
        if len(set(term)) != len(term):
            return None
    return _Letters(tuple([tuple(map(ord, x)) for x in terms]), tuple(map(ord, shown)))


def _plain(plan: Plan) -> _Network | None:
    """The network of a plan, if no axis has size 0, none is broadcast, no label stands twice in a term or the
    result, and no operand is one number."""
    network, sizes = plan.network, dict(enumerate(plan.network.extents))
    for term, shape in zip(network.terms, network.shapes, strict=True):
        if len(set(term)) != len(term) or any(
            sizes[x] != n or n < 1 for x, n in zip(term, shape, strict=True)
        ):
            return None
    shown = network.output_axes
    if len(set(shown)) != len(shown):
        return None
    return _without_ones(network.terms, shown, sizes, plan.dtype.itemsize)


def _without_ones(
    terms: tuple[Axes, ...], shown: Axes, sizes: Mapping[int, int], itemsize: int
) -> _Network | None:
    kept = tuple([tuple([x for x in term if sizes[x] > 1]) for term in terms])
    output = tuple([x for x in shown if sizes[x] > 1])
    has_ones = 1 in sizes.values()
    return _Network(kept, shown, output, sizes, itemsize, has_ones) if all(kept) else None


def _path(network: _Network) -> Sequence[int]:
    """The planner's best tree of a few tensors, as pairs one after another (`planners.few`)."""
    terms, sizes = network.terms, network.sizes
    holders = dict.fromkeys(sizes, 0)
    for k, term in enumerate((*terms, network.output)):
        for label in term:
            holders[label] |= 1 << k
    labels = [x for x, held in holders.items() if held]
    multiplied, moved, written = Problem("time", None, network.itemsize).terms()
    return exact_path(
        len(terms), [holders[x] for x in labels], [sizes[x] for x in labels],
        multiplied, 2.0 * moved + written,
    )  # fmt: skip


def _products(network: _Network, path: Sequence[int]) -> list[_Product] | None:
    """The steps of this tree, as lowering makes them; None where BLAS would not read one where it lies, or
    where the layout pass may give an array another order."""
    terms, output, sizes, itemsize = network.terms, network.output, network.sizes, network.itemsize
    key = terms, output, tuple(path)
    steps = _STEPS.get(key)
    if steps is None:
        steps = _steps(*key) or False
        _STEPS.put(key, steps)
    if steps is False:
        return None
    found = []
    for step in steps:
        batch, rows, columns, summed = step.roles
        many, m, n = size_of(batch, sizes), size_of(rows, sizes), size_of(columns, sizes)
        k = size_of(summed, sizes)
        if itemsize * many * m * n >= CHECK_FROM:
            return None
        amounts = Amounts(many, m, n, k, itemsize * many * (m * k + k * n + m * n))
        one = _Product(step, amounts, tuple([sizes[x] for x in step.labels]))
        if len(terms) > 2 and _is_looked_at(one, itemsize):
            return None
        found.append(one)
    is_searched = summed and step.labels != output
    return None if is_searched and _nbytes(found[-1], itemsize) >= LARGE else found


def _steps(terms: tuple[Axes, ...], output: Axes, path: tuple[int, ...]) -> list[_Step] | None:
    """The steps by their labels; None if a label of one operand alone is summed, or if BLAS would not read
    operands where they lie."""
    held = [*terms]
    found: list[_Step] = []
    for i, j in zip(path[::2], path[1::2], strict=True):
        a, b = held[i], held[j]
        held[i] = held[j] = ()
        is_last = len(found) == len(terms) - 2
        if is_last and is_better_swapped(a, b, output):
            i, j, a, b = j, i, b, a
        kept = output if is_last else set(output).union(*held)
        batch, rows, columns, summed = parts = roles(a, b, kept)
        if [x for x in rows + columns if x not in kept]:
            return None
        if summed and None in (lies(a, batch, rows, summed), lies(b, batch, columns, summed)):
            return None
        held.append(batch + rows + columns)
        found.append(_Step((i, j), a, b, parts, held[-1]))
    return found


def _axes(labels: Axes, of: Axes) -> Axes:
    return tuple([of.index(x) for x in labels])


def _nbytes(one: _Product, itemsize: int) -> int:
    """Of the result."""
    return math.prod(one.shape) * itemsize


def _is_looked_at(one: _Product, itemsize: int) -> bool:
    """Whether the layout pass looks at the result of one of several products."""
    _, m, n, k, _ = one.amounts
    return is_tall(m, n, k) or _nbytes(one, itemsize) >= LARGE


def _where_they_lie(products: Sequence[_Product], arrays: Sequence[Any]) -> Any:
    """The result without binding a kernel; None where it is not as simple as that."""
    ways = []
    for one in products:
        _, lhs, rhs, parts, _ = one.step
        if not parts.summed:
            return None
        is_matrix = len(lhs) == len(rhs) == 2 and lhs[1] == rhs[0]
        way = way_where_they_lie(one.amounts[:4], one.amounts.nbytes, arrays[0].dtype, is_matrix)
        if way is None or (way != "plain" and len(products) > 1):
            return None
        ways.append(way)
    held = [*arrays]
    for one, way in zip(products, ways, strict=True):
        (i, j), lhs, rhs, parts, _ = one.step
        batch, m, n, k, _ = one.amounts
        last = parts.summed[-1]
        left = matrices(held[i], batch, (m, k), lhs[-1] == last)
        right = matrices(held[j], batch, (k, n), rhs[-1] != last or n == 1)
        made = multiply_where_they_lie(left, right, way)
        held.append(made if made.shape == one.shape else made.reshape(one.shape))
        held[i] = held[j] = None
    return held[-1]


def _multiplied(products: Sequence[_Product], arrays: Sequence[Any], order: Axes | None) -> Any:
    """The result of one product of real numbers that sums nothing, by NumPy: what takes time is the system,
    which clears its pages, for several threads at once. None where it is not as simple as that, or kernels
    are at hand. All ways give the same bits."""
    (one, *others), dtype = products, arrays[0].dtype
    if others or one.step.roles.summed or dtype.char not in "fd":
        return None
    made = ArraySpec(dtype, one.shape)
    if order is not None:
        lhs, rhs = (ArraySpec(dtype, arrays[k].shape) for k in one.step.operands)
        made = _as_shown(one, lhs, rhs, made, order)
    if made.nbytes >= LARGE and not too_early():
        return None
    out = in_layout(made, partial(fresh, dtype=dtype, beside=arrays))
    factors = [
        _broadcast(arrays[k], term, one.step.labels)
        for k, term in zip(one.step.operands, (one.step.lhs, one.step.rhs), strict=True)
    ]
    with counted():
        if made.nbytes < SHARED:
            return quietly(np.multiply, *factors, out=out)
        whole = tuple(np.broadcast_to(x, out.shape) for x in factors)
        return over_blocks(EVALUATE["multiply"], out, whole, cut=False)


def _broadcast(x: Any, term: Axes, labels: Axes) -> Any:
    """x with its axes in the order of `labels`, and axes of size 1 for those that it has not."""
    across = x.transpose([term.index(label) for label in labels if label in term])
    return across[tuple([slice(None) if label in term else None for label in labels])]


def _bound(products: Sequence[_Product], arrays: Sequence[Any], order: Axes | None) -> Any:
    """The result by the kernels that a program would have."""
    backend, held = cpu(), [*arrays]
    specs = [ArraySpec(x.dtype, x.shape) for x in arrays]
    calls: list[tuple[Attrs, tuple[ArraySpec, ...], tuple[ArraySpec, ...]]] = []
    for one in products:
        i, j = one.step.operands
        made = ArraySpec(specs[0].dtype, one.shape)
        if order is not None and not one.step.roles.summed and one is products[-1]:
            made = _as_shown(one, specs[i], specs[j], made, order)
        specs.append(made)
        calls.append((one.attrs, (specs[i], specs[j]), (made,)))
    with options(provider="plain"):
        # what sums nothing runs the same way without
        own_threads = any(
            backend.uses_threads("dot_general", *call)
            for one, call in zip(products, calls, strict=True)
            if one.step.roles.summed
        )
        kernels = [backend.bind("dot_general", *each, own_threads) for each in calls]
    for one, kernel, (_, _, (made,)) in zip(products, kernels, calls, strict=True):
        i, j = one.step.operands
        # no call has been before this one whose memory would be lent
        out = in_layout(made, partial(fresh, dtype=made.dtype, beside=arrays))
        held.append(kernel(held[i], held[j], out=out))
        held[i] = held[j] = None
    return held[-1]


def _has_long_lines(one: _Product, lhs: ArraySpec, rhs: ArraySpec, order: Axes) -> bool:
    """Whether a row-major result is soon seen to be written in lines that are long enough to leave it so."""
    last = one.step.labels[-1:]
    if order != tuple(range(len(order))) or one.shape[-1:] < (LONG_LINE,):
        return False
    operands = ((lhs, one.step.lhs), (rhs, one.step.rhs))
    return all(
        x.layout is None and (term[-1:] == last or last[0] not in term) for x, term in operands
    )


def _as_shown(
    one: _Product, lhs: ArraySpec, rhs: ArraySpec, made: ArraySpec, order: Axes
) -> ArraySpec:
    """The result of a product without sums in the order that the layout pass gives it: it is made as it is
    shown."""
    if made.nbytes >= SOME and not _has_long_lines(one, lhs, rhs, order):
        step, left, right = contraction_of(known_dims(one.attrs, lhs.shape, rhs.shape), lhs, rhs)
        order = along(step, (left, right), order)
    return made if order == tuple(range(len(order))) else replace(made, layout=order)

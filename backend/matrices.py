"""How a contraction of arrays that lie anyhow in memory becomes products of matrices.

BLAS multiplies [m, k] by [k, n] where each matrix has unit stride along one axis. Axes that are
neighbours in memory are one axis of a matrix; axes that are not are loops around the product, since a
matrix may be any slice of an array whose last axis belongs to it. So there are three ways to meet an
array whose axes lie in a bad order: loop, and multiply smaller matrices; copy an operand first; multiply
into a temporary and move that. `plan_products` weighs them by `CostModel`.

Orders are tuples of labels, the slowest axis first; None is an order that nobody has chosen yet: it then
costs nothing, which is how the orders of a whole program are searched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from .._base.caches import Quick
from .._base.options import get_options
from .cost_model import ENOUGH, FAR, MODELS, RATES, THREADED, WIDE, CostModel
from .dots import rows_seconds, takes_rows
from .rules import DotDims
from .spec import ArraySpec
from .strips import FASTER, LINE, Strips, is_alone, plan_strips, run_of

Labels = tuple[int, ...]
Order = Labels | None
Orders = tuple[Order, Order, Order]  # of lhs, rhs and out


FEW = 64  # columns of a matrix that is written faster as rows
MOST = 1 << 1000  # multiplications that a float can count
WIDEST = 512  # elements of a row from which it matters little that columns are longer
TILE = (1024, 1024)
"""Most rows and columns of a tile of a product in blocks."""
TILE_OF_SUMS = (512, 512)
"""The same where its sums are in a buffer: 2 MiB of float64."""
EVEN = 1.15  # times its fair share of the tiles that a thread may have
LEAST = 1 << 19  # multiplications of a tile that is not cut further for the sake of more threads
SHORT = 16  # elements of an axis that are enough for whole cache lines
PANEL_BYTES = 2048  # of contracted elements of each row of a panel
DISTANT = 16 << 20  # bytes of an operand whose short pieces come from memory each time
DISTANT_RATE = 6.4e9  # bytes of such pieces that a thread packs in a second
ADDED = 128  # contracted elements from which a result is written that no cache holds
DEPTH = 4  # contracted elements with which half of the rate of blocks is reached
MEASURED = 1024  # rows, columns and contracted elements of the product by which rates are measured
LEAST_PART = 0.7  # of the time in blocks, at least, is no packing
BLOCKS = 3e-5  # seconds before products in blocks begin
MARGIN = 1.05  # times as long BLAS should take before blocks are preferred
SOON = 6e-5  # seconds of BLAS from which threads of ours are worth their start,
SOON_ALONE = 2e-5  # and a kernel that one thread runs
SOON_COPIED = 2e-4  # and of BLAS and its copies, from which these may read what lies badly for them
COPIED = 0.05  # of that time, at least, these copies take
SIDE = 8  # rows, columns and contracted elements, at least, of such a product
CLEARED = 1 << 20  # bytes of a result that leaves the cache between being cleared and added to
BROKEN = 1.5e-8  # seconds for each row of small matrices that lies far from the next one
PAGE = 1 << 12  # bytes between rows from which that is far
APART = 1 << 20  # bytes of an array from which it matters: no core's own cache holds it
ROW = 256  # bytes of a row from which it does not: the machine fetches what follows
SUMS = 5e-5  # seconds before sums of products begin
PHASED = 128  # elements of a run of kept and contracted labels from which sums of both are vectors
# times as long it should take before strips are, where measured ratios are a quarter less
WORTH = 1.4
# the same of large results, which BLAS takes its time to write, where it packs panels, where it is slower,
# and where it would copy arrays whose order is decided
WORTH_CLOSE = 1.2
IN_PLACE = 1 << 20
"""Multiplications of a product below which BLAS reads operands where they lie; others it packs into
panels."""
SLICED = 1 << 16  # multiplications in all below which products of slices reach LESS than `strided`
LESS = 0.6
TINY = 512
"""Multiplications per matrix below which a loop nest is faster than a call of BLAS for each."""
TINY_REAL = 0.4  # of what the model says of such batches of real ones, from 2 by 2 to 8 by 8
COMPLEX_CALL = 1.2e-7  # seconds more for each of several complex ones


@dataclass(frozen=True)
class Contraction:
    """out[batch, rows, columns] = sum over contracted of lhs[batch, rows, contracted] * rhs[...].

    Labels of the four groups, and the size of each label; `itemsize` in bytes, `rate` of products relative
    to float64.
    """

    sizes: Mapping[int, int]
    batch: Labels
    rows: Labels
    columns: Labels
    contracted: Labels
    itemsize: int = 8
    rate: float = 1.0

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """What makes two of them equal, to look up by."""
        groups = (self.batch, self.rows, self.columns, self.contracted)
        return (tuple(self.sizes.items()), *groups, self.itemsize, self.rate)

    def size(self, labels: Iterable[int]) -> int:
        size = 1
        for x in labels:
            size *= self.sizes[x]
        return size

    @cached_property
    def amounts(self) -> tuple[int, int, int, int]:
        """Sizes of the groups: batch, m, n, k."""
        batch, m, n, k = map(self.size, (self.batch, self.rows, self.columns, self.contracted))
        return batch, m, n, k

    @cached_property
    def packings(self) -> list[tuple[int, int, int, tuple[bool, bool, bool]]]:
        """What may be copied, the fewest bytes first: bytes, arrays, and its place among PACKINGS."""
        return sorted(
            (
                sum(n for n, copied in zip(self.nbytes, packed, strict=True) if copied),
                sum(packed),
                rank,
                packed,
            )
            for rank, packed in enumerate(PACKINGS)
        )

    @cached_property
    def runs(self) -> dict[tuple[int, Order, Order, int | None], Labels]:
        """What `_longest_run` found, by group, orders and end: searches ask for the same again and again."""
        return {}

    @cached_property
    def has_ones(self) -> bool:
        """Whether some label has one element."""
        return 1 in self.sizes.values()

    @cached_property
    def nbytes(self) -> tuple[int, int, int]:
        """Of lhs, rhs and out."""
        batch, m, n, k = self.amounts
        lhs, rhs, out = (batch * x * self.itemsize for x in (m * k, k * n, m * n))
        return lhs, rhs, out


def is_tall(m: int, n: int, k: int) -> bool:
    """Whether a product has so few columns that BLAS takes less time to write it transposed, in long rows,
    and so much work that this matters."""
    return 2 * n <= m and n <= FEW and m * n * k >= THREADED


Labelled = tuple[Contraction, Labels, Labels]
_LABELLED: Quick[Labelled] = Quick("contractions in labels", 4096)


def contraction_of(dims: DotDims, lhs: ArraySpec, rhs: ArraySpec) -> Labelled:
    """A dot_general in labels, and those of the axes of both operands. Labels 0, 1, ... are the axes of the
    output, the contracted ones follow.

    Of equal dot_generals it is one object: many steps of a network are equal but for their slots, and each is
    asked for by layouts, memory, threads and kernels in turn."""
    key = (dims, lhs.shape, rhs.shape, lhs.dtype)
    found = _LABELLED.items.get(key)
    if found is None:
        _LABELLED.misses += 1
        found = _in_labels(dims, lhs, rhs)
        _LABELLED.put(key, found)
    else:
        _LABELLED.hits += 1
    return found


def _in_labels(dims: DotDims, lhs: ArraySpec, rhs: ArraySpec) -> Labelled:
    left, right = [0] * len(lhs.shape), [0] * len(rhs.shape)
    count = 0
    groups: list[Labels] = []
    for group in (
        [*zip(dims.lhs_batch, dims.rhs_batch, strict=True)],
        [(axis, None) for axis in dims.lhs_free],
        [(None, axis) for axis in dims.rhs_free],
        [*zip(dims.lhs_contracting, dims.rhs_contracting, strict=True)],
    ):
        for label, (i, j) in enumerate(group, count):
            if i is not None:
                left[i] = label
            if j is not None:
                right[j] = label
        groups.append(tuple(range(count, count + len(group))))
        count += len(group)
    sizes = dict(zip(left, lhs.shape, strict=True)) | dict(zip(right, rhs.shape, strict=True))
    batch, rows, columns, contracted = groups
    rate = RATES.get(lhs.dtype.char, 1.0)
    step = Contraction(sizes, batch, rows, columns, contracted, lhs.dtype.itemsize, rate)
    return step, tuple(left), tuple(right)


def orders_of(
    step: Contraction,
    left: Labels,
    right: Labels,
    specs: tuple[ArraySpec, ArraySpec, ArraySpec | None],
) -> tuple[Labels, Labels, Labels]:
    """Labels of lhs, rhs and out as they lie in memory: row-major where the specs do not say, or where there
    is none of the result."""
    lhs, rhs, out = (None if spec is None else spec.layout for spec in specs)
    return (
        left if lhs is None else tuple(left[axis] for axis in lhs),
        right if rhs is None else tuple(right[axis] for axis in rhs),
        (*step.batch, *step.rows, *step.columns) if out is None else out,
    )


By = Literal["products", "strips", "sums", "dots"]
"""
products  of matrices, or a loop nest
strips    by our own kernel; what is packed then is what `plan_strips` says
sums      one operand has all labels: it is multiplied by the other one, and added up, as it lies in memory
dots      both have all labels, and what is added up lies last in memory
"""


class Products(NamedTuple):
    """A plan: `calls` products [m, k] x [k, n], and what is copied first or after; without calls, a loop nest
    over the elements of the result."""

    seconds: float
    copied_bytes: int
    packed: tuple[bool, bool, bool]  # lhs, rhs, out
    rows: Labels = ()  # labels of one matrix, in the order in which they are one axis
    columns: Labels = ()
    contracted: Labels = ()
    calls: int = 1
    by: By = "products"


def plan_products(step: Contraction, orders: Orders, model: CostModel | None = None) -> Products:
    """The cheapest way to contract operands in these orders into a result in that order."""
    model = model or MODELS.current
    batch, m, n, k = step.amounts
    if k == 1 and 0 not in step.amounts:
        return _loop_nest(step, orders, model)
    matrices = plan_matrices(step, orders, model)
    if 0 in step.amounts:
        return matrices
    if m == n == 1 and (in_rows := _in_rows(step, orders, model)) is not None:
        return in_rows
    if batch > 1 and m * n * k < TINY:
        return min(_loop_nest(step, orders, model), matrices)  # by seconds
    if min(m, n) == 1 and (in_sums := _in_sums(step, orders, matrices, model)) is not None:
        return in_sums
    in_panels = _panelling_seconds(step, matrices, model)
    by_blas = matrices.seconds + clearing_seconds(step, model) + in_panels
    soon = SOON_ALONE if is_alone(batch, m, n, k) else SOON
    if by_blas < (soon / model.strips if model.strips >= FASTER else soon):
        return matrices
    in_strips = plan_strips(step, orders, model)
    is_close = step.nbytes[2] >= FAR or in_panels > 0 or model.strips >= FASTER
    worth = WORTH_CLOSE if is_close else WORTH
    if in_strips is None or by_blas < in_strips.seconds * worth:
        return matrices
    return _in_strips(in_strips)


def plan_decided(step: Contraction, orders: Orders, model: CostModel | None = None) -> Products:
    """The same where the orders are decided: a product for which BLAS would copy arrays may be computed in
    strips though operands lie badly for these.

    Orders are not searched by that: what strips then take is known less well, and BLAS has no threads of its
    own for other products of a program that has strips, so that orders which were chosen for them lost. What
    BLAS takes to clear its result is not counted against it.
    """
    model = model or MODELS.current
    found = plan_products(step, orders, model)
    batch, m, n, k = step.amounts
    if batch > 1 or min(m, n, k) < SIDE or found.by != "products":
        return found
    is_copied = found.copied_bytes / model.moves > COPIED * found.seconds
    if not is_copied or found.seconds < SOON_COPIED / model.strips:
        return found
    in_strips = plan_strips(step, orders, model, widely=True)
    if in_strips is None or in_strips.copied_bytes > found.copied_bytes:
        return found
    by_others = min(found.seconds, panel_seconds(step, orders, model) or math.inf)
    return found if by_others < in_strips.seconds * WORTH_CLOSE else _in_strips(in_strips)


def _in_strips(found: Strips) -> Products:
    seconds, copied_bytes, (lhs, rhs) = found
    return Products(seconds, copied_bytes, (lhs, rhs, False), by="strips")


def _in_sums(
    step: Contraction, orders: Orders, found: Products, model: CostModel
) -> Products | None:
    """The same by sums of products, where BLAS would need a copy of the operand that has all labels: of
    elements that lie one after another some are all added up, or none."""
    batch, m, n, k = step.amounts
    side = 0 if n == 1 else 1
    if not found.packed[side] or batch * m * n * k < max(1, get_options().small):
        return None
    whole, vector = orders[side], orders[1 - side]
    kept = step.batch + (step.rows if side == 0 else step.columns)
    run = max(run_of(step, step.contracted, whole, vector), run_of(step, kept, whole, orders[2]))
    if not whole:
        return None
    if max(run, step.sizes[whole[-1]]) < SHORT and _phases(step, orders) < PHASED:
        return None
    streamed = (sum(step.nbytes) + step.nbytes[2]) / model.stream
    computed = batch * m * n * k / (model.products * step.rate * model.nest)
    seconds = SUMS + max(streamed, computed)
    if found.seconds < seconds * WORTH:
        return None
    return Products(seconds, 0, (False, False, False), by="sums")


def _phases(step: Contraction, orders: Orders) -> int:
    """Elements that sums of two operands which lie alike read along both some kept labels and contracted ones
    in front of these, as one run."""
    lhs, rhs, out = (_without_ones(step, order) for order in orders)
    if lhs is None or lhs != rhs or out is None:
        return 0
    kept = run_of(step, step.batch, lhs, out)
    others = list(lhs)
    length = 1
    while length < kept:
        length *= step.sizes[others.pop()]
    return kept * run_of(step, step.contracted, tuple(others))


def _in_rows(step: Contraction, orders: Orders, model: CostModel) -> Products | None:
    """The same as inner products of rows, where there are rows and work enough."""
    batch, _, _, k = step.amounts
    if batch * k < max(1, get_options().small) or not takes_rows(batch, k, step.itemsize):
        return None
    lhs, rhs = (_without_ones(step, order) for order in orders[:2])
    if run_of(step, step.contracted, lhs, rhs) < k:
        return None
    seconds = rows_seconds(batch, k, step.itemsize, model.threads, model.stream)
    return Products(seconds, 0, (False, False, False), by="dots")


def _without_ones(step: Contraction, order: Order) -> Order:
    if order is None or not step.has_ones:
        return order
    return tuple(x for x in order if step.sizes[x] > 1)


def clearing_seconds(step: Contraction, model: CostModel) -> float:
    """What `plan_matrices` leaves out, since all its ways take as long: BLAS clears a result before it adds
    to it. It counts beside strips alone: what chains across lanes take is predicted too low by as much."""
    out = step.nbytes[2]
    return 2 * out / model.stream if step.amounts[3] > 1 and out >= CLEARED else 0.0


def _panelling_seconds(step: Contraction, found: Products, model: CostModel) -> float:
    """What `plan_matrices` leaves out as well, and what counts beside strips alone: before each of many
    products of a hundred rows or a few, BLAS packs both operands into panels, which with AVX-512 takes three
    quarters as long as the product itself (128 by 128 by 128: 29 GFLOP/s on a thread that reaches 51 with
    large matrices, and 47 with the largest that are read where they lie)."""
    m, n, k = map(step.size, (found.rows, found.columns, found.contracted))
    if found.calls < WIDE or m * n * k < IN_PLACE:
        return 0.0
    return found.calls * (m + n) * k * step.itemsize * model.panels / model.threads


_PLANS: Quick[Products] = Quick("plans of products", 4096)


def plan_matrices(step: Contraction, given: Orders, model: CostModel | None = None) -> Products:
    """The same by matrix products alone; the layout pass, fusion, memory and the kernel ask for it in turn.

    >>> step = Contraction({0: 300, 1: 200, 2: 500, 3: 400}, (), (0, 1), (2,), (3,))
    >>> plan = plan_matrices(step, ((0, 3, 1), (3, 2), (0, 1, 2)))  # loops over label 0, nothing copied
    >>> plan.packed, plan.rows, plan.columns, plan.contracted, plan.calls
    ((False, False, False), (1,), (2,), (3,), 300)
    """
    model = model or MODELS.current
    key = (step.key, given, model)
    found = _PLANS.items.get(key)
    if found is None:
        _PLANS.misses += 1
        found = _planned(step, given, model)
        _PLANS.put(key, found)
    else:
        _PLANS.hits += 1
    return found


def _planned(step: Contraction, given: Orders, model: CostModel) -> Products:
    batch, m, n, k = step.amounts
    macs = batch * m * n * k
    if macs == 0:
        return Products(0.0, 0, (False, False, False), step.rows, step.columns, step.contracted)
    if macs > MOST:  # nobody will run it, but its memory may be asked for
        groups = (step.rows, step.columns, step.contracted)
        return Products(math.inf, sum(step.nbytes), (True, True, True), *groups, batch)
    streamed = (sum(step.nbytes) + step.nbytes[2]) / model.stream
    # without any copy it takes no less
    floor = max(macs / (model.products * step.rate * model.most_speed(m, n, k)), streamed)
    best: Products | None = None
    matrices_of = _Matrices(step, given)
    first = len(PACKINGS)  # of what takes equally long, the first of all ways to pack is taken
    for copied_bytes, count, rank, packed in step.packings:
        copying = copied_bytes / model.moves + count * model.copy
        if best is not None and best.seconds < copying + floor:
            continue
        found = matrices_of(packed)
        if found is None:
            continue
        rows, columns, contracted = found
        slow, fast = step.size(rows), step.size(columns)
        calls = macs // (slow * fast * k)
        written = None if packed[2] else given[2]
        turned = slow > fast if written is None else written[-1:] == rows[-1:] != ()
        if turned:
            slow, fast = fast, slow
        rate = model.products * step.rate * model.speed(slow, fast, k, calls)
        if calls > batch and macs < ENOUGH:
            rate *= model.strided if macs >= SLICED else LESS * model.strided
        seconds = max(macs / rate, streamed) + calls * model.call + copying
        if calls > 1:
            seconds += BROKEN * matrices_of.broken_rows(packed, found)
        if best is None or seconds < best.seconds or (seconds == best.seconds and rank < first):
            first = rank
            best = Products(seconds, copied_bytes, packed, rows, columns, contracted, calls)
        if copied_bytes == 0 and calls == batch and (slow <= fast or slow >= WIDEST):
            break  # nothing can be better
    assert best is not None  # where all is copied, everything fits
    if best.calls == 1:
        return best
    if step.rate < 1:
        return best._replace(seconds=best.seconds + best.calls * COMPLEX_CALL)
    return best._replace(seconds=best.seconds * TINY_REAL) if m * n * k < TINY else best


def tile_of(
    batch: int, m: int, n: int, k: int, block: tuple[int, int], threads: int, most: tuple[int, int]
) -> tuple[int, int]:
    """Rows and columns of the tiles of a product in blocks, all but the last in whole blocks: no more than
    `most`, and fewer until threads have about equally many. They change no sum. Each tile packs its rows and
    columns once more: a tenth of the time of two threads that share 1024 rows and columns in four tiles
    (float64, EPYC of family 26); in two they are 2 to 3 % faster."""
    height, width = block
    rows, columns = part_of(m, -(-m // most[0]), height), part_of(n, -(-n // most[1]), width)
    while rows * columns * k > LEAST:
        tiles = batch * -(-m // rows) * -(-n // columns)
        if -(-tiles // threads) * threads <= EVEN * tiles:
            break
        if rows > columns and rows > 8 * height:
            rows = part_of(rows, 2, height)
        elif columns > 4 * width:
            columns = part_of(columns, 2, width)
        elif rows > 8 * height:
            rows = part_of(rows, 2, height)
        else:
            break
    return rows, columns


def part_of(n: int, parts: int, block: int) -> int:
    """Rows or columns of one of so many equal parts, all but the last in whole blocks."""
    part = -(-n // parts)
    return min(n, -(-part // block) * block)


def panel_seconds(step: Contraction, given: Orders, model: CostModel | None = None) -> float | None:
    """Seconds of products of real numbers in blocks, which are packed panel by panel from wherever they lie;
    None where BLAS should take no longer.

    What pays is to copy no operand that BLAS would need copied, where panels are read in whole cache lines;
    and on some processors blocks multiply faster.
    """
    model = model or MODELS.current
    batch, m, n, k = step.amounts
    lanes = LINE // step.itemsize
    block = lanes, 2 * lanes  # rows and columns, see `block_shape` of cpu/kernels/panels.py
    if step.rate < 1 or not max(1, get_options().small) <= batch * m * n * k < MOST:
        return None
    if k == 1 or min(m, n) < max(block) or not _have_ends(step, given):
        return None
    if k < ADDED and step.nbytes[2] >= FAR:
        return None  # strips write large results of short sums past the caches, BLAS in rows
    by_blas = plan_matrices(step, given, model)
    ratio = model.blocks if step.rate == 1 else model.blocks_single
    if ratio <= 1 and not by_blas.copied_bytes:
        return None
    lhs, rhs, out = step.nbytes
    rows, columns = tile_of(batch, m, n, k, block, model.threads, TILE_OF_SUMS)
    down, across = -(-m // rows), -(-n // columns)
    working = min(model.threads, batch * down * across)
    # at the edges blocks are whole, too
    macs = batch * -(-m // block[0]) * block[0] * -(-n // block[1]) * block[1] * k
    arithmetic = macs * _seconds_in_panels(model, ratio, step) * (k + DEPTH) / k
    arithmetic *= model.threads / working
    of_lhs, of_rhs = _distant_bytes(step, *given)
    packing = (lhs * across + rhs * down) / (model.moves * model.packs)
    packing *= model.threads / working
    packing += (of_lhs * across + of_rhs * down) / (DISTANT_RATE * working)
    writing = 2 * out / model.stream  # not meanwhile: of short sums it takes most of the time
    seconds = BLOCKS + arithmetic + packing + writing
    return seconds if seconds * MARGIN < by_blas.seconds else None


def _seconds_in_panels(model: CostModel, ratio: float, step: Contraction) -> float:
    """Of one multiplication of packed panels: what was measured beside BLAS, less the time to pack and to
    write."""
    side = MEASURED
    rate = model.products * step.rate * ratio * model.speed(side, side, side, 1)
    block = LINE // step.itemsize, 2 * LINE // step.itemsize
    rows, columns = tile_of(1, side, side, side, block, model.threads, TILE)
    passes = -(-side // rows) - (-side // columns)  # over both operands
    nbytes = side**2 * step.itemsize
    besides = passes * nbytes / (model.moves * model.packs) + 2 * nbytes / model.stream
    return max((side**3 / rate - besides) / side**3, LEAST_PART / rate)


def _have_ends(step: Contraction, orders: Orders) -> bool:
    """Whether what lies one after another in each array are rows, columns or contracted elements, some cache
    lines long."""
    return all(
        order and order[-1] not in step.batch and step.sizes[order[-1]] >= SHORT for order in orders
    )


def _distant_bytes(step: Contraction, lhs: Order, rhs: Order, out: Order) -> tuple[int, int]:
    """How much of two operands is packed in short pieces that lie far from each other, since contracted
    elements are walked in the order of only one of them: where they are neighbours, or that of the operand
    with the columns. Where they are neighbours in both, both are walked by short pieces."""
    assert lhs is not None
    assert rhs is not None
    assert out is not None
    contracted = {x for x in step.contracted if step.sizes[x] > 1}
    first, second = ([x for x in order if x in contracted] for order in (lhs, rhs))
    if first == second:
        return 0, 0
    ends_of_lhs, ends_of_rhs = (order[-1] in contracted for order in (lhs, rhs))
    is_lhs_walked = ends_of_lhs if ends_of_lhs != ends_of_rhs else out[-1] in step.rows
    left, right = (0 if nbytes < DISTANT else nbytes for nbytes in step.nbytes[:2])
    if ends_of_lhs and ends_of_rhs:
        return left, right
    return (0, right) if is_lhs_walked else (left, 0)


PACKINGS: tuple[tuple[bool, bool, bool], ...] = (
    (False, False, False),
    (True, False, False),
    (False, True, False),
    (False, False, True),
    (True, True, False),
    (True, False, True),
    (False, True, True),
    (True, True, True),
)


BATCH, ROWS, COLUMNS, CONTRACTED = range(4)
SIDES = ((ROWS, CONTRACTED), (COLUMNS, CONTRACTED), (ROWS, COLUMNS))  # groups of lhs, rhs, out


class _Matrices:
    """What one product of matrices may be where arrays are in these orders, or packed."""

    def __init__(self, step: Contraction, orders: Orders) -> None:
        self.step, self.orders = step, orders
        self.groups = groups = (step.batch, step.rows, step.columns, step.contracted)
        # the group of each array's last label, BATCH for one of no matrix; None for a number for each loop
        self.ends: list[tuple[int, int] | None] = []
        for order, (one, other) in zip(orders, SIDES, strict=True):
            end: tuple[int, int] | None = None
            if order and (groups[one] or groups[other]):
                last = order[-1]
                group = one if last in groups[one] else other if last in groups[other] else BATCH
                end = group, last
            self.ends.append(end)

    def __call__(self, packed: tuple[bool, bool, bool]) -> tuple[Labels, Labels, Labels] | None:
        """Labels of the rows, columns and contracted axis of one matrix product; None if BLAS cannot read or
        write matrices in these orders, or if what is packed has no order yet: it is free anyway."""
        ends: dict[int, int] = {}
        orders: list[Order] = [*self.orders]
        for side in range(3):
            if packed[side]:
                if orders[side] is None:
                    return None
                orders[side] = None
            elif (end := self.ends[side]) is not None:
                group, last = end
                if group == BATCH:
                    return None  # unit stride along a batch axis
                if ends.setdefault(group, last) != last:
                    return None  # two arrays have unit stride along different axes of one group
        lhs, rhs, out = orders
        contracted = self._run(CONTRACTED, lhs, rhs, ends)
        if len(contracted) != len(self.step.contracted):
            return None
        rows = self._run(ROWS, lhs, out, ends)
        if self.step.rows and not rows:
            return None
        columns = self._run(COLUMNS, rhs, out, ends)
        if self.step.columns and not columns:
            return None
        return rows, columns, contracted

    def broken_rows(
        self, packed: tuple[bool, bool, bool], found: tuple[Labels, Labels, Labels]
    ) -> int:
        """Short rows, or columns, of matrices of large arrays, each of which lies far from the next."""
        step, count = self.step, 0
        rows, columns, contracted = found
        for side, groups in enumerate(((rows, contracted), (contracted, columns), (rows, columns))):
            order = self.orders[side]
            if packed[side] or not order or step.nbytes[side] < APART:
                continue
            inner, outer = groups if order[-1] in groups[0] else groups[::-1]
            run = step.size(inner) * step.itemsize
            if not outer or {*order[-len(inner) :]} != {*inner} or run >= ROW:
                continue
            last = max(order.index(x) for x in outer)
            if step.size(order[last + 1 :]) * step.itemsize >= PAGE:
                count += step.nbytes[side] // run
        return count

    def _run(self, group: int, first: Order, second: Order, ends: dict[int, int]) -> Labels:
        labels = self.groups[group]
        if len(labels) < 2:
            return labels
        runs, key = self.step.runs, (group, first, second, ends.get(group))
        found = runs.get(key)
        if found is None:
            found = runs[key] = _longest_run(self.step, labels, first, second, key[3])
        return found


def _longest_run(
    step: Contraction, labels: Labels, first: Order, second: Order, end: int | None
) -> Labels:
    """The largest run of `labels` that are neighbours in both orders, with `end` last if that is given."""
    if first is None or second is None:
        order, other = (first or second), None
        if order is None:
            return labels
    else:
        order, other = first, {x: at for at, x in enumerate(second)}
    wanted = set(labels)
    runs: list[list[int]] = []
    before: int | None = None
    for x in order:
        if x in wanted:
            if before is not None and (other is None or other[x] == other[before] + 1):
                runs[-1].append(x)
            else:
                runs.append([x])
            before = x
        else:
            before = None
    if end is not None:
        return tuple(next((run for run in runs if run[-1] == end), ()))
    return tuple(max(runs, key=step.size))


def _loop_nest(step: Contraction, orders: Orders, model: CostModel) -> Products:
    """A loop nest over the output reads any order; a short innermost run, or one that an operand does not
    read in order, is not vectorised and uses little of each cache line."""
    streamed = (sum(step.nbytes) + step.nbytes[2]) / model.stream
    computed = math.prod(step.amounts) / (model.products * step.rate * model.nest)
    run = innermost_run(step, *orders)
    seconds = max(streamed, computed) * (1 + model.row / run)
    return Products(seconds, 0, (False, False, False), calls=0)


def innermost_run(step: Contraction, lhs: Order, rhs: Order, out: Order) -> int:
    """How many elements at the end of `out` that every operand reads in order or does not depend on."""
    if out is None:
        return 1 << 20
    after = [None if order is None else order[::-1] for order in (lhs, rhs)]
    seen = [0, 0]
    length = 1
    for x in reversed(out):
        for side, (order, own) in enumerate(zip(after, (step.rows, step.columns), strict=True)):
            if order is None or not (x in own or x in step.batch):
                continue
            if seen[side] >= len(order) or order[seen[side]] != x:
                return length
            seen[side] += 1
        length *= step.sizes[x]
    return length

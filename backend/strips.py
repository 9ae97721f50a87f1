"""When a product of matrices is worth our own kernel of strips, and what it is then given copies of.

One operand gives the columns, which are what lies one after another in the result; of the other, single
elements are spread over registers (backend/cpu/strips.py). So rows are padded to nothing, columns to whole
cache lines, and a large result is written once, past the caches, where BLAS clears it and adds to it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .._base.options import get_options, num_threads
from .cost_model import FAR, CostModel

if TYPE_CHECKING:
    from .contraction import Contraction, Labels, Order, Orders

EDGES = (4, 3)  # rows and contracted elements with which half of their rate is reached
TURNED = 9  # such rows where contracted elements are turned into rows of strips, which pays from
MANY = 16  # rows on
TOGETHER = 16  # elements of the result at least that lie together where they are written one by one
# most rows and columns of a tile: with PART half a MiB of rows, which stay in L2
TILE = (256, 512)
PIECE = 1.5e-7  # seconds of a thread for each piece of a large operand that is packed from a place of its own
STRIP = 6e-8  # and for each strip, however few its rows and contracted elements
PART = 256  # contracted elements that are added up in registers
LINE = 64  # bytes of a cache line, in which columns of strips are whole
STRIP_LINES = 3  # of a strip, at most
PADDED = 1.3  # times as many columns, at most, as there are
RUN = 32  # columns one after another in their operand that are enough
LONG = 256  # and in the result
FASTER = 1.25  # times the rate of BLAS, from which strips take what they would else leave to BLAS
LITTLE = 4  # times as many bytes as are copied has the result
MOST = 1 << 1000  # multiplications that a float can count
SCATTERED = 1e-9  # seconds of a thread for each element that is added to the result by itself
STARTED = 5e-6  # seconds before the kernel begins on one thread
ALONE = 1 << 20  # multiplications, and as many as are worth writing, that one thread has soon done
WRITING = 16  # multiplications that take as long as it takes to write what they are added up to
SHORT = 64  # rows and columns of a result that one thread computes, at most, if sums are not long
SMALL = 1 << 14  # elements of a result, whose sums are shared out if they are so many
DEEP = 8  # times as long as it has rows and columns
SHARES = 16  # of sums, at most, each of so many
SHARE = 1 << 19  # multiplications at least
IN_TURN = (
    1 << 16
)  # the same, and of tiles, where threads wait for each other without the interpreter's lock
TURN = 3e-6  # seconds until all of them are at work in the next step then
PASSING = 8e10  # bytes of operands and result per second, which go from one thread to another


class Strips(NamedTuple):
    """Seconds of the kernel and of what is copied for it; which of lhs and rhs are."""

    seconds: float
    copied_bytes: int
    packed: tuple[bool, bool]


def plan_strips(
    step: Contraction,
    given: Orders,
    model: CostModel,
    *,
    widely: bool = False,
    in_turn: bool = False,
) -> Strips | None:
    """The cheapest way to let strips contract operands in these orders into a result in that order; None
    where that is not for them.

    What lies well is read where it lies: columns have to lie one after another in their operand as in the
    result, or contracted elements have to, so that they are read in whole cache lines; and so have rows or
    contracted elements of the other one. What does not is copied first, which is little where the result is
    large. BLAS takes slices of many other operands where they lie, and is left to do that.

    With `widely`, for what BLAS copies as well: rows may lie anyhow, operands are copied whatever their size,
    columns may fill a small part of their lines, and reading and writing may take longer than the arithmetic.

    Where strips are so much faster than BLAS that these are not the products that gain most, as a model that
    was measured may say, operands are copied whatever their size, too, and columns may lie apart in the
    result.

    With `in_turn`, as one of many products in one call of a kernel: nothing is copied first, and threads
    share products that are small.
    """
    batch, m, n, k = step.amounts
    macs = batch * m * n * k
    if k < 2 or not (1 if in_turn else max(1, get_options().small)) <= macs < MOST:
        return None
    lhs, rhs, out = (_long(step, order) for order in given)
    of_rows, of_columns, _ = step.nbytes
    rows, columns = step.rows, step.columns
    is_turned = bool(out) and out[-1] in rows  # type: ignore[index]
    if is_turned:
        lhs, rhs, rows, columns, m, n = rhs, lhs, columns, rows, n, m
        of_rows, of_columns = of_columns, of_rows
    elif out and out[-1] not in columns:
        return None
    lanes = LINE // step.itemsize
    width = -(-n // lanes) * lanes
    is_faster = model.strips >= FASTER
    if in_turn:
        threads = max(1.0, min(model.threads, num_threads(), macs / IN_TURN))
    else:
        threads = 1.0 if is_alone(batch, m, n, k) else model.threads
    scattering = 0.0
    if not _writes_well(step, out, columns):
        if not is_faster or run_of(step, columns, out) < TOGETHER:
            return None
        scattering = batch * m * n * -(-k // PART) * SCATTERED / threads
    if width > PADDED * n and not widely:
        return None
    best: Strips | None = None
    for copied_bytes, packs_rows, packs_columns in sorted(
        (packs_rows * of_rows + packs_columns * of_columns, packs_rows, packs_columns)
        for packs_rows in ((False, True) if lhs and not in_turn else (False,))
        for packs_columns in ((False, True) if rhs and not in_turn else (False,))
    ):
        if not (is_faster or widely) and LITTLE * copied_bytes > step.nbytes[2]:
            break  # BLAS copies them as well, and is faster then
        left, right = None if packs_rows else lhs, None if packs_columns else rhs
        if not _packs_well(step, left, right, out, columns):
            continue
        is_read_well = _reads_well(step, left, out, rows)
        if not is_read_well and not widely:
            continue
        a, b = EDGES
        if right and right[-1] in step.contracted:
            if m < MANY:
                continue
            # to turn takes as long beside a slower BLAS as beside a faster one
            a = round(TURNED * model.strips) if is_faster else TURNED
        rate = model.products * step.rate * model.strips * m / (m + a) * k / (k + b)
        arithmetic = batch * m * width * k / rate * model.threads / threads
        is_far = step.nbytes[2] >= FAR and k <= PART and n % lanes == 0 and not scattering
        streamed = (sum(step.nbytes) + (0 if is_far else step.nbytes[2])) / model.stream
        if not is_read_well and of_rows >= FAR:
            streamed += of_rows / model.stream  # lines of which a part is used each time
        if arithmetic * model.strips < streamed and not is_far and not widely:
            continue  # at the rate of BLAS, which writes what stays in caches as fast
        down = -(-m // TILE[0])
        # or more
        strips = batch * down * -(-k // PART) * math.ceil(width / (model.strip_lines * lanes))
        packing = strips * STRIP + _pieces(step, left, right, out, columns) * down * PIECE
        computed = arithmetic + packing / threads
        started = STARTED if threads == 1 else model.strips_start
        if in_turn:
            started = 0.0 if threads == 1 else TURN + sum(step.nbytes) / PASSING
        seconds = started + max(computed, streamed) + copied_bytes / model.moves
        seconds += (packs_rows + packs_columns) * model.copy + scattering
        if best is None or seconds < best.seconds:
            packed = packs_rows, packs_columns
            best = Strips(seconds, copied_bytes, packed[::-1] if is_turned else packed)
    return best


def is_alone(batch: int, m: int, n: int, k: int) -> bool:
    """Whether one thread computes it all: little work, or a single tile whose sums are not long."""
    is_one_tile = batch == 1 and max(m, n) <= SHORT and share_length(batch, m, n, k) == k
    return is_one_tile or batch * m * n * (k + WRITING) < ALONE


def share_length(batch: int, m: int, n: int, k: int, share: int = SHARE) -> int:
    """How many contracted elements one thread adds up where a small result has long sums, `share`
    multiplications or more; k where tiles of the result are shared out. It depends on sizes alone, so that
    results do not depend on the number of threads."""
    is_small = batch == 1 and m * n <= SMALL and k >= DEEP * max(m, n)
    shares = min(SHARES, m * n * k // share) if is_small else 1
    return k if shares < 2 else -(-k // (shares * RUN)) * RUN


def _long(step: Contraction, order: Order) -> Order:
    """The labels of more than one element."""
    if order is None or not step.has_ones:
        return order
    return tuple(x for x in order if step.sizes[x] > 1)


def _pieces(step: Contraction, lhs: Order, rhs: Order, out: Order, columns: Labels) -> int:
    """In how many pieces a large operand with the columns lies, whose contracted labels strips walk in its
    own order where they are last there, else in that of the other operand; a fit to measured times, which
    leaves out that strips and parts end pieces, too."""
    if not rhs or step.size(rhs) * step.itemsize < FAR:
        return 0
    across = tuple(x for x in (out or rhs) if x in columns)
    is_turned = rhs[-1] in step.contracted
    order = rhs if is_turned else lhs or step.contracted
    down = tuple(x for x in order if x in step.contracted and step.sizes[x] > 1)
    walk = across + down if is_turned else down + across
    length = 1
    for x, y in zip(reversed(walk), reversed(rhs), strict=False):
        if x != y:
            break
        length *= step.sizes[x]
    return step.size(rhs) // length


def _writes_well(step: Contraction, out: Order, columns: Labels) -> bool:
    """Whether columns lie one after another in the result, or in runs of whole cache lines; others are
    written element by element, but few where runs are long."""
    length = run_of(step, columns, out)
    return length >= min(LONG, step.size(columns)) or length * step.itemsize % LINE == 0


def _packs_well(step: Contraction, lhs: Order, rhs: Order, out: Order, columns: Labels) -> bool:
    """Whether strips of the operand with the columns are read in whole lines."""
    if rhs and rhs[-1] in step.contracted:
        if lhs and lhs[-1] in step.contracted and lhs[-1] != rhs[-1]:
            return False  # elements of one are neighbours where those of the other are far apart
        return step.sizes[rhs[-1]] * step.itemsize >= LINE
    if rhs is None:
        return True
    enough = min(RUN, step.size(columns))
    return (not rhs or rhs[-1] in columns) and run_of(step, columns, rhs, out) >= enough


def _reads_well(step: Contraction, lhs: Order, out: Order, rows: Labels) -> bool:
    """Whether whole lines of the operand with the rows are read one after another."""
    if not lhs:
        return True
    if lhs[-1] in step.contracted:
        depth = len(step.contracted)
        is_whole = {*lhs[-depth:]} == {*step.contracted} and {*lhs[-depth - 1 : -depth]} <= {*rows}
        return is_whole or step.sizes[lhs[-1]] * step.itemsize >= LINE
    of_out = None if out is None else tuple(x for x in out if x in rows)
    return run_of(step, rows, lhs, of_out) >= min(RUN, step.size(rows))


def run_of(step: Contraction, labels: Labels, *orders: Order) -> int:
    """How many elements of these labels lie one after another in all orders."""
    some = [order for order in orders if order is not None]
    if not some:
        return step.size(labels)
    length = 1
    for at in range(1, min(map(len, some)) + 1):
        last = {order[-at] for order in some}
        if len(last) > 1 or not last <= {*labels}:
            break
        length *= step.sizes[last.pop()]
    return length

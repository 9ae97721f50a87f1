"""When products of real numbers are worth our own kernel of blocks, and how it shares them out."""

from __future__ import annotations

from .._base.options import get_options
from .contraction import Contraction, Order, Orders
from .cost_model import FAR, MODELS, CostModel
from .matrices import MOST, plan_matrices
from .strips import LINE

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

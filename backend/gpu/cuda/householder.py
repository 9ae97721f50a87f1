"""QR of many small matrices in one launch, by Householder's reflectors.

The reflectors and their signs are LAPACK's (larfg, geqrf, orgqr): the diagonal of r is real, of the opposite
sign to the entry that it takes the place of. A matrix lies in shared memory: small ones share a warp, which
needs no barrier of the block; large ones have a block each, as far as its memory holds them. r is written
before q takes its place, from the last reflector to the first (source/householder.cuh). Sizes are numbers
that a kernel is given: one text serves all shapes that take as many lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

from .kernel import MOST_BLOCKS, PLAIN_SHARED, CudaKernel, kept
from .layout import Operand, index_type, layout
from .matrices import DTYPES
from .teams import WARP, power_of_two
from .text import fill, unit
from .types import TYPES

MOST = 128  # reflectors; beyond, blocked methods of libraries do better
THREADS = 512  # of a block that has one matrix
HELD = 64  # bytes of a column in a lane's registers, and of two others beside it
TEAMS = 8  # as many columns side by side, if there are; of many, a team has four of them in turn
BANKS = 128  # bytes that a warp reads at once

ENTRY = """
extern "C" __launch_bounds__($threads) __global__ void $name($arrays,
                                                             Factored<$batch, $operands, $index> g) {
    typedef $index Index;
    typedef $type T;
    const bool IN_WARP = $in_warp;
    alignas(16) extern __shared__ unsigned char memory[];
    const int lane = threadIdx.x, lanes = blockDim.x, row = threadIdx.y, rows = blockDim.y;
    const int m = g.m, n = g.n, steps = m < n ? m : n, pitch = g.pitch, columns = g.columns;
    const T zero = to<T>(0);
    T* const a = (T*)memory + row * columns * pitch;
    T* const taus = (T*)memory + rows * columns * pitch + row * steps;
    for (Index first = (Index)blockIdx.x * rows; first < g.batch.count; first += (Index)gridDim.x * rows) {
        const bool mine = first + row < g.batch.count;
        Index at[$operands];
        g.batch.offsets(mine ? first + row : first, at);
        for (Walk w(lane, lanes, m, n, g.row[$source], g.column[$source]); w.left(); w.next())
            a[w.j() * pitch + w.i()] =
                source[at[$source] + w.i() * g.row[$source] + w.j() * g.column[$source]];
        meet<IN_WARP>();
        triangularise<IN_WARP, $team, $held, $short>(a, pitch, m, n, taus);
        $write
        meet<IN_WARP>();
    }
}
"""

WRITE_R = """
if (mine)
    for (Walk w(lane, lanes, g.of_r, n, g.row[$r], g.column[$r]); w.left(); w.next())
        r[at[$r] + w.i() * g.row[$r] + w.j() * g.column[$r]] =
            w.i() <= w.j() ? a[w.j() * pitch + w.i()] : zero;
"""

WRITE_Q = """
meet<IN_WARP>();
unroll<IN_WARP, $team, $held, $short>(a, pitch, m, steps, g.of_q, taus);
if (mine)
    for (Walk w(lane, lanes, m, g.of_q, g.row[0], g.column[0]); w.left(); w.next())
        q[at[0] + w.i() * g.row[0] + w.j() * g.column[0]] = a[w.j() * pitch + w.i()];
"""

WRITE_RAW = """
if (mine) {
    for (Walk w(lane, lanes, m, n, g.column[0], g.row[0]); w.left(); w.next())
        h[at[0] + w.j() * g.row[0] + w.i() * g.column[0]] = a[w.j() * pitch + w.i()];
    for (int k = lane; k < steps; k += lanes) factors[at[1] + k * g.row[1]] = taus[k];
}
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a matrix lies on lanes and in shared memory.

    Attributes:
        team: lanes that have a column, a power of two.
        held: entries of a column that a lane has in registers.
        short: whether these are all of a column.
        lanes, rows: of a block: lanes of a matrix, matrices.
        pitch: elements from one column to the next.
        shared: bytes of a block.
    """

    team: int
    held: int
    short: bool
    lanes: int
    rows: int
    pitch: int
    shared: int

    @property
    def in_warp(self) -> bool:
        return self.lanes <= WARP


def shape_of(m: int, n: int, columns: int, size: int, most: int) -> Shape | None:
    """For m x n elements of `size` bytes with room for so many columns, and blocks of at most `most` bytes of
    shared memory; None where a matrix does not fit.

    >>> shape_of(32, 32, 32, 8, 49152)
    Shape(team=4, held=8, short=True, lanes=32, rows=1, pitch=36, shared=9472)
    >>> shape_of(4, 4, 4, 8, 49152).rows, shape_of(128, 128, 128, 8, 232448).lanes
    (8, 512)
    """
    held = min(8, HELD // size)
    team = min(WARP, power_of_two(-(-m // held)))
    held = min(held, power_of_two(-(-m // team)))
    teams = min(columns, max(TEAMS, -(-columns // 4)), THREADS // team)
    lanes = teams * team
    lanes = power_of_two(lanes) if lanes <= WARP else -(-lanes // WARP) * WARP
    pitch = _pitch(m, team, size)
    each = (columns * pitch + min(m, n)) * size
    rows = max(1, WARP // lanes)  # blocks as small as may be: a batch is to reach all processors
    if each * rows > most:
        return None
    return Shape(team, held, m <= team * held, lanes, rows, pitch, each * rows)


def _pitch(m: int, team: int, size: int) -> int:
    """Whole teams, an odd number of them, so that teams side by side read different banks; where a team reads
    all of them, any odd number, so that reading along rows meets different banks too."""
    if team * size >= BANKS:
        return m | 1
    return team * (-(-m // team) | 1)


def qr(q: Operand, r: Operand, a: Operand, most: int = PLAIN_SHARED) -> CudaKernel | None:
    """a = q r with orthonormal columns of q, r upper triangular, for every matrix of a batch.

    Args:
        q, r: [..., m, p] and [..., p, n] with p = min(m, n), or p = m.
        a: [..., m, n].
        most: bytes of shared memory that a block may have.

    Returns:
        the kernel, which takes the three in this order; None where min(m, n) is beyond 128, a or q does not
        fit, or no kernel has the dtype.

    >>> a = Operand("float64", (500, 16, 16), (256, 16, 1))
    >>> qr(a, a, a).block
    (16, 2, 1)
    """
    return kept(("qr", q, r, a, most), lambda: _made("q", (q, r, a), most))


def r_alone(r: Operand, a: Operand, most: int = PLAIN_SHARED) -> CudaKernel | None:
    """r of `qr`, bit by bit."""
    return kept(("qr r", r, a, most), lambda: _made("r", (r, a), most))


def reflectors(
    h: Operand, factors: Operand, a: Operand, most: int = PLAIN_SHARED
) -> CudaKernel | None:
    """What r and q are made of: h [..., n, m] has r and the reflectors below it, transposed; factors [..., p]
    their tau, p = min(m, n)."""
    return kept(("qr raw", h, factors, a, most), lambda: _made("raw", (h, factors, a), most))


ARRAYS = {"q": ("q", "r", "a"), "r": ("r", "a"), "raw": ("h", "factors", "a")}


def _made(kind: str, operands: tuple[Operand, ...], most: int) -> CudaKernel | None:
    a = operands[-1]
    if a.dtype not in DTYPES or not 0 < min(a.shape[-2:]) <= MOST:
        return None
    *outer, m, n = a.shape
    of_q = operands[0].shape[-1] if kind == "q" else 0
    of_r = 0 if kind == "raw" else operands[-2].shape[-2]
    columns = max(n, of_q)
    shape = shape_of(m, n, columns, DTYPES[a.dtype], most)
    if shape is None:
        return None
    ndim = len(outer)
    batch = layout(a.shape[:-2], *(operand.strides[:ndim] for operand in operands))
    index = index_type(batch, *(layout(one.shape, one.strides) for one in operands))
    names, place = ARRAYS[kind], {"team": shape.team, "held": shape.held}
    flags = {"short": str(shape.short).lower(), "in_warp": str(shape.in_warp).lower()}
    write = WRITE_RAW if kind == "raw" else fill(WRITE_R, r=len(operands) - 2)
    if kind == "q":
        write = write + "\n" + fill(WRITE_Q, **place, short=flags["short"])
    declared = [f"{TYPES[a.dtype]}* {name}" for name in names[:-1]]
    source, name = unit(
        ("layout", "numbers", "arithmetic", "teams", "householder"),
        "qr",
        ENTRY,
        threads=power_of_two(shape.lanes * shape.rows),
        arrays=", ".join((*declared, f"const {TYPES[a.dtype]}* source")),
        batch=batch.type(index),
        operands=len(operands),
        index=index,
        type=TYPES[a.dtype],
        source=len(operands) - 1,
        write=write.strip("\n"),
        **place,
        **flags,
    )
    inner = [(*one.strides[ndim:], 0)[:2] for one in operands]
    geometry = (*batch.geometry(), *(r for r, _ in inner), *(c for _, c in inner))
    geometry += (m, n, of_q, of_r, shape.pitch, columns)
    grid = (min(MOST_BLOCKS, max(1, -(-batch.count // shape.rows))), 1, 1)
    block = (shape.lanes, shape.rows, 1)
    return CudaKernel(
        source, name, grid, block, names, geometry, index != "int", shared=shape.shared
    )

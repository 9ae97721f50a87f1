"""Solves of matrices of middling order, a block of threads and its shared memory for each.

a x = b by Gaussian elimination with row exchanges, in panels of NB columns. With A the rows and columns that
are left, the first NB columns among them,

    P A = [L11    ] [U11 U12]      P [A11] = [L11] U11,   U12 = L11⁻¹ A12,   S = A22 - L21 U12,
          [L21  1 ] [     S ]        [A21]   [L21]

where A12 and A22 are meant after the exchange; b stands beside A as more columns of A12 and A22, so that it
becomes L⁻¹ b on the way, and S is done next. x comes from U by substitution. G. H. Golub and C. F. Van Loan,
"Matrix Computations" (4th edition, 2013), sections 3.2 and 3.4; LAPACK's getrf does the same.

One warp finds the pivots of a panel, its lanes with rows in registers, so that a step costs a maximum over
the warp and no barrier; U12 is a column to a thread, S tiles in registers. Once U12 is there, this warp goes
on with the next panel while the others subtract from the rest: two barriers for NB steps. No row is moved;
lists say which are left, so that the warps that subtract do not mind the exchanges that the next panel makes.

Pivots are the largest of a column within 2**-15 (float32) or 2**-12 (float64), of equal ones the first.
"""

from __future__ import annotations

from .kernel import MOST_BLOCKS, PLAIN_SHARED, CudaKernel, kept
from .layout import Operand, index_type, layout
from .matrices import DTYPES
from .matrices import MOST as MOST_IN_REGISTERS
from .text import unit
from .types import TYPES

MOST = (
    160  # order: behind it, a matrix of float64 no longer fits; twice as soon as cuBLAS on an H200
)
MOST_COLUMNS = 256  # right-hand sides: one block takes all of a matrix's, a library spreads them
HELD = 32  # of these, in shared memory at a time
FEW = 64  # order up to which four warps are enough, and several blocks share a multiprocessor
WARP = 32
RESERVED = 1 << 10  # bytes that a multiprocessor keeps for each block, besides what is asked for
PANEL = {4: 8, 8: 8, 16: 4}
"""Columns of a panel by bytes of an element: five rows of it are in a lane's registers."""
TILE = {4: (4, 4), 8: (4, 4), 16: (2, 4)}
"""Rows and columns that a thread has in registers when a product is subtracted, by the same."""
RESIDENT = {4: 768, 8: 640, 16: 512}
"""Threads of a multiprocessor that registers suffice for, if its memory does: hardly anything is spilled."""

FILES = ("layout", "numbers", "arithmetic", "matrices", "rows", "blocked")
FRAME = """
extern "C" __launch_bounds__($threads, $blocks) __global__ void $name(
    $type* out, int* info, const $type* a_in, const $type* b, Systems<$batch, 4, $index> g) {
    typedef $index Index;
    typedef $type T;
    typedef Real<T>::type R;
    const int SLOTS = $slots, NB = $panel, ROWS = $rows, COLUMNS = $columns, MANY = 4, AHEAD = $ahead;
    alignas(16) extern __shared__ unsigned char memory[];
    T(&lines)[2][NB] = *(T(*)[2][NB]) memory;
    const int n = g.order, pitch = g.pitch;
    T* const a = (T*)memory + 2 * NB;
    Pivots<T> pivots;
    pivots.pivot = a + n * pitch;
    pivots.reciprocal = pivots.pivot + n;
    pivots.scale = (R*)(pivots.reciprocal + n);
    pivots.place = (int*)(pivots.scale + n);
    int* const rest = pivots.place + n;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    // Which warp has the panels differs from block to block, lest one scheduler of a multiprocessor have all.
    const int lead = (int)(blockIdx.x * 2654435761u >> 16) % warps;
    for (Index member = blockIdx.x; member < g.batch.count; member += gridDim.x) {
        Index at[4];
        g.batch.offsets(member, at);
        const T* const matrix = a_in + at[2];
        if ($a_by_row) fetch<AHEAD>(a, pitch, 1, matrix, g.row[2], g.column[2], n, n);
        else fetch<AHEAD>(a, 1, pitch, matrix, g.column[2], g.row[2], n, n);
        for (int i = threadIdx.x; i < n; i += blockDim.x) rest[i] = i;
        for (Index done = 0; done < g.columns; done += g.held) {
            const int held = (int)(g.held < g.columns - done ? g.held : g.columns - done);
            const T* const sides = b + (at[3] + done * g.column[3]);
            if ($b_by_row) fetch<AHEAD>(a + n, pitch, 1, sides, g.row[3], g.column[3], n, held);
            else fetch<AHEAD>(a + n, 1, pitch, sides, g.column[3], g.row[3], held, n);
            __syncthreads();
            if (done == 0) {
                const int failed =
                    eliminate<SLOTS, NB, ROWS, COLUMNS>(a, pitch, n, held, pivots, rest, lines, lead);
                if (warp == lead && lane == 0) info[at[1]] = failed;
            } else {
                follow<NB, ROWS, COLUMNS>(a, pitch, n, held, pivots.place);
            }
            if (held <= warps) {
                if (warp < held) substitute<SLOTS, 1>(a, pitch, n, pivots, n + warp, n + held);
            } else {
                for (int c = warp * MANY; c < held; c += warps * MANY)
                    substitute<SLOTS, MANY>(a, pitch, n, pivots, n + c, n + held);
            }
            __syncthreads();
            T* const found = out + (at[0] + done * g.column[0]);
            if ($out_by_row) {
                for (int i = warp; i < n; i += warps)
                    for (int c = lane; c < held; c += 32)
                        found[i * g.row[0] + c * g.column[0]] = a[pivots.place[i] * pitch + n + c];
            } else {
                for (int c = warp; c < held; c += warps)
                    for (int i = lane; i < n; i += 32)
                        found[i * g.row[0] + c * g.column[0]] = a[pivots.place[i] * pitch + n + c];
            }
            __syncthreads();
        }
    }
}
"""


def solve(
    out: Operand, info: Operand, a: Operand, b: Operand, most: int = PLAIN_SHARED
) -> CudaKernel | None:
    """a @ out = b for every matrix of a batch.

    Args:
        out, b: [..., n, k]; they may be the same array.
        info: int32 [...], 0 or the first step, counted from 1, without a pivot; out has no meaning there.
        a: [..., n, n].
        most: bytes of shared memory that a block may have.

    Returns:
        the kernel, which takes the four in this order; None where n is not from 33 to 160, k is beyond 256, a
        does not fit, or no kernel has the dtype.

    >>> a, info = Operand("float64", (500, 64, 64), (4096, 64, 1)), Operand("int32", (500,), (1,))
    >>> kernel = solve(a, info, a, a)
    >>> kernel.block, kernel.shared
    ((128, 1, 1), 46976)
    """
    key = ("blocked solve", out, info, a, b, most)
    return kept(key, lambda: _made((out, info, a, b), most))


def held_columns(order: int, columns: int, size: int, most: int) -> int:
    """Right-hand sides that are in shared memory at a time, about as many each time; 0 if not one fits.

    >>> held_columns(64, 2, 8, 232448), held_columns(64, 64, 8, 232448), held_columns(160, 64, 8, 232448)
    (2, 32, 16)
    >>> held_columns(128, 1, 16, 232448)
    0
    """
    held = min(columns, HELD)
    while held and _bytes(order, held, size) > most:
        held -= 1
    return -(-columns // -(-columns // held)) if held else 0


def _pitch(order: int, held: int) -> int:
    """Odd: rows side by side begin in different banks."""
    return order + held | 1


def _bytes(order: int, held: int, size: int) -> int:
    """Two lines of a panel; the matrix, pivots and their reciprocals, and scales; a place and two lists of
    rows. The text declares none itself: a card counts that too."""
    lines = 2 * PANEL[size] * size
    return lines + order * ((_pitch(order, held) + 2) * size + min(size, 8) + 3 * 4)


def _made(operands: tuple[Operand, ...], most: int) -> CudaKernel | None:
    a, b = operands[2:]
    order, columns, ndim = a.shape[-1], b.shape[-1], len(a.shape) - 2
    if (
        a.dtype not in DTYPES
        or not MOST_IN_REGISTERS < order <= MOST
        or not 0 < columns <= MOST_COLUMNS
    ):
        return None
    size = DTYPES[a.dtype]
    held = held_columns(order, columns, size, most)
    if not held:
        return None
    batch = layout(a.shape[:-2], *(operand.strides[:ndim] for operand in operands))
    inner = [(*operand.strides[ndim:], 0, 0)[:2] for operand in operands]
    index = index_type(batch, *(layout(one.shape, one.strides) for one in operands))
    by_row = [abs(row) > abs(column) for row, column in inner]
    many = columns >= WARP // 4  # few are read by columns: lanes would idle along so short rows
    threads = 128 if order <= FEW else 256
    shared, (rows, across) = _bytes(order, held, size), TILE[size]
    blocks = max(1, min(RESIDENT[size] // threads, most // (shared + RESERVED)))
    source, name = unit(
        FILES,
        "solve",
        FRAME,
        threads=threads,
        blocks=blocks,
        type=TYPES[a.dtype],
        batch=batch.type(index),
        index=index,
        slots=-(-order // WARP),
        panel=PANEL[size],
        rows=rows,
        columns=across,
        ahead=8 if size < 16 else 4,
        a_by_row=str(by_row[2]).lower(),
        b_by_row=str(by_row[3] and many).lower(),
        out_by_row=str(by_row[0] and many).lower(),
    )
    geometry = (*batch.geometry(), *(r for r, _ in inner), *(c for _, c in inner))
    geometry += (columns, order, held, _pitch(order, held))
    return CudaKernel(
        source,
        name,
        (min(MOST_BLOCKS, max(1, batch.count)), 1, 1),
        (threads, 1, 1),
        ("out", "info", "a", "b"),
        geometry,
        index != "int",
        shared=shared,
    )

"""Eigenvalues and eigenvectors of many small Hermitian matrices in one launch, without a barrier.

A matrix lies in the registers of as many lanes of a warp as it has rows, several matrices in one warp.
Householder's reflectors make it tridiagonal, and real if it is complex, as LAPACK's hetd2 does (G. H. Golub
and C. F. Van Loan, "Matrix Computations", 4th ed., 2013, 8.3.1). Then:

- Each lane finds an eigenvalue by bisection, counting sign changes of the leading minors of T - x (W. Barth,
  R. S. Martin and J. H. Wilkinson, "Calculation of the eigenvalues of a symmetric tridiagonal matrix by the
  method of bisection", Numer. Math. 9, 1967, there with quotients). So all lanes have work, where QL has
  rotations that wait for one another. Values alone are all of it.
- For vectors QL with implicit shifts (A. Dubrulle, R. S. Martin and J. H. Wilkinson, "The implicit QL
  algorithm", Numer. Math. 12, 1968; LAPACK's steqr), those eigenvalues the first ones, turns the product of
  the reflectors along, a row in each lane.

Both are stable backward: errors are some rounding errors of the largest eigenvalue, small ones included.
Values are the same with vectors and without.
"""

from __future__ import annotations

import numpy as np

from .kernel import MOST_BLOCKS, CudaKernel, kept
from .layout import Operand, index_type, layout
from .matrices import DTYPES, FILES, MOST
from .text import fill, unit
from .types import TYPES, DType

WARP = 32
WARPS = 2  # of a block: few, so that a small batch reaches all processors; 32 blocks fill one
BLOCKS = {32: 16, 64: 12, 128: 8, 256: 6}
"""How many are to fit in a multiprocessor, by the most bytes of a row: 64 to 168 registers for a thread, with
which next to nothing is spilled."""

ENTRY = """
extern "C" __launch_bounds__($threads, $blocks) __global__ void $name(
    $arrays, Matrices<$batch, $count, $index> g) {
    typedef $index Index;
    typedef $type T;
    typedef $real R;
    const int N = $order, LANES = $lanes, SLOTS = $slots, lane = threadIdx.x, row = threadIdx.y;
    alignas(128) __shared__ T all[$rows * LANES / WIDTH][SLOTS + 1][WIDTH];
    T* const slots = all[row * LANES / WIDTH][0] + row * LANES % WIDTH;
    T* const products = slots + SLOTS * WIDTH;
    for (Index first = (Index)blockIdx.x * $rows; first < g.batch.count;
         first += (Index)gridDim.x * $rows) {
        const bool mine = first + row < g.batch.count;
        Index at[$count];
        g.batch.offsets(mine ? first + row : first, at);
        T a[N];
        unsigned word = 0;
        #pragma unroll
        for (int j = 0; j < N; ++j) {  // of the lower triangle
            const int i = lane > j ? lane : j, column = lane > j ? j : lane;
            T x = to<T>((R)0);
            if (lane < N) x = source[at[$from] + i * g.row[$from] + column * g.column[$from]];
            if (lane == j) x = to<T>(op::real(x));
            a[j] = lane < j ? op::conj(x) : x;
            const unsigned here = word_of(x);
            word = here > word ? here : word;
        }
        word = largest<LANES>(word);
        const bool finite = word < infinite_word<R>();
        const R scale = Words<R>::scale(word);
        #pragma unroll
        for (int j = 0; j < N; ++j) a[j] = finite ? scaled(a[j], scale) : to<T>((R)0);
        Tridiagonal<N, LANES, $with_vectors, T> t;
        t.reduce(a, slots, products, lane);
        $work
        __syncwarp();
    }
}
"""

VALUES = """
const R value = t.bisect(lane) * ((R)1 / scale);
const bool failed = !finite || votes_of_lanes<LANES>(lane < N && value - value != 0);
if (mine && lane < N) w[at[0] + lane * g.row[0]] = value;
if (mine && lane == 0) info[at[1]] = failed;
"""

VECTORS = """
t.form(a, slots, lane);
const R known = t.bisect(lane), value = known * ((R)1 / scale);
const bool unfinished = t.diagonalise(slots, known, lane);
const bool failed = !finite || unfinished || votes_of_lanes<LANES>(lane < N && value - value != 0);
const int rank = t.rank_of(lane), order = t.order_of(rank, lane);
if (mine && lane < N) w[at[0] + lane * g.row[0]] = value;
if (mine && lane == 0) info[at[2]] = failed;
$store
"""

# Lanes write to neighbours: columns of one row, which other lanes have, or rows of one column.
BY_ROWS = """
__syncwarp();
#pragma unroll 8
for (int i = 0; i < N; ++i)
    if (mine && lane < N)
        vectors[at[1] + i * g.row[1] + lane * g.column[1]] = slots[order * WIDTH + (i ^ order)];
"""
BY_COLUMNS = """
#pragma unroll 8
for (int j = 0; j < N; ++j) {
    const int to_column = __shfl_sync(WARP, rank, j, LANES);
    if (mine && lane < N)
        vectors[at[1] + lane * g.row[1] + to_column * g.column[1]] = slots[j * WIDTH + (lane ^ j)];
}
"""


def eigh(w: Operand, v: Operand | None, info: Operand, a: Operand) -> CudaKernel | None:
    """a v = v diag(w) with w rising and v unitary, for every Hermitian matrix of a batch.

    Args:
        w: [..., n], real.
        v: [..., n, n], an eigenvector in each column; None: values alone, which take less.
        info: int32 [...], 0, or 1 where a part of an entry or an eigenvalue is not finite, or QL did not
            converge in 30 sweeps for each eigenvalue.
        a: [..., n, n]; its lower triangle is read, and the real part of its diagonal.

    Returns:
        the kernel, which takes the four in this order, or three of them; None where n is beyond 32, or no
        kernel has the dtype.

    >>> a = Operand("float32", (500, 8, 8), (64, 8, 1))
    >>> w, info = Operand("float32", (500, 8), (8, 1)), Operand("int32", (500,), (1,))
    >>> eigh(w, a, info, a).block
    (8, 8, 1)
    >>> eigh(w, None, info, a).arrays
    ('w', 'info', 'a')
    """
    key = ("eigh", w, v, info, a)
    return kept(key, lambda: _made(w, v, info, a))


def eigvalsh(w: Operand, info: Operand, a: Operand) -> CudaKernel | None:
    """`eigh` of values alone."""
    return eigh(w, None, info, a)


def _made(w: Operand, v: Operand | None, info: Operand, a: Operand) -> CudaKernel | None:
    order, ndim = a.shape[-1], len(a.shape) - 2
    if a.dtype not in DTYPES or not 0 < order <= MOST:
        return None
    operands = (w, info, a) if v is None else (w, v, info, a)
    dtype: DType = np.dtype(a.dtype)
    real = TYPES[np.dtype(dtype.char.lower()).name]
    batch = layout(a.shape[:-2], *(operand.strides[:ndim] for operand in operands))
    index = index_type(batch, *(layout(one.shape, one.strides) for one in operands))
    inner = [(*one.strides[ndim:], 0, 0)[:2] for one in operands]
    lanes = 1 << (order - 1).bit_length()
    rows = WARP * WARPS // lanes
    pointers = f"{real}* w, int* info, const {TYPES[a.dtype]}* source"
    work = VALUES
    if v is not None:
        pointers = (
            f"{real}* w, {TYPES[a.dtype]}* vectors, int* info, const {TYPES[a.dtype]}* source"
        )
        row, column = inner[1]
        store = BY_ROWS if abs(row) >= abs(column) else BY_COLUMNS
        work = fill(VECTORS, store=store.strip("\n"))
    source, name = unit(
        (*FILES, "rows", "tridiagonal"),
        "eigvalsh" if v is None else "eigh",
        ENTRY,
        arrays=pointers,
        real=real,
        type=TYPES[a.dtype],
        batch=batch.type(index),
        index=index,
        count=len(operands),
        order=order,
        lanes=lanes,
        rows=rows,
        threads=WARP * WARPS,
        blocks=_blocks(order * DTYPES[a.dtype], v is not None),
        slots=2 if v is None else max(order, 2),
        work=work.strip("\n"),
        with_vectors=str(v is not None).lower(),
        **{"from": len(operands) - 1},
    )
    geometry = (*batch.geometry(), *(r for r, _ in inner), *(c for _, c in inner), order)
    grid = (min(MOST_BLOCKS, max(1, -(-batch.count // rows))), 1, 1)
    arrays = ("w", "info", "a") if v is None else ("w", "v", "info", "a")
    return CudaKernel(source, name, grid, (lanes, rows, 1), arrays, geometry, index != "int")


def _blocks(row: int, vectors: bool) -> int:
    """Of a multiprocessor, for rows of so many bytes.

    >>> _blocks(8, True), _blocks(128, False), _blocks(512, False), _blocks(512, True)
    (16, 8, 6, 4)
    """
    return next((blocks for most, blocks in BLOCKS.items() if row <= most), 4 if vectors else 6)

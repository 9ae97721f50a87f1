"""Eigenvalues and eigenvectors of many small Hermitian matrices in one launch, by Jacobi's rotations.

A sweep turns every pair of columns once, in rounds of pairs that have nothing in common, so that all lanes
of a matrix work side by side: R. P. Brent and F. T. Luk, "The solution of singular-value and symmetric
eigenvalue problems on multiprocessor arrays" (SIAM J. Sci. Stat. Comput. 6, 1985).
"""

from __future__ import annotations

import numpy as np

from .kernel import MOST_BLOCKS, CudaKernel, kept
from .layout import Operand, index_type, layout
from .matrices import DTYPES, LANES, MOST, SHARED
from .text import unit
from .types import TYPES, DType

ENTRY = """
extern "C" __global__ void $name(
    $real* w, $type* vectors, int* info, const $type* source, Matrices<$batch, 4, $index> g) {
    typedef $index Index;
    typedef $type T;
    const int N = $order, lane = threadIdx.x, row = threadIdx.y;
    __shared__ T all_a[$rows][N][N + 1], all_v[$rows][N][N + 1];
    __shared__ Rotation<T> all_turns[$rows][(N + 1) / 2];
    __shared__ int busy, all_bad[$rows];
    for (Index first = (Index)blockIdx.x * $rows; first < g.batch.count;
         first += (Index)gridDim.x * $rows) {
        const bool mine = first + row < g.batch.count;
        Index at[4];
        g.batch.offsets(mine ? first + row : first, at);
        T (&a)[N][N + 1] = all_a[row];
        T (&v)[N][N + 1] = all_v[row];
        if (lane == 0) all_bad[row] = 0;
        __syncthreads();
        if (lane < N)
            for (int i = lane; i < N; ++i) {  // of the lower triangle
                const T x = source[at[3] + i * g.row[3] + lane * g.column[3]];
                a[i][lane] = x;
                a[lane][i] = op::conj(x);
                const $real size = op::absolute(x);
                if (size - size != 0) all_bad[row] = 1;  // no number, or of no finite modulus
            }
        __syncthreads();
        const int failed = diagonalise<N>(a, v, all_turns[row], &busy, ($real)$eps);
        __syncthreads();
        if (mine && lane < N) {
            const $real mine_w = op::real(a[lane][lane]);
            if (mine_w - mine_w != 0) all_bad[row] = 1;
            int rank = 0;  // among rising eigenvalues; NaN stays where it is
            for (int j = 0; j < N; ++j) {
                const $real other = op::real(a[j][j]);
                rank += other < mine_w || (!(other > mine_w) && j < lane);
            }
            w[at[0] + rank * g.row[0]] = mine_w;
            for (int i = 0; i < N; ++i)
                vectors[at[1] + i * g.row[1] + rank * g.column[1]] = v[i][lane];
        }
        __syncthreads();
        if (mine && lane == 0) info[at[2]] = failed || all_bad[row];
        __syncthreads();
    }
}
"""


def eigh(w: Operand, v: Operand, info: Operand, a: Operand) -> CudaKernel | None:
    """a v = v diag(w) with w rising and v unitary, for every Hermitian matrix of a batch.

    Args:
        w: [..., n], real.
        v: [..., n, n], an eigenvector in each column.
        info: int32 [...], 0, or 1 where the modulus of an entry or an eigenvalue is not finite, or the sweeps
            did not converge for some matrix of its block.
        a: [..., n, n]; its lower triangle is read.

    Returns:
        the kernel, which takes the four in this order; None where n is beyond 32, or no kernel has the dtype.

    >>> a = Operand("float32", (500, 8, 8), (64, 8, 1))
    >>> w, info = Operand("float32", (500, 8), (8, 1)), Operand("int32", (500,), (1,))
    >>> eigh(w, a, info, a).block
    (8, 16, 1)
    """
    key = ("eigh", w, v, info, a)
    return kept(key, lambda: _made(w, v, info, a))


def _made(w: Operand, v: Operand, info: Operand, a: Operand) -> CudaKernel | None:
    order, ndim = a.shape[-1], len(a.shape) - 2
    if a.dtype not in DTYPES or not 0 < order <= MOST:
        return None
    operands = (w, v, info, a)
    dtype: DType = np.dtype(a.dtype)
    real = np.dtype(dtype.char.lower())
    batch = layout(a.shape[:-2], *(operand.strides[:ndim] for operand in operands))
    index = index_type(batch, *(layout(one.shape, one.strides) for one in operands))
    lanes = max(4, 1 << (order - 1).bit_length())
    rows = max(1, min(LANES // lanes, SHARED // (2 * order * (order + 2) * DTYPES[a.dtype])))
    source, name = unit(
        ("layout", "numbers", "arithmetic", "matrices", "jacobi"),
        "eigh",
        ENTRY,
        real=TYPES[real.name],
        type=TYPES[a.dtype],
        batch=batch.type(index),
        index=index,
        order=order,
        rows=rows,
        eps=repr(float(np.finfo(real).eps)),
    )
    inner = [(*one.strides[ndim:], 0, 0)[:2] for one in operands]
    geometry = (*batch.geometry(), *(r for r, _ in inner), *(c for _, c in inner), order)
    grid = (min(MOST_BLOCKS, max(1, -(-batch.count // rows))), 1, 1)
    arrays = ("w", "v", "info", "a")
    return CudaKernel(source, name, grid, (lanes, rows, 1), arrays, geometry, index != "int")

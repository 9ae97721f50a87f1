"""Factorisations of many small matrices in one launch: a row of threads and shared memory for each.

Orders up to 32: lanes work on rows side by side, with barriers between steps. One text serves all matrices
of one order and dtype, whatever their strides.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...spec import Axes, Shape
from .kernel import MOST_BLOCKS, CudaKernel, kept
from .layout import Layout, Operand, index_type, layout
from .text import unit
from .types import TYPES

MOST = 32  # order
LANES = 128  # of a block
SHARED = 40 << 10  # bytes of a block
DTYPES = {"float32": 4, "float64": 8, "complex64": 8, "complex128": 16}

FRAME = """
extern "C" __global__ void $name($arrays, Matrices<$batch, $count, $index> g) {
    typedef $index Index;
    typedef $type T;
    const int N = $order, lane = threadIdx.x, row = threadIdx.y;
    __shared__ T all[$rows][N][N + 1];
    __shared__ int orders[$rows][N];
    for (Index first = (Index)blockIdx.x * $rows; first < g.batch.count; first += (Index)gridDim.x * $rows) {
        const bool mine = first + row < g.batch.count;
        Index at[$count];
        g.batch.offsets(mine ? first + row : first, at);
        T (&a)[N][N + 1] = all[row];
        int (&pivots)[N] = orders[row];
        if (lane < N)
            for (int i = 0; i < N; ++i)
                a[i][lane] = $source[at[$from] + i * g.row[$from] + lane * g.column[$from]];
        int failed;
        $factorise
        if (mine && lane < N) {
            $store
        }
        __syncthreads();
    }
}
"""

LU_STORE = """
for (int i = 0; i < N; ++i) lu[at[0] + i * g.row[0] + lane * g.column[0]] = a[i][lane];
pivots_out[at[1] + lane * g.row[1]] = pivots[lane];
if (lane == 0) info[at[2]] = failed;
"""

CHOLESKY_STORE = """
for (int i = 0; i < N; ++i) out[at[0] + i * g.row[0] + lane * g.column[0]] = a[i][lane];
if (lane == 0) info[at[1]] = failed;
"""

SOLVE_STORE = """
for (Index c = lane; c < g.columns; c += N) {
    T x[N];
    for (int i = 0; i < N; ++i) {
        x[i] = b[at[3] + pivots[i] * g.row[3] + c * g.column[3]];
        for (int j = 0; j < i; ++j) x[i] = less_product(x[i], a[i][j], x[j]);
    }
    for (int i = N - 1; i >= 0; --i) {
        for (int j = i + 1; j < N; ++j) x[i] = less_product(x[i], a[i][j], x[j]);
        x[i] = op::divide(x[i], a[i][i]);
    }
    for (int i = 0; i < N; ++i) out[at[0] + i * g.row[0] + c * g.column[0]] = x[i];
}
if (lane == 0) info[at[1]] = failed;
"""


@dataclass(frozen=True, slots=True)
class Text:
    """What differs between the kernels: pointers in order, with the matrix among them; and two parts."""

    name: str
    arrays: tuple[str, ...]
    declared: str
    matrix: int
    factorise: str
    store: str


LU = Text(
    "lu",
    ("lu", "pivots", "info", "a"),
    "$type* lu, long long* pivots_out, int* info, const $type* a_in",
    3,
    "factorise<N>(a, pivots, &failed);",
    LU_STORE,
)
CHOLESKY = Text(
    "cholesky",
    ("out", "info", "a"),
    "$type* out, int* info, const $type* a_in",
    2,
    "factorise_positive<N>(a, &failed);",
    CHOLESKY_STORE,
)
SOLVE = Text(
    "solve",
    ("out", "info", "a", "b"),
    "$type* out, int* info, const $type* a_in, const $type* b",
    2,
    "factorise<N>(a, pivots, &failed);",
    SOLVE_STORE,
)


def lu(out: Operand, pivots: Operand, info: Operand, a: Operand) -> CudaKernel | None:
    """a[pivots] = L U for every matrix of a batch.

    Args:
        out: [..., n, n], L below the diagonal, whose own is 1, and U.
        pivots: int64 [..., n], the row of a that stands at each place.
        info: int32 [...], 0 or the first step, counted from 1, without a pivot.
        a: [..., n, n]; only the lower triangle is read by `cholesky`, all of it here.

    Returns:
        the kernel, which takes the four in this order, or None: n is beyond 32, or no kernel has the dtype.
    """
    return _kernel(LU, (out, pivots, info, a), 1)


def cholesky(out: Operand, info: Operand, a: Operand) -> CudaKernel | None:
    """a = out out^H with out lower triangular; info, int32, is 0 or the first step, counted from 1, that
    finds a pivot which is not positive. The upper triangle of a plays no part.

    >>> a = Operand("float64", (1000, 4, 4), (16, 4, 1))
    >>> kernel = cholesky(a, Operand("int32", (1000,), (1,)), a)
    >>> kernel.grid, kernel.block
    ((32, 1, 1), (4, 32, 1))
    """
    return _kernel(CHOLESKY, (out, info, a), 1)


def solve(out: Operand, info: Operand, a: Operand, b: Operand) -> CudaKernel | None:
    """a @ out = b, by LU with row exchanges; out and b are [..., n, k] and may be the same array; info as
    of `lu`, and where it is not 0, out has no meaning."""
    return _kernel(SOLVE, (out, info, a, b), b.shape[-1])


def _kernel(text: Text, operands: tuple[Operand, ...], columns: int) -> CudaKernel | None:
    key = (text.name, *operands)
    return kept(key, lambda: _made(text, operands, columns))


def _made(text: Text, operands: tuple[Operand, ...], columns: int) -> CudaKernel | None:
    a = operands[text.matrix]
    order, ndim = a.shape[-1], len(a.shape) - 2
    if a.dtype not in DTYPES or not 0 < order <= MOST:
        return None
    batch = layout(a.shape[:-2], *(operand.strides[:ndim] for operand in operands))
    inner = [_pad(operand.strides[ndim:]) for operand in operands]
    index = index_type(batch, *(_reach(operand.shape, operand.strides) for operand in operands))
    lanes = max(4, 1 << (order - 1).bit_length())
    rows = max(1, min(LANES // lanes, SHARED // (order * (order + 1) * DTYPES[a.dtype])))
    source, name = unit(
        ("layout", "numbers", "arithmetic", "matrices"),
        text.name,
        FRAME,
        arrays=text.declared.replace("$type", TYPES[a.dtype]),
        batch=batch.type(index),
        count=len(operands),
        index=index,
        type=TYPES[a.dtype],
        order=order,
        rows=rows,
        source="a_in",
        **{"from": text.matrix},
        factorise=text.factorise,
        store=text.store.strip("\n"),
    )
    geometry = (*batch.geometry(), *(r for r, _ in inner), *(c for _, c in inner), columns)
    grid = (min(MOST_BLOCKS, max(1, -(-batch.count // rows))), 1, 1)
    return CudaKernel(source, name, grid, (lanes, rows, 1), text.arrays, geometry, index != "int")


def _pad(strides: Axes) -> tuple[int, int]:
    """Of a row and of a column, where there are any."""
    row, column, *_ = (*strides, 0, 0)
    return row, column


def _reach(shape: Shape, strides: Axes) -> Layout:
    return layout(shape, strides)

"""Factorisations of many small matrices in one launch, a row of threads for each.

Orders up to 32: lanes work on rows side by side. Cholesky and `solve` hold rows in registers, where these are
enough, and several matrices in a warp, so that nothing waits for a barrier (source/rows.cuh); the others
work in shared memory, with barriers between steps (source/matrices.cuh). One text serves all matrices of one
order and dtype, whatever their strides, but for which way they are read and for how many right-hand sides go
along.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...spec import Axes
from .kernel import MOST_BLOCKS, CudaKernel, kept
from .layout import Operand, index_type, layout
from .text import fill, unit
from .types import TYPES

MOST = 32  # order
LANES = 128  # of a block
SHARED = 40 << 10  # bytes of a block
DTYPES = {"float32": 4, "float64": 8, "complex64": 8, "complex128": 16}

# A row of 64 registers, with what is beside it, leaves room for 12 or 16 warps in a multiprocessor, which it
# takes to hide how long a step takes; that is every order, but for complex128 beyond 16.
ROW = 64  # registers
REGISTERS = 1 << 16  # of a multiprocessor
BESIDE = 8  # elements that a step holds beside rows: pivots, reciprocals, multiples
OTHERS = 68  # registers: offsets, places of pivots, and what lets loads and shuffles go ahead
FULL, FULLEST = (
    128,
    168,
)  # registers: enough for a row with its right-hand sides; for all that is here

# Right-hand sides that go along with the matrix, a row in each lane: 2 n shuffles for each of them. Of more,
# each lane takes columns of its own and reads the factors, n n elements, in shared memory, several at once
# and all lanes the same ones: as much as that for 4 or 8 columns, and no more for all of them.
ALONG = 4

FILES = ("layout", "numbers", "arithmetic", "matrices")
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

ROWS_FRAME = """
extern "C" __launch_bounds__($threads, $blocks) __global__ void $name(
    $arrays, Matrices<$batch, $count, $index> g) {
    typedef $index Index;
    typedef $type T;
    const int N = $order, LANES = $lanes, APART = N | 1, lane = threadIdx.x, row = threadIdx.y;
    alignas(16) __shared__ T all[$rows][N * (N + 1)];
    $declare
    for (Index first = (Index)blockIdx.x * $rows; first < g.batch.count; first += (Index)gridDim.x * $rows) {
        const bool mine = first + row < g.batch.count;
        Index at[$count];
        g.batch.offsets(mine ? first + row : first, at);
        T* shared = all[row];
        $begin
        $load
        $work
        __syncwarp();
    }
}
"""

# Lanes that read elements side by side and write them to shared memory as they lie, whence each takes its
# row; or each reads its own row, where rows lie side by side. Rows beyond the order are of zeros.
STAGED_LOAD = """
if (lane < N)
    #pragma unroll
    for (int i = 0; i < N; ++i)
        shared[i * APART + lane] = a_in[at[$from] + i * g.row[$from] + lane * g.column[$from]];
__syncwarp();
#pragma unroll
for (int j = 0; j < N; ++j) $target[j] = lane < N ? shared[lane * APART + j] : to<T>(0);
"""
DIRECT_LOAD = """
#pragma unroll
for (int j = 0; j < N; ++j)
    $target[j] = lane < N ? a_in[at[$from] + lane * g.row[$from] + j * g.column[$from]] : to<T>(0);
"""

# `out` may be b: all lanes have read what is written.
ALONG_BEGIN = """
Rows<N, LANES, $columns, T> m;
#pragma unroll
for (int c = 0; c < $columns; ++c)
    m.x[c] = lane < N ? b[at[3] + lane * g.row[3] + c * g.column[3]] : to<T>(0);
"""
ALONG_WORK = """
const int failed = m.eliminate(lane);
m.substitute();
__syncwarp();
if (mine && lane < N) {
    #pragma unroll
    for (int c = 0; c < $columns; ++c)
        out[at[0] + m.step * g.row[0] + c * g.column[0]] = m.x[c];
    if (lane == 0) info[at[1]] = failed;
}
"""

APIECE_BEGIN = "Rows<N, LANES, 0, T> m;"
APIECE_WORK = """
const int failed = m.eliminate(lane);
__syncwarp();
factors[row].keep(shared, m, lane);
__syncwarp();
for (Index begin = 0; begin < g.columns; begin += LANES) {
    const Index c = begin + lane;
    const bool has = mine && c < g.columns;
    T x[N];
    #pragma unroll
    for (int i = 0; i < N; ++i)
        x[i] = has ? b[at[3] + factors[row].place[i] * g.row[3] + c * g.column[3]] : to<T>(0);
    factors[row].solve(shared, x);
    #pragma unroll
    for (int i = 0; i < N; ++i)
        if (has) out[at[0] + i * g.row[0] + c * g.column[0]] = x[i];
    __syncwarp();  // without it, compilers take all the factors to registers before the loop
}
if (mine && lane == 0) info[at[1]] = failed;
"""

CHOLESKY_WORK = """
const int failed = factorise_positive_rows<LANES>(a, lane);
if (mine && lane == 0) info[at[1]] = failed;
"""
STAGED_STORE = """
__syncwarp();
#pragma unroll
for (int j = 0; j < N; ++j)
    if (lane < N) shared[lane * APART + j] = j <= lane ? a[j] : to<T>(0);
__syncwarp();
if (mine && lane < N)
    #pragma unroll
    for (int i = 0; i < N; ++i) out[at[0] + i * g.row[0] + lane * g.column[0]] = shared[i * APART + lane];
"""
DIRECT_STORE = """
if (mine && lane < N)
    #pragma unroll
    for (int j = 0; j < N; ++j)
        out[at[0] + lane * g.row[0] + j * g.column[0]] = j <= lane ? a[j] : to<T>(0);
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
    index = index_type(batch, *(layout(operand.shape, operand.strides) for operand in operands))
    size = DTYPES[a.dtype]
    files: tuple[str, ...]
    values: dict[str, object] = {
        "arrays": text.declared.replace("$type", TYPES[a.dtype]),
        "batch": batch.type(index),
        "count": len(operands),
        "index": index,
        "type": TYPES[a.dtype],
        "order": order,
    }
    in_registers = text.name != "lu" and order * size <= ROW * 4
    if in_registers:
        lanes = 1 << (order - 1).bit_length()
        rows = LANES // lanes
        staged = [abs(row) > abs(column) for row, column in inner]
        parts = _parts(text, staged, columns, rows)
        blocks = REGISTERS // (LANES * _registers(order, columns, size))
        values |= {"lanes": lanes, "threads": LANES, "blocks": blocks, **parts}
        files, frame = (*FILES, "rows"), ROWS_FRAME
    else:
        lanes = max(4, 1 << (order - 1).bit_length())
        rows = max(1, min(LANES // lanes, SHARED // (order * (order + 1) * size)))
        values |= {"source": "a_in", "from": text.matrix, "factorise": text.factorise}
        values["store"] = text.store.strip("\n")
        files, frame = FILES, FRAME
    source, name = unit(files, text.name, frame, rows=rows, **values)
    geometry = (*batch.geometry(), *(r for r, _ in inner), *(c for _, c in inner), columns)
    grid = (min(MOST_BLOCKS, max(1, -(-batch.count // rows))), 1, 1)
    return CudaKernel(source, name, grid, (lanes, rows, 1), text.arrays, geometry, index != "int")


def _registers(order: int, columns: int, size: int) -> int:
    """What compilers are held to for a thread, so that hardly anything is spilled; they are given out by
    eights.

    >>> _registers(32, 2, 8), _registers(16, 2, 8), _registers(16, 2, 16), _registers(2, 1, 4)
    (128, 120, 168, 80)
    """
    found = (order + min(columns, ALONG) + BESIDE) * size // 4 + OTHERS
    return min(-(-found // 8) * 8, FULL if columns <= ALONG and size < 16 else FULLEST)


def _parts(text: Text, staged: list[bool], columns: int, rows: int) -> dict[str, str]:
    """Of ROWS_FRAME; whether lanes lie along a row of each operand."""
    load = STAGED_LOAD if staged[text.matrix] else DIRECT_LOAD
    declare = ""
    if text.name == "cholesky":
        target, begin = "a", "T a[N];"
        work = CHOLESKY_WORK.strip("\n") + (STAGED_STORE if staged[0] else DIRECT_STORE)
    elif columns <= ALONG:
        target, begin, work = "m.row", ALONG_BEGIN, ALONG_WORK
    else:
        target, begin, work = "m.row", APIECE_BEGIN, APIECE_WORK
        declare = f"__shared__ Factors<N, T> factors[{rows}];"
    return {
        "declare": declare,
        "begin": fill(begin, columns=columns).strip("\n"),
        "load": fill(load, **{"from": text.matrix}, target=target).strip("\n"),
        "work": fill(work, columns=columns).strip("\n"),
    }


def _pad(strides: Axes) -> tuple[int, int]:
    """Of a row and of a column, where there are any."""
    row, column, *_ = (*strides, 0, 0)
    return row, column

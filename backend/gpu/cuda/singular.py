"""Singular values and vectors of many small matrices in one launch, by Hestenes' rotations.

a v = u diag(s): unitary v that makes the columns of a v orthogonal leaves s as their norms and u as their
directions. It is a product of rotations of two columns each, which make these orthogonal; a sweep turns every
two once, in rounds of pairs that have nothing in common. M. R. Hestenes, "Inversion of matrices by
biorthogonalization and related results" (J. SIAM 6, 1958); the rounds are those of R. P. Brent and F. T. Luk
(SIAM J. Sci. Stat. Comput. 6, 1985); it ends when cosines are as small as for LAPACK's gesvj: Z. Drmač,
"Implementation of Jacobi rotations for accurate singular value computation in floating point arithmetic"
(SIAM J. Sci. Comput. 18, 1997).

Of a wide matrix the rows are turned, so that the vectors are few and long; of a square one that is graded by
rows as well, since these are nearer to orthogonal. Small matrices share a warp, which
needs no barrier of the block; large ones have a block each, as far as its shared memory holds them. Where a
fits but v does not, v lies in its place in the result meanwhile: a round touches every entry of it once, in
order, and the second-level cache holds it. To solve for v from u, s and a instead would lose the vectors of
small s. Sizes are numbers that a kernel is given: one text serves all shapes that take as many lanes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .kernel import MOST_BLOCKS, PLAIN_SHARED, CudaKernel, kept
from .layout import Operand, index_type, layout
from .matrices import DTYPES
from .teams import WARP, power_of_two
from .text import fill, unit
from .types import TYPES, DType

MOST = 128  # vectors; beyond, blocked methods of libraries do better
THREADS = 512  # of a block that has one matrix
HELD = 64  # bytes of a vector in a lane's registers: every lane finds the angle, which costs about as much

ENTRY = """
extern "C" __launch_bounds__($threads) __global__ void $name($arrays, Vectors<$batch, $operands, $index> g) {
    typedef $index Index;
    typedef $type T;
    typedef $real R;
    const bool IN_WARP = $in_warp;
    alignas(16) extern __shared__ unsigned char memory[];
    const int lane = threadIdx.x, lanes = blockDim.x, row = threadIdx.y, rows = blockDim.y;
    const int length = g.length, count = g.count, pitch = g.pitch, whole = length * count;
    T* places = (T*)memory;
    T* const a = places + row * count * pitch;
    places += rows * count * pitch;
    $vectors_memory
    T* const parts = places + row * count;
    R* numbers = (R*)(places + rows * count);
    R* const norms = numbers + row * count;
    numbers += rows * count;
    R* const room = numbers + row * length;
    numbers += rows * length;
    R* const scratch = numbers;
    int* const ranks = (int*)(scratch + $warp) + row * count;
    for (Index first = (Index)blockIdx.x * rows; first < g.batch.count; first += (Index)gridDim.x * rows) {
        const bool mine = first + row < g.batch.count;
        Index at[$operands];
        g.batch.offsets(mine ? first + row : first, at);
        R size = 0;
        int i, j;
        for (int e = lane; e < whole; e += lanes) {
            place(e, length, count, g.along[$source], g.across[$source], &i, &j);
            const T x = source[at[$source] + i * g.along[$source] + j * g.across[$source]];
            const R wide = widest(x);
            size = wide <= size ? size : wide == wide ? wide : 1 / (R)0;
            a[j * pitch + i] = x;
        }
        size = over_all<IN_WARP, true>(size, scratch);
        const bool finite = size - size == 0;
        int exponent = 0;
        if (finite) ::frexp(size, &exponent);
        meet<IN_WARP>();
        for (int e = lane; e < whole; e += lanes) {
            j = e / length;
            T& x = a[j * pitch + e - j * length];
            x = finite ? scaled(x, -exponent) : to<T>(0);
        }
        meet<IN_WARP>();
        const bool flipped = length == count && lay_down<IN_WARP>(a, pitch, count, scratch);
        $begin
        meet<IN_WARP>();
        const R tolerance = ($real)$eps * (length > 4 ? ::sqrt((R)length) : (R)2);
        const bool failed = orthogonalise_all<IN_WARP, $team, $held, $short, $with_v>(
            a, pitch, $v, length, count, tolerance);
        const R lost = over_all<IN_WARP, true>((R)failed, scratch);
        measure<IN_WARP, $team>(a, pitch, length, count, norms, ranks);
        if (mine) {
            for (j = lane; j < count; j += lanes)
                values[at[$values] + ranks[j] * g.across[$values]] = ::ldexp(norms[j], exponent);
            if (lane == 0) info[at[$info]] = !finite || lost > 0;
        }
        $end
        meet<IN_WARP>();
    }
}
"""

IN_SHARED = """
T* const v = places + row * count * g.pitch_of_turns;
places += rows * count * g.pitch_of_turns;
"""

BEGIN_SHARED = """
for (int e = lane; e < count * count; e += lanes) {
    j = e / count;
    i = e - j * count;
    v[j * g.pitch_of_turns + i] = to<T>(i == j ? 1 : 0);
}
"""

BEGIN_OUTSIDE = """
T* const v = (g.swapped != flipped ? u : vh) + (flipped ? at[0] : at[2]);
int step = g.along[flipped ? 0 : 2], apart = g.across[flipped ? 0 : 2];
if ((step < 0 ? -step : step) > (apart < 0 ? -apart : apart)) {  // entries of a vector of v are neighbours
    const int other = step;
    step = apart;
    apart = other;
}
for (int e = lane; e < count * count; e += lanes) {
    j = e / count;
    i = e - j * count;
    v[j * apart + i * step] = to<T>(i == j ? 1 : 0);
}
"""

END = """
normalise<IN_WARP>(a, pitch, length, count, norms, room, parts);
T* const longer = (g.swapped != flipped ? vh : u) + (flipped ? at[2] : at[0]);
T* const shorter = (g.swapped != flipped ? u : vh) + (flipped ? at[0] : at[2]);
const Index along_longer = g.along[flipped ? 2 : 0], across_longer = g.across[flipped ? 2 : 0];
const Index along_shorter = g.along[flipped ? 0 : 2], across_shorter = g.across[flipped ? 0 : 2];
for (int e = lane; e < whole && mine; e += lanes) {
    place(e, length, count, along_longer, across_longer, &i, &j);
    longer[i * along_longer + ranks[j] * across_longer] = a[j * pitch + i];
}
$fetch
for (int e = lane; e < count * count && mine; e += lanes) {
    place(e, count, count, along_shorter, across_shorter, &i, &j);
    shorter[i * along_shorter + ranks[j] * across_shorter] = op::conj($turns);
}
"""

FETCH_OUTSIDE = """
meet<IN_WARP>();
for (int e = lane; e < count * count; e += lanes) {  // where a was is room now
    j = e / count;
    i = e - j * count;
    a[j * pitch + i] = v[j * apart + i * step];
}
meet<IN_WARP>();
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """How `count` vectors of some length lie on lanes and in shared memory.

    Attributes:
        team: lanes that turn a pair, a power of two.
        held: entries of a vector that a lane has in registers at a time.
        lanes, rows: of a block: lanes of a matrix, matrices.
        pitch, pitch_of_turns: elements from one vector to the next, of a and of v: odd multiples of what a
            team reads at once, where teams side by side would otherwise meet in one bank.
        outside: whether v lies in the result.
        shared: bytes of a block.
    """

    team: int
    held: int
    lanes: int
    rows: int
    pitch: int
    pitch_of_turns: int
    outside: bool
    shared: int

    @property
    def in_warp(self) -> bool:
        return self.lanes <= WARP


def shape_of(length: int, count: int, size: int, vectors: bool, most: int) -> Shape | None:
    """For elements of `size` bytes and blocks of at most `most` bytes of shared memory; None where a matrix
    does not fit.

    >>> shape_of(4, 4, 8, True, 49152)
    Shape(team=1, held=4, lanes=2, rows=16, pitch=5, pitch_of_turns=5, outside=False, shared=7168)
    >>> shape_of(128, 128, 8, True, 232448).outside
    True
    """
    pairs = (count + 1) // 2
    held = min(8, HELD // size)
    team = min(WARP, power_of_two(-(-length // held)))
    while team > 1 and pairs * team > THREADS:
        team //= 2
    held = min(held, power_of_two(-(-length // team)))
    lanes = pairs * team
    lanes = power_of_two(lanes) if lanes <= WARP else -(-lanes // WARP) * WARP
    pitch, of_turns = _pitch(length, team, size), _pitch(count, team, size)
    real = min(size, 8)  # or half of that

    def needed(rows: int, outside: bool) -> int:
        elements = count * (pitch + 1) + (count * of_turns if vectors and not outside else 0)
        return rows * (elements * size + (count + length) * real + 4 * count) + WARP * real

    rows = max(1, WARP // lanes)  # blocks as small as may be: a batch is to reach all processors
    outside = needed(rows, False) > most
    if outside and (not vectors or rows > 1 or needed(rows, True) > most):
        return None
    return Shape(team, held, lanes, rows, pitch, of_turns, outside, needed(rows, outside))


def _pitch(length: int, team: int, size: int) -> int:
    """Whole teams, an odd number of them where a team reads less than the 128 bytes of all banks."""
    times = -(-length // team)
    return team * (times | 1 if team * size < 128 else times)


def svd(
    u: Operand, s: Operand, vh: Operand, info: Operand, a: Operand, most: int = PLAIN_SHARED
) -> CudaKernel | None:
    """a = u diag(s) vh with s falling, for every matrix of a batch.

    Args:
        u, vh: [..., m, k] and [..., k, n] with k = min(m, n); columns and rows are orthonormal, those of
            singular values that are 0 as well.
        s: [..., k], real.
        info: int32 [...], 0, or 1 where a has an element that is not finite, or the sweeps did not converge.
        a: [..., m, n].
        most: bytes of shared memory that a block may have.

    Returns:
        the kernel, which takes the five in this order; None where k is beyond 128, a does not fit, or no
        kernel has the dtype.

    >>> a = Operand("float64", (500, 16, 16), (256, 16, 1))
    >>> s, info = Operand("float64", (500, 16), (16, 1)), Operand("int32", (500,), (1,))
    >>> svd(a, s, a, info, a).block
    (16, 2, 1)
    """
    key = ("svd", u, s, vh, info, a, most)
    return kept(key, lambda: _made((u, s, vh, info, a), True, most))


def svdvals(s: Operand, info: Operand, a: Operand, most: int = PLAIN_SHARED) -> CudaKernel | None:
    """The singular values alone; arguments are those of `svd`."""
    key = ("svdvals", s, info, a, most)
    return kept(key, lambda: _made((s, info, a), False, most))


def _made(operands: tuple[Operand, ...], vectors: bool, most: int) -> CudaKernel | None:
    a = operands[-1]
    if a.dtype not in DTYPES or not all(a.shape[-2:]):
        return None
    (*outer, m, n), swapped = a.shape, a.shape[-2] < a.shape[-1]
    length, count = max(m, n), min(m, n)
    size = DTYPES[a.dtype]
    shape = shape_of(length, count, size, vectors, most) if count <= MOST else None
    if shape is None:
        return None
    if vectors and swapped:  # the order of strides: what is long, s, what is short, info, a
        u, s, vh, info, _ = operands
        operands = (vh, s, u, info, a)
    steps = _steps(operands, swapped, len(outer))
    batch = layout(a.shape[:-2], *(operand.strides[: len(outer)] for operand in operands))
    index = index_type(batch, *(layout(one.shape, one.strides) for one in operands))
    dtype: DType = np.dtype(a.dtype)
    real = np.dtype(dtype.char.lower())
    values = len(operands) - 3 if not vectors else 1
    if vectors:
        start = BEGIN_OUTSIDE if shape.outside else BEGIN_SHARED
        turns = "v, apart, step" if shape.outside else "v, g.pitch_of_turns, 1"
        last = fill(
            END,
            fetch=FETCH_OUTSIDE.strip("\n") if shape.outside else "",
            turns=f"{'a' if shape.outside else 'v'}"
            f"[j * {'pitch' if shape.outside else 'g.pitch_of_turns'} + i]",
        )
    else:
        start, turns, last = "", "(T*)0, 0, 0", ""
    declared = "$T* u, $R* values, $T* vh, int* info, const $T* source"
    if not vectors:
        declared = "$R* values, int* info, const $T* source"
    source, name = unit(
        ("layout", "numbers", "arithmetic", "teams", "singular"),
        "svd" if vectors else "svdvals",
        ENTRY,
        threads=power_of_two(shape.lanes * shape.rows),
        arrays=declared.replace("$T", TYPES[a.dtype]).replace("$R", TYPES[real.name]),
        batch=batch.type(index),
        operands=len(operands),
        index=index,
        type=TYPES[a.dtype],
        real=TYPES[real.name],
        in_warp=str(shape.in_warp).lower(),
        warp=WARP,
        vectors_memory=IN_SHARED.strip("\n") if vectors and not shape.outside else "",
        source=len(operands) - 1,
        values=values,
        info=len(operands) - 2,
        begin=start.strip("\n"),
        end=last,
        eps=repr(float(np.finfo(real).eps)),
        team=shape.team,
        held=shape.held,
        short=str(length <= shape.team * shape.held).lower(),
        with_v=str(vectors).lower(),
        v=turns,
    )
    along, across = zip(*steps, strict=True)
    geometry = (*batch.geometry(), *along, *across, length, count, int(swapped))
    geometry += (shape.pitch, shape.pitch_of_turns)
    grid = (min(MOST_BLOCKS, max(1, -(-batch.count // shape.rows))), 1, 1)
    arrays = ("u", "s", "vh", "info", "a") if vectors else ("s", "info", "a")
    block = (shape.lanes, shape.rows, 1)
    return CudaKernel(
        source, name, grid, block, arrays, geometry, index != "int", shared=shape.shared
    )


def _steps(operands: tuple[Operand, ...], swapped: bool, ndim: int) -> list[tuple[int, int]]:
    """Of each array, to the next entry of a vector and to the next vector.

    Vectors are the columns of u, the rows of vh, and the columns of a, or its rows where it is wide.
    """
    inner = [one.strides[ndim:] for one in operands]
    found = []
    for place, strides in enumerate(inner):
        if len(strides) < 2:
            found.append((0, strides[0] if strides else 0))
            continue
        row, column = strides
        # place 0 is what is long: u, or vh where swapped; place 2 is the other one
        by_row = swapped if place in (0, len(inner) - 1) else not swapped
        found.append((column, row) if by_row else (row, column))
    return found

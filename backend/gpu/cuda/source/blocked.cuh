#ifndef EINLOOM_BLOCKED
#define EINLOOM_BLOCKED

// A matrix with right-hand sides beside it in shared memory, and a block of threads at work on it. Rows stay
// where they are: `place[k]` is the row that was the pivot's at step k, and `rest` lists those that are still
// open, in rising order. What follows a panel of NB columns takes two barriers, and while all other warps
// subtract its part of the matrix, one of them has the next panel.

// As Matrices; `held` right-hand sides are in shared memory at a time, where rows are `pitch` apart.
template <class Batch, int ARRAYS, class Index>
struct Systems {
    Batch batch;
    Index row[ARRAYS], column[ARRAYS];
    Index columns, order, held, pitch;
};

__device__ inline unsigned largest_of_warp(unsigned x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_max_sync(WARP, x);
#else
    return largest<32>(x);
#endif
}

typedef Ranked<255> Contender;  // of a row: equal within 2**-15 (float) or 2**-12 (double) of each other

// As quotient, of an x that is hardly larger than y, so that only what is not finite becomes NaN.
template <class T> __device__ inline T ratio(T x, T y, T reciprocal) {
    const T first = op::multiply(x, reciprocal);
    return less_fused(first, op::negate(less_fused(x, first, y)), reciprocal);
}

// The pivot of every step, times a power of two that keeps its reciprocal in range.
template <class T> struct Pivots {
    T *pivot, *reciprocal;
    typename Real<T>::type* scale;
    int* place;
};

// to[o, i] = from[o, i] for lanes along i and warps along o; several loads are on their way at a time.
template <int AHEAD, class T, class Index>
__device__ void fetch(T* to, int to_outer, int to_inner, const T* from, Index outer_step, Index inner_step,
                      int outer, int inner) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int o = warp; o < outer; o += AHEAD * warps)
        for (int i = lane; i < inner; i += 32) {
            T held[AHEAD];
#pragma unroll
            for (int n = 0; n < AHEAD; ++n)
                if (o + n * warps < outer) held[n] = from[(o + n * warps) * outer_step + i * inner_step];
#pragma unroll
            for (int n = 0; n < AHEAD; ++n)
                if (o + n * warps < outer) to[(o + n * warps) * to_outer + i * to_inner] = held[n];
        }
}

// One warp's: columns begin to begin + width, from which the panel before, if there is one, has yet to be
// subtracted. A lane has up to SLOTS of the `count` open rows in registers, and all of them move one column
// to the left in a step, so that steps are one loop: what is beyond `width` is read and never written. `lines`
// passes the pivot's row on to all lanes, by turns in one of two places. Returns `failed`, or if that is 0 the
// first step, counted from 1, without a pivot.
template <int SLOTS, int NB, class T>
__device__ int factorise_panel(T* a, int pitch, int begin, int width, const Pivots<T>& pivots, const int* rest,
                               int* next, int count, T (&lines)[2][NB], int failed) {
    if constexpr (SLOTS > 1)
        if (count <= 32 * (SLOTS - 1))
            return factorise_panel<SLOTS - 1, NB>(a, pitch, begin, width, pivots, rest, next, count, lines, failed);
    typedef typename Real<T>::type R;
    const int lane = threadIdx.x % 32;
    T row[SLOTS][NB];
    T* at[SLOTS];
    unsigned open = 0;
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) {
        const bool there = lane + 32 * s < count;
        at[s] = a + rest[there ? lane + 32 * s : 0] * pitch + begin;
        open |= (unsigned)there << s;
#pragma unroll
        for (int c = 0; c < NB; ++c) row[s][c] = at[s][c];
    }
    if (begin) {
#pragma unroll 2
        for (int t = -NB; t < 0; ++t) {
            const T* const line = a + pivots.place[begin + t] * pitch + begin;
            T u[NB];
#pragma unroll
            for (int c = 0; c < NB; ++c) u[c] = line[c];
#pragma unroll
            for (int s = 0; s < SLOTS; ++s) {
                const T multiple = at[s][t];
#pragma unroll
                for (int c = 0; c < NB; ++c) row[s][c] = less_fused(row[s][c], multiple, u[c]);
            }
        }
    }
#pragma unroll 1
    for (int t = 0; t < width; ++t) {
        const int step = begin + t;
        unsigned mine = 0, each[SLOTS];
        T own = to<T>((R)1);
#pragma unroll
        for (int s = 0; s < SLOTS; ++s) {
            each[s] = open >> s & 1u ? Contender::of(size_of(row[s][0]), lane + 32 * s) : 0u;
            own = each[s] > mine ? row[s][0] : own;
            mine = each[s] > mine ? each[s] : mine;
        }
        const unsigned best = largest_of_warp(mine);
        T(&line)[NB] = lines[t & 1];
#pragma unroll
        for (int s = 0; s < SLOTS; ++s)
            if (each[s] == best) {
#pragma unroll
                for (int c = 0; c < NB; ++c) line[c] = row[s][c];
                open &= ~(1u << s);
            }
        const int index = Contender::index(best);
        const T found = from_lane<32>(own, index % 32);  // sooner than by way of memory
        const R times = Words<R>::scale(best);
        const T divisor = best >= Contender::LEAST ? scaled(found, times) : to<T>((R)1);
        const T by = reciprocal_of(divisor);
        __syncwarp();
        T u[NB];
#pragma unroll
        for (int c = 1; c < NB; ++c) u[c] = line[c];
#pragma unroll
        for (int s = 0; s < SLOTS; ++s) {
            const T multiple = ratio(scaled(row[s][0], times), divisor, by);  // 0 if all are
#pragma unroll
            for (int c = 1; c < NB; ++c) row[s][c - 1] = less_fused(row[s][c], multiple, u[c]);
            if (open >> s & 1u) at[s][t] = multiple;
        }
        const int from = rest[index];
        if (lane < width - t) a[from * pitch + step + lane] = line[lane];
        if (best < Contender::LEAST && !failed) failed = step + 1;
        if (lane == 0) {
            pivots.place[step] = from;
            pivots.pivot[step] = divisor;
            pivots.reciprocal[step] = by;
            pivots.scale[step] = times;
        }
    }
    int kept = 0;
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) {
        const bool is_open = open >> s & 1u;
        const unsigned all = __ballot_sync(WARP, is_open);
        if (is_open) next[kept + __popc(all & ((1u << lane) - 1u))] = rest[lane + 32 * s];
        kept += __popc(all);
    }
    return failed;
}

// The rows of a panel's steps right of it, columns first to last: times the inverse of its unit triangle.
template <int NB, class T>
__device__ void solve_rows(T* a, int pitch, int begin, int width, const int* place, int first, int last) {
    for (int j = first + (int)threadIdx.x; j < last; j += blockDim.x) {
        T x[NB], *at[NB];
#pragma unroll
        for (int t = 0; t < NB; ++t) {
            at[t] = a + place[t < width ? begin + t : begin] * pitch;
            x[t] = at[t][j];
        }
#pragma unroll
        for (int t = 1; t < NB; ++t)
            if (t < width) {
#pragma unroll
                for (int s = 0; s < t; ++s) x[t] = less_fused(x[t], at[t][begin + s], x[s]);
                at[t][j] = x[t];
            }
    }
}

// The product of a panel's columns and its rows, subtracted from `count` rows below it and from columns first
// to last. A warp takes 4 ROWS by 8 COLUMNS at a time, a lane ROWS by COLUMNS of these in registers; a
// tile at the edge reads on, at most 8 COLUMNS elements beyond a row, which the pivots leave room for behind the
// last, orders being at least 33, and does not write what comes of them.
template <int NB, int ROWS, int COLUMNS, class T>
__device__ void subtract_product(T* a, int pitch, int begin, const int* place, const int* rest, int count,
                                 int first, int last, int warp, int warps) {
    const int lane = threadIdx.x % 32;
    const int across = (last - first + 8 * COLUMNS - 1) / (8 * COLUMNS);
    const int tiles = (count + 4 * ROWS - 1) / (4 * ROWS) * across;
    for (int tile = warp; tile < tiles; tile += warps) {
        const int down = tile / across;
        const int i = down * 4 * ROWS + lane / 8, j = first + (tile - down * across) * 8 * COLUMNS + lane % 8;
        T sum[ROWS][COLUMNS], *at[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            at[r] = a + rest[i + 4 * r < count ? i + 4 * r : 0] * pitch;
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) sum[r][c] = at[r][j + 8 * c];
        }
#pragma unroll
        for (int t = 0; t < NB; ++t) {
            const T* const line = a + place[begin + t] * pitch + j;
            T u[COLUMNS];
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) u[c] = line[8 * c];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const T multiple = at[r][begin + t];
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) sum[r][c] = less_fused(sum[r][c], multiple, u[c]);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c)
                if (i + 4 * r < count && j + 8 * c < last) at[r][j + 8 * c] = sum[r][c];
    }
}

// One warp's: MANY columns from `first`, of which those below `last` are there, times the inverse of U. A lane
// has the elements of steps lane, lane + 32 and so on.
template <int SLOTS, int MANY, class T>
__device__ void substitute(T* a, int pitch, int order, const Pivots<T>& pivots, int first, int last) {
    typedef typename Real<T>::type R;
    const int lane = threadIdx.x % 32;
    T x[SLOTS][MANY], *at[SLOTS];
#pragma unroll
    for (int s = 0; s < SLOTS; ++s) {
        const int step = lane + 32 * s;
        at[s] = a + pivots.place[step < order ? step : 0] * pitch;
#pragma unroll
        for (int c = 0; c < MANY; ++c) x[s][c] = at[s][first + c < last ? first + c : first];
    }
    __syncwarp();
#pragma unroll
    for (int s = SLOTS - 1; s >= 0; --s) {
        const int mine = lane + 32 * s < order ? lane + 32 * s : 0;
        const T pivot = pivots.pivot[mine], reciprocal = pivots.reciprocal[mine];
        const R scale = pivots.scale[mine];
        const int most = order - 1 - 32 * s;
#pragma unroll 2
        for (int from = most < 31 ? most : 31; from >= 0; --from) {
            T found[MANY];
#pragma unroll
            for (int c = 0; c < MANY; ++c) {
                const T own = quotient(scaled(x[s][c], scale), pivot, reciprocal);
                found[c] = from_lane<32>(own, from);
                if (lane == from) x[s][c] = own;
            }
#pragma unroll
            for (int above = s; above >= 0; --above) {
                const T multiple = at[above][32 * s + from];
#pragma unroll
                for (int c = 0; c < MANY; ++c)
                    if (above < s || lane < from) x[above][c] = less_fused(x[above][c], multiple, found[c]);
            }
        }
    }
#pragma unroll
    for (int s = 0; s < SLOTS; ++s)
#pragma unroll
        for (int c = 0; c < MANY; ++c)
            if (lane + 32 * s < order && first + c < last) at[s][first + c] = x[s][c];
}

// All threads: U of a matrix, and the inverse of L times the `held` columns beside it, element k in row
// place[k]. `rest` is all rows, and has room for as many again. Returns, in warp `lead`, the first step without
// a pivot, or 0. Begins and ends behind a barrier.
template <int SLOTS, int NB, int ROWS, int COLUMNS, class T>
__device__ int eliminate(T* a, int pitch, int order, int held, const Pivots<T>& pivots, int* rest,
                         T (&lines)[2][NB], int lead) {
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, last = order + held;
    int failed = 0, *next = rest + order;
    if (warp == lead) {
        const int width = NB < order ? NB : order;
        failed = factorise_panel<SLOTS, NB>(a, pitch, 0, width, pivots, rest, next, order, lines, 0);
    }
    __syncthreads();
    for (int begin = 0; begin < order; begin += NB) {
        const int width = NB < order - begin ? NB : order - begin, end = begin + width;
        solve_rows<NB>(a, pitch, begin, width, pivots.place, end, last);
        __syncthreads();
        if (end == order) break;
        int* const open = next;
        next = rest;
        rest = open;
        const int after = NB < order - end ? NB : order - end;
        if (warp == lead)
            failed = factorise_panel<SLOTS, NB>(a, pitch, end, after, pivots, rest, next, order - end, lines, failed);
        else
            subtract_product<NB, ROWS, COLUMNS>(a, pitch, begin, pivots.place, rest, order - end, end + after, last,
                                                warp > lead ? warp - 1 : warp, warps - 1);
        __syncthreads();
    }
    return failed;
}

// More right-hand sides for a matrix that `eliminate` had: times the inverse of L. Begins and ends behind a barrier.
template <int NB, int ROWS, int COLUMNS, class T>
__device__ void follow(T* a, int pitch, int order, int held, const int* place) {
    for (int begin = 0; begin < order; begin += NB) {
        const int width = NB < order - begin ? NB : order - begin, end = begin + width;
        solve_rows<NB>(a, pitch, begin, width, place, order, order + held);
        __syncthreads();
        if (end == order) break;
        subtract_product<NB, ROWS, COLUMNS>(a, pitch, begin, place, place + end, order - end, order, order + held,
                                            threadIdx.x / 32, blockDim.x / 32);
        __syncthreads();
    }
}

#endif

#ifndef EINLOOM_PERMUTATION
#define EINLOOM_PERMUTATION

struct alignas(16) Sixteen {
    unsigned long long low, high;
};

const int MOVERS = 256;  // threads of a block
const int TILE_AXES = 12;  // of size 2 and more: at most 4096 elements
const int BATCH = 64;  // tiles whose origins are computed at once

// The axes of a tile, the one walked fastest first: sizes, numbers that divide by them, and what a step
// along each adds to the place in an array and to that in shared memory, which is counted in bytes; the
// target's is in the upper half of the number.
template <class Index>
struct Walk {
    Index size[TILE_AXES], inverse[TILE_AXES], far[TILE_AXES], slot[TILE_AXES];
};

// A tile is a block of the array: the same axes, or parts of some. At most two axes are cut where the last
// part is shorter; `length`, `limit` and `inverse` are those of a part and of the axis, and `before`
// divides by the elements that a walk takes between two steps along it.
template <class Index, int OUTER>
struct Tiles {
    Index tiles, volume, axes, outer_axes;
    Walk<Index> source, target;
    Index length[2], limit[2], inverse[2], source_before[2], target_before[2];
    Index size[OUTER], step[4][OUTER];  // of tiles: in the target, the source and along both cut axes
};

// x / n of x below 2^15, where `inverse` is 2^30 / n, rounded up: off by less than x / 2^30 < 1 / n.
template <class Index>
__device__ unsigned quotient(unsigned x, Index inverse) {
    return (unsigned)(((unsigned long long)x * (unsigned)inverse) >> 30);
}

// Where the elements threadIdx.x, threadIdx.x + MOVERS, ... of a walk lie; `slot` is added to. A loop over
// axes, not unrolled, so that one text serves every rank.
template <int EACH, class Index>
__device__ void places(const Walk<Index>& walk, int axes, Index (&far)[EACH], unsigned (&slot)[EACH]) {
    unsigned left[EACH];
    for (int k = 0; k < EACH; ++k) {
        left[k] = threadIdx.x + k * MOVERS;
        far[k] = 0;
    }
#pragma unroll 1
    for (int a = 0; a < axes; ++a) {
        const unsigned size = (unsigned)walk.size[a], along = (unsigned)walk.slot[a];
        const Index inverse = walk.inverse[a], stride = walk.far[a];
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const unsigned next = quotient(left[k], inverse), here = left[k] - next * size;
            far[k] += (Index)here * stride;
            slot[k] += here * along;
            left[k] = next;
        }
    }
}

// Origins in both arrays of a block's tiles from number `first` on, and how much of each cut axis is left
// there.
template <class Index, int OUTER>
__device__ void fill_origins(const Tiles<Index, OUTER>& g, Index first, Index mine,
                             Index (&origins)[BATCH][4]) {
    if (threadIdx.x < BATCH && first + (Index)threadIdx.x < mine) {
        Index left = (Index)blockIdx.x + (first + (Index)threadIdx.x) * (Index)gridDim.x;
        Index at[4] = {0, 0, 0, 0};
#pragma unroll 1
        for (int a = 0; a < (int)g.outer_axes; ++a) {
            const Index next = left / g.size[a], here = left - next * g.size[a];
            for (int k = 0; k < 4; ++k) at[k] += here * g.step[k][a];
            left = next;
        }
        origins[threadIdx.x][0] = at[0];
        origins[threadIdx.x][1] = at[1];
        origins[threadIdx.x][2] = g.limit[0] - at[2];
        origins[threadIdx.x][3] = g.limit[1] - at[3];
    }
}

// A number that the compiler takes as it is: it neither computes it again where it is used, nor takes it
// apart ahead of that and keeps the parts.
__device__ __forceinline__ unsigned whole(unsigned x) {
    asm volatile("" : "+r"(x));
    return x;
}

// Bit k: whether the tile has a thread's element k. A loop of its own, not unrolled: unrolled, what it
// computes for each element would be kept in registers from one tile to the next.
template <int EACH, class Index, int OUTER>
__device__ unsigned inside(const Tiles<Index, OUTER>& g, const Index (&before)[2], const Index (&left)[2],
                           unsigned all, unsigned movers = MOVERS) {
    if (left[0] >= g.length[0] && left[1] >= g.length[1]) return all;
    unsigned found = 0;
#pragma unroll 1
    for (int k = 0; k < EACH; ++k) {
        bool there = true;
        for (int axis = 0; axis < 2; ++axis) {
            const unsigned steps = quotient(threadIdx.x + k * movers, before[axis]);
            const unsigned here = steps - quotient(steps, g.inverse[axis]) * (unsigned)g.length[axis];
            there = there && (Index)here < left[axis];
        }
        found |= (unsigned)there << k;
    }
    return found & all;
}

// The same of a whole tile.
template <int EACH>
__device__ unsigned all_of(unsigned volume) {
    unsigned found = 0;
    for (int k = 0; k < EACH; ++k) found |= (unsigned)(threadIdx.x + k * MOVERS < volume) << k;
    return whole(found);
}

// The sum of places is made in their own type: sums of pointers and places would have halves of the sum,
// of 64 bits, kept in registers from one tile to the next.
template <int EACH, class T, class Index>
__device__ void read_tile(const T* in, Index start, const Index (&far)[EACH], unsigned which,
                          T (&held)[EACH]) {
#pragma unroll
    for (int k = 0; k < EACH; ++k)
        if (which >> k & 1) held[k] = in[start + far[k]];
}

template <int EACH, class T, class Index>
__device__ void write_tile(T* out, Index start, const Index (&far)[EACH], unsigned which,
                           const T (&held)[EACH]) {
#pragma unroll
    for (int k = 0; k < EACH; ++k)
        if (which >> k & 1) out[start + far[k]] = held[k];
}

template <class T>
__device__ __forceinline__ T& at_byte(T* shared, unsigned offset) {
    return *(T*)((char*)shared + offset);
}

// Tiles are read in the order of the source and written in that of the target; between the two they lie in
// shared memory. Where a thread's elements lie is the same in all tiles and stays in registers. Nobody
// waits for what is written, and the next tile is asked for at once. Behind a tile that is not full,
// threads pass on what nobody writes: it costs less than to ask for each element whether there is one.
template <int EACH, int SLOTS, class T, class Index, int OUTER>
__device__ void permute_tiles(T* out, const T* in, const Tiles<Index, OUTER>& g) {
    __shared__ T tile[SLOTS + 1];  // the last for what no tile has
    __shared__ Index origins[BATCH][4];
    const Index mine = (g.tiles - (Index)blockIdx.x + (Index)gridDim.x - 1) / (Index)gridDim.x;
    const unsigned all = all_of<EACH>((unsigned)g.volume);
    fill_origins(g, (Index)0, mine, origins);
    Index from[EACH], to[EACH];
    unsigned slots[EACH] = {};  // two of 16 bits, in bytes: where a thread writes, and where it reads
    places(g.source, (int)g.axes, from, slots);
    places(g.target, (int)g.axes, to, slots);
    T held[EACH];
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        if (!(all >> k & 1)) slots[k] = SLOTS * (unsigned)sizeof(T) * 0x10001u;
        held[k] = T();
    }
    __syncthreads();
    Index start = origins[0][0], left[2] = {origins[0][2], origins[0][3]};
    if (mine > 0) read_tile(in, origins[0][1], from, inside<EACH>(g, g.source_before, left, all), held);
    for (Index next = 1; next <= mine; ++next) {
#pragma unroll
        for (int k = 0; k < EACH; ++k) at_byte(tile, whole(slots[k]) & 0xffff) = held[k];
        const int place = (int)(next % BATCH);
        if (!place) fill_origins(g, next, mine, origins);  // nobody reads the old ones any more
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; ++k) held[k] = at_byte(tile, whole(slots[k]) >> 16);
        write_tile(out, start, to, inside<EACH>(g, g.target_before, left, all), held);
        if (next < mine) {
            start = origins[place][0];
            left[0] = origins[place][2];
            left[1] = origins[place][3];
            read_tile(in, origins[place][1], from, inside<EACH>(g, g.source_before, left, all), held);
        }
        __syncthreads();
    }
}

// Tiles whose elements a thread finds at distances from its first one that are the same for all threads: of
// the source those of number threadIdx.x, threadIdx.x + movers[0], ..., of the target with movers[1] in
// between, each[0] and each[1] of them. The walks are those of the first elements.
template <class Index, int OUTER, int EACH>
struct EvenTiles {
    Tiles<Index, OUTER> tiles;
    Index movers[2], each[2], axes[2];
    Index source_far[EACH], source_slot[EACH], target_far[EACH], target_slot[EACH];
};

// Which elements of a walk a thread has.
template <int EACH, class Index, int OUTER>
__device__ unsigned evenly(const EvenTiles<Index, OUTER, EACH>& even, int walk) {
    return whole(threadIdx.x < (unsigned)even.movers[walk] ? (1u << even.each[walk]) - 1 : 0);
}

// `permute_tiles` of these: a thread finds the places of one element, and keeps no others.
template <int EACH, int SLOTS, class T, class Index, int OUTER>
__device__ void permute_even_tiles(T* out, const T* in, const EvenTiles<Index, OUTER, EACH>& even) {
    __shared__ T tile[SLOTS];
    __shared__ Index origins[BATCH][4];
    const Tiles<Index, OUTER>& g = even.tiles;
    const Index mine = (g.tiles - (Index)blockIdx.x + (Index)gridDim.x - 1) / (Index)gridDim.x;
    const unsigned readers = (unsigned)even.movers[0], writers = (unsigned)even.movers[1];
    const unsigned ours = evenly(even, 0), theirs = evenly(even, 1);
    fill_origins(g, (Index)0, mine, origins);
    Index from[1], to[1];
    unsigned slots[1] = {};
    places(g.source, (int)even.axes[0], from, slots);
    places(g.target, (int)even.axes[1], to, slots);
    const unsigned put = slots[0] & 0xffff, take = slots[0] >> 16;
    T held[EACH];
#pragma unroll
    for (int k = 0; k < EACH; ++k) held[k] = T();
    __syncthreads();
    Index start = origins[0][0], left[2] = {origins[0][2], origins[0][3]};
    if (mine > 0)
        read_tile(in, origins[0][1] + from[0], even.source_far,
                  inside<EACH>(g, g.source_before, left, ours, readers), held);
    for (Index next = 1; next <= mine; ++next) {
#pragma unroll
        for (int k = 0; k < EACH; ++k)
            if (ours >> k & 1) at_byte(tile, put + (unsigned)even.source_slot[k]) = held[k];
        const int place = (int)(next % BATCH);
        if (!place) fill_origins(g, next, mine, origins);  // nobody reads the old ones any more
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; ++k)
            if (theirs >> k & 1) held[k] = at_byte(tile, take + (unsigned)even.target_slot[k]);
        write_tile(out, start + to[0], even.target_far,
                   inside<EACH>(g, g.target_before, left, theirs, writers), held);
        if (next < mine) {
            start = origins[place][0];
            left[0] = origins[place][2];
            left[1] = origins[place][3];
            read_tile(in, origins[place][1] + from[0], even.source_far,
                      inside<EACH>(g, g.source_before, left, ours, readers), held);
        }
        __syncthreads();
    }
}

// Tiles without shared memory: both arrays are walked in the order of the target.
template <int EACH, class T, class Index, int OUTER>
__device__ void copy_tiles(T* out, const T* in, const Tiles<Index, OUTER>& g) {
    __shared__ Index origins[BATCH][4];
    const Index mine = (g.tiles - (Index)blockIdx.x + (Index)gridDim.x - 1) / (Index)gridDim.x;
    const unsigned all = all_of<EACH>((unsigned)g.volume);
    Index from[EACH], to[EACH];
    unsigned slots[EACH] = {};  // of no use here
    places(g.source, (int)g.axes, from, slots);
    places(g.target, (int)g.axes, to, slots);
    T held[EACH];
    for (Index first = 0; first < mine; first += BATCH) {
        if (first) __syncthreads();
        fill_origins(g, first, mine, origins);
        __syncthreads();
        for (int place = 0; place < BATCH && first + place < mine; ++place) {
            const Index left[2] = {origins[place][2], origins[place][3]};
            const unsigned which = inside<EACH>(g, g.target_before, left, all);
            read_tile(in, origins[place][1], from, which, held);
            write_tile(out, origins[place][0], to, which, held);
        }
    }
}

#endif

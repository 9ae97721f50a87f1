#ifndef EINLOOM_PERMUTATION
#define EINLOOM_PERMUTATION

struct alignas(16) Sixteen {
    unsigned long long low, high;
};

const int SIDE = 32;  // of a tile
const int ROWS = 8;   // that a block reads at once

// Columns are the axes along which the target is dense, rows those along which the source is.
template <class Columns, class Rows, class Outer>
struct Tiles {
    Columns columns;
    Rows rows;
    Outer outer;
};

template <class T, class Index, class Columns, class Rows, class Outer>
__device__ void permute_tiles(T* out, const T* in, const Tiles<Columns, Rows, Outer>& g) {
    __shared__ T tile[SIDE][SIDE + 1];  // a column of it lies in all banks
    const Index across = (g.columns.count + SIDE - 1) / SIDE, down = (g.rows.count + SIDE - 1) / SIDE;
    const Index tiles = across * down * g.outer.count, x = threadIdx.x;
    for (Index t = blockIdx.x; t < tiles; t += gridDim.x) {
        const Index row = t / across, column0 = (t - row * across) * SIDE;
        const Index element = row / down, row0 = (row - element * down) * SIDE;
        Index base[2], c[2], r[2];
        g.outer.offsets(element, base);
        if (row0 + x < g.rows.count) {
            g.rows.offsets(row0 + x, r);
            for (Index y = threadIdx.y; y < SIDE && column0 + y < g.columns.count; y += ROWS) {
                g.columns.offsets(column0 + y, c);
                tile[y][x] = in[base[1] + r[1] + c[1]];
            }
        }
        __syncthreads();
        if (column0 + x < g.columns.count) {
            g.columns.offsets(column0 + x, c);
            for (Index y = threadIdx.y; y < SIDE && row0 + y < g.rows.count; y += ROWS) {
                g.rows.offsets(row0 + y, r);
                out[base[0] + r[0] + c[0]] = tile[x][y];
            }
        }
        __syncthreads();
    }
}

template <class T, class Index, class Axes>
__device__ void copy_strided(T* out, const T* in, const Axes& axes) {
    for (Index i = first_element<Index>(); i < axes.count; i += next_element<Index>()) {
        Index at[2];
        axes.offsets(i, at);
        out[at[0]] = in[at[1]];
    }
}

#endif

#ifndef EINLOOM_THIN
#define EINLOOM_THIN

// Axes of the batch with strides in lhs and rhs, of rows in lhs, of columns in rhs, of terms in both; how many
// tiles the rows and the columns of a matrix have, and all together. The result is row-major.
template <class Batch, class Rows, class Columns, class Summed, class Index>
struct Thin {
    Batch batch;
    Rows rows;
    Columns columns;
    Summed summed;
    Index tiles[2], count;
};

// A copy into shared memory that is on its way until `all_copied`.
template <class T> __device__ inline void send(T* to, const T* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(sizeof(T)) : "memory");
#else
    *to = *from;
#endif
}
__device__ inline void all_copied() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// A tile of the result: of which matrix, and which of its rows and columns.
template <class Index>
struct Spot {
    Index matrix, row, column;

    __device__ void go_to(Index tile, const Index (&tiles)[2]) {
        const Index line = tile / tiles[1];
        column = tile % tiles[1], row = line % tiles[0], matrix = line / tiles[0];
    }
    // Returns whether other rows begin.
    __device__ bool advance(const Index (&tiles)[2]) {
        if (++column < tiles[1]) return false;
        column = 0;
        if (++row == tiles[0]) row = 0, ++matrix;
        return true;
    }
};

// Send PLACES rows of lhs or columns of rhs, from `first` on, with all their terms. Places behind the last are
// the last again, and nobody's. Threads side by side take terms or places, whichever lie side by side. Lines of
// a panel are LINE numbers apart.
template <int PLACES, int LINE, int THREADS, bool ALONG_TERMS, class T, class Axes, class Index>
__device__ inline void send_panel(T (*panel)[LINE], const T* x, const Axes& axes, Index first,
                                  const Index* terms, int count) {
    static_assert(THREADS % 8 == 0 && THREADS % PLACES == 0, "each place has its threads");
    const int across = ALONG_TERMS ? 8 : THREADS / PLACES;
    const int term = ALONG_TERMS ? threadIdx.x % 8 : threadIdx.x / PLACES;
    for (int place = ALONG_TERMS ? threadIdx.x / 8 : threadIdx.x % PLACES; place < PLACES;
         place += ALONG_TERMS ? THREADS / 8 : PLACES) {
        Index at[1];
        axes.offsets(first + place < axes.count ? first + place : axes.count - 1, at);
        for (int k = term; k < count; k += across) send(&panel[k][place], x + at[0] + terms[k]);
    }
}

// Neighbours in a row of the result, of which `left` are there.
template <int WIDTH, class T>
__device__ inline void write_some(T* place, const Pack<T, WIDTH>& pack, long long left) {
    if (left >= WIDTH) {
        write(place, pack);
    } else {
        for (int k = 0; k < WIDTH; ++k)
            if (k < left) place[k] = pack.at[k];
    }
}

// What computes a tile of the result: `start` has all terms of its rows and columns, the rows those of the
// tile before unless they are new; behind `finish` `write_out` writes it. Meanwhile the next panels are sent.
// It may have NEEDED bytes of shared memory for itself.

// Sums of a tile of the result, TM x TN of them in each thread, in groups of 4 that lie side by side.
template <int ROWS, int COLUMNS, int LEFT, int RIGHT, int DEPTH, int TM, int TN, int THREADS>
struct InThreads {
    static_assert(ROWS / TM * (COLUMNS / TN) == THREADS, "each sum has its thread");
    static const int FAR_ROWS = ROWS / (TM / 4), FAR_COLUMNS = COLUMNS / (TN / 4);
    static const int NEEDED = 0;
    float sum[TM][TN];
    int row, column;
    const float (*lhs)[LEFT];
    const float (*rhs)[RIGHT];

    __device__ InThreads(unsigned char*) {
        row = (int)threadIdx.x / (COLUMNS / TN) * 4, column = (int)threadIdx.x % (COLUMNS / TN) * 4;
    }
    __device__ void start(const float (*rows)[LEFT], const float (*columns)[RIGHT], bool) {
        lhs = rows, rhs = columns;
    }
    __device__ void finish() {
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; ++j) sum[i][j] = 0;
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            Pack<float, 4> x[TM / 4], y[TN / 4];
#pragma unroll
            for (int i = 0; i < TM / 4; ++i) x[i] = *(const Pack<float, 4>*)&lhs[k][row + i * FAR_ROWS];
#pragma unroll
            for (int j = 0; j < TN / 4; ++j) y[j] = *(const Pack<float, 4>*)&rhs[k][column + j * FAR_COLUMNS];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j)
                    sum[i][j] = plus_product(x[i / 4].at[i % 4], y[j / 4].at[j % 4], sum[i][j]);
        }
    }
    __device__ void write_out(float* out, long long stride, long long rows, long long columns) const {
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int r = row + i / 4 * FAR_ROWS + i % 4;
            if (r >= rows) continue;
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const int c = column + j / 4 * FAR_COLUMNS;
                const Pack<float, 4> pack = {sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]};
                write_some<4>(out + r * stride + c, pack, columns - c);
            }
        }
    }
};

// c += a b for matrices of 16 x 8 and 8 x 8, whose elements are spread over a warp as the tensor cores have
// them (PTX ISA, mma.m16n8k8 of .f64): lane 4 g + t holds rows g and g + 8 of columns t and t + 4 of a,
// column g of rows t and t + 4 of b, and rows g and g + 8 of columns 2 t and 2 t + 1 of c.
__device__ inline void add_product(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else  // the same, slowly: where there is no card
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int k = 0; k < 8; ++k) {
        const int half = k / 4, at = k % 4;
        const double x = __shfl_sync(0xffffffffu, a[2 * half], 4 * g + at);
        const double x8 = __shfl_sync(0xffffffffu, a[2 * half + 1], 4 * g + at);
        for (int j = 0; j < 2; ++j) {
            const double y = __shfl_sync(0xffffffffu, b[half], 4 * (2 * t + j) + at);
            c[j] = ::fma(x, y, c[j]), c[2 + j] = ::fma(x8, y, c[2 + j]);
        }
    }
#endif
}

// Sums of a tile of the result by tensor cores, WM x WN of them in each warp.
template <int ROWS, int COLUMNS, int LEFT, int RIGHT, int DEPTH, int WM, int WN, int THREADS>
struct InWarps {
    static_assert(ROWS / WM * (COLUMNS / WN) * 32 == THREADS, "each sum has its warp");
    static const int NEEDED = 0;
    double sum[WM / 16][WN / 8][4];
    int row, column, g, t;
    const double (*lhs)[LEFT];
    const double (*rhs)[RIGHT];

    __device__ InWarps(unsigned char*) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        row = warp % (ROWS / WM) * WM, column = warp / (ROWS / WM) * WN;
        g = lane / 4, t = lane % 4;
    }
    __device__ void start(const double (*rows)[LEFT], const double (*columns)[RIGHT], bool) {
        lhs = rows, rhs = columns;
    }
    __device__ void finish() {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
#pragma unroll
            for (int j = 0; j < WN / 8; ++j)
#pragma unroll
                for (int k = 0; k < 4; ++k) sum[i][j][k] = 0;
#pragma unroll
        for (int from = 0; from < DEPTH; from += 8) {
            double x[WM / 16][4], y[WN / 8][2];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                for (int k = 0; k < 4; ++k) x[i][k] = lhs[from + t + k / 2 * 4][row + 16 * i + g + k % 2 * 8];
#pragma unroll
            for (int j = 0; j < WN / 8; ++j)
#pragma unroll
                for (int k = 0; k < 2; ++k) y[j][k] = rhs[from + t + 4 * k][column + 8 * j + g];
#pragma unroll
            for (int i = 0; i < WM / 16; ++i)
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) add_product(sum[i][j], x[i], y[j]);
        }
    }
    __device__ void write_out(double* out, long long stride, long long rows, long long columns) const {
        const bool is_whole = rows >= ROWS && columns >= COLUMNS && stride % 2 == 0 && is_aligned<2>(out);
        if (is_whole) write<true>(out, stride, rows, columns);
        else write<false>(out, stride, rows, columns);
    }
    template <bool IS_WHOLE>
    __device__ void write(double* out, long long stride, long long rows, long long columns) const {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int r = row + 16 * i + 8 * half + g;
                if (!IS_WHOLE && r >= rows) continue;
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    const int c = column + 8 * j + 2 * t;
                    const Pack<double, 2> pack = {sum[i][j][2 * half], sum[i][j][2 * half + 1]};
                    if (IS_WHOLE) *(Pack<double, 2>*)(out + r * stride + c) = pack;
                    else write_some<2>(out + r * stride + c, pack, columns - c);
                }
            }
    }
};

#endif

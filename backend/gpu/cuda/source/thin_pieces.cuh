#ifndef EINLOOM_THIN_PIECES
#define EINLOOM_THIN_PIECES

// c += a b for matrices of 16 x 8 K and 8 K x 8 of bfloat16, whose elements are spread over a warp as the
// tensor cores have them (PTX ISA, mma.m16n8k8 and m16n8k16 of .bf16): lane 4 g + t holds, of each eight
// terms, the terms 2 t and 2 t + 1 of rows g and g + 8 of a and of column g of b, and rows g and g + 8 of
// columns 2 t and 2 t + 1 of c.
template <int K>
__device__ inline void add_product(float (&c)[4], const unsigned* a, const unsigned* b) {
    static_assert(K == 1 || K == 2, "eight terms or sixteen");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (K == 2)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#else  // the same, slowly: where there is no card
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    double total[4] = {c[0], c[1], c[2], c[3]};
    for (int k = 0; k < 8 * K; ++k) {
        const int eight = k / 8, at = k % 8 / 2;
        float x[2], y[2];
        for (int j = 0; j < 2; ++j) {
            const unsigned two[2] = {__shfl_sync(0xffffffffu, a[2 * eight + j], 4 * g + at),
                                     __shfl_sync(0xffffffffu, b[eight], 4 * (2 * t + j) + at)};
            x[j] = k % 2 ? upper(two[0]) : lower(two[0]), y[j] = k % 2 ? upper(two[1]) : lower(two[1]);
        }
        for (int j = 0; j < 4; ++j) total[j] += (double)x[j / 2] * y[j % 2];
    }
    for (int j = 0; j < 4; ++j) c[j] = (float)total[j];
#endif
}

// Sums of a tile of the result by tensor cores that multiply bfloat16, each number in three pieces, WM x WN
// of them in each warp, which has its columns in registers and goes from sixteen rows to the next. Terms of
// a number of the result are added up by one accumulator, small products first.
//
// A panel of pieces has three planes, in which the terms of a row or a column are LINE numbers of 2 bytes
// apart from those of the next: eight lines begin in different banks. Columns lie in such an order that a
// lane has four neighbours of a row of the result.
template <int ROWS, int COLUMNS, int LEFT, int RIGHT, int DEPTH, int WM, int WN, int THREADS>
struct InPieces {
    static_assert(ROWS / WM * (COLUMNS / WN) * 32 == THREADS && WN % 16 == 0, "each sum has its warp");
    static const int EIGHTS = DEPTH / 8, LINE = EIGHTS == 1 ? 4 : 12;  // in words
    static const int NEEDED = 3 * 4 * LINE * (ROWS + COLUMNS);  // bytes
    unsigned (*const of_rows)[ROWS][LINE];
    unsigned (*const of_columns)[COLUMNS][LINE];
    const float (*lhs)[LEFT];
    const float (*rhs)[RIGHT];
    Least least_of_rows;
    bool may_be_tiny;

    __device__ InPieces(unsigned char* room)
        : of_rows((unsigned (*)[ROWS][LINE])room), of_columns((unsigned (*)[COLUMNS][LINE])(of_rows + 3)) {}

    // All threads of the block; of lhs only if it `is_new`. Nobody multiplies any more what was there.
    __device__ void take(const float (*rows)[LEFT], const float (*columns)[RIGHT], bool is_new) {
        lhs = rows, rhs = columns;
        if (is_new) {
            least_of_rows = Least();
            split<ROWS, false>(of_rows, lhs, least_of_rows);
        }
        Least least = least_of_rows;
        split<COLUMNS, true>(of_columns, rhs, least);
        may_be_tiny = __syncthreads_or(least.is_tiny());
    }
    static __device__ int line_of(int column) {
        return column / 16 * 16 + column / 2 % 2 * 8 + column % 16 / 4 * 2 + column % 2;
    }
    template <int PLACES, bool IN_ORDER, int WIDTH>
    static __device__ void split(unsigned (*planes)[PLACES][LINE], const float (*panel)[WIDTH],
                                 Least& least) {
        for (int i = threadIdx.x; i < PLACES * EIGHTS; i += THREADS) {
            const int place = i % PLACES, eight = i / PLACES, line = IN_ORDER ? line_of(place) : place;
            Pack<unsigned, 4> made[3];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float held[4];
#pragma unroll
                for (int k = 0; k < 4; ++k) held[k] = panel[8 * eight + 4 * half + k][place];
                const Pieces pieces(held, least);
#pragma unroll
                for (int p = 0; p < 3; ++p)
#pragma unroll
                    for (int j = 0; j < 2; ++j) made[p].at[2 * half + j] = pieces.at[p][j];
            }
#pragma unroll
            for (int p = 0; p < 3; ++p) *(Pack<unsigned, 4>*)&planes[p][line][4 * eight] = made[p];
        }
    }

    __device__ void write_out(float* out, long long stride, long long rows, long long columns) const {
        const int warp = threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        const int row = warp % (ROWS / WM) * WM, column = warp / (ROWS / WM) * WN;
        unsigned y[3][WN / 8][EIGHTS];
#pragma unroll
        for (int p = 0; p < 3; ++p)
#pragma unroll
            for (int j = 0; j < WN / 8; ++j)
#pragma unroll
                for (int k = 0; k < EIGHTS; ++k) y[p][j][k] = of_columns[p][column + 8 * j + g][4 * k + t];
        // not all at once: registers are few
#pragma unroll 1
        for (int from = row; from < row + WM; from += 16) {
            unsigned x[3][2 * EIGHTS];
#pragma unroll
            for (int p = 0; p < 3; ++p)
#pragma unroll
                for (int k = 0; k < EIGHTS; ++k)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        x[p][2 * k + half] = of_rows[p][from + 8 * half + g][4 * k + t];
            float sum[WN / 8][4];
            multiply(sum, x, y);
            bool is_wrong = !are_finite(sum);
            if (may_be_tiny) is_wrong |= has_small(sum);
            if (__any_sync(0xffffffffu, is_wrong)) multiply_plainly(sum, from + g, column + 4 * t);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int r = from + 8 * half + g;
                if (r >= rows) continue;
#pragma unroll
                for (int j = 0; j < WN / 8; j += 2) {
                    const int c = column + 8 * j + 4 * t;
                    const Pack<float, 4> pack = {sum[j][2 * half], sum[j][2 * half + 1], sum[j + 1][2 * half],
                                                 sum[j + 1][2 * half + 1]};
                    write_some<4>(out + r * stride + c, pack, columns - c);
                }
            }
        }
    }
    // low high, middle middle, high low, middle high, high middle, high high
    static __device__ void multiply(float (&sum)[WN / 8][4], const unsigned (&x)[3][2 * EIGHTS],
                                    const unsigned (&y)[3][WN / 8][EIGHTS]) {
        const int left[6] = {2, 1, 0, 1, 0, 0}, right[6] = {0, 1, 2, 0, 1, 0};
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
#pragma unroll
            for (int k = 0; k < 4; ++k) sum[j][k] = 0;
#pragma unroll
        for (int p = 0; p < 6; ++p)
#pragma unroll
            for (int k = 0; k < EIGHTS; k += 2)
#pragma unroll
                for (int j = 0; j < WN / 8; ++j) {
                    if (k + 1 < EIGHTS) add_product<2>(sum[j], &x[left[p]][2 * k], &y[right[p]][j][k]);
                    else add_product<1>(sum[j], &x[left[p]][2 * k], &y[right[p]][j][k]);
                }
    }
    static __device__ bool are_finite(const float (&sum)[WN / 8][4]) {
        float all = 0;
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
#pragma unroll
            for (int k = 0; k < 4; ++k) all = ::fmaf(0.f, sum[j][k], all);
        return all == 0;
    }
    static __device__ bool has_small(const float (&sum)[WN / 8][4]) {
        bool any = false;
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
#pragma unroll
            for (int k = 0; k < 4; ++k) any |= ::fabsf(sum[j][k]) < SMALL;
        return any;
    }
    // By plain multiplications, of the floating numbers.
    __device__ void multiply_plainly(float (&sum)[WN / 8][4], int row, int column) const {
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
#pragma unroll
            for (int k = 0; k < 4; ++k) sum[j][k] = 0;
#pragma unroll 1
        for (int term = 0; term < DEPTH; ++term)
#pragma unroll
            for (int j = 0; j < WN / 8; ++j)
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    sum[j][k] = plus_product(lhs[term][row + k / 2 * 8],
                                             rhs[term][column + j / 2 * 16 + j % 2 * 2 + k % 2], sum[j][k]);
    }
};

#endif

#ifndef EINLOOM_THIN_PIECES
#define EINLOOM_THIN_PIECES

// Sums of a tile of the result by tensor cores that multiply bfloat16, each number in three pieces: WM rows
// and all columns in each group of four warps, up to STEP terms, 0 those behind the last. Pieces of lhs are
// in registers, and stay there while the rows do; those of rhs are in shared memory. Columns lie there in
// such an order that a lane has four neighbours of a row of the result.
template <int ROWS, int COLUMNS, int LEFT, int RIGHT, int DEPTH, int WM, int WN, int THREADS, class Group>
struct InPieces {
    static_assert(ROWS / WM * 128 == THREADS && WM == 64 && WN == COLUMNS, "each row has its group");
    static_assert(DEPTH % 8 == 0 && DEPTH <= STEP, "terms are taken apart by eight");
    static const int NEEDED = 3 * COLUMNS * LINE;  // bytes
    static const int HALVES = DEPTH > 16 ? 2 : 1;
    unsigned char* const planes;
    const float (*lhs)[LEFT];
    const float (*rhs)[RIGHT];
    unsigned pieces[3][2][4];
    PieceSums<COLUMNS, Group> sums;
    Least least_of_rows;
    bool may_be_tiny;

    // All threads of the block, and a barrier behind them.
    __device__ InPieces(unsigned char* room) : planes(room) {
        const Pack<unsigned, 4> zero = {0, 0, 0, 0};
        for (int i = threadIdx.x; i < 3 * COLUMNS; i += THREADS)
            for (int term = DEPTH; term < 16 * HALVES; term += 8)
                *(Pack<unsigned, 4>*)(planes + i / COLUMNS * (COLUMNS * LINE) + place_of(i % COLUMNS, term))
                    = zero;
    }
    // All threads of the block, none of which needs any more what was there.
    __device__ void start(const float (*rows)[LEFT], const float (*columns)[RIGHT], bool is_new) {
        lhs = rows, rhs = columns;
        if (is_new) {
            least_of_rows = Least();
            take_left<HALVES, DEPTH>(pieces, lhs, least_of_rows);
        }
        Least least = least_of_rows;
        split_columns(least);
        may_be_tiny = __syncthreads_or(least.is_tiny());
        sums.template start<HALVES>(pieces, planes);
    }
    __device__ void finish() {
        sums.finish_small();
        sums.template finish<HALVES>(pieces);
    }
    static __device__ int row(int k) { return Left<BY_NUMBER, int>::row(k); }
    // Of each sixteen columns tensor cores have 2 t and 2 t + 1 of either eight where the result has 4 t to
    // 4 t + 3.
    static __device__ int column_of(int line) {
        return line / 16 * 16 + line % 8 / 2 * 4 + line / 8 % 2 * 2 + line % 2;
    }
    __device__ void split_columns(Least& least) {
        for (int i = threadIdx.x; i < COLUMNS * (DEPTH / 8); i += THREADS) {
            const int line = i % COLUMNS, term = i / COLUMNS * 8, column = column_of(line);
            const EightPieces made(rhs, term, column, least);
#pragma unroll
            for (int piece = 0; piece < 3; ++piece)
                *(Pack<unsigned, 4>*)(planes + piece * (COLUMNS * LINE) + place_of(line, term)) = made.at[piece];
        }
        // what is in shared memory is what tensor cores are to see
#ifdef EINLOOM_GROUPS
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    }
    __device__ void write_out(float* out, long long stride, long long rows, long long columns) {
        bool is_wrong = !sums.are_finite(sums.part);
        if (may_be_tiny) is_wrong |= sums.has_small(sums.part);
        if (is_wrong) multiply_plainly();
        const bool is_whole = rows >= ROWS && columns >= COLUMNS && stride % 4 == 0 && is_aligned<4>(out);
        if (is_whole) write<true>(out, stride, rows, columns);
        else write<false>(out, stride, rows, columns);
    }
    // The four neighbours of the k-th row of this thread in sixteen columns.
    __device__ Pack<float, 4> four(int k, int j) const {
        const Pack<float, 4> pack = {sums.part[8 * j + 2 * k], sums.part[8 * j + 2 * k + 1],
                                     sums.part[8 * j + 2 * k + 4], sums.part[8 * j + 2 * k + 5]};
        return pack;
    }
    template <bool IS_WHOLE>
    __device__ void write(float* out, long long stride, long long rows, long long columns) const {
#pragma unroll
        for (int k = 0; k < 2; ++k)
#pragma unroll
            for (int j = 0; j < COLUMNS / 16; ++j) {
                const int r = row(k), c = 16 * j + (int)threadIdx.x % 4 * 4;
                if (IS_WHOLE) *(Pack<float, 4>*)(out + r * stride + c) = four(k, j);
                else if (r < rows) write_some<4>(out + r * stride + c, four(k, j), columns - c);
            }
    }
    // By plain multiplications, of the floating numbers: those of this thread.
    __device__ void multiply_plainly() {
#pragma unroll
        for (int j = 0; j < COLUMNS / 2; ++j) sums.part[j] = 0;
#pragma unroll 1
        for (int term = 0; term < DEPTH; ++term)
#pragma unroll
            for (int j = 0; j < COLUMNS / 2; ++j) {
                const int column = j / 8 * 16 + (int)threadIdx.x % 4 * 4 + j / 4 % 2 * 2 + j % 2;
                sums.part[j] = plus_product(lhs[term][row(j / 2 % 2)], rhs[term][column], sums.part[j]);
            }
    }
};

#endif

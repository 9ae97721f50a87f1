#ifndef EINLOOM_PIECES
#define EINLOOM_PIECES

// Axes of the batch with strides in lhs and rhs, of rows in lhs, of columns in rhs, of terms in both; how
// many tiles the rows and the columns of a matrix have; among how many parts the terms are dealt; how many
// parts of tiles there are in all; and how far apart in the result are matrices, parts, rows and columns.
template <class Batch, class Rows, class Columns, class Summed, class Index>
struct Pieced {
    Batch batch;
    Rows rows;
    Columns columns;
    Summed summed;
    Index tiles[2], parts, count, apart[4];
};

const int ROWS = 128;  // of a tile of the result: 64 for each group of four warps
const int STEP = 32;  // terms at a time
const int LINE = 2 * STEP;  // bytes of one column of a plane
const int BUFFERS = 4;  // for the pieces of so many steps, by turns
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define EINLOOM_GROUPS
#endif

// Which threads pass when as many others have arrived as it was opened for, a warp once for each step.
// Elsewhere than on a card all wait for all.
struct Gate {
    unsigned long long state;

    __device__ void open(int many) {
#ifdef EINLOOM_GROUPS
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address()), "r"(many) : "memory");
#endif
    }
    __device__ void arrive() {
#ifdef EINLOOM_GROUPS
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(address()) : "memory");
#endif
    }
    // For those who arrived `turn` times before, counted from 0.
    __device__ void wait(int turn) {
#ifdef EINLOOM_GROUPS
        asm volatile(
            "{ .reg .pred done;\n"
            "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "@!done bra again; }"
            :: "r"(address()), "r"(turn & 1) : "memory");
#endif
    }
#ifdef EINLOOM_GROUPS
    __device__ unsigned address() { return (unsigned)__cvta_generic_to_shared(&state); }
#endif
};
// Gates that are open are seen by whatever copies.
__device__ inline void all_see() {
#ifdef EINLOOM_GROUPS
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
// The groups of four warps take turns at the tensor cores: while one multiplies, the other adds and takes
// apart.
__device__ inline void wait_for_turn() {
#ifdef EINLOOM_GROUPS
    asm volatile("bar.sync %0, 256;" :: "r"((int)threadIdx.x / 128 + 1) : "memory");
#endif
}
__device__ inline void give_turn() {
#ifdef EINLOOM_GROUPS
    asm volatile("bar.arrive %0, 256;" :: "r"(2 - (int)threadIdx.x / 128) : "memory");
#endif
}

// How an operand lies: any four terms of a place, counted from the first, are 16 bytes that can be read at
// once; any two places are 8 bytes; or neither.
const int BY_NUMBER = 0, BY_TERMS = 1, BY_PLACES = 2;

// Four terms of a place and, BY_PLACES, of the next one. There is no branch, so that nobody waits before the
// numbers are needed.
template <int LIES, class Index>
__device__ inline void read_four(float (&held)[4], float (&beside)[4], const float* x, Index at,
                                 const Index* terms) {
    if (LIES == BY_TERMS) {
        const Pack<float, 4> pack = *(const Pack<float, 4>*)(x + (at + terms[0]));
#pragma unroll
        for (int j = 0; j < 4; ++j) held[j] = pack.at[j];
        return;
    }
    const Pack<Index, 4> offset = *(const Pack<Index, 4>*)terms;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const float* place = x + (at + offset.at[j]);
        if (LIES == BY_PLACES) {
            const Pack<float, 2> pack = *(const Pack<float, 2>*)place;
            held[j] = pack.at[0], beside[j] = pack.at[1];
        } else {
            held[j] = *place;
        }
    }
}
// Places behind the last are the last again, and nobody's.
template <int LIES, class Axes, class Index>
__device__ inline Index offset_of(const Axes& axes, Index place) {
    const Index last = axes.count - (LIES == BY_PLACES ? 2 : 1);
    Index offset[1];
    axes.offsets(place < last ? place : last, offset);
    return offset[0];
}

// The rows of lhs that a thread multiplies, as tensor cores take them from registers (PTX ISA, wgmma,
// fragments of A): of the 64 rows of four warps, warp w has 16, of which lane 4 g + t has two, and of each
// 16 terms the four from 4 t on. Tensor cores know these rows as g and g + 8, the terms as 2 t, 2 t + 1, 2 t
// + 8 and 2 t + 9; here they are rows 2 g and 2 g + 1.
template <int LIES, class Index>
struct Left {
    float held[2][2][4];  // of either half of the terms, of either row
    unsigned pieces[3][2][4];
    Index at[2];

    static __device__ int row(int k) {
        return (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4 * 2 + k;
    }
    template <class Axes> __device__ void go_to(const Axes& axes, Index first) {
#pragma unroll
        for (int k = 0; k < 2; ++k) at[k] = offset_of<LIES>(axes, first + row(k));
    }
    __device__ void read(const float* x, const Index* terms) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int k = 0; k < (LIES == BY_PLACES ? 1 : 2); ++k)
                read_four<LIES>(held[half][k], held[half][1], x, at[k],
                                terms + (16 * half + (int)threadIdx.x % 4 * 4));
    }
    __device__ void split(Least& least) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const Pieces made(held[half][k], least);
#pragma unroll
                for (int piece = 0; piece < 3; ++piece)
#pragma unroll
                    for (int j = 0; j < 2; ++j) pieces[piece][half][2 * j + k] = made.at[piece][j];
            }
    }
};

// The pieces of a panel of floating numbers that a lane multiplies, terms in their own order; of sixteen terms
// if HALVES is 1. What is behind DEPTH terms is 0.
template <int HALVES, int DEPTH, int WIDTH>
__device__ inline void take_left(unsigned (&pieces)[3][2][4], const float (*panel)[WIDTH], Least& least) {
    const int t = 2 * ((int)threadIdx.x % 4);
#pragma unroll
    for (int half = 0; half < HALVES; ++half)
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            float held[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int eight = 16 * half + j / 2 * 8;
                held[j] = eight < DEPTH ? panel[eight + t + j % 2][Left<BY_NUMBER, int>::row(k)] : 0;
            }
            const Pieces made(held, least);
#pragma unroll
            for (int piece = 0; piece < 3; ++piece)
#pragma unroll
                for (int j = 0; j < 2; ++j) pieces[piece][half][2 * j + k] = made.at[piece][j];
        }
}

// Where two terms of a column are in a plane, in bytes, counted as tensor cores know them. Lines of 64
// bytes, whose quarters are exchanged as they are read (PTX ISA, swizzling mode of 64 bytes): eight columns
// side by side are in all banks.
__device__ inline int place_of(int column, int term) {
    return column * LINE + ((term / 8 ^ (column >> 1 & 3)) * 16 | term % 8 * 2);
}

// The columns of rhs that a thread takes apart: four terms of each of EACH columns of a panel. Threads side
// by side take terms or columns, whichever lie side by side.
template <int PLACES, bool ALONG_TERMS, int LIES, class Index>
struct Right {
    static const int EACH = PLACES / 32, TWO = LIES == BY_PLACES ? 2 : 1;
    static_assert(EACH % TWO == 0, "columns are read by so many");
    float held[EACH][4];
    Index at[EACH];

    static __device__ int column(int i) {
        if (ALONG_TERMS) return (int)threadIdx.x / 8 + 32 * i;
        const int unit = (int)threadIdx.x / 32 + 8 * (i / TWO);
        return (unit % (PLACES / (8 * TWO)) * 8 + (int)threadIdx.x % 8) * TWO + i % TWO;
    }
    static __device__ int quad(int i) {
        if (ALONG_TERMS) return (int)threadIdx.x % 8;
        const int unit = (int)threadIdx.x / 32 + 8 * (i / TWO);
        return unit / (PLACES / (8 * TWO)) * 4 + (int)threadIdx.x % 32 / 8;
    }
    template <class Axes> __device__ void go_to(const Axes& axes, Index first) {
#pragma unroll
        for (int i = 0; i < EACH; ++i) at[i] = offset_of<LIES>(axes, first + column(i));
    }
    __device__ void read(const float* x, const Index* terms) {
#pragma unroll
        for (int i = 0; i < EACH; i += TWO)
            read_four<LIES>(held[i], held[i + TWO - 1], x, at[i], terms + 4 * quad(i));
    }
    // Terms from the `there`-th on, where others were read, are 0: what lhs has of them does not matter.
    __device__ void split(unsigned char* planes, int there, Least& least) {
        if (there < STEP) {
#pragma unroll
            for (int i = 0; i < EACH; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    if (4 * quad(i) + j >= there) held[i][j] = 0;
        }
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const Pieces made(held[i], least);
            const int term = quad(i) / 4 * 16 + quad(i) % 4 * 2;
#pragma unroll
            for (int k = 0; k < 3; ++k)
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const int at = k * (PLACES * LINE) + place_of(column(i), term + 8 * j);
                    *(unsigned*)(planes + at) = made.at[k][j];
                }
        }
        // what is in shared memory is what tensor cores are to see
#ifdef EINLOOM_GROUPS
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    }
};

// Sums of a tile of the result: lane 4 g + t of a warp has columns 8 j + 2 t and 8 j + 2 t + 1 of its rows.
// `Group` is the instruction for WIDE columns.
template <int WIDE, class Group>
struct PieceSums {
    static const int MANY = WIDE / 2;
    float sum[MANY], part[MANY];

    __device__ void clear() {
#pragma unroll
        for (int j = 0; j < MANY; ++j) sum[j] = 0;
    }
    static __device__ int row(int j) { return Left<BY_NUMBER, int>::row(j / 2 % 2); }
    static __device__ int column(int j) { return j / 4 * 8 + (int)threadIdx.x % 4 * 2 + j % 2; }

    // The products of all terms of a step, the small ones first: low high, middle middle, high low, middle
    // high, high middle, high high. All but these are done at `finish_small`, all at `finish`.
    // Of sixteen terms if HALVES is 1.
    template <int HALVES>
    __device__ void start(const unsigned (&lhs)[3][2][4], const unsigned char* rhs) {
        const int left[6] = {2, 1, 0, 1, 0, 0}, right[6] = {0, 1, 2, 0, 1, 0};
#ifdef EINLOOM_GROUPS
        // how they are told of a panel (PTX ISA, matrix descriptor): its address, 512 bytes from eight
        // columns to the next eight, in the swizzling mode of 64 bytes
        const unsigned address = (unsigned)__cvta_generic_to_shared(rhs);
        const unsigned long long panel
            = (unsigned long long)((address & 0x3ffff) >> 4) | 1ull << 16 | 32ull << 32 | 2ull << 62;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int p = 0; p < 6; ++p)
#pragma unroll
            for (int half = 0; half < HALVES; ++half) {
                Group::multiply(part, lhs[left[p]][half], panel + (right[p] * WIDE * LINE + 32 * half) / 16,
                                p + half > 0);
                if (p >= 4 && half + 1 == HALVES) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            }
#else  // the same, slowly: where there is no such card
        double total[MANY];
        for (int j = 0; j < MANY; ++j) total[j] = 0;
        for (int term = 0; term < 16 * HALVES; ++term) {
            float x[3][2];
            const int at = term % 16, lane = (int)threadIdx.x % 32 / 4 * 4 + at % 8 / 2;
            for (int piece = 0; piece < 3; ++piece)
                for (int k = 0; k < 2; ++k) {
                    const unsigned both
                        = __shfl_sync(0xffffffffu, lhs[piece][term / 16][at / 8 * 2 + k], lane);
                    x[piece][k] = term % 2 ? upper(both) : lower(both);
                }
            for (int j = 0; j < MANY; ++j)
                for (int p = 0; p < 6; ++p) {
                    const unsigned char* y = rhs + right[p] * WIDE * LINE + place_of(column(j), term / 2 * 2);
                    const unsigned both = *(const unsigned*)y;
                    total[j] += (double)x[left[p]][j / 2 % 2] * (term % 2 ? upper(both) : lower(both));
                }
        }
        for (int j = 0; j < MANY; ++j) part[j] = (float)total[j];
#endif
    }
    __device__ void finish_small() {
#ifdef EINLOOM_GROUPS
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
#endif
    }
    // Tensor cores read the pieces of lhs in their registers until then, of which the compiler does not know:
    // it would have others there as soon as nobody reads them. So they are read once more, for nothing: in a
    // chain that begins with sums, which are not there before, and that the assembler keeps in this order.
    template <int HALVES>
    __device__ void finish(const unsigned (&lhs)[3][2][4]) {
#ifdef EINLOOM_GROUPS
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int j = 0; j < MANY; ++j) asm volatile("" : "+f"(part[j]) :: "memory");  // not read before
        unsigned all[2] = {__float_as_uint(part[0]), __float_as_uint(part[1])};
#pragma unroll
        for (int k = 0; k < 12 * HALVES; ++k)
            asm volatile("xor.b32 %0, %0, %1;" : "+r"(all[k % 2]) : "r"(lhs[k / 4 % 3][k / 12][k % 4]));
        asm volatile("{ .reg .pred seldom; setp.eq.u32 seldom, %0, %1; @seldom nanosleep.u32 0; }"
                     :: "r"(all[0]), "r"(all[1]));
#endif
    }
    __device__ void add() {
#pragma unroll
        for (int j = 0; j < MANY; ++j) sum[j] = plus(sum[j], part[j]);
    }
    static __device__ bool are_finite(const float (&x)[MANY]) {
        float all[4] = {0, 0, 0, 0};  // which do not wait for each other
#pragma unroll
        for (int j = 0; j < MANY; ++j) all[j % 4] = ::fmaf(0.f, x[j], all[j % 4]);
        return plus(plus(all[0], all[1]), plus(all[2], all[3])) == 0;
    }
    static __device__ bool has_small(const float (&x)[MANY]) {
        bool any = false;
#pragma unroll
        for (int j = 0; j < MANY; ++j) any |= ::fabsf(x[j]) < SMALL;
        return any;
    }
    __device__ bool are_finite() const { return are_finite(sum); }
    __device__ bool has_small() const { return has_small(sum); }
    // By plain multiplications, of panels of floating numbers.
    template <int LEFT, int RIGHT>
    __device__ void add_plainly(const float (*lhs)[LEFT], const float (*rhs)[RIGHT]) {
#pragma unroll 1
        for (int k = 0; k < STEP; ++k)
#pragma unroll
            for (int j = 0; j < MANY; ++j) sum[j] = plus_product(lhs[k][row(j)], rhs[k][column(j)], sum[j]);
    }
    // ACROSS: rows lie side by side in the result, else columns.
    template <bool ACROSS, class Index>
    __device__ void write_out(float* out, Index by_row, Index by_column, Index rows, Index columns) const {
#pragma unroll
        for (int j = 0; j < MANY; j += 4)
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const int first = j + (ACROSS ? k : 2 * k), second = first + (ACROSS ? 2 : 1);
                const int r = row(first), c = column(first);
                if (r >= rows || c >= columns) continue;
                float* place = out + r * by_row + c * by_column;
                const Pack<float, 2> pack = {sum[first], sum[second]};
                write_some<2>(place, pack, ACROSS ? rows - r : columns - c);
            }
    }
};

// Sums of a tile again, of so many steps, by plain arithmetic: `lhs` and `rhs` are those of its matrix. All
// threads of the block.
template <int LEFT, int RIGHT, class Sums, class Operands, class Index>
__device__ inline void sum_plainly(Sums& sums, float (*panel)[LEFT], float (*beside)[RIGHT], const float* lhs,
                                   const float* rhs, const Operands& g, Index row, Index column, int step,
                                   int last) {
    const int count = (int)g.summed.count, wide = 2 * Sums::MANY;
    sums.clear();
    for (; step < last; ++step) {
        for (int i = threadIdx.x; i < STEP * (ROWS + wide); i += blockDim.x) {
            const int k = step * STEP + i % STEP;
            const bool is_left = i / STEP < ROWS;
            const Index place = is_left ? row + i / STEP : column + i / STEP - ROWS;
            const bool is_there = k < count && place < (is_left ? g.rows.count : g.columns.count);
            float x = 0;
            if (is_there) {
                Index term[2], at[1];
                g.summed.offsets(k, term);
                if (is_left) {
                    g.rows.offsets(place, at);
                    x = lhs[at[0] + term[0]];
                } else {
                    g.columns.offsets(place, at);
                    x = rhs[at[0] + term[1]];
                }
            }
            if (is_left) panel[i % STEP][i / STEP] = x;
            else beside[i % STEP][i / STEP - ROWS] = x;
        }
        __syncthreads();
        sums.add_plainly(panel, beside);
        __syncthreads();
    }
}

// A place in the sequence of steps of a block: a part of a tile, and which terms of it.
template <class Index>
struct Walk {
    Index unit;
    int step, last;

    __device__ void go_to(Index next, Index parts, int steps) {
        const int part = (int)(next % parts);
        unit = next;
        step = (int)((long long)steps * part / parts), last = (int)((long long)steps * (part + 1) / parts);
    }
    // Returns whether another unit begins. Blocks take units by turns: they work side by side at any time.
    __device__ bool advance(Index parts, int steps) {
        if (++step < last) return false;
        go_to(unit + (Index)gridDim.x, parts, steps);
        return true;
    }
};

#endif

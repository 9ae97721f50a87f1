#ifndef EINLOOM_APART
#define EINLOOM_APART

// Panels: the pieces of ROWS rows (columns) for one step, as they are multiplied. Of lhs that is in the
// order in which lanes have them in registers, of rhs as tensor cores see planes in shared memory.
const int PANEL = 3 * ROWS * LINE;  // bytes
const int PANELS = 6;  // of rhs that a block has in shared memory
const int TOGETHER = 8;  // bands of rows whose tiles are neighbours in time

// Axes of a batch, of rows or columns, and of terms in one operand; how many bands the rows come to, how many
// steps the terms do, and how many panels there are in all.
template <class Batch, class Places, class Summed, class Index>
struct Apart {
    Batch batch;
    Places places;
    Summed summed;
    Index bands, steps, count;
};

// How many bands the rows and the columns of a matrix have and how many steps its terms do; among how many
// parts these are dealt; how many parts of tiles there are; rows and columns of the result; and how far apart
// in it are matrices, parts, rows and columns.
template <class Index>
struct Prepared {
    Index bands[2], steps, parts, count, places[2], apart[4];
};

// The same for what computes tiles again, of the operands themselves.
template <class Batch, class Rows, class Columns, class Summed, class Index>
struct Again {
    Batch batch;
    Rows rows;
    Columns columns;
    Summed summed;
    Index bands[2], steps, parts, count, apart[4];
};

// A tile of the result: tiles that are multiplied side by side share rows and columns.
template <class Index>
struct Tile {
    Index matrix, row, column;

    __device__ Tile(Index tile, const Index (&bands)[2]) {
        const Index whole = bands[0] * bands[1], many = TOGETHER * bands[1];
        matrix = tile / whole, tile %= whole;
        const Index first = tile / many * TOGETHER;
        const Index rows = bands[0] - first < TOGETHER ? bands[0] - first : TOGETHER;
        row = first + tile % many % rows, column = tile % many / rows;
    }
};

// The pieces of a panel of floating numbers, STEP terms of ROWS places.
template <int WIDTH>
__device__ inline void split_left(unsigned char* to, const float (*panel)[WIDTH], Least& least) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    unsigned pieces[3][2][4];
    take_left<2, STEP>(pieces, panel, least);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int piece = 0; piece < 3; ++piece) {
            const Pack<unsigned, 4> four = {pieces[piece][half][0], pieces[piece][half][1],
                                            pieces[piece][half][2], pieces[piece][half][3]};
            ((Pack<unsigned, 4>*)to)[((warp * 2 + half) * 3 + piece) * 32 + lane] = four;
        }
}
template <int WIDTH>
__device__ inline void split_right(unsigned char* to, const float (*panel)[WIDTH], Least& least) {
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * (STEP / 8); i += 2 * ROWS) {
        const int place = i / (STEP / 8), term = i % (STEP / 8) * 8;
        const EightPieces made(panel, term, place, least);
#pragma unroll
        for (int piece = 0; piece < 3; ++piece)
            *(Pack<unsigned, 4>*)(to + piece * (ROWS * LINE) + place_of(place, term)) = made.at[piece];
    }
}
// What a lane multiplies of a panel of lhs.
__device__ inline void read_left(unsigned (&pieces)[3][2][4], const unsigned char* panel) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int piece = 0; piece < 3; ++piece) {
            const Pack<unsigned, 4> four
                = ((const Pack<unsigned, 4>*)panel)[((warp * 2 + half) * 3 + piece) * 32 + lane];
#pragma unroll
            for (int k = 0; k < 4; ++k) pieces[piece][half][k] = four.at[k];
        }
}

// A panel of rhs on its way into shared memory: one thread sends it, all wait.
struct Sent : Gate {
    __device__ void send(unsigned char* to, const unsigned char* from) {
#ifdef EINLOOM_GROUPS
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(address()), "r"(PANEL) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(PANEL), "r"(address())
                     : "memory");
#else
        for (int i = 0; i < PANEL / 16; ++i) ((Pack<unsigned, 4>*)to)[i] = ((const Pack<unsigned, 4>*)from)[i];
#endif
    }
};

#endif

#ifndef EINLOOM_BFLOAT16
#define EINLOOM_BFLOAT16

// Below 2^-109 the last piece of a number is no longer exact: up to 2^-133 is lost, times the other factor. That
// is less than a rounding of a sum above 2^-40, unless the number of terms times the largest factor is 2^69 and
// more. What is below 2^-134 has no piece at all: it counts as 0.
const unsigned TINY = 0x0d80;  // 2^-100 in bfloat16
const float SMALL = 0x1p-40f;

// Two numbers in bfloat16, the nearest, the first in the lower half.
__device__ inline unsigned rounded(float x, float y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x));
    return both;
#else
    const unsigned u[2] = {__float_as_uint(x), __float_as_uint(y)};
    unsigned half[2];
    for (int k = 0; k < 2; ++k)
        half[k] = (u[k] & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u[k] + 0x7fff + (u[k] >> 16 & 1)) >> 16;
    return half[1] << 16 | half[0];
#endif
}
__device__ inline float lower(unsigned both) { return __uint_as_float(both << 16); }
__device__ inline float upper(unsigned both) { return __uint_as_float(both & 0xffff0000u); }

// Sums and differences that keep numbers below the normal ones, whatever the compiler was told: by it, the
// negative of such a number is 0 too, so that a difference is no sum.
__device__ inline float plus(float x, float y) {
#if defined(__CUDA_ARCH__)
    float sum;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(x), "f"(y));
    return sum;
#else
    return x + y;
#endif
}
__device__ inline float minus(float x, float y) {
#if defined(__CUDA_ARCH__)
    float difference;
    asm("sub.rn.f32 %0, %1, %2;" : "=f"(difference) : "f"(x), "f"(y));
    return difference;
#else
    return x - y;
#endif
}
__device__ inline float plus_product(float x, float y, float sum) {
#if defined(__CUDA_ARCH__)
    asm("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum) : "f"(x), "f"(y));
    return sum;
#else
    return ::fmaf(x, y, sum);
#endif
}

// The least magnitude other than 0 of numbers that were taken apart, of those in lower halves and in upper
// ones.
struct Least {
    unsigned least;  // 16 bits with a sign each: the magnitude, less 2^15

    __device__ Least() { least = 0x7fff7fffu; }
    // Of a magnitude of 1 this makes the least that there is, of 0 the greatest.
    __device__ void take(unsigned both) { lower((both & 0x7fff7fffu) + 0x7fff7fffu); }
    __device__ void take(const Least& other) { lower(other.least); }
    __device__ bool is_tiny() const {
        const int limit = (int)TINY - 0x8000;
        return (short)(least & 0xffff) < limit || (short)(least >> 16) < limit;
    }
    __device__ void lower(unsigned to) {
#if defined(__CUDA_ARCH__)
        least = __vmins2(least, to);
#else
        for (int shift = 0; shift < 32; shift += 16) {
            const unsigned mask = 0xffffu << shift;
            if ((short)(to >> shift) < (short)(least >> shift)) least = least & ~mask | to & mask;
        }
#endif
    }
};

// The three pieces of two numbers of each of two pairs.
struct Pieces {
    unsigned at[3][2];

    __device__ Pieces(const float (&held)[4], Least& least) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            float x = held[2 * j], y = held[2 * j + 1];
#pragma unroll
            for (int k = 0; k < 3; ++k) {
                const unsigned both = rounded(x, y);
                if (k == 0) least.take(both);
                at[k][j] = both;
                x = minus(x, lower(both)), y = minus(y, upper(both));
            }
        }
    }
};

// Those of eight terms: each piece is 16 bytes.
struct EightPieces {
    Pack<unsigned, 4> at[3];

    template <int WIDTH>
    __device__ EightPieces(const float (*panel)[WIDTH], int term, int place, Least& least) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float held[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) held[k] = panel[term + 4 * half + k][place];
            const Pieces made(held, least);
#pragma unroll
            for (int piece = 0; piece < 3; ++piece)
#pragma unroll
                for (int j = 0; j < 2; ++j) at[piece].at[2 * half + j] = made.at[piece][j];
        }
    }
};

#endif

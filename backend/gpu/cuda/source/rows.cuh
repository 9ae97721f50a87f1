#ifndef EINLOOM_ROWS
#define EINLOOM_ROWS

// Matrices of order N in the registers of a warp: LANES lanes, a power of two, hold a row each. Every index
// into a row is known to the compiler, loops being unrolled, so that nothing of it goes to memory; what a
// lane needs of another's row, it gets by a shuffle. Every thread of a warp passes every shuffle, those
// beyond the batch and beyond the order as well.
//
// Products are fused with sums here: that is one rounding less and one instruction less, and no result of
// these is promised bit by bit, neither the CPU's order of sums nor its pivots being those of here.
const unsigned WARP = 0xffffffffu;

template <int LANES, class T> __device__ inline T from_lane(T x, int lane) {
    return __shfl_sync(WARP, x, lane, LANES);
}
template <int LANES, class T> __device__ inline Complex<T> from_lane(Complex<T> x, int lane) {
    return {from_lane<LANES>(x.re, lane), from_lane<LANES>(x.im, lane)};
}

// The largest among lanes, known to all of them.
template <int LANES> __device__ inline unsigned largest(unsigned x) {
#pragma unroll
    for (int apart = LANES / 2; apart; apart /= 2) {
        const unsigned other = __shfl_xor_sync(WARP, x, apart, LANES);
        x = other > x ? other : x;
    }
    return x;
}

// x - y z
template <class T> __device__ inline T less_fused(T x, T y, T z) { return ::fma(-y, z, x); }
template <class T> __device__ inline Complex<T> less_fused(Complex<T> x, Complex<T> y, Complex<T> z) {
    return {::fma(-y.re, z.re, ::fma(y.im, z.im, x.re)), ::fma(-y.re, z.im, ::fma(-y.im, z.re, x.im))};
}

template <class T> __device__ inline T scaled(T x, T by) { return x * by; }
template <class T> __device__ inline Complex<T> scaled(Complex<T> x, T by) {
    return {x.re * by, x.im * by};
}

// Of numbers whose square is in range.
template <class T> __device__ inline T reciprocal_of(T x) { return (T)1 / x; }
template <class T> __device__ inline Complex<T> reciprocal_of(Complex<T> x) {
    const T by = (T)1 / (x.re * x.re + x.im * x.im);
    return {x.re * by, -x.im * by};
}

// x / y by the reciprocal of y, with one step of refinement: of real numbers, that is the division's own
// rounding but for the ends of the range, so that an exact quotient is found as such. Where y is infinite,
// or the quotient is, the refinement alone would be NaN.
template <class T> __device__ inline T quotient(T x, T y, T reciprocal) {
    const T first = op::multiply(x, reciprocal);
    const T refined = less_fused(first, op::negate(less_fused(x, first, y)), reciprocal);
    return op::equal(refined, refined) ? refined : first;
}
template <class T> __device__ inline Complex<T> quotient(Complex<T> x, T y, T reciprocal) {
    return {quotient(x.re, y, reciprocal), quotient(x.im, y, reciprocal)};
}

// The upper bits of a number that is not negative, which rise with it; and, from these, the power of two
// that takes it to between 1 and 4, or to a number below 1 whose square is in range, if it is subnormal.
template <class T> struct Words;
template <> struct Words<float> {
    static __device__ unsigned of(float x) { return __float_as_uint(x); }
    static __device__ float scale(unsigned word) {
        const unsigned exponent = word >> 23;
        return __uint_as_float((exponent < 253u ? 254u - exponent : 1u) << 23);
    }
};
template <> struct Words<double> {
    static __device__ unsigned of(double x) {
        return (unsigned)((unsigned long long)__double_as_longlong(x) >> 32);
    }
    static __device__ double scale(unsigned word) {
        const unsigned exponent = word >> 20;
        const unsigned of_scale = exponent < 2045u ? 2046u - exponent : 1u;
        return __longlong_as_double((long long)((unsigned long long)of_scale << 52));
    }
};

// Of a pivot: the index of its row in the last bits, those of INDEX, complemented, so that of equal ones the
// lowest wins; then as many bits of its size as fit. Sizes that agree in these count as equal: pivots that much
// below the largest bound the growth of errors as well. What is exactly 0 is below LEAST, and what is no
// candidate is below that. NaN is above all.
template <unsigned INDEX> struct Ranked {
    static const unsigned ZERO = INDEX + 1, LEAST = 2 * (INDEX + 1);

    template <class R> static __device__ unsigned of(R size, int index) {
        const unsigned word = Words<R>::of(size) & 0x7fffffffu & ~INDEX, least = size == 0 ? ZERO : LEAST;
        return (word > least ? word : least) | (INDEX - (unsigned)index);
    }
    static __device__ int index(unsigned ranked) { return (int)(INDEX - (ranked & INDEX)); }
};
typedef Ranked<31> Candidate;  // of a lane: equal within 2**-18 (float) or 2**-15 (double) of each other

// One matrix, with its first COLUMNS right-hand sides: what one lane has of them. No row is exchanged for
// another: each knows the step at which it was the pivot's.
template <int N, int LANES, int COLUMNS, class T>
struct Rows {
    typedef typename Real<T>::type R;
    static const int EACH = 6;  // places of five bits in a word

    T row[N];             // of L, below the step, and of U beyond it
    T x[COLUMNS ? COLUMNS : 1];
    T pivot, reciprocal;  // of the row's own step, the pivot times scale
    R scale;              // a power of two, which keeps reciprocals in range
    int step;             // of which the row was the pivot's, -1 beyond the order
    unsigned places[(N + EACH - 1) / EACH];

    // The lane of a step's pivot.
    __device__ int place(int k) const { return (int)(places[k / EACH] >> k % EACH * 5 & 31u); }

    // L U with the rows in the order of their steps; x becomes the inverse of L times x. Returns the first
    // step, counted from 1, without a pivot, or 0.
    __device__ int eliminate(int lane) {
        int failed = 0;
        bool open = lane < N;  // has no step yet
        step = -1;
        pivot = to<T>((R)1);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            // Every lane takes the reciprocal of its own, while the pivot's is still looked for.
            const unsigned mine = open ? Candidate::of(size_of(row[k]), lane) : 0u;
            const T one = to<T>((R)1), scaled_own = scaled(row[k], Words<R>::scale(mine));
            const T own = mine >= Candidate::LEAST ? scaled_own : one;
            const T own_reciprocal = reciprocal_of(own);
            const unsigned best = largest<LANES>(mine);
            const int from = Candidate::index(best);
            const T divisor = from_lane<LANES>(own, from);
            const T by = from_lane<LANES>(own_reciprocal, from);
            const R times = Words<R>::scale(best);
            if (best < Candidate::LEAST && !failed) failed = k + 1;
            if (k % EACH == 0) places[k / EACH] = 0;
            places[k / EACH] |= (unsigned)from << k % EACH * 5;
            if (lane == from) {
                open = false;
                step = k;
                pivot = row[k];
            }
            const T multiple = quotient(scaled(row[k], times), divisor, by);  // 0 if all are
#pragma unroll
            for (int j = k + 1; j < N; ++j) {
                const T other = from_lane<LANES>(row[j], from);
                if (open) row[j] = less_fused(row[j], multiple, other);
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                const T other = from_lane<LANES>(x[c], from);
                if (open) x[c] = less_fused(x[c], multiple, other);
            }
            if (open) row[k] = multiple;
        }
        scale = Words<R>::scale(Words<R>::of(size_of(pivot)) & 0x7fffffffu);
        pivot = scaled(pivot, scale);
        reciprocal = reciprocal_of(pivot);
        return failed;
    }

    // x becomes the inverse of U times x: element k is in the lane of step k.
    __device__ void substitute() {
#pragma unroll
        for (int k = N - 1; k >= 0; --k)
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                if (step == k) x[c] = quotient(scaled(x[c], scale), pivot, reciprocal);
                if (k) {
                    const T other = from_lane<LANES>(x[c], place(k));
                    if (step < k) x[c] = less_fused(x[c], row[k], other);
                }
            }
    }
};

// The factors of a matrix for lanes that each take right-hand sides of their own: by columns, of which a
// lane reads several elements at once, and all lanes the same.
template <int N, class T>
struct Factors {
    typedef typename Real<T>::type R;
    static const int PITCH = N + N % 2;

    T pivot[N], reciprocal[N];
    R scale[N];
    int place[N];

    template <int LANES>
    __device__ void keep(T* columns, const Rows<N, LANES, 0, T>& mine, int lane) {
        if (mine.step < 0) return;
#pragma unroll
        for (int j = 0; j < N; ++j) columns[j * PITCH + mine.step] = mine.row[j];
        pivot[mine.step] = mine.pivot;
        reciprocal[mine.step] = mine.reciprocal;
        scale[mine.step] = mine.scale;
        place[mine.step] = lane;
    }

    __device__ void solve(const T* columns, T (&x)[N]) const {
#pragma unroll
        for (int j = 0; j < N; ++j)
#pragma unroll
            for (int i = j + 1; i < N; ++i) x[i] = less_fused(x[i], columns[j * PITCH + i], x[j]);
        __syncwarp();  // nothing is read so far ahead that registers run out
#pragma unroll
        for (int j = N - 1; j >= 0; --j) {
            x[j] = quotient(scaled(x[j], scale[j]), pivot[j], reciprocal[j]);
#pragma unroll
            for (int i = 0; i < j; ++i) x[i] = less_fused(x[i], columns[j * PITCH + i], x[j]);
        }
    }
};

// a = L L^H in the rows of `row`, of which nothing right of the diagonal matters, before or after. Returns
// the first step, counted from 1, of which the pivot is not positive, or 0.
template <int LANES, int N, class T>
__device__ int factorise_positive_rows(T (&row)[N], int lane) {
    typedef typename Real<T>::type R;
    int failed = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const R pivot = from_lane<LANES>(op::real(row[k]), k);
        if (!(pivot > 0) && !failed) failed = k + 1;
        const R root = ::sqrt(pivot), by = (R)1 / root;
        row[k] = lane == k ? to<T>(root) : quotient(row[k], root, by);
#pragma unroll
        for (int j = k + 1; j < N; ++j)
            row[j] = less_fused(row[j], row[k], op::conj(from_lane<LANES>(row[k], j)));
    }
    return failed;
}

#endif

#ifndef EINLOOM_TEAMS
#define EINLOOM_TEAMS

// Lanes that share a matrix in shared memory: lanes of one warp (IN_WARP; other matrices may have the rest of
// it), or a whole block. A team of TEAM of them, a power of two, lies within a warp and works on one column.
// All threads of the warp or of the block pass the same meetings and shuffles.

const unsigned ALL = 0xffffffffu;

template <bool IN_WARP> __device__ inline void meet() {
    if constexpr (IN_WARP) __syncwarp();
    else __syncthreads();
}

// Whether x holds for some thread that meets here.
template <bool IN_WARP> __device__ inline bool some(bool x) {
    if constexpr (IN_WARP) return __any_sync(ALL, x);
    else return __syncthreads_or(x);
}

template <class T> __device__ inline T other_lane(T x, int apart) {
    return __shfl_xor_sync(ALL, x, apart);
}
template <class T> __device__ inline Complex<T> other_lane(Complex<T> x, int apart) {
    return {__shfl_xor_sync(ALL, x.re, apart), __shfl_xor_sync(ALL, x.im, apart)};
}

// The sum over a team, to the last bit the same in all its lanes.
template <int TEAM, class T> __device__ inline T team_sum(T x) {
    for (int apart = TEAM / 2; apart; apart /= 2) x = op::add(x, other_lane(x, apart));
    return x;
}

// The largest over all lanes of a matrix, or the sum.
template <bool LARGEST, class R> __device__ inline R joined(R x, R y) {
    if constexpr (LARGEST) return y > x ? y : x;
    else return x + y;
}
template <bool IN_WARP, bool LARGEST, class R> __device__ inline R over_all(R x, R* scratch) {
    const int most = IN_WARP ? blockDim.x : 32;
    for (int apart = most / 2; apart; apart /= 2) x = joined<LARGEST>(x, other_lane(x, apart));
    if constexpr (!IN_WARP) {
        __syncthreads();
        if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
        __syncthreads();
        x = scratch[0];
        for (int warp = 1; warp < blockDim.x / 32; ++warp) x = joined<LARGEST>(x, scratch[warp]);
    }
    return x;
}

template <class T> __device__ inline T scaled(T x, int exponent) { return ::ldexp(x, exponent); }
template <class T> __device__ inline Complex<T> scaled(Complex<T> x, int exponent) {
    return {::ldexp(x.re, exponent), ::ldexp(x.im, exponent)};
}
template <class T> __device__ inline T times(T x, T real) { return x * real; }
template <class T> __device__ inline Complex<T> times(Complex<T> x, T real) {
    return {x.re * real, x.im * real};
}
template <class T> __device__ inline T widest(T x) { return ::fabs(x); }
template <class T> __device__ inline T widest(Complex<T> x) {
    const T re = ::fabs(x.re), im = ::fabs(x.im);
    return re > im || re != re ? re : im;
}

template <class T> __device__ inline T plus_square(T sum, T x) { return ::fma(x, x, sum); }
template <class T> __device__ inline T plus_square(T sum, Complex<T> x) {
    return ::fma(x.im, x.im, ::fma(x.re, x.re, sum));
}
// sum + x y, and sum + conj(x) y
template <class T> __device__ inline T plus_product(T sum, T x, T y) { return ::fma(x, y, sum); }
template <class T> __device__ inline Complex<T> plus_product(Complex<T> sum, Complex<T> x, Complex<T> y) {
    return {::fma(-x.im, y.im, ::fma(x.re, y.re, sum.re)), ::fma(x.im, y.re, ::fma(x.re, y.im, sum.im))};
}
template <class T> __device__ inline T plus_inner(T sum, T x, T y) {
    return plus_product(sum, op::conj(x), y);
}

#endif

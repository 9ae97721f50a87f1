#ifndef EINLOOM_ARITHMETIC
#define EINLOOM_ARITHMETIC

// The catalogue's elementwise ops on single numbers of the types that are computed in: bool, integers,
// float, double, Complex. Integers wrap: signed overflow has no meaning in C++, so they go through
// unsigned ones.
namespace op {

typedef unsigned long long Word;

template <class T> __device__ inline T add(T x, T y) {
    if constexpr (Kind<T>::whole) return (T)((Word)x + (Word)y);
    else return x + y;
}
__device__ inline bool add(bool x, bool y) { return x | y; }

template <class T> __device__ inline T subtract(T x, T y) {
    if constexpr (Kind<T>::whole) return (T)((Word)x - (Word)y);
    else return x - y;
}

template <class T> __device__ inline T multiply(T x, T y) {
    if constexpr (Kind<T>::whole) return (T)((Word)x * (Word)y);
    else return x * y;
}
__device__ inline bool multiply(bool x, bool y) { return x & y; }

template <class T> __device__ inline T negate(T x) {
    if constexpr (Kind<T>::whole) return (T)((Word)0 - (Word)x);
    else return -x;
}

// Toward zero; x / 0 = 0, and the least integer divided by -1 wraps.
template <class T> __device__ inline T divide(T x, T y) {
    if constexpr (Kind<T>::whole) {
        if (y == (T)0) return (T)0;
        return (T)(y + (T)1) == (T)0 && (T)-1 < (T)0 ? negate(x) : (T)(x / y);
    } else {
        return x / y;
    }
}

template <class T> __device__ inline T remainder(T x, T y) {
    if constexpr (Kind<T>::whole) {
        if (y == (T)0 || ((T)-1 < (T)0 && y == (T)-1)) return (T)0;
        return (T)(x % y);
    } else {
        return ::fmod(x, y);
    }
}

template <class T> __device__ inline T maximum(T x, T y) { return (x > y || x != x) ? x : y; }
template <class T> __device__ inline T minimum(T x, T y) { return (x < y || x != x) ? x : y; }
template <class T> __device__ inline T clamp(T x, T low, T high) {
    return minimum(maximum(x, low), high);
}

template <class T> __device__ inline T power(T x, T y) {
    if constexpr (Kind<T>::whole) {
        if (y < (T)0) {
            if (x == (T)1) return x;
            return x == (T)-1 ? ((y & (T)1) ? x : (T)1) : (T)0;
        }
        Word found = 1, square = (Word)x;
        for (Word rest = (Word)y; rest; rest >>= 1) {
            if (rest & 1) found *= square;
            square *= square;
        }
        return (T)found;
    } else {
        return ::pow(x, y);
    }
}

template <class T> __device__ inline T reciprocal(T x) {
    if constexpr (Kind<T>::whole) return x == (T)1 || ((T)-1 < (T)0 && x == (T)-1) ? x : (T)0;
    else return (T)1 / x;
}

template <class T> __device__ inline T absolute(T x) {
    if constexpr (Kind<T>::whole) return x < (T)0 ? negate(x) : x;
    else return ::fabs(x);
}
__device__ inline bool absolute(bool x) { return x; }

template <class T> __device__ inline T sign(T x) {
    return x > (T)0 ? (T)1 : (x < (T)0 ? (T)-1 : x);
}

template <class T> __device__ inline T atan2(T x, T y) { return ::atan2(x, y); }
template <class T> __device__ inline T rsqrt(T x) { return (T)1 / ::sqrt(x); }

#define EINLOOM_FUNCTION(name, of) \
    template <class T> __device__ inline T name(T x) { return ::of(x); }
EINLOOM_FUNCTION(sqrt, sqrt)
EINLOOM_FUNCTION(exp, exp)
EINLOOM_FUNCTION(expm1, expm1)
EINLOOM_FUNCTION(log, log)
EINLOOM_FUNCTION(log1p, log1p)
EINLOOM_FUNCTION(sin, sin)
EINLOOM_FUNCTION(cos, cos)
EINLOOM_FUNCTION(tan, tan)
EINLOOM_FUNCTION(asin, asin)
EINLOOM_FUNCTION(acos, acos)
EINLOOM_FUNCTION(atan, atan)
EINLOOM_FUNCTION(sinh, sinh)
EINLOOM_FUNCTION(cosh, cosh)
EINLOOM_FUNCTION(tanh, tanh)
EINLOOM_FUNCTION(erf, erf)
#undef EINLOOM_FUNCTION

#define EINLOOM_ROUNDING(name, of)                           \
    template <class T> __device__ inline T name(T x) {       \
        if constexpr (Kind<T>::whole) return x;              \
        else return ::of(x);                                 \
    }
EINLOOM_ROUNDING(floor, floor)
EINLOOM_ROUNDING(ceil, ceil)
EINLOOM_ROUNDING(trunc, trunc)
EINLOOM_ROUNDING(round, rint)
EINLOOM_ROUNDING(round_half_away, round)
#undef EINLOOM_ROUNDING

template <class T> __device__ inline T bitwise_and(T x, T y) { return (T)(x & y); }
template <class T> __device__ inline T bitwise_or(T x, T y) { return (T)(x | y); }
template <class T> __device__ inline T bitwise_xor(T x, T y) { return (T)(x ^ y); }
template <class T> __device__ inline T bitwise_not(T x) { return (T)~x; }
__device__ inline bool bitwise_not(bool x) { return !x; }

template <class T> __device__ inline bool equal(T x, T y) { return x == y; }
template <class T> __device__ inline bool not_equal(T x, T y) { return x != y; }
template <class T> __device__ inline bool less(T x, T y) { return x < y; }
template <class T> __device__ inline bool less_equal(T x, T y) { return x <= y; }
template <class T> __device__ inline bool greater(T x, T y) { return x > y; }
template <class T> __device__ inline bool greater_equal(T x, T y) { return x >= y; }
template <class T> __device__ inline T select(bool which, T x, T y) { return which ? x : y; }

template <class T> __device__ inline T conj(T x) { return x; }
template <class T> __device__ inline T real(T x) { return x; }
template <class T> __device__ inline T imag(T x) { return (T)0; }

// ---- complex numbers ---------------------------------------------------------------------------

template <class T> __device__ inline Complex<T> add(Complex<T> x, Complex<T> y) {
    return {x.re + y.re, x.im + y.im};
}
template <class T> __device__ inline Complex<T> subtract(Complex<T> x, Complex<T> y) {
    return {x.re - y.re, x.im - y.im};
}
template <class T> __device__ inline Complex<T> multiply(Complex<T> x, Complex<T> y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
template <class T> __device__ inline Complex<T> negate(Complex<T> x) { return {-x.re, -x.im}; }
template <class T> __device__ inline Complex<T> conj(Complex<T> x) { return {x.re, -x.im}; }
template <class T> __device__ inline T real(Complex<T> x) { return x.re; }
template <class T> __device__ inline T imag(Complex<T> x) { return x.im; }
template <class T> __device__ inline T absolute(Complex<T> x) { return ::hypot(x.re, x.im); }

// R. L. Smith, "Algorithm 116: Complex division" (CACM 5, 1962): no square of a part is formed.
template <class T> __device__ inline Complex<T> divide(Complex<T> x, Complex<T> y) {
    const T re = ::fabs(y.re), im = ::fabs(y.im);
    if (re >= im) {
        if (re == 0 && im == 0) return {x.re / re, x.im / re};
        const T ratio = y.im / y.re, scale = (T)1 / (y.re + y.im * ratio);
        return {(x.re + x.im * ratio) * scale, (x.im - x.re * ratio) * scale};
    }
    const T ratio = y.re / y.im, scale = (T)1 / (y.im + y.re * ratio);
    return {(x.re * ratio + x.im) * scale, (x.im * ratio - x.re) * scale};
}
template <class T> __device__ inline Complex<T> reciprocal(Complex<T> x) {
    return divide(Complex<T>{(T)1, (T)0}, x);
}
template <class T> __device__ inline bool equal(Complex<T> x, Complex<T> y) {
    return x.re == y.re && x.im == y.im;
}
template <class T> __device__ inline bool not_equal(Complex<T> x, Complex<T> y) {
    return x.re != y.re || x.im != y.im;
}

}  // namespace op

#endif

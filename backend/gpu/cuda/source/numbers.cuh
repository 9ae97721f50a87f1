#ifndef EINLOOM_NUMBERS
#define EINLOOM_NUMBERS

// Element types that CUDA's own language lacks, and which type each is computed in.

template <class T>
struct alignas(2 * sizeof(T)) Complex {
    T re, im;
};

struct Half {
    unsigned short bits;
};

struct Bfloat {
    unsigned short bits;
};

__device__ inline float to_float(Half x) {
    const unsigned sign = (unsigned)(x.bits & 0x8000u) << 16;
    const unsigned exponent = (x.bits >> 10) & 31u, fraction = x.bits & 1023u;
    if (exponent == 31u) return __uint_as_float(sign | 0x7f800000u | (fraction << 13));
    if (exponent) return __uint_as_float(sign | ((exponent + 112u) << 23) | (fraction << 13));
    const float small = (float)fraction * 5.9604644775390625e-8f;  // 2**-24
    return sign ? -small : small;
}

__device__ inline float to_float(Bfloat x) { return __uint_as_float((unsigned)x.bits << 16); }

// Nearest, ties to even.
__device__ inline Half half_of(float x) {
    unsigned u = __float_as_uint(x);
    const unsigned sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    unsigned found;
    if (u > 0x7f800000u) {
        found = 0x7e00u;
    } else if (u >= 0x477ff000u) {  // 65520 and beyond
        found = 0x7c00u;
    } else if (u < 0x38800000u) {  // below 2**-14: the spacing at 0.5f is that of subnormal halves
        found = __float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000u;
    } else {
        found = (u - 0x38000000u + 0xfffu + ((u >> 13) & 1u)) >> 13;
    }
    return {(unsigned short)(sign | found)};
}

__device__ inline Bfloat bfloat_of(float x) {
    const unsigned u = __float_as_uint(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return {(unsigned short)(((u >> 16) & 0x8000u) | 0x7fc0u)};
    return {(unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

// Rounded to odd: what is rounded once more, to half of the digits, is then rounded as if only once.
__device__ inline float to_odd(double x) {
    float nearest = (float)x;
    if ((double)nearest == x || x != x) return nearest;
    unsigned u = __float_as_uint(nearest);
    if ((double)(nearest < 0 ? -nearest : nearest) > (x < 0 ? -x : x)) --u;
    return __uint_as_float(u | 1u);
}

// What a type is computed in, and the type of its parts.
template <class T> struct Wide { typedef T type; };
template <> struct Wide<Half> { typedef float type; };
template <> struct Wide<Bfloat> { typedef float type; };
template <class T> struct Real { typedef T type; };
template <class T> struct Real<Complex<T>> { typedef T type; };

template <class T> struct Kind { static const bool whole = true, complex = false; };
template <> struct Kind<float> { static const bool whole = false, complex = false; };
template <> struct Kind<double> { static const bool whole = false, complex = false; };
template <class T> struct Kind<Complex<T>> { static const bool whole = false, complex = true; };

template <class T> __device__ inline T wide(T x) { return x; }
__device__ inline float wide(Half x) { return to_float(x); }
__device__ inline float wide(Bfloat x) { return to_float(x); }

template <class T> struct Limits;
template <> struct Limits<signed char> { static const long long low = -128, high = 127; };
template <> struct Limits<short> { static const long long low = -32768, high = 32767; };
template <> struct Limits<int> { static const long long low = -2147483647ll - 1, high = 2147483647ll; };
template <> struct Limits<long long> {
    static const long long low = -9223372036854775807ll - 1, high = 9223372036854775807ll;
};
template <> struct Limits<unsigned char> { static const unsigned long long low = 0, high = 255; };
template <> struct Limits<unsigned short> { static const unsigned long long low = 0, high = 65535; };
template <> struct Limits<unsigned> { static const unsigned long long low = 0, high = 4294967295ull; };
template <> struct Limits<unsigned long long> {
    static const unsigned long long low = 0, high = 18446744073709551615ull;
};

// to<T>(x): floats saturate as integers, NaN becomes 0; integers wrap; complex numbers lose their
// imaginary part; anything but 0 is true.
template <class T, class S, bool TO_INTEGER, bool FROM_INTEGER>
struct Cast {
    static __device__ T of(S x) { return (T)x; }
};

template <class T, class S>
struct Cast<T, S, true, false> {
    static __device__ T of(S x) {
        if (!(x == x)) return (T)0;
        if (x <= (S)Limits<T>::low) return (T)Limits<T>::low;
        if (x >= (S)Limits<T>::high) return (T)Limits<T>::high;
        return (T)x;
    }
};

template <class T, class S> struct To {
    static __device__ T of(S x) { return Cast<T, S, Kind<T>::whole, Kind<S>::whole>::of(x); }
};
template <class S> struct To<bool, S> {
    static __device__ bool of(S x) { return x != (S)0; }
};
template <class S> struct To<Half, S> {
    static __device__ Half of(S x) { return half_of(to_odd((double)x)); }
};
template <> struct To<Half, float> {
    static __device__ Half of(float x) { return half_of(x); }
};
template <class S> struct To<Bfloat, S> {
    static __device__ Bfloat of(S x) { return bfloat_of(to_odd((double)x)); }
};
template <> struct To<Bfloat, float> {
    static __device__ Bfloat of(float x) { return bfloat_of(x); }
};
template <class T, class S> struct To<Complex<T>, S> {
    static __device__ Complex<T> of(S x) { return {(T)x, (T)0}; }
};
template <class T, class S> struct To<Complex<T>, Complex<S>> {
    static __device__ Complex<T> of(Complex<S> x) { return {(T)x.re, (T)x.im}; }
};
template <class T, class S> struct To<T, Complex<S>> {
    static __device__ T of(Complex<S> x) { return To<T, S>::of(x.re); }
};
template <class S> struct To<bool, Complex<S>> {
    static __device__ bool of(Complex<S> x) { return x.re != 0 || x.im != 0; }
};
template <class S> struct To<Half, Complex<S>> {
    static __device__ Half of(Complex<S> x) { return To<Half, S>::of(x.re); }
};
template <class S> struct To<Bfloat, Complex<S>> {
    static __device__ Bfloat of(Complex<S> x) { return To<Bfloat, S>::of(x.re); }
};

// The same from any type that an element may have.
template <class T, class S> __device__ inline T to(S x) {
    return To<T, typename Wide<S>::type>::of(wide(x));
}

#endif

#ifndef EINLOOM_DRAWS
#define EINLOOM_DRAWS

// Numbers from words, in the order of operations of the CPU's, each rounded by itself: no product and sum
// may become one operation, hence the intrinsics.

__device__ inline double sum(double x, double y) { return __dadd_rn(x, y); }
__device__ inline double product(double x, double y) { return __dmul_rn(x, y); }

// value + z * p
__device__ inline double horner(double value, double z, double p) { return sum(value, product(z, p)); }

__device__ inline double below_one64(Words w) {
    return sum(product(w.b, 2.3283064365386963e-10), product(w.a >> 11, 1.1102230246251565e-16));
}
__device__ inline float below_one32(unsigned w) { return (float)(w >> 8) * 5.9604644775390625e-8f; }

// sqrt(-2 ln x) for 0 < x <= 1: x = m 2**e with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m - 1)/(m + 1)).
__device__ inline double radius(double x) {
    long long bits = __double_as_longlong(x);
    const long long e = ((bits + (0x3FF0000000000000ll - 0x3FE6A09E667F3BCDll)) >> 52) - 1023;
    const double m = __longlong_as_double(bits - e * 0x10000000000000ll);
    const double s = __ddiv_rn(sum(m, -1.0), sum(m, 1.0));
    const double z = product(s, s);
    double p = horner(0.15312407327532816, z, 0.14810973380600034);
    p = horner(0.18183636193523078, z, p);
    p = horner(0.22222196973714656, z, p);
    p = horner(0.2857142876141885, z, p);
    p = horner(0.3999999999929891, z, p);
    p = horner(0.6666666666666765, z, p);
    p = horner(2.0, z, p);
    return __dsqrt_rn(product(-2.0, sum(product((double)(int)e, 0.6931471805599453), product(s, p))));
}

// cos and sin of 2 pi (quarter/4 + f) for |f| <= 1/8.
__device__ inline void on_circle(unsigned quarter, double f, double* left, double* up) {
    const double x = product(f, f);
    double s = horner(-15.093804209987114, x, 3.7808689593022957);
    s = horner(42.058685020160894, x, s);
    s = horner(-76.70585970427454, x, s);
    s = horner(81.60524927594804, x, s);
    s = horner(-41.341702240399634, x, s);
    s = product(f, horner(6.283185307179586, x, s));
    double c = sum(7.903091687751697, -product(x, 1.6968494702918826));
    c = horner(-26.426250908622137, x, c);
    c = horner(60.244641328867296, x, c);
    c = horner(-85.45681720652271, x, c);
    c = horner(64.93939402266795, x, c);
    c = horner(-19.739208802178716, x, c);
    c = horner(1.0, x, c);
    const bool odd = quarter & 1u;
    *left = product(1.0 - (double)((quarter + 1u) & 2u), odd ? s : c);
    *up = product(1.0 - (double)(quarter & 2u), odd ? c : s);
}

__device__ inline double rest_of(unsigned turned) {
    return product((double)((int)(turned & 0x3FFFFFFFu) - (1 << 29)), 2.3283064365386963e-10);
}

// Two normal numbers from the 64 bits of a place, in single precision.
__device__ inline void normals(const unsigned* key, unsigned long long place, float* x, float* y) {
    const Words w = words_at(key, place, 0);
    const double r = radius(product(sum(w.a, 1.0), 2.3283064365386963e-10));
    const unsigned turned = w.b + (1u << 29);
    double left, up;
    on_circle(turned >> 30, rest_of(turned), &left, &up);
    *x = (float)product(r, left);
    *y = (float)product(r, up);
}

// From 128 bits, in double precision.
__device__ inline void normals(const unsigned* key, unsigned long long place, double* x, double* y) {
    const Words w = words_at(key, place, 0), v = words_at(key, place, 1);
    const double bits = sum(sum(product(w.b, 4294967296.0), w.a), 1.0);
    const double r = radius(product(bits, 5.421010862427522e-20));
    const unsigned turned = v.b + (1u << 29);
    double left, up;
    on_circle(turned >> 30, sum(rest_of(turned), product(v.a, 5.421010862427522e-20)), &left, &up);
    *x = product(r, left);
    *y = product(r, up);
}

__device__ inline void uniforms(const unsigned* key, unsigned long long place, float* x, float* y) {
    const Words w = words_at(key, place, 0);
    *x = below_one32(w.a);
    *y = below_one32(w.b);
}

__device__ inline void bits(const unsigned* key, unsigned long long place, unsigned* x, unsigned* y) {
    const Words w = words_at(key, place, 0);
    *x = w.a;
    *y = w.b;
}

#endif

#ifndef EINLOOM_TRIDIAGONAL
#define EINLOOM_TRIDIAGONAL

// Hermitian matrices of order N, a row in each of LANES lanes of a warp (a power of two; other matrices have the
// rest of the warp): first real and tridiagonal, by reflectors from both sides, then diagonal. All lanes of a
// warp pass the same meetings and shuffles. Elements are at most about 1, to which whoever calls has scaled them,
// so that squares of all that counts beside the largest are in range.
//
// `slots` are vectors in shared memory, WIDTH elements from one to the next: LANES of them belong to this
// matrix, to the others of the warp what is beside them, so that no two lanes meet in a bank.
const int WIDTH = 32;

// Squares below it are those of nothing, beside elements of about 1; and the relative spacing of numbers.
template <class R> struct Small;
template <> struct Small<float> {
    static __device__ float square() { return 1e-30f; }
    static __device__ float eps() { return 1.1920929e-7f; }
};
template <> struct Small<double> {
    static __device__ double square() { return 1e-280; }
    static __device__ double eps() { return 2.220446049250313e-16; }
};

// One step of Newton's takes what the card's own approximation is short of.
__device__ inline float reciprocal_root(float x) {
    const float y = ::rsqrtf(x);
    return ::fma(0.5f * y, ::fma(-x * y, y, 1.0f), y);
}
__device__ inline double reciprocal_root(double x) { return ::rsqrt(x); }

template <class T> __device__ inline T plus_fused(T x, T y, T z) { return less_fused(x, op::negate(y), z); }
template <class T> __device__ inline T square_of(T x) { return x * x; }
template <class T> __device__ inline T square_of(Complex<T> x) { return ::fma(x.re, x.re, x.im * x.im); }
template <class T> __device__ inline unsigned word_of(T x) { return Words<T>::of(::fabs(x)); }
template <class T> __device__ inline unsigned word_of(Complex<T> x) {
    const unsigned re = word_of(x.re), im = word_of(x.im);
    return re > im ? re : im;
}
// Of numbers with this word or one above it: infinity and NaN.
template <class R> __device__ inline unsigned infinite_word() {
    return sizeof(R) == 4 ? 0x7f800000u : 0x7ff00000u;
}

// The sum over a matrix's lanes, to the last bit the same in all of them; the least and the largest.
template <int LANES, class R> __device__ inline R sum_of_lanes(R x) {
#pragma unroll
    for (int apart = LANES / 2; apart; apart /= 2) x += __shfl_xor_sync(WARP, x, apart, LANES);
    return x;
}
template <int LANES, class R> __device__ inline R least_of_lanes(R x) {
#pragma unroll
    for (int apart = LANES / 2; apart; apart /= 2) x = ::fmin(x, __shfl_xor_sync(WARP, x, apart, LANES));
    return x;
}

// The bits of a warp's vote that are those of this matrix.
template <int LANES> __device__ inline unsigned votes_of_lanes(bool x) {
    const unsigned all = __ballot_sync(WARP, x);
    if constexpr (LANES == WIDTH) return all;
    const unsigned first = (threadIdx.y * LANES) % WIDTH;
    return all >> first & ((1u << LANES % WIDTH) - 1u);
}

// As many elements as one load takes.
template <int LANES, class T> struct Several {
    static const int MOST = 16 / sizeof(T), EACH = MOST < LANES ? MOST : LANES;
    struct alignas(EACH * sizeof(T)) Pack {
        T x[EACH];
    };
    static __device__ Pack at(const T* vector, int k) { return *(const Pack*)(vector + k); }
};

// 1 - tau v v^H, the adjoint of which takes (alpha, rest) to (beta, 0) with beta real; v is 1 where alpha is, and
// `by` times what the rest is. A rest whose squares are out of range is none.
template <class T> struct Reflector {
    typename Real<T>::type beta;
    T tau, by;
};
template <class T> __device__ inline Reflector<T> reflector(T alpha, T rest) {
    if (!(rest >= Small<T>::square())) return {alpha, (T)0, (T)0};
    const T total = ::fma(alpha, alpha, rest), inverse = reciprocal_root(total), size = ::fabs(alpha);
    const T root = total * inverse, by = (T)1 / (size + root);
    return {alpha < 0 ? root : -root, ::fma(size, inverse, (T)1), alpha < 0 ? -by : by};
}
template <class T> __device__ inline Reflector<Complex<T>> reflector(Complex<T> alpha, T rest) {
    const bool any = rest >= Small<T>::square();
    const T size = ::fabs(alpha.re), turned = alpha.im * alpha.im;
    if (!any && !(turned >= Small<T>::square())) return {alpha.re, {(T)0, (T)0}, {(T)0, (T)0}};
    const T total = ::fma(alpha.re, alpha.re, any ? turned + rest : turned);
    const T inverse = reciprocal_root(total), root = total * inverse, sign = alpha.re < 0 ? -1 : 1;
    const T re = size + root, of_by = any ? (T)1 / ::fma(re, re, turned) : (T)0;
    return {-sign * root,
            {::fma(size, inverse, (T)1), sign * alpha.im * inverse},
            {sign * re * of_by, -alpha.im * of_by}};
}

// What a lane has of T = Q^H A Q with Q the product of the reflectors: of its own row the diagonal element, the
// one below it, and the reflector's tau.
template <int N, int LANES, bool VECTORS, class T>
struct Tridiagonal {
    typedef typename Real<T>::type R;
    typedef Several<LANES, T> Read;
    static const int STEPS = 8;  // after which rows are taken for shorter

    R d, e;
    T tau;

    // a[t] is the element of column START + t: rows move to the left by one element with each step, so that
    // every index is known to the compiler without a text for each step. With VECTORS, v of step k stays in slot
    // k + 1; v and A v lie in shared memory from element k + 1 on, and 0 where they end.
    template <int START = 0>
    __device__ void reduce(T (&a)[N], T* slots, T* products, int lane) {
        const int LEFT = N - 1 - START, STOP = LEFT > STEPS ? START + STEPS : N - 1;
#pragma unroll 1
        for (int k = START; k < STOP; ++k) {
            T* const vector = slots + (VECTORS ? k + 1 : k % 2) * WIDTH;
            const int place = (lane - k - 1) & (LANES - 1);
            const T x = a[0];
            const T alpha = from_lane<LANES>(x, k + 1);
            const R rest = sum_of_lanes<LANES>(lane > k + 1 ? square_of(x) : (R)0);
            const Reflector<T> h = reflector(alpha, rest);
            T v = op::multiply(x, h.by), y[4];
            if (lane <= k + 1) v = to<T>((R)(lane == k + 1));
            if (lane == k) {
                d = op::real(x);
                e = h.beta;
                tau = h.tau;
            }
            vector[place] = v;
            __syncwarp();
#pragma unroll
            for (int t = 0; t < 4; ++t) y[t] = to<T>((R)0);
#pragma unroll
            for (int t = 0; t < LEFT; t += Read::EACH) {
                const typename Read::Pack read = Read::at(vector, t);
#pragma unroll
                for (int u = 0; u < Read::EACH; ++u)
                    if (t + u < LEFT) y[(t + u) % 4] = plus_fused(y[(t + u) % 4], a[t + u + 1], read.x[u]);
            }
            const T av = op::add(op::add(y[0], y[1]), op::add(y[2], y[3]));
            const T p = lane > k ? op::multiply(h.tau, av) : to<T>((R)0);
            products[place] = p;
            // A - v p^H - p v^H + |tau|^2 (v^H A v) v v^H
            const R form = sum_of_lanes<LANES>(op::real(op::multiply(op::conj(v), av)));
            const T q = less_fused(p, to<T>(form * square_of(h.tau)), v);
            __syncwarp();
#pragma unroll
            for (int t = 0; t < LEFT; t += Read::EACH) {
                const typename Read::Pack of_v = Read::at(vector, t), of_p = Read::at(products, t);
#pragma unroll
                for (int u = 0; u < Read::EACH; ++u)
                    if (t + u < LEFT)
                        a[t + u] = less_fused(less_fused(a[t + u + 1], v, op::conj(of_p.x[u])), q,
                                              op::conj(of_v.x[u]));
            }
            a[LEFT] = to<T>((R)0);
        }
        if constexpr (STOP < N - 1) {
            reduce<STOP>(a, slots, products, lane);
        } else if (lane >= N - 1) {
            d = op::real(a[0]);
            e = 0;
            tau = to<T>((R)0);
        }
    }

    // Q from what `reduce` left in the slots: column k in slot k, row i in lane i, at place lane ^ k, so that
    // neither rows nor columns meet in a bank. q is the lane's row from column START + 1 on.
    template <int START = 0>
    __device__ void form(T (&q)[N], T* slots, int lane) const {
        const int LEFT = N - 1 - START, STOP = LEFT > STEPS ? START + STEPS : N - 1;
        if constexpr (START == 0) {
#pragma unroll
            for (int t = 0; t < N; ++t) q[t] = to<T>((R)(t + 1 == lane));
            slots[lane] = to<T>((R)(lane == 0));
        }
#pragma unroll 1
        for (int k = START; k < STOP; ++k) {
            T* const vector = slots + (k + 1) * WIDTH;
            T y[4], first = to<T>((R)0);
#pragma unroll
            for (int t = 0; t < 4; ++t) y[t] = to<T>((R)0);
#pragma unroll
            for (int t = 0; t < LEFT; t += Read::EACH) {
                const typename Read::Pack read = Read::at(vector, t);
#pragma unroll
                for (int u = 0; u < Read::EACH; ++u)
                    if (t + u < LEFT) y[(t + u) % 4] = plus_fused(y[(t + u) % 4], q[t + u], read.x[u]);
            }
            const T qv = op::add(op::add(y[0], y[1]), op::add(y[2], y[3]));
            const T times = op::multiply(from_lane<LANES>(tau, k), qv);
#pragma unroll
            for (int t = 0; t < LEFT; t += Read::EACH) {
                const typename Read::Pack read = Read::at(vector, t);
#pragma unroll
                for (int u = 0; u < Read::EACH; ++u) {
                    if (t + u >= LEFT) continue;
                    const T left = less_fused(q[t + u], times, op::conj(read.x[u]));
                    if (t + u) q[t + u - 1] = left;
                    else first = left;
                }
            }
            __syncwarp();
            vector[lane ^ (k + 1)] = first;
        }
        if constexpr (STOP < N - 1) form<STOP>(q, slots, lane);
    }

    // The eigenvalue that `lane` others are below, by bisection: how many are below x is how often the leading
    // minors of T - x change their sign. Products instead of quotients, since nothing of a step but one product
    // and sum waits for the step before; they are scaled before they leave the range, to which it is enough that no
    // element beside the diagonal is less than a small part of the spacing at the largest eigenvalue.
    __device__ R bisect(int lane) const {
        const int EVERY = sizeof(R) == 4 ? 4 : 16, HALVINGS = sizeof(R) == 4 ? 27 : 56;
        const R before = ::fabs(from_lane<LANES>(e, lane - 1)), radius = ::fabs(e) + before;
        R low = least_of_lanes<LANES>(lane < N ? d - radius : (R)1e30);
        R high = -least_of_lanes<LANES>(lane < N ? -d - radius : (R)1e30);
        const R bound = ::fmax(::fabs(low), ::fabs(high)), floor = bound * Small<R>::eps() / 16;
        low -= 2 * Small<R>::eps() * bound;
        high += 2 * Small<R>::eps() * bound;
        R on[N], off[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const R x = ::fmax(::fabs(from_lane<LANES>(e, i)), floor);
            on[i] = from_lane<LANES>(d, i);
            off[i] = x * x;
        }
#pragma unroll 1
        for (int halving = 0; halving < HALVINGS; ++halving) {
            const R x = (low + high) / 2;
            R before_last = 1, last = on[0] - x;
            int below = (int)(Words<R>::of(last) >> 31);
#pragma unroll
            for (int i = 1; i < N; ++i) {
                const R next = ::fma(on[i] - x, last, -(off[i - 1] * before_last));
                below += (int)((Words<R>::of(next) ^ Words<R>::of(last)) >> 31);
                before_last = last;
                last = next;
                if (i % EVERY == 0) {
                    const unsigned one = word_of(last), other = word_of(before_last);
                    const R scale = Words<R>::scale(one > other ? one : other);
                    last *= scale;
                    before_last *= scale;
                }
            }
            if (below > lane) high = x;
            else low = x;
        }
        const R found = (low + high) / 2;
        // no rounding for what is diagonal already
        const bool diagonal = !votes_of_lanes<LANES>(::fabs(e) > floor);
        if (!__any_sync(WARP, diagonal)) return found;
        const R own = from_lane<LANES>(d, order_of(rank_of(lane), lane));
        return diagonal ? own : found;
    }

    // How many eigenvalues come before that of this lane, once T is diagonal.
    __device__ int rank_of(int lane) const {
        int rank = 0;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const R other = from_lane<LANES>(d, j);
            rank += other < d || (other == d && j < lane);
        }
        return rank;
    }

    // The lane whose rank is `lane`.
    __device__ int order_of(int rank, int lane) const {
        int order = 0;
#pragma unroll
        for (int j = 0; j < N; ++j)
            if (__shfl_sync(WARP, rank, j, LANES) == lane) order = j;
        return order;
    }

    // QL with implicit shifts: T becomes diagonal, the columns in the slots go along. Matrices of a warp make their
    // sweeps side by side, each from where its own block ends; the scalars of a sweep are computed by all lanes
    // alike. The first shift for a row is the eigenvalue that `known` of its lane says, as long as T has not come
    // apart, after that Wilkinson's: of dense matrices this takes a third of the sweeps away, and what a shift is
    // takes nothing from stability. Returns whether it did not converge.
    __device__ bool diagonalise(T* slots, R known, int lane) {
        const R eps = Small<R>::eps() / 2, least = Small<R>::square();
        bool open = true;
        int tried = -1;
#pragma unroll 1
        for (int sweep = 0; sweep <= 30 * N; ++sweep) {
            const R next_d = from_lane<LANES>(d, lane + 1);
            const unsigned coupled = votes_of_lanes<LANES>(
                lane < N - 1 && e * e > ::fma(eps * ::fabs(d), eps * ::fabs(next_d), least));
            open = coupled != 0;
            const int low = open ? __ffs(coupled) - 1 : 0;
            const int high = open ? low + __ffs(~(coupled >> low)) - 1 : 0;
            const int length = high - low;
            int longest = length;
#pragma unroll
            for (int apart = LANES; apart < WIDTH; apart *= 2) {
                const int other = __shfl_xor_sync(WARP, longest, apart);
                longest = other > longest ? other : longest;
            }
            if (!longest) return false;
            if (sweep == 30 * N) break;
            const R first = from_lane<LANES>(d, low), beside = from_lane<LANES>(e, low);
            const R half = (from_lane<LANES>(d, low + 1) - first) / 2;
            const R root = ::sqrt(::fma(half, half, beside * beside));
            R upper = from_lane<LANES>(d, high);
            R shift = first - beside * beside / (half < 0 ? half - root : half + root);
            const R exact = from_lane<LANES>(known, low);
            if (high == N - 1 && length > 1 && tried < low) {
                shift = exact;
                tried = low;
            }
            R g = upper - shift;
            R s = 1, c = 1, p = 0;
            R here = from_lane<LANES>(d, high - 1), off = from_lane<LANES>(e, high - 1);
            T held = slots[high * WIDTH + (lane ^ high)];
#pragma unroll 1
            for (int step = 0; step < longest; ++step) {
                const bool mine = step < length;
                const int i = mine ? high - 1 - step : 0;
                // what the next step takes, in time
                const R lower = from_lane<LANES>(d, i - 1), next_off = from_lane<LANES>(e, i - 1);
                const T column = slots[i * WIDTH + (lane ^ i)];
                const R f = s * off, b = c * off, total = ::fma(g, g, f * f);
                const bool any = total >= least;
                const R inverse = reciprocal_root(total), r = any ? total * inverse : (R)0;
                s = any ? f * inverse : (R)0;
                c = any ? g * inverse : (R)1;
                g = upper - p;
                const R t = ::fma(here - g, s, 2 * c * b);
                p = s * t;
                if (mine && lane == i + 1) {
                    d = g + p;
                    e = r;
                }
                g = ::fma(c, t, -b);
                if (mine) {
                    slots[(i + 1) * WIDTH + (lane ^ (i + 1))] =
                        plus_fused(scaled(held, c), to<T>(s), column);
                    held = less_fused(scaled(column, c), to<T>(s), held);
                    if (step == length - 1) {
                        slots[i * WIDTH + (lane ^ i)] = held;
                        if (lane == i) {
                            d -= p;
                            e = g;
                        }
                        if (lane == high) e = 0;
                    }
                }
                upper = here;
                here = lower;
                off = next_off;
            }
        }
        return open;
    }
};

#endif

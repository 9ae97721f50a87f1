#ifndef EINLOOM_HOUSEHOLDER
#define EINLOOM_HOUSEHOLDER

// QR by reflectors 1 - tau v v^H with v[0] = 1, which LAPACK's larfg would make: a = h_0 h_1 ... r, and r has a
// real diagonal of either sign. Columns lie in shared memory, `pitch` elements apart. Every team of a matrix
// finds the reflector of a column for itself, to the last bit the same, so that a step has one meeting; it then
// reflects columns of its own. SHORT: a lane has no more than HELD entries of a column, which stay in
// registers; of longer ones v is read from where it lies.

const int TOGETHER = 2;  // columns that a team reflects at once: sums are short, and wait for each other

template <class Batch, int ARRAYS, class Index>
struct Factored {
    Batch batch;
    Index row[ARRAYS], column[ARRAYS];
    Index m, n, of_q, of_r;  // columns of q, rows of r
    Index pitch, columns;    // columns: as many as there is room for
};

// Sums of squares between `low` and its reciprocal have lost nothing that counts: where some square vanished,
// or one overflowed, the sum is outside. Beyond, a column is scaled, by no more than 2**exponent either way: the
// inverse of that is in range, and subnormal numbers come near enough to 1.
template <class R> struct Safe;
template <> struct Safe<float> {
    static const int exponent = 120;
    static __device__ float low() { return 1e-28f; }
};
template <> struct Safe<double> {
    static const int exponent = 1000;
    static __device__ double low() { return 1e-270; }
};

template <class R> __device__ inline R imaginary(R x) { return 0; }
template <class R> __device__ inline R imaginary(Complex<R> x) { return x.im; }
template <class R> __device__ inline R part_of(R re, R im, R*) { return re; }
template <class R> __device__ inline Complex<R> part_of(R re, R im, Complex<R>*) { return {re, im}; }

// Of the reflector of a column x: v[i] = x[i] * power * inverse for i > 0; beta is what becomes of x[0].
template <class T> struct Reflector {
    typename Real<T>::type power, beta;
    T tau, inverse;
};

// v: x beyond its first entry, where SHORT.
template <bool IN_WARP, int TEAM, int HELD, bool SHORT, class T>
__device__ inline Reflector<T> reflector(const T* x, int left, T (&v)[HELD]) {
    typedef typename Real<T>::type R;
    const int lane = threadIdx.x % TEAM;
    const T zero = to<T>((R)0);
    R square = 0;
    if constexpr (SHORT) {
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = lane + k * TEAM;
            v[k] = i && i < left ? x[i] : zero;
            square = plus_square(square, v[k]);
        }
    } else {
        for (int i = lane; i < left; i += TEAM)
            if (i) square = plus_square(square, x[i]);
    }
    square = team_sum<TEAM>(square);
    T alpha = x[0];
    R total = plus_square(square, alpha), power = 1, inverse_power = 1;
    const R low = Safe<R>::low();
    const bool plain = square > low && total < 1 / low;  // not where it is NaN
    bool nothing = false, finite = true, apart = !plain;
    if constexpr (IN_WARP) apart = __any_sync(ALL, apart);  // shuffles are for all; a block is one matrix
    if (apart) {
        R size = 0;
        if constexpr (SHORT) {
#pragma unroll
            for (int k = 0; k < HELD; ++k) size = joined<true>(size, widest(v[k]));
        } else {
            for (int i = lane; i < left; i += TEAM)
                if (i) size = joined<true>(size, widest(x[i]));
        }
        for (int step = TEAM / 2; step; step /= 2) size = joined<true>(size, other_lane(size, step));
        const R largest = joined<true>(size, widest(alpha));
        finite = total == total && largest - largest == 0;
        nothing = finite && size == 0 && imaginary(alpha) == 0;
        int exponent = 0;
        if (!plain && finite && largest != 0) ::frexp(largest, &exponent);
        const int most = Safe<R>::exponent;
        exponent = exponent > most ? most : exponent < -most ? -most : exponent;
        power = ::ldexp((R)1, -exponent);
        inverse_power = ::ldexp((R)1, exponent);
        R again = 0;
        if constexpr (SHORT) {
#pragma unroll
            for (int k = 0; k < HELD; ++k) again = plus_square(again, times(v[k], power));
        } else {
            for (int i = lane; i < left; i += TEAM)
                if (i) again = plus_square(again, times(x[i], power));
        }
        again = team_sum<TEAM>(again);
        if (!plain) {
            alpha = times(alpha, power);
            total = plus_square(again, alpha);
        }
    }
    if (nothing) return {(R)1, op::real(x[0]), zero, zero};
    const R norm = finite ? ::sqrt(total) : (R)0 / (total - total);  // infinite entries: NaN as well
    const R beta = -::copysign(norm, op::real(alpha));
    const T tau = part_of((beta - op::real(alpha)) / beta, -imaginary(alpha) / beta, (T*)0);
    return {power, beta * inverse_power, tau, op::reciprocal(op::subtract(alpha, to<T>(beta)))};
}

// y becomes (1 - tau v v^H) y, for `count` columns TEAMS apart, the first of which this team has at `y` if
// `there`, and so on.
template <int COUNT, int TEAM, int HELD, bool SHORT, class T>
__device__ inline void reflect_some(const T* x, const T (&v)[HELD], T tau, int left, T* first, int pitch,
                                    int column, int count) {
    typedef typename Real<T>::type R;
    const int lane = threadIdx.x % TEAM, teams = blockDim.x / TEAM;
    const T zero = to<T>((R)0), one = to<T>((R)1);
    T *y[COUNT], sum[COUNT];
    bool there[COUNT];
#pragma unroll
    for (int c = 0; c < COUNT; ++c) {
        there[c] = column + c * teams < count;
        y[c] = first + (there[c] ? column + c * teams : 0) * pitch;
        sum[c] = zero;
    }
    if constexpr (SHORT) {
        T held[COUNT][HELD];
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = lane + k * TEAM;
#pragma unroll
            for (int c = 0; c < COUNT; ++c) {
                held[c][k] = there[c] && i < left ? y[c][i] : zero;
                sum[c] = plus_inner(sum[c], v[k], held[c][k]);
            }
        }
#pragma unroll
        for (int c = 0; c < COUNT; ++c) sum[c] = op::negate(op::multiply(tau, team_sum<TEAM>(sum[c])));
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = lane + k * TEAM;
#pragma unroll
            for (int c = 0; c < COUNT; ++c)
                if (there[c] && i < left) y[c][i] = plus_product(held[c][k], v[k], sum[c]);
        }
    } else {
        for (int i = lane; i < left; i += TEAM) {
            const T of_v = i ? x[i] : one;
#pragma unroll
            for (int c = 0; c < COUNT; ++c)
                if (there[c]) sum[c] = plus_inner(sum[c], of_v, y[c][i]);
        }
#pragma unroll
        for (int c = 0; c < COUNT; ++c) sum[c] = op::negate(op::multiply(tau, team_sum<TEAM>(sum[c])));
        for (int i = lane; i < left; i += TEAM) {
            const T of_v = i ? x[i] : one;
#pragma unroll
            for (int c = 0; c < COUNT; ++c)
                if (there[c]) y[c][i] = plus_product(y[c][i], of_v, sum[c]);
        }
    }
}

// The same of `count` columns from `first` on; v is x but for its first entry, which is 1, or is held.
template <int TEAM, int HELD, bool SHORT, class T>
__device__ inline void reflect(const T* x, const T (&v)[HELD], T tau, int left, T* first, int pitch, int count) {
    const int team = threadIdx.x / TEAM, teams = blockDim.x / TEAM;
    for (int base = 0; base < count; base += TOGETHER * teams) {  // as many rounds for all lanes of a warp
        if (base + teams < count)
            reflect_some<TOGETHER, TEAM, HELD, SHORT>(x, v, tau, left, first, pitch, base + team, count);
        else
            reflect_some<1, TEAM, HELD, SHORT>(x, v, tau, left, first, pitch, base + team, count);
    }
}

// a becomes r on and above the diagonal, and below it the reflectors, whose tau are `taus`.
template <bool IN_WARP, int TEAM, int HELD, bool SHORT, class T>
__device__ void triangularise(T* a, int pitch, int m, int n, T* taus) {
    typedef typename Real<T>::type R;
    const int lane = threadIdx.x % TEAM, team = threadIdx.x / TEAM, steps = m < n ? m : n;
    for (int k = 0; k < steps; ++k) {
        T* const x = a + k * pitch + k;
        const int left = m - k;
        T v[HELD];
        const Reflector<T> h = reflector<IN_WARP, TEAM, HELD, SHORT>(x, left, v);
        if constexpr (SHORT) {
#pragma unroll
            for (int e = 0; e < HELD; ++e)
                v[e] = lane + e * TEAM ? op::multiply(times(v[e], h.power), h.inverse) : to<T>((R)1);
        } else {
            meet<IN_WARP>();  // all have read it
            for (int i = threadIdx.x + 1; i < left; i += blockDim.x)
                x[i] = op::multiply(times(x[i], h.power), h.inverse);
            meet<IN_WARP>();
        }
        reflect<TEAM, HELD, SHORT>(x, v, op::conj(h.tau), left, x + pitch, pitch, n - k - 1);
        meet<IN_WARP>();
        if (team == 0) {  // nobody reads this column before all steps are done
            if constexpr (SHORT) {
#pragma unroll
                for (int e = 0; e < HELD; ++e) {
                    const int i = lane + e * TEAM;
                    if (i && i < left) x[i] = v[e];
                }
            }
            if (lane == 0) {
                x[0] = to<T>(h.beta);
                taus[k] = h.tau;
            }
        }
    }
    meet<IN_WARP>();
}

// The first `columns` columns of the product of the reflectors, from the last one on, in their place.
template <bool IN_WARP, int TEAM, int HELD, bool SHORT, class T>
__device__ void unroll(T* a, int pitch, int m, int steps, int columns, const T* taus) {
    typedef typename Real<T>::type R;
    const int lane = threadIdx.x % TEAM, team = threadIdx.x / TEAM;
    const T zero = to<T>((R)0), one = to<T>((R)1);
    for (int j = team; j < columns; j += blockDim.x / TEAM) {  // columns of the identity, but for what is v
        const int rows = j < steps ? j : m;
        for (int i = lane; i < rows; i += TEAM) a[j * pitch + i] = i == j ? one : zero;
    }
    meet<IN_WARP>();
    for (int k = steps - 1; k >= 0; --k) {
        T* const x = a + k * pitch + k;
        const int left = m - k;
        const T tau = taus[k];
        T v[HELD];
        if constexpr (SHORT) {
#pragma unroll
            for (int e = 0; e < HELD; ++e) {
                const int i = lane + e * TEAM;
                v[e] = i == 0 ? one : i < left ? x[i] : zero;
            }
        }
        reflect<TEAM, HELD, SHORT>(x, v, tau, left, x + pitch, pitch, columns - k - 1);
        meet<IN_WARP>();
        const T minus = op::negate(tau);
        if (team == 0) {  // the team whose turn this column is in the next step, in the order of other rows
            if constexpr (SHORT) {
#pragma unroll
                for (int e = 0; e < HELD; ++e) {
                    const int i = lane + e * TEAM;
                    if (i < left) x[i] = i ? op::multiply(v[e], minus) : op::add(one, minus);
                }
            } else {
                for (int i = lane; i < left; i += TEAM) x[i] = i ? op::multiply(x[i], minus) : op::add(one, minus);
            }
        }
        __syncwarp();
    }
    meet<IN_WARP>();
}

// The elements of a matrix that are this lane's turn, in the order in which they lie in memory.
struct Walk {
    bool by_row;
    int inner, outer, here, at, step, steps;

    template <class Index>
    __device__ Walk(int lane, int lanes, int m, int n, Index row, Index column) {
        by_row = (row < 0 ? -row : row) >= (column < 0 ? -column : column);
        inner = by_row ? n : m;
        outer = by_row ? m : n;
        at = lane / inner;
        here = lane - at * inner;
        steps = lanes / inner;
        step = lanes - steps * inner;
    }
    __device__ bool left() const { return at < outer; }
    __device__ void next() {
        here += step;
        at += steps;
        if (here >= inner) {
            here -= inner;
            ++at;
        }
    }
    __device__ int i() const { return by_row ? at : here; }
    __device__ int j() const { return by_row ? here : at; }
};

#endif

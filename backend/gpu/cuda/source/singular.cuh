#ifndef EINLOOM_SINGULAR
#define EINLOOM_SINGULAR

// Singular values by rotating vectors until they are orthogonal. A team (teams.cuh) turns a pair of vectors; the
// teams of a matrix work side by side.

const int MOST_SWEEPS = 60;  // seven to ten are usual; steeply graded rows have needed thirty

// Vectors as they lie in memory: `along` leads to the next entry, `across` to the next vector.
template <class Batch, int ARRAYS, class Index>
struct Vectors {
    Batch batch;
    Index along[ARRAYS], across[ARRAYS];
    Index length, count, swapped;  // swapped: they are rows, so that u and v change roles
    Index pitch, pitch_of_turns;   // from one vector to the next in shared memory
};

// The squared norm below which a vector counts as zero beside entries of about 1: the square of anything
// smaller would be no normal number with all its digits, and so would tests of orthogonality.
template <class T> struct Negligible;
template <> struct Negligible<float> { static __device__ float square() { return 1e-30f; } };
template <> struct Negligible<double> { static __device__ double square() { return 1e-280; } };

__device__ inline float inverse_root(float x) { return 1 / ::sqrt(x); }
__device__ inline double inverse_root(double x) { return ::rsqrt(x); }

// x becomes c x - conj(s) y, y becomes s x + c y. They are orthogonal then; the squared norm of one grows by
// what that of the other loses, and the larger one grows.
template <class T> struct Turn {
    typename Real<T>::type c;
    T s;
    bool wanted;
};

// From |x|^2, |y|^2 and x^H y. In terms of the cosine g = x^H y / (|x| |y|) and d = (|y|^2 - |x|^2) / (|x| |y|)
// the tangent is 2 g sign(d) / (|d| + sqrt(d^2 + 4 |g|^2)): no step divides by g or overflows.
template <class T>
__device__ inline Turn<T> turn_of(typename Real<T>::type xx, typename Real<T>::type yy, T xy,
                                  typename Real<T>::type tolerance) {
    typedef typename Real<T>::type R;
    const R least = Negligible<R>::square();
    if (!(xx > least && yy > least)) return {(R)1, to<T>(0), false};
    const R of_x = inverse_root(xx), of_y = inverse_root(yy);
    const T g = times(times(xy, of_x), of_y);
    const R size = plus_square((R)0, g);
    if (!(size > tolerance * tolerance)) return {(R)1, to<T>(0), false};
    const R d = (yy - xx) * of_x * of_y;
    const R below = ::fabs(d) + ::sqrt(::fma(d, d, 4 * size));
    const T t = times(g, (d < 0 ? (R)-2 : (R)2) / below);
    const R c = inverse_root(plus_square((R)1, t));
    return {c, times(t, c), true};
}

template <class T> __device__ inline void turned(Turn<T> turn, T* x, T* y) {
    const T a = *x, b = *y;
    *x = plus_product(times(a, turn.c), op::negate(op::conj(turn.s)), b);
    *y = plus_product(times(b, turn.c), turn.s, a);
}

// The entries of two vectors that are this lane's turn, HELD at a time: all are read before one is written.
template <int TEAM, int HELD, class T>
__device__ inline void turn_all(Turn<T> turn, T* x, T* y, int length, int step) {
    for (int first = threadIdx.x % TEAM; first < length; first += TEAM * HELD) {
        T a[HELD], b[HELD];
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = first + k * TEAM;
            if (i < length) {
                a[k] = x[i * step];
                b[k] = y[i * step];
            }
        }
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = first + k * TEAM;
            if (i < length) {
                turned(turn, &a[k], &b[k]);
                x[i * step] = a[k];
                y[i * step] = b[k];
            }
        }
    }
}

// One round of a sweep for one pair: vectors p and q of a, of v what belongs to them. SHORT: a lane has
// no more than HELD entries, which stay in registers. Returns whether they were turned. Lanes without a pair
// come along for the shuffles.
template <int TEAM, int HELD, bool SHORT, bool WITH_V, class T>
__device__ inline bool orthogonalise(T* x, T* y, T* v_x, T* v_y, bool on, int length, int of_v, int step_of_v,
                                     typename Real<T>::type tolerance) {
    typedef typename Real<T>::type R;
    const int lane = threadIdx.x % TEAM;
    R xx = 0, yy = 0;
    T xy = to<T>(0), a[HELD], b[HELD];
    for (int first = lane; first < length; first += TEAM * HELD) {
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = first + k * TEAM;
            const bool there = on && i < length;
            a[k] = there ? x[i] : to<T>(0);
            b[k] = there ? y[i] : to<T>(0);
        }
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            xx = plus_square(xx, a[k]);
            yy = plus_square(yy, b[k]);
            xy = plus_inner(xy, a[k], b[k]);
        }
        if constexpr (SHORT) break;
    }
    xx = team_sum<TEAM>(xx);
    yy = team_sum<TEAM>(yy);
    xy = team_sum<TEAM>(xy);
    const Turn<T> turn = turn_of(xx, yy, xy, tolerance);
    if (!turn.wanted) return false;
    if constexpr (SHORT) {
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = lane + k * TEAM;
            if (i < length) {
                turned(turn, &a[k], &b[k]);
                x[i] = a[k];
                y[i] = b[k];
            }
        }
    } else {
        turn_all<TEAM, HELD>(turn, x, y, length, 1);
    }
    if constexpr (WITH_V) turn_all<TEAM, HELD>(turn, v_x, v_y, of_v, step_of_v);
    return true;
}

// Rounds of disjoint pairs in which every two vectors meet once (a tournament; an absent vector makes its
// partner pause), until a sweep turns nothing. Returns whether this matrix was not done at the end.
template <bool IN_WARP, int TEAM, int HELD, bool SHORT, bool WITH_V, class T>
__device__ bool orthogonalise_all(T* a, int pitch, T* v, int pitch_of_v, int step_of_v, int length, int count,
                                  typename Real<T>::type tolerance) {
    const int team = threadIdx.x / TEAM, teams = blockDim.x / TEAM;
    const int others = count - 1 + count % 2, pairs = (others + 1) / 2;  // others: rounds, an odd number
    bool left = count > 1;
    for (int sweep = 0; sweep < MOST_SWEEPS; ++sweep) {
        if (!some<IN_WARP>(left)) break;
        left = false;
        for (int round = 0; round < others; ++round) {
            for (int base = 0; base < pairs; base += teams) {
                const int pair = base + team;
                int p = pair ? round + pair : others, q = pair ? round + others - pair : round;
                if (pair && p >= others) p -= others;
                if (q >= others) q -= others;
                const bool on = pair < pairs && p < count && q < count;
                if (!on) p = q = 0;
                T *const x = a + p * pitch, *const y = a + q * pitch;
                T *const v_x = v + p * pitch_of_v, *const v_y = v + q * pitch_of_v;
                left |= orthogonalise<TEAM, HELD, SHORT, WITH_V>(x, y, v_x, v_y, on, length, count, step_of_v,
                                                                 tolerance);
            }
            meet<IN_WARP>();
        }
    }
    return left;
}

// Norms of all vectors, and the place of each among them, falling.
template <bool IN_WARP, int TEAM, class T, class R>
__device__ void measure(const T* a, int pitch, int length, int count, R* norms, int* ranks) {
    const int team = threadIdx.x / TEAM, teams = blockDim.x / TEAM, lane = threadIdx.x % TEAM;
    for (int base = 0; base < count; base += teams) {
        const int j = base + team;
        R square = 0;
        if (j < count)
            for (int i = lane; i < length; i += TEAM) square = plus_square(square, a[j * pitch + i]);
        square = team_sum<TEAM>(square);
        if (j < count && lane == 0) norms[j] = ::sqrt(square);
    }
    meet<IN_WARP>();
    for (int j = threadIdx.x; j < count; j += blockDim.x) {
        int rank = 0;
        for (int k = 0; k < count; ++k) rank += norms[k] > norms[j] || (norms[k] == norms[j] && k < j);
        ranks[j] = rank;
    }
    meet<IN_WARP>();
}

// Unit vectors from orthogonal ones. In place of one that is zero comes what Gram and Schmidt's method, twice,
// leaves of the unit vector that lies farthest from the others: its part outside their span has at least
// (length - others) / length of its square. `room` has `length` numbers, `parts` has `count`.
template <bool IN_WARP, class T, class R>
__device__ void normalise(T* a, int pitch, int length, int count, R* norms, R* room, T* parts) {
    const int lane = threadIdx.x, lanes = blockDim.x;
    const R least = ::sqrt(Negligible<R>::square());
    for (int e = lane; e < length * count; e += lanes) {
        const int j = e / length;
        T& x = a[j * pitch + e - j * length];
        x = norms[j] > least ? times(x, 1 / norms[j]) : to<T>(0);
    }
    bool lacking = false;
    for (int j = 0; j < count; ++j) lacking = lacking || !(norms[j] > least);
    if (!some<IN_WARP>(lacking)) {  // and a meeting
        meet<IN_WARP>();
        return;
    }
    meet<IN_WARP>();
    if (lacking)
        for (int i = lane; i < length; i += lanes) {
            R square = 0;
            for (int j = 0; j < count; ++j) square = plus_square(square, a[j * pitch + i]);
            room[i] = 1 - square;
        }
    meet<IN_WARP>();
    for (int made = 0; made < count; ++made) {
        const bool mine = !(norms[made] > least);
        if (!some<IN_WARP>(mine)) continue;
        T* const x = a + made * pitch;
        int best = 0;
        if (mine)
            for (int i = 1; i < length; ++i)
                if (room[i] > room[best]) best = i;
        if (mine)  // vectors that are still zero take nothing away
            for (int i = lane; i < length; i += lanes) {
                T sum = to<T>(i == best ? 1 : 0);
                for (int j = 0; j < count; ++j)
                    if (j != made)
                        sum = plus_product(sum, op::negate(a[j * pitch + i]), op::conj(a[j * pitch + best]));
                x[i] = sum;
            }
        meet<IN_WARP>();
        if (mine)
            for (int j = lane; j < count; j += lanes) {
                T sum = to<T>(0);
                for (int i = 0; i < length && j != made; ++i) sum = plus_inner(sum, a[j * pitch + i], x[i]);
                parts[j] = sum;
            }
        meet<IN_WARP>();
        if (mine)
            for (int i = lane; i < length; i += lanes) {
                T sum = x[i];
                for (int j = 0; j < count; ++j)
                    if (j != made) sum = plus_product(sum, op::negate(a[j * pitch + i]), parts[j]);
                x[i] = sum;
            }
        meet<IN_WARP>();
        R square = 0;
        if (mine)
            for (int i = 0; i < length; ++i) square = plus_square(square, x[i]);
        meet<IN_WARP>();
        if (mine)
            for (int i = lane; i < length; i += lanes) {
                x[i] = times(x[i], 1 / ::sqrt(square));
                room[i] -= plus_square((R)0, x[i]);
            }
        meet<IN_WARP>();
    }
}

// Whether the rows of a square matrix are nearer to orthogonal than its columns, and then transposes it. Both
// have the determinant's volume, which the product of the norms exceeds the more, the farther they are from
// orthogonal (Hadamard): with rows of very different sizes, columns take several times as many sweeps.
template <bool IN_WARP, class T, class R>
__device__ bool lay_down(T* a, int pitch, int order, R* scratch) {
    R excess = 0;  // logarithm of the columns' product less that of the rows'
    for (int j = threadIdx.x; j < order; j += blockDim.x) {
        R column = Negligible<R>::square(), row = column;
        for (int i = 0; i < order; ++i) {
            column = plus_square(column, a[j * pitch + i]);
            row = plus_square(row, a[i * pitch + j]);
        }
        excess += ::log(column) - ::log(row);
    }
    excess = over_all<IN_WARP, false>(excess, scratch);
    if (!some<IN_WARP>(excess > order)) return false;
    meet<IN_WARP>();
    for (int e = threadIdx.x; e < order * order && excess > order; e += blockDim.x) {
        const int j = e / order, i = e - j * order;
        if (i >= j) continue;
        const T x = a[j * pitch + i];
        a[j * pitch + i] = a[i * pitch + j];
        a[i * pitch + j] = x;
    }
    return excess > order;
}

// Element e of a matrix of vectors, in the order in which they lie in memory.
template <class Index>
__device__ inline void place(int e, int length, int count, Index along, Index across, int* i, int* j) {
    const bool by_entry = (along < 0 ? -along : along) <= (across < 0 ? -across : across);
    const int row = e / (by_entry ? length : count), rest = e - row * (by_entry ? length : count);
    *i = by_entry ? rest : row;
    *j = by_entry ? row : rest;
}

#endif

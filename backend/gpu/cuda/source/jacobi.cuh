#ifndef EINLOOM_JACOBI
#define EINLOOM_JACOBI

const int SWEEPS = 16;  // convergence is quadratic; six to ten are usual

// The rotation that makes the element h = r e^(i phi) beside the diagonal vanish: a column p becomes
// c p - conj(s) q, q becomes s p + c q, with s = sin e^(i phi).
template <class T>
struct Rotation {
    typename Real<T>::type c;
    T s;
};

// h / r, part by part: 1 / r may overflow.
template <class T> __device__ inline T direction(T h, T r) { return h / r; }
template <class T> __device__ inline Complex<T> direction(Complex<T> h, T r) {
    return {h.re / r, h.im / r};
}

template <class T>
__device__ inline Rotation<T> rotation(typename Real<T>::type alpha, typename Real<T>::type beta,
                                       T h) {
    typedef typename Real<T>::type R;
    const R r = op::absolute(h);
    if (r == 0) return {(R)1, to<T>(0)};
    const R tau = (beta - alpha) / (2 * r);
    const R t = (tau < 0 ? (R)-1 : (R)1) / (::fabs(tau) + ::hypot((R)1, tau));
    const R c = (R)1 / ::sqrt(1 + t * t);
    return {c, op::multiply(direction(h, r), to<T>(t * c))};
}

// Member `pair` of a round of N - 1 (N even) in which every two columns meet once in a sweep; rounds are
// those of a tournament. A column N - 1 that is not there makes its partner pause.
template <int EVEN>
__device__ inline void members(int round, int pair, int* p, int* q) {
    const int x = pair ? (round + pair) % (EVEN - 1) : EVEN - 1;
    const int y = pair ? (round + EVEN - 1 - pair) % (EVEN - 1) : round;
    *p = x < y ? x : y;
    *q = x < y ? y : x;
}

// Jacobi's method, rounds of disjoint rotations: a becomes diagonal, v has the eigenvectors as columns.
// `busy` says whether any matrix of the block is not done, so that all lanes pass the same barriers.
template <int N, class T>
__device__ int diagonalise(T (&a)[N][N + 1], T (&v)[N][N + 1], Rotation<T> (&turns)[(N + 1) / 2], int* busy,
                           typename Real<T>::type eps) {
    typedef typename Real<T>::type R;
    const int lane = threadIdx.x, EVEN = N + N % 2;
    if (lane < N) {
        for (int j = 0; j < N; ++j) v[lane][j] = to<T>(j == lane ? 1 : 0);
        a[lane][lane] = to<T>(op::real(a[lane][lane]));
    }
    for (int sweep = 0; sweep < SWEEPS && N > 1; ++sweep) {
        __syncthreads();
        if (threadIdx.x == 0 && threadIdx.y == 0) *busy = 0;
        __syncthreads();
        R off = 0, on = 0;
        for (int i = 0; i < N; ++i)
            for (int j = 0; j < N; ++j) {
                const R size = op::absolute(a[i][j]);
                if (i == j) on = size > on ? size : on;
                else off = size > off ? size : off;
            }
        if (off > eps * on) *busy = 1;  // whoever writes, writes the same
        __syncthreads();
        if (!*busy) return 0;
        for (int round = 0; round < EVEN - 1; ++round) {
            int p, q;
            if (lane < EVEN / 2) {
                members<EVEN>(round, lane, &p, &q);
                turns[lane] = q < N ? rotation<T>(op::real(a[p][p]), op::real(a[q][q]), a[p][q])
                                    : Rotation<T>{(R)1, to<T>(0)};
            }
            __syncthreads();
            for (int pair = 0; pair < EVEN / 2 && lane < N; ++pair) {  // columns, of row `lane`
                members<EVEN>(round, pair, &p, &q);
                if (q >= N) continue;
                const T c = to<T>(turns[pair].c), s = turns[pair].s;
                for (int both = 0; both < 2; ++both) {
                    T (&m)[N][N + 1] = both ? v : a;
                    const T x = m[lane][p], y = m[lane][q];
                    m[lane][p] = op::subtract(op::multiply(c, x), op::multiply(op::conj(s), y));
                    m[lane][q] = op::add(op::multiply(s, x), op::multiply(c, y));
                }
            }
            __syncthreads();
            for (int pair = 0; pair < EVEN / 2 && lane < N; ++pair) {  // rows, of column `lane`
                members<EVEN>(round, pair, &p, &q);
                if (q >= N) continue;
                const T c = to<T>(turns[pair].c), s = turns[pair].s;
                const T x = a[p][lane], y = a[q][lane];
                a[p][lane] = op::subtract(op::multiply(c, x), op::multiply(s, y));
                a[q][lane] = op::add(op::multiply(op::conj(s), x), op::multiply(c, y));
                // what the rotation made 0 but for rounding would be turned for ever
                if (lane == p) a[q][lane] = to<T>(0);
                if (lane == q) a[p][lane] = to<T>(0);
            }
            __syncthreads();
        }
    }
    return N > 1;
}

#endif

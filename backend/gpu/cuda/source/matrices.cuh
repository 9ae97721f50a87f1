#ifndef EINLOOM_MATRICES
#define EINLOOM_MATRICES

// Matrices of a batch, one for each row of threads of a block: lane i of a row works on row or column i.
// Every thread passes every barrier, those beyond the batch and beyond the order as well.
template <class Batch, int ARRAYS, class Index>
struct Matrices {
    Batch batch;
    Index row[ARRAYS], column[ARRAYS];
    Index columns;  // of right-hand sides
};

template <class T> __device__ inline T size_of(T x) { return ::fabs(x); }
template <class T> __device__ inline T size_of(Complex<T> x) { return ::fabs(x.re) + ::fabs(x.im); }

// x - y z
template <class T> __device__ inline T less_product(T x, T y, T z) {
    return op::subtract(x, op::multiply(y, z));
}

// P a = L U in place, the row with the largest element first; `pivots` says which row stands where, info
// is the first step, counted from 1, without a pivot, or 0. Ends behind a barrier.
template <int N, class T>
__device__ void factorise(T (&a)[N][N + 1], int (&pivots)[N], int* info) {
    const int lane = threadIdx.x;
    int failed = 0;
    if (lane < N) pivots[lane] = lane;
    for (int k = 0; k < N; ++k) {
        __syncthreads();
        int best = k;  // every lane finds the same
        for (int i = k + 1; i < N; ++i)
            if (size_of(a[i][k]) > size_of(a[best][k])) best = i;
        __syncthreads();
        if (lane < N && best != k) {
            const T other = a[k][lane];
            a[k][lane] = a[best][lane];
            a[best][lane] = other;
            if (lane == 0) {
                const int row = pivots[k];
                pivots[k] = pivots[best];
                pivots[best] = row;
            }
        }
        __syncthreads();
        const T pivot = a[k][k];
        if (size_of(pivot) == 0) {
            failed = failed ? failed : k + 1;
        } else if (lane > k && lane < N) {
            const T factor = op::divide(a[lane][k], pivot);
            a[lane][k] = factor;
            for (int j = k + 1; j < N; ++j) a[lane][j] = less_product(a[lane][j], factor, a[k][j]);
        }
    }
    *info = failed;
    __syncthreads();
}

// a = L L^H, L written over the lower triangle, zeros above; info is the first step, counted from 1, of
// which the pivot is not positive, or 0. Ends behind a barrier.
template <int N, class T>
__device__ void factorise_positive(T (&a)[N][N + 1], int* info) {
    typedef typename Real<T>::type R;
    const int lane = threadIdx.x;
    int failed = 0;
    for (int k = 0; k < N; ++k) {
        __syncthreads();
        const R pivot = op::real(a[k][k]);
        if (!(pivot > 0)) failed = failed ? failed : k + 1;
        const R root = ::sqrt(pivot);
        if (lane > k && lane < N) a[lane][k] = op::divide(a[lane][k], to<T>(root));
        __syncthreads();
        if (lane == k) a[k][k] = to<T>(root);
        if (lane > k && lane < N)
            for (int j = k + 1; j <= lane; ++j)
                a[lane][j] = less_product(a[lane][j], a[lane][k], op::conj(a[j][k]));
    }
    __syncthreads();
    if (lane < N)
        for (int j = lane + 1; j < N; ++j) a[lane][j] = to<T>(0);
    *info = failed;
    __syncthreads();
}

#endif

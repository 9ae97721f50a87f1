#ifndef EINLOOM_FINITE
#define EINLOOM_FINITE

template <class T> __device__ inline bool is_finite(T x) { return x - x == 0; }
template <class T> __device__ inline bool is_finite(Complex<T> x) { return is_finite(x.re) && is_finite(x.im); }

// Of a batch, with the elements of each counted row by row.
template <class Batch, class Index>
struct Matrix {
    Batch batch;
    Index columns, size, row, column;
};

struct Results {
    long long count, words;
};

#endif

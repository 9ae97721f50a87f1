#ifndef EINLOOM_REDUCTION
#define EINLOOM_REDUCTION

// One number for each kept element and each chunk of what is reduced. All orders are fixed by sizes:
// two launches give the same bits.
template <class Kept, class Reduced, class Index>
struct Reduction {
    Kept kept;
    Reduced reduced;
    Index chunks;
    Index length;   // of a chunk
    Index divisor;  // of a mean, else 1
};

const int REDUCTION_THREADS = 256;

#endif

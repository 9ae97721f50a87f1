#ifndef EINLOOM_GROUPED
#define EINLOOM_GROUPED

// A row of the table of targets: the number of its first element among all, its address, its columns,
// strides of rows and columns, and its first product. Behind the last row stands one more, for its ends.
enum { FIRST, OUT, COLUMNS, OUT_ROW, OUT_COLUMN, PRODUCT, TARGET };

// A row of the table of products: addresses of both matrices, the terms of a sum, and strides.
enum { LHS, RHS, TERMS, LHS_ROW, LHS_TERM, RHS_TERM, RHS_COLUMN, PAIR };

struct Grouped {
    long long elements, targets, reads;  // of all targets; how many; whether they are read
};

// The target that element i is of.
__device__ inline const long long* target_of(const long long* targets, long long count, long long i) {
    long long low = 0, high = count;
    while (high - low > 1) {
        const long long middle = (low + high) / 2;
        if (targets[middle * TARGET + FIRST] <= i) low = middle;
        else high = middle;
    }
    return targets + low * TARGET;
}

#endif

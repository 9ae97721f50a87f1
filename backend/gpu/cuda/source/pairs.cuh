#ifndef EINLOOM_PAIRS
#define EINLOOM_PAIRS

// Pairs of words, and the stride from the first to the other in each array.
template <class Axes, class Index>
struct Pairs {
    Axes axes;
    Index other[3];
};

struct Count {
    long long of;
};

#endif

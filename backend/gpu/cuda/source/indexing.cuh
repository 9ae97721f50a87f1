#ifndef EINLOOM_INDEXING
#define EINLOOM_INDEXING

// Entries of an index vector: entry k stands `place` elements behind the first, counts along an axis
// of `size` elements where `room` are places for a window to start, and moves it by `stride`.
template <int ENTRIES, class Index>
struct Entries {
    Index place[ENTRIES], size[ENTRIES], room[ENTRIES], stride[ENTRIES];
};

template <class Axes, int ENTRIES, class Index>
struct Indexed {
    Axes axes;
    Entries<ENTRIES, Index> entries;
    Index count;  // of entries; ENTRIES is at least 1
};

// The offset of a window that is moved to where it fits.
template <class Index, int ENTRIES, class I>
__device__ Index clamped(const Entries<ENTRIES, Index>& e, Index count, const I* indices) {
    Index at = 0;
    for (int k = 0; k < count; ++k) {
        const long long start = (long long)indices[e.place[k]];
        const long long last = (long long)e.room[k] - 1;
        at += (Index)(start < 0 ? 0 : (start > last ? last : start)) * e.stride[k];
    }
    return at;
}

// The offset where an index may count from the end; false if it is out of range.
template <class Index, int ENTRIES, class I>
__device__ bool wrapped(const Entries<ENTRIES, Index>& e, Index count, const I* indices, Index* at) {
    *at = 0;
    for (int k = 0; k < count; ++k) {
        long long start = (long long)indices[e.place[k]];
        if (start < 0) start += (long long)e.size[k];
        if (start < 0 || start >= (long long)e.size[k]) return false;
        *at += (Index)start * e.stride[k];
    }
    return true;
}

// The offset of a window, if it fits.
template <class Index, int ENTRIES, class I>
__device__ bool fitting(const Entries<ENTRIES, Index>& e, Index count, const I* indices, Index* at) {
    *at = 0;
    for (int k = 0; k < count; ++k) {
        const long long start = (long long)indices[e.place[k]];
        if (start < 0 || start >= (long long)e.room[k]) return false;
        *at += (Index)start * e.stride[k];
    }
    return true;
}

#endif

#ifndef EINLOOM_OUTER
#define EINLOOM_OUTER

// How an operand lies along the axis whose neighbours are written together.
const int APART = 0, SIDE_BY_SIDE = 1, ONE_NUMBER = 2;

// Neighbours that are read or written at once.
template <class T, int WIDTH>
struct alignas(WIDTH * sizeof(T)) Pack {
    T at[WIDTH];
};

template <int WIDTH, class T>
__device__ inline bool is_aligned(const T* place) {
    return ((unsigned long long)place & (sizeof(Pack<T, WIDTH>) - 1)) == 0;
}

// The groups of elements that a thread computes one of: a pack, and those that lie `step` further in the
// result and the operands, as long as the fourth number of a group and the steps of `size` stay below
// `limit`. What is behind the last pack of a result of one axis are `rest` elements from number `packed` on.
template <class Groups, class Index>
struct Outer {
    Groups groups;
    Index size, limit, step[3], along[2], packed, rest;
};

// What a thread holds of an operand: PARTS packs, one if all are the same, of WIDTH numbers or of one.
template <class T, class Index, int PARTS, int WIDTH, int LIES, bool IS_SAME>
struct Factor {
    T held[IS_SAME ? 1 : PARTS][LIES == ONE_NUMBER ? 1 : WIDTH];

    // Of the parts that are there: bits of `which`.
    __device__ void read(const T* first, Index step, Index along, unsigned which) {
#pragma unroll
        for (int part = 0; part < (IS_SAME ? 1 : PARTS); ++part) {
            if (!(which >> part & 1)) continue;
            const T* place = first + (Index)part * step;
            if (LIES == SIDE_BY_SIDE && is_aligned<WIDTH>(place)) {
                const Pack<T, WIDTH> pack = *(const Pack<T, WIDTH>*)place;
                for (int k = 0; k < WIDTH; ++k) held[part][LIES == ONE_NUMBER ? 0 : k] = pack.at[k];
            } else {
                for (int k = 0; k < (LIES == ONE_NUMBER ? 1 : WIDTH); ++k)
                    held[part][k] = place[(Index)k * along];
            }
        }
    }

    __device__ T operator()(int part, int k) const {
        return held[IS_SAME ? 0 : part][LIES == ONE_NUMBER ? 0 : k];
    }
};

template <int WIDTH, class T>
__device__ inline void write(T* place, const Pack<T, WIDTH>& pack) {
    if (is_aligned<WIDTH>(place)) {
        *(Pack<T, WIDTH>*)place = pack;
    } else {
        for (int k = 0; k < WIDTH; ++k) place[k] = pack.at[k];
    }
}

#endif

#ifndef EINLOOM_LAYOUT
#define EINLOOM_LAYOUT

// Axes that ARRAYS arrays walk together: element i, counted row-major, lies at offset i of each.
template <int RANK, int ARRAYS, class Index>
struct Layout {
    Index count;
    Index size[RANK];
    Index stride[ARRAYS][RANK];

    __device__ void offsets(Index i, Index (&at)[ARRAYS]) const {
        for (int k = 0; k < ARRAYS; ++k) at[k] = 0;
        for (int axis = RANK - 1; axis > 0; --axis) {
            const Index next = i / size[axis];
            const Index here = i - next * size[axis];
            for (int k = 0; k < ARRAYS; ++k) at[k] += here * stride[k][axis];
            i = next;
        }
        for (int k = 0; k < ARRAYS; ++k) at[k] += i * stride[k][0];
    }
};

template <class Index>
__device__ Index first_element() {
    return (Index)blockIdx.x * (Index)blockDim.x + (Index)threadIdx.x;
}

template <class Index>
__device__ Index next_element() {
    return (Index)gridDim.x * (Index)blockDim.x;
}

#endif

#ifndef EINLOOM_RELAY
#define EINLOOM_RELAY

// Copies of bytes between fixed places and others, whose addresses are arguments of the launch.

template <int N>
struct Places {
    char* at[N];
};

struct Chunk {
    long long which, start, bytes;
    char* fixed;
};

struct alignas(16) Sixteen {
    long long one, two;
};

template <class Word>
__device__ void words_copied(char* to, const char* from, long long bytes) {
    const long long size = sizeof(Word), words = bytes / size;
    for (long long i = threadIdx.x; i < words; i += blockDim.x) ((Word*)to)[i] = ((const Word*)from)[i];
    for (long long i = words * size + threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

// by one block, in the widest words that both addresses allow
__device__ inline void relay(char* to, const char* from, long long bytes) {
    const unsigned long long ends = (unsigned long long)to | (unsigned long long)from;
    if (ends % 16 == 0)
        words_copied<Sixteen>(to, from, bytes);
    else if (ends % 4 == 0)
        words_copied<int>(to, from, bytes);
    else
        words_copied<char>(to, from, bytes);
}

#endif

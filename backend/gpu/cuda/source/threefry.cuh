#ifndef EINLOOM_THREEFRY
#define EINLOOM_THREEFRY

// J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC11).

struct Words {
    unsigned a, b;
};

__device__ inline void mix(Words& x, int places) {
    x.a += x.b;
    x.b = ((x.b << places) | (x.b >> (32 - places))) ^ x.a;
}

// Threefry-2x32, 20 rounds.
__device__ inline Words threefry(Words key, Words x) {
    const unsigned keys[3] = {key.a, key.b, key.a ^ key.b ^ 0x1BD11BDAu};
    const int places[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    x.a += keys[0];
    x.b += keys[1];
    for (int group = 0; group < 5; ++group) {
        for (int round = 0; round < 4; ++round) mix(x, places[group % 2][round]);
        x.a += keys[(group + 1) % 3];
        x.b += keys[(group + 2) % 3] + (unsigned)(group + 1);
    }
    return x;
}

// Words of one place of a stream.
__device__ inline Words words_at(const unsigned* key, unsigned long long place, unsigned stream) {
    return threefry({key[0], key[1]}, {(unsigned)place, (unsigned)(place >> 32) | (stream << 24)});
}

#endif

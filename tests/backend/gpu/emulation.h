// CUDA C++ on the CPU, for tests: a block's threads are contexts that take turns at every barrier.
// Between two barriers they run one after another, in falling order in every second block, so that
// what one thread writes for another without a barrier is missed in one of the orders.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

struct Dim3 {
    unsigned x, y, z;
};
static Dim3 gridDim, blockDim, blockIdx, threadIdx;

static inline unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
static inline float __uint_as_float(unsigned u) { float x; memcpy(&x, &u, 4); return x; }
static inline long long __double_as_longlong(double x) { long long u; memcpy(&u, &x, 8); return u; }
static inline double __longlong_as_double(long long u) { double x; memcpy(&x, &u, 8); return x; }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dsub_rn(double x, double y) { return x - y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }

namespace emulation {

static ucontext_t scheduler;
static std::vector<ucontext_t> threads;
static std::vector<char> stacks;
static std::vector<bool> done;
static int current;
static void (*body)(void*);
static void* arguments;
static const size_t STACK = 1 << 16;

// What threads of a warp say to each other: written before a turn ends, read after it, in two places by turns.
static std::vector<long long> words[2];
static std::vector<char> parity;

// Shared memory of a launch; behind it every byte is GUARD.
static const unsigned char GUARD = 0x5A;
alignas(128) static unsigned char dynamic[(228 << 10) + 1024];

static void enter() {
    body(arguments);
    done[current] = true;
    swapcontext(&threads[current], &scheduler);
}

static void place(int t) {
    current = t;
    threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
}

static void run_block(int count) {
    threads.resize(count);
    stacks.resize(STACK * count);
    done.assign(count, false);
    parity.assign(count, 0);
    for (auto& one : words) one.assign(count, 0);
    for (int t = 0; t < count; ++t) {
        getcontext(&threads[t]);
        threads[t].uc_stack.ss_sp = stacks.data() + STACK * t;
        threads[t].uc_stack.ss_size = STACK;
        threads[t].uc_link = nullptr;
        makecontext(&threads[t], enter, 0);
    }
    const bool falling = (blockIdx.x + blockIdx.y) % 2;
    for (bool left = true; left;) {
        left = false;
        for (int k = 0; k < count; ++k) {
            const int t = falling ? count - 1 - k : k;
            if (done[t]) continue;
            place(t);
            swapcontext(&scheduler, &threads[t]);
            left = left || !done[t];
        }
    }
}

// Runs body(arguments) for every thread of the grid; without barriers, plain loops do. Returns whether anything
// was written behind the shared memory.
static bool launch(const unsigned* g, const unsigned* b, bool barriers, void (*f)(void*), void* a,
                   int shared) {
    memset(dynamic, 0xFF, shared);  // NaN: nobody has written it
    memset(dynamic + shared, GUARD, sizeof(dynamic) - shared);
    gridDim = {g[0], g[1], g[2]};
    blockDim = {b[0], b[1], b[2]};
    body = f;
    arguments = a;
    const int count = b[0] * b[1] * b[2];
    for (unsigned z = 0; z < g[2]; ++z)
        for (unsigned y = 0; y < g[1]; ++y)
            for (unsigned x = 0; x < g[0]; ++x) {
                blockIdx = {x, y, z};
                if (barriers) {
                    run_block(count);
                } else {
                    for (int t = 0; t < count; ++t) {
                        place(t);
                        f(a);
                    }
                }
            }
    for (size_t i = shared; i < sizeof(dynamic); ++i)
        if (dynamic[i] != GUARD) return true;
    return false;
}

}  // namespace emulation

static inline void __syncthreads() {
    const int t = emulation::current;
    swapcontext(&emulation::threads[t], &emulation::scheduler);
}

// All threads of a block take the same turns, so those of a warp do.
static inline void __syncwarp(unsigned mask = 0xffffffffu) { __syncthreads(); }

template <class T> static inline std::vector<long long>& said(T x) {
    using namespace emulation;
    auto& now = words[parity[current] ^= 1];
    memcpy(&now[current], &x, sizeof x);
    __syncthreads();
    return now;
}

template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int apart, int width = 32) {
    T other;
    memcpy(&other, &said(x)[emulation::current ^ apart], sizeof x);
    return other;
}

static inline int __any_sync(unsigned mask, int x) {
    const auto& all = said((long long)(x != 0));
    const size_t first = emulation::current / 32 * 32;
    for (size_t t = first; t < first + 32 && t < all.size(); ++t)
        if (all[t]) return 1;
    return 0;
}

static inline int __syncthreads_or(int x) {
    for (long long one : said((long long)(x != 0)))
        if (one) return 1;
    return 0;
}

// CUDA C++ on the CPU, for tests: a block's threads are contexts that take turns at every barrier.
// Between two barriers they run one after another, in falling order in every second block, so that
// what one thread writes for another without a barrier is missed in one of the orders. A warp's barriers
// and shuffles are such turns too: all threads of a warp have to pass the same ones.
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
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }

namespace emulation {

static ucontext_t scheduler;
static std::vector<ucontext_t> threads;
static std::vector<char> stacks;
static std::vector<bool> done;
static const char NOTHING = 0, ITS_WARP = 1, ITS_BLOCK = 2;
static std::vector<char> awaits;  // whom a thread waits for
static int current;
static void (*body)(void*);
static void* arguments;
static const size_t STACK = 1 << 16;

static void wait_for(char whom) {
    const int t = current;
    awaits[t] = whom;
    swapcontext(&threads[t], &scheduler);
}

// What threads hold out to each other in a shuffle, by turns in one of two places: who is at the next turn
// already does not write over what others have yet to read.
struct Slot {
    char bytes[2][8];
    unsigned turn;
};
static std::vector<Slot> slots, slots_of_block;

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

// Lets threads from `first` to `last` go on if all that are not done wait for `whom`.
static bool release(int first, int last, char whom) {
    bool any = false;
    for (int t = first; t < last; ++t) {
        if (done[t]) continue;
        if (awaits[t] != whom) return false;
        any = true;
    }
    for (int t = first; t < last; ++t) awaits[t] = NOTHING;
    return any;
}

// Returns whether all threads came to their end: they do not where some pass a barrier that others never do.
static bool run_block(int count) {
    threads.resize(count);
    stacks.resize(STACK * count);
    done.assign(count, false);
    awaits.assign(count, NOTHING);
    slots.assign(count, Slot());
    slots_of_block.assign(count, Slot());
    for (int t = 0; t < count; ++t) {
        getcontext(&threads[t]);
        threads[t].uc_stack.ss_sp = stacks.data() + STACK * t;
        threads[t].uc_stack.ss_size = STACK;
        threads[t].uc_link = nullptr;
        makecontext(&threads[t], enter, 0);
    }
    const bool falling = (blockIdx.x + blockIdx.y) % 2;
    for (bool left = true, going = true; left; going = false) {
        left = false;
        for (int k = 0; k < count; ++k) {
            const int t = falling ? count - 1 - k : k;
            if (!done[t] && awaits[t] == NOTHING) {
                place(t);
                swapcontext(&scheduler, &threads[t]);
                going = true;
            }
            left = left || !done[t];
        }
        for (int t = 0; t < count; t += 32)
            going |= release(t, t + 32 < count ? t + 32 : count, ITS_WARP);
        going |= release(0, count, ITS_BLOCK);
        if (left && !going) return false;
    }
    return true;
}

// Runs body(arguments) for every thread of the grid; without barriers, plain loops do. Returns 1 if anything
// was written behind the shared memory, 2 if threads wait for each other at different barriers, or 0.
static int launch(const unsigned* g, const unsigned* b, bool barriers, void (*f)(void*), void* a,
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
                    if (!run_block(count)) return 2;
                } else {
                    for (int t = 0; t < count; ++t) {
                        place(t);
                        f(a);
                    }
                }
            }
    for (size_t i = shared; i < sizeof(dynamic); ++i)
        if (dynamic[i] != GUARD) return 1;
    return 0;
}

}  // namespace emulation

static inline void __syncthreads() { emulation::wait_for(emulation::ITS_BLOCK); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { emulation::wait_for(emulation::ITS_WARP); }

namespace emulation {

// From a thread that does not take part comes what is nobody's value.
template <class T> static T exchange(T x, int from) {
    static_assert(sizeof(T) <= 8, "of 4 or 8 bytes");
    const int t = current;
    const unsigned turn = ++slots[t].turn;
    memcpy(slots[t].bytes[turn % 2], &x, sizeof(T));
    __syncwarp();
    T found;
    memset(&found, 0xA5, sizeof(T));
    const bool there = slots[from].turn == turn || slots[from].turn == turn + 1;
    if (there) memcpy(&found, slots[from].bytes[turn % 2], sizeof(T));
    return found;
}

}  // namespace emulation

// Lanes are counted within groups of `width`, a power of two.
template <class T> static inline T __shfl_sync(unsigned mask, T x, int lane, int width = 32) {
    const int t = emulation::current;
    return emulation::exchange(x, t - t % width + (lane & (width - 1)));
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int apart, int width = 32) {
    const int t = emulation::current, lane = (t ^ apart) % width;
    return emulation::exchange(x, (t ^ apart) / width == t / width ? t - t % width + lane : t);
}

namespace emulation {

// Those of a warp's threads that hold out anything but 0, as bits.
static unsigned which_of_warp(int x) {
    const unsigned turn = ++slots[current].turn;
    memcpy(slots[current].bytes[turn % 2], &x, sizeof x);
    __syncwarp();
    unsigned found = 0;
    const size_t first = current / 32 * 32;
    for (size_t t = first; t < first + 32 && t < slots.size(); ++t) {
        int other;
        memcpy(&other, slots[t].bytes[turn % 2], sizeof other);
        if (other && (slots[t].turn == turn || slots[t].turn == turn + 1)) found |= 1u << (t - first);
    }
    return found;
}

}  // namespace emulation

static inline unsigned __ballot_sync(unsigned mask, int x) { return emulation::which_of_warp(x != 0); }
static inline int __any_sync(unsigned mask, int x) { return emulation::which_of_warp(x != 0) != 0; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(unsigned x) { return __builtin_ffs((int)x); }

static inline int __syncthreads_or(int x) {
    std::vector<emulation::Slot>& all = emulation::slots_of_block;
    const unsigned turn = ++all[emulation::current].turn;
    all[emulation::current].bytes[turn % 2][0] = x != 0;
    __syncthreads();
    for (const emulation::Slot& one : all)
        if (one.bytes[turn % 2][0] && (one.turn == turn || one.turn == turn + 1)) return 1;
    return 0;
}

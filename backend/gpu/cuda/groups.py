"""The instruction by which four warps multiply bfloat16 on tensor cores (PTX ISA, wgmma), as a struct.

Lists of its operands are as long as the result is wide: they are written here, and not in a file of source/.
"""

from __future__ import annotations

FEATURES = "90a"  # what kernels with it are compiled for: no other card has it

GROUP = """
struct Group_$name {
    static __device__ inline void multiply(float (&c)[$many], const unsigned (&a)[4], unsigned long long b,
                                           int adds) {
#ifdef EINLOOM_GROUPS
        asm volatile(
            "{ .reg .pred adds; setp.ne.b32 adds, %$adds, 0;"
            " wgmma.mma_async.sync.aligned.m64n${wide}k16.f32.bf16.bf16 "
            "{$numbers}, {$of_a}, %$b, adds, 1, 1, 0; }"
            : $sums
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
#endif
    }
};
"""
"""For the beginning of an entry: sums of 64 x `wide` in registers, as source/pieces.cuh has them."""


def group(wide: int) -> dict[str, object]:
    """What GROUP is filled in with.

    >>> group(8)["numbers"]
    '%0, %1, %2, %3'
    """
    many = wide // 2
    return {
        "wide": wide,
        "many": many,
        "numbers": ", ".join(f"%{k}" for k in range(many)),
        "sums": ", ".join(f'"+f"(c[{k}])' for k in range(many)),
        "of_a": ", ".join(f"%{k}" for k in range(many, many + 4)),
        "b": many + 4,
        "adds": many + 5,
    }

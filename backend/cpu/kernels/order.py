"""Numbers as integers that come in the same order, with the place of each in the lowest bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..jit import kernel

UNSIGNED, SIGNED, FLOAT = 0, 1, 2  # what the bits of a key were
LONG = 64  # of equal highest bits: longer runs are left to a sort of their own


@kernel
def pack_rows(
    bits: Any,  # [rows, n] of numbers: uint32 or uint64
    others: Any,  # those that are NaN together with them: the other parts of complex numbers
    kind: int,
    highest: Any,  # the bit that is the sign, of the dtype of bits
    infinity: Any,  # the bits of a float's infinity
    falling: bool,
    places: Any,  # bits that a place in a row takes, uint64
    keys: Any,  # [rows, n]
    packed: Any,  # uint64 [rows, n]
    shifts: Any,  # int64 [rows]: how many bits of a row's keys are not in packed
) -> None:
    """keys grow as the numbers come, NaN is the largest, zeros are equal; packed are their highest bits
    above the least of the row, followed by the place: sorted, they are the order of the row, but for
    keys that differ in what is cut off.
    """
    for row in range(bits.shape[0]):
        key = keys[row]
        for i in range(bits.shape[1]):
            b = bits[row, i]
            if kind == FLOAT:
                if (b & ~highest) > infinity or (others[row, i] & ~highest) > infinity:
                    key[i] = ~(b & ~b)
                    continue
                if b == highest:
                    b &= ~highest  # -0.0 is equal to 0.0
                b = ~b if b & highest else b | highest
            elif kind == SIGNED:
                b ^= highest
            key[i] = ~b if falling else b
        low, high = key[0], key[0]
        for i in range(key.size):
            low = key[i] if key[i] < low else low
            high = key[i] if key[i] > high else high
        room, used = np.uint64(high) - np.uint64(low), np.uint64(0)
        while used < np.uint64(64) and room >> used != np.uint64(0):
            used += np.uint64(1)
        cut: Any = max(np.int64(used) + np.int64(places) - 64, 0)
        shifts[row] = cut
        for i in range(key.size):
            above = (np.uint64(key[i]) - np.uint64(low)) >> np.uint64(cut)
            packed[row, i] = (above << places) | np.uint64(i)


@kernel
def unpack_rows(
    packed: Any,  # sorted
    keys: Any,
    places: Any,
    shifts: Any,
    order: Any,  # int64 [rows, n]
    done: Any,  # [rows]: whether a row is in order
) -> None:
    """order is the places; those whose highest bits are equal are put in order by their keys."""
    mask = (np.uint64(1) << places) - np.uint64(1)
    for row in range(packed.shape[0]):
        line, key, to = packed[row], keys[row], order[row]
        done[row] = 1
        n = line.size
        for i in range(n):
            to[i] = np.int64(line[i] & mask)
        if shifts[row] == 0:
            continue
        begin = 0
        for i in range(1, n + 1):
            if i < n and line[i] >> places == line[begin] >> places:
                continue
            for k in range(begin + 1, i):
                one = to[k]
                j = k
                while j > begin and key[to[j - 1]] > key[one]:
                    if i - begin > LONG:
                        done[row] = 0
                        break
                    to[j] = to[j - 1]
                    j -= 1
                to[j] = one
                if done[row] == 0:
                    break
            begin = i
            if done[row] == 0:
                break

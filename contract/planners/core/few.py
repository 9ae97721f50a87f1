"""The best tree of a few tensors, outer products included: dynamic programming over sets of tensors.

A set S is the bits of an integer. T(S) is the product of the sizes of labels on S, I(S) that of labels
summed within S: the result of S has T(S) / I(S) elements, and to make it of halves A and B takes
T(S) / (I(A) I(B)) multiplications, hyperedges and labels of the output included. So

    cost(S) = min over S = A + B of cost(A) + cost(B) + m T(S) / (I(A) I(B)) + w T(S) / I(S),

O(3**n), less all sets that cost more by themselves than the greedy tree. What every tree reads and writes
alike, its tensors and its result, is left out.
"""

from __future__ import annotations

from ....backend.cpu.apart import apart
from .arrays import Floats, Integers, floats, integers, ones


def best_of_few(
    n: int, holders: Integers, sizes: Floats, multiplied: float, moved: float, path: Integers
) -> None:
    """Fill path with the pairs of the best tree, in SSA form, a subtree finished before the next begins.

    holders: for each label the set of tensors that carry it, and 1 << n where the output does.
    multiplied, moved: what a multiplication costs, and an element of a result in between.
    """
    everything = (1 << n) - 1
    touched, summed = floats(everything + 1, 1.0), floats(everything + 1, 1.0)
    for label in range(len(holders)):
        holding = holders[label] & everything
        touched[everything ^ holding] *= sizes[label]
        if holders[label] <= everything:
            summed[holding] *= sizes[label]
    gather(n, touched, summed)
    split = integers(everything + 1, 0)
    cap = greedy_split(n, touched, summed, multiplied, moved, split)
    cost = floats(everything + 1, cap)
    # sets that cost less, linked by their first tensor: the last met, those before, and how many
    last, before, count = integers(n, 0), integers(everything + 1, 0), integers(n, 1)
    for k in range(n):
        cost[1 << k] = 0.0
        last[k] = 1 << k
    for whole in range(3, everything + 1):
        if whole & (whole - 1) == 0:
            continue
        size = touched[whole] / summed[whole]
        made, least = moved * size, multiplied * size
        if whole == everything:
            made = 0.0
        elif made + 2.0 * least >= cap:  # to make the result, and to use it
            continue
        first, room = ones((whole & -whole) - 1), cap - made
        product = multiplied * touched[whole]
        if count[first] < 1 << (ones(whole) - 1):
            best = cut_by_list(
                whole, last[first], before, room, product, least, summed, cost, split
            )
        else:
            best = cut(whole, room, product, least, summed, cost, split)
        if best < room:
            cost[whole] = made + best
            before[whole], last[first] = last[first], whole
            count[first] += 1
    write(n, split, path)


@apart
def gather(n: int, touched: Floats, summed: Floats) -> None:
    """From products over single sets of holders to products over all sets: of labels on S, and within S.

    touched[S] is given as the product of the sizes of labels that all but S carry.
    """
    everything = (1 << n) - 1
    for k in range(n):
        bit = 1 << k
        for base in range(0, everything + 1, 2 * bit):
            for one in range(base, base + bit):
                summed[one + bit] *= summed[one]
                touched[one] *= touched[one + bit]
    total = touched[0]
    for one in range(everything + 1):
        touched[one] = total / touched[one]
    for k in range(n):
        summed[1 << k] = 1.0  # what only one tensor carries is summed where that is multiplied


@apart
def greedy_split(
    n: int, touched: Floats, summed: Floats, multiplied: float, moved: float, split: Integers
) -> float:
    """Fill split[S] for the sets of the greedy tree; returns its cost.

    Next are the two whose result is the least beside both of them.
    """
    alive = integers(n, 0)
    for k in range(n):
        alive[k] = 1 << k
    total = 0.0
    for left in range(n, 1, -1):
        best, first, second = 0.0, -1, -1
        for i in range(left):
            a = alive[i]
            size = touched[a] / summed[a]
            for j in range(i + 1, left):
                b = alive[j]
                score = touched[a | b] / summed[a | b] - size - touched[b] / summed[b]
                if first < 0 or score < best:
                    best, first, second = score, i, j
        a, b = alive[first], alive[second]
        whole = a | b
        split[whole] = a if a & whole & -whole else b
        total += multiplied * touched[whole] / (summed[a] * summed[b])
        if left > 2:
            total += moved * (touched[whole] / summed[whole])
        alive[first], alive[second] = whole, alive[left - 1]
    return total


@apart
def cut(
    whole: int,
    room: float,
    product: float,
    least: float,
    summed: Floats,
    cost: Floats,
    split: Integers,
) -> float:
    """The least cost of both halves and of their product, if below `room`.

    Then split[whole] is the half that has the first tensor; else it stays. A product takes
    product / (I(A) I(B)), `least` or more.
    """
    lowest = whole & -whole
    rest = whole ^ lowest
    part = (rest - 1) & rest
    best = room
    while True:
        one = part | lowest
        other = whole ^ one
        halves = cost[one] + cost[other]
        if halves + least < best:
            total = halves + product / (summed[one] * summed[other])
            if total < best:
                best = total
                split[whole] = one
        if part == 0:
            break
        part = (part - 1) & rest
    return best


@apart
def cut_by_list(
    whole: int,
    last: int,
    before: Integers,
    room: float,
    product: float,
    least: float,
    summed: Floats,
    cost: Floats,
    split: Integers,
) -> float:
    """The same, where few sets with the first tensor cost so little that they may be a half."""
    best, one = room, last
    while one > 0:
        if one & whole == one:
            other = whole ^ one
            halves = cost[one] + cost[other]
            if halves + least < best:
                total = halves + product / (summed[one] * summed[other])
                if total < best:
                    best = total
                    split[whole] = one
        one = before[one]
    return best


@apart
def write(n: int, split: Integers, path: Integers) -> None:
    """The path of these splits, the half with the first tensor first."""
    everything = (1 << n) - 1
    order, stack, names = integers(n, 0), integers(n + 1, 0), integers(everything + 1, 0)
    for k in range(n):
        names[1 << k] = k
    stack[0], height, count = everything, 1, 0
    while height > 0:
        height -= 1
        whole = stack[height]
        if whole & (whole - 1):
            order[count] = whole
            count += 1
            stack[height], stack[height + 1] = split[whole], whole ^ split[whole]
            height += 2
    for k in range(n - 1):
        whole = order[n - 2 - k]
        path[2 * k], path[2 * k + 1] = names[split[whole]], names[whole ^ split[whole]]
        names[whole] = n + k

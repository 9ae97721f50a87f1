"""The best tree of a few tensors, outer products included: dynamic programming over sets of tensors.

A set S is the bits of an integer. T(S) is the product of the sizes of labels on S, I(S) that of labels
summed within S: the result of S has T(S) / I(S) elements, and to make it of halves A and B takes
T(S) / (I(A) I(B)) multiplications, hyperedges and labels of the output included. So

    cost(S) = min over S = A + B of cost(A) + cost(B) + m T(S) / (I(A) I(B)) + w T(S) / I(S),

O(3**n), less all sets that cost more by themselves than the greedy tree. What every tree reads and writes
alike, its tensors and its result, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....backend.cpu.apart import apart
from .arrays import Floats, Integers, floats, integers, natural, ones

NEARLY = 1.0 + 1e-9  # so much above a tree that is known, the search finds that one as well
SLACK = 1.0 - 1e-9  # bounds stay on the safe side of rounding


def best_of_few(
    n: int, holders: Integers, sizes: Floats, multiplied: float, moved: float, path: Integers
) -> None:
    """Fill path with the pairs of the best tree, in SSA form, a subtree finished before the next begins.

    Of splits of a set that cost the same, the one whose half with the first tensor is the largest number.

    holders: for each label the set of tensors that carry it, and 1 << n where the output does.
    multiplied, moved: what a multiplication costs, and an element of a result in between.
    """
    everything = (1 << n) - 1
    within, summed = floats(everything + 1, 1.0), floats(everything + 1, 1.0)
    for label in range(len(holders)):
        within[holders[label] & everything] *= sizes[label]
        if holders[label] <= everything:
            summed[holders[label]] *= sizes[label]
    gather(n, within)
    gather(n, summed)
    for k in range(n):
        summed[1 << k] = 1.0  # what only one tensor carries is summed where that is multiplied
    split, order = integers(everything + 1, 0), integers(n, 0)
    greedy_order(n, within, summed, order)
    cap = NEARLY * cost_of_intervals(n, order, within, summed, multiplied, moved)
    cost, total = floats(everything + 1, cap), within[everything]
    # sets that cost less, by their first tensor: those of tensor k from 2**n - 2**(n - k) on
    known, last = integers(everything + 1, 0), integers(n, 0)
    for k in range(n):
        cost[1 << k] = 0.0
        last[k] = everything + 1 - ((everything + 1) >> k)
        known[last[k]] = 1 << k
    for whole in range(3, everything + 1):
        if whole & (whole - 1) == 0:
            continue
        touched = total / within[everything ^ whole]
        size = touched / summed[whole]
        made, used, least = moved * size, multiplied * size, multiplied * size
        if whole == everything:
            made = used = 0.0
        room = cap - made - used
        if room <= least:
            continue
        first = ones((whole & -whole) - 1)
        begin, end = everything + 1 - ((everything + 1) >> first), last[first]
        if 4 * (end - begin) < 1 << ones(whole):
            best = cut_by_list(
                whole, begin, end, known, room, least, multiplied * touched, summed, cost, split
            )
        else:
            best = cut(whole, room, least, multiplied * touched, summed, cost, split)
        if best < room:
            cost[whole] = made + best
            last[first] += 1
            known[last[first]] = whole
    write(n, split, path)


def best_of_three(
    holders: Sequence[int], sizes: Sequence[float], multiplied: float, moved: float
) -> list[int]:
    """The path of the best tree of three tensors, of which there are three: that of `best_of_few`, in a third
    of the time, where no product of sizes is rounded.

    >>> best_of_three([0b1001, 0b0011, 0b0110, 0b1100], [10, 10, 10, 1], 1.0, 0.0)  # ij,jk,kl->il
    [1, 2, 0, 3]
    """
    product = [1.0] * 16  # of the sizes of labels on each set of tensors, the output the fourth
    for held, size in zip(holders, sizes, strict=True):
        product[held] *= size
    total = 1.0
    for held in range(1, 16):
        total *= product[held] if held & 7 else 1.0
    best, path = 0.0, [0, 2, 3, 1]
    for pair, steps in ((5, path), (3, [0, 1, 3, 2]), (6, [1, 2, 0, 3])):
        touched = total / (product[7 - pair] * product[15 - pair])
        made = touched / product[pair]
        for single in (1, 2, 4):
            if pair & single:
                made /= product[single]  # which the pair alone has: summed with it
        first = multiplied * touched
        second = multiplied * total / (touched / made)
        cost = first + second + moved * made
        if pair == 5 or cost < best * SLACK:
            best, path = cost, steps
    return path


@apart
def gather(n: int, products: Floats) -> None:
    """From products over single sets of holders to products over all that lie within a set."""
    nothing, bit, size = natural(0), natural(1), natural(1 << n)
    while bit < size:
        for base in range(nothing, size, bit + bit):
            for one in range(base, base + bit):
                products[one + bit] *= products[one]
        bit += bit


@apart
def greedy_order(n: int, within: Floats, summed: Floats, order: Integers) -> None:
    """Fill order with the tensors as a greedy tree has them side by side.

    Next are the two whose result is the least beside both of them.
    """
    everything = (1 << n) - 1
    total = within[everything]
    alive, size, following = integers(n, 0), floats(n, 0.0), integers(n, -1)
    head, tail = integers(n, 0), integers(n, 0)
    for k in range(n):
        alive[k], head[k], tail[k] = 1 << k, k, k
        size[k] = total / within[everything ^ (1 << k)]
    for left in range(n, 1, -1):
        best, first, second, made = 0.0, -1, -1, 0.0
        for i in range(left):
            for j in range(i + 1, left):
                both = alive[i] | alive[j]
                result = total / (within[everything ^ both] * summed[both])
                score = result - size[i] - size[j]
                if first < 0 or score < best:
                    best, first, second, made = score, i, j, result
        following[tail[first]] = head[second]
        tail[first] = tail[second]
        alive[first], size[first] = alive[first] | alive[second], made
        alive[second], size[second] = alive[left - 1], size[left - 1]
        head[second], tail[second] = head[left - 1], tail[left - 1]
    tensor = head[0]
    for k in range(n):
        order[k] = tensor
        tensor = following[tensor]


@apart
def cost_of_intervals(
    n: int, order: Integers, within: Floats, summed: Floats, multiplied: float, moved: float
) -> float:
    """The least cost of trees whose results are of neighbours in this order."""
    everything = (1 << n) - 1
    total = within[everything]
    cost, sets = floats(n * n, 0.0), integers(n * n, 0)
    for begin in range(n - 1, -1, -1):
        sets[begin * n + begin] = 1 << order[begin]
        for end in range(begin + 1, n):
            whole = sets[begin * n + end - 1] | 1 << order[end]
            sets[begin * n + end] = whole
            touched = total / within[everything ^ whole]
            product, best = multiplied * touched, 0.0
            for middle in range(begin, end):
                one, other = begin * n + middle, (middle + 1) * n + end
                halves = cost[one] + cost[other]
                now = halves + product / (summed[sets[one]] * summed[sets[other]])
                if middle == begin or now < best:
                    best = now
            if end - begin < n - 1:
                best += moved * (touched / summed[whole])
            cost[begin * n + end] = best
    return cost[n - 1]


def cut(
    whole: int,
    room: float,
    least: float,
    product: float,
    summed: Floats,
    cost: Floats,
    split: Integers,
) -> float:
    """The least cost of both halves and of their product, if below `room`.

    Then split[whole] is the half that has the first tensor; else it stays. A product takes
    product / (I(A) I(B)), `least` or more.
    """
    every, lowest, unit = natural(whole), natural(whole & -whole), natural(1)
    rest = every ^ lowest
    part = (rest - unit) & rest
    best, bound = room, room - SLACK * least
    while True:
        one = part | lowest
        other = every ^ one
        halves = cost[one] + cost[other]
        if halves < bound:
            total = halves + product / (summed[one] * summed[other])
            if total < best:
                best, bound = total, total - SLACK * least
                split[whole] = one
        if part == 0:
            break
        part = (part - unit) & rest
    return best


def cut_by_list(
    whole: int,
    begin: int,
    end: int,
    known: Integers,
    room: float,
    least: float,
    product: float,
    summed: Floats,
    cost: Floats,
    split: Integers,
) -> float:
    """The same, where few sets with the first tensor cost so little that they may be a half.

    Those are known[begin:end + 1], the larger numbers later.
    """
    every = natural(whole)
    best, bound = room, room - SLACK * least
    for back in range(end - begin + 1):
        one = natural(known[natural(end - back)])
        other = every ^ one
        halves = cost[one] + cost[other]
        if (halves < bound) & (one & every == one):
            total = halves + product / (summed[one] * summed[other])
            if total < best:
                best, bound = total, total - SLACK * least
                split[whole] = one
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

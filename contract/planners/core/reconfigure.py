"""Subtree reconfiguration: the best order of a few neighbouring steps, again and again.

A subtree of a few leaves is cut out below a step, its costliest steps opened first, and solved exactly;
what it contracts to does not change, so the rest of the tree stays valid and the total can only fall.
The method is cotengra's (J. Gray, S. Kourtis, Quantum 5, 410 (2021)).
"""

from __future__ import annotations

from ....backend.cpu.apart import apart
from .arrays import Floats, Integers, floats, integers, pop, push
from .lists import step_cost
from .subsets import best_split
from .tree import size_of, size_of_both, weigh


def reconfigure(
    child: Integers,
    legs: Integers,
    words: int,
    weight: Integers,
    terms: Floats,
    powers: Floats,
    most: int,
    solves: int,
) -> int:
    """Improve the tree in place by subtrees of at most `most` leaves; returns how many solves are left.

    Stops where no subtree can be improved, or after so many solves.
    """
    results = len(child) // 2
    n = results + 1
    nodes = 2 * n - 1
    parent, size, cost = integers(nodes, -1), integers(nodes, 0), floats(nodes, 0.0)
    clean = integers(nodes, 0)
    shift = weigh(child, legs, words, weight, terms, powers, parent, size, cost)
    queue = [(0.0, 0, 0)]
    queue.pop()
    for node in range(n, nodes):
        if most < n or node == nodes - 1:  # the whole tree at once holds every other subtree
            push(queue, (-cost[node], 0, node))
    leaves, inner = integers(most, 0), integers(most, 0)
    split, names = integers(1 << most, 0), integers(1 << most, 0)
    while len(queue) > 0 and solves > 0:
        top = pop(queue)[2]
        if clean[top] == 1:
            continue
        clean[top] = 1
        count = cut_out(top, most, child, cost, leaves, inner)
        if count < 3:
            continue
        solves -= 1
        before = 0.0
        for k in range(count - 1):
            before += cost[inner[k]]
        cap = before * (1.0 - 1e-9)
        total = best_split(
            leaves, count, top, words, legs, weight, terms, shift, powers, cap, split
        )
        if total >= cap:
            continue
        rebuild(count, split, leaves, inner, names, child, parent)
        relabel(count, words, leaves, inner, names, legs)
        for k in range(count - 1):
            node = inner[k]
            size[node] = size_of(node, words, legs, weight)
            clean[node] = 0
        for k in range(count - 1):
            node = inner[k]
            a, b = child[2 * (node - n)], child[2 * (node - n) + 1]
            both = size_of_both(a, b, words, legs, weight)
            cost[node] = step_cost(both, size[a], size[b], size[node], terms, shift, powers)
            push(queue, (-cost[node], 0, node))
        if most >= n:
            break
        node = parent[top]
        while node >= 0:  # subtrees that may reach into this one
            if clean[node] == 1:
                clean[node] = 0
                push(queue, (-cost[node], 0, node))
            node = parent[node]
    return solves


@apart
def cut_out(
    top: int, most: int, child: Integers, cost: Floats, leaves: Integers, inner: Integers
) -> int:
    """Cut out a subtree of at most so many leaves, its costliest results opened first; returns how many.

    inner: its results, one less, the top first.
    """
    n = len(child) // 2 + 1
    open_at = [(cost[top], 0, top)]
    count = depth = 0
    while len(open_at) > 0 and (depth == 0 or count + len(open_at) < most):
        node = pop(open_at)[2]
        inner[depth] = node
        depth += 1
        for side in range(2):
            below = child[2 * (node - n) + side]
            if below >= n:
                push(open_at, (-cost[below], 0, below))
            else:
                leaves[count] = below
                count += 1
    while len(open_at) > 0:
        leaves[count] = open_at.pop()[2]
        count += 1
    return count


@apart
def rebuild(
    count: int,
    split: Integers,
    leaves: Integers,
    inner: Integers,
    names: Integers,
    child: Integers,
    parent: Integers,
) -> None:
    """Contract the leaves as `split` says, names[S] the node of a subset; new steps take old numbers."""
    n, full = len(child) // 2 + 1, (1 << count) - 1
    for subset in range(full):
        names[subset] = -1
    for k in range(count):
        names[1 << k] = leaves[k]
    names[full] = inner[0]
    stack = integers(2 * count, full)
    height = free = 1
    while height > 0:
        height -= 1
        subset = stack[height]
        node = names[subset]
        for side in range(2):
            half = split[subset] if side == 0 else subset ^ split[subset]
            if half & (half - 1) != 0:
                names[half] = inner[free]
                free += 1
                stack[height] = half
                height += 1
            below = names[half]
            child[2 * (node - n) + side] = below
            parent[below] = node


@apart
def relabel(
    count: int, words: int, leaves: Integers, inner: Integers, names: Integers, legs: Integers
) -> None:
    """The labels of new results: what their leaves carry and the other leaves, or the top, carry too."""
    full = (1 << count) - 1
    for subset in range(3, full):
        node = names[subset]
        if node < 0 or subset & (subset - 1) == 0:
            continue
        for word in range(words):
            within, around = 0, legs[inner[0] * words + word]
            for k in range(count):
                if (subset >> k) & 1 == 1:
                    within |= legs[leaves[k] * words + word]
                else:
                    around |= legs[leaves[k] * words + word]
            legs[node * words + word] = within & around

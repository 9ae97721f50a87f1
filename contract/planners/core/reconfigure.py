"""Subtree reconfiguration: the best order of a few neighbouring steps, again and again.

A subtree of a few leaves is cut out below a step, its costliest steps opened first, and solved exactly;
what it contracts to does not change, so the rest of the tree stays valid and the total can only fall.
The method is cotengra's (J. Gray, S. Kourtis, Quantum 5, 410 (2021)).
"""

from __future__ import annotations

from .arrays import UNIT, Floats, Integers, floats, integers, pop, push
from .lists import step_cost
from .subsets import best_split
from .tree import size_of, size_of_both


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
    for node in range(nodes):
        size[node] = size_of(node, words, legs, weight)
    shift = 0
    for k in range(results):
        a, b = child[2 * k], child[2 * k + 1]
        parent[a], parent[b] = n + k, n + k
        shift = max(shift, size_of_both(a, b, words, legs, weight))
    shift = (shift // UNIT) * UNIT
    queue = [(0.0, 0, 0)]
    queue.pop()
    for k in range(results):
        a, b = child[2 * k], child[2 * k + 1]
        both = size_of_both(a, b, words, legs, weight)
        cost[n + k] = step_cost(both, size[a], size[b], size[n + k], terms, shift, powers)
        if most < n or k == results - 1:  # the whole tree at once holds every other subtree
            push(queue, (-cost[n + k], 0, n + k))
    leaves, inner = integers(most, 0), integers(most, 0)
    split, stack, names = integers(1 << most, 0), integers(2 * most, 0), integers(1 << most, 0)
    open_at = [(0.0, 0, 0)]
    while len(queue) > 0 and solves > 0:
        _, _, top = pop(queue)
        if clean[top] == 1:
            continue
        clean[top] = 1
        # the subtree: its costliest results opened first
        open_at.clear()
        count, depth, before = 0, 1, cost[top]
        inner[0] = top
        for side in range(2):
            node = child[2 * (top - n) + side]
            if node >= n:
                push(open_at, (-cost[node], 0, node))
            else:
                leaves[count] = node
                count += 1
        while len(open_at) > 0 and count + len(open_at) < most:
            _, _, node = pop(open_at)
            inner[depth] = node
            depth += 1
            before += cost[node]
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
        if count < 3:
            continue
        solves -= 1
        cap = before * (1.0 - 1e-9)
        total = best_split(
            leaves, count, top, words, legs, weight, terms, shift, powers, cap, split
        )
        if total >= cap:
            continue
        # new steps take the numbers of the old ones
        full = (1 << count) - 1
        for k in range(count):
            names[1 << k] = leaves[k]
        names[full] = top
        stack[0], height, free = full, 1, 1
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
        # their labels: what the halves carry and the rest of the subtree, or the top, carries too
        for k in range(1, count - 1):
            node = inner[k]
            for word in range(words):
                legs[node * words + word] = 0
        for subset in range(3, full):
            node = names[subset] if subset & (subset - 1) != 0 else -1
            if node < 0 or names[subset] == 0:
                continue
            names[subset] = 0
            for word in range(words):
                within, around = 0, legs[top * words + word]
                for k in range(count):
                    if (subset >> k) & 1 == 1:
                        within |= legs[leaves[k] * words + word]
                    else:
                        around |= legs[leaves[k] * words + word]
                legs[node * words + word] = within & around
            size[node] = size_of(node, words, legs, weight)
        names[full] = 0
        for k in range(count - 1):
            node = inner[k]
            a, b = child[2 * (node - n)], child[2 * (node - n) + 1]
            both = size_of_both(a, b, words, legs, weight)
            cost[node] = step_cost(both, size[a], size[b], size[node], terms, shift, powers)
            clean[node] = 0
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

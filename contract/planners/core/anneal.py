"""Simulated annealing of a tree by exchanges of two neighbours.

A proposal takes a result x = (a, b) and the other operand c of the step that uses it, and exchanges c
with a or b: only x and that step change. It is accepted if the two steps cost less than before, and else
with probability (cost before / after)^(1/temperature). The best tree, by the cost of the whole, is kept.
The moves are those of P. Kalachev, P. Panteleev, M.-H. Yung (arXiv:2108.05665).

To compare the costs of the whole tree before and after a move, as Google's tnco does, leaves all steps but
the costliest to chance: at equal work the best trees of Sycamore circuits cost 2 to 200 times as much.
"""

from __future__ import annotations

import math

from .arrays import UNIT, Floats, Integers, draw, floats, integers, ones
from .lists import step_cost
from .tree import weigh


def anneal(
    child: Integers,
    legs: Integers,
    words: int,
    weight: Integers,
    terms: Floats,
    powers: Floats,
    hot: float,
    factor: float,
    sweeps: int,
    state: Integers,
    best_child: Integers,
    best: Floats,
) -> None:
    """Change the tree in place; best_child and best[0], the logarithm of its total, keep the best met.

    A sweep makes as many proposals as there are results; the temperature is factor times lower in the next.
    """
    results = len(child) // 2
    if results < 2:
        return
    n = results + 1
    nodes = 2 * n - 1
    parent, size, cost = integers(nodes, -1), integers(nodes, 0), floats(nodes, 0.0)
    shift, total = weigh(child, legs, words, weight, terms, powers, parent, size, cost), 0.0
    for node in range(n, nodes):
        total += cost[node]
    least = 2.0 ** min(1000.0, best[0] - shift / UNIT)
    if total < least:
        least = total
        for k in range(2 * results):
            best_child[k] = child[k]
    temperature = hot
    for _ in range(sweeps):
        for _ in range(results):
            x = n + int(draw(state) * (results - 1))
            top = parent[x]
            at, above = 2 * (x - n), 2 * (top - n)
            side = 0 if child[above] == x else 1
            c = child[above + 1 - side]
            which = 0 if draw(state) < 0.5 else 1
            kept, moved = child[at + 1 - which], child[at + which]
            one = other = middle = 0
            i, j = kept * words, c * words
            k, m = moved * words, top * words
            for word in range(words):
                union = legs[i + word] | legs[j + word]
                goes_on = union & (legs[k + word] | legs[m + word])
                one += ones(union) * weight[word]
                middle += ones(goes_on) * weight[word]
                other += ones(goes_on | legs[k + word]) * weight[word]
            below = step_cost(one, size[kept], size[c], middle, terms, shift, powers)
            over = step_cost(other, middle, size[moved], size[top], terms, shift, powers)
            old, new = cost[x] + cost[top], below + over
            if new > old and draw(state) > (old / new) ** (1.0 / temperature):
                continue
            total += new - old
            cost[x], cost[top], size[x] = below, over, middle
            for word in range(words):
                union = legs[i + word] | legs[j + word]
                legs[x * words + word] = union & (legs[k + word] | legs[m + word])
            child[at + which] = c
            child[above + 1 - side] = moved
            parent[c], parent[moved] = x, top
        total = 0.0
        for k in range(results):
            total += cost[n + k]
        if total < least:
            least = total
            for k in range(2 * results):
                best_child[k] = child[k]
        temperature *= factor
    best[0] = math.log2(least) + shift / UNIT

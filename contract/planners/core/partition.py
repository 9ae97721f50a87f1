"""Recursive bipartition: trees from the top, the network cut in two again and again.

Where a subset S of the tensors is cut into A and B, their product costs size(S) times the size of the
labels between them, and the rest of the work grows with the sizes of A and B. The scheme is cotengra's
(J. Gray, S. Kourtis, Quantum 5, 410 (2021)). Here the labels that leave S count in the cut too: they are nets
to an outside, which belongs to B. The cut between A and all of that is what size(A) is, so that a small B
comes off where S is open anyway, and S is swept from its open end; cuts that look at nothing but the labels
within S open it from all sides.
"""

from __future__ import annotations

from typing import NamedTuple

from ....backend.cpu.apart import apart
from .arrays import Integers, draw, integers, sort
from .bisection import Hypergraph, bisect, hypergraph
from .greedy import greedy
from .lists import holders_of
from .tree import path_of

LEAF = 8  # tensors of which the greedy order is as good
LEAST = 0.02  # of the tensors that B may have, however uneven: how deep trees are cut is bounded
SMALLEST = 0.3  # of the most that B may have, what it has at least
# drawn once for a tree, so that many trees differ also where the best cut is always found:
OUTSIDE = (50, 100)  # percent of its logarithm that a label to the outside costs
FIRST = (0.2, 0.45)  # of all tensors in the smaller part of the first cut, at least


class Network(NamedTuple):
    """Tensors t with the labels labels[starts[t]:starts[t + 1]], ascending, and what labels are."""

    starts: Integers
    labels: Integers
    logs: Integers
    is_open: Integers


def partition(
    starts: Integers,
    labels: Integers,
    logs: Integers,
    is_open: Integers,
    imbalance: float,
    state: Integers,
    path: Integers,
) -> None:
    """Fill path with the pairs contracted, in SSA form: 2 * (n - 1) integers.

    imbalance: from 0, where parts may be halves, to 1, where little after little comes off: B has at most
    (1 - imbalance) / 2 of the tensors. O(E log(E)**2 / (1 - imbalance)) for E entries of labels.
    """
    n, extent = len(starts) - 1, len(is_open)
    if n < 2:
        return
    whole = Network(starts, labels, logs, is_open)
    child, order, spare = integers(2 * (n - 1), 0), integers(n, 0), integers(n, 0)
    left, number = integers(extent, 0), integers(extent, 0)
    holders_of(starts, labels, is_open, left, integers(extent + 1, 0), integers(len(labels), 0))
    for tensor in range(n):
        order[tensor] = tensor
    outside = OUTSIDE[0] + int((OUTSIDE[1] - OUTSIDE[0]) * draw(state))
    smallest = FIRST[0] + (FIRST[1] - FIRST[0]) * draw(state)
    unused = 2 * n - 2  # results from here on have their place
    todo = [(0, n, 2 * n - 2)]  # order[begin:end] contract to a result
    while len(todo) > 0:
        begin, end, node = todo.pop()
        part = restricted(whole, begin, end, order, left, number)
        if end - begin <= LEAF:
            unused = join(part, begin, node, unused, order, child)
            continue
        graph = graph_of(part, outside)
        side = integers(end - begin + 1, 0)
        if not fall_apart(graph, side):
            most = integers(2, 0)
            if end - begin == n:  # no open end yet
                limits(n, 0.5, smallest, most)
            else:
                share = max(LEAST, 0.5 * (1.0 - imbalance))
                limits(end - begin, share, share * SMALLEST, most)
            side = bisect(graph, most, state)
        middle = arrange(begin, end, side, order, spare)
        for half in range(2):
            first, last = (begin, middle) if half == 0 else (middle, end)
            below = order[first]
            if last - first > 1:
                unused -= 1
                below = unused
                todo.append((first, last, below))
            child[2 * (node - n) + half] = below
    path_of(child, path)


def limits(k: int, share: float, smallest: float, most: Integers) -> None:
    """Fill most with how many of k tensors A and B may have: B from `smallest` to `share` of them."""
    most[0] = k - max(1, int(k * smallest))
    most[1] = max(1, int(k * share))


@apart
def restricted(
    whole: Network, begin: int, end: int, order: Integers, left: Integers, number: Integers
) -> Network:
    """The network of the tensors order[begin:end]; open is what the rest carries too.

    left: how many carry each label, the output as one more. number: zeros, before and after.
    """
    starts, count = integers(end - begin + 1, 0), 0
    for index in range(begin, end):
        tensor = order[index]
        low, high = whole.starts[tensor], whole.starts[tensor + 1]
        starts[index - begin + 1] = starts[index - begin] + high - low
    found = integers(starts[end - begin], 0)
    for index in range(begin, end):
        tensor = order[index]
        for entry in range(whole.starts[tensor], whole.starts[tensor + 1]):
            label = whole.labels[entry]
            if number[label] == 0:
                found[count] = label
                count += 1
            number[label] += 1
    sort(found, count)
    logs, is_open = integers(count, 0), integers(count, 0)
    for index in range(count):
        label = found[index]
        logs[index] = whole.logs[label]
        is_open[index] = 1 if left[label] > number[label] else 0
        number[label] = index
    labels, at = integers(starts[end - begin], 0), 0
    for index in range(begin, end):
        tensor = order[index]
        for entry in range(whole.starts[tensor], whole.starts[tensor + 1]):
            labels[at] = number[whole.labels[entry]]
            at += 1
    for index in range(count):
        number[found[index]] = 0
    return Network(starts, labels, logs, is_open)


@apart
def graph_of(part: Network, outside: int) -> Hypergraph:
    """Tensors as vertices of weight 1, labels as nets; those that are open have a pin outside."""
    n, extent = len(part.starts) - 1, len(part.logs)
    place, held = integers(extent, -1), integers(extent, 0)
    for label in part.labels:
        held[label] += 1
    first, cost = integers(extent + 1, 0), integers(extent, 0)
    pins, nets, at = integers(len(part.labels) + extent, n), 0, 0
    for label in range(extent):
        held[label] += part.is_open[label]
        if held[label] > 1:
            place[label] = at
            at += held[label]
            cost[nets] = part.logs[label]
            if part.is_open[label] == 1:
                cost[nets] = part.logs[label] * outside // 100
            nets += 1
            first[nets] = at
    for tensor in range(n):
        for entry in range(part.starts[tensor], part.starts[tensor + 1]):
            label = part.labels[entry]
            if place[label] >= 0:
                pins[place[label]] = tensor
                place[label] += 1
    weight = integers(n + 1, 1)
    weight[n] = 0
    return hypergraph(first[: nets + 1], pins[:at], weight, cost[:nets])


@apart
def fall_apart(graph: Hypergraph, side: Integers) -> bool:
    """Fill side with the parts of vertices that are not all connected; says whether they are not.

    Each connected set goes whole to the part that is smaller so far.
    """
    n = len(graph.weight) - 1
    stack, seen, known = integers(n, 0), integers(len(graph.cost), 0), integers(n + 1, 0)
    known[n] = 1
    held = integers(2, 0)
    for root in range(n):
        if known[root] == 1:
            continue
        half = 0 if held[0] <= held[1] else 1
        stack[0], height, known[root] = root, 1, 1
        while height > 0:
            height -= 1
            v = stack[height]
            side[v] = half
            held[half] += 1
            for k in range(graph.starts[v], graph.starts[v + 1]):
                net = graph.nets[k]
                if seen[net] == 1:
                    continue
                seen[net] = 1
                for pin in range(graph.first[net], graph.first[net + 1]):
                    other = graph.pins[pin]
                    if known[other] == 0:
                        known[other] = 1
                        stack[height] = other
                        height += 1
    return held[1] > 0


@apart
def arrange(begin: int, end: int, side: Integers, order: Integers, spare: Integers) -> int:
    """Sort order[begin:end] by part; returns where part 1 begins."""
    at, middle = begin, begin
    for half in range(2):
        middle = at
        for index in range(begin, end):
            if side[index - begin] == half:
                spare[at] = order[index]
                at += 1
    for index in range(begin, end):
        order[index] = spare[index]
    return middle


@apart
def join(
    part: Network, begin: int, node: int, unused: int, order: Integers, child: Integers
) -> int:
    """Contract a part to the result `node` in greedy order; returns the lowest result that has its place."""
    n, k = len(order), len(part.starts) - 1
    steps, state = integers(2 * (k - 1), 0), integers(2, 1)
    greedy(part.starts, part.labels, part.logs, part.is_open, 1.0, 0.0, state, steps)
    results = integers(k - 1, node)  # the last is the node
    for step in range(k - 2):
        unused -= 1
        results[step] = unused
    for step in range(k - 1):
        for half in range(2):
            below = steps[2 * step + half]
            place = 2 * (results[step] - n) + half
            child[place] = order[begin + below] if below < k else results[below - k]
    return unused

"""Multilevel bisection of a hypergraph: two parts of bounded weight, few and cheap nets between them.

Vertices are merged in rounds until few are left (first choice clustering by heavy edges: G. Karypis,
R. Aggarwal, V. Kumar, S. Shekhar, "Multilevel hypergraph partitioning", IEEE Trans. VLSI 7, 69 (1999)),
these are bisected in several ways, and the best way is carried back round by round, refined each time by
moves of single vertices (C. M. Fiduccia, R. M. Mattheyses, "A linear-time heuristic for improving network
partitions", DAC 1982). One bisection takes O(P log P) for P pins.
"""

from __future__ import annotations

from typing import NamedTuple

from ....backend.cpu.apart import apart
from .arrays import Heap, Integers, draw, heapify, integers, pop, push

FEW = 100  # vertices that are not merged further
TRIES = 8  # first bisections of these
PASSES = 4  # of moves in each round, at most
EVEN = 1.5  # a cluster weighs at most so many times its share of all, where FEW are left
CROWD = 64  # pins of a net beyond which it says nothing about who belongs together
SLOW = 0.9  # of the vertices left after a round: the last one
PATIENCE = 50  # moves that bring nothing until a pass ends, and an eighth of the vertices more


class Hypergraph(NamedTuple):
    """Vertices and nets with weights. The last vertex stands for the outside: it stays in part 1.

    Attributes:
        starts, nets: the nets of vertex v are nets[starts[v]:starts[v + 1]].
        first, pins: the vertices of net e are pins[first[e]:first[e + 1]], at least two, each once.
        weight: of each vertex; of the outside 0.
        cost: of each net, where it has pins in both parts.
    """

    starts: Integers
    nets: Integers
    first: Integers
    pins: Integers
    weight: Integers
    cost: Integers


@apart
def hypergraph(first: Integers, pins: Integers, weight: Integers, cost: Integers) -> Hypergraph:
    """The hypergraph of nets given by their pins."""
    n = len(weight)
    starts, nets = integers(n + 1, 0), integers(len(pins), 0)
    for v in pins:
        starts[v] += 1
    for v in range(n):
        starts[v + 1] += starts[v]
    for net in range(len(cost)):
        for pin in range(first[net], first[net + 1]):
            v = pins[pin]
            starts[v] -= 1
            nets[starts[v]] = net
    return Hypergraph(starts, nets, first, pins, weight, cost)


@apart
def bisect(graph: Hypergraph, most: Integers, state: Integers) -> Integers:
    """The part of each vertex, 0 or 1; part s weighs at most most[s], if that can be had."""
    total = 0
    for weight in graph.weight:
        total += weight
    heaviest = max(1, min(total - most[0], total - most[1], int(EVEN * total / FEW)))
    levels, maps = [graph], [graph.weight]  # maps[k]: the cluster of each vertex of level k - 1
    n = len(graph.weight)
    while n > FEW:
        cluster = integers(n, 0)
        count = clusters(levels[-1], heaviest, state, cluster)
        if count > SLOW * n:
            break
        levels.append(contracted(levels[-1], cluster, count))
        maps.append(cluster)
        n = count
    side = first_bisection(levels[-1], most, state)
    for level in range(len(levels) - 1, 0, -1):
        cluster, coarse = maps[level], side
        side = integers(len(cluster), 0)
        for v in range(len(cluster)):
            side[v] = coarse[cluster[v]]
        refine(levels[level - 1], most, state, side)
    return side


@apart
def clusters(graph: Hypergraph, heaviest: int, state: Integers, cluster: Integers) -> int:
    """Fill cluster with a number for each vertex, the same for those that merge; returns how many.

    Vertices come in random order. One that is still alone joins the cluster of the largest rating, the
    sum of cost / (pins - 1) over the nets between, divided by the weight of the cluster.
    """
    n = len(graph.weight)
    root, held, alone = integers(n, 0), integers(n, 0), integers(n, 1)
    rating, near = integers(n, 0), integers(n, 0)
    for v in range(n):
        root[v], held[v] = v, graph.weight[v]
    held[n - 1] = heaviest + 1  # nobody joins the outside
    for v in shuffled(n - 1, state):
        if alone[v] == 0:
            continue
        met = 0
        for k in range(graph.starts[v], graph.starts[v + 1]):
            net = graph.nets[k]
            pins = graph.first[net + 1] - graph.first[net]
            share = graph.cost[net] // (pins - 1)
            if pins > CROWD or share == 0:
                continue
            for pin in range(graph.first[net], graph.first[net + 1]):
                other = root[graph.pins[pin]]
                if rating[other] == 0:
                    near[met] = other
                    met += 1
                rating[other] += share
        best, highest = -1, 0
        for k in range(met):
            other = near[k]
            fits = other != v and held[other] + held[v] <= heaviest
            if fits and rating[other] // held[other] > highest:
                best, highest = other, rating[other] // held[other]
            rating[other] = 0
        if best >= 0:
            root[v] = best
            held[best] += held[v]
            alone[v] = alone[best] = 0
    count = 0
    for v in range(n):  # in order, so that the outside stays the last
        if root[v] == v:
            cluster[v] = count
            count += 1
    for v in range(n):
        cluster[v] = cluster[root[v]]
    return count


@apart
def contracted(graph: Hypergraph, cluster: Integers, count: int) -> Hypergraph:
    """The hypergraph of the clusters; nets within one go, and those between the same two become one."""
    weight, met = integers(count, 0), integers(count, -1)
    for v in range(len(cluster)):
        weight[cluster[v]] += graph.weight[v]
    nets = len(graph.cost)
    first, pins, cost = integers(nets + 1, 0), integers(len(graph.pins), 0), integers(nets, 0)
    slots = 4
    while slots < 2 * nets:
        slots *= 2
    table = integers(slots, -1)  # the new nets of two pins, hashed
    made = at = 0
    for net in range(nets):
        begin = at
        for k in range(graph.first[net], graph.first[net + 1]):
            v = cluster[graph.pins[k]]
            if met[v] != net:
                met[v] = net
                pins[at] = v
                at += 1
        if at == begin + 1:
            at = begin
            continue
        into = made
        if at == begin + 2:
            into = pair(begin, made, first, pins, table)
            if into < made:
                at = begin
        cost[into] += graph.cost[net]
        if into == made:
            made += 1
            first[made] = at
    return hypergraph(first[: made + 1], pins[:at], weight, cost[:made])


@apart
def pair(begin: int, made: int, first: Integers, pins: Integers, table: Integers) -> int:
    """The net with the two pins at `begin`: one in the table, or else `made`, which is put there."""
    one, other = (min(pins[begin], pins[begin + 1]), max(pins[begin], pins[begin + 1]))
    pins[begin], pins[begin + 1] = one, other
    mask = len(table) - 1
    slot = (one * 40503 + other * 65599) & mask
    while table[slot] >= 0:
        known = first[table[slot]]
        if pins[known] == one and pins[known + 1] == other:
            return table[slot]
        slot = (slot + 1) & mask
    table[slot] = made
    return made


@apart
def first_bisection(graph: Hypergraph, most: Integers, state: Integers) -> Integers:
    """The best of several, all refined: part 0 grown from some vertex, part 1 grown, random parts."""
    n = len(graph.weight)
    best, cut, excess = integers(n, 1), 0, 0
    for attempt in range(TRIES):
        side = integers(n, attempt % 2)
        if attempt % 3 == 2:
            share = draw(state)
            for v in range(n):
                side[v] = 1 if draw(state) < share else 0
        side[n - 1] = 1
        refine(graph, most, state, side)
        now, over = cut_of(graph, side), excess_of(weights(graph, side), most)
        if attempt == 0 or over < excess or (over == excess and now < cut):
            best, cut, excess = side, now, over
    return best


def refine(graph: Hypergraph, most: Integers, state: Integers, side: Integers) -> None:
    """Passes of moves until one brings nothing."""
    for _ in range(PASSES):
        if not improve(graph, most, state, side):
            break


@apart
def improve(graph: Hypergraph, most: Integers, state: Integers, side: Integers) -> bool:
    """One pass: every vertex moves at most once, the best first, and the best prefix of all moves stays.

    Where a part is too heavy and no vertex at the border can go, a random one goes: so parts grow out of
    nothing. Returns whether any move stays.
    """
    n = len(graph.weight)
    count, gain, moved = integers(2 * len(graph.cost), 0), integers(n, 0), integers(n, 0)
    moved[n - 1] = 1  # the outside
    held, order = weights(graph, side), shuffled(n - 1, state)
    zero = [
        (0.0, 0, 0)
    ]  # moves out of part 0 and 1: (-gain, later first, vertex), some of them outdated
    one = [(0.0, 0, 0)]
    zero.pop()
    one.pop()
    count_pins(graph, side, count)
    for v in order:
        if is_border(graph, v, side, count, gain):
            (zero if side[v] == 0 else one).append((-float(gain[v]), 0, v))
    heapify(zero)
    heapify(one)
    trail, changed = integers(n, 0), integers(n, 0)
    length = kept = clock = following = 0
    fallen = best = 0  # of the cut
    excess = excess_of(held, most)
    least = excess
    while least > 0 or length - kept < PATIENCE + n // 8:
        v = best_move(graph, most, side, gain, moved, held, zero, one)
        if v < 0 and excess > 0:
            s = 0 if held[0] > most[0] else 1
            while following < n - 1 and (
                moved[order[following]] == 1 or side[order[following]] != s
            ):
                following += 1
            if following < n - 1:
                v = order[following]
        if v < 0:
            break
        fallen += gain[v]
        held[side[v]] -= graph.weight[v]
        held[1 - side[v]] += graph.weight[v]
        trail[length], moved[v] = v, 1
        length += 1
        for k in range(move(graph, v, side, count, gain, moved, changed)):
            u = changed[k]
            moved[u] = 0
            clock -= 1
            push(zero if side[u] == 0 else one, (-float(gain[u]), clock, u))
        excess = excess_of(held, most)
        if excess < least or (excess == least and fallen > best):
            least, best, kept = excess, fallen, length
    for k in range(kept, length):
        side[trail[k]] = 1 - side[trail[k]]
    return kept > 0


@apart
def best_move(
    graph: Hypergraph,
    most: Integers,
    side: Integers,
    gain: Integers,
    moved: Integers,
    held: Integers,
    zero: Heap,
    one: Heap,
) -> int:
    """The vertex whose move gains most, where the weights allow it, or -1; drops what is outdated."""
    best = -1
    for s in range(2):
        heap = zero if s == 0 else one
        while len(heap) > 0:
            v = heap[0][2]
            if moved[v] == 0 and side[v] == s and float(gain[v]) == -heap[0][0]:
                break
            pop(heap)
        if len(heap) == 0:
            continue
        v = heap[0][2]
        # into a full part only if the other is still fuller afterwards
        if held[1 - s] + graph.weight[v] > most[1 - s] + max(0, held[s] - most[s] - 1):
            continue
        if best < 0 or gain[v] > gain[best] or (gain[v] == gain[best] and held[1] > held[0]):
            best = v
    return best


@apart
def move(
    graph: Hypergraph,
    v: int,
    side: Integers,
    count: Integers,
    gain: Integers,
    moved: Integers,
    changed: Integers,
) -> int:
    """Move a vertex and bring the gains of its neighbours up to date; returns how many changed.

    These are listed in `changed`, once, for which their entries of `moved` become 2.
    """
    s, touched = side[v], 0
    side[v] = 1 - s
    for k in range(graph.starts[v], graph.starts[v + 1]):
        net = graph.nets[k]
        there, here = count[2 * net + 1 - s], count[2 * net + s] - 1  # other pins in each part
        count[2 * net + 1 - s] = there + 1
        count[2 * net + s] = here
        if there > 1 and here > 1:
            continue
        for pin in range(graph.first[net], graph.first[net + 1]):
            u = graph.pins[pin]
            if moved[u] == 1:
                continue
            sign = 0
            if there == 0:  # the net was whole, and is cut now
                sign += 1
            elif there == 1 and side[u] != s:  # u is no longer alone there
                sign -= 1
            if here == 0:  # the net is whole now
                sign -= 1
            elif here == 1 and side[u] == s:  # u is what holds it back
                sign += 1
            if sign != 0:
                gain[u] += sign * graph.cost[net]
                if moved[u] == 0:
                    moved[u] = 2
                    changed[touched] = u
                    touched += 1
    return touched


@apart
def count_pins(graph: Hypergraph, side: Integers, count: Integers) -> None:
    """Fill count[2 * e + s] with the pins of net e in part s."""
    for net in range(len(graph.cost)):
        for pin in range(graph.first[net], graph.first[net + 1]):
            count[2 * net + side[graph.pins[pin]]] += 1


@apart
def is_border(graph: Hypergraph, v: int, side: Integers, count: Integers, gain: Integers) -> bool:
    """Whether a net of v is cut; gain[v] becomes how much the cut falls where v moves."""
    border = False
    for k in range(graph.starts[v], graph.starts[v + 1]):
        net = graph.nets[k]
        if count[2 * net + 1 - side[v]] == 0:
            gain[v] -= graph.cost[net]
        else:
            border = True
            if count[2 * net + side[v]] == 1:
                gain[v] += graph.cost[net]
    return border


@apart
def cut_of(graph: Hypergraph, side: Integers) -> int:
    """What the nets with pins in both parts cost."""
    cut = 0
    for net in range(len(graph.cost)):
        part = side[graph.pins[graph.first[net]]]
        for pin in range(graph.first[net] + 1, graph.first[net + 1]):
            if side[graph.pins[pin]] != part:
                cut += graph.cost[net]
                break
    return cut


@apart
def weights(graph: Hypergraph, side: Integers) -> Integers:
    """The weight of each part."""
    held = integers(2, 0)
    for v in range(len(side)):
        held[side[v]] += graph.weight[v]
    return held


def excess_of(held: Integers, most: Integers) -> int:
    """How much the parts weigh beyond what they may."""
    return max(0, max(held[0] - most[0], held[1] - most[1]))


@apart
def shuffled(n: int, state: Integers) -> Integers:
    """The numbers below n in random order."""
    order = integers(n, 0)
    for k in range(n):
        other = int(draw(state) * (k + 1))
        order[k] = order[other]
        order[other] = k
    return order

"""Variable elimination: sum one label after the other, by contracting all tensors that carry it.

The next label is the one whose elimination makes the smallest tensor (min-size, weighted min-degree), or
joins the fewest pairs of labels that no tensor joins yet (min-fill; U. Kjaerulff, "Triangulation of
graphs", 1990). It suits networks of small tensors with labels on many of them, such as factor graphs.
"""

from __future__ import annotations

import math

from ....backend.cpu.apart import apart
from .arrays import UNIT, Integers, draw, floats, heapify, integers, pop, push
from .lists import holders_of, join_all, root_of, spread

WIDE = 400  # labels around one beyond which pairs are not counted, but taken as many as there are


def eliminate(
    starts: Integers,
    labels: Integers,
    logs: Integers,
    is_open: Integers,
    by_fill: int,
    temperature: float,
    state: Integers,
    path: Integers,
) -> None:
    """Fill path with the pairs contracted, in SSA form; with a temperature, sizes are disturbed."""
    n, extent, entries = len(starts) - 1, len(is_open), len(labels)
    nodes = 2 * n - 1
    begin, end, size = integers(nodes, 0), integers(nodes, 0), integers(nodes, 0)
    alive, root = integers(nodes, 0), integers(nodes, 0)
    pool = integers(2 * entries + 2, 0)
    left, first, holders = integers(extent, 0), integers(extent + 1, 0), integers(entries, 0)
    holders_of(starts, labels, is_open, left, first, holders)
    length = integers(extent, 0)
    noise = floats(extent, 0.0)
    for label in range(extent):
        length[label] = first[label + 1] - first[label]
        if temperature > 0.0:
            noise[label] = -temperature * math.log(-math.log(draw(state)))
    for node in range(nodes):
        root[node] = node
    spread(starts, labels, logs, begin, end, size, alive, pool)
    at, new, scan = entries, n, 0
    met, near, inside = integers(nodes, -1), integers(extent, -1), integers(extent, -1)
    version, around = integers(extent, 0), integers(extent + 1, 0)
    heap = [(0.0, 0, 0)]
    heap.pop()
    joined = [(0.0, 0, 0)]
    joined.pop()
    changed, many = integers(extent, 0), 0
    for label in range(extent):
        if is_open[label] == 0:
            changed[many] = label
            many += 1
    while new < nodes:
        for index in range(many):
            # who carries the label, and what they carry between them
            label = changed[index]
            scan += 1
            held = tidy(label, scan, first, length, holders, root, met)
            count = total = 0
            for k in range(first[label], first[label] + held):
                node = holders[k]
                for entry in range(begin[node], end[node]):
                    other = pool[entry]
                    if near[other] != scan:
                        near[other] = scan
                        total += logs[other]
                        if other != label:
                            around[count] = other
                            count += 1
            score = total / UNIT
            if by_fill == 1:
                pairs = count * (count - 1) // 2
                if count <= WIDE and held > 1:
                    for i in range(count):
                        other = around[i]
                        scan += 1
                        held = tidy(other, scan, first, length, holders, root, met)
                        for k in range(first[other], first[other] + held):
                            node = holders[k]
                            for entry in range(begin[node], end[node]):
                                inside[pool[entry]] = scan
                        for k in range(i + 1, count):
                            if inside[around[k]] == scan:
                                pairs -= 1
                elif held <= 1:
                    pairs = 0
                score = math.log2(1.0 + pairs) * 4.0 + score / 1024.0
            version[label] += 1
            push(heap, (score - noise[label], version[label], label))
        many = 0
        label = -1
        while len(heap) > 0:
            _, known, label = pop(heap)
            if left[label] > 0 and version[label] == known:
                break
            label = -1
        joined.clear()
        if label >= 0:
            scan += 1
            held = tidy(label, scan, first, length, holders, root, met)
            for k in range(first[label], first[label] + held):
                joined.append((0.0, size[holders[k]], holders[k]))
            version[label] += 1
            left_over = held < 2
        else:  # all summed: what is left is multiplied
            for node in range(new):
                if alive[node] == 1:
                    joined.append((0.0, size[node], node))
            left_over = False
        if left_over:
            continue  # on one tensor alone: summed when that is contracted
        heapify(joined)
        new = join_all(joined, new, at, begin, end, pool, left, logs, size, alive, root, path)
        at = end[new - 1]
        for entry in range(begin[new - 1], at):
            if is_open[pool[entry]] == 0:
                changed[many] = pool[entry]
                many += 1


@apart
def tidy(
    label: int,
    scan: int,
    first: Integers,
    length: Integers,
    holders: Integers,
    root: Integers,
    met: Integers,
) -> int:
    """List each holder of a label once, as the tensor it is part of now; returns how many there are."""
    index, stop = first[label], first[label] + length[label]
    while index < stop:
        node = root_of(holders[index], root)
        if met[node] == scan:
            stop -= 1
            holders[index] = holders[stop]
        else:
            holders[index] = node
            met[node] = scan
            index += 1
    length[label] = stop - first[label]
    return length[label]

"""Trees of several equations with as many steps in common as pay.

All trees together are one table: for each value (values.py) the two that it is the product of. A value is
made once, whoever needs it. Equations are planned one after another; what others make is free:

- of few tensors the best of all trees, by dynamic programming over subsets;
- else the trees of other equations, tensors cut off and grafted on, with the result at the edge where least
  is left to do, and the tree that the equation has by itself. A tree with its result at another edge has all
  subsets but those between the two in common with the first: so all marginals, or the environments of all
  tensors, take about three contractions.

As each tree may be the equation's own, all together never cost more than apart.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from .planners.core.run import PLAIN, Graph, core_of
from .regrow import regrown
from .tree import ContractionTree, Step
from .values import Key, Parts, Values

EXACT = 8  # tensors up to which all trees are looked at
LIKE = 3  # other equations whose trees are tried
ROUNDS = 4
WORK = 400_000  # subsets times tensors that are looked at; then no other round is begun

Half = tuple[int, ...]
Table = dict[Key, tuple[Half, Half]]
"""For each value the two that are multiplied, as places in the order of its key."""


def shared(equations: Sequence[Values], apart: Sequence[ContractionTree]) -> list[ContractionTree]:
    """The trees of these equations, equal steps in equal form; together no dearer than the trees given.

    The equations are ordered in three ways, as given, the dearest first and the cheapest first, and the
    cheapest outcome is taken.
    """
    own = [one.parts_of(tree) for one, tree in zip(equations, apart, strict=True)]
    costs = [
        sum(one.weight(a, b) for a, b in p.values()) for one, p in zip(equations, own, strict=True)
    ]
    numbers = range(len(equations))
    down = sorted(numbers, key=lambda k: -costs[k])
    tried = dict.fromkeys((tuple(numbers), tuple(down), tuple(down[::-1])))
    found = [_Search(equations, own, order).table() for order in tried]
    best = min(found, key=lambda table: weight_of(equations, table))
    return [one.tree_of(parts_in(one, best)) for one in equations]


def parts_in(one: Values, table: Mapping[Key, tuple[Half, Half]]) -> Parts:
    """The tree of an equation, by the table."""
    parts: Parts = {}
    stack = [one.whole]
    while stack:
        subset = stack.pop()
        if subset & (subset - 1):
            value = one.value(subset)
            first, second = table[value.key]
            halves = _mask(value.order, first), _mask(value.order, second)
            parts[subset] = halves
            stack.extend(halves)
    return parts


def steps_of(
    equations: Sequence[Values], trees: Iterable[ContractionTree]
) -> dict[Hashable, list[int]]:
    """For each different step, by the value that it makes and the two it takes, its multiplications, as often
    as an equation takes it."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for one, tree in zip(equations, trees, strict=True):
        keys: dict[Hashable, int] = {}
        for subset, (a, b) in one.parts_of(tree).items():
            pair = frozenset((one.value(a).key, one.value(b).key))
            keys[(one.value(subset).key, pair)] = one.cost(a, b)
        for key, cost in keys.items():
            found[key].append(cost)
    return found


def weight_of(equations: Sequence[Values], table: Mapping[Key, tuple[Half, Half]]) -> int:
    """What all steps of the table that are needed weigh, each once."""
    return sum(_needed(equations, table).values())


def _needed(equations: Iterable[Values], table: Mapping[Key, tuple[Half, Half]]) -> dict[Key, int]:
    """The values that these equations take, and what the step that makes each weighs."""
    found: dict[Key, int] = {}
    for one in equations:
        stack = [one.whole]
        while stack:
            subset = stack.pop()
            value = one.value(subset)
            if subset & (subset - 1) == 0 or value.key in found:
                continue
            first, second = (_mask(value.order, half) for half in table[value.key])
            found[value.key] = one.weight(first, second)
            stack += (first, second)
    return found


def _mask(order: Sequence[int], half: Half) -> int:
    return sum(1 << order[place] for place in half)


class _Search:
    def __init__(
        self, equations: Sequence[Values], own: Sequence[Parts], order: Sequence[int]
    ) -> None:
        self.equations, self.own, self.order = equations, own, order
        self.splits: Table = {}
        self.work = WORK

    def table(self) -> Table:
        """Every equation once, and again as long as it pays."""
        planned: list[int] = []
        for k in self.order:
            self._plan(k, planned)
            planned.append(k)
        least = weight_of(self.equations, self.splits)
        for _ in range(ROUNDS):
            if self.work < 0:
                break
            before, kept = least, dict(self.splits)
            for k in self.order:
                self._plan(k, [other for other in planned if other != k])
            least = weight_of(self.equations, self.splits)
            if least >= before:
                self.splits = kept if least > before else self.splits
                break
        return self.splits

    def _plan(self, k: int, others: Sequence[int]) -> None:
        """The tree of equation k that costs least beside those of the others."""
        one = self.equations[k]
        free = _needed((self.equations[other] for other in others), self.splits).keys()
        if one.n < 2 or one.value(one.whole).key in free:
            return
        self.work -= one.n * one.n * (1 if one.n > EXACT else 20)
        if one.n <= EXACT:
            best = best_parts(one, free)
        else:
            tried = [self.own[k], *self._like(k, others)]
            if one.value(one.whole).key in self.splits:
                tried.append(parts_in(one, self.splits))
            at = [rooted(one, parts, free) for parts in tried]
            best = min([*tried, *at], key=lambda parts: left_of(one, parts, free))
        stack = [one.whole]
        while stack:
            subset = stack.pop()
            value = one.value(subset)
            if subset & (subset - 1) == 0 or value.key in free:
                continue
            place = {tensor: at for at, tensor in enumerate(value.order)}
            first, second = (
                tuple(sorted(place[t] for t in value.order if half >> t & 1))
                for half in best[subset]
            )
            self.splits[value.key] = (first, second)
            stack += best[subset]

    def _like(self, k: int, others: Sequence[int]) -> list[Parts]:
        """Trees for equation k that were made of those of the equations that have most operands of it."""
        one = self.equations[k]
        count = Counter(one.names)
        common = {other: (count & Counter(self.equations[other].names)).total() for other in others}
        nearest = sorted(common, key=lambda other: (-common[other], abs(other - k)))
        return [
            self._grown(one, self.equations[other])
            for other in nearest[:LIKE]
            if common[other] > 1 and self.work > 0
        ]

    def _grown(self, one: Values, other: Values) -> Parts:
        waiting: dict[str, list[int]] = defaultdict(list)
        for tensor in range(one.n - 1, -1, -1):
            waiting[one.names[tensor]].append(tensor)
        leaf = {t: waiting[name].pop() for t, name in enumerate(other.names) if waiting[name]}
        self.work -= one.n * one.n
        tree = other.tree_of(parts_in(other, self.splits))
        core = core_of(Graph.of(one.network.carried, one.network.open, one.network.extents))
        terms = core.terms((1.0, 0.0, 0.0))

        def log_cost(steps: tuple[Step, ...]) -> float:
            path = core.integers(2 * len(steps))
            for k, (a, b) in enumerate(steps):
                path[2 * k], path[2 * k + 1] = a, b
            return core.cost_of(path, terms)

        few = one.n <= PLAIN and one.n - len(leaf) <= 2
        return one.parts_of(regrown(tree, leaf, one.network, log_cost if few else lambda _: 0.0))


def left_of(one: Values, parts: Parts, free: Iterable[Key]) -> int:
    """What is left to do of a tree where some values are there already."""
    known, total, stack = set(free), 0, [one.whole]
    while stack:
        subset = stack.pop()
        key = one.value(subset).key
        if subset & (subset - 1) and key not in known:
            known.add(key)
            total += one.weight(*parts[subset])
            stack += parts[subset]
    return total


def best_parts(one: Values, free: Iterable[Key]) -> Parts:
    """The best of all trees where some values are there already; O(3**n)."""
    known = set(free)
    cost = [0] * (one.whole + 1)
    parts: Parts = {}
    for subset in range(3, one.whole + 1):
        if subset & (subset - 1) == 0 or one.value(subset).key in known:
            continue
        least = -1
        half = (subset - 1) & subset
        while half > subset ^ half:  # each split once
            other = subset ^ half
            total = cost[half] + cost[other]
            if least < 0 or total < least:
                total += one.weight(half, other)
                if least < 0 or total < least:
                    least, parts[subset] = total, (half, other)
            half = (half - 1) & subset
        cost[subset] = least
    return parts


def rooted(one: Values, parts: Parts, free: Iterable[Key]) -> Parts:
    """The same tree with its result at the edge where least is left to do.

    Each edge cuts the tensors in two; the value of either side is made of those of the two edges behind it.
    """
    known = set(free)
    order, stack = list[int](), [one.whole]  # from the whole down
    while stack:
        subset = stack.pop()
        if subset & (subset - 1):
            order.append(subset)
            stack.extend(parts[subset])
    made: Parts = {subset: parts[subset] for subset in order if subset != one.whole}
    cost: dict[int, int] = {}

    def need(subset: int) -> None:
        if subset & (subset - 1) == 0 or one.value(subset).key in known:
            cost[subset] = 0
        else:
            a, b = made[subset]
            cost[subset] = one.weight(a, b) + cost[a] + cost[b]

    for subset in reversed(order):
        for half in parts[subset]:
            if half & (half - 1) == 0:
                cost[half] = 0
        if subset != one.whole:
            need(subset)
    edges = [parts[one.whole][0]]
    for subset in order:
        for half, other in (parts[subset], parts[subset][::-1]):
            if subset != one.whole:
                rest = one.whole ^ half
                made[rest] = (other, one.whole ^ subset)
                need(rest)
                edges.append(half)
    at = min(edges, key=lambda e: cost[e] + cost[one.whole ^ e] + one.weight(e, one.whole ^ e))
    return {**made, one.whole: (at, one.whole ^ at)}

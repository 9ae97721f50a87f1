"""The tree that is nowhere much dearer than the best, over several sizes of one network."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import combinations

from .network import Network
from .tree import ContractionTree, Step
from .values import Key, Parts, Values

EXACT = 5  # tensors of which all trees are compared: 105
WORK = 400_000  # steps that are weighed while trees are changed
EACH = 60  # proposals of annealing, times the square of the tensors, at most
STARTS = 4  # trees that are changed as long as they get better
HOT, COLD = 0.5, 0.02  # temperatures, in natural logarithms of the ratio

Regret = Callable[[ContractionTree], tuple[float, float]]


class Costs:
    """What trees cost for each of several sizes; nothing is counted twice.

    Args:
        networks: the same tensors with other sizes.
        rates: what a multiplication, an element moved and one written count; all zero for the largest result.
        constants: operands whose steps do not count.
    """

    def __init__(
        self,
        networks: Sequence[Network],
        rates: tuple[int, int, int],
        constants: frozenset[int] = frozenset(),
    ) -> None:
        keys: dict[Hashable, Key] = {}
        names = [str(k) for k in range(len(networks[0].terms))]
        self.values = [Values(network, names, "", keys, rates) for network in networks]
        self.n, self.is_largest = len(names), not any(rates)
        self.before = sum(1 << k for k in constants)
        self._logs: dict[ContractionTree, list[float]] = {}
        self.work = 0

    def logs(self, tree: ContractionTree) -> list[float]:
        """The logarithm of the tree's cost for each of the sizes."""
        found = self._logs.get(tree)
        if found is None:
            parts = self.values[0].parts_of(tree)
            found = self._logs[tree] = [self._log(one, parts) for one in self.values]
            self.work += len(parts) * len(self.values)
        return found

    def log_ratio(self, tree: ContractionTree, at: int, other: ContractionTree) -> float:
        """log C(tree) - log C(other) for one of the sizes."""
        return self.logs(tree)[at] - self.logs(other)[at]

    def _log(self, one: Values, parts: Parts) -> float:
        steps = [(a, b) for subset, (a, b) in parts.items() if subset & ~self.before]
        if self.is_largest:
            return math.log(max((one.size(one.kept(a | b)) for a, b in steps), default=1))
        return math.log(max(1, sum(one.weight(a, b) for a, b in steps)))


def robust_tree(
    trees: Sequence[ContractionTree], costs: Costs, is_mean: bool, seed: int = 0
) -> tuple[ContractionTree, list[ContractionTree], bool]:
    """The tree of the least worst, or mean, logarithm of the ratio to the best tree found.

    Args:
        trees: for each of the sizes the best tree that a search found.
        costs: of trees for these sizes.
        is_mean: whether the mean decides.
        seed: of the random exchanges that trees of more than five tensors are changed by.

    Returns:
        The tree; for each of the sizes the best tree of all that were looked at; whether these were all.
    """
    pool = list(dict.fromkeys(trees))
    is_all = costs.n <= EXACT
    if is_all:
        pool += [tree for tree in all_trees(costs.n) if tree not in pool]
    least, best = _best(pool, trees, costs)

    def regret(tree: ContractionTree) -> tuple[float, float]:
        logs = [own - other for own, other in zip(costs.logs(tree), least, strict=True)]
        figures = max(logs), math.fsum(logs) / len(logs)
        return figures[::-1] if is_mean else figures

    for start in sorted(pool, key=regret)[: 0 if is_all else STARTS]:
        pool.append(_climbed(start, costs, regret))
    if not is_all:
        pool.append(_annealed(min(pool, key=regret), costs, regret, seed))
    # trees met on the way may be better somewhere
    least, best = _best(pool, best, costs)
    return min(pool, key=regret), best, is_all


def _climbed(tree: ContractionTree, costs: Costs, regret: Regret) -> ContractionTree:
    """The tree that is left when no exchange makes it better."""
    while costs.work < WORK // 2:
        near = min(exchanged(tree), key=regret, default=tree)
        if regret(near) >= regret(tree):
            break
        tree = near
    return tree


def _annealed(tree: ContractionTree, costs: Costs, regret: Regret, seed: int) -> ContractionTree:
    """The best tree met while exchanges are tried that may make it worse for a while."""
    draw, best, now = random.Random(seed), tree, tree
    begin = min(costs.work, WORK)
    proposals = EACH * costs.n**2
    while costs.work < WORK and proposals > 0 and costs.n > 2:
        proposals -= 1
        heat = HOT * (COLD / HOT) ** ((costs.work - begin) / (WORK - begin))
        near = draw.choice(moves(now))
        tried = _exchange(now, *near)
        costs.work += 1  # also of trees that are known
        risen = regret(tried)[0] - regret(now)[0]
        if risen <= 0 or draw.random() < math.exp(-risen / heat):
            now = tried
            best = min(best, now, key=regret)
    return best


def _best(
    pool: Sequence[ContractionTree], first: Sequence[ContractionTree], costs: Costs
) -> tuple[list[float], list[ContractionTree]]:
    """For each of the sizes the least logarithm of a cost, and the tree; that of `first` where it ties."""
    least = [costs.logs(tree)[k] for k, tree in enumerate(first)]
    best = list(first)
    for tree in pool:
        for k, log in enumerate(costs.logs(tree)):
            if log < least[k] - 1e-12:
                least[k], best[k] = log, tree
    return least, best


Move = tuple[int, int, int]
"""A step, which of its operands is a result, and which operand of that is exchanged with the other."""


def moves(tree: ContractionTree) -> list[Move]:
    """The exchanges of an operand of a result with what that result is joined with."""
    return [
        (index, side, k)
        for index, step in enumerate(tree.ssa_path)
        for side, inner in enumerate(step)
        if inner >= tree.n and len(step) == 2
        for k in (0, 1)
    ]


def exchanged(tree: ContractionTree) -> Iterator[ContractionTree]:
    """The trees that one exchange makes of this one."""
    return (_exchange(tree, *move) for move in moves(tree))


def _exchange(tree: ContractionTree, index: int, side: int, k: int) -> ContractionTree:
    path = list(tree.ssa_path)
    inner, other = path[index][side], path[index][1 - side]
    pair = path[inner - tree.n]
    path[inner - tree.n] = (pair[1 - k], other)
    path[index] = (inner, pair[k])
    return _in_order(tree.n, path)


def all_trees(n: int) -> Iterator[ContractionTree]:
    """Every binary tree of n tensors, once."""
    if n == 1:
        yield ContractionTree(1, ((0,),))
        return
    states: list[tuple[tuple[int, ...], tuple[Step, ...]]] = [(tuple(range(n)), ())]
    for made in range(n, 2 * n - 1):
        states = [
            ((*(x for x in alive if x not in pair), made), (*steps, pair))
            for alive, steps in states
            for pair in combinations(alive, 2)
        ]
    seen: set[frozenset[int]] = set()
    for _, steps in states:
        subsets = [1 << leaf for leaf in range(n)]
        for a, b in steps:
            subsets.append(subsets[a] | subsets[b])
        if (shape := frozenset(subsets)) not in seen:
            seen.add(shape)
            yield ContractionTree(n, steps)


def _in_order(n: int, path: Sequence[Sequence[int]]) -> ContractionTree:
    """The tree of steps that may name results of later ones; the last is the root."""
    order, stack = list[int](), [n + len(path) - 1]
    while stack:
        node = stack.pop()
        if node >= n:
            order.append(node)
            stack.extend(path[node - n])
    names = list(range(n)) + [0] * len(path)
    steps: list[tuple[int, ...]] = []
    for node in reversed(order):
        steps.append(tuple(sorted(names[x] for x in path[node - n])))
        names[node] = n + len(steps) - 1
    return ContractionTree(n, tuple(steps))

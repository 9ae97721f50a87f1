"""The search core's door: networks as flat arrays, functions run plain or compiled."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from ...._base.progress import Progress
from ....backend.cpu.jit import Kernel, collected_later, twin
from . import anneal, eliminate, few, greedy, levels, lists, partition, reconfigure, slices, tree
from .arrays import BITS, UNIT, powers_of_two

Stop = Callable[[], bool]
CHUNK = (
    1_000_000  # proposals of annealing between looks at the clock; a hundredth where it runs plain
)
PLAIN = 50  # tensors up to which a short search waits for no compiler
PATIENT = 1000  # and up to which a single greedy run or elimination does not
WIDE = 6  # tensors from which sets of one size are looked at together where nothing is compiled
LARGEST = 1 << 900  # elements of all labels together, up to which costs are well within floats
_TWINS: dict[Callable[..., Any], Kernel] = {
    function: twin(function)
    for function in (
        greedy.greedy,
        eliminate.eliminate,
        partition.partition,
        anneal.anneal,
        reconfigure.reconfigure,
        few.best_of_few,
        tree.build,
        tree.path_of,
        lists.cost_of,
        lists.components,
        slices.masked,
        slices.slice_to,
    )
}


@dataclass(frozen=True)
class Graph:
    """A network in flat arrays; labels of size 1 are left out, and what planning needs is in logarithms.

    Attributes:
        n: tensors.
        starts, labels: the labels of tensor t are labels[starts[t]:starts[t + 1]], ascending.
        logs: fixed-point logarithm to base 2 of each label's size.
        is_open: 1 for labels of the output.
        place: for each label 64 * word + bit in sets.
        words, weight: words of a set, and the logarithm of a label in each.
        names: each label's number in the network.
    """

    n: int
    starts: Sequence[int]
    labels: Sequence[int]
    logs: Sequence[int]
    is_open: Sequence[int]
    place: Sequence[int]
    words: int
    weight: Sequence[int]
    names: Sequence[int] = ()

    @classmethod
    def of(
        cls, carried: Sequence[frozenset[int]], open_: frozenset[int], extents: Sequence[int]
    ) -> Graph:
        """The graph of tensors that carry these labels; that of many is in arrays of NumPy."""
        if len(carried) > PLAIN:
            return cls._of_many(carried, open_, extents)
        number: dict[int, int] = {}
        rows: list[list[int]] = []
        for row in carried:
            rows.append([number.setdefault(x, len(number)) for x in row if extents[x] > 1])
        # labels are numbered by size, so that a word of a set holds labels of one size
        known = sorted(number, key=lambda x: (extents[x], number[x]))
        rank = [0] * len(known)
        place, weight, used, last = [], [], BITS, 0
        for index, label in enumerate(known):
            rank[number[label]] = index
            extent = extents[label]
            if used == BITS or extent != last:
                weight.append(_log(extent))
                used, last = 0, extent
            place.append(64 * (len(weight) - 1) + used)
            used += 1
        starts, labels = [0], []
        for numbers in rows:
            labels += sorted([rank[x] for x in numbers])
            starts.append(len(labels))
        return cls(
            len(rows), starts, labels, [_log(extents[x]) for x in known],
            [int(x in open_) for x in known], place, max(1, len(weight)), weight or [0], tuple(known),
        )  # fmt: skip

    @classmethod
    def _of_many(
        cls, carried: Sequence[frozenset[int]], open_: frozenset[int], extents: Sequence[int]
    ) -> Graph:
        counts = np.fromiter(map(len, carried), np.int64, len(carried))
        flat = np.fromiter(chain.from_iterable(carried), np.int64, int(counts.sum()))
        row = np.repeat(np.arange(len(carried)), counts)
        sizes = sorted(set(extents))  # which may be beyond any integer of NumPy
        code_of = {size: code for code, size in enumerate(sizes)}
        code = np.fromiter(map(code_of.__getitem__, extents), np.int64, len(extents))
        if sizes and sizes[0] <= 1:
            kept = code[flat] >= sum(size <= 1 for size in sizes)
            flat, row = flat[kept], row[kept]
        # counted, not `np.unique`, whose first call imports NumPy's masked arrays
        known = np.flatnonzero(np.bincount(flat, minlength=len(extents)))
        known = known[np.argsort(code[known], kind="stable")]
        rank = np.zeros(len(extents), np.int64)
        rank[known] = np.arange(len(known))
        labels = rank[flat]
        labels = labels[np.lexsort((labels, row))]
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(carried)))])
        # words of each size, and where in them its labels are
        found = np.bincount(code[known], minlength=len(sizes))
        used = np.flatnonzero(found)
        many = found[used]
        first = np.cumsum(many) - many
        words = -(-many // BITS)
        at = np.arange(len(known)) - np.repeat(first, many)
        before = np.repeat(np.cumsum(words) - words, many)
        logs = np.array([_log(sizes[c]) for c in used], np.int64)
        opened = np.zeros(len(extents), np.int64)
        opened[list(open_)] = 1
        made: list[Any] = [
            starts, labels, np.repeat(logs, many), opened[known], 64 * (before + at // BITS) + at % BITS,
        ]  # fmt: skip
        weight: Any = np.repeat(logs, words) if len(words) else np.zeros(1, np.int64)
        count, names = max(1, int(words.sum())), tuple(known.tolist())
        return cls(len(carried), made[0], made[1], made[2], made[3], made[4], count, weight, names)

    def lists(self) -> Graph:
        """The same in lists of Python's integers."""
        if isinstance(self.starts, list):
            return self
        fields = (self.starts, self.labels, self.logs, self.is_open, self.place)
        made: list[Any] = [np.asarray(field).tolist() for field in fields]
        weight = np.asarray(self.weight).tolist()
        return Graph(
            self.n, made[0], made[1], made[2], made[3], made[4], self.words, weight, self.names
        )

    def arrays(self) -> Graph:
        """The same in arrays of NumPy."""
        if isinstance(self.starts, np.ndarray):
            return self
        fields = (self.starts, self.labels, self.logs, self.is_open, self.place)
        made: list[Any] = [np.array(field, np.int64) for field in fields]
        weight: Any = np.array(self.weight, np.int64)
        return Graph(
            self.n, made[0], made[1], made[2], made[3], made[4], self.words, weight, self.names
        )


@cache
def load() -> None:
    """Compile every function, or load it from the disk; says so where that takes its time."""
    graph = Graph(3, [0, 2, 4, 6], [0, 1, 0, 2, 1, 2], [UNIT] * 3, [0] * 3, [0, 1, 2], 1, [UNIT])
    core = Core(graph, True)
    terms = core.terms((1.0, 1.0))
    with collected_later(), Progress("Compile the search for contraction trees", 6) as progress:
        path = core.greedy()
        progress.advance()
        core.eliminate()
        progress.advance()
        core.partition()
        progress.advance()
        core.cost_of(path, terms)
        core.components()
        core.exact(terms)
        tree = core.tree(path)
        progress.advance()
        tree.reconfigure(terms, 3, 1)
        progress.advance()
        tree.anneal(terms, 1.0, 0.1, 1, core.state(0), lambda: True).path()
        progress.advance()


@cache
def load_slices() -> None:
    """And what slices labels, which takes a tenth as long: few networks have to be sliced."""
    load()
    graph = Graph(3, [0, 2, 4, 6], [0, 1, 0, 2, 1, 2], [UNIT] * 3, [0] * 3, [0, 1, 2], 1, [UNIT])
    core = Core(graph, True)
    with Progress("Compile the choice of labels to slice", 2) as progress:
        tree = core.tree(core.greedy())
        tree.slice_to(core.terms((1.0, 1.0)), core.integers(1))
        progress.advance()
        tree.sliced(core.integers(1))
        progress.advance()


def is_ready(slices: bool = False) -> bool:
    """Whether compiled functions are at hand, so that calling them waits for nothing."""
    return (load_slices if slices else load).cache_info().currsize > 0


@cache
def _log(extent: int) -> int:
    return round(math.log2(extent) * UNIT)


def _size(log: int) -> float:
    """The size of a label: an integer, which logarithms give back where it is small."""
    size: float = 2.0 ** (log / UNIT)
    return float(round(size)) if size < 1 << 28 else size


def core_of(graph: Graph, compiled: bool = False, slices: bool = False) -> Core:
    """The functions on a graph: compiled if asked for, if it is large, or if nobody need wait for it.

    slices: whether labels are to be sliced as well.
    """
    if compiled or graph.n > PATIENT:
        (load_slices if slices else load)()
        return Core(graph, True)
    return Core(graph, is_ready(slices))


def exact_path(
    n: int, holders: Sequence[int], sizes: Sequence[float], multiplied: float, moved: float
) -> list[int]:
    """The flat path of the best of all trees (few.best_of_few), by whichever code is at hand."""
    if n == 3:
        return few.best_of_three(holders, sizes, multiplied, moved)
    if not is_ready():
        if n >= WIDE:
            return levels.best_path(n, holders, sizes, multiplied, moved)
        path = [0] * (2 * n - 2)
        few.best_of_few(n, holders, sizes, multiplied, moved, path)  # type: ignore[arg-type]
        return path
    made = np.empty(2 * n - 2, np.int64)
    held, extents = np.array(holders, np.int64), np.array(sizes, np.float64)
    _TWINS[few.best_of_few](n, held, extents, multiplied, moved, made)
    found: list[int] = made.tolist()
    return found


@cache
def _powers(compiled: bool) -> Any:
    return np.array(powers_of_two()) if compiled else powers_of_two()


class Core:
    """The functions of the core on one graph, plain or compiled."""

    def __init__(self, graph: Graph, compiled: bool) -> None:
        self.compiled = compiled
        self.graph = graph.arrays() if compiled else graph.lists()
        self.powers = _powers(compiled)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return (_TWINS[function] if self.compiled else function)(*arguments)

    def integers(self, n: int) -> Any:
        return np.zeros(n, np.int64) if self.compiled else [0] * n

    def flat(self, path: list[int]) -> Any:
        """A path as the functions take it."""
        return np.array(path, np.int64) if self.compiled else path

    def floats(self, values: Sequence[float]) -> Any:
        return np.array(values, np.float64) if self.compiled else list(values)

    def state(self, seed: int) -> Any:
        """The state of `draw` for a seed."""
        mixed = (seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % (1 << 64)
        mixed = ((mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9) % (1 << 64)
        state = [1 + (mixed >> 32) % 2147483562, 1 + mixed % 2147483398]
        return np.array(state, np.int64) if self.compiled else state

    def terms(self, values: Sequence[float], most: float = 0.0) -> Any:
        """What a step costs (lists.step_cost); most: elements of the largest result allowed, or 0."""
        limit = max(1.0, math.log2(most) * UNIT) if most > 0.0 else 0.0
        multiplied, moved, written = (*values, 0.0, 0.0)[:3]
        row = [multiplied, moved, float(math.floor(limit)), 0.0, written]
        return np.array(row, np.float64) if self.compiled else row

    def greedy(self, modifier: float = 1.0, temperature: float = 0.0, seed: int = 0) -> Any:
        g, path = self.graph, self.integers(2 * (self.graph.n - 1))
        self.call(
            greedy.greedy, g.starts, g.labels, g.logs, g.is_open, modifier, temperature,
            self.state(seed), path,
        )  # fmt: skip
        return path

    def eliminate(self, by_fill: int = 0, temperature: float = 0.0, seed: int = 0) -> Any:
        g, path = self.graph, self.integers(2 * (self.graph.n - 1))
        self.call(
            eliminate.eliminate, g.starts, g.labels, g.logs, g.is_open, by_fill, temperature,
            self.state(seed), path,
        )  # fmt: skip
        return path

    def partition(self, imbalance: float = 0.8, seed: int = 0) -> Any:
        g, path = self.graph, self.integers(2 * (self.graph.n - 1))
        self.call(
            partition.partition, g.starts, g.labels, g.logs, g.is_open, imbalance,
            self.state(seed), path,
        )  # fmt: skip
        return path

    def exact(self, terms: Any) -> Any:
        """The path of the best of all trees: all subsets are looked at."""
        g = self.graph
        counts = terms[0] > 0.0 or terms[1] > 0.0 or terms[4] > 0.0
        if g.n > 2 and counts and sum(g.logs) < LARGEST.bit_length() * UNIT:
            path, holders = self.integers(2 * g.n - 2), self.integers(len(g.logs))
            for tensor in range(g.n):
                for label in g.labels[g.starts[tensor] : g.starts[tensor + 1]]:
                    holders[label] |= 1 << tensor
            for label, is_open in enumerate(g.is_open):
                holders[label] |= is_open << g.n
            sizes = self.floats([_size(log) for log in g.logs])
            moved = 2.0 * terms[1] + terms[4]
            if g.n == 3 or not self.compiled:
                return self.flat([*exact_path(g.n, holders, sizes, terms[0], moved)])
            self.call(few.best_of_few, g.n, holders, sizes, terms[0], moved, path)
            return path
        path = self.greedy()
        if g.n == 2:
            return path
        known = self.tree(path)
        known.reconfigure(terms, self.graph.n, 1)
        return known.path()

    def cost_of(self, path: Any, terms: Any) -> float:
        """The logarithm of what the steps of a path cost."""
        g = self.graph
        return float(self.call(
            lists.cost_of, g.starts, g.labels, g.logs, g.is_open, path, terms, self.powers
        ))  # fmt: skip

    def components(self) -> Any:
        """For each tensor one of its connected part, the same for all of the part."""
        g, root = self.graph, self.integers(self.graph.n)
        self.call(lists.components, g.starts, g.labels, len(g.is_open), root)
        return root

    def tree(self, path: Any) -> Tree:
        g = self.graph
        child = self.integers(2 * (g.n - 1))
        legs = self.integers((2 * g.n - 1) * g.words)
        self.call(
            tree.build, g.starts, g.labels, g.logs, g.is_open, g.place, g.words, path, child, legs
        )
        return Tree(self, child, legs)


@dataclass
class Tree:
    """A tree in the core's form, changed in place."""

    core: Core
    child: Any
    legs: Any

    def path(self) -> Any:
        path = self.core.integers(len(self.child))
        self.core.call(tree.path_of, self.child, path)
        return path

    def slice_to(self, terms: Any, cut: Any) -> float:
        """Slice more labels, until no result is larger than `terms` allow; the cost of all slices."""
        core, g = self.core, self.core.graph
        return float(core.call(
            slices.slice_to, self.child, self.legs, g.words, g.weight, terms, core.powers, cut
        ))  # fmt: skip

    def sliced(self, cut: Any) -> Tree:
        """The same tree in one slice, whose results do not have the labels that are cut."""
        left = self.core.integers(len(self.legs))
        self.core.call(slices.masked, self.legs, self.core.graph.words, cut, left)
        return Tree(self.core, self.child, left)

    def log_largest(self) -> float:
        """Logarithm to base 2 of the elements of the largest result."""
        n, words, weight = self.core.graph.n, self.core.graph.words, self.core.graph.weight
        return max(
            sum(int(x).bit_count() * int(w) for x, w in zip(self.legs[at : at + words], weight, strict=True))
            for at in range(n * words, len(self.legs), words)
        ) / UNIT  # fmt: skip

    def log_cost(self, terms: Any) -> float:
        """The logarithm of what its steps cost (lists.cost_of)."""
        return self.core.cost_of(self.path(), terms)

    def anneal(
        self,
        terms: Any,
        hot: float,
        cold: float,
        sweeps: int,
        state: Any,
        stop: Stop,
    ) -> Tree:
        """The best tree met while this one is annealed, which is changed; until `stop`, if asked."""
        core, g = self.core, self.core.graph
        if g.n < 3:
            return self
        best_child, best = core.integers(len(self.child)), core.floats([1e6])
        factor = (cold / hot) ** (1.0 / max(1, sweeps - 1))
        chunk = max(1, (CHUNK if core.compiled else CHUNK // 100) // g.n)
        done = 0
        while done < sweeps:
            now = min(chunk, sweeps - done)
            begin = hot * factor**done
            core.call(
                anneal.anneal, self.child, self.legs, g.words, g.weight, terms, core.powers,
                begin, factor, now, state, best_child, best,
            )  # fmt: skip
            done += now
            if stop():
                break
        self.child = best_child
        return core.tree(self.path())  # of all labels, sliced or not

    def reconfigure(self, terms: Any, most: int, solves: int) -> int:
        g = self.core.graph
        return int(self.core.call(
            reconfigure.reconfigure, self.child, self.legs, g.words, g.weight, terms,
            self.core.powers, most, solves,
        ))  # fmt: skip

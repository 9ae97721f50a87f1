"""The search core: compiled and plain give the same tree, every tree is one, and costs are what they say."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from tests.networks import FAMILIES, chain, grid, random_networks, ring, star

from einloom import Network
from einloom.contract.cost import total_cost
from einloom.contract.planners.core import subsets
from einloom.contract.planners.core.arrays import UNIT, draw, ones, power, powers_of_two
from einloom.contract.planners.core.run import Core, Graph, load
from einloom.contract.planners.parts import simplify
from einloom.contract.tree import ContractionTree

FLOPS, MOVED, LARGEST = (1.0, 0.0), (1.0, 8.0), (0.0, 0.0)
CONNECTED = [
    chain(9, 3),
    ring(12),
    star(15),
    grid(4, 5, 3),
    *(net for net in random_networks(3, 8, tensors=13)),
    *(net for net in random_networks(4, 4, tensors=30)),
]


def graph_of(network: Network) -> Graph:
    return Graph.of(network.carried, network.open, network.extents)


def tree_of(n: int, path: Any) -> ContractionTree:
    return ContractionTree(
        n, tuple((int(path[k]), int(path[k + 1])) for k in range(0, 2 * n - 2, 2))
    )


def steps_cost(network: Network, tree: ContractionTree, terms: tuple[float, float]) -> float:
    """What the core says, from whole numbers."""
    from einloom.contract.cost import size_of, walk

    total, largest = 0, 1
    for step in walk(network, tree):
        total += int(terms[0]) * size_of(step.union, network.extents)
        for one in (*step.operands, step.result):
            total += int(terms[1]) * size_of(one, network.extents)
        largest = max(largest, size_of(step.result, network.extents))
    return math.log2(total) if terms != LARGEST else math.log2(largest)


def searches(core: Core, terms: Any, seed: int) -> dict[str, Any]:
    """The path of every search."""
    found = {
        "greedy": core.greedy(),
        "noisy": core.greedy(0.5, 0.7, seed),
        "elimination": core.eliminate(),
        "fill": core.eliminate(1),
        "noisy elimination": core.eliminate(0, 0.5, seed),
        "partition": core.partition(0.8, seed),
        "halves": core.partition(0.1, seed),
    }
    tree = core.tree(found["noisy"])
    tree.reconfigure(terms, 6, 100)
    found["reconfigured"] = tree.path()
    annealed = core.tree(found["noisy"]).anneal(
        terms, 1.0, 0.1, 20, core.state(seed), lambda: False
    )
    found["annealed"] = annealed.path()
    return {name: [int(x) for x in path] for name, path in found.items()}


@pytest.mark.parametrize("terms", [FLOPS, MOVED, LARGEST])
def test_compiled_and_plain_agree(terms: tuple[float, float]) -> None:
    for seed, network in enumerate(CONNECTED):
        plain, compiled = (Core(graph_of(network), compiled) for compiled in (False, True))
        found = [searches(core, core.terms(terms), seed) for core in (plain, compiled)]
        assert found[0] == found[1]


@pytest.mark.parametrize("terms", [FLOPS, MOVED, LARGEST])
def test_costs_are_what_they_say(terms: tuple[float, float]) -> None:
    for network in [*CONNECTED, *FAMILIES.values()]:
        n = len(network.terms)
        if n < 2 or 0 in network.extents:
            continue
        core = Core(graph_of(network), False)
        for path in (
            core.greedy(0.5, 1.0, 3),
            core.eliminate(),
            core.eliminate(1),
            core.partition(),
        ):
            want = steps_cost(network, tree_of(n, path), terms)
            got = core.tree(path).log_cost(core.terms(terms))
            assert got == pytest.approx(want, rel=1e-3 if terms == LARGEST else 1e-6, abs=1e-2)


def test_refined_trees_are_never_worse() -> None:
    fell = 0
    for seed, network in enumerate(CONNECTED):
        core = Core(graph_of(network), False)
        terms = core.terms(FLOPS)
        path = core.greedy(1.0, 2.0, seed)
        before = total_cost(network, tree_of(len(network.terms), path)).cost
        tree = core.tree(path)
        tree.reconfigure(terms, 5, 200)
        annealed = core.tree(path).anneal(terms, 1.0, 0.05, 30, core.state(1), lambda: False)
        for one in (tree, annealed):
            after = total_cost(network, tree_of(len(network.terms), one.path())).cost
            assert after <= before
            assert math.log2(after) == pytest.approx(one.log_cost(terms), abs=1e-5)
            fell += after < before
    assert fell > len(CONNECTED)


def test_a_stopped_annealing_gives_its_best() -> None:
    network = grid(4, 5, 3)
    core = Core(graph_of(network), False)
    tree = core.tree(core.greedy(1.0, 2.0, 1))
    before = tree.log_cost(core.terms(FLOPS))
    after = tree.anneal(core.terms(FLOPS), 1.0, 0.05, 10**9, core.state(1), lambda: True)
    assert after.log_cost(core.terms(FLOPS)) <= before


def test_sizes_beyond_any_float() -> None:
    """2**3000 elements: nothing overflows, and all agree on the cost."""
    labels = [f"x{k}" for k in range(3000)]
    network = Network(
        [labels[:2000], labels[1000:], labels[::3], labels[::7]], labels, dict.fromkeys(labels, 2)
    )
    core = Core(graph_of(network), False)
    for path in (core.greedy(), core.eliminate(), core.partition()):
        assert core.tree(path).log_cost(core.terms(FLOPS)) >= 3000


def test_power() -> None:
    table = powers_of_two()
    r = random.Random(0)
    for _ in range(2000):
        x = r.uniform(-900, 900)
        assert power(round(x * UNIT), table) == pytest.approx(2.0**x, rel=1e-6)
    assert power(-5000 * UNIT, table) == 2.0**-1000
    assert power(5000 * UNIT, table) == 2.0**1000
    assert [power(k * UNIT, table) for k in range(60)] == [2**k for k in range(60)]


def test_ones() -> None:
    assert [ones(x) for x in (0, 1, 3, (1 << 62) - 1)] == [0, 1, 2, 62]


def test_draws_are_even() -> None:
    state = Core(graph_of(chain(3)), False).state(7)
    values = [draw(state) for _ in range(20000)]
    assert min(values) > 0
    assert max(values) < 1
    assert sum(values) / len(values) == pytest.approx(0.5, abs=0.01)
    counts = [sum(int(v * 10) == k for v in values) for k in range(10)]
    assert min(counts) > 1800
    assert max(counts) < 2200


def test_words_hold_labels_of_one_size() -> None:
    sizes = {label: 2 + k % 3 for k, label in enumerate(range(200))}
    graph = graph_of(Network([list(range(200)), list(range(100))], [], sizes))
    for label, spot in enumerate(graph.place):
        assert graph.weight[spot >> 6] == graph.logs[label]
        assert spot & 63 < 62
    assert len(set(graph.place)) == 200


def test_simplify_merges_what_is_alike() -> None:
    network = Network(["ab", "ba", "bc", "c", "c", "", "d", ""], "d", dict.fromkeys("abcd", 2))
    steps, parts = simplify(network)
    assert len(steps) == 3  # ab*ba, c*c, and the scalars
    assert sorted(len(part.tensors) for part in parts) == [1, 1, 3]
    assert sum(len(part.tensors) for part in parts) == 8 - 3


def test_simplify_again_where_labels_end() -> None:
    """a*a*... sums label x, after which the result is like a third tensor."""
    network = Network(["ax", "ax", "a", "a"], "", {"a": 3, "x": 2})
    steps, parts = simplify(network)
    assert len(steps) == 3
    assert [len(part.tensors) for part in parts] == [1]


def test_graphs_of_many_tensors_are_those_of_few() -> None:
    """By lists or by arrays: the same sets of labels of the same sizes."""
    r = random.Random(4)
    for _ in range(5):
        sizes = {label: r.choice([1, 2, 3, 2**70]) for label in range(90)}
        inputs = [r.sample(range(90), r.randint(0, 5)) for _ in range(60)]
        held = sorted({label for term in inputs for label in term})
        output = r.sample(held, 7)
        network = Network(inputs, output, {label: sizes[label] for label in held})
        many = graph_of(network).lists()
        assert many.n == 60
        seen = {}
        for tensor in range(60):
            entries = many.labels[many.starts[tensor] : many.starts[tensor + 1]]
            assert list(entries) == sorted(set(entries))
            seen[tensor] = {many.names[entry] for entry in entries}
        wide = [frozenset(x for x in row if network.extents[x] > 1) for row in network.carried]
        assert list(seen.values()) == wide
        for label, name in enumerate(many.names):
            size = round(math.log2(network.extents[name]) * UNIT)
            assert many.logs[label] == many.weight[many.place[label] >> 6] == size
            assert many.is_open[label] == (name in network.open)
        assert len(set(many.place)) == len(many.place)
        assert many.words == len(many.weight) == 1 + max(many.place) // 64


def test_parts_of_many_tensors() -> None:
    from einloom.contract.planners.parts import connected

    inputs = [(k, k + 1) for k in range(0, 300, 3)] + [(k + 1, k + 2) for k in range(0, 300, 3)]
    network = Network([*inputs, ()], (), dict.fromkeys(range(302), 2) | {0: 3})
    load()
    _, parts = simplify(network)
    few = connected(dict(enumerate(network.carried)), len(network.extents))
    assert [part.tensors for part in parts] == [part.tensors for part in few]
    assert len(parts) == 101


@pytest.mark.skipif(not subsets._HAS_BIT_COUNTS, reason="NumPy 1 counts no bits")
@pytest.mark.parametrize("seed", range(40))
def test_subsets_together_are_as_one_by_one(seed: int) -> None:
    """The same halves and the same costs, to the last bit, with a tree that is known and without."""
    r, powers = random.Random(seed), powers_of_two()
    k, words = r.choice([4, 5, 6, 7, 8]), r.choice([1, 1, 2, 3])
    nodes = k + 3
    legs = [0] * (nodes * words)
    for _ in range(r.randint(3, 40)):
        word, bit = r.randrange(words), r.randrange(62)
        for node in r.sample(range(nodes), r.choice([2, 2, 2, 3])):
            legs[node * words + word] |= 1 << bit
    weight = [round(math.log2(r.choice([2, 3, 4, 7, 16])) * UNIT) for _ in range(words)]
    terms = r.choice(
        [
            [1.0, 0.0, 0.0, 0.0, 0.0],
            [1.0, 14.4, 0.0, 0.0, 0.0],
            [0.0, 0.0, 0.0, 0.0, 1.0],
            [1.0, 2.0, 0.0, 0.0, 3.0],
        ]
    )
    cap = 1e300
    for _ in range(3):
        found = []
        for run in (subsets._by_loops, subsets._by_levels):
            split = [0] * (1 << k)
            cost = run(
                list(range(k)), k, nodes - 1, words, legs, weight,
                terms, 20 * UNIT, powers, cap, split,
            )  # fmt: skip
            found.append((cost < cap, cost if cost < cap else cap, split))
        assert found[0] == found[1]
        cap = found[0][1] * r.choice([0.5, 1.0, 1.0001])

"""Bipartition: known smallest cuts, and trees that follow them."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract.test_search_core import graph_of, tree_of
from tests.networks import chain, grid, random_networks, ring, star

from einloom import Network
from einloom.contract.cost import total_cost
from einloom.contract.planners.core import bisection
from einloom.contract.planners.core.bisection import Hypergraph, bisect, cut_of, hypergraph
from einloom.contract.planners.core.partition import fall_apart
from einloom.contract.planners.core.run import Core

Nets = list[tuple[int, ...]]


def made(n: int, nets: Nets, costs: list[int] | None = None) -> Hypergraph:
    """n vertices and the outside, number n."""
    first = list(itertools.accumulate((len(net) for net in nets), initial=0))
    pins = [v for net in nets for v in net]
    return hypergraph(first, pins, [1] * n + [0], costs or [100] * len(nets))


def halves(graph: Hypergraph, smallest: int, seed: int = 0) -> list[int]:
    """A bisection of which both parts have so many vertices."""
    n = len(graph.weight) - 1
    side = list(bisect(graph, [n - smallest] * 2, [1 + seed, 1 + seed]))
    assert side[n] == 1
    assert smallest <= sum(side[:n]) <= n - smallest
    return side


def clique(vertices: range) -> Nets:
    return list(itertools.combinations(vertices, 2))


def lattice(rows: int, columns: int) -> Nets:
    at = [[r * columns + c for c in range(columns)] for r in range(rows)]
    along = [(a, b) for row in at for a, b in itertools.pairwise(row)]
    return along + [
        (a, b) for one, two in itertools.pairwise(at) for a, b in zip(one, two, strict=True)
    ]


@pytest.mark.parametrize("size", [3, 20, 70])
def test_two_cliques_come_apart_at_their_edge(size: int) -> None:
    nets = clique(range(size)) + clique(range(size, 2 * size)) + [(0, size)]
    graph = made(2 * size, nets)
    side = halves(graph, size // 2 + 1)
    assert cut_of(graph, side) == 100
    assert len(set(side[:size])) == len(set(side[size : 2 * size])) == 1


@pytest.mark.parametrize(("rows", "columns"), [(3, 8), (5, 20), (8, 40), (15, 60)])
def test_a_lattice_is_cut_along_its_short_side(rows: int, columns: int) -> None:
    graph = made(rows * columns, lattice(rows, columns))
    assert cut_of(graph, halves(graph, int(0.4 * rows * columns))) == 100 * rows


@pytest.mark.parametrize("n", [2, 3, 10, 500])
def test_a_chain_is_cut_once(n: int) -> None:
    graph = made(n, [(k, k + 1) for k in range(n - 1)])
    side = halves(graph, max(1, int(0.45 * n)))
    assert cut_of(graph, side) == 100
    assert sum(a != b for a, b in itertools.pairwise(side[:n])) == 1


def test_a_net_costs_once_however_many_pins() -> None:
    """Ten triangles with pins of one net on all: it is cut in any way, the triangles need not be."""
    nets: Nets = [(3 * k, 3 * k + 1, 3 * k + 2) for k in range(10)]
    graph = made(30, [*nets, tuple(range(30))])
    assert cut_of(graph, halves(graph, 15)) == 100


def test_the_cheaper_net_is_cut() -> None:
    graph = made(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], [9, 9, 9, 1, 9])
    side = halves(graph, 2)
    assert side[:4] == [side[0]] * 4
    assert side[4] == side[5] != side[0]


def test_what_is_open_goes_outside() -> None:
    """A chain with an open end: the few vertices that part 1 may have are those at that end."""
    graph = made(10, [(k, k + 1) for k in range(10)])
    side = bisect(graph, [7, 3], [5, 5])
    assert list(side) == [0] * 7 + [1] * 4


def test_what_is_not_connected_falls_apart() -> None:
    graph = made(7, [(0, 2), (2, 4), (1, 3, 7), (5, 7), (6, 7)])
    side = [0] * 8
    assert fall_apart(graph, side)
    assert side[0] == side[2] == side[4] != side[1] == side[3]
    assert not fall_apart(made(3, [(0, 1), (1, 2)]), [0] * 4)


def random_graph(r: random.Random, n: int, pins: int, nets: int) -> Hypergraph:
    chosen = [
        tuple(r.sample(range(n + 1), r.randint(2, min(n, pins)))) for _ in range(r.randint(1, nets))
    ]
    return made(n, chosen, [r.randint(1, 9) for _ in chosen])


def test_few_vertices_are_bisected_best() -> None:
    """All bisections are looked at; of 200 hypergraphs at most 10 have a better one."""
    r, missed = random.Random(0), 0
    for seed in range(200):
        n = r.randint(2, 9)
        graph = random_graph(r, n, 4, 2 * n)
        smallest = r.randint(1, n // 2)
        every = [[*side, 1] for side in itertools.product((0, 1), repeat=n)]
        least = min(
            cut_of(graph, side) for side in every if smallest <= sum(side[:n]) <= n - smallest
        )
        cut = cut_of(graph, halves(graph, smallest, seed))
        assert cut >= least
        missed += cut > least
    assert missed <= 10


@given(st.integers(2, 60), st.integers(0, 1000))
def test_gains_are_what_the_cut_falls_by(n: int, seed: int) -> None:
    """After any moves the gains brought up to date are those from scratch."""
    r = random.Random(seed)
    nets = [
        tuple(r.sample(range(n + 1), r.randint(2, min(n, 6)))) for _ in range(r.randint(1, 3 * n))
    ]
    graph = made(n, nets, [r.randint(1, 9) for _ in nets])
    side = [r.randint(0, 1) for _ in range(n)] + [1]
    count, gain, moved = [0] * (2 * len(graph.cost)), [0] * (n + 1), [0] * n + [1]
    bisection.count_pins(graph, side, count)
    for v in range(n):
        bisection.is_border(graph, v, side, count, gain)
    for v in r.sample(range(n), r.randint(1, n)):
        before = cut_of(graph, side)
        moved[v] = 1
        changed = [0] * n
        for k in range(bisection.move(graph, v, side, count, gain, moved, changed)):
            moved[changed[k]] = 0
        assert before - cut_of(graph, side) == gain[v]
        fresh = [0] * (n + 1)
        for u in range(n):
            bisection.is_border(graph, u, side, count, fresh)
        assert all(gain[u] == fresh[u] for u in range(n) if not moved[u])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("imbalance", [0.0, 0.5, 0.95, 1.0])
def test_trees_are_valid(imbalance: float, compiled: bool) -> None:
    networks = [
        chain(2), chain(40), ring(30), star(25), grid(5, 7),
        Network([(k,) for k in range(20)], range(20), dict.fromkeys(range(20), 2)),
        *random_networks(6, 5, tensors=40),
    ]  # fmt: skip
    for seed, network in enumerate(networks):
        n = len(network.terms)
        path = Core(graph_of(network), compiled).partition(imbalance, seed)
        assert total_cost(network, tree_of(n, path)).cost > 0


def test_one_tensor_needs_no_step() -> None:
    assert Core(graph_of(chain(1)), False).partition() == []


def test_a_long_lattice_is_swept() -> None:
    """No result has more than a column and a corner of labels: 2**(6 + 2)."""
    network = grid(6, 25)
    core = Core(graph_of(network), False)
    trees = [tree_of(150, core.partition(0.9, seed)) for seed in range(3)]
    assert min(total_cost(network, tree).largest_intermediate for tree in trees) <= 2**8


def test_large_networks_take_no_quadratic_time() -> None:
    """40,000 tensors in a ring, and 4 labels on 1,000 of them each."""
    r = random.Random(0)
    n = 40_000
    rows = [[k, (k + 1) % n] for k in range(n)]
    for label in range(n, n + 4):
        for tensor in r.sample(range(n), 1000):
            rows[tensor].append(label)
    network = Network(rows, (), dict.fromkeys(range(n + 4), 2))
    path = Core(graph_of(network), True).partition(0.1)
    assert sorted(int(x) for x in path) == list(range(2 * n - 2))

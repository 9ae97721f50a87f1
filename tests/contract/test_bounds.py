"""Lower bounds: never above the best of all trees, equal to it where that is promised."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from math import inf, prod

import pytest
from tests.contract.test_planners import all_trees
from tests.networks import FAMILIES, chain, graph, grid, random_networks, regular, ring, star

import einloom
from einloom import Network
from einloom.contract import bounds
from einloom.contract.bounds import Bound, chain_of, lower_bound, minor_min_width
from einloom.contract.cost import size_of, total_cost, walk
from einloom.contract.tree import ContractionTree

SMALL = [
    network
    for sizes in [(1, 2, 3, 4), (2, 3), (0, 1, 2)]
    for tensors in [1, 2, 3, 4, 4, 5]
    for network in random_networks(tensors, 10, tensors, sizes)
]


@cache
def trees(n: int) -> list[ContractionTree]:
    return list(all_trees(n))


@cache
def best(network: Network) -> Bound:
    """Of all trees, the least cost and the smallest largest step."""
    found = [
        [size_of(step.union, network.extents) for step in walk(network, tree)]
        for tree in trees(len(network.terms))
    ]
    return Bound(min(map(sum, found)), min(map(max, found)))


def matrices(sizes: Iterable[int]) -> Network:
    """A product of matrices of these sizes."""
    extents = dict(enumerate(sizes))
    n = len(extents) - 1
    return Network([(k, k + 1) for k in range(n)], (0, n), extents)


def optimal_cost(network: Network) -> int:
    return einloom.plan(network, planner="optimal", objective="flops").cost


def test_few_tensors_have_the_exact_optimum() -> None:
    for network in SMALL:
        assert lower_bound(network) == best(network), network.inputs


@pytest.mark.parametrize("exact", [1, 2, 3, 4])
def test_never_above_the_best_tree(exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With blocks as small as those of large networks."""
    monkeypatch.setattr(bounds, "EXACT", exact)
    for network in SMALL:
        found, least = lower_bound(network), best(network)
        assert found.cost <= least.cost, (network.inputs, network.output, network.sizes)
        assert found.largest <= least.largest, (network.inputs, network.output, network.sizes)


@pytest.mark.parametrize("exact", [1, 3, 5])
def test_never_above_the_optimal_planner(exact: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "EXACT", exact)
    for tensors in (6, 7, 8):
        for network in random_networks(tensors, 30, tensors, (1, 2, 3, 5)):
            assert lower_bound(network).cost <= optimal_cost(network), network.inputs


def test_nor_above_any_plan_of_larger_networks() -> None:
    networks = [
        grid(4, 4),
        grid(5, 6, 3),
        ring(30),
        star(20),
        *(regular(3, 24, k) for k in range(4)),
    ]
    for network in networks:
        plan = einloom.plan(network, budget=4)
        assert len(network.terms) <= plan.lower_bound.cost <= plan.cost
        steps = [size_of(step.union, network.extents) for step in walk(network, plan.tree)]
        assert plan.lower_bound.largest <= max(steps)


def test_chains_have_the_exact_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(1)
    for exact in (12, 1):  # all trees; the order of the product
        monkeypatch.setattr(bounds, "EXACT", exact)
        for _ in range(60):
            n = r.randint(2, 8)
            sizes = [
                r.choice((1, 2, 3)),
                *(r.choice((2, 2, 3, 7)) for _ in range(n - 1)),
                r.choice((1, 4)),
            ]
            assert lower_bound(matrices(sizes)).cost == optimal_cost(matrices(sizes)), sizes


def test_a_batch_of_chains_is_that_many_chains() -> None:
    inputs = [("x", k, k + 1) for k in range(30)]
    sizes = dict.fromkeys(range(31), 2)
    for output in ((0, 30), ("x", 0, 30)):
        batch = Network(inputs, output, {"x": 5, **sizes})
        assert lower_bound(batch).cost == 5 * lower_bound(chain(30)).cost == 5 * 29 * 8


def test_what_is_no_chain() -> None:
    def sizes_of(network: Network) -> list[int] | None:
        return chain_of(network.carried, network.open, network.extents)

    assert sizes_of(matrices([2, 3, 4, 5])) == [2, 3, 4, 5]
    assert sizes_of(
        Network(["axy", "xyb", "b"], "a", dict(zip("abxy", (5, 7, 2, 3), strict=True)))
    ) in (
        [5, 6, 7, 1],
        [1, 7, 6, 5],
    )
    for network in [
        ring(5),
        star(5),
        grid(2, 3),
        Network(["a", "abx", "b"], "x", dict.fromkeys("abx", 2)),
    ]:
        assert sizes_of(network) is None


def test_outer_products_may_be_best() -> None:
    """Where a chain has a large open label in its middle, which is why it does not count as one."""
    network = Network(["a", "abx", "b"], "x", {"a": 2, "b": 2, "x": 50})
    assert (
        lower_bound(network).cost == total_cost(network, ContractionTree(3, ((0, 2), (1, 3)))).cost
    )


# Minor-min-width --------------------------------------------------------------------------------


def width_of(
    vertices: int, edges: Iterable[tuple[int, int]], sizes: list[int] | None = None
) -> int:
    cliques = {frozenset(edge) for edge in edges}
    return minor_min_width(cliques, sizes or [2] * vertices)


def test_known_treewidths() -> None:
    """A bag of a graph of treewidth w has w + 1 vertices, here of size 2."""
    path = [(k, k + 1) for k in range(9)]
    assert width_of(10, path) == 2**2
    assert width_of(10, [*path, (9, 0)]) == 2**3
    complete = [(a, b) for a in range(7) for b in range(a)]
    assert width_of(7, complete) == 2**7
    halves = [(a, b) for a in range(4) for b in range(4, 8)]
    assert width_of(8, halves) == 2**5
    petersen = [(k, (k + 1) % 5) for k in range(5)] + [(k, k + 5) for k in range(5)]
    petersen += [(5 + k, 5 + (k + 2) % 5) for k in range(5)]
    assert 2**4 <= width_of(10, petersen) <= 2**5
    lattice = [(5 * r + c, 5 * r + c + 1) for r in range(5) for c in range(4)]
    lattice += [(5 * r + c, 5 * r + c + 5) for r in range(4) for c in range(5)]
    assert 2**4 <= width_of(25, lattice) <= 2**6


def test_weights() -> None:
    assert width_of(3, [(0, 1), (1, 2)], [5, 2, 3]) == 10
    assert width_of(3, [(0, 1), (1, 2), (0, 2)], [5, 2, 3]) == 30


def test_the_largest_step_has_at_least_the_minor_min_width() -> None:
    for network in [grid(5, 5), regular(4, 30, 1), regular(3, 60, 2)]:
        width = minor_min_width(set(network.carried), network.extents)
        found = lower_bound(network)
        assert width <= found.largest < found.cost


def test_lattices() -> None:
    for k in range(4, 8):
        assert 2 * k <= 2 * lower_bound(grid(k, k)).log2_largest <= 2 * (k + 2)


# Edges ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family: str) -> None:
    plan = einloom.plan(FAMILIES[family], objective="flops")
    assert plan.lower_bound.cost <= plan.cost
    if len(plan.network.terms) <= bounds.EXACT and plan.proof == "optimal":
        assert plan.lower_bound.cost == plan.cost


def test_sizes_0_and_1() -> None:
    nothing = lower_bound(chain(20, 0))
    assert nothing == Bound(0, 0)
    assert nothing.log2_cost == nothing.log2_largest == -inf
    assert lower_bound(chain(20, 1)) == Bound(19, 1)
    assert lower_bound(Network([""] * 20, "", {})) == Bound(19, 1)


def test_work_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less work gives weaker bounds, and bounds still."""
    network = regular(4, 40, 3)
    full = lower_bound(network)
    for name in ("WORK", "PAIRS", "SPLITS"):
        monkeypatch.setattr(bounds, name, 20)
        less = lower_bound(network)
        assert 4 * len(network.terms) <= less.cost <= full.cost
        assert less.largest <= full.largest


def test_large_networks() -> None:
    n = 10_000
    ends = [("open", k) for k in range(n)]
    state = Network(
        [(k, k + 1, end) for k, end in enumerate(ends)],
        ends,
        dict.fromkeys([*range(n + 1), *ends], 2),
    )
    start = time.process_time()
    assert lower_bound(state).largest == 2**n  # the output
    assert lower_bound(star(n)).cost > 2 * n
    assert lower_bound(chain(n)).cost > 2.5 * n
    assert lower_bound(graph(n, [(k, k // 2) for k in range(1, n)])).cost > 2 * n
    assert lower_bound(grid(100, 100)).largest > prod([2] * 5)
    assert time.process_time() - start < 60  # that none is quadratic


# In a plan --------------------------------------------------------------------------------------


def told(plan: einloom.Plan) -> str:
    return next(line for line in plan.explain().splitlines() if line.startswith("lower bound: "))


def test_a_plan_tells_its_gap() -> None:
    shapes = (8, 8), (8, 100), (100, 8)
    plan = einloom.plan("ij,jk,kl->il", *shapes)
    assert told(plan) == "lower bound: no tree of pairs makes fewer multiplications than this plan"
    plan = einloom.plan("ij,jk,kl->il", *shapes, planner=[(0, 1), (0, 1)])
    assert told(plan) == (
        "lower bound: at least 6912 multiplications; "
        "this plan makes at most 1.86 times as many as the best tree"
    )
    assert plan.lower_bound is plan.lower_bound


def test_what_a_planner_proves_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planners may look at all trees of more tensors than the bound does."""
    monkeypatch.setattr(bounds, "EXACT", 4)
    plan = einloom.plan(grid(3, 3), planner="optimal", objective="flops")
    assert plan.lower_bound.cost < plan.cost
    assert "no tree of pairs" in told(plan)
    assert "this plan makes at most" in told(replace(plan, sliced=(0,)))


def test_steps_of_other_than_two_operands_may_make_fewer() -> None:
    plan = einloom.plan("a,a,a->a", (9,), (9,), (9,), planner=[(0, 1, 2)])
    assert told(plan) == (
        "lower bound: at least 18 multiplications by steps of two operands; "
        "this plan, by others, 9 multiplications"
    )


def test_slices_and_constants_are_counted() -> None:
    plan = einloom.plan("ij,jk,kl->il", (8, 8), (8, 100), (100, 8), constants=(0, 1, 2))
    assert plan.cost == 0
    assert "no tree of pairs" in told(plan)
    whole = einloom.plan(grid(3, 4), planner="optimal", objective="flops")
    assert whole.cost == whole.lower_bound.cost
    sliced = replace(whole, sliced=(0, 5))
    assert sliced.lower_bound == whole.lower_bound
    assert "this plan makes at most" in told(sliced)

"""Networks without cycles: dynamic programming over their bonds against all trees that contract bonds."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from tests.networks import chain

import einloom
from einloom import Network
from einloom.contract.planners.acyclic import Forest, best_path, forest_of
from einloom.contract.planners.core.run import Core, Graph

TERMS = {"flops": (1.0, 0.0), "time": (1.0, 7.2), "write": (0.0, 0.0, 1.0)}


def acyclic(r: random.Random, n: int, is_chain: bool) -> Network:
    """A random chain or tree, with double bonds, labels of the output, and labels summed on one tensor."""
    terms: list[list[int]] = [[] for _ in range(n)]
    extents, output = list[int](), list[int]()

    def put(*tensors: int) -> None:
        for tensor in tensors:
            terms[tensor].append(len(extents))
        extents.append(r.choice((1, 2, 3, 4, 7)))

    for k in range(1, n):
        for _ in range(r.choice((1, 1, 2))):
            put(k, k - 1 if is_chain else r.randrange(k))
    for tensor in range(n):
        if r.random() < 0.3:
            output.append(len(extents))
            put(tensor)
        elif r.random() < 0.2:
            put(tensor)
    r.shuffle(terms)
    return Network(terms, output, dict(enumerate(extents)))


def forest(network: Network) -> tuple[Core, Forest]:
    graph = Graph.of(network.carried, network.open, network.extents)
    found = forest_of(graph)
    assert found is not None
    return Core(graph, False), found


def is_acyclic(network: Network) -> bool:
    """Bonds of size 1 count for nothing, so that a network may fall apart."""
    return forest_of(Graph.of(network.carried, network.open, network.extents)) is not None


def best_by_bonds(network: Network, terms: Sequence[float]) -> float:
    """The least cost of all orders in which bonds can be contracted; all are looked at."""
    multiplied, moved, written = (*terms, 0.0)[:3]

    def size(labels: frozenset[int]) -> int:
        return math.prod(network.extents[x] for x in labels)

    def least(tensors: list[frozenset[int]]) -> float:
        best = math.inf if len(tensors) > 1 else 0.0
        for a, b in itertools.combinations(tensors, 2):
            if size(a & b) > 1:
                rest = list(tensors)
                rest.remove(a)
                rest.remove(b)
                made = (a | b) & network.open.union(*rest)
                cost = (
                    multiplied * size(a | b)
                    + moved * (size(a) + size(b))
                    + (moved + written) * size(made)
                )
                best = min(best, cost + least([*rest, made]))
        return best

    return least(list(network.carried))


@pytest.mark.parametrize("objective", TERMS)
@pytest.mark.parametrize("is_chain", [True, False], ids=["chain", "tree"])
def test_against_all_orders(objective: str, is_chain: bool) -> None:
    for seed in range(12):
        r = random.Random(seed)
        network = acyclic(r, r.randint(2, 5), is_chain)
        if not is_acyclic(network):
            continue
        core, found = forest(network)
        terms = core.terms(TERMS[objective])
        path = best_path(found, terms)
        assert path is not None
        least = best_by_bonds(network, TERMS[objective])
        assert core.cost_of(path, terms) == pytest.approx(math.log2(least), abs=1e-6), seed


@pytest.mark.parametrize("objective", TERMS)
def test_chains_by_intervals_and_as_trees_agree(objective: str) -> None:
    for seed in range(60):
        r = random.Random(seed)
        network = acyclic(r, r.randint(2, 16), True)
        if not is_acyclic(network):
            continue
        core, found = forest(network)
        terms = core.terms(TERMS[objective])
        costs = [
            core.cost_of(best_path(one, terms), terms)
            for one in (found, found._replace(is_chain=False))
        ]
        assert costs[0] == pytest.approx(costs[1], abs=1e-6)


def test_nothing_beats_it_on_products_of_matrices() -> None:
    for seed in range(60):
        r = random.Random(seed)
        n = r.randint(2, 8)
        ends = r.choice(([], [0], [n], [0, n]))
        terms = [[x for x in (k, k + 1) if 0 < x < n or x in ends] for k in range(n)]
        sizes = {k: r.randint(2, 9) for k in range(n + 1)}
        network = Network(terms, ends, {x: sizes[x] for term in terms for x in term})
        core, found = forest(network)
        assert found.is_product()
        flops = core.terms((1.0, 0.0))
        path = best_path(found, flops)
        least = core.cost_of(core.exact(flops), flops)
        assert core.cost_of(path, flops) == pytest.approx(least, abs=1e-6)


def test_cuts_are_counted() -> None:
    for seed in range(30):
        r = random.Random(seed)
        network = acyclic(r, r.randint(2, 9), False)
        if is_acyclic(network):
            found = forest(network)[1]._replace(is_chain=False)
            n = len(found.tensors)
            sets = [
                bits
                for bits in range(1, 1 << n)
                # connected: one tensor has its parent outside
                if sum(not bits >> found.parent[k] & 1 for k in range(1, n) if bits >> k & 1)
                + (bits & 1)
                == 1
            ]
            assert found.cuts() == sum(bits.bit_count() - 1 for bits in sets)


@pytest.mark.parametrize(
    "subscripts",
    ["ab,bc,ca->", "ab,bc,b->ac", "ab,bc->abc", "ab,cd->abcd", "ab,ba,cd,de,ec->"],
    ids=["a cycle", "a hyperedge", "a bond in the output", "two parts", "two parts, one a cycle"],
)
def test_what_has_cycles_or_more_is_none(subscripts: str) -> None:
    inputs, output = subscripts.split("->")
    network = Network(inputs.split(","), output, dict.fromkeys(set(inputs) - {","}, 2))
    assert not is_acyclic(network)


def test_results_beyond_floats_are_left_to_other_planners() -> None:
    network = chain(12, 1 << 200)
    core, found = forest(network)
    assert best_path(found, core.terms((1.0, 0.0))) is None
    assert best_path(found._replace(is_chain=False), core.terms((1.0, 0.0))) is None
    assert einloom.plan(network, budget=1).cost > 0


def test_a_long_product_of_matrices_is_planned_at_its_best() -> None:
    r = random.Random(0)
    sizes = dict(enumerate(r.choices(range(2, 60), k=61)))
    network = Network([(k, k + 1) for k in range(60)], (0, 60), sizes)
    plan = einloom.plan(network, objective="flops")
    assert (plan.cost, plan.proof) == (plan.lower_bound.cost, "optimal")
    assert plan.planner.startswith("dynamic programming")


def test_other_trees_are_searched_further() -> None:
    """Two vectors on one small tensor are best multiplied first, which contracts no bond."""
    network = Network(
        ["ax", "by", "abc", *("cd", "de", "ef", "fg", "gh", "hi", "ij", "jk")], "xyk",
        dict(dict.fromkeys("abcdefghijk", 2), x=1, y=1, c=64),
    )  # fmt: skip
    core, found = forest(network)
    terms = core.terms((1.0, 0.0))
    by_bonds = core.cost_of(best_path(found, terms), terms)
    plan = einloom.plan(network, objective="flops", budget=60)
    assert math.log2(plan.cost) < by_bonds
    assert plan.proof is None

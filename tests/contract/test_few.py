"""The best tree of a few tensors: no tree is better, and compiled and plain code find the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.networks import FAMILIES, chain, grid, random_networks, ring, star

import einloom
from einloom import Network
from einloom.contract.cost import total_cost
from einloom.contract.planners.core import few
from einloom.contract.planners.core.run import Core, Graph, load
from einloom.contract.planners.few import EXACT, best_of_few, few_of
from einloom.contract.planners.portfolio import steps_of
from einloom.contract.planners.problem import Objective, Problem
from einloom.contract.tree import ContractionTree, depth_first
from einloom.contract.weigh import weigh

OBJECTIVES: tuple[Objective, ...] = ("time", "flops", "write")
FEW = [
    *(net for net in FAMILIES.values() if 1 < len(net.terms) <= EXACT),
    chain(EXACT, 3),
    ring(EXACT),
    star(9),
    grid(2, 5, 3),
    *(net for n in range(2, EXACT + 1) for net in random_networks(n, 4, tensors=n)),
]


def of_all_subsets(network: Network, problem: Problem) -> ContractionTree:
    """By the dynamic programming over sets of labels that solves subtrees, given the greedy tree."""
    n = len(network.terms)
    core = Core(Graph.of(network.carried, network.open, network.extents), True)
    tree = core.tree(core.greedy())
    tree.reconfigure(core.terms(problem.terms()), n, 1)
    return ContractionTree(n, steps_of(tree.path()))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_tree_is_better(objective: Objective) -> None:
    problem = Problem(objective)
    for network in FEW:
        found = best_of_few(network, problem)
        assert found is not None
        want = weigh(network, of_all_subsets(network, problem), problem).call
        assert weigh(network, found.tree, problem).call <= want * (1 + 1e-9)
        assert found.proof == "optimal"


def by_each(network: Network, problem: Problem, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """By compiled code, by NumPy, and by plain Python."""
    found, run = [], "einloom.contract.planners.core.run"
    for is_loaded, wide in ((True, 0), (False, 0), (False, EXACT + 1)):
        monkeypatch.setattr(f"{run}.is_ready", lambda at=is_loaded: at)
        monkeypatch.setattr(f"{run}.WIDE", wide)
        found.append(best_of_few(network, problem))
    return found


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_compiled_and_plain_and_by_levels_agree(
    objective: Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    load()
    r = random.Random(1)
    many = [
        *FEW,
        *random_networks(5, 12, tensors=8, sizes=(1, 2, 7, 64)),
        *(Network(n.inputs, n.output, {x: r.choice((2, 3, 10**9)) for x in n.sizes}) for n in FEW),
    ]
    for network in many:
        compiled, levels, plain = by_each(network, Problem(objective), monkeypatch)
        assert compiled == levels == plain
        assert all(type(x) is int for step in compiled.tree.ssa_path for x in step)


def test_a_subtree_ends_before_the_next_begins() -> None:
    for network in FEW:
        found = best_of_few(network, Problem())
        assert found is not None
        assert depth_first(found.tree.n, found.tree.ssa_path) == found.tree.ssa_path


def test_what_one_tensor_sums_alone() -> None:
    """Its labels are in the step that takes it: so b, of size 90, costs less beside the smaller c."""
    network = Network(["ab", "a", "ac"], "c", {"a": 5, "b": 90, "c": 3})
    plan = einloom.plan(network, objective="flops")
    assert plan.cost == min(
        total_cost(network, ContractionTree(3, steps)).cost
        for steps in (((0, 1), (3, 2)), ((0, 2), (3, 1)), ((1, 2), (3, 0)))
    )


def test_outer_products() -> None:
    """x z first, where c is smaller than b."""
    network = Network(["a", "ab", "c"], "abc", {"a": 50, "b": 40, "c": 3})
    assert einloom.plan(network, objective="flops").ssa_path == ((0, 2), (3, 1))


@pytest.mark.parametrize("n", [3, 9])
def test_sizes_beyond_floats_are_left_to_others(n: int) -> None:
    network = Network([(k, k + 1) for k in range(n)], (0, n), dict.fromkeys(range(n + 1), 10**500))
    assert best_of_few(network, Problem()) is None
    plan = einloom.plan(network, objective="flops")
    assert plan.cost == (n - 1) * 10**1500


def test_two_tensors_of_any_size() -> None:
    network = Network(["ab", "bc"], "ac", dict.fromkeys("abc", 10**500))
    plan = einloom.plan(network, objective="flops")
    assert (plan.cost, plan.proof) == (10**1500, "optimal")


def test_just_below_the_largest_sizes() -> None:
    network = Network([(k, k + 1) for k in range(9)], (0, 9), dict.fromkeys(range(10), 1 << 90))
    found = best_of_few(network, Problem("flops"))
    assert found is not None
    assert total_cost(network, found.tree).cost == 8 * (1 << 270)


def test_the_largest_result_and_many_tensors_are_left_to_others() -> None:
    assert few_of(Problem("size")) < few_of(Problem()) == EXACT
    assert best_of_few(chain(3), Problem("size")) is None
    assert best_of_few(chain(EXACT + 1), Problem()) is None


def test_zeros_and_scalars() -> None:
    zero = Network(["ab", "bc", "cd"], "ad", {"a": 2, "b": 0, "c": 3, "d": 2})
    assert einloom.plan(zero).proof is None
    scalars = Network([""] * EXACT, "", {})
    assert len(einloom.plan(scalars).ssa_path) == EXACT - 1


def test_plans_of_ten_are_proven_and_right(rng: np.random.Generator) -> None:
    network = grid(2, 5, 3)
    plan = einloom.plan(network)
    assert (plan.planner, plan.proof) == ("optimal", "optimal")
    arrays = [rng.standard_normal(shape) for shape in network.shapes]
    one_step = einloom.compile(network, planner=False)
    np.testing.assert_allclose(einloom.compile(plan)(*arrays), one_step(*arrays), rtol=1e-10)


def test_optimal_of_more_by_the_same_search() -> None:
    """Up to sixteen tensors of the planner that is asked for by name."""
    network = next(iter(random_networks(8, 1, tensors=13)))
    by_name = einloom.plan(network, planner="optimal", objective="flops")
    want = total_cost(network, of_all_subsets(network, Problem("flops"))).cost
    assert by_name.cost == want


@pytest.mark.parametrize("seed", range(20))
def test_three_tensors(seed: int) -> None:
    """Their best tree is that of the search among all sets, where trees cost the same too."""
    r = random.Random(seed)
    for _ in range(200):
        holders = [
            r.choice([held for held in range(1, 16) if held & 7]) for _ in range(r.randint(1, 7))
        ]
        sizes = [float(r.choice([2, 2, 3, 4, 8, 10, 64, 7, 100])) for _ in holders]
        rates = r.choice([(1.0, 0.0), (1.0, 14.4), (0.0, 1.0), (1.0, 7.2)])
        path = [0] * 4
        few.best_of_few(3, holders, sizes, *rates, path)  # type: ignore[arg-type]
        assert few.best_of_three(holders, sizes, *rates) == path

"""n_runs: what constants cost is shared among so many calls."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.test_planners import all_trees
from tests.networks import equation_of, random_network

import einloom
from einloom import Network, Plan
from einloom.contract.cost import size_of, walk
from einloom.contract.tree import ContractionTree


def counted(network: Network, tree: ContractionTree, constants: frozenset[int]) -> tuple[int, int]:
    """Multiplications of steps of constants alone, and of the others, counted another way."""
    below: list[set[int]] = [{k} for k in range(tree.n)]
    before = call = 0
    for step, labels in zip(tree.ssa_path, walk(network, tree), strict=True):
        below.append(set().union(*(below[tensor] for tensor in step)))
        size = size_of(labels.union, network.extents)
        before, call = (before + size, call) if below[-1] <= constants else (before, call + size)
    return before, call


def of_runs(plan: Plan, n_runs: int) -> int:
    before, call = counted(plan.network, plan.tree, plan.constants)
    assert (plan.constant_cost, plan.cost) == (before, call)
    return before + n_runs * call


seeds = st.integers(0, 10**6)


@settings(max_examples=25, deadline=None)
@given(seeds, st.sampled_from([1, 2, 7, 1000]))
def test_the_least_of_all_trees(seed: int, n_runs: int) -> None:
    r = random.Random(seed)
    network = random_network(r, 5, (1, 2, 3, 8))
    constants = frozenset(r.sample(range(5), r.randint(2, 4)))
    plan = einloom.plan(network, constants=constants, n_runs=n_runs, objective="flops")
    least = min(
        before + n_runs * call
        for before, call in (counted(network, tree, constants) for tree in all_trees(5))
    )
    assert of_runs(plan, n_runs) == least
    assert plan.proof == "optimal"
    assert plan.n_runs == n_runs


@settings(max_examples=10, deadline=None)
@given(seeds, st.sampled_from([2, 30, 10**6]))
def test_never_above_the_plan_for_one_call_or_for_any_number(seed: int, n_runs: int) -> None:
    r = random.Random(seed)
    network = random_network(r, 12, (2, 3, 4))
    constants = r.sample(range(12), 6)
    ours = einloom.plan(network, constants=constants, n_runs=n_runs, objective="flops", budget=8)
    for other in (1, None):
        plan = einloom.plan(network, constants=constants, n_runs=other, objective="flops", budget=8)
        if other == 1:
            assert of_runs(ours, n_runs) <= of_runs(plan, n_runs)
        else:
            assert plan.cost <= einloom.plan(network, budget=8, objective="flops").cost


def test_one_run_is_the_plan_without_constants() -> None:
    r = random.Random(3)
    for tensors in (3, 6, 11):
        network = random_network(r, tensors, (2, 3, 4))
        for constants in combinations(range(tensors), 2):
            plan = einloom.plan(network, constants=constants, n_runs=1, budget=4)
            assert plan.tree == einloom.plan(network, budget=4).tree
            assert plan.constant_cost + plan.cost == einloom.plan(network, budget=4).cost


def test_what_is_worth_doing_once_depends_on_how_often() -> None:
    """(A B) x costs 1000 once and 100 a call, A (B x) costs 200 a call: ten calls are the same."""
    shapes = (10, 10), (10, 10), (10,)
    costs = {
        n: einloom.plan("ij,jk,k->i", *shapes, constants=[0, 1], n_runs=n, objective="flops").cost
        for n in (1, 2, 9, 11, 1000, None)
    }
    assert costs == {1: 200, 2: 200, 9: 200, 11: 100, 1000: 100, None: 100}


def test_for_any_number_some_constants_stay_apart() -> None:
    """All three constants together make every call dear, two of them save what stands between."""
    shapes = (2000,), (2000, 3), (3, 3), (3, 2000)
    plan = einloom.plan("a,ab,bc,cd->d", *shapes, constants=[1, 2, 3], objective="flops")
    assert (plan.cost, plan.constant_cost) == (12_000, 18_000)


@pytest.mark.parametrize("objective", ["time", "flops", "write", lambda plan: plan.cost])
@pytest.mark.parametrize("n_runs", [None, 1, 5, 10**30])
def test_results_are_einsums(objective: object, n_runs: int | None) -> None:
    r = random.Random(5)
    rng = np.random.default_rng(5)
    for _ in range(4):
        network = random_network(r, 6)
        arrays = [rng.integers(-3, 4, shape).astype(float) for shape in network.shapes]
        constants = r.sample(range(6), 3)
        expression = einloom.compile(
            equation_of(network), *arrays, constants=constants, n_runs=n_runs, objective=objective
        )
        free = [x for k, x in enumerate(arrays) if k not in constants]
        wanted = np.einsum(equation_of(network), *arrays)
        np.testing.assert_allclose(expression(*free), wanted, rtol=1e-12)
        assert Plan.from_json(expression.plan.to_json()) == expression.plan


def test_within_a_memory_limit() -> None:
    shapes = (64, 64), (64, 64), (64, 64), (64, 2)
    network = einloom.plan("ij,jk,kl,lm->im", *shapes).network
    plan = einloom.plan(network, constants=[0, 1, 2], n_runs=100, memory_limit="180kB")
    assert plan.peak_bytes <= 180_000
    assert not any("run" in str(network.name(label)) for label in plan.sliced)


def test_more_runs_are_worth_more_planning() -> None:
    network = Network(
        [(k, (k + 1) % 12, 12 + k % 3) for k in range(12)], (), dict.fromkeys(range(15), 3)
    )
    plans = [einloom.plan(network, n_runs=n) for n in (1, 10**9)]
    assert plans[0].planner == "greedy"
    assert plans[1].planner != "greedy"
    assert plans[1].cost <= plans[0].cost


@pytest.mark.parametrize("planner", ["greedy", "random-greedy", "elimination", "optimal", "dp"])
def test_every_named_planner(planner: str) -> None:
    shapes = (10, 10), (10, 10), (10,)
    plan = einloom.plan("ij,jk,k->i", *shapes, constants=[0, 1], n_runs=1000, planner=planner)
    assert plan.cost in (100, 200)
    assert planner not in ("optimal", "dp") or plan.cost == 100


def test_seconds_are_shared() -> None:
    network = random_network(random.Random(1), 30, (2, 3))
    plan = einloom.plan(network, constants=range(6), n_runs=50, budget=0.05)
    assert "clock" in plan.planner


def test_a_path_is_taken_as_it_is() -> None:
    shapes = (10, 10), (10, 10), (10,)
    path = [(1, 2), (0, 1)]
    plan = einloom.plan("ij,jk,k->i", *shapes, constants=[0, 1], n_runs=1000, planner=path)
    assert (plan.cost, plan.constant_cost, plan.n_runs) == (200, 0, 1000)


@pytest.mark.parametrize("n_runs", [0, -1, True, 2.0, "many", np.int64(3)])
def test_what_is_no_number_of_calls(n_runs: object) -> None:
    with pytest.raises(einloom.OptionError, match=r"plan\(n_runs=.*positive integer"):
        einloom.plan("ij,jk->ik", (2, 2), (2, 2), n_runs=n_runs)  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", ["size", "peak"])
def test_objectives_without_work(objective: str) -> None:
    with pytest.raises(einloom.OptionError, match="memory does not depend"):
        einloom.plan("ij,jk->ik", (2, 2), (2, 2), n_runs=3, objective=objective)

"""What plans are searched for, and that the planner which looks at all trees finds the least of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from tests.contract.test_planners import all_trees, assert_right
from tests.networks import FAMILIES, grid, random_networks

import einloom
from einloom import Network, OptionError, Plan
from einloom.contract.cost import size_of, walk
from einloom.contract.tree import ContractionTree


def written(network: Network, tree: ContractionTree) -> int:
    return sum(size_of(step.result, network.extents) for step in walk(network, tree))


@pytest.mark.parametrize("tensors", range(2, 6))
def test_the_fewest_elements_written(tensors: int) -> None:
    for network in random_networks(tensors, 8, tensors):
        if 0 in network.extents:
            continue
        least = min(written(network, tree) for tree in all_trees(tensors))
        plan = einloom.plan(network, objective="write")
        assert written(network, plan.tree) == least
        assert (plan.objective, plan.proof) == ("write", "optimal")


def test_peak_is_never_above_that_of_other_objectives() -> None:
    for network in [grid(4, 4, 4), *random_networks(5, 10, tensors=10)]:
        plan = einloom.plan(network, objective="peak")
        others = [einloom.plan(network, objective=name) for name in ("size", "write", "time")]
        assert plan.peak_bytes <= min(other.peak_bytes for other in others)
        assert plan.proof is None
        assert plan.objective == "peak"


@pytest.mark.parametrize("family", [name for name, one in FAMILIES.items() if len(one.terms) < 10])
@pytest.mark.parametrize("objective", ["write", "peak"])
def test_every_family(family: str, objective: str) -> None:
    assert_right(einloom.plan(FAMILIES[family], objective=objective))


def test_a_function_of_the_plan() -> None:
    def most_steps_by_gemm(plan: Plan) -> float:
        asked.append(plan.cost)
        return -sum(len(step) == 2 for step in plan.ssa_path) + 1e-9 * plan.cost

    asked: list[int] = []
    network = grid(4, 4, 3)
    plan = einloom.plan(network, objective=most_steps_by_gemm)
    assert len(asked) > 2
    assert plan.cost == min(asked)
    assert plan.objective == "most_steps_by_gemm"
    assert Plan.from_json(plan.to_json()) == plan


def test_a_function_within_a_limit() -> None:
    network = grid(4, 5, 3)
    limit = einloom.plan(network).peak_bytes // 2
    plan = einloom.plan(network, objective=lambda one: one.flops, memory_limit=limit)
    assert plan.peak_bytes <= limit


def test_seconds_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def planner(network: Network, problem: einloom.contract.planners.Problem) -> object:
        asked.append(problem.seconds or 0.0)
        return einloom.contract.planners.PLANNERS["greedy"](network, problem)

    einloom.plan(
        grid(3, 3), objective="peak", planner=einloom.contract.planners.planner(planner), budget=3.0
    )
    assert sum(asked) == pytest.approx(3.0)


@pytest.mark.parametrize("objective", ["bytes", None, 3, ["time"]])
def test_other_values(objective: object) -> None:
    with pytest.raises(
        OptionError, match=r"^plan\(objective=.*write, peak, or a function of a plan"
    ):
        einloom.plan("ab,bc", (2, 2), (2, 2), objective=objective)  # type: ignore[arg-type]


def test_errors_of_a_function_are_the_users() -> None:
    def broken(plan: Plan) -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        einloom.plan("ab,bc,cd->ad", *[(2, 2)] * 3, objective=broken)


def test_orders_of_the_objectives() -> None:
    """Each is the least of its own figure among the others' plans, where all trees are looked at."""
    figures: dict[str, Callable[[Plan], float]] = {
        "flops": lambda plan: plan.cost,
        "size": lambda plan: plan.largest_intermediate,
        "write": lambda plan: written(plan.network, plan.tree),
    }
    for network in random_networks(9, 20, tensors=6, sizes=(2, 3, 4)):
        plans = {name: einloom.plan(network, objective=name) for name in figures}
        for name, other in itertools.product(figures, plans):
            assert figures[name](plans[name]) <= figures[name](plans[other])

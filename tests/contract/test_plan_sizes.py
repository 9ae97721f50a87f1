"""One tree for ranges of sizes: its ratios recomputed, never worse than the trees of single sizes."""

from __future__ import annotations

import math
import pickle
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract import test_planners
from tests.networks import grid, random_network

import einloom
from einloom import Network, SizedPlan
from einloom.contract.cost import total_cost
from einloom.contract.robust import all_trees, exchanged
from einloom.contract.tree import ContractionTree

seeds = st.integers(0, 10**6)


def sized(network: Network, sizes: dict[Any, int]) -> Network:
    return Network(network.inputs, network.output, {**network.sizes, **sizes})


def log_cost(network: Network, tree: ContractionTree) -> float:
    return math.log(total_cost(network, tree).cost)


@settings(max_examples=15, deadline=None)
@given(seeds, st.sampled_from(["worst", "mean"]))
def test_the_least_of_all_trees(seed: int, criterion: str) -> None:
    """Of four tensors: the criterion at the sizes looked at, over all trees, counted another way."""
    r = random.Random(seed)
    network = random_network(r, 4, (2, 3, 4))
    names = r.sample(network.labels, min(2, len(network.labels)))
    plan = einloom.plan_sizes(
        network, sizes=dict.fromkeys(names, (2, 50)), criterion=criterion, objective="flops"
    )
    trees = list(test_planners.all_trees(4))
    networks = [sized(network, point) for point in plan.points]
    table = [[log_cost(net, tree) for net in networks] for tree in trees]
    least = [min(column) for column in zip(*table, strict=True)]

    def regret(row: list[float]) -> float:
        logs = [own - best for own, best in zip(row, least, strict=True)]
        return max(logs) if criterion == "worst" else sum(logs) / len(logs)

    figure = math.log(plan.worst if criterion == "worst" else plan.mean)
    assert figure == pytest.approx(min(map(regret, table)), abs=1e-9)
    ours = [log_cost(net, plan.tree) - best for net, best in zip(networks, least, strict=True)]
    np.testing.assert_allclose(np.log(plan.ratios), ours, atol=1e-9)
    assert plan.proof == "optimal"


@settings(max_examples=3, deadline=None)
@given(seeds, st.sampled_from(["worst", "mean"]), st.sampled_from(["time", "write", "size"]))
def test_never_worse_than_the_tree_of_a_single_size(
    seed: int, criterion: str, objective: str
) -> None:
    r = random.Random(seed)
    network = random_network(r, r.randint(6, 10), (2, 3, 4))
    names = r.sample(network.labels, min(3, len(network.labels)))
    plan = einloom.plan_sizes(
        network,
        sizes={x: [2, 9, 40] for x in names},
        criterion=criterion,
        objective=objective,
        budget=2,
    )
    assert all(ratio >= 1 - 1e-9 for ratio in plan.ratios)
    figure = plan.worst if criterion == "worst" else plan.mean
    for tree in {other.tree for other in plan.others}:
        logs = []
        for point, best in zip(plan.points, plan.others, strict=True):
            net = sized(network, point)
            logs.append(weight(net, tree, objective) - weight(net, best.tree, objective))
        assert (
            math.log(figure)
            <= (max(logs) if criterion == "worst" else sum(logs) / len(logs)) + 1e-9
        )


def weight(network: Network, tree: ContractionTree, objective: str) -> float:
    from einloom.contract.planners import Problem
    from einloom.contract.weigh import weigh

    return math.log(weigh(network, tree, Problem(objective)).call)  # type: ignore[arg-type]


def test_another_tree_is_better_at_one_end() -> None:
    """(A B) C and A (B C) cost 8 n 2 + 8 2 64 and n 2 64 + 8 n 64: what is better depends on n."""
    plan = einloom.plan_sizes(
        "ij,jk,kl->il", (8, "n"), ("n", 2), (2, 64), sizes={"n": (1, 1024)}, objective="flops"
    )
    assert plan.worst < 2
    assert plan.points == tuple({"n": n} for n in (1, 6, 32, 181, 1024))
    assert plan.for_sizes(n=1024).cost == 8 * 1024 * 2 + 8 * 2 * 64
    assert plan.for_sizes({"n": 7}).tree == plan.tree
    text = str(plan)
    assert text.startswith("one tree for n from 1 to 1024")
    assert "n = 1: 1.63 times what" in text


def test_results_are_einsums() -> None:
    rng = np.random.default_rng(0)
    plan = einloom.plan_sizes(
        "ab,bc,cd,de->ae", ("x", "y"), ("y", "y"), ("y", 3), (3, "x"), sizes={"x": [2, 5], "y": (1, 9)},
        dtype="f4",
    )  # fmt: skip
    for x in (2, 5):
        for y in (1, 4, 9):
            one = plan.for_sizes(x=x, y=y)
            assert one.tree == plan.tree
            arrays = [rng.integers(-3, 4, shape).astype("f4") for shape in one.network.shapes]
            want = np.einsum("ab,bc,cd,de->ae", *arrays)
            np.testing.assert_array_equal(einloom.compile(one)(*arrays), want)


def test_bond_dimensions_of_a_lattice() -> None:
    """Labels tied by one name, given as shapes; the worst ratio is that of some tree at every size."""
    network = grid(4, 4, 2)
    shapes = [tuple("chi" if x[2] == "right" else 2 for x in term) for term in network.inputs]
    plan = einloom.plan_sizes(network, *shapes, sizes={"chi": (2, 64)}, budget=8)
    single = einloom.plan(network, budget=8).tree
    at = [
        sized(network, {x: n for x in network.labels if x[2] == "right"})
        for n in (point["chi"] for point in plan.points)
    ]
    logs = [
        weight(net, single, "time") - weight(net, other.tree, "time")
        for net, other in zip(at, plan.others, strict=True)
    ]
    assert math.log(plan.worst) <= max(logs) + 1e-9


def test_many_variables() -> None:
    network = grid(3, 3, 2)
    plan = einloom.plan_sizes(network, sizes=dict.fromkeys(network.labels, (2, 9)), budget=1)
    assert len(plan.points) <= 32
    assert {*plan.points[0].values()} == {2}
    assert {*plan.points[1].values()} == {9}


def test_pickle_and_repeatable() -> None:
    def made() -> SizedPlan:
        return einloom.plan_sizes("ij,jk->k", (2, "n"), ("n", 3), sizes={"n": [3, 1, 3]})

    plan = made()
    assert pickle.loads(pickle.dumps(plan)) == plan == made()
    assert plan.domains == {"n": [1, 3]}
    assert "n of 1, 3" in str(plan)


def test_a_single_operand_and_constants() -> None:
    assert einloom.plan_sizes("ij->j", ("n", 2), sizes={"n": (1, 9)}).worst == 1
    plan = einloom.plan_sizes(
        "ij,jk,k->i", (10, "n"), ("n", 10), (10,), sizes={"n": (2, 90)}, constants=[0, 1]
    )
    assert plan.for_sizes(n=20).constants == {0, 1}
    assert plan.for_sizes(n=20).cost == 100


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_trees(n: int) -> None:
    count = math.prod(range(1, 2 * n - 2, 2))
    assert len(list(all_trees(n))) == count


def test_exchanges_are_trees() -> None:
    r = random.Random(1)
    for n in (3, 5, 8):
        plan = einloom.plan(random_network(r, n), planner="greedy")
        near = list(exchanged(plan.tree))
        assert len(near) == 2 * (n - 2)  # twice for each result but the last
        assert all(tree.n == n for tree in near)


SHAPES = (2, "n"), ("n", 3)


@pytest.mark.parametrize(
    ("shapes", "sizes", "keywords", "error", "says"),
    [
        (SHAPES, {}, {}, einloom.OptionError, "give a range"),
        (SHAPES, {"n": 3}, {}, einloom.OptionError, "n is 3"),
        (SHAPES, {"n": (3, 2)}, {}, einloom.OptionError, r"n is \(3, 2\)"),
        (SHAPES, {"n": (0, 2)}, {}, einloom.OptionError, "positive integers"),
        (SHAPES, {"n": []}, {}, einloom.OptionError, "positive integers"),
        (SHAPES, {"n": [1.5]}, {}, einloom.OptionError, "positive integers"),
        (SHAPES, {"m": (1, 2)}, {}, einloom.OptionError, "the size 'n'"),
        (SHAPES, {"n": (1, 2), "m": (1, 2)}, {}, einloom.OptionError, "of the name m"),
        (SHAPES, {"n": (1, 2)}, {"objective": "peak"}, einloom.OptionError, "objective"),
        (SHAPES, {"n": (1, 2)}, {"criterion": "best"}, einloom.OptionError, '"worst" or "mean"'),
        (SHAPES, {"n": (1, 2)}, {"planner": [(0, 1)]}, einloom.OptionError, "planner's name"),
        (((2, "n"), (7, 3)), {"n": (3, 4)}, {}, einloom.ShapeError, "size"),
    ],
)
def test_bad_input(
    shapes: Any, sizes: Any, keywords: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        einloom.plan_sizes("ij,jk->ik", *shapes, sizes=sizes, **keywords)


def test_bad_sizes() -> None:
    plan = einloom.plan_sizes("ij,jk->ik", *SHAPES, sizes={"n": (2, 8)})
    for at, error in (
        ({"n": 9}, einloom.OptionError),
        ({"n": 2.0}, einloom.OptionError),
        ({}, einloom.CallError),
        ({"m": 3}, einloom.CallError),
    ):
        with pytest.raises(error, match="for_sizes"):
            plan.for_sizes(at)  # type: ignore[arg-type]
    with pytest.raises(einloom.OptionError, match="parentheses"):
        einloom.plan_sizes("(ij,jk),kl->il", *SHAPES, (3, 4), sizes={"n": (2, 8)})

"""Exact subtrees: the tree stays one of the network, its cost never rises, and what is small is optimal."""

from __future__ import annotations

import numpy as np
import pytest
from tests.networks import grid, random_networks

import einloom
from einloom.contract.cost import total_cost
from einloom.contract.planners import PLANNERS, Problem
from einloom.contract.planners.elimination import eliminate
from einloom.contract.planners.optimal import best_steps
from einloom.contract.planners.reconfigure import LEAVES, reconfigure
from einloom.contract.tree import ContractionTree

NETWORKS = [grid(4, 5, 3), *random_networks(3, 12, tensors=13), *random_networks(4, 6, tensors=30)]


@pytest.mark.parametrize("name", ["greedy", "elimination"])
def test_cost_never_rises_and_the_result_stays(name: str) -> None:
    fell = 0
    for network in NETWORKS:
        before = PLANNERS[name](network, Problem()).tree
        after = reconfigure(network, before, 200)
        costs = [total_cost(network, tree).cost for tree in (before, after)]
        assert costs[1] <= costs[0]
        fell += costs[1] < costs[0]
        assert ContractionTree.from_path(after.n, after.path) == after
    assert fell > 0


def test_a_whole_small_tree_becomes_optimal() -> None:
    for network in random_networks(9, 20, tensors=LEAVES):
        tree = reconfigure(network, eliminate(network, None, 0.0), 50)
        assert total_cost(network, tree).cost == best_steps(network)[1]


def test_nothing_to_do() -> None:
    network = grid(3, 3, 2)
    tree = PLANNERS["greedy"](network, Problem()).tree
    assert reconfigure(network, tree, 0) is tree
    one_step = ContractionTree(9, (tuple(range(9)),))
    assert reconfigure(network, one_step, 10) is one_step


def test_results_agree_along_refined_trees() -> None:
    rng = np.random.default_rng(0)
    for network in random_networks(21, 8, tensors=10):
        arrays = [rng.standard_normal(shape) for shape in network.shapes]
        values = []
        for tree in (PLANNERS["greedy"](network, Problem()).tree, eliminate(network, None, 0.0)):
            for one in (tree, reconfigure(network, tree, 100)):
                values.append(einloom.compile(einloom.plan(network, planner=one.path))(*arrays))
        for value in values[1:]:
            np.testing.assert_allclose(value, values[0], rtol=1e-9, atol=1e-9)

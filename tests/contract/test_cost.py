"""Cost, flops and largest intermediate are opt_einsum's numbers, and those of a naive recount."""

from __future__ import annotations

import math
import random

import numpy as np
import opt_einsum
import pytest
from tests.cases import CORPUS, Case
from tests.networks import (
    FAMILIES,
    Path,
    equation_of,
    random_networks,
    random_ssa_path,
)

import einloom
from einloom import Network
from einloom.contract.cost import total_cost
from einloom.contract.tree import ContractionTree

ARITIES = [(2,), (1, 2, 3), (1, 2, 3, 4, 5)]


def recount(network: Network, ssa_path: Path) -> tuple[int, int, int]:
    """Cost, flops and largest intermediate from sets of names, as their definitions say."""
    tensors = {k: set(term) for k, term in enumerate(network.inputs)}
    cost = flops = largest = 0
    for k, step in enumerate(ssa_path):
        union = set().union(*(tensors.pop(tensor) for tensor in step))
        kept = union & set(network.output).union(*tensors.values())
        tensors[len(network.inputs) + k] = kept
        size = math.prod(network.sizes[label] for label in union)
        cost += size
        flops += size * (max(1, len(step) - 1) + (kept != union))
        largest = max(largest, math.prod(network.sizes[label] for label in kept))
    return cost, flops, largest


@pytest.mark.parametrize("arities", ARITIES)
@pytest.mark.parametrize("seed", range(4))
def test_random_networks(seed: int, arities: tuple[int, ...]) -> None:
    r = random.Random(seed)
    for network in random_networks(seed, 60):
        tree = ContractionTree(len(network.terms), random_ssa_path(r, len(network.terms), arities))
        plan = einloom.plan(network, planner=tree.path)
        assert plan.ssa_path == tuple(tuple(sorted(step)) for step in tree.ssa_path)
        assert (plan.cost, plan.flops, plan.largest_intermediate) == recount(network, tree.ssa_path)
        equation = equation_of(network)
        _, info = opt_einsum.contract_path(
            equation, *network.shapes, shapes=True, optimize=tree.path
        )
        assert plan.flops == int(info.opt_cost), equation
        assert plan.largest_intermediate == int(info.largest_intermediate), equation


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    network = FAMILIES[name]
    plan = einloom.plan(network)
    assert (plan.cost, plan.flops, plan.largest_intermediate) == recount(network, plan.ssa_path)


def broadcasts(case: Case) -> bool:
    inputs, _ = case.labels
    sizes: dict[object, int] = {}
    return any(
        sizes.setdefault(label, n) != n
        for term, shape in zip(inputs, case.shapes, strict=True)
        for label, n in zip(term, shape, strict=True)
    )


CHAINS = [case for case in CORPUS["real expressions"] if isinstance(case.equation, str)]


@pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.equation)
def test_real_expressions(case: Case) -> None:
    if broadcasts(case):
        pytest.skip("opt_einsum counts a broadcast axis as if it had the full size")
    path, info = opt_einsum.contract_path(
        case.equation, *case.shapes, shapes=True, optimize="greedy"
    )
    plan = einloom.plan(case.equation, *case.shapes, planner=path)
    assert (plan.flops, plan.largest_intermediate) == (
        int(info.opt_cost),
        int(info.largest_intermediate),
    )
    assert [set(step) for step in plan.path] == [set(step) for step in path]


def test_by_hand() -> None:
    """A matrix product of 2x3 and 3x4, times a vector: sums and none, one tensor and three."""
    shapes = ((2, 3), (3, 4), (4,))
    pairs = einloom.plan("ij,jk,k->i", *shapes, planner=[(0, 1), (0, 1)])
    assert (pairs.cost, pairs.flops, pairs.largest_intermediate) == (24 + 8, 48 + 16, 8)
    at_once = einloom.plan("ij,jk,k->i", *shapes, planner=False)
    assert (at_once.cost, at_once.flops, at_once.largest_intermediate) == (24, 72, 2)
    alone = einloom.plan("ij->i", (2, 3))
    assert (alone.cost, alone.flops, alone.largest_intermediate) == (6, 12, 2)
    view = einloom.plan("ij->ji", (2, 3))
    assert (view.cost, view.flops, view.largest_intermediate) == (6, 6, 6)
    outer = einloom.plan("i,j->ij", (5,), (7,))
    assert (outer.cost, outer.flops, outer.largest_intermediate) == (35, 35, 35)
    empty = einloom.plan("ij,jk->ik", (2, 0), (0, 3))
    assert (empty.cost, empty.flops, empty.largest_intermediate) == (0, 0, 6)


def test_numbers_are_exact() -> None:
    """Beyond 2^53, where floats lose the last digit."""
    n = 10**8 + 1
    network = Network(["ab", "bc", "cd"], "ad", dict.fromkeys("abcd", n))
    assert total_cost(network, ContractionTree(3, ((0, 1), (2, 3)))).cost == 2 * n**3
    plan = einloom.plan(network, planner=[(0, 1), (0, 1)])
    assert (plan.cost, plan.flops, plan.largest_intermediate) == (2 * n**3, 4 * n**3, n**2)
    assert plan.peak_bytes >= 8 * (4 * n**2)
    assert all(type(x) is int for x in (plan.cost, plan.flops, plan.peak_bytes))


def test_sizes_of_arrays_are_exact() -> None:
    """Sizes come from shapes as Python integers, so that no product wraps."""
    column = np.broadcast_to(np.float64(1), (2**33, 1))
    plan = einloom.plan("ab,ac,ad->", column, column, column, planner=False)
    assert plan.cost == 2**33
    big = [np.broadcast_to(np.float64(1), (2**33,))] * 2
    assert einloom.plan("a,b->", *big).cost == 2**66

"""Planning that begins with the tree of a network before a small edit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.test_planners import assert_right as assert_result
from tests.networks import (
    FAMILIES,
    equation_of,
    grid,
    random_network,
    random_ssa_path,
    regular,
    relabelled,
)

import einloom
from einloom import Network, Plan
from einloom.contract.cost import total_cost
from einloom.contract.matching import matchings
from einloom.contract.regrow import regrown
from einloom.contract.tree import ContractionTree


def assert_right(plan: Plan) -> None:
    """Its result, where the sum over all labels is small; that it is a tree was checked when it was made."""
    assert plan.tree.n == len(plan.network.terms)
    if math.prod(plan.network.extents) < 500:
        assert_result(plan)


Edit = Callable[[random.Random, list[list[Any]], dict[Any, int]], None]


def add(r: random.Random, terms: list[list[Any]], sizes: dict[Any, int]) -> None:
    """A tensor between two others, on a label that both get."""
    new = ("new", len(terms), 0), ("new", len(terms), 1)
    for label in new:
        r.choice(terms).append(label)
        sizes[label] = r.randint(2, 4)
    terms.insert(r.randrange(len(terms) + 1), list(new))


def remove(r: random.Random, terms: list[list[Any]], sizes: dict[Any, int]) -> None:
    if len(terms) > 2:
        del terms[r.randrange(len(terms))]


def resize(r: random.Random, terms: list[list[Any]], sizes: dict[Any, int]) -> None:
    for label in r.sample(sorted(sizes, key=repr), min(3, len(sizes))):
        sizes[label] = r.randint(2, 8)


def rename(r: random.Random, terms: list[list[Any]], sizes: dict[Any, int]) -> None:
    names = {label: ("renamed", k) for k, label in enumerate(sizes)}
    for term in terms:
        term[:] = [names[label] for label in term]
    for label, name in names.items():
        sizes[name] = sizes.pop(label)


EDITS: tuple[Edit, ...] = (add, remove, resize, rename)


def edited(r: random.Random, network: Network, edits: int) -> Network:
    terms, sizes = [list(term) for term in network.inputs], dict(network.sizes)
    for _ in range(edits):
        r.choice(EDITS)(r, terms, sizes)
    return Network(terms, terms[0][:1] if network.output else [], sizes)


def mapped(old: Plan, new: Network) -> list[int]:
    """The cost of each tree that the old one becomes, without a choice of places."""
    return [
        total_cost(new, regrown(old.tree, leaf, new, lambda steps: 0.0)).cost
        for leaf in matchings(old.network, new)
    ]


seeds = st.integers(0, 10**6)


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(2, 16), st.integers(0, 3))
def test_never_worse_than_the_tree_that_is_mapped(seed: int, tensors: int, edits: int) -> None:
    r = random.Random(seed)
    old = einloom.plan(random_network(r, tensors, (2, 3, 4)), planner="greedy")
    new = edited(r, old.network, edits)
    plan = einloom.plan(new, start=old, objective="flops", budget=r.choice([1, 6]))
    assert_right(plan)
    assert plan.cost <= min(mapped(old, new))


@settings(max_examples=15, deadline=None)
@given(seeds, st.integers(2, 14))
def test_never_worse_than_the_path_given(seed: int, tensors: int) -> None:
    r = random.Random(seed)
    network = random_network(r, tensors, (2, 3, 4))
    tree = ContractionTree(tensors, random_ssa_path(r, tensors))
    cost = total_cost(network, tree).cost
    for start in (tree, tree.path, einloom.plan(network, planner=tree.path)):
        plan = einloom.plan(network, start=start, objective="flops", budget=1)
        assert plan.cost <= cost


@pytest.mark.parametrize("objective", ["time", "flops", "size", "write", "peak"])
def test_the_same_network(objective: str) -> None:
    network = grid(4, 4, 3)
    old = einloom.plan(network, budget=40, objective=objective)
    again = einloom.plan(network, start=old, budget=1, objective=objective)
    figure = {"size": "largest_intermediate", "peak": "peak_bytes"}.get(objective, "cost")
    if objective in ("flops", "size"):
        assert getattr(again, figure) <= getattr(old, figure)
    assert again.objective == objective
    assert again.cost <= 2 * old.cost


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family: str) -> None:
    network = FAMILIES[family]
    assert_right(einloom.plan(network, start=einloom.plan(network, planner=False)))


@pytest.mark.parametrize("edit", EDITS)
def test_tensors_are_known_again(edit: Edit) -> None:
    """After one edit of a lattice all but the tensors that it touches are where they were."""
    for seed in range(5):
        r, network = random.Random(seed), grid(5, 5, 3)
        terms, sizes = [list(term) for term in network.inputs], dict(network.sizes)
        marks = {id(term): k for k, term in enumerate(terms)}
        edit(r, terms, sizes)
        new = Network(terms, (), {x: sizes[x] for term in terms for x in term})
        right = max(
            sum(marks.get(id(terms[b])) == a for a, b in leaf.items())
            for leaf in matchings(network, new)
        )
        assert right >= 24 - (edit is remove)


def test_renamed_and_one_added() -> None:
    """Where names are all other ones, positions from both ends tell."""
    network = grid(5, 5, 3)
    terms = [[("x", label) for label in term] for term in network.inputs]
    terms[12].append("new")
    terms.insert(12, ["new"])
    sizes = {("x", label): n for label, n in network.sizes.items()}
    new = Network(terms, (), {**sizes, "new": 2})
    leaf = list(matchings(network, new))[-1]
    assert leaf == {k: k + (k >= 12) for k in range(25)}


def test_nothing_in_common() -> None:
    old, new = einloom.plan(grid(3, 3)), random_network(random.Random(2), 11)
    assert_right(einloom.plan(new, start=old))


def test_many_new_tensors() -> None:
    old = einloom.plan(grid(4, 10), budget=4)
    plan = einloom.plan(grid(4, 30), start=old, budget=1)
    assert_right(plan)
    assert plan.planner in ("greedy", "from a start, refined")


def test_a_start_saves_search() -> None:
    """One run from the old tree is better than 32 from nothing."""
    old = einloom.plan(regular(3, 60, 1), budget=60)
    terms = [list(term) for term in old.network.inputs]
    del terms[17]
    new = Network(terms, (), {label: 2 for term in terms for label in term})
    assert einloom.plan(new, start=old, budget=2).cost < einloom.plan(new, budget=32).cost


def test_with_constants_and_limits() -> None:
    network = grid(4, 4, 3)
    old = einloom.plan(network, budget=8)
    plan = einloom.plan(network, start=old, constants=[0, 1, 2], n_runs=10, budget=2)
    assert_right(plan)
    limited = einloom.plan(network, start=old, memory_limit=old.peak_bytes - 1000, budget=2)
    assert limited.peak_bytes < old.peak_bytes


def test_seconds_and_compile() -> None:
    rng = np.random.default_rng(1)
    network = random_network(random.Random(8), 10, (2, 3))
    arrays = [rng.integers(-3, 4, shape).astype(float) for shape in network.shapes]
    equation = equation_of(network)
    old = einloom.plan(network, planner="greedy")
    expression = einloom.compile(equation, *arrays, start=old, budget=0.02)
    np.testing.assert_allclose(expression(*arrays), np.einsum(equation, *arrays), rtol=1e-12)


def test_another_order_of_the_same_tensors() -> None:
    """Renamed and in another order: nothing need be known again, but a plan is found."""
    network = grid(3, 4, 3)
    assert_right(einloom.plan(relabelled(random.Random(1), network), start=einloom.plan(network)))


@pytest.mark.parametrize(
    ("start", "keywords", "error", "says"),
    [
        ("greedy", {}, einloom.CallError, "give a Plan"),
        (7, {}, einloom.CallError, "give a Plan"),
        ([(0, 5)], {}, einloom.PathError, "position 5"),
        (ContractionTree(2, ((0, 1),)), {}, einloom.OptionError, "has 2 tensors, the network 3"),
        ([(0, 1), (0, 1)], {"planner": "greedy"}, einloom.OptionError, "leave out planner"),
    ],
)
def test_what_is_no_start(
    start: Any, keywords: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        einloom.plan("ij,jk,kl->il", (2, 2), (2, 2), (2, 2), start=start, **keywords)


def test_parentheses_are_not_refined() -> None:
    with pytest.raises(einloom.OptionError, match="the parentheses"):
        einloom.plan("(ij,jk),kl->il", (2, 2), (2, 2), (2, 2), start=[(0, 1), (0, 1)])


def test_what_decides_by_memory_is_never_worse_than_the_start() -> None:
    """Previously failed: the tree to begin with was none of those compared."""
    shapes = (2,), (3,), (3, 2, 3), (2, 3), (3, 3)
    old = einloom.plan("d,b,bdc,ac,bc->c", *shapes, planner="greedy", objective="peak")
    new = einloom.plan("d,b,bdc,ac,bc->c", *shapes, start=old, objective="peak")
    assert new.peak_bytes <= old.peak_bytes


def test_a_start_of_one_step_is_kept_where_pairs_are_worse() -> None:
    shapes = (2,), (2, 2), (2, 2, 3), (3,)
    old = einloom.plan("b,bb,bbc,c->", *shapes, planner=False, objective="size")
    new = einloom.plan("b,bb,bbc,c->", *shapes, start=old, objective="size")
    assert new.largest_intermediate <= old.largest_intermediate

"""Trees and sliced labels searched together: limits are kept, and slices add up to the whole."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.networks import grid, regular, ring

import einloom
from einloom import Network
from einloom.contract.cost import size_of, total_cost, walk
from einloom.contract.planners import Problem, sliced
from einloom.contract.planners.core.arrays import UNIT
from einloom.contract.planners.core.run import Core, Graph
from einloom.contract.tree import ContractionTree


def largest(network: Network, found: Any) -> int:
    inner = network.slice(found.sliced)
    return max(size_of(step.result, inner.extents) for step in walk(inner, found.tree))


NETWORKS = [grid(4, 5, 3), regular(3, 24, 1), ring(20, 4), grid(3, 7, 5)]  # each connected


@pytest.mark.parametrize("share", [2, 8, 64])
def test_no_result_is_larger_than_allowed(share: int) -> None:
    for network in NETWORKS:
        free = einloom.plan(network, objective="flops")
        most = max(1, free.largest_intermediate // share)
        found = sliced(network, Problem("flops", 8 * most, 8))
        assert largest(network, found) <= most
        assert found == sliced(network, Problem("flops", 8 * most, 8))


def test_what_fits_is_not_sliced() -> None:
    network = grid(4, 5, 3)
    found = sliced(network, Problem("flops", 8 << 30, 8))
    assert found.sliced == ()
    assert total_cost(network, found.tree).cost <= 1.5 * einloom.plan(network).cost


@pytest.mark.parametrize("runs", [1, 5])
def test_results_are_right(runs: int) -> None:
    rng = np.random.default_rng(3)
    network = grid(4, 4, 3)
    arrays = [rng.integers(-2, 3, shape).astype(float) for shape in network.shapes]
    free = einloom.plan(network)
    want = einloom.compile(free)(*arrays)
    plan = einloom.plan(network, memory_limit=int(0.6 * free.peak_bytes), budget=runs)
    assert plan.peak_bytes <= int(0.6 * free.peak_bytes)
    np.testing.assert_array_equal(einloom.compile(plan)(*arrays), want)
    assert replace(plan, sliced=()).tree == plan.tree


def test_threads_do_not_matter() -> None:
    network = regular(3, 60, 2)
    found = []
    for threads in (1, 2):
        with einloom.options(threads=threads, plan_cache="off"):
            found.append(sliced(network, Problem("flops", 8 << 6, 8, 8)))
    assert found[0] == found[1]


def test_the_core_slices_as_it_says() -> None:
    """The cost it reports is that of all slices; nothing that fits is sliced."""
    for network in NETWORKS[:3]:
        graph = Graph.of(network.carried, network.open, network.extents)
        results = []
        for compiled in (False, True):
            core = Core(graph, compiled)
            tree = core.tree(core.greedy(1.0, 0.5, 2))
            widest = tree.log_largest()
            for most in (widest, 0.6 * widest, 4.0):
                terms, cut = core.terms((1.0, 0.0), 2.0**most), core.integers(graph.words)
                cost = tree.slice_to(terms, cut)
                slices = sum(
                    int(x).bit_count() * int(w) for x, w in zip(cut, graph.weight, strict=True)
                )
                inner = tree.sliced(cut)
                assert inner.log_largest() <= most + 1e-6
                assert (slices == 0) == (most == widest)
                results.append((compiled, cost, [int(x) for x in cut]))
                names = [
                    name
                    for name, spot in zip(graph.names, graph.place, strict=True)
                    if (int(cut[spot >> 6]) >> (spot & 63)) & 1
                ]
                path = [int(x) for x in tree.path()]
                steps = tuple(zip(path[::2], path[1::2], strict=True))
                tree_ = ContractionTree(len(network.terms), steps)
                inside = network.slice(names)
                each = sum(size_of(step.union, inside.extents) for step in walk(inside, tree_))
                assert cost == pytest.approx(math.log2(each) + slices / UNIT, abs=1e-4)
        half = len(results) // 2
        assert [one[1:] for one in results[:half]] == [one[1:] for one in results[half:]]


def test_an_interrupted_search_gives_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    module = importlib.import_module("einloom.contract.planners.sliced")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module._Search, "_run", interrupt)
    network = grid(4, 5, 3)
    found = sliced(network, Problem("flops", 8 * 27, 8))
    assert found.planner.startswith("interrupted")
    assert largest(network, found) <= 27

"""The steps of a plan: what all views show, so it has to agree with the plan's totals."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.networks import FAMILIES, chain, grid, random_network

import einloom
from einloom import Plan
from einloom.contract.steps import tensor_bytes


def agrees(plan: Plan) -> None:
    """Costs add up to the totals; every tensor has the bytes of its labels."""
    steps, extents = plan.steps, plan.network.extents
    assert tuple(step.operands for step in steps) == plan.ssa_path
    assert sum(step.cost for step in steps) == plan.cost
    if plan.network.open.issuperset(plan.sliced):
        assert sum(step.flops for step in steps) == plan.flops
    elif plan.sliced:
        assert sum(step.flops for step in steps) < plan.flops  # which counts adding up
    sizes = tensor_bytes(steps)
    assert sorted(sizes) == list(range(plan.tree.n + len(steps)))
    for index, step in enumerate(steps[:-1]):
        size = math.prod(extents[label] for label in step.result) * plan.dtype.itemsize
        assert step.nbytes == sizes[plan.tree.n + index] == size
    assert {step.times for step in steps} <= {0, 1, plan.n_slices}
    assert set(steps[-1].result) == plan.network.open.difference(plan.sliced)


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    plan = einloom.plan(FAMILIES[name])
    agrees(plan)
    assert max(step.alive_bytes for step in plan.steps) <= plan.peak_bytes


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 10_000), st.sampled_from([None, "2kB", "1kB", "500 B"]))
def test_random_networks(seed: int, limit: str | None) -> None:
    network = random_network(random.Random(seed))
    try:
        plan = einloom.plan(network, memory_limit=limit, planner="greedy")
    except einloom.MemoryLimitError:
        plan = einloom.plan(network, planner="greedy")
    agrees(plan)
    assert max(step.alive_bytes for step in plan.steps) <= plan.peak_bytes


def test_a_sum_over_labels_of_size_one_is_a_view() -> None:
    """Previously failed: with kernels forced, a slice's one step, `aa->` of size 1, was given bytes."""
    with einloom.options(small=0):
        plan = einloom.plan("bbaa->", (3, 3, 1, 1), memory_limit="2kB", planner="greedy")
    assert max(step.alive_bytes for step in plan.steps) <= plan.peak_bytes


def test_alive_by_hand() -> None:
    """(8x4 @ 4x8) @ 8x2 in float64: operands throughout, then what is made and not yet taken."""
    plan = einloom.plan("ij,jk,kl->il", (8, 4), (4, 8), (8, 2), planner=[(0, 1), (0, 1)])
    given = 8 * (32 + 32 + 16)
    assert [step.alive_bytes for step in plan.steps] == [given + 512, given + 512 + 128]
    assert [step.nbytes for step in plan.steps] == [512, 128]
    assert [step.moved_bytes for step in plan.steps] == [512 + 512, 512 + 128 + 128]


def test_a_view_has_no_bytes_of_its_own() -> None:
    plan = einloom.plan("ij->ji", (8, 4))
    assert plan.steps[0].alive_bytes == 8 * 32


def test_what_is_the_same_in_all_slices_is_held() -> None:
    plan = einloom.plan(grid(6, 6, 4), memory_limit="96KiB", dtype="float32")
    once = [step for step in plan.steps if step.times == 1]
    assert plan.n_slices > 1
    assert once
    assert all(step.times in (1, plan.n_slices) for step in plan.steps)
    assert max(step.alive_bytes for step in plan.steps) <= plan.peak_bytes <= 96 << 10


def test_steps_of_constants_alone_cost_a_call_nothing() -> None:
    plan = einloom.plan(
        "ab,bc,cd->ad", (3, 4), (4, 5), (5, 6), constants=[0, 1], planner=[(0, 1), (0, 1)]
    )
    assert [step.times for step in plan.steps] == [0, 1]
    assert [step.cost for step in plan.steps] == [0, 3 * 5 * 6]
    assert plan.steps[0].alive_bytes == 8 * (12 + 20 + 15)
    assert plan.steps[1].alive_bytes == 8 * (30 + 15 + 18)


def test_intermediates_of_half_precisions_are_wide() -> None:
    plan = einloom.plan("ij,jk,kl->il", (8, 8), (8, 8), (8, 8), dtype="float16")
    assert [step.nbytes for step in plan.steps] == [4 * 64, 2 * 64]


def test_a_long_chain() -> None:
    agrees(einloom.plan(chain(3000), planner="greedy"))

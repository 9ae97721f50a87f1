"""Plans as values of opt_einsum and cotengra: the same tree, the same cost, the same result."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from tests.networks import FAMILIES, grid

import einloom
from einloom import Network, Plan, Unsupported

PLANS = {name: einloom.plan(network) for name, network in FAMILIES.items()}
PLANS["broadcasting"] = einloom.plan("ij,jk,k->ik", (2, 1), (3, 4), (1,))
PLANS["an ellipsis"] = einloom.plan("...ij,...jk->...ik", (5, 2, 3), (3, 4))
PLANS["one step"] = einloom.plan("ij,jk,kl->il", (2, 3), (3, 4), (4, 5), planner=False)
PLANS["sliced"] = einloom.plan(grid(5, 5, 3), memory_limit="20KiB")
every_plan = pytest.mark.parametrize("name", PLANS)


def operands(plan: Plan) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.random(shape) for shape in plan.network.shapes]


@every_plan
def test_opt_einsum(name: str) -> None:
    plan = PLANS[name]
    info = plan.to_opt_einsum()
    assert tuple(map(tuple, info.path)) == plan.path
    assert str(info).startswith("  Complete contraction")
    if name not in ("broadcasting", "sliced") and all(len(step) == 2 for step in plan.path):
        assert int(info.opt_cost) == plan.flops


def test_the_users_letters_are_kept() -> None:
    plan = einloom.plan("βa,aé->βé", (2, 3), (3, 4))
    assert plan.to_opt_einsum().eq == "βa,aé->βé"
    named = einloom.plan(
        Network([["left", 1], [1, "right"]], ["left"], {"left": 2, 1: 3, "right": 4})
    )
    assert named.to_opt_einsum().eq == "ab,bc->a"


def test_a_repeated_label_of_the_result_is_refused() -> None:
    plan = einloom.plan("i->ii", (3,), embed_diagonal=True)
    for call in (plan.to_opt_einsum, plan.to_cotengra):
        with pytest.raises(Unsupported, match="repeats a label"):
            call()


def test_without_cotengra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cotengra", None)
    with pytest.raises(Unsupported, match="pip install cotengra"):
        PLANS["a chain"].to_cotengra()


@every_plan
def test_cotengra(name: str) -> None:
    pytest.importorskip("cotengra")
    plan = PLANS[name]
    tree = plan.to_cotengra()
    assert plan.tree.n == tree.N
    assert tree.nslices == plan.n_slices
    if 0 in plan.network.extents:
        return
    found = tree.contract(operands(plan))
    expected = einloom.compile(plan)(*operands(plan))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_cotengra_counts_the_same_multiplications() -> None:
    pytest.importorskip("cotengra")
    for name in ("a chain", "a lattice", "a larger lattice", "a complete graph"):
        assert PLANS[name].to_cotengra().contraction_cost() == PLANS[name].cost
    plan = PLANS["sliced"]
    sizes = [plan.network.extents[label] for label in plan.sliced]
    assert plan.to_cotengra().nslices == math.prod(sizes) > 1

"""Parentheses fix the order: what stands in them is contracted before what stands around them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.networks import random_network
from tests.oracles import einsum_oracle

import einloom
from einloom import Network, OptionError, Plan
from einloom.contract.notation import parse

ARRAYS = [np.arange(1.0, 1 + n * m).reshape(n, m) for n, m in ((2, 3), (3, 4), (4, 2), (2, 3))]

# text -> path that the parentheses leave no choice but
FIXED: dict[str, list[tuple[int, ...]]] = {
    "(ij,jk),kl->il": [(0, 1), (0, 1)],
    "ij,(jk,kl)->il": [(1, 2), (0, 1)],
    "((ij,jk),kl),lm->im": [(0, 1), (0, 2), (0, 1)],
    "ij,(jk,(kl,lm))->im": [(2, 3), (1, 2), (0, 1)],
    "(ij,jk),(kl,lm)->im": [(0, 1), (0, 1), (0, 1)],
    "(ij,(jk,kl)),lm->im": [(1, 2), (0, 2), (0, 1)],
    "((ij),(jk)),kl->il": [(0, 1), (0, 1)],
    "(((ij,jk))),kl->il": [(0, 1), (0, 1)],
    "((ij,jk),kl)->il": [(0, 1), (0, 1)],
    "(ij,lm),(jk,kl)->im": [(0, 1), (0, 1), (0, 1)],
}


def leaf_sets(plan: Plan) -> list[set[int]]:
    """The operands under every tensor of the tree."""
    below = [{k} for k in range(plan.tree.n)]
    for step in plan.ssa_path:
        below.append(set().union(*(below[tensor] for tensor in step)))
    return below


def groups_of(text: str) -> list[set[int]]:
    """The operands inside every pair of parentheses."""
    inside: list[set[int]] = []
    for group in parse(text).groups:
        inside.append(set().union(*({m} if m >= 0 else inside[~m] for m in group)))
    return inside


def parenthesised(r: random.Random, terms: list[str]) -> str:
    """The terms in random nested parentheses, some of them around one term or all."""
    parts = list(terms)
    for _ in range(r.randint(1, 2 * len(terms))):
        first = r.randrange(len(parts))
        last = min(len(parts), first + r.choice([1, 2, 2, 3]))
        parts[first:last] = [f"({','.join(parts[first:last])})"]
    return ",".join(parts)


@pytest.mark.parametrize("text", FIXED)
def test_the_order_is_as_written(text: str) -> None:
    count = text.count(",") + 1
    arrays = [ARRAYS[0], ARRAYS[3], *ARRAYS[1:3]] if "lm),(jk" in text else ARRAYS[:count]
    plan = einloom.plan(text, *arrays)
    assert [set(step) for step in plan.path] == [set(step) for step in FIXED[text]]
    assert plan.planner.startswith("parentheses")
    np.testing.assert_array_equal(
        einloom.einsum(text, *arrays), np.linalg.multi_dot(ARRAYS[:count])
    )


@pytest.mark.parametrize("planner", ["auto", "greedy", "optimal", "dp", True, False])
@pytest.mark.parametrize("seed", range(3))
def test_random_parentheses(seed: int, planner: Any) -> None:
    """Every group is one tensor of the tree, and the result is that without parentheses."""
    r = random.Random(seed)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        network = random_network(r, sizes=(1, 2, 3))
        if np.prod(network.extents) > 3000:
            continue
        inputs = ["".join(map(str, term)) for term in network.inputs]
        text = f"{parenthesised(r, inputs)}->{''.join(map(str, network.output))}"
        arrays = [rng.integers(-2, 3, shape).astype(float) for shape in network.shapes]
        plan = einloom.plan(text, *arrays, planner=planner)
        tree = leaf_sets(plan)
        for group in groups_of(text):
            assert group in tree, (text, plan.ssa_path)
        want = einsum_oracle(network.inputs, network.output, arrays, float)
        got = einloom.einsum(text, *arrays, optimize=planner)
        np.testing.assert_array_equal(got, want, err_msg=text)


def test_inside_a_group_the_planner_chooses() -> None:
    """The vector goes into its own group first, the cheapest way."""
    text = "(ab,bc,c),(de,ef,f)->ad"
    n = 50
    shapes = [(n, n), (n, n), (n,)] * 2
    plan = einloom.plan(text, *shapes)
    assert plan.cost == 4 * n**2 + n**2
    assert {0, 1, 2} in leaf_sets(plan)
    once = einloom.plan(text, *shapes, planner=False)
    assert [len(step) for step in once.ssa_path] == [3, 3, 2]


def test_a_group_keeps_what_others_need() -> None:
    """j is summed inside, i and k are needed outside; x stays because the output has it."""
    plan = einloom.plan("(ijx,jk),(ki)->x", (2, 3, 4), (3, 5), (5, 2))
    assert plan.path == ((0, 1), (0, 1))
    assert plan.largest_intermediate == 2 * 5 * 4
    assert plan.cost == 2 * 3 * 4 * 5 + 2 * 4 * 5


def test_broadcasting_inside_a_group() -> None:
    """The first operand's j has size 1: it carries none of j, which stays until all have met."""
    a, b, c = np.arange(2.0).reshape(2, 1), np.arange(12.0).reshape(3, 4), np.arange(4.0)
    got = einloom.einsum("(ij,k),jk->i", a, c, b)
    np.testing.assert_array_equal(got, np.einsum("ij,jk,k->i", a, b, c))


@pytest.mark.parametrize(
    "text",
    ["(i)", "((i))->i", "(ij)->ji", "(ii)->i", "(ij)->", "(...ij)->...", "()", "(i,)", "(,)"],
)
def test_groups_of_few(text: str) -> None:
    plain = text.replace("(", "").replace(")", "")
    arrays = {
        1: [np.arange(9.0).reshape(3, 3)] if "i" in text else [np.float64(3)],
        2: [np.arange(3.0), np.float64(2)] if "i" in text else [np.float64(2), np.float64(3)],
    }[text.count(",") + 1]
    arrays = [arrays[0][0], *arrays[1:]] if plain in ("i", "i->i") else arrays
    np.testing.assert_array_equal(einloom.einsum(text, *arrays), np.einsum(plain, *arrays))


def test_a_group_of_a_view_is_a_view() -> None:
    a = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(einloom.einsum("(ij)->ji", a), a)


def test_groups_and_other_arguments() -> None:
    a = np.arange(4.0).reshape(2, 2) + 1j
    out = np.ones((2, 2), complex)
    got = einloom.einsum("(ij,jk),kl->il", a, a, a, out=out, alpha=2, beta=1j, conj=(0, -1))
    assert got is out
    np.testing.assert_allclose(got, 2 * a.conj() @ a @ a.conj() + 1j)
    diagonal = einloom.einsum("(ij,jk),k->ii", a, a, a[0], embed_diagonal=True)
    np.testing.assert_allclose(diagonal, np.diag(a @ a @ a[0]))


@pytest.mark.parametrize("path", [[(0, 1), (0, 1)], ["einsum_path", (0, 1), (0, 1)]])
def test_parentheses_and_a_path(path: Any) -> None:
    with pytest.raises(OptionError, match=r"einsum\(optimize=.*parentheses.*only one"):
        einloom.einsum("(ij,jk),kl->il", *ARRAYS[:3], optimize=path)


def test_numpys_limit_holds_inside_groups() -> None:
    plan = einloom.plan("(ij,jk),kl->il", (2, 3), (3, 4), (4, 2), planner=("greedy", 1000))
    assert plan.path == ((0, 1), (0, 1))


def test_the_plan_of_groups_is_stored_like_any_other() -> None:
    plan = einloom.plan("(ij,kl),jk->il", (2, 3), (4, 2), (3, 4))
    assert Plan.from_json(plan.to_json()) == plan
    again = Network(plan.network.inputs, plan.network.output, plan.network.sizes)
    assert einloom.plan(again, planner=plan.path).cost == plan.cost

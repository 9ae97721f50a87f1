"""Nothing recurses, no number is rounded, and no axis or label is one too many."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from tests.networks import chain, grid

import einloom
from einloom import Network, Plan
from einloom.contract.notation import parse, resolve
from einloom.contract.planners.core.run import load
from einloom.contract.tree import ContractionTree
from einloom.program.serial import program_from_json, program_to_json

LONG = 100_000
DEPTH = 150  # more frames than any test needs, fewer than any long input has levels


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    """numba is loaded, and compiles, at any depth it likes."""
    load()


@contextmanager
def shallow() -> Iterator[None]:
    """Room for a few more frames than are in use: what recurses over its input fails."""
    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1  # type: ignore[assignment]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(used + DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def test_shallow_stops_recursion() -> None:
    def down(n: int) -> int:
        return 0 if n == 0 else 1 + down(n - 1)

    with shallow(), pytest.raises(RecursionError):
        down(2 * DEPTH)


# A chain of 100,000 tensors ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_plan() -> Plan:
    with shallow():
        return einloom.plan(chain(LONG), planner="greedy")


def test_plan_of_the_long_chain(long_plan: Plan) -> None:
    with shallow():
        assert len(long_plan.ssa_path) == LONG - 1
        assert long_plan.cost == (LONG - 1) * 8
        assert long_plan.largest_intermediate == 4
        again = ContractionTree.from_path(LONG, long_plan.path)
    assert again.ssa_path == tuple(tuple(sorted(step)) for step in long_plan.ssa_path)


def test_the_long_chain_in_json_and_pickle(long_plan: Plan) -> None:
    with shallow():
        text = long_plan.to_json()
        assert Plan.from_json(text) == long_plan
        assert pickle.loads(pickle.dumps(long_plan)) == long_plan
        hash(long_plan)


@pytest.mark.parametrize("length", [10_000, pytest.param(LONG, marks=pytest.mark.slow)])
def test_the_long_chain_runs(length: int) -> None:
    """Rotations by small angles: the product is the rotation by their sum."""
    with shallow():
        long_plan = einloom.plan(chain(length), planner="greedy")
    angles = np.random.default_rng(0).uniform(-1, 1, length)
    c, s = np.cos(angles), np.sin(angles)
    rotations = list(np.stack([np.stack([c, -s], 1), np.stack([s, c], 1)], 1))
    with shallow():
        expression = einloom.compile(long_plan)
        got = expression(*rotations)
    total = math.fsum(angles)
    want = [[math.cos(total), -math.sin(total)], [math.sin(total), math.cos(total)]]
    np.testing.assert_allclose(got, want, atol=1e-10)
    assert "table" in expression.source
    assert expression.peak_bytes >= length * 32


def test_a_long_plan_prints_and_its_program_is_stored() -> None:
    plan = einloom.plan(chain(4000), planner="greedy")
    with shallow():
        text = str(plan)
        assert program_from_json(program_to_json(plan.program)) == plan.program
    assert "... 3939 more steps" in text
    assert len(text) < 10_000


def test_a_path_from_left_to_right() -> None:
    """The deepest tree: every step takes the result of the last."""
    path = [(0, 1), *((0, k) for k in range(LONG - 2, 0, -1))]
    with shallow():
        plan = einloom.plan(chain(LONG), planner=path)
        assert plan.path == tuple(path)
        assert plan.cost == (LONG - 1) * 8


def test_a_program_of_a_deep_tree() -> None:
    n = 5000
    plan = einloom.plan(chain(n), planner=[(0, 1), *((0, k) for k in range(n - 2, 0, -1))])
    with shallow():
        assert len(plan.program.instructions) >= n - 1
        got = einloom.compile(plan)(*[np.eye(2)] * n)
    np.testing.assert_array_equal(got, np.eye(2))


def test_steps_of_one_tensor() -> None:
    """More steps than tensors, of which most do nothing."""
    path = [(0,)] * 5000 + [(0, 1)]
    plan = einloom.plan("ij,jk->ik", (2, 3), (3, 4), planner=path)
    assert plan.path == tuple(path)
    got = einloom.compile(plan)(np.ones((2, 3)), np.ones((3, 4)))
    np.testing.assert_array_equal(got, np.full((2, 4), 3.0))


# Strings and parentheses ------------------------------------------------------------------------


def test_a_long_string() -> None:
    labels = [chr(0x4E00 + k) for k in range(20_000)]
    terms = [a + b for a, b in itertools.pairwise(labels)]
    text = f"{','.join(terms)}->{labels[0]}{labels[-1]}"
    with shallow():
        found = resolve(parse(text), [2] * len(terms))
        assert found.output == (0, 19_999)
        plan = einloom.plan(text, *[(2, 2)] * len(terms), planner="greedy")
    assert plan.cost == 8 * (len(terms) - 1)


@pytest.mark.parametrize("side", ["left", "right"])
def test_deeply_nested_parentheses(side: str) -> None:
    n = 2000
    labels = [chr(0x4E00 + k) for k in range(n + 1)]
    terms = [a + b for a, b in itertools.pairwise(labels)]
    if side == "left":
        text = "(" * (n - 1) + terms[0] + "".join(f",{term})" for term in terms[1:])
    else:
        text = "".join(f"({term}," for term in terms[:-1]) + terms[-1] + ")" * (n - 1)
    with shallow():
        plan = einloom.plan(f"{text}->{labels[0]}{labels[-1]}", *[(2, 2)] * n)
    for k, step in enumerate(plan.ssa_path[1:]):
        assert set(step) == {n + k, 2 + k if side == "left" else n - 3 - k}
    assert plan.cost == 8 * (n - 1)


def test_parentheses_around_one_term() -> None:
    with shallow():
        text = "(" * 50_000 + "ij" + ")" * 50_000
        np.testing.assert_array_equal(einloom.einsum(f"{text}->ji", np.eye(2)), np.eye(2))
        with pytest.raises(einloom.SubscriptError, match="never closed"):
            einloom.einsum("(" * 50_000 + "ij", np.eye(2))


# Exact numbers ----------------------------------------------------------------------------------


def test_ten_to_the_400_flops() -> None:
    """40 labels of 10^10 + 1 values on one hyperedge: exact integers, which print."""
    n = 10**10 + 1
    network = Network(
        [(k, "x") for k in range(40)], range(40), {"x": 7} | dict.fromkeys(range(40), n)
    )
    plan = einloom.plan(network, planner=False)
    assert plan.cost == 7 * n**40
    assert plan.flops == 7 * n**40 * 40
    assert plan.largest_intermediate == n**40
    assert plan.peak_bytes >= 8 * n**40
    assert all(type(x) is int for x in (plan.cost, plan.flops, plan.peak_bytes))
    text = str(plan)
    assert "2.800e+402" in text
    assert "1.000e+400 elements" in text
    assert "cost 7.000e+400" in repr(plan)
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("planner", ["auto", "greedy", "random-greedy"])
def test_ten_to_the_400_by_pairs(planner: str) -> None:
    """No float stands for a size anywhere in the search."""
    size = 10**100
    network = Network(
        [(k, k + 1, "x") for k in range(12)],
        (0, 12, "x"),
        {"x": size} | dict.fromkeys(range(13), size),
    )
    plan = einloom.plan(network, planner=planner, budget=4)
    assert plan.cost == 11 * size**4
    assert plan.flops == 22 * size**4
    assert plan.largest_intermediate == size**3
    assert "2.200e+401" in str(plan)
    assert einloom.plan(network, planner="greedy", objective="size").cost == plan.cost


def test_what_is_too_large_is_refused_not_run() -> None:
    network = Network([(k,) for k in range(40)], range(40), dict.fromkeys(range(40), 1000))
    expression = einloom.compile(network)
    arrays = [np.ones(1000)] * 40
    with pytest.raises(einloom.MemoryLimitError, match=r"e\+\d+ PiB"):
        expression(*arrays)
    with pytest.raises(einloom.MemoryLimitError, match=r"e\+\d+ PiB"):
        einloom.einsum(*[x for k, a in enumerate(arrays) for x in (a, [k])], list(range(40)))
    with pytest.raises(einloom.MemoryLimitError):
        einloom.plan(network, memory_limit="1PiB")


# Axes and labels --------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", ["auto", "greedy", False])
def test_intermediates_of_more_than_64_axes_of_size_1(planner: Any) -> None:
    """Each operand has 60 axes of size 1 and two of size 2; an intermediate has 180 labels."""
    inputs, sizes = [], {"a": 2, "b": 2, "c": 2, "d": 2}
    for k, pair in enumerate(["ab", "bc", "cd"]):
        ones = [("one", k, axis) for axis in range(30)]
        sizes |= dict.fromkeys(ones, 1)
        inputs.append([pair[0], *ones[:15], pair[1], *ones[15:]])
    output = ["d", ("one", 1, 3), "a", ("one", 2, 29)]
    network = Network(inputs, output, sizes)
    r = np.random.default_rng(2)
    arrays = [r.integers(-3, 4, shape).astype(float) for shape in network.shapes]
    got = einloom.compile(einloom.plan(network, planner=planner))(*arrays)
    a, b, c = (x.reshape(2, 2) for x in arrays)
    np.testing.assert_array_equal(got, (a @ b @ c).T.reshape(2, 1, 2, 1))


def test_a_thousand_labels() -> None:
    """In a string and interleaved: a ring of 1,000 matrices."""
    n = 1000
    r = np.random.default_rng(4)
    turns = r.uniform(-1, 1, n)
    arrays = [np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]]) for t in turns]
    want = 2 * math.cos(math.fsum(turns))
    labels = [chr(0x4E00 + k) for k in range(n)]
    text = ",".join(labels[k] + labels[(k + 1) % n] for k in range(n)) + "->"
    assert einloom.einsum(text, *arrays) == pytest.approx(want, abs=1e-11)
    pairs = [x for k, a in enumerate(arrays) for x in (a, [("bond", k), ("bond", (k + 1) % n)])]
    assert einloom.einsum(*pairs, []) == pytest.approx(want, abs=1e-11)


def test_a_thousand_labels_in_one_step() -> None:
    """Without intermediates, and all but ten of size 1."""
    sizes = {k: 2 if k % 100 == 0 else 1 for k in range(1000)}
    inputs = [range(k, k + 25) for k in range(0, 1000, 25)]
    network = Network(inputs, [0, 500, 999], sizes)
    arrays = [np.ones(shape) for shape in network.shapes]
    got = einloom.compile(einloom.plan(network, planner=False))(*arrays)
    np.testing.assert_array_equal(got, np.full((2, 2, 1), 2.0**8))


def test_a_hundred_labels_of_two_values() -> None:
    """More labels of size 2 than NumPy has axes, no more than few of them alive at once."""
    network = grid(8, 8)
    assert len(network.labels) == 112
    arrays = [np.ones(shape) for shape in network.shapes]
    assert einloom.compile(network)(*arrays) == 2.0**112


MOST = 64 if int(np.__version__.split(".")[0]) >= 2 else 32


def test_as_many_axes_as_numpy_has() -> None:
    """The largest result an array can be: MOST axes, of two operands."""
    half = MOST // 2
    a, b = np.full((1,) * half, 2.0), np.full((1,) * half, 3.0)
    got = einloom.einsum(a, list(range(half)), b, list(range(half, MOST)), list(range(MOST))[::-1])
    assert got.shape == (1,) * MOST
    assert got.item() == 6


@pytest.mark.parametrize("call", ["einsum", "plan", "einsum_path", "compile"])
def test_more_axes_than_numpy_has(call: str) -> None:
    half = MOST // 2
    a, b = np.ones((1,) * half), np.ones((1,) * (half + 1))
    arguments = [a, list(range(half)), b, list(range(half, MOST + 1)), list(range(MOST + 1))]
    with pytest.raises(
        einloom.ShapeError, match=rf"^{call}: the result has {MOST + 1} axes.* at most {MOST}"
    ):
        getattr(einloom, call)(*arguments)
    summed = [*arguments[:-1], list(range(MOST))]
    assert getattr(einloom, call)(*summed) is not None
    diagonal = np.ones(1)
    if call == "einsum":
        with pytest.raises(einloom.ShapeError, match=f"{MOST + 1} axes"):
            einloom.einsum(diagonal, [0], [0] * (MOST + 1), embed_diagonal=True)


def test_an_intermediate_of_too_many_axes_is_refused_clearly() -> None:
    """70 labels of size 2 alive at once: nothing could hold it, and the message says so."""
    inputs = [[("left", k), ("right", k)] for k in range(35)]
    hubs = [[("left", k) for k in range(35)], [("right", k) for k in range(35)]]
    sizes = {label: 2 for term in inputs for label in term}
    network = Network([*inputs, *hubs], [], sizes)
    path = [tuple(range(35)), (0, 1), (0, 1)]
    plan = einloom.plan(network, planner=path)
    assert plan.largest_intermediate == 2**70
    arrays = [np.broadcast_to(1.0, shape) for shape in network.shapes]
    with pytest.raises(einloom.EinloomError):
        einloom.compile(plan)(*arrays)


def test_sizes_beyond_64_bits_plan() -> None:
    network = Network(["ab", "bc"], "ac", {"a": 2**40, "b": 2**40, "c": 3})
    plan = einloom.plan(network)
    assert plan.cost == 3 * 2**80
    assert json.loads(plan.to_json())["extents"] == [2**40, 2**40, 3]

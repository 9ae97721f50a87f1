"""Linear and SSA paths are two spellings of one tree; what is no tree is refused."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from opt_einsum.paths import linear_to_ssa, ssa_to_linear
from tests.networks import Path, random_ssa_path

import einloom
from einloom import PathError
from einloom.contract.tree import ContractionTree

ARITIES = [(2,), (1, 2), (2, 3), (1, 2, 3, 4), (3,), (5,)]


def linear_by_hand(n: int, ssa_path: Path) -> Path:
    """Positions in a list of living tensors, where each result goes last."""
    alive, steps = list(range(n)), []
    for step in ssa_path:
        steps.append(tuple(sorted(alive.index(tensor) for tensor in step)))
        alive = [tensor for tensor in alive if tensor not in step] + [n + len(steps) - 1]
    return tuple(steps)


def ssa_by_hand(n: int, path: Path) -> Path:
    alive, steps = list(range(n)), []
    for step in path:
        steps.append(tuple(alive[position] for position in step))
        alive = [tensor for tensor in alive if tensor not in steps[-1]] + [n + len(steps) - 1]
    return tuple(steps)


def sets(path: Path) -> list[set[int]]:
    return [set(step) for step in path]


@pytest.mark.parametrize("arities", ARITIES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 16, 31, 64, 150])
def test_random_paths(n: int, arities: tuple[int, ...]) -> None:
    r = random.Random(n)
    for _ in range(10):
        ssa = random_ssa_path(r, n, arities)
        tree = ContractionTree(n, ssa)
        assert tree.path == linear_by_hand(n, ssa)
        shuffled = [tuple(r.sample(step, len(step))) for step in tree.path]
        again = ContractionTree.from_path(n, shuffled)
        assert again.ssa_path == ssa_by_hand(n, tuple(shuffled))
        assert sets(again.ssa_path) == sets(ssa)
        assert again.path == tree.path


@pytest.mark.parametrize("n", [2, 3, 10, 100])
def test_opt_einsum_agrees(n: int) -> None:
    r = random.Random(n)
    for _ in range(10):
        ssa = random_ssa_path(r, n)
        tree = ContractionTree(n, ssa)
        assert sets(tree.path) == sets(ssa_to_linear(ssa))
        assert sets(ContractionTree.from_path(n, tree.path).ssa_path) == sets(
            linear_to_ssa(tree.path)
        )


def test_a_path_of_any_sequences() -> None:
    want = ContractionTree(3, ((0, 1), (2, 3)))
    for path in (
        [[0, 1], [0, 1]],
        ((0, 1), (0, 1)),
        np.array([[0, 1], [0, 1]]),
        [(np.int64(0), np.uint8(1)), (0, 1)],
        iter([(0, 1), (0, 1)]),
        [{0, 1}, range(2)],
    ):
        assert ContractionTree.from_path(3, path) == want


def test_value() -> None:
    tree = ContractionTree(3, ((0, 2), (1, 3)))
    assert hash(tree) == hash(ContractionTree(3, ((0, 2), (1, 3))))
    assert tree != ContractionTree(3, ((0, 1), (2, 3)))
    with pytest.raises(AttributeError):
        tree.n = 4  # type: ignore[misc]


# Errors -----------------------------------------------------------------------------------------

LINEAR: dict[str, tuple[int, Any, str]] = {
    "a position out of range": (3, [(0, 3), (0, 1)], "position 3"),
    "a position out of range later": (3, [(0, 1), (0, 2)], "position 2"),
    "a negative position": (3, [(-1, 0), (0, 1)], "position -1"),
    "a position twice": (3, [(1, 1), (0, 1)], "twice"),
    "a position twice of three": (3, [(0, 1, 0), (0, 1)], "twice"),
    "incomplete": (3, [(0, 1)], "2 tensors are left"),
    "incomplete by single steps": (3, [(0,), (0,)], "3 tensors are left"),
    "too long": (3, [(0, 1), (0, 1), (0, 1)], "position 1"),
    "empty": (3, [], "empty"),
    "empty for one tensor": (1, [], "[(0,)]"),
    "an empty step": (3, [(0, 1), ()], "step 1"),
    "text": (3, "abc", "list of steps"),
    "a step of text": (3, ["01", "01"], "list of steps"),
    "letters": (3, [("a", "b"), (0, 1)], "list of steps"),
    "numbers that are no integers": (3, [(0.0, 1.0), (0, 1)], "list of steps"),
    "booleans": (3, [(False, True), (0, 1)], "list of steps"),
    "flat": (3, [0, 1], "list of steps"),
    "None": (3, None, "list of steps"),
    "None as a step": (3, [None], "list of steps"),
    "nested too deep": (3, [[(0, 1), (0, 1)]], "list of steps"),
}

SSA: dict[str, tuple[int, Path, str]] = {
    "a tensor that is not made yet": (3, ((0, 3), (1, 2)), "tensor 3"),
    "a tensor of its own": (3, ((0, 1), (2, 4)), "tensor 4"),
    "a negative tensor": (3, ((-1, 0), (1, 2)), "tensor -1"),
    "a tensor that is contracted": (3, ((0, 1), (0, 2)), "already"),
    "a tensor twice in a step": (3, ((0, 0), (1, 2)), "already"),
    "incomplete": (3, ((0, 1),), "2 tensors are left"),
    "empty": (2, (), "empty"),
    "an empty step": (2, ((), (0, 1)), "step 0"),
}


@pytest.mark.parametrize("name", LINEAR)
def test_invalid_path(name: str) -> None:
    n, path, says = LINEAR[name]
    with pytest.raises(PathError) as caught:
        ContractionTree.from_path(n, path)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", SSA)
def test_invalid_ssa_path(name: str) -> None:
    n, path, says = SSA[name]
    with pytest.raises(PathError) as caught:
        ContractionTree(n, path)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "name", [name for name, row in LINEAR.items() if type(row[1]) is list and "text" not in name]
)
def test_invalid_path_of_a_call(name: str) -> None:
    """The message of a call names the call and the argument."""
    n, path, _ = LINEAR[name]
    operands = [np.ones((2, 2))] * n
    text = ",".join(["ab", "bc", "cd"][:n])
    with pytest.raises(PathError, match=r"^einsum\(optimize=\.\.\.\)"):
        einloom.einsum(text, *operands, optimize=path)
    with pytest.raises(PathError, match=r"^plan\(planner=\.\.\.\)"):
        einloom.plan(text, *operands, planner=path)

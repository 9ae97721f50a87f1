"""einsum_path answers in NumPy's form; its path is valid there and here."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import opt_einsum
import pytest
from tests.cases import CORPUS, Case

import einloom

HEADINGS = ("chains and networks", "hyperedges", "outer products", "scalars", "traces", "ellipsis")
CASES = [
    case
    for heading in HEADINGS
    for case in CORPUS[heading]
    if case.numpy_can and isinstance(case.equation, str)
]
A, B, C = np.ones((2, 8)), np.ones((8, 9)), np.ones((9, 2))


@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case.equation))
def test_numpy_takes_our_path(case: Case) -> None:
    operands = case.operands()
    path, table = einloom.einsum_path(case.equation, *operands)
    assert path[0] == "einsum_path"
    assert all(type(step) is tuple and all(type(k) is int for k in step) for step in path[1:])
    assert isinstance(table, str)
    assert len(path) > 1
    want = np.einsum(case.equation, *operands)
    np.testing.assert_allclose(np.einsum(case.equation, *operands, optimize=path), want)
    np.testing.assert_allclose(einloom.einsum(case.equation, *operands, optimize=path), want)


@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case.equation))
def test_we_take_numpys_path(case: Case) -> None:
    operands = case.operands()
    path, _ = np.einsum_path(case.equation, *operands, optimize="greedy")
    got = einloom.einsum(case.equation, *operands, optimize=path)
    np.testing.assert_allclose(got, np.einsum(case.equation, *operands))
    assert einloom.einsum_path(case.equation, *operands, optimize=path)[0] == path


@pytest.mark.parametrize("optimize", ["greedy", "optimal", True, ("greedy", 1e6), "auto", "dp"])
def test_optimize(optimize: Any) -> None:
    path, table = einloom.einsum_path("ij,jk,kl->il", A, B, C, optimize=optimize)
    assert path == ["einsum_path", (1, 2), (0, 1)]
    assert table == str(einloom.plan("ij,jk,kl->il", A, B, C, planner=optimize))


def test_optimize_false() -> None:
    path, _ = einloom.einsum_path("ij,jk,kl->il", A, B, C, optimize=False)
    assert (
        path
        == ["einsum_path", (0, 1, 2)]
        == np.einsum_path("ij,jk,kl->il", A, B, C, optimize=False)[0]
    )


def test_one_operand() -> None:
    for text in ("ij->ji", "ij->", "ii->i"):
        square = np.ones((2, 2))
        path, _ = einloom.einsum_path(text, square)
        assert path == ["einsum_path", (0,)] == np.einsum_path(text, square)[0]


def test_opt_einsum_takes_the_steps() -> None:
    path, _ = einloom.einsum_path("ij,jk,kl->il", A, B, C)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(
            opt_einsum.contract("ij,jk,kl->il", A, B, C, optimize=path[1:]), A @ B @ C
        )


def test_other_forms() -> None:
    """Interleaved, shapes instead of arrays, lists, parentheses."""
    want = ["einsum_path", (1, 2), (0, 1)]
    assert einloom.einsum_path(A, [0, 1], B, [1, 2], C, [2, 3], [0, 3])[0] == want
    assert einloom.einsum_path("ij,jk,kl->il", A.shape, B.shape, C.shape)[0] == want
    assert einloom.einsum_path("ij,jk,kl->il", A.tolist(), B, C)[0] == want
    assert einloom.einsum_path("(ij,jk),kl->il", A, B, C)[0] == ["einsum_path", (0, 1), (0, 1)]


def test_nothing_is_computed() -> None:
    """Shapes that no memory holds have a path."""
    vast = np.broadcast_to(np.float64(1), (2**20, 2**20))
    assert len(einloom.einsum_path("ij,jk,kl->il", vast, vast, vast)[0]) == 3


def test_the_limit() -> None:
    with pytest.raises(einloom.MemoryLimitError, match=r"^einsum_path: "):
        einloom.einsum_path("ij,jk,kl->il", A, B, C, memory_limit=100)
    assert len(einloom.einsum_path("ij,jk,kl->il", A, B, C, memory_limit="1MiB")[0]) == 3


@pytest.mark.parametrize(
    ("arguments", "keywords", "error"),
    [
        ((), {}, einloom.SubscriptError),
        (("ij,jk", A), {}, einloom.SubscriptError),
        (("ij,jk", A, A), {}, einloom.ShapeError),
        (("ij->k", A), {}, einloom.SubscriptError),
        (("ij,jk", A, B), {"optimize": "fastest"}, einloom.OptionError),
        (("ij,jk", A, B), {"optimize": [(0, 2)]}, einloom.PathError),
        (("ij,jk", A, B), {"memory_limit": "much"}, einloom.OptionError),
        (("ij,jk", A, B.astype(str)), {}, einloom.DTypeError),
    ],
)
def test_errors(arguments: Any, keywords: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="einsum_path"):
        einloom.einsum_path(*arguments, **keywords)

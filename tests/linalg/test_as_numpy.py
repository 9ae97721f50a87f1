"""Norms, ranks and products are NumPy's, batch by batch; signatures are NumPy's, and more."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.each import each
from tests.linalg.matrices import DTYPES, draw

from einloom import linalg
from einloom.linalg.products import chain_order

NAMES = [name for name in np.linalg.__all__ if name != "LinAlgError"]


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name: str) -> None:
    """Every parameter of NumPy's, in its place and with its default; ours come after, by name only."""
    try:
        theirs = list(inspect.signature(getattr(np.linalg, name)).parameters.values())
    except ValueError:
        pytest.skip("NumPy tells no signature")
    ours = list(inspect.signature(getattr(linalg, name)).parameters.values())
    for want, got in zip(theirs, ours, strict=False):
        assert (got.name, got.kind) == (want.name, want.kind)
        assert got.default == want.default or repr(got.default) == repr(want.default)
    assert len(ours) >= len(theirs)
    assert all(extra.kind is extra.KEYWORD_ONLY for extra in ours[len(theirs) :])


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    **{
        f"norm {order} {axis} {keep}": lambda la, x, o=order, a=axis, k=keep: la.norm(x, o, a, k)
        for axis in ((0, 1), (-1, -2), (2, 0))
        for order in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc")
        for keep in (False, True)
    },
    **{
        f"norm of vectors {order}": lambda la, x, o=order: la.norm(x, o, 1)
        for order in (None, 0, 1, 2, 3, 0.5, -1, np.inf, -np.inf)
    },
    "norm of all": lambda la, x: la.norm(x),
    "matrix_norm": lambda la, x: la.matrix_norm(x, ord="nuc"),
    "matrix_norm kept": lambda la, x: la.matrix_norm(x, keepdims=True),
    "vector_norm": lambda la, x: la.vector_norm(x, axis=0),
    "vector_norm of axes": lambda la, x: la.vector_norm(x, axis=(0, -1), keepdims=True, ord=1),
    "vector_norm of all": lambda la, x: la.vector_norm(x, keepdims=True),
    **{
        f"cond {p}": lambda la, x, p=p: la.cond(x @ x.swapaxes(-1, -2).conj() + np.eye(3, dtype=x.dtype), p)
        for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc")
    },
    "matrix_rank": lambda la, x: la.matrix_rank(x),
    "matrix_rank of low": lambda la, x: la.matrix_rank(x[..., :1] * np.ones(4), hermitian=False),
    "matrix_rank tol": lambda la, x: la.matrix_rank(x, tol=[1.0, 0.1]),
    "matrix_rank rtol": lambda la, x: la.matrix_rank(x, rtol=[0.5, 0.1]),
    "pinv": lambda la, x: la.pinv(x),
    "pinv rcond": lambda la, x: la.pinv(x, rcond=[0.5, 0.1]),
    "pinv rtol": lambda la, x: la.pinv(x, rtol=None),
    "svd hermitian": lambda la, x: la.svd(x @ x.swapaxes(-1, -2).conj(), hermitian=True)[1],
    "matrix_power": lambda la, x: la.matrix_power(x[..., :3], 5),
    "matrix_power -3": lambda la, x: la.matrix_power(x[..., :3] + 4 * np.eye(3, dtype=x.dtype), -3),
    "multi_dot": lambda la, x: la.multi_dot([x[0], x[1].T, x[0], x[1, 0]]),
    "outer": lambda la, x: la.outer(x[0, 0], x[1, 1]),
    "cross": lambda la, x: la.cross(x[..., :3], x[..., 1:]),
    "cross axis": lambda la, x: la.cross(x, x + 1, axis=1),
    "matmul": lambda la, x: la.matmul(x, x.swapaxes(-1, -2)),
    "tensordot": lambda la, x: la.tensordot(x, x, axes=((0, 1), (0, 1))),
    "vecdot": lambda la, x: la.vecdot(x, x + 1, axis=0),
    "diagonal": lambda la, x: la.diagonal(x, offset=1),
    "trace": lambda la, x: la.trace(x, offset=-1),
    "matrix_transpose": lambda la, x: la.matrix_transpose(x),
    "tensorinv": lambda la, x: la.tensorinv(x[0, :, :3].reshape(3, 3, 1) + 4 * np.eye(3)[..., None], 1),
    "tensorsolve": lambda la, x: la.tensorsolve(
        (x[0, :, :3] + 4 * np.eye(3, dtype=x.dtype)).reshape(1, 3, 3), x[1, None, :, 0], axes=None
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@each("dtype", DTYPES)
def test_as_numpy(name: str, dtype: str) -> None:
    x = draw(np.random.default_rng(7), (2, 3, 4), dtype)
    got, want = CALLS[name](linalg, x), CALLS[name](np.linalg, x)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    assert np.shape(got) == np.shape(want)
    tolerance = 1e-3 if dtype in ("float32", "complex64") else 1e-10
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_lstsq_cutoffs() -> None:
    a = np.diag([1.0, 1e-3, 0.0])
    for rcond, rank in ((None, 2), (-1, 3), (1e-2, 1), (1e-4, 2)):
        assert linalg.lstsq(a, np.ones(3), rcond)[2] == np.linalg.lstsq(a, np.ones(3), rcond)[2]
        assert linalg.lstsq(np.stack([a, np.eye(3)]), np.ones(3), rcond)[2].tolist() == [
            2 if rcond == -1 else rank,
            3,
        ]


@given(st.lists(st.integers(1, 30), min_size=3, max_size=9))
def test_multi_dot_is_cheapest(sizes: list[int]) -> None:
    """No other order takes fewer multiplications."""

    def cost(order: list[tuple[int, int, int]]) -> int:
        return sum(sizes[i] * sizes[s + 1] * sizes[j + 1] for i, s, j in order)

    best: dict[tuple[int, int], int] = {}
    n = len(sizes) - 1
    for length in range(n):
        for i in range(n - length):
            j = i + length
            best[i, j] = min(
                (
                    best[i, s] + best[s + 1, j] + sizes[i] * sizes[s + 1] * sizes[j + 1]
                    for s in range(i, j)
                ),
                default=0,
            )
    order = chain_order(sizes)
    assert len(order) == n - 1
    assert cost(order) == best[0, n - 1]


@given(st.lists(st.integers(1, 4), min_size=3, max_size=7), st.integers(0, 2**32 - 1))
def test_multi_dot_is_the_product(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-3, 4, pair) for pair in itertools.pairwise(sizes)]
    want = arrays[0]
    for x in arrays[1:]:
        want = want @ x
    np.testing.assert_array_equal(linalg.multi_dot(arrays), want)


def test_eigenvalues_are_always_complex() -> None:
    for dtype, want in (
        ("float32", "complex64"),
        ("float64", "complex128"),
        ("int32", "complex128"),
    ):
        for shape in ((3, 3), (0, 3, 3), (0, 0)):
            a = np.broadcast_to(np.eye(shape[-1], dtype=dtype), shape)
            assert linalg.eig(a).eigenvalues.dtype == want
            assert linalg.eig(a).eigenvectors.dtype == want
            assert linalg.eigvals(a).dtype == want


def test_torch_tensors_come_back() -> None:
    torch = pytest.importorskip("torch")
    a = torch.eye(3, dtype=torch.float64) * 2
    assert isinstance(linalg.inv(a), torch.Tensor)
    assert isinstance(linalg.solve(a, torch.ones(3, dtype=torch.float64)), torch.Tensor)

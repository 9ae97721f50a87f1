"""Forms of matrices are found and used: `select`, `solve(assume_a=)`, `factorize`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.linalg.matrices import DTYPES, Array, adjoint, draw

from einloom import linalg
from einloom.linalg.selection import KINDS

N = 24
ROW, COL = np.indices((N, N))


def _hermitian(a: Array) -> Array:
    """To the last bit, which a product is not with every BLAS."""
    product = a @ adjoint(a) + np.eye(N, dtype=a.dtype) * a.dtype.type(N)
    return (product + adjoint(product)) / 2


FORMS: dict[str, Callable[[Array], Array]] = {
    "diagonal": lambda a: np.where(ROW == COL, a + 9, 0).astype(a.dtype),
    "upper triangular": lambda a: np.triu(a + 9 * np.eye(N)).astype(a.dtype),
    "lower triangular": lambda a: np.tril(a + 9 * np.eye(N)).astype(a.dtype),
    "banded": lambda a: np.where(
        (ROW - COL <= 1) & (COL - ROW <= 2), a + 9 * (ROW == COL), 0
    ).astype(a.dtype),
    "positive definite": _hermitian,
    "general": lambda a: (a + 9 * np.eye(N)).astype(a.dtype),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", FORMS)
def test_select(rng: np.random.Generator, kind: str, dtype: str) -> None:
    a = FORMS[kind](draw(rng, (3, N, N), dtype))
    choice = linalg.select(a)
    assert choice.kind == kind
    assert choice.method == KINDS[kind]
    assert choice.reason in str(choice)
    if kind != "general":
        a[1, -1, 0] = a[1, 0, -1] = 1j if dtype[0] == "c" else 1
        a[1, 0, -1] += 1
        assert linalg.select(a).kind == "general", "one member of another form"


def test_select_of_other_shapes() -> None:
    assert linalg.select(np.ones((3, 2))).kind == "tall"
    assert linalg.select(np.ones((2, 3))).kind == "wide"
    assert linalg.select(np.ones((0, 0))).kind == "diagonal"
    assert linalg.select(np.ones((0, 3, 3))).kind == "diagonal"
    assert linalg.select([[0.0, 1.0], [1.0, 0.0]]).kind == "general"
    assert linalg.select(np.full((3, 3), np.nan)).kind == "general"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", FORMS)
def test_solve_assumed(rng: np.random.Generator, kind: str, dtype: str) -> None:
    """The same solution as of a general matrix, to rounding; "auto" as well as by name."""
    a = FORMS[kind](draw(rng, (3, N, N), dtype))
    b = draw(rng, (3, N, 2), dtype)
    want = np.linalg.solve(a.astype("complex128"), b)
    tolerance = 1e-3 if dtype in ("float32", "complex64") else 1e-9
    for name in (kind, "auto", None):
        x = linalg.solve(a, b, assume_a=name)
        assert x.dtype == dtype
        np.testing.assert_allclose(x, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sym", "her", "pos"])
@pytest.mark.parametrize("lower", [False, True])
def test_one_triangle_is_enough(
    rng: np.random.Generator, name: str, dtype: str, lower: bool
) -> None:
    a = draw(rng, (2, 6, 6), dtype)
    a = {
        "sym": a + a.swapaxes(-1, -2),
        "her": a + adjoint(a),
        "pos": a @ adjoint(a) + np.eye(6, dtype=dtype),
    }[name]
    b = draw(rng, (2, 6, 1), dtype)
    other = np.full((6, 6), np.nan)
    seen = (a + (np.triu(other, 1) if lower else np.tril(other, -1))).astype(dtype)
    x = linalg.solve(seen, b, assume_a=name, lower=lower)
    tolerance = 1e-2 if dtype in ("float32", "complex64") else 1e-8
    np.testing.assert_allclose(a @ x, b, atol=tolerance)


def test_auto_falls_back_by_member(rng: np.random.Generator) -> None:
    """Hermitian with a positive diagonal, and not positive definite: LU for those that are not."""
    a = np.array([[[2.0, 1], [1, 2]], [[1, 2], [2, 1]], [[1, 1], [1, 1]]])
    x, info = linalg.solve(a, np.ones((2, 1)), assume_a="auto", on_error="info")
    assert info.tolist() == [0, 0, 2]
    np.testing.assert_allclose(a[:2] @ x[:2], np.ones((2, 2, 1)))
    both = linalg.solve(a[1:2], np.ones(2), assume_a="auto")
    np.testing.assert_allclose(both, [[1 / 3, 1 / 3]])
    f = linalg.factorize(a[:2])
    assert (f.kind, "not positive definite" in f.reason) == ("general", True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 0)])
@pytest.mark.parametrize("kind", FORMS)
def test_factorize(rng: np.random.Generator, kind: str, batch: tuple[int, ...], dtype: str) -> None:
    a = FORMS[kind](draw(rng, (*batch, N, N), dtype))
    f = linalg.factorize(a, kind)
    assert f.kind == kind
    assert f.method
    assert f.shape == a.shape
    assert not f.info.any()
    assert f.failed == ()
    tolerance = 1e-3 if dtype in ("float32", "complex64") else 1e-9
    for trans, op in (("N", a), ("T", a.swapaxes(-1, -2)), ("C", adjoint(a))):
        b = draw(rng, (*batch, N, 2), dtype)
        np.testing.assert_allclose(op @ f.solve(b, trans), b, atol=tolerance * 10)
    vector = f.solve(np.ones(N, dtype))
    assert vector.shape == (*batch, N)
    sign, logabs = f.slogdet()
    want = np.linalg.slogdet(a.astype("complex128"))
    np.testing.assert_allclose(sign, want[0], atol=tolerance)
    np.testing.assert_allclose(logabs, want[1], rtol=tolerance)
    assert f.det().dtype == dtype
    np.testing.assert_allclose(a @ f.inv(), np.broadcast_to(np.eye(N), a.shape), atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_factorize_not_square(rng: np.random.Generator, dtype: str) -> None:
    for shape, kind in (((2, 7, 4), "tall"), ((2, 4, 7), "wide")):
        a, b = draw(rng, shape, dtype), draw(rng, (2, shape[-2], 3), dtype)
        f = linalg.factorize(a)
        assert f.kind == kind
        want = linalg.lstsq(a, b)[0]
        np.testing.assert_allclose(f.solve(b), want, atol=1e-4)
        np.testing.assert_allclose(f.inv(), linalg.pinv(a), atol=1e-4)


def test_a_factorization_takes_wider_right_hand_sides(rng: np.random.Generator) -> None:
    """Of float32 a matrix and of complex128 a vector: in complex128."""
    for kind, form in FORMS.items():
        a = form(draw(rng, (N, N), "float32"))
        b = draw(rng, (N,), "complex128")
        x = linalg.factorize(a, kind).solve(b)
        assert x.dtype == np.complex128
        np.testing.assert_allclose(a @ x, b, atol=1e-3)
        spread = linalg.factorize(a, kind).solve(np.stack([b[:, None]] * 3))
        np.testing.assert_allclose(spread[2, :, 0], x, atol=1e-9)


def test_singular_members_of_a_factorization() -> None:
    """They are told when it is made, and raise when it is used."""
    for a in (
        np.array([np.diag([1.0, 2]), np.diag([1.0, 0])]),
        np.array([[[1.0, 2], [0, 1]], [[1, 2], [0, 0]]]),
        np.array([[[1.0, 2], [3, 4]], [[1, 1], [1, 1]]]),
    ):
        f = linalg.factorize(a)
        assert f.info.tolist() == [0, 2]
        assert f.failed == ((1,),)
        assert f.det()[1] == 0
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            f.solve([1.0, 1.0])
        x, info = f.solve([1.0, 1.0], on_error="info")
        assert info.tolist() == [0, 2]
        np.testing.assert_allclose(a[0] @ x[0], [1, 1])
        assert np.isnan(x[1]).all()


def test_full_pivoting_tells_the_rank(rng: np.random.Generator) -> None:
    """Whatever the scale: of rank 3 in 5 dimensions, the fourth pivot is small."""
    for dtype in DTYPES:
        a = draw(rng, (4, 5, 3), dtype) @ draw(rng, (4, 3, 5), dtype)
        for scale in (1e-20, 1.0, 1e15):
            factors = linalg.full_piv_lu(a * a.dtype.type(scale))
            _, info = linalg.full_piv_lu_solve(factors, np.ones(5, dtype), on_error="info")
            assert (info == 4).all()


@pytest.mark.parametrize("trans", ["N", "T", "C"])
def test_full_piv_lu_solve_transposed(rng: np.random.Generator, trans: str) -> None:
    a, b = draw(rng, (3, 5, 5), "complex128"), draw(rng, (3, 5, 2), "complex128")
    op: Any = {"N": a, "T": a.swapaxes(-1, -2), "C": adjoint(a)}[trans]
    x = linalg.full_piv_lu_solve(linalg.full_piv_lu(a), b, trans=trans)
    np.testing.assert_allclose(op @ x, b, atol=1e-10)

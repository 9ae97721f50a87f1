"""What a function answers does not depend on the way that its batch takes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.linalg.matrices import DTYPES, Array, adjoint, draw
from tests.tolerance import eps

import einloom
from einloom import linalg
from einloom.backend.cpu.linalg import batched, interleaved, plain, single

KERNELS = pytest.param(0, marks=pytest.mark.slow)  # each dtype of each compiles
FEW = {"plain": plain, "single": single, "batched": batched}
ALL = FEW | {"interleaved": interleaved}


def member(module: ModuleType, name: str, *arrays: Array, **named: Any) -> tuple[Array, ...]:
    """What a way gives for the first of equal matrices; `single` is given that one."""
    if module is not single:
        arrays = tuple(np.repeat(x[None], 3, axis=0) for x in arrays)
    found = getattr(module, name)(*arrays, **named)
    found = found if isinstance(found, tuple) else (found,)
    return tuple(np.asarray(x if module is single else x[0]) for x in found)


# ---- matrices of tiny norm, whose pivots have no finite inverse -------------------------------------


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_norm(rng: np.random.Generator, dtype: str, name: str) -> None:
    """Subnormal numbers have few digits: b is made of the matrix, and then x need not."""
    module, n = FEW[name], 4
    spacing = float(np.finfo(dtype).smallest_subnormal)
    for scale in (1e-3, 1e-5):
        a = (draw(rng, (n, n), dtype) * np.finfo(dtype).tiny.astype(dtype) * scale).astype(dtype)
        size = float(abs(a.real).max())
        close = {"atol": 100 * eps(dtype) * size + 8 * spacing, "rtol": 0}
        packed, pivots, info = member(module, "lu", a)
        assert not info
        order = np.arange(n)
        for k, other in enumerate(pivots):
            order[[k, other]] = order[[other, k]]
        lower, upper = np.tril(packed, -1) + np.eye(n, dtype=dtype), np.triu(packed)
        np.testing.assert_allclose((lower @ upper), a[order], **close)
        x, info = member(module, "solve", a, a[:, :2].copy())
        assert not info
        np.testing.assert_allclose(x, np.eye(n, 2), atol=1e4 * eps(dtype))
        x, info = member(module, "solve", a, np.zeros((n, 1), dtype))
        np.testing.assert_array_equal(x, 0)
        huge, info = member(module, "inv", a)  # beyond the largest number, but no NaN
        assert not np.isnan(huge.real).any()
        (found,) = member(module, "det", a)
        assert found == 0
        if module is single:
            continue
        x = member(module, "lu_solve", packed, pivots, a[:, :1].copy())[0]
        np.testing.assert_allclose(x, np.eye(n, 1), atol=max(1e4 * eps(dtype), 1e-1))
        t = (np.triu(a) + np.eye(n) * 4 * size).astype(dtype)
        x, info = member(
            module, "triangular_solve", t, t, lower=False, trans="N", unit_diagonal=False
        )
        np.testing.assert_allclose(x, np.eye(n), atol=1e4 * eps(dtype))
        sign, logabsdet = member(module, "slogdet", a)
        wide = a.astype("complex128") * 2.0**500
        np.testing.assert_allclose(
            logabsdet,
            np.linalg.slogdet(wide)[1] - 500 * n * np.log(2),
            rtol=1e-5 if dtype in ("float32", "complex64") else 1e-10,
        )
        assert abs(abs(sign) - 1) < 1e-5


def test_one_tiny_member_among_others(rng: np.random.Generator) -> None:
    a = draw(rng, (4, 5, 5), "float64")
    a[2] *= 1e-310
    for module in (plain, batched):
        x, info = module.solve(a, a[..., :1].copy())
        assert not info.any()
        np.testing.assert_allclose(x[..., 0], np.broadcast_to(np.eye(5)[0], (4, 5)), atol=1e-8)
        packed = module.lu(a)[0]
        for k in (0, 1, 3):
            np.testing.assert_array_equal(packed[k], module.lu(a[k : k + 1])[0][0])


# ---- the codes of Cholesky ---------------------------------------------------------------------------


@pytest.mark.parametrize("ways", [FEW, pytest.param(ALL, marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_of_cholesky(rng: np.random.Generator, dtype: str, ways: dict[str, Any]) -> None:
    """The order of the first leading minor that is not positive; with NaN none is from its row on."""
    for n in (3, 5):
        g = draw(rng, (n, n), dtype)
        h = g @ adjoint(g) + n * np.eye(n, dtype=dtype)
        for at in ((0, 0), (1, 0), (2, 1), (1, 1), (n - 1, n - 1)):
            for value in (np.nan, np.inf, -np.inf, -1e3):
                if value == np.inf and at[0] == at[1]:
                    continue  # a factor with infinity
                a = h.copy()
                a[at] = value
                for lower, x in ((True, a), (False, a.T.copy())):
                    codes = {
                        w: int(member(m, "cholesky", x, lower=lower)[1]) for w, m in ways.items()
                    }
                    assert set(codes.values()) == {at[0] + 1}, (n, at, value, codes)


# ---- triangles that are not read ---------------------------------------------------------------------

READS: dict[str, tuple[str, Callable[..., Any]]] = {
    "cholesky": ("lower", linalg.cholesky),
    "cholesky upper": ("upper", lambda a, **o: linalg.cholesky(a, upper=True, **o)),
    "eigh": ("lower", linalg.eigh),
    "eigvalsh upper": ("upper", lambda a, **o: linalg.eigvalsh(a, "U", **o)),
    "hermitian svd": ("lower", lambda a, **o: linalg.svd(a, hermitian=True, **o)),
    "triangular": (
        "lower", lambda a, **o: linalg.solve_triangular(a, np.ones(3), lower=True, **o),
    ),
    "triangular from the right": (
        "upper", lambda a, **o: linalg.solve_triangular(a, np.ones(3), side="right", **o),
    ),
    "unit triangular": (
        "strict upper", lambda a, **o: linalg.solve_triangular(a, np.ones(3), unit_diagonal=True, **o),
    ),
    "cho_solve": ("lower", lambda a, **o: linalg.cho_solve((a, True), np.ones(3), **o)),
    "positive definite": ("upper", lambda a, **o: linalg.solve(a, np.ones(3), assume_a="pos", **o)),
    "symmetric": (
        "lower", lambda a, **o: linalg.solve(a, np.ones(3), assume_a="sym", lower=True, **o),
    ),
    "lower triangular": (
        "lower", lambda a, **o: linalg.solve(a, np.ones(3), assume_a="lower triangular", **o),
    ),
    "diagonal": ("diagonal", lambda a, **o: linalg.solve(a, np.ones(3), assume_a="diagonal", **o)),
    "eigh_subset": ("lower", lambda a, **o: linalg.eigh_subset(a, by_index=(0, 1), **o)),
    "eigh_generalized": ("lower", lambda a, **o: linalg.eigh_generalized(a, a, **o)),
}  # fmt: skip
MASKS: dict[str, Array] = {
    "lower": np.tri(3, dtype=bool),
    "upper": np.tri(3, dtype=bool).T,
    "strict upper": np.tri(3, k=-1, dtype=bool).T,
    "diagonal": np.eye(3, dtype=bool),
}


@pytest.mark.parametrize("small", [np.inf, KERNELS])
@pytest.mark.parametrize("name", READS)
def test_check_finite_looks_where_the_function_does(
    rng: np.random.Generator, name: str, small: float
) -> None:
    part, run = READS[name]
    g = draw(rng, (4, 3, 3), "float64")
    h = g @ adjoint(g) + 3 * np.eye(3)
    spoilt = np.where(MASKS[part], h, np.nan)
    with einloom.options(small=small):
        want, got = run(h, check_finite=True), run(spoilt, check_finite=True)
        for x, y in zip(flat(want), flat(got), strict=True):
            np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-12)
        spoilt[1][MASKS[part]] = np.inf
        _, info = run(spoilt, check_finite=True, on_error="info")
        assert info.tolist() == [0, -1, 0, 0]


def flat(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple) else (found,)


def test_the_imaginary_part_of_a_hermitian_diagonal(rng: np.random.Generator) -> None:
    a = draw(rng, (3, 3), "complex128")
    a = a + adjoint(a)
    want = linalg.eigvalsh(a)
    a.imag[1, 1] = np.nan
    np.testing.assert_allclose(linalg.eigvalsh(a, check_finite=True), want, atol=1e-12)


# ---- members that are not finite, elsewhere ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "general", "positive definite", "tall", "wide"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_factors_of_an_infinite_matrix(rng: np.random.Generator, kind: str, value: float) -> None:
    g = draw(rng, (3, 3, 3), "float64")
    a = g @ adjoint(g) + 3 * np.eye(3)
    a[1, 1, 0] = a[1, 0, 1] = value
    f = linalg.factorize(a, kind)
    assert f.info.tolist() == [0, -1, 0]
    assert f.failed == ((1,),)
    with pytest.raises(einloom.LinAlgError, match=r"infs or NaNs.*at 1;"):
        f.solve(np.ones(3))
    x = f.solve(np.ones(3), on_error="nan")
    np.testing.assert_allclose((a @ x[..., None])[[0, 2], :, 0], 1, atol=1e-10)


def test_factors_where_only_some_elements_are_read() -> None:
    a = np.array([[2.0, np.nan], [np.inf, 4.0]])
    assert linalg.factorize(a, "diagonal").info == 0
    assert linalg.factorize(a, "upper triangular").info == -1
    assert linalg.factorize(np.array([[2.0, np.nan], [1.0, 4.0]]), "lower triangular").info == 0


def test_permutations_name_every_row_once() -> None:
    one, twice = np.eye(2), np.array([[1.0, 0.0], [1.0, 0.0]])
    for factors in ((twice, one, one, one), (one, one, one, twice)):
        with pytest.raises(einloom.CallError, match="twice"):
            linalg.full_piv_lu_solve(factors, np.ones(2))


@pytest.mark.parametrize("mode", ["relative", "absolute", "relative_weight", "weight"])
def test_a_failed_member_makes_no_truncated_svd_larger(mode: Any) -> None:
    a = np.stack([np.diag([3.0, 1e-9, 0.0]), np.full((3, 3), np.nan)])
    got = linalg.truncated_svd(a, cutoff=1e-6, cutoff_mode=mode, on_error="nan")
    assert got.ranks.tolist() == [1, -1]
    assert got.S.shape == (2, 1)
    assert np.isnan(got.S[1]).all()


@pytest.mark.parametrize("form", [{}, {"permute_l": True}, {"p_indices": True}], ids=str)
def test_lu_of_failed_members(rng: np.random.Generator, form: dict[str, bool]) -> None:
    """All of their results are NaN, indices -1."""
    a = draw(rng, (3, 4, 3), "float64")
    a[1, 2, 1] = np.nan
    want = linalg.lu(np.delete(a, 1, axis=0), **form)
    got = linalg.lu(a, **form, check_finite=True, on_error="nan")
    for x, y in zip(got, want, strict=True):
        assert (x[1] == -1).all() if x.dtype.kind == "i" else np.isnan(x[1]).all()
        np.testing.assert_array_equal(x[[0, 2]], y)

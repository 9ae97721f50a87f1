"""Identities that hold for every matrix: products, adjoints, shifts, blocks, powers of two."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.linalg.matrices import Array, adjoint, draw

from einloom import linalg


@st.composite
def squares(draw_: st.DrawFn, count: int = 1) -> Any:
    """Well conditioned matrices [batch, n, n] of a seed; real and complex."""
    n, batch = draw_(st.integers(1, 7)), draw_(st.integers(0, 3))
    dtype = draw_(st.sampled_from(["float64", "complex128"]))
    rng = np.random.default_rng(draw_(st.integers(0, 2**32 - 1)))
    eye = 3 * n**0.5 * np.eye(n)
    found = [draw(rng, (batch, n, n), dtype) + eye for _ in range(count)]
    return found[0] if count == 1 else found


def close(got: Array, want: Array) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@given(squares(2))
def test_of_products(pair: list[Array]) -> None:
    """det(a b) = det a det b and (a b)⁻¹ = b⁻¹ a⁻¹."""
    a, b = pair
    close(linalg.det(a @ b), linalg.det(a) * linalg.det(b))
    close(linalg.inv(a @ b), linalg.inv(b) @ linalg.inv(a))
    sign, logabs = linalg.slogdet(a @ b)
    close(sign, linalg.slogdet(a).sign * linalg.slogdet(b).sign)
    close(logabs, linalg.slogdet(a).logabsdet + linalg.slogdet(b).logabsdet)


@given(squares(2))
def test_of_solutions(pair: list[Array]) -> None:
    """However it is solved: a x = b; columns are independent; and aᴴ y = c through the same factors."""
    a, b = pair
    x = linalg.solve(a, b)
    close(a @ x, b)
    close(x[..., :1], linalg.solve(a, b[..., :1]))
    factors = linalg.lu_factor(a)
    close(linalg.lu_solve(factors, b), x)
    close(adjoint(linalg.lu_solve(factors, b, "C")), adjoint(b) @ linalg.inv(a))
    close(linalg.full_piv_lu_solve(linalg.full_piv_lu(a), b), x)
    close(linalg.factorize(a).solve(b), x)
    close(linalg.lstsq(a, b)[0], x)


@given(squares())
def test_of_spectra(a: Array) -> None:
    """Traces, determinants and shifts; singular values squared are eigenvalues of aᴴ a."""
    w = linalg.eigvals(a)
    close(w.sum(axis=-1), np.trace(a, axis1=-2, axis2=-1))
    close(w.prod(axis=-1), linalg.det(a).astype(complex))
    h = a + adjoint(a)
    close(linalg.eigvalsh(h + np.eye(a.shape[-1])), linalg.eigvalsh(h) + 1)
    close(linalg.eigvalsh(-h), -linalg.eigvalsh(h)[..., ::-1])
    close(linalg.svdvals(a)[..., ::-1] ** 2, linalg.eigvalsh(adjoint(a) @ a))
    close(linalg.svdvals(adjoint(a)), linalg.svdvals(a))
    close(linalg.svd(h, hermitian=True).S, linalg.svdvals(h))


@given(squares())
def test_of_factors(a: Array) -> None:
    """Cholesky's factor is R of QR up to phases; both triangles tell the same."""
    h = adjoint(a) @ a
    r = linalg.qr(a).R
    upper = linalg.cholesky(h, upper=True)
    close(abs(r), abs(upper))
    close(adjoint(upper), linalg.cholesky(h))
    close(abs(np.diagonal(r, axis1=-2, axis2=-1)).prod(axis=-1), abs(linalg.det(a)))
    close(linalg.cond(a), linalg.svdvals(a)[..., 0] / linalg.svdvals(a)[..., -1])
    close(linalg.pinv(a), linalg.inv(a))


@given(squares(), st.integers(-20, 20))
@settings(max_examples=50)
def test_powers_of_two_are_exact(a: Array, power: int) -> None:
    """Scaled by a power of two, pivots are the same and results scale without rounding."""
    scaled = a * 2.0**power
    np.testing.assert_array_equal(linalg.inv(scaled), linalg.inv(a) * 2.0**-power)
    lu, pivots = linalg.lu_factor(scaled)
    same, want = linalg.lu_factor(a)
    np.testing.assert_array_equal(pivots, want)
    np.testing.assert_array_equal(np.triu(lu), np.triu(same) * 2.0**power)
    np.testing.assert_array_equal(np.tril(lu, -1), np.tril(same, -1))


@given(squares(), st.permutations(range(7)))
def test_permuted_rows(a: Array, order: list[int]) -> None:
    """P a has the same solutions with P b, and its determinant has the sign of P."""
    n = a.shape[-1]
    rows = [k for k in order if k < n]
    b = np.arange(n, dtype=float)
    close(linalg.solve(a[:, rows], b[rows]), linalg.solve(a, b))
    sign = round(float(np.linalg.det(np.eye(n)[rows])))
    close(linalg.det(a[:, rows]), sign * linalg.det(a))

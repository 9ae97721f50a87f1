"""Truncated and randomized SVD against what Eckart and Young say, member by member."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.each import each
from tests.tolerance import eps

from einloom import DTypeError, EinloomError, OptionError, ShapeError, linalg
from einloom.linalg import canonical_svd, randomized_svd, truncated_svd

DTYPES = ("float32", "float64", "complex64", "complex128")
BATCHES = ((), (3,), (2, 3), (0,))
SHAPES = ((1, 1), (5, 5), (7, 3), (2, 9), (0, 4), (4, 0))
MODES = ("relative", "absolute", "relative_weight", "weight")
dtypes = pytest.mark.parametrize("dtype", DTYPES)


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def rank_by_definition(s: Any, cutoff: float, mode: str, max_rank: int | None) -> int:
    """Go on dropping the last singular value while the rule allows it."""
    total, r = float(sum(x * x for x in s)), len(s)
    bound = {"relative": cutoff * s[0], "absolute": cutoff, "weight": cutoff}.get(
        mode, cutoff * total
    )
    while r > 1:
        lost = sum(x * x for x in s[r - 1 :]) if "weight" in mode else s[r - 1]
        if lost > bound:
            break
        r -= 1
    return r if max_rank is None else min(r, max_rank)


@dtypes
@each("batch", BATCHES)
@each("shape", SHAPES)
def test_without_a_cutoff_it_is_the_svd(dtype: str, batch: Any, shape: Any) -> None:
    a = random(np.random.default_rng(1), (*batch, *shape), dtype)
    u, s, vh, ranks, discarded = truncated_svd(a)
    k = min(shape) if a.size else 0
    assert u.dtype == vh.dtype == a.dtype
    assert s.dtype == discarded.dtype == a.real.dtype
    assert s.shape == (*batch, k)
    assert (ranks == k).all()
    assert ranks.shape == discarded.shape == batch
    assert not discarded.any()
    if a.size:
        # LAPACK's own error beside the norm, which was 40 eps of a matrix of norm 4 with one build of it
        assert abs(u * s[..., None, :] @ vh - a).max() < 40 * eps(dtype) * max(1, s.max())


@dtypes
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("max_rank", [None, 2])
def test_ranks_and_weights_of_each_member(dtype: str, mode: Any, max_rank: int | None) -> None:
    rng = np.random.default_rng(2)
    left = np.linalg.qr(random(rng, (6, 7, 5), dtype))[0]
    right = np.linalg.qr(random(rng, (6, 5, 5), dtype))[0]
    s = 10.0 ** -np.sort(rng.uniform(0, 3, (6, 5)))
    s[3, 1:] = 0
    a = (left * s[:, None, :] @ right).astype(dtype)
    cutoff = 0.02
    got = truncated_svd(a, max_rank, cutoff, mode)
    wanted = [rank_by_definition(x, cutoff, mode, max_rank) for x in s]
    assert got.ranks.tolist() == wanted
    assert got.S.shape == (6, max(wanted))
    for k, r in enumerate(wanted):
        assert not got.S[k, r:].any()
        assert not got.U[k, :, r:].any()
        assert not got.Vh[k, r:].any()
        weight = (s[k, r:] ** 2).sum()
        assert abs(got.discarded[k] - weight) < 20 * eps(dtype) * s[k, 0] ** 2
        error = np.linalg.norm(got.U[k] * got.S[k] @ got.Vh[k] - a[k])
        assert abs(error - np.sqrt(weight)) < 20 * eps(dtype) * s[k, 0]


@given(st.integers(1, 6), st.integers(1, 6), st.floats(0, 1.5), st.sampled_from(MODES), st.data())
def test_rank_by_definition(m: int, n: int, cutoff: float, mode: Any, data: Any) -> None:
    seed = data.draw(st.integers(0, 1000))
    a = np.random.default_rng(seed).standard_normal((m, n))
    s = np.linalg.svd(a, compute_uv=False)
    assert truncated_svd(a, None, cutoff, mode).ranks == rank_by_definition(s, cutoff, mode, None)


def test_a_zero_matrix_keeps_one_value() -> None:
    got = truncated_svd(np.zeros((2, 3, 3)), cutoff=0.5, renormalize=True)
    assert got.ranks.tolist() == [1, 1]
    assert got.S.tolist() == [[0], [0]]
    assert np.isfinite(got.U).all()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("mode", ["relative", "relative_weight"])
def test_squares_that_are_no_numbers(scale: float, mode: Any) -> None:
    a = np.diag([3.0, 2.0, 1e-3]) * scale
    got = truncated_svd(a, cutoff=1e-2, cutoff_mode=mode, renormalize=True)
    assert got.ranks == 2
    assert np.allclose(got.S / scale, [3, 2], rtol=1e-6)


@dtypes
@pytest.mark.parametrize("absorb", ["left", "right", "both"])
def test_absorb(dtype: str, absorb: Any) -> None:
    a = random(np.random.default_rng(3), (4, 6, 5), dtype)
    u, s, vh, _, _ = truncated_svd(a, 3)
    left, s2, right, _, _ = truncated_svd(a, 3, absorb=absorb)
    assert (s2 == s).all()
    assert abs(left @ right - u * s[:, None, :] @ vh).max() < 40 * eps(dtype)
    if absorb == "both":
        assert abs(adjoint(left) @ left - right @ adjoint(right)).max() < 60 * eps(dtype)


def test_renormalize_keeps_the_norm() -> None:
    a = random(np.random.default_rng(4), (4, 6, 5), "float64")
    got = truncated_svd(a, 2, renormalize=True)
    assert np.allclose((got.S**2).sum(-1), (a**2).sum((-1, -2)))


@dtypes
@pytest.mark.parametrize("full", [False, True])
def test_canonical_gauge_forgets_phases(dtype: str, full: bool) -> None:
    rng = np.random.default_rng(5)
    u, s, vh = np.linalg.svd(random(rng, (3, 4, 5), dtype), full_matrices=full)
    phase = random(rng, (3, 4), dtype)
    phase /= abs(phase)
    vh2 = vh.copy()
    vh2[:, :4] *= phase.conj()[..., None]
    first, second = canonical_svd(u, s, vh), canonical_svd(u * phase[:, None, :], s, vh2)
    for x, y in zip(first, second, strict=True):
        assert abs(x - y).max() < 20 * eps(dtype)
    pivots = np.take_along_axis(first[0], abs(first[0]).argmax(1)[:, None], 1)
    assert (pivots.real > 0).all()
    assert abs(pivots.imag).max() < 4 * eps(dtype)
    product = first[0][..., :4] * s[:, None, :] @ first[2][:, :4]
    assert abs(product - u[..., :4] * s[:, None, :] @ vh[:, :4]).max() < 40 * eps(dtype)


def test_nearly_equal_pivots_do_not_change_places() -> None:
    u = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2)
    for nudge in (-1e-15, 0, 1e-15):
        x = u.copy()
        x[0, 0] += nudge
        assert canonical_svd(x, np.ones(2), np.eye(2))[0][0, 0] > 0
        assert canonical_svd(-x, np.ones(2), np.eye(2))[0][0, 0] > 0


@dtypes
def test_randomized_finds_a_low_rank(dtype: str) -> None:
    rng = np.random.default_rng(6)
    a = random(rng, (2, 60, 4), dtype) @ random(rng, (2, 4, 50), dtype)
    u, s, vh = randomized_svd(a, 6, seed=7)
    exact = np.linalg.svd(a, compute_uv=False)
    scale = exact[:, :1]
    assert (abs(s - exact[:, :6]) < 50 * eps(dtype) * scale).all()
    assert abs(u * s[:, None, :] @ vh - a).max() < 50 * eps(dtype) * scale.max()
    assert abs(adjoint(u) @ u - np.eye(6)).max() < 20 * eps(dtype)


def test_randomized_is_near_the_best_rank() -> None:
    rng = np.random.default_rng(8)
    q, p = (np.linalg.qr(rng.standard_normal((80, 80)))[0] for _ in range(2))
    values = 0.7 ** np.arange(80)
    u, s, vh = randomized_svd((q * values) @ p, 8, gauge="canonical")
    assert np.allclose(s, values[:8], rtol=1e-3)
    best = np.linalg.norm(values[8:])
    assert np.linalg.norm(u * s @ vh - (q * values) @ p) < 1.01 * best


def test_randomized_is_a_function_of_its_seed_and_its_matrix() -> None:
    a = random(np.random.default_rng(9), (3, 40, 30), "float64")
    first, again, other = (randomized_svd(a, 3, seed=seed)[1] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    alone = randomized_svd(a[1], 3, seed=1)[1]
    assert np.allclose(alone, first[1], rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 3, 3), (1, 1), (5, 1)])
def test_randomized_of_little(shape: Any) -> None:
    u, s, vh = randomized_svd(np.ones(shape), 3)
    k = min(shape[-2:])
    assert u.shape == (*shape[:-1], k)
    assert s.shape == (*shape[:-2], k)
    assert vh.shape == (*shape[:-2], k, shape[-1])


GOOD = np.eye(3)
BAD: tuple[tuple[Any, dict[str, Any], type[EinloomError], str], ...] = (
    (np.ones(3), {}, ShapeError, "give a matrix"),
    (np.eye(3, dtype="float16"), {}, DTypeError, "float16"),
    (np.full((2, 2), "a"), {}, DTypeError, "convert"),
    (np.full((2, 2), np.nan), {"check_finite": True}, EinloomError, "NaN"),
    (GOOD, {"max_rank": 0}, OptionError, "max_rank=0"),
    (GOOD, {"max_rank": 1.5}, OptionError, "max_rank"),
    (GOOD, {"cutoff": -1}, OptionError, "cutoff=-1"),
    (GOOD, {"cutoff": np.nan}, OptionError, "cutoff"),
    (GOOD, {"cutoff_mode": "sum"}, OptionError, "'relative_weight'"),
    (GOOD, {"absorb": "middle"}, OptionError, "absorb"),
    (GOOD, {"gauge": "positive"}, OptionError, "gauge"),
    (GOOD, {"on_error": "ignore"}, OptionError, "on_error"),
)


@pytest.mark.parametrize(("a", "options", "error", "text"), BAD)
def test_refused(a: Any, options: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match="truncated_svd") as caught:
        truncated_svd(a, **options)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "options", [{"rank": 0}, {"rank": 2, "oversampling": -1}, {"rank": 2, "seed": "a"}]
)
def test_randomized_refuses(options: Any) -> None:
    with pytest.raises(OptionError, match="give an integer"):
        randomized_svd(GOOD, **options)


def test_nan_spoils_its_member_alone() -> None:
    a = random(np.random.default_rng(10), (3, 4, 4), "float64")
    a[1, 2, 2] = np.nan
    got = truncated_svd(a, 2, on_error="nan", check_finite=False)
    assert np.isnan(got.S[1]).all()
    assert (got.S[[0, 2]] == truncated_svd(a[[0, 2]], 2).S).all()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("full", [False, True])
def test_svd_in_canonical_gauge(dtype: str, full: bool, rng: np.random.Generator) -> None:
    a = rng.standard_normal((3, 4, 6)).astype(dtype)
    fixed = linalg.svd(a, full, gauge="canonical")
    for got, want in zip(fixed, canonical_svd(*linalg.svd(a, full)), strict=True):
        assert (got == want).all()
    again, info = linalg.svd(a, full, gauge="canonical", on_error="info")
    assert (again[0] == fixed[0]).all()
    assert not info.any()
    assert (linalg.svd(a, compute_uv=False, gauge="canonical") == linalg.svdvals(a)).all()
    hermitian = a[..., :4] @ a[..., :4].conj().swapaxes(-1, -2)
    u = linalg.svd(hermitian, hermitian=True, gauge="canonical").U
    assert np.allclose(u, linalg.svd(hermitian, gauge="canonical").U, atol=1e-3)
    with pytest.raises(OptionError, match="gauge"):
        linalg.svd(a, gauge="left")  # type: ignore[arg-type]

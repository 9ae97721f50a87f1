"""`overwrite_a` of one contiguous matrix: the same results, in the operand's memory where LAPACK can."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.linalg.matrices import DTYPES, Array, adjoint, draw
from tests.tolerance import eps

import einloom
from einloom import linalg

Check = Callable[[Array, Any], tuple[Array, Array]]
"""What must be close: what the results multiply to, and what that should be."""


def _lu(a: Array, found: Any) -> tuple[Array, Array]:
    packed, pivots = found
    want = a.copy()
    for k, other in enumerate(pivots):
        want[[k, other]] = want[[other, k]]
    k = min(a.shape)
    return (np.tril(packed[:, :k], -1) + np.eye(len(a), k)) @ np.triu(packed[:k]), want


OPS: dict[str, tuple[Callable[..., Any], Check]] = {
    "cholesky": (linalg.cholesky, lambda a, c: (c @ adjoint(c), a)),
    "cholesky upper": (
        lambda a, **o: linalg.cholesky(a, upper=True, **o),
        lambda a, c: (adjoint(c) @ c, a),
    ),
    "lu_factor": (linalg.lu_factor, _lu),
    "inv": (linalg.inv, lambda a, x: (a @ x, np.eye(len(a)))),
    "qr": (linalg.qr, lambda a, f: (f.Q @ f.R, a)),
    "qr r": (lambda a, **o: linalg.qr(a, "r", **o), lambda a, r: (adjoint(r) @ r, adjoint(a) @ a)),
    "eigh": (linalg.eigh, lambda a, f: ((f[1] * f[0]) @ adjoint(f[1]), a)),
    "eigh upper": (
        lambda a, **o: linalg.eigh(a, "U", **o), lambda a, f: ((f[1] * f[0]) @ adjoint(f[1]), a),
    ),
    "eigvalsh": (linalg.eigvalsh, lambda a, w: (w, np.linalg.eigvalsh(a))),
    "svd": (linalg.svd, lambda a, f: ((f.U * f.S) @ f.Vh, a)),
    "svdvals": (
        lambda a, **o: linalg.svd(a, compute_uv=False, **o),
        lambda a, s: (s, np.linalg.svd(a, compute_uv=False)),
    ),
    "solve": (
        lambda a, **o: linalg.solve(a, np.ones((len(a), 2), a.dtype), **o),
        lambda a, x: (a @ x, np.ones(x.shape)),
    ),
}  # fmt: skip
IN_MEMORY = ("cholesky", "cholesky upper", "lu_factor", "inv", "qr", "eigh", "eigh upper")


def arrays(found: Any) -> tuple[Array, ...]:
    return tuple(found) if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", OPS)
def test_the_same_results(rng: np.random.Generator, name: str, order: Any) -> None:
    run, check = OPS[name]
    for dtype in DTYPES if order == "C" else DTYPES[1::2]:
        for n in (1, 7, 150):  # by way of `single`, and tiles of which the last is cut
            g = draw(rng, (n, n), dtype)
            given = g @ adjoint(g) / n + 2 * np.eye(n, dtype=dtype)
            a = np.array(given, order=order)
            found = run(a, overwrite_a=True)
            left, right = check(given, found)
            np.testing.assert_allclose(left, right, rtol=0, atol=300 * n * eps(dtype))
            if name in IN_MEMORY and n == 150:
                assert any(np.shares_memory(a, x) for x in arrays(found)), (dtype, order)
            for x, y in zip(arrays(found), arrays(run(given)), strict=True):
                assert (x.shape, x.dtype) == (y.shape, y.dtype)
                if name in IN_MEMORY and n == 150:
                    assert x.flags.c_contiguous


@pytest.mark.parametrize("shape", [(150, 90), (90, 150)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", ["lu_factor", "qr", "qr r", "svd", "svdvals"])
def test_rectangles(
    rng: np.random.Generator, name: str, order: Any, shape: tuple[int, int]
) -> None:
    run, check = OPS[name]
    for dtype in ("float64", "complex64"):
        given = draw(rng, shape, dtype)
        options = {"full_matrices": False} if name == "svd" else {}
        found = run(np.array(given, order=order), overwrite_a=True, **options)
        left, right = check(given, found)
        np.testing.assert_allclose(left, right, rtol=0, atol=1e5 * eps(dtype))


@pytest.mark.parametrize("name", IN_MEMORY)
def test_no_copy_is_made(rng: np.random.Generator, name: str) -> None:
    """Beside the results that cannot lie in the operand: R, eigenvalues, and LAPACK's own workspace."""
    run, _ = OPS[name]
    n = 400
    g = rng.standard_normal((n, n))
    a = g @ g.T / n + np.eye(n)
    run(a.copy(), overwrite_a=True)  # imports
    a = a.copy()
    tracemalloc.start()
    try:
        run(a, overwrite_a=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    beside = {"qr": 2.0, "eigh": 2.0, "eigh upper": 2.0}.get(name, 0.0)  # matrices
    assert peak < (beside + 0.7) * a.nbytes


def test_what_may_not_be_overwritten(rng: np.random.Generator) -> None:
    """Without the permission, and of views, batches and read-only arrays, every element stays."""
    g = draw(rng, (2, 80, 80), "float64")
    h = g @ adjoint(g) + np.eye(80)
    fixed = h[0].copy()
    fixed.flags.writeable = False
    for name, (run, _) in OPS.items():
        kept = h.copy()
        run(h[0])
        run(fixed, overwrite_a=True)
        run(np.broadcast_to(np.eye(80), (80, 80))[::-1][::-1], overwrite_a=True)
        np.testing.assert_array_equal(h, kept, err_msg=name)
        np.testing.assert_array_equal(fixed, kept[0], err_msg=name)


def test_failures(rng: np.random.Generator) -> None:
    for order in ("C", "F"):
        bad = np.array(np.zeros((80, 80)), order=order)
        for run in (linalg.inv, lambda a, **o: linalg.solve(a, np.ones(80), **o)):
            with pytest.raises(einloom.LinAlgError, match="Singular"):
                run(bad.copy(order="K"), overwrite_a=True)
        a = np.array(np.eye(80), order=order)
        a[5, 5] = np.nan
        assert linalg.cholesky(a.copy(order="K"), overwrite_a=True, on_error="info")[1] == 6
        _, info = linalg.svd(a.copy(order="K"), overwrite_a=True, on_error="info")
        assert info == 1


def test_tiny_matrices_are_solved_all_the_same(rng: np.random.Generator) -> None:
    for order in ("C", "F"):
        a = np.array(rng.standard_normal((80, 80)) * 1e-310, order=order)
        x = linalg.solve(a.copy(order="K"), a[:, :1].copy(), overwrite_a=True)
        np.testing.assert_allclose(x, np.eye(80, 1), atol=1e-6)

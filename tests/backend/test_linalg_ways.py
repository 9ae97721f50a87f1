"""Lanes and batched LAPACK against LAPACK of one matrix: backward errors, failures, layouts, any batch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.backend.hard_matrices import hard_matrices
from tests.tolerance import eps

import einloom
from einloom._base.options import options
from einloom.backend.cpu import linalg
from einloom.backend.cpu.linalg import batched, interleaved, panels, plain, single
from einloom.backend.cpu.linalg.panels import run_panels
from einloom.backend.cpu.linalg.ways import way

Array = np.ndarray[Any, Any]
Errors = dict[str, float]
WAYS = {"interleaved": interleaved, "batched": batched}
# kernels of one dtype take half a minute to compile: the others are slow
DTYPES = [
    "float64",
    pytest.param("complex64", marks=pytest.mark.slow),
    pytest.param("float32", marks=pytest.mark.slow),
    pytest.param("complex128", marks=pytest.mark.slow),
]
TIMES = 10  # LAPACK's own error on the same matrix, and no less than so many units of rounding
FLOOR = 15


def adjoint(a: Array) -> Array:
    return a.swapaxes(-1, -2).conj()


def size(a: Array) -> Array:
    """Frobenius norms, without overflow."""
    a = a.astype(np.result_type(a.dtype, np.float64)).astype(
        np.clongdouble if a.dtype.kind == "c" else np.longdouble
    )
    return np.sqrt((np.abs(a) ** 2).sum(axis=(-2, -1)))


def wide(a: Array) -> Array:
    return a.astype(np.clongdouble if a.dtype.kind == "c" else np.longdouble)


def off(left: Array, right: Array, scale: Array) -> Array:
    return np.asarray(size(left - right) / np.where(scale > 0, scale, 1))


def lu_errors(way: ModuleType, a: Array) -> Errors:
    packed, pivots, _ = way.lu(a)
    n = a.shape[-1]
    lower, upper = wide(np.tril(packed, -1) + np.eye(n, dtype=a.dtype)), wide(np.triu(packed))
    product = lower @ upper
    for k in range(n - 1, -1, -1):
        for m, p in enumerate(pivots[:, k]):
            product[m, [k, p]] = product[m, [p, k]]
    return {"p l u": off(product, wide(a), size(a))}


def solve_errors(way: ModuleType, a: Array) -> Errors:
    b = a @ np.ones((a.shape[-1], 3), a.dtype)
    x, info = way.solve(a, b)
    errors = off(wide(a) @ wide(x), wide(b), size(a) * size(x) + size(b))
    return {"a x": np.where((info == 0) & np.isfinite(x).all(axis=(-2, -1)), errors, 0)}


def inv_errors(way: ModuleType, a: Array) -> Errors:
    x, info = way.inv(a)
    n = a.shape[-1]
    errors = off(wide(a) @ wide(x), np.eye(n), size(a) * size(x))
    return {"a x": np.where((info == 0) & np.isfinite(x).all(axis=(-2, -1)), errors, 0)}


def cholesky_errors(way: ModuleType, a: Array) -> Errors:
    scale = np.abs(a).max(axis=(-2, -1), keepdims=True)
    a = a / np.where(scale > 0, scale, 1)
    a = (wide(a) @ adjoint(wide(a))).astype(a.dtype)
    found = {}
    for lower in (True, False):
        c, info = way.cholesky(np.tril(a) if lower else np.triu(a), lower)
        product = c @ adjoint(c) if lower else adjoint(c) @ c
        assert not (np.triu(c, 1) if lower else np.tril(c, -1)).any()
        found[f"{lower=}"] = np.where(info == 0, off(wide(product), wide(a), size(a)), 0)
    return found


def qr_errors(way: ModuleType, a: Array) -> Errors:
    q, r = way.qr(a, "reduced")
    return {
        "q r": off(wide(q) @ wide(r), wide(a), size(a)),
        "q": off(wide(adjoint(q)) @ wide(q), np.eye(q.shape[-1]), np.ones(())),
    }


def eigh_errors(way: ModuleType, a: Array) -> Errors:
    a = a / 2 + adjoint(a) / 2
    found = {}
    for lower in (True, False):
        half = np.tril(a) if lower else np.triu(a)
        w, v, info = way.eigh(half, lower)
        assert not info.any()
        assert (np.diff(w, axis=-1) >= 0).all()
        n = w.shape[-1]
        found[f"a v {lower=}"] = off(wide(a) @ wide(v), wide(v) * wide(w)[..., None, :], size(a))
        found[f"v {lower=}"] = off(wide(adjoint(v)) @ wide(v), np.eye(n), np.ones(()))
        found[f"w {lower=}"] = off(
            way.eigh(half, lower, False)[0][..., None], w[..., None], size(a)
        )
    return found


def svd_errors(way: ModuleType, a: Array) -> Errors:
    u, s, vh, info = way.svd(a)
    assert not info.any()
    assert (np.diff(s, axis=-1) <= 0).all()
    k = s.shape[-1]
    return {
        "u s vh": off((wide(u) * wide(s)[..., None, :]) @ wide(vh), wide(a), size(a)),
        "u": off(wide(adjoint(u)) @ wide(u), np.eye(k), np.ones(())),
        "v": off(wide(vh) @ wide(adjoint(vh)), np.eye(k), np.ones(())),
        "s": off(way.svd(a, vectors=False)[1][..., None], s[..., None], size(a)),
    }


ERRORS: dict[str, Callable[[ModuleType, Array], Errors]] = {
    "lu": lu_errors,
    "solve": solve_errors,
    "inv": inv_errors,
    "cholesky": cholesky_errors,
    "qr": qr_errors,
    "eigh": eigh_errors,
    "svd": svd_errors,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("op", ERRORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_backward_errors_on_hard_matrices(way: str, op: str, dtype: str) -> None:
    for n in (3, 8, 20):
        named = hard_matrices(n, dtype)
        if op == "eigh":
            named["huge"] = named["huge"] / 4
        a = np.array(list(named.values()))
        with np.errstate(all="ignore"):
            ours, theirs = ERRORS[op](WAYS[way], a), ERRORS[op](plain, a)
        for what, errors in ours.items():
            bounds = np.maximum(TIMES * theirs[what], FLOOR * eps(np.dtype(dtype)) * np.sqrt(n))
            for name, error, bound in zip(named, errors, bounds, strict=True):
                assert error <= bound, (what, n, name, float(error), float(bound))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_shapes_and_batches(way: str, dtype: str, rng: np.random.Generator) -> None:
    """Tall, wide, square, 1 by 1; a batch that fills no panel, and one with two axes that do not merge."""
    module = WAYS[way]
    for m, n in ((1, 1), (5, 3), (3, 5), (4, 4), (9, 2), (2, 9)):
        for batch in ((1,), (3, 7), (5, 1, 4)):
            a = draw(rng, (*batch[::-1], m, n), dtype).transpose(
                *range(len(batch))[::-1], len(batch), len(batch) + 1
            )
            for op in ("qr", "svd", "lu"):
                flat = a.reshape(-1, m, n)
                if op == "lu" and m != n:
                    packed, pivots, info = module.lu(a)
                    want = plain.lu(a)
                    close(packed, want[0])
                    assert (pivots == want[1]).all()
                    assert not info.any()
                    continue
                for error in ERRORS[op](module, flat).values():
                    assert (error < 100 * eps(np.dtype(dtype))).all()
            for mode in ("complete", "r", "raw"):
                got, want = module.qr(a, mode), plain.qr(a, mode)
                pairs = [(got, want)] if mode == "r" else list(zip(got, want, strict=True))
                for x, y in pairs:
                    close(x, y)
                    assert x.flags.c_contiguous


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


def close(got: Array, want: Array) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    scale = np.abs(want).max(initial=1.0)
    np.testing.assert_allclose(got, want, rtol=0, atol=300 * eps(want.dtype) * scale)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda a: a,
    "columns": lambda a: np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2),
    "batch last": lambda a: np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 0, -1)), -1, 0),
    "reversed": lambda a: np.ascontiguousarray(a[::-1, ::-1, ::-1])[::-1, ::-1, ::-1],
    "cut out": lambda a: np.pad(a, ((1, 2), (1, 1), (2, 3)))[1:-2, 1:-1, 2:-3],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "unaligned": lambda a: unaligned(a),
}


def unaligned(a: Array) -> Array:
    memory = np.empty(a.nbytes + 1, np.uint8)
    x = memory[1:].view(a.dtype).reshape(a.shape)
    x[...] = a
    return x


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(way: str, dtype: str, rng: np.random.Generator) -> None:
    """Every op gives the same for every layout, and leaves what it reads as it is."""
    module = WAYS[way]
    n = 5
    whole = draw(rng, (21, n, n), dtype) + 4 * np.eye(n, dtype=dtype)
    for name, layout in LAYOUTS.items():
        a, b = layout(whole), layout(whole)[..., :2]
        before, h = a.copy(), np.asarray(layout(whole @ adjoint(whole)))
        c = np.linalg.cholesky(h)
        close(module.solve(a, b)[0], plain.solve(a, b)[0])
        close(module.inv(a)[0], plain.inv(a)[0])
        close(module.det(a), plain.det(a))
        for x, y in zip(module.slogdet(a), plain.slogdet(a), strict=True):
            close(x, y)
        close(module.cholesky(h)[0], c)
        close(module.cho_solve(layout(c), b), plain.cho_solve(c, b))
        upper = layout(adjoint(c))
        close(module.cho_solve(upper, b, False), plain.cho_solve(upper, b, False))
        close(module.eigh(h)[0], plain.eigh(h)[0])
        close(module.svd(a)[1], plain.svd(a)[1])
        close(module.qr(a, "r"), plain.qr(a, "r"))
        np.testing.assert_array_equal(a, before, err_msg=name)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_triangles(way: str, dtype: str, rng: np.random.Generator) -> None:
    module = WAYS[way]
    a = draw(rng, (9, 4, 4), dtype) + 3 * np.eye(4, dtype=dtype)
    a[2, 1, 1] = 0
    for lower in (True, False):
        for trans in ("N", "T", "C"):
            for unit in (True, False):
                for left in (True, False):
                    b = draw(rng, (9, 4, 3) if left else (9, 3, 4), dtype)
                    got, info = module.triangular_solve(a, b, lower, trans, unit, left)
                    want, codes = plain.triangular_solve(a, b, lower, trans, unit, left)
                    assert (info == codes).all()
                    close(got[info == 0], want[info == 0])


@pytest.mark.parametrize("way", WAYS)
def test_what_fails_stays_with_its_matrix(way: str, rng: np.random.Generator) -> None:
    module = WAYS[way]
    a = rng.standard_normal((20, 4, 4))
    a[3], a[11, :, 2] = 0, 0
    b = np.ones((20, 4, 1))
    good = np.ones(20, bool)
    good[[3, 11]] = False
    (x, info), (want, codes) = module.solve(a, b), plain.solve(a, b)
    assert (info == codes).all()
    assert info[3] == 1
    assert info[11] == 3
    close(x[good], want[good])
    assert (module.inv(a)[1] == codes).all()
    assert (module.lu(a)[2] == codes).all()
    assert (module.det(a)[~good] == 0).all()
    assert np.isneginf(module.slogdet(a)[1][~good]).all()
    h = a @ adjoint(a) + np.eye(4)
    h[5, 2, 2] = -1
    h[6] = -h[6]
    c, info = module.cholesky(h)
    assert list(np.flatnonzero(info)) == [5, 6]
    assert list(info[[5, 6]]) == [3, 1]
    close(c[7:], np.linalg.cholesky(h[7:]))


@pytest.mark.parametrize("way", WAYS)
def test_numbers_that_are_not_finite_stay_with_their_matrix(
    way: str, rng: np.random.Generator
) -> None:
    module = WAYS[way]
    a = rng.standard_normal((10, 5, 5))
    bad = a.copy()
    bad[4, 2, 1], bad[7, 3, 0] = np.nan, np.inf
    rest = [0, 1, 2, 3, 5, 6, 8, 9]
    with np.errstate(all="ignore"):
        for op in ("svd", "eigh", "qr"):
            if op == "qr":
                got, want = module.qr(bad, "reduced")[1], module.qr(a, "reduced")[1]
            else:
                results = getattr(module, op)(bad)
                got, want = results[op == "svd"], getattr(module, op)(a)[op == "svd"]
                assert not results[-1][rest].any()
            np.testing.assert_array_equal(got[rest], want[rest])
            assert not np.isfinite(got[[4, 7]]).all() or results[-1][[4, 7]].all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_determinants_beyond_the_range_of_a_product(dtype: str) -> None:
    """Products of some of the pivots overflow or underflow, the determinant does not."""
    top, tiny = float(np.finfo(dtype).max) / 8, float(np.finfo(dtype).tiny)
    diagonal = [[top, top, 1 / top, 1 / top], [tiny, tiny, 1 / tiny, 1 / tiny], [tiny / 4, 4, 1, 1]]
    a = np.array([np.diag(x) for x in diagonal], dtype)
    d = interleaved.det(a)
    np.testing.assert_allclose(d, [1, 1, tiny], rtol=8 * eps(np.dtype(dtype)))
    sign, logabs = interleaved.slogdet(a)
    assert (sign == 1).all()
    np.testing.assert_allclose(logabs, [0, 0, np.log(tiny)], atol=1e3 * eps(np.dtype(dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_eig_and_lstsq_of_a_batch(dtype: str, rng: np.random.Generator) -> None:
    a = draw(rng, (7, 6, 6), dtype)
    w, vl, vr, info = batched.eig(a, left=True)
    assert not info.any()
    assert vl is not None
    assert vr is not None
    close(a @ vr, vr * w[:, None, :])
    close(adjoint(vl) @ a, w[:, :, None] * adjoint(vl))
    far = np.finfo(dtype).max / np.asarray(1e3, a.real.dtype)  # where LAPACK scales
    for scale in (far, 1 / far):
        close(batched.eig(a * scale)[0] / scale, w)
    for m, n in ((6, 4), (4, 6), (5, 5)):
        a, b = draw(rng, (3, m, n), dtype), draw(rng, (3, m, 2), dtype)
        a[1, :, 1] = a[1, :, 0]
        want = plain.lstsq(a, b, 1e-5)
        for module in WAYS.values():
            got = module.lstsq(a, b, 1e-5)
            for k, (x, y) in enumerate(zip(got, want, strict=True)):
                if k in (2, 4):
                    np.testing.assert_array_equal(x, y)
                else:
                    close(x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_solve_of_a_batch(dtype: str, rng: np.random.Generator) -> None:
    a, b = draw(rng, (6, 5, 5), dtype), draw(rng, (6, 5, 2), dtype)
    packed, pivots, _ = batched.lu(a)
    for trans in ("N", "T", "C"):
        close(batched.lu_solve(packed, pivots, b, trans), plain.lu_solve(packed, pivots, b, trans))
    close(np.abs(batched.svd(a, full=True)[0]), np.abs(plain.svd(a, full=True)[0]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_full_matrices_of_an_svd(dtype: str, rng: np.random.Generator) -> None:
    """Lanes complete the basis by reflections; the columns that were there stay what they were."""
    for shape in ((6, 3), (3, 6), (5, 1), (1, 5), (4, 4)):
        a = draw(rng, (9, *shape), dtype)
        a[2] = 0
        a[3, :, 0] = 0
        m, n = shape
        k = min(shape)
        for module in (interleaved, batched):
            u, s, vh, info = module.svd(a, full=True)
            assert not info.any()
            assert (u.shape, s.shape, vh.shape) == ((9, m, m), (9, k), (9, n, n))
            assert u.flags.c_contiguous
            assert vh.flags.c_contiguous
            close(u[..., :k] * s[:, None] @ vh[:, :k], a)
            for q in (u, vh):
                one = np.eye(q.shape[-1], dtype=dtype)
                close(q @ q.swapaxes(-1, -2).conj(), np.broadcast_to(one, q.shape))


def test_the_way_depends_on_shapes_and_options() -> None:
    many = np.empty((100000, 4, 4))
    with options(threads=2):
        assert way("solve", many) == "interleaved"
        assert way("svd", np.empty((100000, 4, 3))) == "interleaved"
        assert way("eig", many) == "batched"
        assert way("solve", np.empty((4, 300, 300))) == "batched"
        assert way("solve", np.empty((1, 300, 300))) == "plain"
        assert way("solve", many[:0]) == "plain"
        few, wide = np.empty((9000, 4, 4)), np.empty((9000, 4, 400))
        assert way("solve", few, wide) == "batched"
        assert way("triangular_solve", few, wide.swapaxes(-1, -2)) == "batched"
        # tiny matrices: NumPy loops in compiled code, calls of LAPACK one by one would take longer
        assert way("inv", np.empty((10000, 2, 2))) == "plain"
        assert way("lu", np.empty((10000, 2, 2))) == "interleaved"
        assert way("lu", np.empty((1000, 2, 2))) == "plain"
    with options(small=float("inf")):
        assert way("solve", many) == "plain"
        assert way("solve", many[0]) == "single"
    with options(small=0):
        assert way("solve", many[0]) == "interleaved"


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_one_small_matrix(dtype: str, rng: np.random.Generator) -> None:
    a, b = draw(rng, (5, 5), dtype), draw(rng, (5, 2), dtype)
    h = a @ adjoint(a)
    for x in (a, np.asfortranarray(a), a[::-1, ::-1]):
        close(single.solve(x, b)[0], plain.solve(x, b)[0])
        close(single.inv(x)[0], plain.inv(x)[0])
    for lower in (True, False):
        close(single.cholesky(h, lower)[0], plain.cholesky(h, lower)[0])
        half = np.tril(h) if lower else np.triu(h)
        w, v, info = single.eigh(half, lower)
        assert info == 0
        assert v is not None
        close(w, plain.eigh(half, lower)[0])
        close(h @ v, v * w)
        close(np.asarray(single.eigh(half, lower, False)[0]), w)
    for x in (a, a[:, :3], a[:3], np.asfortranarray(a), a[::-1, ::-1]):
        close(single.lu(x)[0], plain.lu(x)[0])
        assert (single.lu(x)[1] == plain.lu(x)[1]).all()
        q, r = single.qr(x, "reduced")
        close(q @ r, x)
        close(adjoint(q) @ q, np.eye(q.shape[1], dtype=dtype))
        close(r, np.triu(r))
        close(single.qr(x, "r"), r)
        s = plain.svd(x, vectors=False)[1]
        close(single.svd(x, vectors=False)[1], s)
        for full in (False, True):
            u, found, vh, info = single.svd(x, full)
            wanted_u, _, wanted_vh, _ = plain.svd(x, full)
            assert info == 0
            assert u is not None
            assert vh is not None
            assert wanted_u is not None
            assert wanted_vh is not None
            assert (u.shape, vh.shape) == (wanted_u.shape, wanted_vh.shape)
            close(found, s)
            close(u[:, : len(s)] * s @ vh[: len(s)], x)
    for x in (
        a,
        a[::-1],
        np.zeros_like(a),
        np.full_like(a, 1e200 if dtype in "float64 complex128" else 1),
    ):
        with np.errstate(all="ignore"):
            close(np.asarray(single.det(x)), plain.det(x))
    turned = np.array([[0, 1, 2], [-1, 0, 2], [0, 0, 3]], dtype)
    for x in (a, h, a[::-1], turned, a * np.dtype(dtype).type(1e-30), np.full_like(a, np.nan)):
        w, _, v, info = single.eig(x)
        assert (info != 0) == np.isnan(x).any()
        assert v is not None
        assert w.dtype == v.dtype == np.result_type(dtype, "F")
        if not info:
            scale = size(x).astype(v.real.dtype)
            close(x / scale @ v, v * (w / scale))
            close((abs(v) ** 2).sum(axis=0), np.ones(len(w), v.real.dtype))
            close(single.eig(x, right=False)[0], w)
    results = *single.qr(a, "reduced"), single.lu(a)[0], single.svd(a)[0], single.svd(a)[2]
    for x in (single.solve(a, b)[0], single.cholesky(h)[0], single.eigh(h)[1], *results):
        assert x is not None
        assert x.flags.c_contiguous
        assert x.flags.writeable
    a[:, 1] = 0
    assert single.solve(a, b)[1] == plain.solve(a, b)[1] == 2
    assert single.cholesky(-h)[1] == 1


PROCESS = """
import numpy as np
from einloom.backend.cpu.kernels.linalg.cholesky import cholesky_panels
from einloom.backend.cpu.kernels.linalg.steps import run_steps
from einloom.backend.cpu.linalg import batched, interleaved
a = np.full((20, 2, 2), 1.0) + np.eye(2)
assert np.allclose(batched.cholesky(a)[0], interleaved.cholesky(a)[0])
for kernel in (cholesky_panels, run_steps):
    stats = kernel._dispatcher.stats
    print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_second_process_compiles_nothing_though_addresses_differ(tmp_path: Path) -> None:
    root = Path(einloom.__file__).parents[1]
    environment = {
        **os.environ,
        "EINLOOM_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": str(root),
        "EINLOOM_BARE": "0",  # numba counts what it loads
    }

    def run() -> list[str]:
        command = [sys.executable, "-c", PROCESS]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert run() == ["0", "1", "0", "1"]
    assert run() == ["1", "0", "1", "0"]


def test_results_do_not_depend_on_neighbours(rng: np.random.Generator) -> None:
    """Alone in its panel, a matrix gives the same bits as among hard ones."""
    a = rng.standard_normal((8, 8, 8))
    hard = np.array([*hard_matrices(8, "float64").values()])[:16]
    mixed = np.concatenate([hard[:3], a, hard[3:]])
    for op in ("solve", "inv", "lu", "qr", "eigh", "svd"):
        rest = {"solve": lambda x: (x[..., :2],), "qr": lambda x: ("reduced",)}.get(
            op, lambda x: ()
        )
        run = getattr(interleaved, op)
        with np.errstate(all="ignore"):
            among = run(mixed, *rest(mixed))[0]
        for k in range(8):
            alone = run(a[k : k + 1], *rest(a[k : k + 1]))[0]
            np.testing.assert_array_equal(among[3 + k], alone[0], err_msg=op)


def test_results_do_not_depend_on_threads(rng: np.random.Generator) -> None:
    a = rng.standard_normal((1000, 8, 8))
    found = []
    for threads in (1, 2, 3):
        with options(threads=threads):
            found.append(linalg.solve(a, a[..., :1])[0])
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


CALLS: dict[str, Callable[[Array], Any]] = {
    "cholesky": interleaved.cholesky,
    "lu": interleaved.lu,
    "solve": lambda a: interleaved.solve(a, a[..., :2]),
    "inv": interleaved.inv,
    "slogdet": interleaved.slogdet,
    "triangular_solve": lambda a: interleaved.triangular_solve(a, a[..., :2], True, "N", False),
    "cho_solve": lambda a: interleaved.cho_solve(a, a[..., :2]),
    "qr": lambda a: interleaved.qr(a, "reduced"),
    "eigh": interleaved.eigh,
    "eigvalsh": lambda a: interleaved.eigh(a, vectors=False),
    "svd": interleaved.svd,
    "svdvals": lambda a: interleaved.svd(a, vectors=False),
}


@pytest.mark.parametrize("op", CALLS)
def test_arrays_beyond_the_caches(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is fetched ahead and written past the caches is the same, bit for bit."""
    rng = np.random.default_rng(4)
    for n, batch in ((2, (9000,)), (4, (70, 70)), (3, (3001,)), (8, (1003,))):
        x = rng.standard_normal((*batch, n, n))
        a = x @ x.swapaxes(-1, -2) + np.eye(n)
        for given in (a, a[::-1], np.asfortranarray(a), a[..., ::-1, :].swapaxes(-1, -2)):
            panels._TABLES.clear()
            with np.errstate(all="ignore"):
                near = CALLS[op](given)
                panels._TABLES.clear()
                monkeypatch.setattr(panels, "FAR", 0)
                far = CALLS[op](given)
                monkeypatch.undo()
            near, far = ((x if isinstance(x, tuple) else (x,)) for x in (near, far))
            for one, other in zip(near, far, strict=True):
                np.testing.assert_array_equal(other, one)
    panels._TABLES.clear()


# previously failed: what is no element of the eigenvalues was read far behind their scratch
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("op", CALLS)
def test_kernels_are_told_of_their_own_scratch_alone(
    op: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = []

    def run(kernel: Any, ports: Any, *arguments: Any) -> None:
        def look(_start: int, _stop: int, table: Array, _outer: Array, places: Array, numbers: Array,
                 _limits: Array, _x: Array, flat: Array, reals: Array, *_: Array) -> None:  # fmt: skip
            width = int(numbers[0])
            for k, (_, at, count, *_) in enumerate(table):
                is_real = kernel.__name__ in ("eigh_panels", "svd_panels") and k == 1
                squares = places[at : at + count * (2 + width)].reshape(count, 2 + width)
                assert squares[:, 2:].min() >= 0
                assert squares[:, 2:].max() + width <= (reals if is_real else flat).size
                moved.append(count)

        run_panels(look, ports, *arguments)

    monkeypatch.setattr(interleaved, "run_panels", run)
    for n in (1, 3, 5, 20):
        CALLS[op](np.ones((9, n, n), dtype))
    assert moved

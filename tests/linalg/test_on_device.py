"""Linear algebra of arrays on a device: NumPy in the place of a GPU, beside the same calls on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING, STAND_INS
from tests.backend.gpu.emulator import Emulator, needs_compiler
from tests.backend.gpu.launches import launches
from tests.backend.stand_in import DeviceArray
from tests.tolerance import eps

import einloom
from einloom import linalg
from einloom._base.errors import LinAlgError, ShapeError, Unsupported
from einloom.backend.choice import register_arrays, unregister_arrays
from einloom.backend.gpu import linalg as gpu_linalg
from einloom.backend.gpu.page import FAMILIES
from einloom.linalg.on_device import _RECENT, _RECORDED
from einloom.linalg.op import ON_DEVICES
from einloom.linalg.ops_on_device import RUNS

GPU = STAND_INS["gpu"]
DTYPES = ("float32", "float64", "complex64", "complex128")
BATCHES: tuple[tuple[int, ...], ...] = ((), (5,), (2, 3), (0,))


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    register_arrays(DeviceArray, lambda x: GPU)
    yield
    unregister_arrays(DeviceArray)


def up(x: Any) -> Any:
    return x.view(DeviceArray) if isinstance(x, np.ndarray) else x


def down(x: Any) -> Any:
    """Results on the host; anything that is no array of the device has left it."""
    if isinstance(x, tuple):
        return tuple(down(one) for one in x)
    if isinstance(x, (bool, str)):
        return x
    assert type(x) is DeviceArray, f"left the device: {type(x)}"
    return x.view(np.ndarray)


def matrices(dtype: str, batch: tuple[int, ...], m: int, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, m, n])
    a = rng.standard_normal((*batch, m, n))
    if dtype.startswith("complex"):
        a = a + 1j * rng.standard_normal(a.shape)
    return a.astype(dtype)


def general(dtype: str, batch: tuple[int, ...], n: int) -> np.ndarray:
    return matrices(dtype, batch, n, n)


def positive(dtype: str, batch: tuple[int, ...], n: int) -> np.ndarray:
    a = general(dtype, batch, n)
    return a @ a.conj().swapaxes(-1, -2) + n * np.eye(n, dtype=dtype)


def columns(dtype: str, batch: tuple[int, ...], n: int) -> np.ndarray:
    return matrices(dtype, batch, n, 3, seed=1)


def least(found: Any) -> Any:
    """Without the sums of squares, which are there for one matrix too, as for traced values."""
    return found[0], found[2], found[3]


Call = Callable[[Any, Any], Any]
SAME: dict[str, tuple[Call, Any]] = {  # these have one answer
    "solve": (linalg.solve, general),
    "solve vector": (lambda a, b: linalg.solve(a, b[..., :1]), general),
    "inv": (lambda a, b: linalg.inv(a), general),
    "det": (lambda a, b: linalg.det(a), general),
    "slogdet": (lambda a, b: linalg.slogdet(a), general),
    "cholesky": (lambda a, b: linalg.cholesky(a), positive),
    "cholesky upper": (lambda a, b: linalg.cholesky(a, upper=True), positive),
    "cho_solve": (lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b), positive),
    "cho_solve lower": (
        lambda a, b: linalg.cho_solve(linalg.cho_factor(a, lower=True), b),
        positive,
    ),
    "lu": (lambda a, b: linalg.lu(a), general),
    "lu indices": (lambda a, b: linalg.lu(a, p_indices=True), general),
    "lu permuted": (lambda a, b: linalg.lu(a, permute_l=True), general),
    "lu_factor": (lambda a, b: linalg.lu_factor(a), general),
    "eigvalsh": (lambda a, b: linalg.eigvalsh(a), positive),
    "eigvalsh upper": (lambda a, b: linalg.eigvalsh(a, UPLO="U"), positive),
    "svdvals": (lambda a, b: linalg.svdvals(a), general),
    "pinv": (lambda a, b: linalg.pinv(a), general),
    "lstsq": (lambda a, b: least(linalg.lstsq(a, b)), general),
    "qr_positive": (lambda a, b: linalg.qr_positive(a), general),
    "positive_qr": (lambda a, b: linalg.positive_qr(*linalg.qr(a)), general),
    "canonical svd": (lambda a, b: linalg.svd(a, gauge="canonical"), general),
    "canonical_svd": (lambda a, b: linalg.canonical_svd(*linalg.svd(a)), general),
    "canonical_vectors": (lambda a, b: linalg.canonical_vectors(linalg.eigh(a)[1]), positive),
    "polar": (lambda a, b: linalg.polar(a), general),
    "polar left": (lambda a, b: linalg.polar(a, side="left"), general),
    "matrix_power": (lambda a, b: linalg.matrix_power(a, 3), general),
    "matmul": (linalg.matmul, general),
    "info": (lambda a, b: linalg.solve(a, b, on_error="info"), general),
}
for _trans in "NTC":
    for _lower in (False, True):
        SAME[f"triangular {_trans} {_lower}"] = (
            lambda a, b, t=_trans, low=_lower: linalg.solve_triangular(a, b, trans=t, lower=low),
            positive,
        )
        SAME[f"triangular right {_trans} {_lower}"] = (
            lambda a, b, t=_trans, low=_lower: linalg.solve_triangular(
                a, b.swapaxes(-1, -2), trans=t, lower=low, side="right", unit_diagonal=True
            ),
            lambda dtype, batch, n: general(dtype, batch, n) / (8 * max(n, 1)),
        )
    SAME[f"lu_solve {_trans}"] = (
        lambda a, b, t=_trans: linalg.lu_solve(linalg.lu_factor(a), b, trans=t),
        general,
    )


def test_every_runtime_is_declared() -> None:
    assert frozenset(RUNS) == ON_DEVICES
    assert FAMILIES.keys() <= ON_DEVICES


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SAME)
def test_as_on_the_host(name: str, dtype: str, batch: tuple[int, ...]) -> None:
    call, make = SAME[name]
    for n in (5, 1):
        a, b = make(dtype, batch, n), columns(dtype, batch, n)
        want, found = call(a, b), down(call(up(a), up(b)))
        if name in LU and OTHER_PIVOTS and dtype.startswith("complex"):
            same_product(found, a, dtype)
        else:
            same(found, want, dtype)


LU = ("lu", "lu indices", "lu permuted", "lu_factor")
OTHER_PIVOTS = False
"""Whether pivots of complex columns are largest by modulus (cuBLAS), not by the sum of the parts (LAPACK)."""


def same_product(found: tuple[Any, ...], a: np.ndarray, dtype: str) -> None:
    """Factors of LU, in whatever form, whose rows need not be exchanged as LAPACK does."""
    *batch, m, n = a.shape
    k = min(m, n)
    if found[0].shape == a.shape and found[1].ndim == len(batch) + 1 and len(found) == 2:
        packed, swaps = found
        left = np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=a.dtype)
        made = left @ np.triu(packed[..., :k, :])
        for index in np.ndindex(*batch):
            for row in range(k - 1, -1, -1):
                pair = [row, int(swaps[index][row])]
                made[index][pair] = made[index][pair[::-1]]
    elif len(found) == 2:
        left = found[0]
        made = found[0] @ found[1]
    else:
        p, left, u = found
        made = left @ u
        made = p @ made if p.ndim == made.ndim else np.take_along_axis(made, p[..., None], axis=-2)
    assert np.abs(left).max(initial=0) <= 1.5  # the square root of 2 where pivots are LAPACK's
    assert np.abs(made - a).max(initial=0) <= 1000 * eps(dtype) * max(1, np.abs(a).max(initial=0))


def same(found: Any, want: Any, dtype: str) -> None:
    if isinstance(want, tuple):
        assert len(found) == len(want)
        for one, other in zip(found, want, strict=True):
            same(one, other, dtype)
        return
    if isinstance(want, bool):
        assert found is want
        return
    want = np.asarray(want)
    assert (found.dtype, found.shape) == (want.dtype, want.shape)
    scale = float(np.abs(want).max(initial=1))
    np.testing.assert_allclose(found, want, rtol=0, atol=3000 * eps(dtype) * scale)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 3), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (4,)], ids=str)
def test_rectangles(shape: tuple[int, int], dtype: str, batch: tuple[int, ...]) -> None:
    """Factors multiply to the matrix, as far as they are not determined."""
    m, n = shape
    a = matrices(dtype, batch, m, n)
    bound = 1000 * eps(dtype)
    for mode in ("reduced", "complete"):
        q, r = down(linalg.qr(up(a), mode))
        assert np.abs(q @ r - a).max(initial=0) < bound
        eye = np.eye(q.shape[-1])
        assert np.abs(q.conj().swapaxes(-1, -2) @ q - eye).max(initial=0) < bound
    for full in (False, True):
        u, s, vh = down(linalg.svd(up(a), full_matrices=full))
        k = min(m, n)
        assert np.abs(u[..., :k] * s[..., None, :] @ vh[..., :k, :] - a).max(initial=0) < bound
        same(s, np.asarray(linalg.svd(a, full_matrices=full)[1]), dtype)
    for name in ("lu", "lu_factor"):
        found = down(_tuple(getattr(linalg, name)(up(a))))
        if OTHER_PIVOTS and dtype.startswith("complex"):
            same_product(found, a, dtype)
        else:
            same(found, _tuple(getattr(linalg, name)(a)), dtype)
    for call in (
        lambda x: linalg.qr(x, "r"),
        lambda x: linalg.qr(x, "raw"),
    ):
        same(down(_tuple(call(up(a)))), _tuple(call(a)), dtype)
    if m:
        b = matrices(dtype, batch, m, 2, seed=2)
        same(down(least(linalg.lstsq(up(a), up(b)))), least(linalg.lstsq(a, b)), dtype)


ORDERS_OF_QR = (
    (32, 32),
    (33, 17),
    (17, 33),
    (128, 100),
    (100, 128),
    (300, 20),
    (20, 300),
    (129, 130),
)


@pytest.mark.parametrize("shape", ORDERS_OF_QR[1:3], ids=str)
@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(x, marks=pytest.mark.slow) if x in ("float32", "complex64") else x
        for x in DTYPES
    ],
)
def test_orders_of_qr(shape: tuple[int, int], dtype: str) -> None:
    """Signs of r are LAPACK's, and it is determined by them; so are reflectors."""
    m, n = shape
    bound = 30 * max(m, n) * eps(dtype)
    for batch in ((), (1,), (3,), (2, 20)):
        a = matrices(dtype, batch, m, n)
        a += (2 * np.sqrt(max(m, n)) * np.eye(m, n)).astype(dtype)
        a[..., 0] *= 1e-3
        for mode in ("reduced", "complete"):
            q, r = down(linalg.qr(up(a), mode))
            size = np.abs(a).max(axis=-2, keepdims=True)
            assert (np.abs(q @ r - a) <= bound * size).all()
            assert (np.abs(q.conj().swapaxes(-1, -2) @ q - np.eye(q.shape[-1])) <= bound).all()
            assert not np.tril(r, -1).any()
        for mode in ("r", "raw"):
            call = lambda x, mode=mode: _tuple(linalg.qr(x, mode))  # noqa: E731
            same(down(call(up(a))), call(a), dtype)


def _tuple(x: Any) -> Any:
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvectors(dtype: str) -> None:
    a, general_one = positive(dtype, (3,), 6), general(dtype, (3,), 6)
    w, v = down(linalg.eigh(up(a)))
    assert np.abs(a @ v - v * w[..., None, :]).max() < 1000 * eps(dtype) * np.abs(w).max()
    w, v = down(linalg.eig(up(general_one)))
    assert w.dtype == v.dtype == np.result_type(dtype, np.complex64)
    assert np.abs(general_one @ v - v * w[..., None, :]).max() < 1000 * eps(dtype) * np.abs(w).max()
    s = down(linalg.svd(up(a - 8 * np.eye(6, dtype=dtype)), hermitian=True))[1]
    same(s, np.asarray(linalg.svd(a - 8 * np.eye(6, dtype=dtype), hermitian=True)[1]), dtype)


@pytest.mark.parametrize("mode", ["relative", "absolute", "relative_weight", "weight"])
def test_truncated_svd(mode: Any) -> None:
    """As for traced values: as long as `max_rank` allows, zero beyond the rank of each."""
    a = matrices("float64", (4,), 6, 8)
    a[1] = np.outer(a[1, :, 0], a[2, 0])
    options = {"max_rank": 4, "cutoff": 0.3, "cutoff_mode": mode, "renormalize": True}
    for absorb in (None, "left", "right", "both"):
        want = linalg.truncated_svd(a, absorb=absorb, gauge="canonical", **options)  # type: ignore[arg-type]
        found = down(linalg.truncated_svd(up(a), absorb=absorb, gauge="canonical", **options))  # type: ignore[arg-type]
        u, s, vh, ranks, weight = found
        r = want[1].shape[-1]
        assert (u.shape, s.shape, vh.shape) == ((4, 6, 4), (4, 4), (4, 4, 8))
        assert not s[..., r:].any()
        same((u[..., :r], s[..., :r], vh[..., :r, :], ranks, weight), tuple(want), "float64")


def test_failures() -> None:
    a = general("float64", (3,), 4)
    a[1, 2] = 0
    b = columns("float64", (3,), 4)
    with pytest.raises(LinAlgError, match=r"solve: Singular matrix: 1 of 3 .* at 1") as caught:
        linalg.solve(up(a), up(b))
    assert caught.value.failed == ((1,),)
    x = down(linalg.solve(up(a), up(b), on_error="nan"))
    assert np.isnan(x[1]).all()
    assert np.abs(a[[0, 2]] @ x[[0, 2]] - b[[0, 2]]).max() < 1e-12
    x, info = down(linalg.solve(up(a), up(b), on_error="info"))
    assert info.dtype == np.int32
    np.testing.assert_array_equal(info != 0, [False, True, False])
    with pytest.raises(LinAlgError, match="not positive definite"):
        linalg.cholesky(up(-positive("float64", (), 3)))
    with pytest.raises(LinAlgError, match="did not converge"):
        linalg.svd(up(np.full((2, 2), np.nan)))
    with pytest.raises(LinAlgError, match="infs or NaNs"):
        linalg.inv(up(np.full((2, 2), np.inf)), check_finite=True)
    assert down(linalg.eigh(up(np.zeros((2, 3, 3)))))[0].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_refusals() -> None:
    a = general("float64", (), 3)
    with pytest.raises(Unsupported, match="solve: operand 1 is on the host"):
        linalg.solve(up(a), a)
    with pytest.raises(Unsupported, match="lu_solve: operand 2 is on the host"):
        linalg.lu_solve(linalg.lu_factor(up(a)), a)
    with pytest.raises(ShapeError, match="square"):
        linalg.inv(up(a[:2]))
    with pytest.raises(Unsupported, match="right eigenvectors only"):
        RUNS["eig"](GPU.xp, {"left": True}, up(a))


@pytest.mark.parametrize(
    "missing", [RuntimeError("geev is not available"), NotImplementedError("HIP")]
)
def test_eig_where_it_cannot_run(missing: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def eig(a: Any) -> Any:
        raise missing

    monkeypatch.setattr(GPU.xp.linalg, "eig", eig, raising=False)
    with pytest.raises(Unsupported, match=r"Xgeev, of CUDA 12.6 .* to_host\(a\)"):
        linalg.eig(up(general("float64", (2,), 3)))


def test_programs_are_kept() -> None:
    a = general("float64", (7,), 3)
    linalg.inv(up(a))
    before = _RECORDED.info().misses
    linalg.inv(up(a + 1))
    assert _RECORDED.info().misses == before


@needs_compiler
@pytest.mark.parametrize(
    "dtype", [x if x == "float64" else pytest.param(x, marks=pytest.mark.slow) for x in DTYPES]
)
def test_kernels_of_our_own(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small orders where CUDA compiles: the very kernels, on the CPU."""
    launched: list[str] = []

    def launch(xp: Any, kernel: Any, *arrays: Any) -> None:
        folder = tmp_path / str(len(launched))
        folder.mkdir()
        launched.append(kernel.name)
        Emulator([kernel], folder)(kernel, *(x.view(np.ndarray) for x in arrays))

    monkeypatch.setattr(gpu_linalg, "can_launch", lambda xp: True)
    monkeypatch.setattr(gpu_linalg, "launch", launch)
    for name in ("solve", "inv", "cholesky", "cholesky upper", "eigvalsh upper"):
        call, make = SAME[name]
        a, b = make(dtype, (6,), 7), columns(dtype, (6,), 7)
        want, found = call(a, b), down(call(up(a), up(b)))
        same(found, want, dtype)
    assert len(launched) == 5
    singular = ("svdvals", "pinv", "lstsq", "canonical svd", "polar", "polar left")
    for name in singular:
        call, make = SAME[name]
        a, b = make(dtype, (6,), 7), columns(dtype, (6,), 7)
        same(down(call(up(a), up(b))), call(a, b), dtype)
    assert [name.partition("_")[0] for name in launched[5:]] == ["svdvals"] + 5 * ["svd"]
    tall = matrices(dtype, (2,), 5, 3)
    same(down(linalg.svdvals(up(tall))), linalg.svdvals(tall), dtype)
    down(linalg.svd(up(tall), full_matrices=True))  # a square u is the library's
    assert [name.partition("_")[0] for name in launched[12:]] == ["cleared", "judged"]
    assert len(launched) == 14
    square = general(dtype, (6,), 7)
    for a, mode in ((square, "reduced"), (tall, "complete"), (square[0], "reduced")):
        q, r = down(linalg.qr(up(a), mode))
        np.testing.assert_allclose(q @ r, a, rtol=0, atol=1000 * eps(dtype))
    for mode in ("r", "raw"):
        same(down(_tuple(linalg.qr(up(tall), mode))), _tuple(linalg.qr(tall, mode)), dtype)
    assert {name.partition("_")[0] for name in launched[14:]} == {"qr"}
    assert len(launched) == 19
    call, make = SAME["solve"]
    records = np.zeros((6, 7, 7), [("flag", "i1"), ("x", dtype)])
    records["x"] = make(dtype, (6,), 7)  # previously failed: between elements no kernel reads
    apart = records["x"].view(DeviceArray)
    same(down(call(apart, up(b))), call(records["x"], b), dtype)
    assert len(launched) == 19
    for order, count in ((33, 20), (161, 20)):  # a block for each; the library's
        a, b = make(dtype, (2,), order), columns(dtype, (2,), order)
        same(down(call(up(a), up(b))), call(a, b), dtype)
        assert len(launched) == count


@pytest.fixture
def compiling() -> None:
    register_arrays(DeviceArray, lambda x: COMPILING)


@needs_compiler
@pytest.mark.usefixtures("compiling")
def test_what_a_call_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels and nothing else, and no code is brought to the host unless one is set."""
    a, b = up(positive("float32", (50,), 2)), up(columns("float32", (50,), 2))
    calls: dict[str, tuple[Callable[..., Any], list[str]]] = {
        "solve": (lambda **how: linalg.solve(a, b, **how), ["solve"]),
        "cholesky": (lambda **how: linalg.cholesky(a, **how), ["cholesky"]),
        "eigvalsh": (lambda **how: linalg.eigvalsh(a, **how), ["eigvalsh"]),
        "eigh": (lambda **how: linalg.eigh(a, **how), ["eigh"]),
        "svdvals": (lambda **how: linalg.svdvals(a, **how), ["svdvals"]),
        "inv": (lambda **how: linalg.inv(a, **how), ["solve"]),
    }
    for _ in range(3):
        for call, _kernels in calls.values():
            call()
            call(on_error="info")
    asked: list[str] = []
    monkeypatch.setattr(DeviceArray, "get", lambda *_: asked.append("get"))
    with monkeypatch.context() as patch:
        patch.setattr(DeviceArray, "__array_ufunc__", lambda *_, **__: asked.append("ufunc"))
        for call, kernels in calls.values():
            with launches() as names:
                call()
            assert names == [*kernels, "any_set"]
            with launches() as names:
                call(on_error="info")
            assert names[:1] == kernels
            assert set(names[1:]) == {"overwritten"}
    for front in (linalg.det, linalg.slogdet, linalg.lu_factor, linalg.qr):
        with launches() as names:
            front(a)
        assert "any_set" not in names  # nothing can fail, and nothing waits
    assert asked == []


@needs_compiler
@pytest.mark.usefixtures("compiling")
@pytest.mark.parametrize("batch", [(40,), (4, 10), (5000,)], ids=str)
def test_failures_that_a_kernel_finds(batch: tuple[int, ...]) -> None:
    good = general("float64", batch, 2) + 8 * np.eye(2)
    bad = good.copy()
    bad[..., -1, :, :][(0,) * (len(batch) - 1)] = 0
    at = (*(0,) * (len(batch) - 1), batch[-1] - 1)
    b = columns("float64", batch, 2)
    for _ in range(3):
        want = down(linalg.solve(up(good), up(b)))
        with pytest.raises(
            LinAlgError, match=f"solve: Singular matrix: 1 of {good[..., 0, 0].size}"
        ) as caught:
            linalg.solve(up(bad), up(b))
        assert caught.value.failed == (at,)
        assert caught.value.info.shape == batch
        assert (np.argwhere(caught.value.info) == [at]).all()
        x, info = down(linalg.solve(up(bad), up(b), on_error="info"))
        lost = np.isnan(x).any(axis=(-2, -1))
        assert np.argwhere(lost).tolist() == [list(at)] == np.argwhere(info).tolist()
        same(x[~lost], want[~lost], "float64")
        same(down(linalg.solve(up(bad), up(b), on_error="nan"))[~lost], x[~lost], "float64")
        with pytest.raises(LinAlgError, match="not positive definite"):
            linalg.cholesky(up(-positive("float64", batch, 2)))


@needs_compiler
@pytest.mark.usefixtures("compiling")
def test_calls_of_several_threads() -> None:
    good, b = general("float64", (9,), 3) + 8 * np.eye(3), columns("float64", (9,), 3)
    want = linalg.solve(good, b)
    linalg.solve(up(good), up(b))

    def work(k: int) -> bool:
        a = good.copy()
        if k % 2:
            a[k % 9] = 0
        try:
            same(down(linalg.solve(up(a), up(b))), want, "float64")
        except LinAlgError as error:
            return error.failed == ((k % 9,),)
        return not k % 2

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(200)))


def recent() -> tuple[int, int]:
    return _RECENT.hits, len(_RECENT.items)


def test_later_calls() -> None:
    """Straight to what ran before, by types of settings too; other devices, shapes and options anew."""
    a, b = up(general("float64", (7,), 3) + 4 * np.eye(3)), up(columns("float64", (7,), 3))
    einloom.clear_caches()
    first = linalg.solve(a, b)
    for k in range(3):
        assert recent() == (k, 1)
        same(down(linalg.solve(a, b)), down(first), "float64")
    linalg.solve(a[:5], b[:5])
    linalg.solve(a, b, check_finite=True)
    assert recent() == (3, 3)
    with einloom.options(small=0):
        linalg.solve(a, b)
        assert recent() == (3, 3)
        linalg.solve(a, b)
        assert recent() == (4, 3)
    w, _ = linalg.eigh(a, "L")
    assert type(linalg.eigh(a, "L")) is type(linalg.eigh(a.view(np.ndarray)))
    same(down(linalg.eigh(a, "L")[0]), down(w), "float64")
    before = recent()
    with pytest.raises(einloom.EinloomError):
        linalg.eigh(a, 1)  # type: ignore[arg-type]
    x, _ = linalg.solve(a, b, on_error="info")
    again = linalg.solve(a, b, on_error="info")
    assert type(again) is tuple
    same(down(again[0]), down(x), "float64")
    assert recent() == (before[0] + 1, before[1] + 1)
    register_arrays(DeviceArray, lambda x: STAND_INS["gpu without cuTENSOR"])
    linalg.solve(a, b)
    assert recent() == (before[0] + 1, before[1] + 2)
    with pytest.raises(Unsupported, match="operand 1 is on the host"):
        linalg.solve(a, b.view(np.ndarray))
    linalg.lu_solve(linalg.lu_factor(a), b)  # tuples of arrays have no short way
    linalg.lu_solve(linalg.lu_factor(a), b)
    with pytest.raises(ShapeError):
        linalg.solve(a, b[:, :2])

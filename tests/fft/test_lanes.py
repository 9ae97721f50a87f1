"""The kernel for lines side by side: lengths, tails, strides and places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.dft import bound, relative_error
from tests.fft.cases import numbers

from einloom import fft, options
from einloom.backend.cpu import fft as backend_fft
from einloom.backend.cpu import fft_lanes
from einloom.backend.cpu.fft import Transform, planned, transform

LENGTHS = (
    8,
    9,
    10,
    14,
    16,
    21,
    25,
    27,
    32,
    49,
    60,
    64,
    90,
    105,
    128,
    210,
    243,
    343,
    512,
    625,
    2048,
)
NORMS = {0: "backward", 1: "ortho", 2: "forward"}


@pytest.fixture(autouse=True, params=["near", "far"])
def distance(request: Any, monkeypatch: Any) -> Any:
    """Every case as it is, and as if its arrays were too large for any cache."""
    fft_lanes._TILES.clear()
    if request.param == "far":
        monkeypatch.setattr(fft_lanes, "FAR", 0)
    yield
    fft_lanes._TILES.clear()


def by_numpy(x: Any, axis: int, forward: bool, norm: int) -> Any:
    wide = x.astype(np.complex128)
    if forward:
        return np.fft.fft(wide, axis=axis, norm=NORMS[norm])
    return np.fft.ifft(wide, axis=axis, norm=NORMS[2 - norm])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_lengths(dtype: str) -> None:
    """All radices, and as many lines as leave tails of every kind."""
    rng = np.random.default_rng(1)
    for k, n in enumerate(LENGTHS):
        for lines in (16, 17 + k, 70):
            for forward, norm in ((True, 0), (False, 2), (True, 1)):
                x = numbers(rng, (n, lines), dtype)
                out = np.empty_like(x)
                fft_lanes.run(forward, norm, x, out, 0, 2)
                want = by_numpy(x, 0, forward, norm)
                assert relative_error(out, want) <= bound(dtype, n), (n, lines, forward)


def placed(shape: tuple[int, ...], dtype: str, offset: int) -> tuple[Any, Any]:
    """An array that begins so many bytes after a cache line, between numbers that must not change."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.full(size + 512, 77, np.uint8)
    start = -memory.__array_interface__["data"][0] % 64 + 64 + offset
    return memory, memory[start : start + size].view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("offset", [0, 16, 40])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((40, 16), 1), ((33, 2, 8), 2), ((48, 64), 0), ((3, 24, 32), 1), ((24, 36), 0), ((17, 9), 1)],
)
def test_places_of_results(dtype: str, offset: int, shape: tuple[int, ...], axis: int) -> None:
    """Whole cache lines go past the caches, others do not; nothing beside the result is written."""
    rng = np.random.default_rng(8)
    x = numbers(rng, shape, dtype)
    memory, out = placed(shape, dtype, offset)
    fft_lanes.run(True, 1, x, out, axis, 2)
    assert relative_error(out, by_numpy(x, axis, True, 1)) <= bound(dtype, shape[axis])
    used = memory.ctypes.data, out.ctypes.data
    start = used[1] - used[0]
    assert np.all(memory[:start] == 77)
    assert np.all(memory[start + out.nbytes :] == 77)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_contiguous_lines(dtype: str) -> None:
    rng = np.random.default_rng(6)
    for k, n in enumerate(LENGTHS):
        for shape in ((8 + k, 2, n), (40, n), (1, 19, 3, n)):
            for forward, norm in ((True, 0), (False, 1)):
                x = numbers(rng, shape, dtype)
                out = np.empty_like(x)
                fft_lanes.run(forward, norm, x, out, x.ndim - 1, 2)
                want = by_numpy(x, -1, forward, norm)
                assert relative_error(out, want) <= bound(dtype, n), (shape, forward)
    wide = numbers(rng, (30, 20, 64), dtype)
    view = wide[::-2, 3:, 8:40]
    same = wide.copy()[::-2, 3:, 8:40]
    fft_lanes.run(True, 0, same, same, 2, 3)
    assert relative_error(same, by_numpy(view, 2, True, 0)) <= bound(dtype, 32)


REAL_OF = {"complex64": "float32", "complex128": "float64"}


def half_by_numpy(x: Any, axis: int, forward: bool, norm: int) -> Any:
    found = np.fft.rfft(x.astype(np.float64), axis=axis)
    factor = (1.0, x.shape[axis] ** -0.5, 1 / x.shape[axis])[norm]
    return factor * (found if forward else found.conj())


def back_by_numpy(x: Any, n: int, axis: int, forward: bool, norm: int) -> Any:
    wide = x.astype(np.complex128)
    wide = wide.conj() if forward else wide
    return np.fft.irfft(wide, n, axis) * (n, n**0.5, 1)[norm]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_real_lines(dtype: str) -> None:
    """To half spectra and back: all radices, odd and even halves, tails of lines and of elements."""
    rng = np.random.default_rng(9)
    for k, h in enumerate(LENGTHS[:-2]):
        n = 2 * h
        for shape, axis in (((n, 16), 0), ((n, 17 + k), 0), ((2, n, 70), 1), ((9 + k, 2, n), 2)):
            half = (*shape[:axis], h + 1, *shape[axis + 1 :])
            for forward, norm in ((True, 0), (False, 2), (True, 1)):
                x, spectrum = numbers(rng, shape, REAL_OF[dtype]), numbers(rng, half, dtype)
                out, back = np.full(half, np.nan, dtype), np.full(shape, np.nan, REAL_OF[dtype])
                fft_lanes.run(forward, norm, x, out, axis, 2)
                want = half_by_numpy(x, axis, forward, norm)
                assert relative_error(out, want) <= bound(dtype, n), (shape, forward)
                kept = spectrum.copy()
                fft_lanes.run(forward, norm, spectrum, back, axis, 2)
                want = back_by_numpy(spectrum, n, axis, forward, norm)
                assert relative_error(back, want) <= bound(dtype, n), (shape, forward)
                assert np.array_equal(spectrum, kept)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_real_lines_of_any_strides(axis: int) -> None:
    rng = np.random.default_rng(10)
    whole = numbers(rng, (24, 20, 32), "float64")
    for view in (whole, whole[::2, ::-1], whole[:, ::-2, 3:31], whole[:, ::-1].transpose(1, 0, 2)):
        want = half_by_numpy(view, axis, True, 0)
        out = np.empty(want.shape, want.dtype)
        fft_lanes.run(True, 0, view, out, axis, 2)
        assert relative_error(out, want) <= bound("complex128", 32)
        apart = np.empty((*want.shape[:-1], 3 * want.shape[-1]), want.dtype)[..., ::3]
        fft_lanes.run(True, 0, view, apart, axis, 1)
        assert np.array_equal(apart, out)
        back = np.empty(view.shape)[:, ::-1]
        fft_lanes.run(False, 2, apart, back, axis, 2)
        assert relative_error(back, view) <= 2 * bound("float64", 32)


def test_a_real_line_depends_on_itself_alone() -> None:
    """Same bits for any threads and neighbours; a NaN spoils its line; no number of a line is ignored but
    the two imaginary parts that have none."""
    rng = np.random.default_rng(11)
    x = numbers(rng, (60, 133), "float32")
    outs = [np.empty((31, 133), np.complex64) for _ in range(3)]
    for threads, out in enumerate(outs, 1):
        fft_lanes.run(True, 0, x, out, 0, threads)
    alone = np.empty((31, 21), np.complex64)
    fft_lanes.run(True, 0, x[:, 50:71], alone, 0, 1)
    assert all(np.array_equal(out[:, 50:71], alone) for out in outs)
    x[4, 7] = np.nan
    with np.errstate(all="ignore"):
        fft_lanes.run(True, 0, x, outs[0], 0, 2)
    assert list(np.flatnonzero(~np.isfinite(outs[0]).all(axis=0))) == [7]
    back, again = np.empty((60, 133), np.float32), np.empty((60, 133), np.float32)
    fft_lanes.run(False, 2, outs[1], back, 0, 2)
    outs[1].imag[[0, 30]] = np.nan
    fft_lanes.run(False, 2, outs[1], again, 0, 2)
    assert np.array_equal(back, again)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_strides_and_places(axis: int) -> None:
    rng = np.random.default_rng(2)
    whole = numbers(rng, (24, 20, 18, 40), "complex128")
    for view in (whole, whole[::2, ::-1], whole[:, :, ::-2, 3:39], whole.transpose(2, 0, 1, 3)):
        want = by_numpy(view, axis, True, 0)
        out = np.empty(view.shape, view.dtype)
        fft_lanes.run(True, 0, view, out, axis, 2)
        assert relative_error(out, want) <= bound("complex128", 24)
        apart = np.empty((*view.shape[:-1], 3 * view.shape[-1]), view.dtype)[..., ::3]
        fft_lanes.run(True, 0, view, apart, axis, 1)
        assert np.array_equal(apart, out)
        same = view.copy()
        fft_lanes.run(True, 0, same, same, axis, 2)
        assert np.array_equal(same, out)
    repeated = np.broadcast_to(whole[:, :1, :, :], whole.shape)
    out = np.empty(whole.shape, whole.dtype)
    fft_lanes.run(True, 0, repeated, out, 0, 2)
    assert relative_error(out, by_numpy(repeated, 0, True, 0)) <= bound("complex128", 24)


def test_same_bits_for_any_threads_and_neighbours() -> None:
    """What a line becomes depends on nothing but itself."""
    rng = np.random.default_rng(3)
    x = numbers(rng, (60, 133), "complex64")
    results = []
    for threads in (1, 2, 3):
        out = np.empty_like(x)
        fft_lanes.run(True, 0, x, out, 0, threads)
        results.append(out)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
    alone = np.empty((60, 21), np.complex64)
    fft_lanes.run(True, 0, x[:, 50:71], alone, 0, 1)
    assert np.array_equal(alone, results[0][:, 50:71])


def test_who_takes_what() -> None:
    """By shape, strides and the option `small` alone; what the kernel does not take the library does."""
    what = Transform("c2c")
    x = np.zeros((512, 512), complex)

    def how(y: Any, axis: int, **changes: Any) -> str:
        with options(threads=2, **changes):
            return planned(what, y, (axis,), 2)[0].how

    assert how(x, 0) == "lanes"
    assert how(x, 1) == "lanes"
    assert how(np.ones((512, 512)), 0) == "lines"
    assert how(x[:, :510], 1) == "lines"  # has the factor 17
    assert how(np.ones((3, 1 << 17), complex), 1) == "lines"  # fewer lines than lanes
    assert how(np.ones((3000, 90), complex), 1) == "lanes"
    assert how(np.ones((300, 1024)), 1) == "lines"  # all of the spectrum of real numbers
    assert how(x, 0, small=float("inf")) == "lines"
    assert how(x[:, :4].repeat(200, 0), 0) == "lines"  # fewer lines than lanes
    assert how(x[:509], 0) == "lines"  # a prime
    assert how(x.T, 1) == "lines"  # its lines are contiguous
    assert how(x.T, 0) == "lines"
    assert how(np.zeros((1 << 17, 8), complex), 0) == "lines"  # too long for a cache
    assert how(np.zeros((512, 512), np.clongdouble), 0) == "lines"
    assert how(x[:8, :8].copy(), 0, small=0) == "whole"
    with options(threads=2):
        for n, by in ((600, "lanes"), (601, "lines"), (602, "lines")):  # 602 has the factor 43
            half = planned(Transform("r2c"), np.zeros((512, n)), (0, 1), 2)
            assert [(step.how, step.axes) for step in half] == [(by, (1,)), ("lanes", (0,))]
            back = planned(Transform("c2r", n=n), np.zeros((1024, n // 2 + 1), complex), (0, 1), 2)
            assert [(step.how, step.axes) for step in back] == [("lanes", (0,)), (by, (1,))]
        few = np.zeros((33, 64, 64), complex)  # their lines are as many numbers as those of `many`
        many = np.zeros((64, 64, 64))
        assert planned(Transform("c2r", n=64), few, (0,), 2)[0].how == "lanes"
        assert planned(Transform("r2c"), many, (0,), 2)[0].how == "lanes"
        turned = planned(what, np.zeros((512, 600), complex).T, (0, 1), 2)
        assert [step.how for step in turned] == ["lines", "lanes"]


def test_special_values() -> None:
    """NaN and infinities stay in their line."""
    x = np.ones((16, 40), complex)
    x[3, 5], x[2, 7] = np.nan, np.inf
    with np.errstate(all="ignore"), options(small=0):
        out = np.empty_like(x)
        fft_lanes.run(True, 0, x, out, 0, 2)
    bad = ~np.isfinite(out).all(axis=0)
    assert list(np.flatnonzero(bad)) == [5, 7]


def test_library_and_kernel_agree_where_steps_mix() -> None:
    rng = np.random.default_rng(4)
    x = numbers(rng, (64, 81, 32), "complex128")
    for axes in ((0, 1, 2), (0, 2), (1, 0)):
        with options(small=0, threads=2):
            got = transform(Transform("c2c"), x, axes)
        with options(small=float("inf"), threads=1):
            want = transform(Transform("c2c"), x, axes)
        assert relative_error(got, want) <= 2 * bound("complex128", x.size)


@pytest.mark.parametrize("kind", ["c2c", "r2c", "c2r"])
@pytest.mark.parametrize("shape", [(40, 22, 32), (9, 12, 16, 24)])
def test_members_of_a_batch(
    kind: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Axes of both sorts, and three of ours beyond the last cache: several steps a member."""
    monkeypatch.setattr(backend_fft, "FAR", fft_lanes.FAR)  # near or far
    monkeypatch.setattr(backend_fft, "FARTHEST", 0)
    monkeypatch.setattr(backend_fft, "ROUND", 1 << 16)
    axes = tuple(range(1, len(shape)))
    x = numbers(np.random.default_rng(6), shape, "float64" if kind == "r2c" else "complex128")
    if kind == "c2r":
        x = np.concatenate([x, x[..., :1].real], axis=-1)
    what = Transform(kind, forward=kind != "c2r", n=2 * shape[-1])
    with options(small=0, threads=2):
        backend_fft._STEPS.clear()
        steps = planned(what, x, axes, 2)
        assert (steps[0].how, len(steps[0].inside) > 1) == ("batch", True)
        got = transform(what, x, axes)
    backend_fft._STEPS.clear()
    with options(small=float("inf"), threads=1):
        want = transform(what, x, axes)
    assert relative_error(got, want) <= 2 * bound("complex128", x.size)


# ---- previously failed --------------------------------------------------------------------------


def scaled_columns(dtype: str) -> Any:
    """Neighbours of very different sizes, and one that is NaN."""
    rng = np.random.default_rng(7)
    x = numbers(rng, (64, 131), dtype)
    x *= np.array([1e8, 1e-8, 1])[np.arange(131) % 3].astype(x.real.dtype)
    x[3, 40] = np.nan
    return x


@pytest.mark.parametrize("small", [0, None])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
@pytest.mark.parametrize("is_single", [False, True])
def test_columns_do_not_touch_each_other(name: str, is_single: bool, small: int | None) -> None:
    is_real = name == "rfft"
    dtype = ("float32" if is_single else "float64") if is_real else "complex128"
    dtype = "complex64" if is_single and not is_real else dtype
    x = scaled_columns(dtype)
    with options(threads=2, **({} if small is None else {"small": small})):
        got = getattr(fft, name)(x, axis=0)
    bad = np.isnan(got).any(axis=0)
    assert list(np.flatnonzero(bad)) == [40]
    wide = x.astype("float64" if is_real else "complex128")
    want = getattr(np.fft, name)(wide, axis=0)
    for k in np.flatnonzero(~bad):
        assert relative_error(got[:, k], want[:, k]) <= bound(dtype, 64), k


def test_large_column_beside_a_small_one() -> None:
    x = np.random.default_rng(8).standard_normal((1024, 256))
    x[:, 0] *= 1e16
    with options(threads=2, small=0):
        half = fft.rfft(x, axis=0)
        back = fft.irfft(half, axis=0)
    assert np.allclose(half[:, 1:], np.fft.rfft(x[:, 1:], axis=0), rtol=1e-12, atol=1e-11)
    assert np.allclose(back[:, 1:], x[:, 1:], rtol=1e-12, atol=1e-13)

"""Kernels are loaded when they pay: until then NumPy makes copies and products, with the same bits."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from einloom import cache_info, options
from einloom.backend.cpu import bare, contraction, cpu, fused, jit, objects, patience
from einloom.backend.cpu.move import move
from einloom.backend.cpu.patience import counted, too_early
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep
from einloom.backend.spec import ArraySpec

LONG = 1 << 18

SCRIPT = """
import sys
import numpy as np
import einloom

x = np.arange(2.0 ** 20).reshape(64, 128, 128)
assert np.array_equal(einloom.einsum("ijk,ijk->kji", x, x), (x * x).T)
assert np.array_equal(einloom.einsum("ijk->kij", x, order="C"), x.transpose(2, 0, 1))
v = np.arange(2000.0)
assert np.array_equal(einloom.einsum("i,j->ij", v, v), np.outer(v, v))
print("numba" in sys.modules)
"""


@pytest.mark.parametrize(("seconds", "loaded"), [("60", "False"), ("0", "True")])
def test_a_new_process(seconds: str, loaded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINLOOM_PATIENCE", seconds)
    monkeypatch.setenv("EINLOOM_BARE", "0")
    monkeypatch.delenv("EINLOOM_SMALL", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == (loaded, "")


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As in a process that has loaded no kernel: those that are needed all the same are counted."""
    monkeypatch.setattr(jit, "_LOADED", [])
    monkeypatch.setattr(bare, "has_begun", lambda: False)
    monkeypatch.setattr(bare, "are_kept", lambda: False)
    patience._SPENT.clear()
    with options(patience=60, small=LONG):
        yield
    patience._SPENT.clear()


def calls() -> int:
    return patience._SPENT.calls


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((LONG,), (0,)), ((64, 3, 1500), (2, 0, 1)), ((600, 600), (1, 0))]
)
def test_copies(early: None, rng: np.random.Generator, dtype: str, shape: Any, axes: Any) -> None:
    x = rng.integers(0, 100, shape).astype(dtype).transpose(axes)
    np.testing.assert_array_equal(move(np.empty_like(x, order="C"), x), x)
    assert calls() == 1
    assert not jit.is_loaded()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 3), (3, 5, 7), (20, 1, 2)], ids=str)
def test_small_arrays_where_kernels_would_be_forced(early: None, shape: tuple[int, ...]) -> None:
    """Previously failed without axes."""
    with options(small=1e-3, patience=60):
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        np.testing.assert_array_equal(move(np.empty_like(x), x), x)
    assert not jit.is_loaded()


def one_step(op: str, dtype: Any, shape: Any) -> ElementwiseFusionPlan:
    spec = ArraySpec(np.dtype(dtype), shape)
    return ElementwiseFusionPlan((spec, spec), (FusionStep(op, (1, 0)),), (2,))


@pytest.mark.parametrize("dtype", ["i1", "u4", "i8", "f4", "f8"])
@pytest.mark.parametrize("op", ["add", "subtract", "multiply"])
def test_single_steps(early: None, rng: np.random.Generator, dtype: str, op: str) -> None:
    """Wrapping, special and rounded values as with a kernel, which is loaded afterwards."""
    x, y = (rng.integers(0, 100, (700, 400)).astype(dtype) for _ in range(2))
    if np.dtype(dtype).kind == "f":
        x[0, :4] = np.nan, np.inf, -np.inf, np.finfo(x.dtype).max
        y += rng.random(y.shape).astype(dtype)
    run = cpu().fuse(one_step(op, dtype, x.shape))
    got = [run(x, y), run(x, y, out=np.empty_like(x)), run(x.T.copy().T, y)]
    assert calls() == 3
    assert not jit.is_loaded()
    with options(patience=0):
        got.append(run(x, y))
    assert calls() == 3
    with np.errstate(all="ignore"):
        for result in got:
            np.testing.assert_array_equal(result, getattr(np, op)(y, x))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_products_have_their_kernel(early: None, dtype: str) -> None:
    x = np.ones((600, 500), dtype)
    cpu().fuse(one_step("multiply", dtype, x.shape))(x, x)
    assert calls() == 0


def test_it_ends(early: None) -> None:
    with options(patience=0.01, small=LONG):
        assert too_early()
        with counted():
            assert too_early()
            time.sleep(0.02)
        assert not too_early()
    with options(small=0):  # kernels are asked for
        assert not too_early()
    assert too_early()
    assert cache_info()[patience.NAME].hits == 1
    jit._LOADED[:] = [True]
    assert not too_early()


@pytest.mark.parametrize(("is_here", "part"), [(True, 1 / 30), (False, 1 / 8)])
def test_it_ends_sooner_where_kernels_are_kept(
    is_here: bool, part: float, early: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "are_linked_here", lambda: is_here)
    with options(patience=1.0, small=LONG):
        patience._SPENT.add(1.1 * part)
        assert too_early()
        monkeypatch.setattr(bare, "are_kept", lambda: True)
        assert not too_early()
        patience._SPENT.clear()
        patience._SPENT.add(0.9 * part)
        assert too_early()


def test_what_fails_counts(early: None) -> None:
    with pytest.raises(ValueError, match="no"), counted():
        raise ValueError("no")
    assert calls() == 1


# ---- products of medium size ---------------------------------------------------------------------

MEDIUM = {"contracting": ((), ()), "batch": ((0,), (0,))}  # xi,xa->xia


def medium(dtype: str, layout: tuple[int, ...] | None = None) -> tuple[Any, Any, Any]:
    """A kernel for 400 outer products of 5 by 20 elements, and operands."""
    rng = np.random.default_rng(5)
    x, y = ((rng.random((400, n)) * 100).astype(dtype) for n in (5, 20))
    specs = tuple(ArraySpec(a.dtype, a.shape) for a in (x, y))
    out = ArraySpec(x.dtype, (400, 5, 20), layout)
    return cpu().bind("dot_general", {**MEDIUM, "conj": (False, False)}, specs, (out,)), x, y


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Calls of compiled elementwise kernels."""
    used: list[int] = []
    real = fused.Elementwise.__call__

    def spy(self: Any, *arguments: Any, **keywords: Any) -> Any:
        used.append(1)
        return real(self, *arguments, **keywords)

    monkeypatch.setattr(fused.Elementwise, "__call__", spy)
    return used


@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize("layout", [None, (1, 2, 0)])
def test_a_product_asked_for_often_has_its_kernel(
    dtype: str, layout: tuple[int, ...] | None, kernels: list[int]
) -> None:
    """When NumPy took as long as patience says, and with the same bits, into any `out`."""
    with options(small=LONG, patience=60):
        kernel, x, y = medium(dtype, layout)
        want = kernel(x, y)
        assert want.transpose(layout or (0, 1, 2)).flags.c_contiguous
        np.testing.assert_array_equal(want, x[:, :, None] * y[:, None, :])
        assert not kernels
    with options(small=LONG, patience=1e-9):
        assert kernel(x, y).tobytes() == want.tobytes()
        assert kernels  # asked twice where it is not kept
        for out in (np.zeros(want.shape, dtype), np.zeros(want.shape[::-1], dtype).T):
            assert kernel(x[::-1], y[::-1], out=out) is out
            np.testing.assert_array_equal(out, want[::-1])
        between = np.zeros(out.nbytes + 1, np.uint8)[1:].view(dtype).reshape(want.shape)
        kernel(x, y, out=between)  # no kernel reads it
        np.testing.assert_array_equal(between, want)


def test_kernels_that_are_not_kept_wait_for_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """However arrays lie, where others had their kernel already, too."""
    kept, compiled = [True], []

    def spy(self: Any, *arguments: Any) -> bool:
        if not kept[0] and getattr(jit._here, "kept_only", False):
            raise jit.NotKept
        compiled.append(kept[0])
        return True

    monkeypatch.setattr(fused.Elementwise, "__call__", spy)
    monkeypatch.setattr(contraction, "ALONE", 0)
    monkeypatch.setattr(contraction, "loading_seconds", lambda linking: 0.0)
    with options(small=LONG, patience=60):
        kernel, x, y = medium("float64")
        out = kernel(x, y)
        assert compiled == [True]
        kept[0] = False
        for other in (out[::-1], out[:, ::-1]):
            kernel(x, y, out=other)
            np.testing.assert_array_equal(other, x[:, :, None] * y[:, None, :])
        assert compiled == [True]
    with options(small=LONG, patience=0):
        kernel(x, y, out=out[::-1])
    assert compiled == [True, False]


@pytest.mark.parametrize(("dtype", "small"), [("complex128", LONG), ("float64", np.inf)])
def test_other_bits_never_come_later(dtype: str, small: float, kernels: list[int]) -> None:
    """Complex products round otherwise in kernels; and kernels may be forbidden."""
    with options(small=small, patience=0):
        kernel, x, y = medium(dtype)
        assert kernel(x, y).tobytes() == kernel(x, y).tobytes()
    assert not kernels


def test_a_first_call_does_not_look_for_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Previously failed: sources were read for it, which took longer than the call."""

    def look() -> bool:
        raise AssertionError

    monkeypatch.setattr(bare, "are_kept", look)
    monkeypatch.setattr(patience, "is_loaded", lambda: False)
    monkeypatch.setattr(patience, "_SPENT", patience._Spent())
    with options(small=1, patience=0.5):
        assert patience.too_early()
        patience._SPENT.add(0.5)
        assert not patience.too_early()

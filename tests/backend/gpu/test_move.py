"""Where the GPU's backend launches its permutation kernel, and that what it leaves is a plain copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING
from tests.backend.gpu.emulator import RawKernel, needs_compiler
from tests.backend.stand_in import DeviceArray

from einloom import clear_caches
from einloom._base.errors import CallError, Unsupported
from einloom.backend.gpu import GpuBackend
from einloom.backend.gpu.move import contiguous, move


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    def call(self: RawKernel, *arguments: Any, **keywords: Any) -> None:
        names.append(self.name)
        real(self, *arguments, **keywords)

    real = RawKernel.__call__
    monkeypatch.setattr(RawKernel, "__call__", call)
    return names


def on_device(x: np.ndarray) -> Any:
    return x.view(DeviceArray)


@needs_compiler
def test_transpositions_go_in_tiles(launched: list[str], rng: np.random.Generator) -> None:
    x = rng.standard_normal((70, 80))
    for source in (x.T, x[::-1].T, np.broadcast_to(x[:, 0], (90, 70)).T):
        found = contiguous(COMPILING.xp, on_device(source))
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found.view(np.ndarray), source)
    assert len(launched) == 3
    target = np.zeros((80, 140))[:, ::2]
    move(COMPILING.xp, on_device(target), on_device(x.T))
    np.testing.assert_array_equal(target, x.T)
    assert len(launched) == 4


@needs_compiler
def test_ops(launched: list[str], rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (12, 33, 20)).astype("f4")
    turned = on_device(x).transpose(2, 1, 0)
    for op in ("copy", "contiguous"):
        found = COMPILING.apply(op, {}, turned)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found.view(np.ndarray), x.T)
    attrs = {"batch": ((), ()), "contracting": ((0, 2), (0, 1))}
    y = rng.integers(-9, 9, (12, 20, 40)).astype("f4")
    product = COMPILING.apply("dot_general", attrs, on_device(x), on_device(y))
    want = np.tensordot(x, y, ((0, 2), (0, 1)))
    np.testing.assert_array_equal(product.view(np.ndarray), want)
    assert launched


@needs_compiler
def test_many_axes_and_column_major(launched: list[str], rng: np.random.Generator) -> None:
    """Neighbours that stay together, at addresses that allow pairs of them and at such as do not."""
    memory = rng.standard_normal(2**13 + 2)
    for first in (0, 1, 2):
        source = memory[first : first + 2**13].reshape((2,) * 13)
        for order in (
            (0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11, 12),
            (1, 0, *range(2, 13)),
            tuple(range(13)),
        ):
            given = source.transpose(order)
            for target in (np.zeros((2,) * 13, order="F"), np.zeros((2,) * 13)[::-1]):
                move(COMPILING.xp, on_device(target), on_device(given))
                np.testing.assert_array_equal(target, given)
    assert len(set(launched)) > 2


@needs_compiler
def test_copies_along_the_same_axes(launched: list[str]) -> None:
    x = np.arange(64.0 * 80).reshape(64, 80)
    for source in (x, x[:, ::-1], np.repeat(x, 2, 0)[::2], np.repeat(x, 2, 1)[:, ::2], x[:1]):
        source = np.broadcast_to(source, x.shape)
        target = np.zeros(x.size + 1)[1:].reshape(x.shape)
        move(COMPILING.xp, on_device(target), on_device(source))
        np.testing.assert_array_equal(target, source)
    assert len(launched) == 5


def test_plain_copies(launched: list[str]) -> None:
    """Of few elements, between dtypes, without a compiler, of parts of elements."""
    x = np.arange(64.0 * 80).reshape(64, 80)
    records = np.zeros((80, 64), [("flag", "i1"), ("x", "f8")])
    records["x"] = x.T
    for source, dtype in ((x[:9, :9].T, "f8"), (x.T, "f4"), (records["x"], "f8")):
        target = np.zeros(source.shape, dtype)
        move(COMPILING.xp, on_device(target), on_device(source))
        np.testing.assert_array_equal(target, source)
    assert not launched


def test_eager_copies_are_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[str] = []
    real = GpuBackend.bind

    def bind(self: GpuBackend, op: str, *arguments: Any, **keywords: Any) -> Any:
        bound.append(op)
        return real(self, op, *arguments, **keywords)

    monkeypatch.setattr(GpuBackend, "bind", bind)
    clear_caches()
    x = on_device(np.arange(6.0).reshape(2, 3))
    for _ in range(3):
        for y in (x, x.T, x.astype("f4")):
            out = on_device(np.zeros(y.shape, y.dtype))
            assert COMPILING.apply("copy", {}, y, out=out) is out
            np.testing.assert_array_equal(out.view(np.ndarray), y.view(np.ndarray))
    assert bound == ["copy"] * 3
    for wrong in (np.zeros((3, 2)), np.zeros((2, 3), "f4")):
        with pytest.raises(CallError, match=r"copy\(out=...\): out is "):
            COMPILING.apply("copy", {}, x, out=on_device(wrong))
    with pytest.raises(CallError, match="may overlap"):
        COMPILING.apply("copy", {}, x, out=x)
    with pytest.raises(Unsupported, match=r"operand 0 is a numpy\.ndarray"):
        COMPILING.apply("copy", {}, np.zeros((2, 3)))

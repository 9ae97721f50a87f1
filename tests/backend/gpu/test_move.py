"""Where the GPU's backend launches its permutation kernel, and that what it leaves is a plain copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING
from tests.backend.gpu.emulator import needs_compiler
from tests.backend.stand_in import DeviceArray

from einloom.backend.gpu import move as moves
from einloom.backend.gpu.move import contiguous, move


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    def launch(xp: Any, kernel: Any, *arrays: Any) -> None:
        names.append(kernel.name)
        real(xp, kernel, *arrays)

    real = moves.launch
    monkeypatch.setattr(moves, "launch", launch)
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


def test_plain_copies(launched: list[str]) -> None:
    """Of few elements, between dtypes, along the same axis, without a compiler, of parts of elements."""
    x = np.arange(64.0 * 80).reshape(64, 80)
    records = np.zeros((80, 64), [("flag", "i1"), ("x", "f8")])
    records["x"] = x.T
    cases = [
        (x[:9, :9].T, "f8"),
        (x.T, "f4"),
        (x[:, ::-1], "f8"),
        (x[::2], "f8"),
        (records["x"], "f8"),
    ]
    for source, dtype in cases:
        target = np.zeros(source.shape, dtype)
        move(COMPILING.xp, on_device(target), on_device(source))
        np.testing.assert_array_equal(target, source)
    assert not launched

"""Threefry-2x32 against the known answers of Random123, and the numbers made from it."""

from __future__ import annotations

import numpy as np
import pytest

from einloom.backend.cpu.threefry import normal, threefry2x32, uniform

KNOWN = (  # key, counter, answer: kat_vectors of Random123, 20 rounds
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
)


@pytest.mark.parametrize(("key", "counter", "answer"), KNOWN)
def test_known_answers(
    key: tuple[int, int], counter: tuple[int, int], answer: tuple[int, int]
) -> None:
    words = [np.full(3, word, np.uint32) for word in counter]
    for got, wanted in zip(threefry2x32(key, *words), answer, strict=True):
        assert got.tolist() == [wanted] * 3


def test_a_number_depends_on_its_place_alone() -> None:
    assert (uniform(5, 0, 10) == uniform(5, 0, 1000)[:10]).all()
    assert not (uniform(5, 0, 100) == uniform(5, 1, 100)).any()
    assert not (uniform(5, 0, 100) == uniform(5 + (1 << 32), 0, 100)).any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_moments(dtype: str) -> None:
    x = normal(3, (200, 500), np.dtype(dtype))
    assert x.dtype == dtype
    assert abs(x.mean()) < 0.02
    assert abs((abs(x) ** 2).mean() - 1) < 0.02
    if x.dtype.kind == "c":
        assert abs((x**2).mean()) < 0.02
    else:
        assert abs((x**4).mean() - 3) < 0.1

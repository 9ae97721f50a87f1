"""Distributions: fixed keys, and bounds that one good generator in a thousand or fewer would miss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import chdtri, ndtr

from einloom import random

N = 1 << 18
FLOATS = ("float16", "bfloat16", "float32", "float64")
RARE = 1e-4


def kolmogorov(chances: np.ndarray) -> float:
    """sqrt(n) times the largest distance from the uniform distribution; above 2.3 once in 2e4 times."""
    x, n = np.sort(chances), len(chances)
    steps = np.arange(n + 1) / n
    return float(np.sqrt(n) * max((steps[1:] - x).max(), (x - steps[:-1]).max()))


def chi_square(counts: np.ndarray) -> bool:
    """Whether equally likely cells have such counts."""
    mean = counts.sum() / counts.size
    return float(((counts - mean) ** 2).sum() / mean) < chdtri(counts.size - 1, RARE)


def numbers(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_numbers_fill_the_interval_evenly(dtype: str) -> None:
    x = numbers(random.uniform(random.key(1), N, dtype))
    assert x.min() >= 0
    assert x.max() < 1
    assert chi_square(np.bincount((x * 256).astype(int), minlength=256))
    if dtype in ("float32", "float64"):
        assert kolmogorov(x) < 2.3
    assert abs(x.mean() - 0.5) < 4 * np.sqrt(1 / 12 / N) + 2.0**-9 * (dtype == "bfloat16")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_bit_is_even(dtype: str) -> None:
    bits = 24 if dtype == "float32" else 53
    whole = np.ldexp(numbers(random.uniform(random.key(2), N, dtype)), bits).astype(np.int64)
    for place in range(bits):
        assert abs(np.count_nonzero(whole >> place & 1) - N / 2) < 4.5 * np.sqrt(N / 4), place


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers(dtype: str) -> None:
    x = numbers(random.normal(random.key(3), N, dtype))
    assert kolmogorov(ndtr(x)) < 2.3
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs((x**power).mean() - moment) < 4 * np.sqrt(variance / N), power
    pairs = x.reshape(-1, 2)
    for left, right in ((pairs, pairs), (pairs**2, pairs**2)):
        assert abs(np.corrcoef(left[:, 0], right[:, 1])[0, 1]) < 4.5 / np.sqrt(N / 2)
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 4.5 / np.sqrt(N)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tails(dtype: str) -> None:
    x = numbers(random.normal(random.key(4), 1 << 21, dtype))
    for bound in (2.0, 3.0, 4.0, 4.5):
        for side in (x, -x):
            expected = x.size * ndtr(-bound)
            assert abs(np.count_nonzero(side > bound) - expected) < 4.5 * np.sqrt(expected), bound


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(dtype: str) -> None:
    z = random.normal(random.key(5), N, dtype).astype(complex)
    assert abs((abs(z) ** 2).mean() - 1) < 4 / np.sqrt(N)
    assert abs(z.mean()) < 4 / np.sqrt(N)
    assert abs((z**2).mean()) < 6 / np.sqrt(N)
    w = random.uniform(random.key(5), N, dtype).astype(complex)
    for part in (w.real, w.imag):
        assert kolmogorov(part) < 2.3
    assert abs(np.corrcoef(w.real, w.imag)[0, 1]) < 4.5 / np.sqrt(N)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_normal_numbers_in_half_precision(dtype: str) -> None:
    x = random.normal(random.key(6), N, dtype)
    wanted = random.normal(random.key(6), N, "float32").astype(x.dtype)
    assert (x == wanted).all()


@pytest.mark.parametrize("span", [2, 6, 10, 255, 1000])
def test_integers_are_even(span: int) -> None:
    x = random.integers(random.key(7), -3, span - 3, N, "int16")
    assert chi_square(np.bincount(x.astype(int) + 3, minlength=span))


@pytest.mark.parametrize("span", [3 << 62, (1 << 63) + 1, 1 << 64])
def test_integers_of_long_ranges_are_even(span: int) -> None:
    """Taken modulo span, or by a product without refusals, thirds would differ by a factor of up to 2."""
    x = random.integers(random.key(8), 0, span, N, "uint64")
    cells = [int(span) * k // 12 for k in range(1, 12)]
    assert chi_square(np.bincount(np.searchsorted(np.array(cells, np.uint64), x), minlength=12))
    assert chi_square(np.bincount((x % np.uint64(16)).astype(int), minlength=16))


def test_keys_of_a_key_have_streams_apart() -> None:
    parent = random.key(9)
    keys = [parent, *random.split(parent, 20), *random.fold_in(parent, np.arange(20))]
    assert len({tuple(key) for key in keys}) == 41
    x = np.stack([random.normal(key, 1 << 13) for key in keys])
    correlation = np.corrcoef(x) - np.eye(len(keys))
    assert abs(correlation).max() < 5 / np.sqrt(1 << 13)  # the largest of 820
    seen = np.unique(np.stack([random.bits(key, 1 << 11, "uint64") for key in keys]))
    assert seen.size == 41 << 11


def test_seeds_next_to_each_other_have_streams_apart() -> None:
    x = np.stack([random.uniform(random.key(seed), 1 << 13) for seed in (*range(30), 1 << 32)])
    assert abs(np.corrcoef(x) - np.eye(31)).max() < 5 / np.sqrt(1 << 13)
    first = np.array([random.uniform(key) for key in random.split(random.key(10), 2000)])
    assert kolmogorov(first) < 2.3


def test_every_order_is_as_likely() -> None:
    keys = random.fold_in(random.key(11), np.arange(3000))
    found: dict[Any, int] = {}
    for key in keys:
        order = tuple(random.permutation(key, 4).tolist())
        found[order] = found.get(order, 0) + 1
    assert len(found) == 24
    assert chi_square(np.array(list(found.values())))

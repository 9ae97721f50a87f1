"""BLAS's own call for batches: the bits of one thread, and never where it is not to be called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from einloom import options
from einloom.backend import processor
from einloom.backend.cpu import blas_batch
from einloom.backend.cpu.blas import ONE_BLAS_THREAD
from einloom.backend.cpu.blas_batch import TOO_SMALL, multiply_batch


def batch(rng: np.random.Generator, count: int, m: int, n: int, dtype: str, turned: bool) -> Any:
    x = rng.standard_normal((count, n, m) if turned else (count, m, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(x.shape)
    x = x.astype(dtype)
    return x.swapaxes(1, 2) if turned else x


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What is known of BLAS is asked anew, before and after."""
    blas_batch._found.cache_clear()
    yield
    blas_batch._found.cache_clear()


@pytest.fixture
def has_call() -> None:
    """BLAS has such a call, and threads."""
    ask = processor.of_blas("get_num_threads")
    if blas_batch._found("d") is None or ask() < 2:
        pytest.skip("NumPy's BLAS has no such call, or one thread")


@pytest.mark.usefixtures("has_call")
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    ("count", "m", "n", "k"),
    [
        (1, 101, 101, 101),
        (5, 128, 128, 128),
        (7, 300, 17, 230),
        (3, 2, 1000, 600),
        (9, 111, 250, 37),
    ],
)
def test_bits_of_one_thread(
    count: int, m: int, n: int, k: int, turned: Any, dtype: str, rng: np.random.Generator
) -> None:
    left = batch(rng, count, m, k, dtype, turned[0])
    right = batch(rng, count, k, n, dtype, turned[1])
    product = np.full((count, m, n), np.nan, dtype)
    with options(threads=64):
        assert multiply_batch(left, right, product)
    with ONE_BLAS_THREAD:
        expected = np.matmul(left, right)
    assert product.tobytes() == expected.tobytes()


@pytest.mark.usefixtures("has_call")
def test_batches_of_which_one_is_the_same_for_all(rng: np.random.Generator) -> None:
    one, right = batch(rng, 1, 120, 110, "f8", False), batch(rng, 4, 110, 130, "f8", False)
    for left in (one, np.broadcast_to(one, (4, 120, 110))):
        product = np.empty((4, 120, 130))
        with options(threads=64):
            assert multiply_batch(left, right, product)
        np.testing.assert_allclose(product, one @ right)


@pytest.mark.usefixtures("forgetful")
def test_what_it_is_not_for(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_done(m: int, n: int, k: int, threads: int = 64) -> bool:
        left, right = np.ones((3, m, k)), np.ones((3, k, n))
        product = np.zeros((3, m, n))
        with options(threads=threads):
            done = multiply_batch(left, right, product)
        assert done or not product.any()
        return done

    assert not is_done(100, 100, 100)  # TOO_SMALL and fewer: one version jumps to no address
    assert TOO_SMALL == 100**3
    assert not is_done(1, 2000, 2000)
    assert not is_done(2000, 1, 2000)
    assert not is_done(128, 128, 128, threads=1)
    x = rng.standard_normal((3, 110, 110))
    with options(threads=64):
        assert not multiply_batch(x, x.swapaxes(1, 2), np.empty_like(x))
    for version in ((), (0, 3, 30)):
        monkeypatch.setattr(blas_batch, "openblas_version", lambda version=version: version)
        blas_batch._found.cache_clear()
        assert not is_done(128, 128, 128)
    monkeypatch.undo()
    monkeypatch.setattr(blas_batch, "cblas", lambda name: None)
    blas_batch._found.cache_clear()
    assert not is_done(128, 128, 128)

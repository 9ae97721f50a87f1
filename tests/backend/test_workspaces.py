"""Memory in which kernels pack: nobody shares it, it is kept for the next call, and bounded."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import einloom
from einloom._base.options import options
from einloom.backend.cpu import cpu
from einloom.backend.cpu.address import address
from einloom.backend.cpu.workspaces import LARGEST, LINE, WORKSPACES, Workspaces


def test_one_is_lent_to_one_at_a_time() -> None:
    spaces = Workspaces()
    first, second = spaces.take(100), spaces.take(100)
    assert not np.shares_memory(first, second)
    spaces.give(first)
    assert spaces.take(100) is first


def test_sizes() -> None:
    spaces = Workspaces()
    for nbytes in (1, 1000, 100, LARGEST):
        memory = spaces.take(nbytes)
        assert memory.size >= nbytes
        assert address(memory) % LINE == 0
        spaces.give(memory)
    assert spaces.info().currsize == LARGEST
    spaces.give(spaces.take(LARGEST + 1))
    assert spaces.info().currsize == 0  # too large to be kept


def test_few_are_kept() -> None:
    spaces = Workspaces(most=2)
    for memory in [spaces.take(1) for _ in range(5)]:
        spaces.give(memory)
    info = spaces.info()
    assert info.currsize == 2
    assert info.maxsize == 2 * LARGEST
    assert spaces.clear() == 2
    assert spaces.clear() == 0


def test_threads() -> None:
    """What is written stays as long as the workspace is held."""
    spaces = Workspaces()

    def work(number: int) -> bool:
        right = True
        for _ in range(300):
            memory = spaces.take(64)
            memory[:64] = number
            right &= bool((memory[:64] == number).all())
            spaces.give(memory)
        return right

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))


def test_products_in_strips_use_them(rng: np.random.Generator) -> None:
    """The second call allocates its result, and little more."""
    x, y, out = rng.random((40, 300)), rng.random((300, 200)), np.empty((40, 200))
    with options(engine="strips", threads=1):
        product = einloom.compile("ij,jk->ik", x, y)
        product(x, y, out=out)
        assert "strips" in str(product.explain(x, y))
        assert WORKSPACES.info().currsize > 0
        tracemalloc.start()
        try:
            product(x, y, out=out)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 20_000
    np.testing.assert_allclose(out, x @ y)
    assert cpu().reclaim() > 0
    assert WORKSPACES.info().currsize == 0

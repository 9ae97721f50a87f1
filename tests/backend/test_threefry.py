"""Threefry-2x32 against the known answers of Random123."""

from __future__ import annotations

import numpy as np
import pytest

from einloom._base.options import options
from einloom.backend.cpu import cpu, threefry
from einloom.backend.cpu.threefry import enciphered

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
    for got, wanted in zip(enciphered(*np.array(key, np.uint32), *words), answer, strict=True):
        assert got.tolist() == [wanted] * 3


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("one_key", [False, True])
@pytest.mark.parametrize("pairs", [0, 3, 8, 40, 100, 1000])
def test_results_anywhere(
    pairs: int, one_key: bool, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a result begins in a line of the caches; nothing beside it is written."""
    if streams:
        monkeypatch.setattr(threefry, "STREAM", 0)
    counters = np.arange(2 * pairs, dtype=np.uint32).reshape(-1, 2)
    keys = np.broadcast_to(np.array([5, 6], np.uint32), counters.shape)
    if not one_key:
        keys = keys + counters[::-1]
    words = np.stack(enciphered(*keys.T, *counters.T), -1)
    for behind in range(9):
        memory = np.full((pairs + 20, 2), 7, np.uint32)
        out = memory[behind : behind + pairs]
        with options(small=0, threads=2):
            cpu().apply("threefry2x32", {}, keys, counters, out=out)
        np.testing.assert_array_equal(out, words)
        assert (memory[:behind] == 7).all()
        assert (memory[behind + pairs :] == 7).all()

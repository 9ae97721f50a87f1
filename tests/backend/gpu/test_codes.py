"""Codes of a batch: whether any is set, which a kernel finds, and members overwritten."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.launches import launches
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.backend.stand_in import DeviceArray, StandIn, Stream

from einloom.backend.gpu import codes
from einloom.backend.gpu.cuda.codes import any_set, overwritten

DTYPES = ("float32", "float64", "complex64", "complex128", "int32", "int64")
KERNELS = [any_set(1000), overwritten(1000, 5, (-1,))]


def up(x: Any) -> Any:
    return x.view(DeviceArray)


def info(count: int, *bad: int) -> np.ndarray[Any, Any]:
    made = np.zeros(count, np.int32)
    made[list(bad)] = -1
    return made


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the arrays that came to the host."""
    found: list[int] = []
    real = DeviceArray.get

    def get(self: DeviceArray, *args: Any, **keywords: Any) -> Any:
        found.append(self.size)
        return real(self, *args, **keywords)

    monkeypatch.setattr(DeviceArray, "get", get)
    return found


@needs_compiler
def test_kernels(tmp_path: Path) -> None:
    run = Emulator(KERNELS, tmp_path)
    for count in (1, 31, 1000):
        for bad in ((), (0,), (count - 1,), tuple(range(count))):
            said = info(count, *bad)
            told, beside = guarded((1,), np.int32)
            told[...] = 0
            run(any_set(count), told, said)
            assert told[0] == bool(bad)
            assert untouched(beside)
            for words in (1, 5, 3000):
                out, memory = guarded((count, words), np.int32)
                want = np.zeros_like(out)
                out[...] = 0
                want[list(bad)] = np.resize([7, 8], words)
                run(overwritten(count, words, (7, 8)), out, said)
                assert np.array_equal(out, want)
                assert untouched(memory)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compile(architecture: str) -> None:
    compile_all(KERNELS, architecture)


@needs_compiler
def test_any_set(downloads: list[int]) -> None:
    xp = StandIn(compiles=True)
    for shape in ((), (0,), (7,), (3, 5000)):
        said = info(int(np.prod(shape, dtype=int))).reshape(shape)
        for _ in range(2):
            assert codes.any_set(xp, up(said)) is False
            if said.size:
                said[...].flat[-1] = 3
                assert codes.any_set(xp, up(said)) is True
                said[...].flat[-1] = 0
    assert downloads == []
    (word,) = codes._IDLE[xp]  # one was enough, and it was cleared
    assert word.here[0] == 0
    assert (
        codes.any_set(xp, up(info(10, 4)[::2])) is True
    )  # the kernel reads codes one behind the other
    assert downloads == [5]


@needs_compiler
def test_any_set_waits_once() -> None:
    xp, before = StandIn(compiles=True), Stream.current.waited
    with launches() as names:
        assert not codes.any_set(xp, up(info(100)))
    assert names == ["any_set"]
    assert Stream.current.waited == before + 1


def test_without_a_compiler(downloads: list[int]) -> None:
    xp = StandIn()
    assert codes.any_set(xp, up(info(100))) is False
    assert codes.any_set(xp, up(info(100, 7))) is True
    assert downloads == [100, 100]
    assert codes.any_set(xp, up(info(codes.FEW + 1, 7))) is True
    assert len(downloads) == 2


@needs_compiler
def test_threads_have_words_of_their_own() -> None:
    xp = StandIn(compiles=True)
    codes.any_set(xp, up(info(5)))  # compiled before

    def ask(k: int) -> bool:
        return codes.any_set(xp, up(info(1000, *([k] if k % 3 == 0 else []))))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(300))) == [k % 3 == 0 for k in range(300)]
    words = codes._IDLE[xp]
    assert len({id(word.here) for word in words}) == len(words) <= 8
    assert not any(word.here[0] for word in words)


@needs_compiler
def test_a_word_whose_call_failed_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    xp = StandIn(compiles=True)
    codes.any_set(xp, up(info(5)))

    def fail(*arguments: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(codes, "launch", fail)
        with pytest.raises(MemoryError):
            codes.any_set(xp, up(info(5)))
    assert codes._IDLE[xp] == []
    assert codes.any_set(xp, up(info(5, 1))) is True


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "apart": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}


@needs_compiler
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_filled(dtype: str, layout: str) -> None:
    """As without kernels; in place where members lie one behind the other."""
    xp, rng = StandIn(compiles=True), np.random.default_rng(2)
    for batch, bad in (((40,), (0, 33)), ((), (0,)), ((2, 3), ()), ((0,), ())):
        said = info(int(np.prod(batch, dtype=int)), *bad).reshape(batch)
        for shape in ((3, 4), (4, 0)):
            x = LAYOUTS[layout](rng.integers(-9, 9, (*batch, *shape)).astype(dtype))
            (want,) = codes.filled(StandIn(), (up(x.copy(order="K")),), up(said))
            with launches() as names:
                (found,) = codes.filled(xp, (up(x),), up(said))
            lies_so = layout != "apart" or not x.size
            assert names == (["overwritten"] if lies_so and x.size else [])
            assert (found.dtype, found.shape) == (want.dtype, want.shape)
            assert found.tobytes() == want.tobytes()
    values = up(np.ones((5, 3), "float32"))
    (found,) = codes.filled(xp, (values,), up(info(5, 2)))
    assert np.isnan(found.view(np.ndarray)).any(axis=1).tolist() == [False, False, True] + 2 * [
        False
    ]

"""Compiled functions that are called at their address: types by annotations, errors, memory, the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import MutableSequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from einloom._base.options import options
from einloom.backend.cpu.apart import apart, is_apart, signature_of, type_of
from einloom.backend.cpu.jit import twin

Integers = MutableSequence[int]
Floats = MutableSequence[float]


class Pair(NamedTuple):
    """Two arrays."""

    left: Integers
    right: Integers


class Mixed(NamedTuple):
    """An array and a number."""

    values: Floats
    count: int


@apart
def pair_of(n: int) -> Pair:
    """New memory, which belongs to the caller."""
    return Pair(_new(n), _new(2 * n))


@apart
def _new(n: int) -> Integers:
    return [1] * n


def _new_compiled(n: int) -> Any:
    return np.ones(n, np.int64)


_new.compiled = _new_compiled  # type: ignore[attr-defined]


@apart
def total(pair: Pair, start: float) -> float:
    """start and all of both."""
    for x in pair.left:
        start += x
    for x in pair.right:
        start += x
    return start


@apart
def checked(n: int) -> int:
    """n, if it is not negative."""
    if n < 0:
        raise ValueError("negative")
    return n


@apart
def halve(values: Floats) -> None:
    """In place."""
    for k in range(len(values)):
        values[k] /= 2


def work(n: int, out: Floats) -> float:
    """3 n, after out is halved."""
    halve(out)
    return total(pair_of(checked(n)), 0)  # a constant integer where a float is asked for


def test_plain_and_compiled_agree(tmp_path: Path) -> None:
    compiled = twin(work)
    with options(cache_dir=str(tmp_path)):
        for n in (0, 1, 100):
            plain, made = [2.0, 4.0], np.array([2.0, 4.0])
            assert compiled(n, made) == work(n, plain) == 3 * n
            assert made.tolist() == plain == [1.0, 2.0]


def test_errors_come_through(tmp_path: Path) -> None:
    with options(cache_dir=str(tmp_path)), pytest.raises(ValueError, match="negative"):
        twin(work)(-1, np.zeros(1))


def test_memory_is_given_back(tmp_path: Path) -> None:
    from numba.core.runtime import _nrt_python, rtsys

    compiled = twin(work)
    with options(cache_dir=str(tmp_path)):
        compiled(10, np.zeros(1))
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        for n in range(50):
            compiled(n, np.zeros(1))
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc >= 100
    assert after.alloc - before.alloc == after.free - before.free


def test_annotations_are_types() -> None:
    from numba import types

    integers, floats = types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")
    assert signature_of(total) == (
        (types.NamedUniTuple(integers, 2, Pair), types.float64),
        types.float64,
    )
    assert signature_of(halve) == ((floats,), types.none)
    assert type_of(Mixed) == types.NamedTuple((floats, types.int64), Mixed)
    heap = type_of(list[tuple[float, int, bool]])
    assert heap == types.List(types.Tuple((types.float64, types.int64, types.boolean)))
    assert is_apart(total)
    assert not is_apart(work)


MODULE = """
from __future__ import annotations
from einloom.backend.cpu.apart import apart
from einloom.backend.cpu.jit import twin, _twin

@apart
def twice(n: int) -> int:
    return 2 * n

def work(n: int) -> int:
    return twice(n) + twice(n + 1)

if __name__ == "__main__":
    import inner
    assert twin(inner.work)(3) == 14
    for function in (inner.twice, inner.work):
        stats = _twin(function).stats
        print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def test_other_processes_load_both_and_compile_what_is_missing(tmp_path: Path) -> None:
    module = tmp_path / "inner.py"
    module.write_text(MODULE)
    environment = {**os.environ, "EINLOOM_CACHE_DIR": str(tmp_path / "cache")}

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, str(module)],
            env=environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.splitlines()

    assert run() == ["0 1", "0 1"]
    assert run() == ["1 0", "1 0"]
    for file in (tmp_path / "cache" / "kernels").glob("*twice*"):
        file.unlink()
    assert run() == ["0 1", "1 0"]  # another address, the same symbol


def fall(n: int) -> int:
    return 0 if n < 1 else fall(n - 1)


def test_no_twin_calls_itself(tmp_path: Path) -> None:
    """Previously failed: it ended the process where its code was kept."""
    with options(cache_dir=str(tmp_path)), pytest.raises(TypeError, match="fall calls itself"):
        twin(fall)(3)

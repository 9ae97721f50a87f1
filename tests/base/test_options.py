"""Options: from the environment, for a block, for the process; bad values are refused."""

from __future__ import annotations

import math
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from einloom._base import options as module
from einloom._base.errors import OptionError
from einloom._base.options import (
    Options,
    cache_dir,
    check_memory_limit,
    get_options,
    num_threads,
    options,
    set_num_threads,
    set_options,
)

NAMES = [field.name for field in fields(Options)]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has read no option yet and whose environment has none."""
    for name in NAMES:
        monkeypatch.delenv(f"EINLOOM_{name.upper()}", raising=False)
    monkeypatch.setattr(module, "_PROCESS", [])


GOOD: list[tuple[str, Any]] = [
    ("threads", None),
    ("threads", 1),
    ("threads", 4096),
    ("memory_limit", None),
    ("memory_limit", 1),
    ("memory_limit", 10**400),
    ("memory_limit", 0.5),
    ("memory_limit", 2e9),
    ("memory_limit", "4GiB"),
    ("memory_limit", "1e9"),
    ("budget", None),
    ("budget", 10**30),
    ("cache_dir", None),
    ("cache_dir", "kernels"),
    ("cache_dir", Path("kernels")),
    ("plan_cache", "memory"),
    ("plan_cache", "disk"),
    ("plan_cache", "off"),
    ("progress", True),
    ("progress", False),
    ("progress", "auto"),
    ("small", 0),
    ("patience", 0),
    ("patience", math.inf),
    ("small", 10**400),
    ("small", 0.5),
    ("small", math.inf),
    ("engine", None),
    ("provider", "blas"),
    ("provider", "native"),
    ("precision", "full"),
    ("precision", "ieee"),
    ("precision", "tf32"),
    ("precision", "bfloat16"),
    ("graphs", False),
    ("bare", False),
    ("engine", "gemm"),
    ("engine", "batched gemm"),
]

BAD: list[tuple[str, Any]] = [
    ("threads", 0),
    ("threads", -1),
    ("threads", 2.0),
    ("threads", True),
    ("threads", "2"),
    ("memory_limit", 0),
    ("memory_limit", -1),
    ("memory_limit", 0.0),
    ("memory_limit", 1.5),
    ("memory_limit", math.nan),
    ("memory_limit", math.inf),
    ("memory_limit", True),
    ("memory_limit", "0"),
    ("memory_limit", "much"),
    ("memory_limit", ""),
    ("memory_limit", "-4GiB"),
    ("memory_limit", [1]),
    ("memory_limit", 1j),
    ("budget", 0),
    ("budget", 1.5),
    ("cache_dir", 5),
    ("cache_dir", ""),
    ("plan_cache", "tape"),
    ("plan_cache", ""),
    ("plan_cache", None),
    ("plan_cache", True),
    ("plan_cache", ["disk"]),
    ("progress", "yes"),
    ("progress", None),
    ("small", -1),
    ("patience", -0.5),
    ("patience", math.nan),
    ("patience", "1"),
    ("small", math.nan),
    ("small", "0"),
    ("small", None),
    ("engine", "zeros"),
    ("engine", ""),
    ("engine", 1),
    ("engine", ["gemm"]),
    ("provider", ""),
    ("provider", None),
    ("provider", "BLAS"),
    ("precision", "TF32"),
    ("precision", None),
    ("graphs", "always"),
    ("graphs", None),
    ("bare", 1),
]

ENVIRONMENT: list[tuple[str, str, Any]] = [
    ("threads", "3", 3),
    ("memory_limit", "4GiB", "4GiB"),
    ("memory_limit", "1e9", 10**9),
    ("memory_limit", "0.25", 0.25),
    ("budget", "128", 128),
    ("cache_dir", "somewhere", "somewhere"),
    ("plan_cache", "disk", "disk"),
    ("progress", "1", True),
    ("progress", "0", False),
    ("progress", "True", True),
    ("progress", "false", False),
    ("progress", "auto", "auto"),
    ("small", "0", 0),
    ("patience", "0.25", 0.25),
    ("small", "inf", math.inf),
    ("small", "1e4", 10**4),
    ("engine", "sum product", "sum product"),
    ("provider", "native", "native"),
    ("precision", "tf32", "tf32"),
    ("graphs", "0", False),
    ("bare", "0", False),
]

BAD_ENVIRONMENT: list[tuple[str, str]] = [
    ("threads", "0"),
    ("threads", "two"),
    ("threads", "1.5"),
    ("memory_limit", "inf"),
    ("memory_limit", "nan"),
    ("memory_limit", "-1"),
    ("memory_limit", "lots"),
    ("budget", "1e3"),
    ("plan_cache", "1"),
    ("progress", "perhaps"),
    ("small", "nan"),
    ("patience", "long"),
    ("small", "-1"),
    ("small", "none"),
]


def title(value: Any) -> str:
    return repr(value)[:20]


def test_every_option_is_tried() -> None:
    for table in (GOOD, BAD, ENVIRONMENT):
        assert {name for name, *_ in table} == set(NAMES)


@pytest.mark.parametrize(("name", "value"), GOOD, ids=title)
def test_good_value(name: str, value: Any) -> None:
    before = get_options()
    with options(**{name: value}) as inside:
        assert get_options() is inside
        assert getattr(inside, name) == value
        assert replace(inside, **{name: getattr(before, name)}) == before
    assert get_options() == before


@pytest.mark.parametrize(("name", "value"), BAD, ids=title)
def test_bad_value(name: str, value: Any) -> None:
    """Refused with the option's name and value, by a block and for the process; nothing changes."""
    before = get_options()
    with pytest.raises(OptionError, match=name) as caught, options(**{name: value}):
        pytest.fail("the block ran")
    assert repr(value) in str(caught.value)
    with pytest.raises(OptionError, match=name):
        set_options(**{name: value})
    assert get_options() == before


def test_unknown_option() -> None:
    with pytest.raises(OptionError, match="no such option; there are threads, memory_limit"):
        set_options(thread=2)
    with pytest.raises(OptionError, match="thread="), options(thread=2):
        pytest.fail("the block ran")


def test_frozen() -> None:
    with pytest.raises(AttributeError):
        get_options().threads = 3  # type: ignore[misc]


@pytest.mark.parametrize(("name", "text", "value"), ENVIRONMENT)
def test_environment(monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: Any) -> None:
    monkeypatch.setenv(f"EINLOOM_{name.upper()}", text)
    assert get_options() == Options(**{name: value})
    monkeypatch.setenv(f"EINLOOM_{name.upper()}", "read only once")
    assert get_options() == Options(**{name: value})


@pytest.mark.parametrize(("name", "text"), BAD_ENVIRONMENT)
def test_bad_environment(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(f"EINLOOM_{name.upper()}", text)
    for _ in range(2):  # and it stays refused
        with pytest.raises(OptionError, match=f"EINLOOM_{name.upper()}='{text}'"):
            get_options()


def test_empty_environment_variable_means_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(f"EINLOOM_{name.upper()}", "")
    assert get_options() == Options()


def test_blocks_nest_and_win_over_the_process() -> None:
    set_options(threads=3)
    with options(threads=5, small=0):
        with options(threads=7) as inner:
            assert (inner.threads, inner.small) == (7, 0)
        set_options(threads=9)
        assert get_options().threads == 5
    assert get_options().threads == 9


def test_block_ends_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), options(threads=5):
        raise ZeroDivisionError
    assert get_options().threads is None


def test_set_options_returns_the_new_value() -> None:
    assert set_options(budget=7, progress=False) == Options(budget=7, progress=False)
    assert set_options(progress=True) == Options(budget=7, progress=True)


def test_blocks_are_per_thread() -> None:
    """Eight threads, each with its own block, at once."""
    together = threading.Barrier(8)

    def work(n: int) -> tuple[int | None, int | None]:
        with options(threads=n + 1):
            together.wait()
            inside = get_options().threads
            together.wait()
        return inside, get_options().threads

    set_options(threads=100)
    with options(threads=200), ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [(n + 1, 100) for n in range(8)]
        assert get_options().threads == 200


def test_num_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    set_num_threads(3)
    assert num_threads() == 3
    with options(threads=5):
        assert num_threads() == 5
    set_num_threads(None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 4}, raising=False)
    assert num_threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert num_threads() == 1
    with pytest.raises(OptionError, match="threads=0"):
        set_num_threads(0)


def test_cache_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "einloom"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_dir() == tmp_path / "home" / ".cache" / "einloom"
    with options(cache_dir=str(tmp_path / "own")):
        assert cache_dir() == tmp_path / "own"


def test_memory_limit_names_the_call_and_the_remedy() -> None:
    check_memory_limit("500 MB", "plan")
    with pytest.raises(OptionError, match=r"plan\(memory_limit='5 apples'\).*\"4GiB\""):
        check_memory_limit("5 apples", "plan")

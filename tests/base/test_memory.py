"""Memory that may still be taken: the smallest of what host and containers leave."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from einloom._base import memory
from einloom._base.memory import available_bytes

GIB = 1 << 30


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with 100 GiB available, and no container around us."""
    monkeypatch.setattr(memory, "_CGROUPS", ())
    fake_meminfo(monkeypatch, f"MemTotal: 1 kB\nMemAvailable:   {100 * GIB // 1024} kB\n")


def fake_meminfo(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    def opened(path: str, **kwargs: Any) -> io.StringIO:
        assert path == "/proc/meminfo"
        if text is None:
            raise FileNotFoundError(path)
        return io.StringIO(text)

    monkeypatch.setattr(memory, "open", opened, raising=False)


def cgroup(folder: Path, limit: str | None, used: str | None, stat: str | None) -> Any:
    """Files of a control group: (limit, used), with memory.stat beside the limit."""
    folder.mkdir()
    for name, text in (("limit", limit), ("used", used), ("memory.stat", stat)):
        if text is not None:
            (folder / name).write_text(text)
    return folder / "limit", folder / "used"


@pytest.mark.usefixtures("host")
def test_host_alone() -> None:
    assert available_bytes() == 100 * GIB


STAT = f"active_file 5\ninactive_file {GIB}\n"


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize(
    ("limit", "used", "stat", "room"),
    [
        (f"{8 * GIB}\n", f"{3 * GIB}\n", "", 5 * GIB),
        (f"{8 * GIB}\n", f"{3 * GIB}\n", STAT, 6 * GIB),
        (f"{8 * GIB}\n", f"{3 * GIB}\n", STAT.replace("inactive", "total_inactive"), 6 * GIB),
        (f"{8 * GIB}\n", f"{3 * GIB}\n", None, 5 * GIB),  # no memory.stat: the limit holds
        (f"{8 * GIB}\n", f"{3 * GIB}\n", "inactive_file many\n", 5 * GIB),
        (f"{2 * GIB}\n", f"{3 * GIB}\n", "", 0),
        (f"{200 * GIB}\n", "0\n", "", 100 * GIB),  # the host has less
        ("max\n", "0\n", "", 100 * GIB),
        (str((1 << 63) - 4096), "0", "", 100 * GIB),  # how version 1 says "no limit"
        ("garbage", "0", "", 100 * GIB),
        (f"{8 * GIB}", "garbage", "", 100 * GIB),
        (f"{8 * GIB}", None, "", 100 * GIB),
        (None, None, None, 100 * GIB),
    ],
)
def test_container(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    limit: str | None,
    used: str | None,
    stat: str | None,
    room: int,
) -> None:
    monkeypatch.setattr(memory, "_CGROUPS", (cgroup(tmp_path / "own", limit, used, stat),))
    assert available_bytes() == room


@pytest.mark.usefixtures("host")
def test_smallest_of_several(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    groups = [
        cgroup(tmp_path / str(n), f"{n * GIB}", f"{GIB}", "inactive_file 0") for n in (9, 4, 7)
    ]
    monkeypatch.setattr(memory, "_CGROUPS", tuple(groups))
    assert available_bytes() == 3 * GIB


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("text", [None, "", "MemAvailable:\n", "MemAvailable: many kB\n"])
def test_without_meminfo_physical_memory_counts(
    monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    fake_meminfo(monkeypatch, text)
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__, raising=False)
    assert available_bytes() == 4096000


@pytest.mark.usefixtures("host")
def test_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_meminfo(monkeypatch, None)
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert available_bytes() is None


def test_here() -> None:
    """Unfaked: some memory is left, as the tests run."""
    room = available_bytes()
    assert room is None or room > 0

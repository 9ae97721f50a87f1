"""How much memory this process may still take, container limits included."""

from __future__ import annotations

import os
from pathlib import Path

_CGROUPS = (  # (limit, used) of cgroup v2 and v1, as a container sees its own
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def available_bytes() -> int | None:
    """Bytes that can be allocated without swapping, or None where the system does not tell."""
    bounds = [room for limit, used in _CGROUPS if (room := _cgroup_room(limit, used)) is not None]
    host = _host_room()
    if host is not None:
        bounds.append(host)
    return min(bounds, default=None)


def _host_room() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:  # not Linux: physical memory is the best bound to be had
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _cgroup_room(limit: Path, used: Path) -> int | None:
    try:
        cap, taken = limit.read_text().strip(), int(used.read_text())
        if cap == "max" or int(cap) >= 1 << 60:  # v1 says "no limit" by a huge number
            return None
        return max(0, int(cap) - taken + _reclaimable(limit.with_name("memory.stat")))
    except (OSError, ValueError):
        return None


def _reclaimable(stat: Path) -> int:
    """Page cache counts as used, but the kernel gives it back before it refuses memory."""
    try:
        for line in stat.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                return int(value)
    except (OSError, ValueError):  # the limit holds all the same
        pass
    return 0

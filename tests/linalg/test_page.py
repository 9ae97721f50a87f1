"""The figures of docs/small_systems.md are those that the benchmark kept."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import tables


def document() -> dict[str, Any] | None:
    if not tables.SOURCE.is_file():
        return None
    found: dict[str, Any] = json.loads(tables.SOURCE.read_text(encoding="utf-8"))
    return found


def test_the_tables_are_what_was_kept() -> None:
    for name, table in tables.TABLES.items():
        page = (tables.DOCS / name).read_text(encoding="utf-8")
        assert tables.written(page, document(), table) == page, "run python -m benchmarks.tables"


def test_tables() -> None:
    facts = {"set": "solve, n <= 16", "order": 3, "batch": 100, "dtype": "float64"}
    few = {**facts, "set": "solve, few"}
    kept = {
        "machine": {
            "processor": "CPU", "threads": 2, "date": "2000-01-01", "versions": {"numpy": "2.4.6"},
        },
        "results": [
            {"seconds": {"einloom": 1e-5, "numpy": 3e-5}, "ratio": 3.0, "facts": facts},
            {"seconds": {"einloom": 1.0}, "ratio": None, "facts": few},
        ],
    }  # fmt: skip
    lines = tables.by_order(kept).splitlines()
    assert [line for line in lines if "solve" in line] == ["| `solve` | 0.1, 3.0× |  |  |  |  |  |"]
    assert "CPU, 2 threads, numpy 2.4.6, 2000-01-01." in lines
    assert "| `solve` | 3.00 (3.00) |  |  |" in tables.by_band(kept).splitlines()

"""`python -m benchmarks.tables`: writes the tables of linear algebra in the docs from what `linalg` kept.

docs/small_systems.md has a row for each op and a column for each order: microseconds for one matrix, and how
many times as long the best peer takes. docs/performance.md has the means over bands of orders.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from typing import Any

from .harness import OURS
from .report import RESULTS
from .suites.linalg import BANDS, OPS

Document = dict[str, Any]

SOURCE = RESULTS / "linalg.json"
DOCS = RESULTS.parents[1] / "docs"
BEGIN = "<!-- from benchmarks/results/linalg.json: python -m benchmarks.tables -->\n"
END = "<!-- end -->\n"
SETS = tuple(f", {name}" for _, name in BANDS)
ORDERS = (3, 4, 8, 16, 32, 64)


def main() -> int:
    document = json.loads(SOURCE.read_text(encoding="utf-8"))
    for name, table in TABLES.items():
        page = DOCS / name
        page.write_text(written(page.read_text(encoding="utf-8"), document, table), "utf-8")
        print(f"written: docs/{name}")
    return 0


def written(page: str, document: Document | None, table: Callable[[Document], str]) -> str:
    """The page with the table of this document; with none, where nothing has been kept."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + (table(document) if document else "") + END + after


def by_order(document: Document) -> str:
    """Times of one matrix in double precision, in Markdown, with what they were measured on."""
    found = {}
    for result in document["results"]:
        facts = result["facts"]
        if facts["dtype"] == "float64" and facts["set"].endswith(SETS):
            found[facts["set"].partition(",")[0], facts["order"]] = result
    rows = {op: [_cell(found.get((op, n))) for n in ORDERS] for op in OPS}
    return _table([f"n = {n}" for n in ORDERS], rows) + _where(document)


def by_band(document: Document) -> str:
    """Geometric means over orders and dtypes of the best peer over einloom, and the least of them."""
    sets: dict[str, list[float]] = {}
    for result in document["results"]:
        if result.get("ratio"):
            sets.setdefault(result["facts"]["set"], []).append(result["ratio"])
    rows = {op: [_mean(sets.get(op + name)) for name in SETS] for op in OPS}
    return _table([name for _, name in BANDS], rows)


TABLES = {"small_systems.md": by_order, "performance.md": by_band}


# ---- helpers -------------------------------------------------------------------------------------


def _table(columns: list[str], rows: dict[str, list[str]]) -> str:
    lines = [f"| op | {' | '.join(columns)} |", f"|---{'|---' * len(columns)}|"]
    lines += [f"| `{op}` | {' | '.join(cells)} |" for op, cells in rows.items() if any(cells)]
    return "\n".join(["", *lines, "", ""])


def _where(document: Document) -> str:
    machine = document["machine"]
    versions = ", ".join(
        f"{name} {machine['versions'][name]}"
        for name in ("numpy", "scipy", "torch", "jax")
        if name in machine["versions"]
    )
    return (
        f"{machine['processor']}, {machine['threads']} threads, {versions}, {machine['date']}.\n\n"
    )


def _cell(result: dict[str, Any] | None) -> str:
    """As in 0.12, 3.4×: time of one matrix, and the best peer's over it."""
    if result is None or OURS not in result["seconds"]:
        return ""
    micro = result["seconds"][OURS] / result["facts"]["batch"] * 1e6
    ratio = result.get("ratio")
    return f"{micro:.3g}" if ratio is None else f"{micro:.3g}, {ratio:.1f}×"


def _mean(ratios: list[float] | None) -> str:
    """As in 3.41 (1.2): the mean, and the least."""
    if not ratios:
        return ""
    return f"{statistics.geometric_mean(ratios):.2f} ({min(ratios):.2f})"


if __name__ == "__main__":
    sys.exit(main())

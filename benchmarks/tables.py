"""`python -m benchmarks.tables`: writes the table of docs/small_systems.md from what `linalg` kept.

A row for each op, a column for each order: microseconds for one matrix, and how many times as long the best
peer takes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from .harness import OURS
from .report import RESULTS
from .suites.linalg import BANDS

SOURCE = RESULTS / "linalg.json"
PAGE = RESULTS.parents[1] / "docs" / "small_systems.md"
BEGIN = "<!-- from benchmarks/results/linalg.json: python -m benchmarks.tables -->\n"
END = "<!-- end -->\n"
OPS = ("solve", "inv", "det", "cholesky", "lu", "qr", "eigh", "svd", "eig", "expm")
SETS = tuple(f", {name}" for _, name in BANDS)
ORDERS = (3, 4, 8, 16, 32, 64)


def main() -> int:
    document = json.loads(SOURCE.read_text(encoding="utf-8"))
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), document), encoding="utf-8")
    print(f"written: {PAGE.relative_to(RESULTS.parents[1])}")
    return 0


def written(page: str, document: dict[str, Any] | None) -> str:
    """The page with the table of this document; with none, where nothing has been kept."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + (table(document) if document else "") + END + after


def table(document: dict[str, Any]) -> str:
    """The table in Markdown, with what it was measured on."""
    found = {}
    for result in document["results"]:
        facts = result["facts"]
        if facts["dtype"] == "float64" and facts["set"].endswith(SETS):
            found[facts["set"].partition(",")[0], facts["order"]] = result
    lines = [
        f"| op | {' | '.join(f'n = {n}' for n in ORDERS)} |",
        f"|---{'|---' * len(ORDERS)}|",
    ]
    for op in OPS:
        cells = [_cell(found.get((op, n))) for n in ORDERS]
        if any(cells):
            lines.append(f"| `{op}` | {' | '.join(cells)} |")
    machine = document["machine"]
    versions = ", ".join(
        f"{name} {machine['versions'][name]}"
        for name in ("numpy", "scipy", "torch", "jax")
        if name in machine["versions"]
    )
    where = f"{machine['processor']}, {machine['threads']} threads, {versions}, {machine['date']}."
    return "\n".join(["", *lines, "", where, "", ""])


def _cell(result: dict[str, Any] | None) -> str:
    """As in 0.12, 3.4×: time of one matrix, and the best peer's over it."""
    if result is None or OURS not in result["seconds"]:
        return ""
    micro = result["seconds"][OURS] / result["facts"]["batch"] * 1e6
    ratio = result.get("ratio")
    return f"{micro:.3g}" if ratio is None else f"{micro:.3g}, {ratio:.1f}×"


if __name__ == "__main__":
    sys.exit(main())

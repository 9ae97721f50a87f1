"""What the demo found: one row per contraction with its check, as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .._base.numbers import format_bytes, format_count, format_seconds

HEADER = (
    "contraction",
    "tensors",
    "labels",
    "flops",
    "largest",
    "peak",
    "plan",
    "run",
    "error",
    "check",
)


@dataclass(frozen=True, slots=True)
class DemoRow:
    """One contraction: the equation's size, the plan, the times, the result and its check.

    largest_intermediate is in elements, the times are in seconds; plan_seconds, the time to plan
    and compile, is None where the expression of an earlier row was used again. The check compares
    ``value`` with a result found in another way, and passes if error <= tolerance.
    """

    name: str
    check: str
    tensors: int
    labels: int
    flops: int
    largest_intermediate: int
    peak_bytes: int | None
    plan_seconds: float | None
    run_seconds: float
    value: complex
    error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether the check passed (not, if the error is NaN)."""
        return self.error <= self.tolerance


@dataclass(frozen=True, slots=True)
class DemoReport:
    """All rows of one run of the demo."""

    rows: tuple[DemoRow, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(row.ok for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """The report as values that ``json.dumps`` takes; a complex value is [real, imaginary]."""
        rows = [
            asdict(row) | {"value": [row.value.real, row.value.imag], "ok": row.ok}
            for row in self.rows
        ]
        return {"ok": self.ok, "rows": rows}

    def __str__(self) -> str:
        return "\n".join([*_table(self.rows), "", *_summary(self.rows)])


def _table(rows: tuple[DemoRow, ...]) -> list[str]:
    cells = [HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    lines = [
        f"{line[0]:<{widths[0]}} "
        + " ".join(f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
        for line in cells
    ]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def _cells(row: DemoRow) -> tuple[str, ...]:
    return (
        row.name,
        str(row.tensors),
        str(row.labels),
        format_count(row.flops, digits=2),
        format_count(row.largest_intermediate, digits=2),
        "unknown" if row.peak_bytes is None else format_bytes(row.peak_bytes),
        "reused" if row.plan_seconds is None else format_seconds(row.plan_seconds),
        format_seconds(row.run_seconds),
        f"{row.error:.1e}",
        "passed" if row.ok else "FAILED",
    )


def _summary(rows: tuple[DemoRow, ...]) -> list[str]:
    lines = ["largest intermediate in elements; plan: time to plan and compile; peak: predicted"]
    for check in dict.fromkeys(row.check for row in rows):
        results = [row.ok for row in rows if row.check == check]
        verdict = "passed" if all(results) else "FAILED"
        lines.append(f"{verdict}: {check} ({sum(results)} of {len(results)})")
    return lines

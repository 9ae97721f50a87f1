"""`python -m benchmarks.picture`: draws time over roofline of the einsum suite as docs/pictures/roofline.svg.

It reads what the suite kept in benchmarks/results/einsum.json: a row for each problem, a mark for each
contender, on a logarithmic axis. The mark of einloom is filled.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from html import escape
from typing import Any

from .harness import OURS
from .report import RESULTS

TARGET = RESULTS.parents[1] / "docs" / "pictures" / "roofline.svg"
COLOURS = {
    OURS: "#c0392b",
    "np.einsum": "#1f77b4",
    "opt_einsum+numpy": "#17a2a2",
    "opt_einsum+torch": "#7f5fbf",
    "cotengra+numpy": "#2e8b57",
    "cotengra+torch": "#8c6d31",
    "jax": "#e08a1e",
    "pytblis": "#666666",
}
LEFT, RIGHT, TOP, ROW, WIDTH = 345, 30, 66, 22, 920  # pixels
MOST = 1000.0  # times the roofline: marks beyond stand at the edge


def main() -> int:
    document = json.loads((RESULTS / "einsum.json").read_text(encoding="utf-8"))
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(picture(document), encoding="utf-8")
    print(f"drawn: {TARGET.relative_to(RESULTS.parents[1])}")
    return 0


def picture(document: dict[str, Any]) -> str:
    """The SVG of what the einsum suite kept."""
    rows = [result for result in document["results"] if result["roofline"]]
    bottom = TOP + ROW * len(rows)
    body = [*_axis(bottom, _decades(rows)), *_legend()]
    for index, row in enumerate(rows):
        body += _row(row, TOP + ROW * index + ROW // 2, _decades(rows))
    machine = document["machine"]
    mean = document["summary"]["time_over_roofline"]
    caption = (
        f"time / roofline by the same path, {machine['threads']} threads, {machine['processor']}, "
        f"{machine['date']}; geometric mean of einloom: {mean:.2f}"
    )
    body.append(_text(WIDTH - RIGHT, bottom + 38, caption, anchor="end", size=12))
    lines = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 52}" '
        f'viewBox="0 0 {WIDTH} {bottom + 52}" font-family="sans-serif">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{lines}\n</svg>\n'
    )


def _decades(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Logarithms of the ends of the axis."""
    values = [times for row in rows for times in _times(row).values()]
    low = min(1.0, *values)
    high = min(MOST, max(10.0, *values))
    return math.log10(low), math.log10(high)


def _times(row: dict[str, Any]) -> dict[str, float]:
    """How many times the roofline each contender takes: by rounds where it was asked for in each."""
    paired = row.get("paired_roofline", {})
    return {
        who: paired.get(who, seconds / row["roofline"]) for who, seconds in row["seconds"].items()
    }


def _x(value: float, ends: tuple[float, float]) -> float:
    low, high = ends
    part = (min(math.log10(value), high) - low) / (high - low)
    return LEFT + part * (WIDTH - LEFT - RIGHT)


def _axis(bottom: int, ends: tuple[float, float]) -> Iterator[str]:
    for value in (0.2, 0.5, 1, 1.5, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        if not ends[0] <= math.log10(value) <= ends[1] + 1e-9:
            continue
        x = _x(value, ends)
        colour, width = ("#000000", 1.5) if value == 1 else ("#dddddd", 1)
        yield _line(x, TOP, x, bottom, colour, width)
        yield _text(x, bottom + 15, f"{value:g}", anchor="middle", size=11)


def _legend() -> Iterator[str]:
    for index, (who, colour) in enumerate(COLOURS.items()):
        x, y = 20 + 160 * (index % 5), 18 + 20 * (index // 5)
        yield _mark(x, y, who, colour)
        yield _text(x + 10, y + 4, who, size=12)


def _row(row: dict[str, Any], y: int, ends: tuple[float, float]) -> Iterator[str]:
    yield _text(LEFT - 12, y + 4, _short(row["name"]), anchor="end", size=11)
    yield _line(LEFT, y, WIDTH - RIGHT, y, "#eeeeee", 1)
    for who, colour in reversed(COLOURS.items()):  # ours lies on top
        times = _times(row).get(who)
        if times:
            mark = _mark(_x(times, ends), y, who, colour)
            yield f"<g><title>{escape(who)}: {times:.2f}</title>{mark}</g>"


def _short(name: str, most: int = 52) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _mark(x: float, y: float, who: str, colour: str) -> str:
    radius, fill = (5.5, colour) if who == OURS else (4, "white")
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{colour}" '
        f'stroke-width="2"/>'
    )


def _line(x0: float, y0: float, x1: float, y1: float, colour: str, width: float) -> str:
    return (
        f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="#222222">{escape(text)}</text>'
    )


if __name__ == "__main__":
    sys.exit(main())

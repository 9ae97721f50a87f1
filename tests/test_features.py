"""docs/features.md does not drift: its rows are well formed, and what it calls working has a test."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

from einloom.backend.catalogue import CATALOGUE
from tests.each import each

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "features.md"

HEADER = ["id", "operation or rule", "in einloom (op, function or room)", "room", "test", "state"]
ROOMS = {
    "_base", "backend", "backend/cpu", "backend/gpu", "program", "contract", "linalg", "fft", "interop",
}  # fmt: skip
STATES = {"planned", "working", "declined"}
PREFIXES = {"nx", "onnx", "tp", "ta", "ocannl"}  # one for each reference document


class Row(NamedTuple):
    """One operation or rule of a reference document."""

    line: int
    cells: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.cells[0]

    @property
    def room(self) -> str:
        return self.cells[3]

    @property
    def test(self) -> str:
        return self.cells[4]

    @property
    def state(self) -> str:
        return self.cells[5]


def read_rows() -> list[Row]:
    """Every row of every table, in order, without the two lines of a table's head."""
    rows = []
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("|"):
            cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
            if list(cells) != HEADER and set(line) - set("|- "):
                rows.append(Row(number, cells))
    return rows


ROWS = read_rows()


@cache
def functions(path: Path) -> frozenset[str]:
    """Names of the functions that a test file defines, without running it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_there_are_rows_of_every_document() -> None:
    assert {row.id.partition(".")[0] for row in ROWS} == PREFIXES
    assert len(ROWS) >= 678  # what the five documents state does not become less


def test_every_row_has_six_filled_cells() -> None:
    assert [row.line for row in ROWS if len(row.cells) != 6 or not all(row.cells)] == []


def test_ids_are_unique_and_plain() -> None:
    counts = Counter(row.id for row in ROWS)
    assert [id for id, count in counts.items() if count > 1] == []
    assert [id for id in counts if not re.fullmatch(r"\w+(\.[\w-]+)+", id)] == []


def test_rooms_and_states_are_known() -> None:
    assert [row.line for row in ROWS if row.room not in ROOMS] == []
    assert [row.line for row in ROWS if row.state not in STATES] == []


def test_only_working_rows_name_a_test() -> None:
    assert [row.line for row in ROWS if row.state != "working" and row.test != "-"] == []


@each("row", [row for row in ROWS if row.state == "working"])
def test_working_rows_name_a_test_that_exists(row: Row) -> None:
    match = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", row.test)
    assert match, f"line {row.line}: {row.test} is no `tests/path.py::test_name`"
    path = ROOT / match[1]
    assert path.is_file(), f"line {row.line}: there is no {match[1]}"
    assert match[2] in functions(path), f"line {row.line}: {match[1]} has no {match[2]}"


def test_working_ops_are_in_the_catalogue() -> None:
    for row in ROWS:
        op = re.match(r"`(\w+)`", row.cells[2])
        if row.state == "working" and op and row.id.startswith(("onnx.op.", "ta.op.")):
            assert op[1] in CATALOGUE, f"line {row.line}: the catalogue has no op {op[1]}"

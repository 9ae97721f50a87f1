"""docs/ops.md says what the catalogue and the backends say."""

from __future__ import annotations

from pathlib import Path

import pytest

from einloom._base.errors import Unsupported
from einloom.backend.catalogue import CATALOGUE
from einloom.backend.cpu import cpu
from einloom.backend.table import op_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ops.md"


def test_page_is_what_is_generated() -> None:
    assert PAGE.read_text(encoding="utf-8").rstrip() == op_table([cpu()]).rstrip()


@pytest.mark.parametrize("op", [op for op in CATALOGUE if op not in cpu().capabilities()])
def test_a_dash_is_unsupported(op: str) -> None:
    line = next(line for line in op_table([cpu()]).splitlines() if line.startswith(f"| `{op}("))
    assert line.endswith("| - |")
    with pytest.raises(Unsupported, match=rf"'{op}' has no kernel on the CPU"):
        cpu().bind(op, {}, (), ())

"""The report of the demo, and the demo itself on small input."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from einloom._base.errors import FileFormatError
from einloom.demo import DemoReport, DemoRow, run_demo

ROW = DemoRow(
    name="Ising 8x8 beta 0.4407",
    check="Z against a formula",
    tensors=128,
    labels=64,
    flops=2**70,
    largest_intermediate=2**17,
    peak_bytes=3 << 20,
    plan_seconds=0.0123,
    run_seconds=1.5,
    value=1.25 + 0.5j,
    error=1e-15,
    tolerance=1e-10,
)


def test_a_report_reads_well_in_a_terminal() -> None:
    report = DemoReport((ROW, replace(ROW, plan_seconds=None, check="another", peak_bytes=None)))
    lines = str(report).splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert len({len(line) for line in lines[:4]}) == 1
    assert " ".join(lines[2].split()) == (
        "Ising 8x8 beta 0.4407 128 64 1.18e+21 1.31e+5 3.00 MiB 12.3 ms 1.5 s 1.0e-15 passed"
    )
    assert lines[-2:] == ["passed: Z against a formula (1 of 1)", "passed: another (1 of 1)"]


@pytest.mark.parametrize("error", [1.1e-10, math.inf, math.nan])
def test_a_failed_check_is_seen(error: float) -> None:
    report = DemoReport((ROW, replace(ROW, error=error)))
    assert ROW.ok
    assert not report.ok
    assert "FAILED: Z against a formula (1 of 2)" in str(report)
    assert str(report).splitlines()[3].endswith("FAILED")


def test_a_report_as_json() -> None:
    data = json.loads(json.dumps(DemoReport((ROW,)).to_json()))
    assert data["ok"] is True
    assert data["rows"][0]["ok"] is True
    assert data["rows"][0]["flops"] == 2**70
    assert data["rows"][0]["value"] == [1.25, 0.5]


def test_demo_on_small_files(tmp_path: Path) -> None:
    ising, circuit = tmp_path / "ising.json", tmp_path / "circuit.qsim"
    ising.write_text('{"lengths": [2, 3], "betas": [0.2, 0.7]}')
    circuit.write_text("4\n0 h 0\n1 cnot 0 1\n2 fs 1 2 1.5 0.5\n3 hz_1_2 2\n4 t 1\n")
    printed: list[str] = []
    said: list[str] = []
    report = run_demo(ising, circuit, echo=printed.append, progress=said.append)
    assert report.ok
    assert [row.tensors for row in report.rows] == [8, 8, 18, 18, 3, 3, 3, 3]
    planned = [row.name for row in report.rows if row.plan_seconds is not None]
    assert planned == ["Ising 2x2 beta 0.2000", "Ising 3x3 beta 0.2000", "<b|U|0> 4q b = 0x0"]
    assert printed == [f"\n{report}"]
    assert any("Ising 3x3: planning 18 tensors, 9 labels" in line for line in said)
    json.dumps(report.to_json())


def test_demo_on_unreadable_files(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("nothing")
    with pytest.raises(FileFormatError, match="expected JSON"):
        run_demo(bad, echo=str)
    with pytest.raises(FileNotFoundError):
        run_demo(tmp_path / "missing.json", echo=str)

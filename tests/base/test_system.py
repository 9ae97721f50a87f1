"""Small files of the system."""

from __future__ import annotations

from pathlib import Path

import pytest

from einloom._base.system import read_start


def test_the_start_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "cpu.max"
    file.write_bytes(b"max 100000\n" + b"\xff" * 9000)
    assert read_start(str(file), 11) == "max 100000\n"
    assert len(read_start(str(file))) == 4096  # what is no text is replaced
    with pytest.raises(FileNotFoundError):
        read_start(str(tmp_path / "none"))

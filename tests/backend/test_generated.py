"""Generated kernels are texts: kept in files for people to read, never run from there, compiled once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import einloom
from einloom._base.options import options
from einloom.backend.cpu import jit
from einloom.backend.cpu.jit import generated

SOURCE = "def fused(out, x):\n    for i in range(x.size):\n        out[i] = x[i] * {}\n"


@pytest.fixture(autouse=True)
def _own_kernels(tmp_path: Path) -> Iterator[None]:
    """A cache folder of the test's own, and a process that has generated none."""
    with pytest.MonkeyPatch.context() as patch, options(cache_dir=str(tmp_path / "cache")):
        patch.setattr(jit, "_GENERATED", jit.Cache("generated kernels of a test", 512))
        yield
    jit._GENERATED.clear()


def times(factor: int) -> list[float]:
    out = np.zeros(3)
    generated(SOURCE.format(factor))(out, np.arange(3.0))
    return [float(x) for x in out]


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "generated").iterdir())


def test_one_kernel_for_a_text(tmp_path: Path) -> None:
    one = generated(SOURCE.format(2))
    assert generated(SOURCE.format(2)) is one
    assert generated(SOURCE.format(3)) is not one
    assert one.source == SOURCE.format(2)
    assert one.signatures == []
    assert times(2) == [0, 2, 4]
    assert times(3) == [0, 3, 6]
    assert len(one.signatures) == 1


def test_files(tmp_path: Path) -> None:
    """One for each text, under a name made of it, in a folder that nobody else can write."""
    times(2)
    generated(SOURCE.format(3))
    found = files(tmp_path)
    assert sorted(path.read_text() for path in found) == [SOURCE.format(2), SOURCE.format(3)]
    assert all(path.name.startswith("fused_") and path.suffix == ".py" for path in found)
    for folder in (tmp_path / "cache", tmp_path / "cache" / "generated"):
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("damage", [b"raise SystemExit", b"", b"\xff\0\xfe", None])
def test_files_are_never_run(damage: bytes | None, tmp_path: Path) -> None:
    """What stands in one is put right; the text at hand is what is compiled."""
    generated(SOURCE.format(2))
    (file,) = files(tmp_path)
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)
    jit._GENERATED.clear()
    assert times(2) == [0, 2, 4]
    assert files(tmp_path) == [file]
    assert file.read_text() == SOURCE.format(2)


def test_untouched_where_it_is_right(tmp_path: Path) -> None:
    generated(SOURCE.format(2))
    (file,) = files(tmp_path)
    os.utime(file, (1, 1))
    jit._GENERATED.clear()
    generated(SOURCE.format(2))
    assert file.stat().st_mtime == 1


def test_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader finds a whole file or none."""
    replaced: list[tuple[str, str]] = []
    real = os.replace

    def replace(draft: Path, file: Path) -> None:
        assert draft.parent == file.parent
        assert not file.exists()
        replaced.append((draft.read_text(), draft.suffix))
        real(draft, file)

    monkeypatch.setattr(os, "replace", replace)
    generated(SOURCE.format(2))
    assert replaced == [(SOURCE.format(2), ".tmp")]
    assert [path.suffix for path in files(tmp_path)] == [".py"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners")
def test_a_folder_that_others_can_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is written there or read from there, and the log says so."""
    folder = tmp_path / "cache" / "generated"
    folder.mkdir(parents=True, mode=0o700)
    (tmp_path / "cache").chmod(0o700)
    folder.chmod(0o777)
    with caplog.at_level(logging.WARNING, "einloom"):
        assert times(2) == [0, 2, 4]
    assert "generated kernels are not kept on disk" in caplog.text
    assert f"{folder} belongs to others or can be written by them" in caplog.text
    assert files(tmp_path) == []


def test_no_place_at_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "cache").write_text("in the way")
    with caplog.at_level(logging.WARNING, "einloom"):
        assert times(2) == [0, 2, 4]
    assert "generated kernels are not kept on disk" in caplog.text


def test_errors_show_the_text(tmp_path: Path) -> None:
    """Compilers and tracebacks look for it in the file."""
    import traceback

    broken = generated("def fused(out):\n    raise ValueError(out)\n")
    try:
        broken.function(7)
    except ValueError as error:
        (line,) = traceback.extract_tb(error.__traceback__)[1:]
    assert line.line == "raise ValueError(out)"
    assert Path(line.filename).parent == tmp_path / "cache" / "generated"


PROCESS = """
import numpy as np
from einloom._base.options import options
from einloom.backend.cpu import cpu, jit
from einloom.backend.cpu.kernels import move as kernels
from einloom.backend.cpu.move import move
moves = [x for x in vars(kernels).values() if isinstance(x, jit.Kernel)]
rng = np.random.default_rng(0)
with options(small=0):
    x = rng.integers(-9, 9, (30, 40))
    assert (cpu().apply("reduce_sum", {"axes": (1,)}, x) == x.sum(1)).all()
    for name in ["complex128"] * 40:
        shape = rng.integers(1, 6, rng.integers(1, 6))
        x = rng.integers(0, 2, shape).astype(name)[::rng.choice([-1, 1])]
        x = x.transpose(rng.permutation(x.ndim))
        if rng.random() < 0.3:
            x.flags.writeable = False
        y = np.zeros([2 * n for n in x.shape], name)[(slice(None, None, 2),) * x.ndim]
        assert (move(y, x) == x).all()
        assert (move(np.zeros(x.shape, name), x) == x).all()
for kernel in moves:
    assert len(kernel.signatures) <= 1, kernel.signatures
assert any(kernel.signatures for kernel in moves)
generated = list(jit._GENERATED._items.values())
assert len(generated) == 1
stats = [k._dispatcher.stats for k in moves + generated if k.signatures]
print(sum(sum(s.cache_hits.values()) for s in stats),
      sum(sum(s.cache_misses.values()) for s in stats))
"""


def test_processes(tmp_path: Path) -> None:
    """Moves are compiled once for an element size, whatever the rank and layout; the next process
    compiles nothing, generated kernels included."""
    root = Path(einloom.__file__).parents[1]
    variables = {
        **os.environ,
        "EINLOOM_CACHE_DIR": str(tmp_path / "c"),
        "EINLOOM_BARE": "0",
        "PYTHONPATH": str(root),
    }

    def run() -> list[int]:
        command = [sys.executable, "-c", PROCESS]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return [int(word) for word in done.stdout.split()]

    hits, misses = run()
    assert hits == 0
    assert misses >= 2  # a move and a reduction
    assert run() == [misses, 0]

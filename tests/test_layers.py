"""Rooms import only what lies below them; what describes ops and arrays needs no library of a device."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import einloom
from einloom.backend import nx
from einloom.backend.cpu import cpu
from einloom.backend.spec import ArraySpec
from einloom.program.executable import Executable
from einloom.program.trace import trace

ROOT = Path(__file__).resolve().parent.parent / "src" / "einloom"
LEVEL = {
    "_base": 0, "backend": 1, "program": 2, "functions": 3,
    "contract": 4, "linalg": 4, "fft": 4, "random": 4,
}  # fmt: skip
DESCRIPTIONS = ("dims", "spec", "dtypes", "rules", "catalogue", "fusion", "protocol")


def imports(file: Path) -> Iterator[tuple[str, ...]]:
    """The parts of each module that a file imports, from anywhere in it; ours begin with "einloom"."""
    package = ("einloom", *file.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (tuple(name.name.split(".")) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = (*above, *(node.module or "").split(".")) if node.module else above
            yield from ((*base, name.name) for name in node.names)


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", LEVEL)
def test_rooms_import_only_what_is_below(room: str) -> None:
    """Neither a room beside them, nor what is above; the facade is asked for its version only."""
    found = {
        parts[1] for file in files(room) for parts in imports(file) if parts[:1] == ("einloom",)
    }
    assert {name for name in found if LEVEL.get(name, 9) >= LEVEL[room]} <= {room, "__version__"}
    assert len(files(room)) > 1


def test_contract_knows_no_kernel() -> None:
    """Contractions are planned and lowered to ops of a backend; nothing in their room runs one."""
    for file in files("contract"):
        for parts in imports(file):
            assert parts[0] not in ("cupy", "numba"), file
            assert "kernels" not in parts, file


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_descriptions_need_no_device(name: str) -> None:
    """Sizes, dtypes, the catalogue and the protocol stand on each other and on NumPy, not on what runs."""
    for parts in imports(ROOT / "backend" / f"{name}.py"):
        if parts[0] != "einloom":
            assert parts[0] in {*sys.stdlib_module_names, "numpy", "ml_dtypes"}
        elif parts[1] != "_base":
            assert parts[1] == "backend"
            assert parts[2] in DESCRIPTIONS


def test_only_backends_run_kernels() -> None:
    """What is declared is in one place, what runs in another: only a device's own folder has kernels."""
    folders = [ROOT / "backend" / device for device in ("cpu", "gpu")]
    for file in (file for room in (*LEVEL, "interop") for file in files(room)):
        if not any(folder in file.parents for folder in folders):
            for parts in imports(file):
                assert parts[0] not in ("numba", "cupy", "cupyx"), file
                assert "kernels" not in parts, file


def test_one_family_of_arrays() -> None:
    """Whatever makes it, a dense array of the CPU is a numpy.ndarray and nothing else."""
    x = np.arange(1.0, 10.0).reshape(3, 3) + np.eye(3)
    a, b = einloom.Node("a", (3, 3)), einloom.Node("b", (3, 3))
    with einloom.Context("cpu:3") as root:
        routine = root.put({a: x}).link(einloom.Code(lambda x: 2 * x, [a], [b]))
        routine.run()
        held = routine.context.get(b)
    program = trace(lambda x: x @ x, (3, 3)).bind([(3, 3)])
    for made in (
        einloom.einsum("ij,jk->ik", x, x),
        einloom.compile("ij->ji", x)(x),
        Executable(program, cpu())(x),
        cpu().apply("exp", {}, x),
        cpu().empty(ArraySpec(x.dtype, (1 << 18,))),  # lent memory
        cpu().to_device(x),
        einloom.linalg.inv(x),
        einloom.fft.fft(x),
        einloom.kron(x, x),
        einloom.random.uniform(einloom.random.key(0), (3,)),
        nx.full(cpu(), x.dtype, (2, 2), 1.0),
        held,
    ):
        assert type(made) is np.ndarray


def test_programs_know_one_form() -> None:
    """No module of the room writes or reads another representation than its own."""
    for file in files("program"):
        assert not any("hlo" in part.lower() for parts in imports(file) for part in parts), file
        assert "hlo" not in file.stem

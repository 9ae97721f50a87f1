"""The example that finds the ground state of the Heisenberg chain, against exact energies."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FILE = Path(__file__).resolve().parents[2] / "examples" / "heisenberg.py"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("heisenberg", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def diagonalised(sites: int) -> float:
    """The lowest eigenvalue of the whole matrix."""
    spins = (
        np.array([[0, 1], [1, 0]]) / 2,
        np.array([[0, -1j], [1j, 0]]) / 2,
        np.diag([0.5, -0.5]),
    )
    total: Any = 0
    for at in range(sites - 1):
        for spin in spins:
            bond = np.kron(spin, spin)
            total = total + np.kron(np.kron(np.eye(2**at), bond), np.eye(2 ** (sites - at - 2)))
    return float(np.linalg.eigvalsh(total)[0])


@pytest.mark.parametrize("sites", [2, 4, 6])
def test_bethe_energy(example: Any, sites: int) -> None:
    assert np.isclose(example.bethe_energy(sites), diagonalised(sites), rtol=0, atol=1e-12)


def test_bethe_energy_of_long_chains(example: Any) -> None:
    """Per bond it tends to that of the infinite chain, 1/4 - log 2 (Hulthén 1938)."""
    bond = example.bethe_energy(402) - example.bethe_energy(400)
    assert abs(bond / 2 - (0.25 - np.log(2))) < 1e-5


@pytest.mark.parametrize(("sites", "max_rank", "above"), [(4, 4, 1e-12), (10, 16, 1e-6)])
def test_ground_state(example: Any, sites: int, max_rank: int, above: float) -> None:
    sweeps = example.ground_state(sites, max_rank, 3)
    exact = example.bethe_energy(sites)
    assert sweeps[-1].rank <= max_rank
    assert -1e-10 < sweeps[-1].energy - exact < above


def test_it_prints_the_distance(
    example: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "sys.argv", ["heisenberg", "--sites", "4", "--max-rank", "4", "--sweeps", "2"]
    )
    example.main()
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("4 sites, Bethe ansatz: E = -1.616025403784")
    assert len(rest) == 2

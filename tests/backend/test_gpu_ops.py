"""The catalogue on the GPU's logic, with NumPy in CuPy's place, against the laws of every op."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend import test_conformance as suite
from tests.backend.backends import dtypes_of
from tests.backend.test_conformance import FROM_TABLE, WRITING

FEW = ("int16", "bfloat16", "complex64")


def cases(ops: list[str], names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(op, name) for op in ops for name in dtypes_of("gpu", op) if name in names]


OTHERS = tuple(sorted({name for op in FROM_TABLE for name in dtypes_of("gpu", op)} - {*FEW}))


@pytest.mark.parametrize(("op", "name"), cases(FROM_TABLE, FEW))
def test_law(op: str, name: str, rng: np.random.Generator) -> None:
    suite.test_law("gpu", op, name, rng)


@pytest.mark.parametrize(("op", "name"), cases(WRITING, ("float32", "int8")))
def test_out(op: str, name: str, rng: np.random.Generator) -> None:
    suite.test_out("gpu", op, name, rng)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "name"), cases(FROM_TABLE, OTHERS))
def test_law_of_other_dtypes(op: str, name: str, rng: np.random.Generator) -> None:
    suite.test_law("gpu", op, name, rng)
    if op in WRITING:
        suite.test_out("gpu", op, name, rng)

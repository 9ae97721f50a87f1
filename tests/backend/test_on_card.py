"""The laws of every op on a GPU: `python -m pytest -m gpu`. Skipped where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.calls import arrangements, legal, operands
from tests.backend.laws import assert_means, meaning
from tests.backend.test_conformance import FROM_TABLE

from einloom import backend
from einloom.backend.gpu import missing
from einloom.backend.spec import dtype_from_name

WHY = missing()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(WHY is not None, reason=f"{WHY}")]


@pytest.mark.parametrize("op", FROM_TABLE)
def test_law(op: str, rng: np.random.Generator) -> None:
    """With every dtype; a transfer makes operands contiguous."""
    gpu = backend.get("gpu")
    for name in sorted(gpu.capabilities()[op]):
        dtype = dtype_from_name(name)
        for call in legal(op, dtype):
            outputs = call.outputs(dtype)
            kernel = gpu.bind(op, call.attrs, call.specs(dtype), outputs)
            for layouts in list(arrangements(call, dtype))[:1]:
                arrays = operands(call, dtype, layouts, rng)
                found = kernel(*map(gpu.to_device, arrays))
                several = found if isinstance(found, tuple) else (found,)
                got = tuple(np.asarray(gpu.to_host(x)) for x in several)
                want = meaning(op, call.attrs, arrays, outputs)
                assert_means(got, op, call.attrs, arrays, outputs, want)

"""Products of small matrices of many sizes in one launch, beside the CPU's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING, STAND_INS
from tests.backend.gpu.emulator import needs_compiler
from tests.backend.gpu.launches import launches
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.backend.stand_in import DeviceArray

import einloom
from einloom._base.errors import ShapeError, Unsupported
from einloom.backend.choice import register_arrays, unregister_arrays
from einloom.backend.gpu.cuda.grouped import grouped, tables
from einloom.backend.spec import dtype_from_name

SIZES = [(1, 1, 1), (2, 3, 5), (64, 1, 7), (4, 64, 2), (9, 10, 11)]
DTYPES = ("int16", "bfloat16", "float32", "complex128")


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    register_arrays(DeviceArray, lambda x: COMPILING)
    yield
    unregister_arrays(DeviceArray)


def there(x: Any) -> Any:
    return x.view(DeviceArray)


def pairs_of(dtype: str, rng: np.random.Generator) -> list[Any]:
    """Of any strides: a transposed one, one read backwards."""

    def drawn(*shape: int) -> Any:
        parts = rng.integers(-4, 5, (2, *shape))
        x = parts[0] + 1j * parts[1] if dtype.startswith("complex") else parts[0]
        return x.astype(dtype_from_name(dtype))

    return [(drawn(k, m).T, drawn(k, n)[:, ::-1]) for m, k, n in SIZES]


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_launch(dtype: str, rng: np.random.Generator) -> None:
    pairs = pairs_of(dtype, rng)
    want = einloom.gemm_batch(pairs, alpha=2)
    with launches() as launched:
        found = einloom.gemm_batch([(there(a), there(b)) for a, b in pairs], alpha=2)
    assert launched == ["grouped"]
    for x, y in zip(found, want, strict=True):
        assert type(x) is DeviceArray
        np.testing.assert_array_equal(x.view(np.ndarray), y)


@needs_compiler
def test_sums_with_one_target(rng: np.random.Generator) -> None:
    """Blocks of one matrix, each of them the sum of several products; what they held counts once."""
    whole, other = (np.ones((6, 9)) for _ in range(2))

    def blocks(x: Any) -> list[Any]:
        return [x[:2, :4], x[2:, 4:], x[:2, :4]]

    pairs = [
        (rng.integers(-4, 5, (len(x), 3)) * 1.0, np.ones((3, x.shape[1]))) for x in blocks(whole)
    ]
    einloom.gemm_batch(pairs, out=blocks(whole), alpha=3, beta=-2)
    with launches() as launched:
        on = [(there(a), there(b)) for a, b in pairs]
        found = einloom.gemm_batch(on, out=blocks(there(other)), alpha=3, beta=-2)
    assert launched == ["grouped"]
    assert len(found) == 3
    np.testing.assert_array_equal(other, whole)


@needs_compiler
def test_large_ones_are_apart(rng: np.random.Generator) -> None:
    pairs = [(np.ones((3, 65)), np.ones((65, 2))), (np.ones((3, 4)), np.ones((4, 2)))]
    empty = (np.ones((3, 0)), np.ones((0, 2)))
    with launches() as launched:
        found = einloom.gemm_batch([(there(a), there(b)) for a, b in (*pairs, empty)])
    assert launched.count("grouped") == 1
    assert [float(x.view(np.ndarray)[0, 0]) for x in found] == [65, 4, 0]


def test_without_a_compiler(rng: np.random.Generator) -> None:
    register_arrays(DeviceArray, lambda x: STAND_INS["gpu"])
    pairs = pairs_of("float32", rng)
    found = einloom.gemm_batch([(there(a), there(b)) for a, b in pairs])
    for x, y in zip(found, einloom.gemm_batch(pairs), strict=True):
        np.testing.assert_array_equal(x.view(np.ndarray), y)


def test_refused() -> None:
    x = np.ones((2, 2))
    with pytest.raises(Unsupported, match="is on the host"):
        einloom.gemm_batch([(there(x), x)])
    with pytest.raises(Unsupported, match="is on the host"):
        einloom.gemm_batch([(there(x), there(x))], out=[np.ones((2, 2))])
    with pytest.raises(ShapeError, match="entry 0 has shape"):
        einloom.gemm_batch([(there(x), there(x))], out=[there(np.ones((2, 3)))])


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    table = tables([(64, 2, 3, 3, 1, 1)], [(0,) * 7])
    made = [grouped(dtype, table, True) for dtype in DTYPES]
    compile_all([kernel for kernel in made if kernel is not None], architecture)

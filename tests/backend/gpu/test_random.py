"""Random numbers of kernels: in all bits those of the CPU, and the known answers of the cipher."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, strides_of, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc
from tests.backend.test_threefry import KNOWN

from einloom.backend.cpu import cpu
from einloom.backend.cpu.random_arrays import fill_bits, fill_normal, fill_uniform
from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.random import draw, threefry

KEY = np.array([0x13198A2E, 0x03707344], np.uint32)
DRAWS = (
    ("words", "uint32", fill_bits, ()),
    ("uniform", "float32", fill_uniform, (0.0, 1.0)),
    ("uniform", "float64", fill_uniform, (0.0, 1.0)),
    ("normal", "float32", fill_normal, ()),
    ("normal", "float64", fill_normal, ()),
)
CIPHERS = (("uint32",) * 3, ("int64",) * 3, ("uint8",) * 3)
SHAPE = (5, 7, 2)


def operands(dtypes: tuple[str, str, str]) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    key = np.broadcast_to(rng.integers(0, 127, 2).astype(dtypes[1]), SHAPE)
    return key, rng.integers(0, 1 << 31, (2, 7, 5)).astype(dtypes[2]).T


def cipher(dtypes: tuple[str, str, str]) -> CudaKernel:
    return threefry(dtypes, SHAPE, (14, 2, 1), *map(strides_of, operands(dtypes)))


ANSWERS = threefry(("uint32",) * 3, (3, 2), (2, 1), (2, 1), (2, 1))
KERNELS = [*map(cipher, CIPHERS), ANSWERS, *(draw(what, dtype, 1001) for what, dtype, *_ in DRAWS)]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    return Emulator(KERNELS, tmp_path_factory.mktemp("kernels"))


@needs_compiler
def test_known_answers(emulate: Emulator) -> None:
    key, counter, answer = (np.array([row[k] for row in KNOWN], np.uint32) for k in range(3))
    out = np.zeros((3, 2), np.uint32)
    emulate(ANSWERS, out, key, counter)
    np.testing.assert_array_equal(out, answer)


@needs_compiler
@pytest.mark.parametrize("dtypes", CIPHERS)
def test_cipher(dtypes: tuple[str, str, str], emulate: Emulator) -> None:
    out, memory = guarded(SHAPE, dtypes[0])
    emulate(cipher(dtypes), out, *operands(dtypes))
    wanted = cpu().apply("threefry2x32", {}, *operands(dtypes))
    np.testing.assert_array_equal(out, wanted)
    assert untouched(memory)


@needs_compiler
@pytest.mark.parametrize("count", [1, 2, 1001])
@pytest.mark.parametrize(
    ("what", "dtype", "fill", "more"), DRAWS, ids=[f"{row[0]}-{row[1]}" for row in DRAWS]
)
def test_draws(what: Any, dtype: str, fill: Any, more: Any, count: int, emulate: Emulator) -> None:
    wanted = np.zeros(count, dtype)
    fill(tuple(KEY.tolist()), wanted, *more)
    out, memory = guarded((count,), dtype)
    emulate(draw(what, dtype, count), out, KEY)
    np.testing.assert_array_equal(out, wanted)
    assert untouched(memory)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all(KERNELS, architecture)

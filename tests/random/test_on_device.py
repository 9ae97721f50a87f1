"""Draws by keys that lie on a device: the CPU's numbers in all bits, and nothing leaves the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING, STAND_INS
from tests.backend.gpu.emulator import needs_compiler
from tests.backend.stand_in import DeviceArray

import einloom
from einloom import random
from einloom._base.errors import CallError, DTypeError, ShapeError, Unsupported
from einloom.backend.choice import register_arrays, unregister_arrays
from einloom.program.executable import Executable

KEY = random.key(12345678901234567890)


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    register_arrays(DeviceArray, lambda x: COMPILING)
    yield
    unregister_arrays(DeviceArray)


def there(x: Any) -> Any:
    return x.view(DeviceArray)


def down(x: Any) -> Any:
    assert type(x) is DeviceArray, "left the device"
    return x.view(np.ndarray)


def same(found: Any, want: Any) -> None:
    found, want = down(found), np.asarray(want)
    assert found.dtype == want.dtype
    assert found.shape == want.shape
    assert found.tobytes() == np.ascontiguousarray(want).tobytes()


DRAWS = [
    *((random.bits, {}, dtype) for dtype in ("uint8", "uint32", "uint64")),
    *((random.uniform, {}, dtype) for dtype in ("float16", "bfloat16", "float32", "float64")),
    *((random.uniform, {"low": -3, "high": 5}, dtype) for dtype in ("float16", "complex64")),
    *((random.normal, {}, dtype) for dtype in ("float32", "float64", "complex128")),
    *((random.normal, {"loc": 2, "scale": 3}, dtype) for dtype in ("bfloat16", "complex64")),
]


@needs_compiler
@pytest.mark.parametrize(
    ("call", "more", "dtype"), DRAWS, ids=[f"{c.__name__} {d} {len(m)}" for c, m, d in DRAWS]
)
def test_draws(call: Any, more: dict[str, Any], dtype: str) -> None:
    for shape in ((7, 11), (3,), (2, 0)):
        same(call(there(KEY), shape, dtype, **more), call(KEY, shape, dtype, **more))


SPANS = [(0, 6), (-5, 2**62 + 3), (-(2**63), 2**63), (0, 1)]


@needs_compiler
@pytest.mark.parametrize(("low", "high"), SPANS)
def test_integers(low: int, high: int) -> None:
    """Where many words are refused, and where none is."""
    same(random.integers(there(KEY), low, high, (5, 40)), random.integers(KEY, low, high, (5, 40)))
    if high < 100:
        found = random.integers(there(KEY), low, high, 9, "int8")
        same(found, random.integers(KEY, low, high, 9, "int8"))


@needs_compiler
def test_keys_and_orders() -> None:
    same(random.split(there(KEY), (2, 3)), random.split(KEY, (2, 3)))
    same(random.fold_in(there(KEY), 7), random.fold_in(KEY, 7))
    numbers = np.array([0, 5, 1 << 40])
    same(random.fold_in(there(KEY), numbers), random.fold_in(KEY, numbers))
    same(random.permutation(there(KEY), 50), random.permutation(KEY, 50))
    x = np.arange(12.0).reshape(3, 4)
    same(random.permutation(there(KEY), there(x), axis=1), random.permutation(KEY, x, axis=1))


@needs_compiler
def test_in_programs() -> None:
    def both(key: Any) -> Any:
        return random.uniform(key, (4,)) * random.normal(random.fold_in(key, 1), (4,))

    program = einloom.trace(both, "uint32[2]").bind([(2,)])
    same(
        Executable(program, COMPILING)(there(KEY)), Executable(program, einloom.backend.get())(KEY)
    )


def test_refused() -> None:
    """Operands of two places, what is no key; drawing without a compiler."""
    key = there(KEY)
    with pytest.raises(Unsupported, match="is on the host"):
        random.permutation(key, np.ones(3))
    with pytest.raises(DTypeError, match="uint32"):
        random.uniform(key.astype("u8"), 3)
    with pytest.raises(ShapeError, match="several keys"):
        random.split(there(np.zeros((2, 2), np.uint32)))
    register_arrays(DeviceArray, lambda x: STAND_INS["gpu"])
    with pytest.raises(Unsupported, match="compiles no CUDA"):
        random.uniform(key, 3)
    same(random.split(key), random.split(KEY))


@needs_compiler
def test_out_is_refused() -> None:
    with pytest.raises(CallError, match="for a key of a device"):
        random.uniform(there(KEY), out=np.zeros(3))

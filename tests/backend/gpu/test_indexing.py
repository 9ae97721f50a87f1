"""Kernels of gather and scatter beside the CPU backend: out of range, repeated and strided as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.nvrtc import ARCHITECTURES, compile_all, needs_nvrtc

from einloom.backend.cpu import cpu
from einloom.backend.gpu.cuda.gather import gather, take, take_along_axis
from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.layout import Operand, operand_of, row_major
from einloom.backend.gpu.cuda.scatter import Scatter, scatter, scatter_along_axis
from einloom.backend.spec import dtype_from_name

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(8)
X = RNG.integers(0, 99, (7, 4, 5)).astype("f4").transpose(2, 0, 1)  # [5, 7, 4]
ALONG = RNG.integers(-7, 7, (5, 9, 4))
STARTS = RNG.integers(-3, 9, (2, 6), dtype=np.int32).T  # [6, 2]
GATHERED = {
    "offset_dims": (0, 2),
    "collapsed_slice_dims": (1,),
    "start_index_map": (2, 1),
    "index_vector_dim": 1,
    "slice_sizes": (4, 1, 3),
}
ADDED = {
    "update_window_dims": (0, 2),
    "inserted_window_dims": (1,),
    "scatter_dims_to_operand_dims": (2, 1),
    "index_vector_dim": 1,
}
VECTOR = {**GATHERED, "start_index_map": (1,), "offset_dims": (0, 1)}
TAKEN = RNG.integers(-7, 7, (2, 3))


def seen(x: Array) -> Operand:
    operand = operand_of(x)
    assert operand is not None
    return operand


def result(shape: tuple[int, ...], dtype: str = "float32") -> Operand:
    return Operand(dtype, shape, row_major(shape))


TAKE = take(4, result((5, 2, 3, 4)), seen(X), seen(TAKEN), 1)
TAKE_ALONG = take_along_axis(4, result(ALONG.shape), seen(X), seen(ALONG), 1)
GATHER = gather(4, result((4, 6, 3)), seen(X), seen(STARTS), GATHERED)
GATHER_ONE = gather(4, result((4, 3, 6)), seen(X), seen(STARTS[:, 0]), VECTOR)


def scatters() -> dict[tuple[str, str], Scatter]:
    found = {}
    for dtype in ("float16", "bfloat16", "float32", "int32", "complex128", "bool"):
        target, updates = result(X.shape, dtype), seen(updates_of(dtype, ALONG.shape))
        for mode in ("set", "add"):
            if (made := scatter_along_axis(target, seen(ALONG), updates, 1, mode)) is not None:  # type: ignore[arg-type]
                found[mode, dtype] = made
        made = scatter(target, seen(STARTS), seen(updates_of(dtype, (4, 6, 3))), ADDED)
        assert made is not None
        found["windows", dtype] = made
    return found


def updates_of(dtype: str, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(2)
    return (rng.integers(1, 999, shape[::-1]) / 7).astype(dtype_from_name(dtype)).T


SCATTERS = scatters()
KERNELS: list[CudaKernel] = [TAKE, TAKE_ALONG, GATHER, GATHER_ONE]
KERNELS += [kernel for made in SCATTERS.values() for kernel in (made.places, made.updates)]


@pytest.fixture(scope="module")
def emulate(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    return Emulator(KERNELS, tmp_path_factory.mktemp("kernels"))


@needs_compiler
@pytest.mark.parametrize(
    ("kernel", "op", "attrs", "indices"),
    [
        (TAKE, "take", {"axis": 1}, TAKEN),
        (TAKE_ALONG, "take_along_axis", {"axis": 1}, ALONG),
        (GATHER, "gather", GATHERED, STARTS),
        (GATHER_ONE, "gather", VECTOR, STARTS[:, :1]),
    ],
    ids=["take", "take_along_axis", "gather", "gather one"],
)
def test_gather(kernel: CudaKernel, op: str, attrs: Any, indices: Any, emulate: Emulator) -> None:
    wanted = cpu().apply(op, attrs, X, indices)
    out, memory = guarded(wanted.shape, wanted.dtype)
    outside = np.zeros(1, np.int32)
    arrays = [out, outside, X, indices] if "outside" in kernel.arrays else [out, X, indices]
    emulate(kernel, *arrays)
    np.testing.assert_array_equal(out, wanted)
    assert untouched(memory)
    assert not outside[0]


@needs_compiler
@pytest.mark.parametrize("bad", [7, -8, 1 << 62])
def test_out_of_range(bad: int, emulate: Emulator) -> None:
    """The others are taken; nothing is read for this one."""
    indices = TAKEN.copy()
    indices[1, 2] = bad
    out, outside = np.full((5, 2, 3, 4), -1, "f4"), np.zeros(1, np.int32)
    emulate(TAKE, out, outside, X, indices)
    assert outside[0] == 1
    assert (out[:, 1, 2] == -1).all()
    np.testing.assert_array_equal(out[:, 0], X[:, indices[0]])


@needs_compiler
@pytest.mark.parametrize(
    ("how", "dtype"), SCATTERS, ids=[f"{how}-{name}" for how, name in SCATTERS]
)
def test_scatter(how: str, dtype: str, emulate: Emulator) -> None:
    """In all bits: the order of updates is the CPU's."""
    made, x = SCATTERS[how, dtype], X.astype(dtype_from_name(dtype))
    indices, shape = (STARTS, (4, 6, 3)) if how == "windows" else (ALONG, ALONG.shape)
    updates = updates_of(dtype, shape)
    if how == "windows":
        wanted = cpu().apply("scatter", ADDED, x, indices, updates)
    else:
        attrs = {"axis": 1, "mode": how, "unique_indices": False}
        wanted = cpu().apply("scatter_along_axis", attrs, x, indices, updates)
    out, memory = guarded(x.shape, x.dtype)
    out[...] = x
    places, outside = np.empty(made.count, np.int64), np.zeros(1, np.int32)
    more = [outside] if "outside" in made.places.arrays else []
    emulate(made.places, places, *more, indices)
    places.sort()
    emulate(made.updates, out, places, updates)
    assert out.tobytes() == np.ascontiguousarray(wanted).tobytes()
    assert untouched(memory)


@needs_nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles(architecture: str) -> None:
    compile_all(KERNELS, architecture)

"""Where the GPU's backend launches its kernels of gathers, scatters and words, and what it leaves to CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING, STAND_INS
from tests.backend.gpu.emulator import needs_compiler
from tests.backend.gpu.launches import launches
from tests.backend.stand_in import DeviceArray

from einloom._base.errors import IndexRangeError
from einloom.backend.cpu import cpu

RNG = np.random.default_rng(11)
X = RNG.integers(-9, 9, (7, 4, 5)).astype("f4").transpose(2, 0, 1)  # [5, 7, 4]
TAKEN = RNG.integers(-7, 7, (2, 3))
ALONG = RNG.integers(-7, 7, (5, 9, 4))
STARTS = RNG.integers(-3, 9, (2, 6), dtype=np.int32).T
WINDOWS = {
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
VALUES = RNG.standard_normal((4, 9, 5)).astype("f4").T
WORDS = RNG.integers(0, 1 << 31, (2, 3, 4, 2), dtype=np.uint32)


def along(mode: str) -> dict[str, Any]:
    return {"axis": 1, "mode": mode, "unique_indices": False}


CASES: dict[str, tuple[str, dict[str, Any], tuple[Any, ...], list[str]]] = {
    "take": ("take", {"axis": 1}, (X, TAKEN), ["take"]),
    "take_along_axis": ("take_along_axis", {"axis": 1}, (X, ALONG), ["take_along_axis"]),
    "gather": ("gather", WINDOWS, (X, STARTS), ["gather"]),
    "scatter": ("scatter", ADDED, (X, STARTS, VALUES[:4, :6, :3]), ["places", "add"]),
    "set": ("scatter_along_axis", along("set"), (X, ALONG, VALUES), ["places", "set"]),
    "add": ("scatter_along_axis", along("add"), (X, ALONG, VALUES), ["places", "add"]),
    "threefry": ("threefry2x32", {}, (WORDS[0], WORDS[1]), ["threefry"]),
}


def on_device(*arrays: Any) -> list[Any]:
    return [x.view(DeviceArray) for x in arrays]


@needs_compiler
@pytest.mark.parametrize("case", CASES)
def test_launched(case: str) -> None:
    """The CPU's numbers in all bits, into memory of any strides too."""
    op, attrs, arrays, names = CASES[case]
    want = cpu().apply(op, attrs, *arrays)
    with launches() as launched:
        found = COMPILING.apply(op, attrs, *on_device(*arrays))
    assert launched == names
    assert found.view(np.ndarray).tobytes() == np.ascontiguousarray(want).tobytes()
    out = np.zeros((*want.shape[:-1], 2 * want.shape[-1]), want.dtype)[..., ::2]
    COMPILING.apply(op, attrs, *on_device(*arrays), out=out.view(DeviceArray))
    np.testing.assert_array_equal(out, want)


@needs_compiler
@pytest.mark.parametrize("case", ["take", "take_along_axis", "set"])
def test_out_of_range(case: str) -> None:
    """The index and its axis are named; updates are then made nowhere."""
    op, attrs, (x, indices, *more), _ = CASES[case]
    bad = indices.copy()
    bad[1, 2] = 7
    out = x.copy().view(DeviceArray)
    with pytest.raises(IndexRangeError, match="7"):
        COMPILING.apply(
            op, attrs, *on_device(x, bad, *more), out=out if op.startswith("scatter") else None
        )
    np.testing.assert_array_equal(out.view(np.ndarray), x)


def test_left_to_the_module() -> None:
    """Without a compiler; of no elements; between elements."""
    records = np.zeros((5, 3), [("flag", "i4"), ("x", "f8"), ("more", "i4")])
    records["x"] = RNG.standard_normal((5, 3))
    cases = [
        (STAND_INS["gpu"], X, TAKEN),
        (COMPILING, X, TAKEN[:0]),
        (COMPILING, records["x"].reshape(1, 5, 3)[:, :, :], TAKEN % 5),
    ]
    with launches() as launched:
        for backend, x, indices in cases:
            found = backend.apply("take", {"axis": 1}, *on_device(x, indices))
            np.testing.assert_array_equal(found.view(np.ndarray), np.take(x, indices, 1))
    assert not launched

"""Gathers: known answers, starts at the ends of their dtypes, blocks, odd strides and memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.bad_calls import gathering
from tests.backend.laws import assert_means
from tests.backend.test_memory import THREADS, peak

from einloom._base.errors import ProgramError
from einloom._base.options import options
from einloom.backend.catalogue import infer
from einloom.backend.cpu import buffers, cpu, indexing, matrices
from einloom.backend.cpu.strided import MOST_AXES
from einloom.backend.dims import dim, input_dim
from einloom.backend.spec import ArraySpec
from einloom.program.builder import Builder
from einloom.program.executable import Executable

CPU = cpu()
GATHERS = ("gather", "gather_dynamic_slice_sizes")


def windows(*sizes: int, **changes: Any) -> dict[str, Any]:
    """Attributes that take whole windows at vectors in the last axis of indices [n, rank]."""
    axes = tuple(range(len(sizes)))
    return {
        "offset_dims": tuple(axis + 1 for axis in axes),
        "collapsed_slice_dims": (),
        "start_index_map": axes,
        "index_vector_dim": 1,
        "slice_sizes": sizes,
    } | changes


def check(attrs: dict[str, Any], x: Any, indices: Any, out: Any = None) -> Any:
    (output,) = infer("gather", attrs, (spec(x), spec(indices)))
    got = CPU.apply("gather", attrs, x, indices, out=out)
    assert_means(got, "gather", attrs, [x, indices], output)
    return got


def spec(x: Any) -> ArraySpec:
    return ArraySpec(x.dtype, x.shape)


@pytest.mark.parametrize("op", GATHERS)
def test_known_answers(op: str) -> None:
    x = np.arange(12).reshape(3, 4)
    rows = CPU.apply(op, gathering(slice_sizes=(1, 4)), x, np.array([[2], [0]]))
    assert rows.tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    got = CPU.apply(op, windows(2, 2), x, np.array([[0, 1], [9, -9], [1, 2]]))
    assert got.tolist() == [[[1, 2], [5, 6]], [[4, 5], [8, 9]], [[6, 7], [10, 11]]]
    turned = CPU.apply(op, windows(2, 2, start_index_map=(1, 0)), x, np.array([[2, 1]]))
    assert turned.tolist() == [[[6, 7], [10, 11]]]


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", ">i4"])
def test_starts_are_clamped(name: str) -> None:
    """At any integers: nothing overflows."""
    dtype = np.dtype(name)
    ends = np.iinfo(dtype).min, -1, 0, 1, 97, 98, np.iinfo(dtype).max
    x = np.arange(300.0).reshape(100, 3)
    for one in (x, x[::-1], x[::-1, ::-1], np.broadcast_to(x[:1], (100, 3))):
        got = check(windows(3, 2), one, np.array([(n, n) for n in ends], dtype))
        assert got.shape == (7, 3, 2)


@pytest.mark.parametrize("most", [1, 4, 5, 12, 50, 1000])
@pytest.mark.parametrize("offset", [(2, 3), (0, 1), (1, 3), (0, 3)])
def test_blocks(
    most: int, offset: tuple[int, int], monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Of single windows, of some, and of all."""
    monkeypatch.setattr(indexing, "BLOCK", most)
    x, indices = rng.random((5, 6)).T, rng.integers(-1, 6, (3, 4, 2))
    attrs = windows(2, 2, offset_dims=offset, index_vector_dim=2)
    for name in ("float64", "object"):
        got = check(attrs, x.astype(name), indices)
        out = np.empty(got.shape[::-1], name).T
        assert check(attrs, x.astype(name), indices, out) is out


def test_fields_of_records(rng: np.random.Generator) -> None:
    """Steps that are no whole elements, and elements at odd addresses."""
    records = np.zeros((5, 4), [("a", "f8"), ("b", "i4"), ("c", "i1")])
    records["a"] = rng.random((5, 4))
    x = records["a"]
    assert x.strides[1] % x.itemsize
    check(windows(2, 3), x, rng.integers(0, 4, (6, 2)))
    check(windows(2, 3), x[::-1], rng.integers(0, 4, (6, 2)))


def test_most_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No view has an axis more than NumPy allows."""
    x = np.arange(6.0).reshape((2, *(1,) * (MOST_AXES - 2), 3))
    sizes = (1, *x.shape[1:-1], 2)
    attrs = windows(*sizes, offset_dims=tuple(range(MOST_AXES)), index_vector_dim=0)
    attrs |= {"start_index_map": (0, MOST_AXES - 1)}
    for most in (indexing.BLOCK, 1):
        monkeypatch.setattr(indexing, "BLOCK", most)
        got = CPU.apply("gather", attrs, x, np.array([1, 1]))
        assert got.shape == sizes
        assert got.ravel().tolist() == [4, 5]


def test_objects_that_are_sequences() -> None:
    x = np.empty(3, object)
    x[:] = [[1], (2, 3), "four"]
    attrs = windows(1, collapsed_slice_dims=(0,), offset_dims=(), index_vector_dim=0)
    for at in range(3):
        assert CPU.apply("gather", attrs, x, np.array([at]))[()] is x[at]


CASES: dict[str, tuple[tuple[int, ...], dict[str, Any], tuple[int, ...]]] = {
    "rows": ((4096, 64), gathering(slice_sizes=(1, 64)), (20000, 1)),
    "elements": ((1 << 16,), windows(1, offset_dims=(), collapsed_slice_dims=(0,)), (1 << 18, 1)),
    "overlapping": ((1024, 1024), windows(16, 16), (3000, 2)),
    "windows first": ((1024, 1024), windows(16, 16, offset_dims=(0, 1)), (3000, 2)),
    "large": ((2048, 1024), windows(1500, 1000), (2, 2)),
}


@pytest.mark.parametrize("dtype", ["float64", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_memory(
    name: str, dtype: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """No more than is stated, and that is bounded."""
    for module in (buffers, matrices):
        monkeypatch.setattr(module, "LENT", 1 << 62)
    shape, attrs, places = CASES[name]
    x, indices = np.zeros(shape, dtype), rng.integers(0, 4096, places, np.int32)
    inputs = spec(x), spec(indices)
    outputs = infer("gather", attrs, inputs)
    kernel = CPU.bind("gather", attrs, inputs, outputs)
    out = np.empty(outputs[0].shape, dtype)
    with options(threads=THREADS):
        stated = CPU.scratch_bytes("gather", attrs, inputs, outputs)
    assert stated <= indexing.BLOCK * (8 + max(8, x.itemsize))
    assert peak(lambda: kernel(x, indices, out=out)) <= stated + (16 << 10)


# ---- sizes known later ---------------------------------------------------------------------------


def template(**changes: Any) -> Any:
    """Windows of half the rows, and as wide as another array."""
    build = Builder()
    x, like = build.input("float64", ("n", "m")), build.input("float64", ("k",))
    indices = build.input("int64", ("i", 2))
    sizes = (dim("n") // 2, input_dim(1, 0))
    attrs: dict[str, Any] = windows(*sizes, **changes)  # type: ignore[arg-type]
    found = build("gather_dynamic_slice_sizes", x, indices, **attrs)
    return build.template(found, like)


def test_symbolic_sizes_become_a_gather(rng: np.random.Generator) -> None:
    for shapes in ([(6, 5), (2,), (4, 2)], [(7, 3), (3,), (0, 2)], [(1, 2), (0,), (3, 2)]):
        program = template().bind(shapes)
        assert program.op_counts == {"gather": 1}
        assert program.instructions[0].attrs["slice_sizes"] == (shapes[0][0] // 2, shapes[1][0])
        x, like = rng.random(shapes[0]), rng.random(shapes[1])
        indices = rng.integers(-1, 6, shapes[2])
        got = Executable(program, CPU)(x, like, indices)[0]
        attrs = windows(*program.instructions[0].attrs["slice_sizes"])
        assert_means(got, "gather", attrs, [x, indices], spec(got))


def test_symbolic_sizes_that_do_not_fit() -> None:
    late = r"bind: instruction 0 \(gather_dynamic_slice_sizes\): .*"
    with pytest.raises(ProgramError, match=late + r"windows of \(3, 6\) do not fit into \(6, 5\)"):
        template().bind([(6, 5), (6,), (4, 2)])
    collapsed = template(collapsed_slice_dims=(0,), offset_dims=(1,))
    assert collapsed.bind([(3, 5), (2,), (4, 2)]).op_counts == {"gather": 1}
    with pytest.raises(ProgramError, match=late + r"slice_sizes=\(3, 2\) are not 1 at \(0,\)"):
        collapsed.bind([(6, 5), (2,), (4, 2)])

"""What was wrong once: indices, axes, lengths, names, bytes and futures at the door of ONNX."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any

import numpy as np
import pytest

from einloom._base.errors import DTypeError, EinloomError, FileFormatError
from einloom.interop import wire
from einloom.program.dispatch import submit

onnx = pytest.importorskip("onnx")
from onnx import helper, numpy_helper  # noqa: E402 (it may be missing)

from einloom.interop.onnx import OnnxBackend, load  # noqa: E402

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def run(op: str, arrays: dict[str, Any], carried: Any = None, **attributes: Any) -> Any:
    """The first output of a graph of one node; `carried` are its initializers."""
    carried = carried or {}
    code = helper.np_dtype_to_tensor_dtype
    inputs = [helper.make_tensor_value_info(k, code(x.dtype), x.shape) for k, x in arrays.items()]
    node = helper.make_node(op, [*arrays, *carried], ["out"], **attributes)
    outputs = [helper.make_empty_tensor_value_info("out")]
    tensors = [numpy_helper.from_array(x, k) for k, x in carried.items()]
    graph = helper.make_graph([node], "one", inputs, outputs, tensors)
    return load(graph).run(arrays)["out"]


def test_negative_indices_count_from_the_end() -> None:
    at = np.array([[-1], [0]])
    np.testing.assert_array_equal(run("GatherND", {"x": X, "i": at}), X[[-1, 0]])
    ones = np.ones((2, 3), np.float32)
    added = run("ScatterND", {"x": X, "i": at, "u": ones}, reduction="add")
    np.testing.assert_array_equal(added, X + 1)
    one = np.array([9], np.float32)
    put = run("ScatterND", {"x": X, "i": np.array([[1, -1]]), "u": one})
    assert (put[1, 2], put[0, 2]) == (9, 2)


@pytest.mark.parametrize("at", [[[9]], [[-3]]])
def test_indices_out_of_range(at: Any) -> None:
    for op, more in (("GatherND", {}), ("ScatterND", {"u": np.ones((1, 3), np.float32)})):
        with pytest.raises(EinloomError):
            run(op, {"x": X, "i": np.array(at)} | more)


def test_axes_out_of_range() -> None:
    for op, more, attributes in (
        ("Concat", {}, {"axis": 5}),
        ("ArgMax", {}, {"axis": 4}),
        ("Gather", {"i": np.array([0])}, {"axis": 9}),
    ):
        with pytest.raises(EinloomError, match=r"axis|axes"):
            run(op, {"x": X} | more, **attributes)
    with pytest.raises(EinloomError, match="k is 9"):
        run("TopK", {"x": X}, {"k": np.array([9])})


def test_dft_of_another_length_and_in_double_precision() -> None:
    x = np.random.default_rng(0).standard_normal((1, 5, 1))
    for n in (8, 3):
        found = run("DFT", {"x": x}, {"n": np.array(n)})
        want = np.fft.fft(x[..., 0], n, axis=1)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], want, atol=1e-13)


@pytest.mark.parametrize("opset", [17, 19, 20, 22, None])
def test_the_axis_of_dft_depends_on_the_version(opset: int | None) -> None:
    """An attribute that is 1 if left out, before 20; then an input, the last axis of numbers if left out."""
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 1)).astype(np.float32)
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph([helper.make_node("DFT", ["x"], ["y"])], "one", [info], outputs)
    model: Any = graph
    if opset is not None:
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    found = load(model).run({"x": x})["y"]
    axis = 1 if opset is not None and opset < 20 else 2
    want = np.fft.fft(x[..., 0], axis=axis)
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], want, atol=1e-5)


def test_outputs_share_no_memory() -> None:
    """Neither with operands, nor two names of one value, nor a value and its view."""
    nodes = [
        helper.make_node("Neg", ["x"], ["y"]),
        helper.make_node("Identity", ["y"], ["same"]),
        helper.make_node("Neg", ["x"], ["equal"]),
        helper.make_node("Transpose", ["y"], ["turned"]),
        helper.make_node("Identity", ["x"], ["given"]),
        helper.make_node("Split", ["y"], ["left", "right"], axis=1, num_outputs=2),
        helper.make_node("Identity", ["b"], ["carried"]),
    ]
    infos = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, X.shape)]
    names = ["y", "same", "equal", "turned", "given", "left", "right", "carried"]
    outputs = [helper.make_empty_tensor_value_info(name) for name in names]
    tensors = [numpy_helper.from_array(X, "b")]
    model = load(helper.make_graph(nodes, "shared", infos, outputs, tensors))
    x = X.copy()
    found = list(model.run({"x": x}).values())
    for k, one in enumerate(found):
        assert one.flags.writeable
        assert not any(np.shares_memory(one, other) for other in [x, *found[:k]])
        one[...] = 7
    again = model.run({"x": x})
    np.testing.assert_array_equal(again["turned"], -X.T)
    np.testing.assert_array_equal(again["carried"], X)


def test_sizes_of_different_names() -> None:
    infos = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["a+b", "a-b"]),
        helper.make_empty_tensor_value_info("y"),
    ]
    node = helper.make_node("Neg", ["x"], ["y"])
    model = load(helper.make_graph([node], "named", infos[:1], infos[1:]))
    np.testing.assert_array_equal(model.run({"x": X})["y"], -X)


def test_what_a_graph_carries_cannot_be_written() -> None:
    tensor = numpy_helper.from_array(np.array([True, False]), "b")
    outputs = [helper.make_empty_tensor_value_info("y")]
    node = helper.make_node("Identity", ["b"], ["y"])
    result = load(helper.make_graph([node], "carried", [], outputs, [tensor])).run({})["y"]
    assert not result.flags.writeable or not np.shares_memory(result, result.base)


@pytest.mark.parametrize("shape", [(1,) * 70, (0, 2**62, 2**62)])
def test_tensors_that_numpy_has_not(shape: Any) -> None:
    tensor = onnx.TensorProto(dims=shape, data_type=1, raw_data=bytes(4 * (0 not in shape)))
    tensor.name = "b"
    outputs = [helper.make_empty_tensor_value_info("y")]
    node = helper.make_node("Identity", ["b"], ["y"])
    with pytest.raises(FileFormatError):
        load(helper.make_graph([node], "huge", [], outputs, [tensor])).run({})


def head(name: bytes, shape: tuple[int, ...]) -> bytes:
    start = b"elt1" + bytes((len(name), len(shape))) + name + np.array(shape, "<i8").tobytes()
    return start + bytes(-len(start) % 64)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (b"float64", (0, 2**62, 2**62)), (b"float64", (0,) * 70), (b"str", (0,)), (b"void", (0,)),
        (b"object", (0,)), (b"\x00", (0,)), (b"S0", (0,)), (b"f8", (0,)),
    ],
)  # fmt: skip
def test_heads_that_are_no_arrays(name: bytes, shape: tuple[int, ...]) -> None:
    with pytest.raises(FileFormatError):
        wire.decode(head(name, shape))


@pytest.mark.parametrize("dtype", ["O", "M8[s]", "g"])
def test_arrays_without_bytes_of_their_own(dtype: str) -> None:
    with pytest.raises(DTypeError, match="convert"):
        wire.encode(np.zeros(2, dtype))


def test_cancelled_calls_tell_who_waits() -> None:
    infos = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 3]) for n in "xy"]
    node = helper.make_node("Neg", ["x"], ["y"])
    model = load(helper.make_graph([node], "later", infos[:1], infos[1:]))
    begun, go = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go.wait(10)

    first = submit(hold, ())
    assert begun.wait(10)
    future = model.submit({"x": X})
    assert future.cancel()
    go.set()
    first.result(10)
    assert concurrent.futures.wait([future], timeout=10).done == {future}
    assert future.cancelled()
    np.testing.assert_array_equal(model.submit({"x": X}).result(10)["y"], -X)


class Plain(OnnxBackend):
    """Two ops of NumPy."""

    def reshape(self, a: Any, shape: Any) -> Any:
        return np.reshape(a, shape)

    def add(self, a: Any, b: Any) -> Any:
        raise TypeError("a method's own words")


def graph_of(node: Any, *tensors: Any) -> Any:
    inputs = [helper.make_empty_tensor_value_info("x")]
    outputs = [helper.make_empty_tensor_value_info("y")]
    return helper.make_graph([node], "own", inputs, outputs, tensors)


def test_methods_of_a_backend() -> None:
    shape = numpy_helper.from_array(np.array([3, 2]), "s")
    node = helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=0)
    assert Plain().execute(graph_of(node, shape), {"x": X})["y"].shape == (3, 2)
    with pytest.raises(EinloomError, match="make it a constant"):
        Plain().execute(graph_of(node, shape), {"x": X, "s": np.array([6])})
    with pytest.raises(TypeError, match=r"^a method's own words$"):
        Plain().execute(graph_of(helper.make_node("Add", ["x", "x"], ["y"])), {"x": X})

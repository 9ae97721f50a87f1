"""What the contract of a backend of graphs and wire says, clause by clause."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from einloom import ConversionError, compile
from einloom.interop.onnx import OnnxBackend, load
from einloom.interop.wire import ARRAY, decode, default_decoders, encode

onnx = pytest.importorskip("onnx", reason="graphs of ONNX need the extra `onnx`")


class Nothing:
    """A tensor of which nobody knows anything."""


class Passing(OnnxBackend):
    def identity(self, a: Any) -> Any:
        return a


class Noting(OnnxBackend):
    """Whole graphs, of which it notes the attributes."""

    def execute(self, graph: Any, inputs: Any, attrs: Any = None) -> dict[str, Any]:
        (node,) = graph.node
        found = {x.name: onnx.helper.get_attribute_value(x) for x in node.attribute}
        return {x.name: (node.op_type, found) for x in graph.output}


def graph(nodes: list[Any], inputs: str = "x", outputs: str = "y") -> Any:
    infos = [
        [onnx.helper.make_empty_tensor_value_info(n) for n in some] for some in (inputs, outputs)
    ]
    return onnx.helper.make_graph(nodes, "g", *infos)


def test_all_methods_have_defaults() -> None:
    """Thirty ops, and three methods for graphs and wire: a backend that defines one has them all."""
    own = {name for name, value in vars(OnnxBackend).items() if name[0] != "_" and callable(value)}
    assert len(own) == 33
    assert {"execute", "dispatch", "materialize_from_wire", "constant", "add", "gather"} <= own
    assert all(callable(getattr(Passing(), name)) for name in own)


def test_tensors_pass_unchanged() -> None:
    """Between nodes, through identities, and out again, whatever they are."""
    nodes = [onnx.helper.make_node("Identity", ["x"], ["h"])]
    nodes.append(onnx.helper.make_node("Identity", ["h"], ["y"]))
    tensor = Nothing()
    assert Passing().execute(graph(nodes), {"x": tensor})["y"] is tensor
    assert Passing().dispatch(graph(nodes), {"x": tensor}, None, None)["y"] is tensor  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64"]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)], ids=str)
def test_constants_are_their_protos(dtype: str, shape: tuple[int, ...]) -> None:
    """Rank, dtype and bytes are those of the proto, for programs as for methods."""
    want = np.arange(-2, -2 + int(np.prod(shape))).reshape(shape).astype(dtype)
    proto = onnx.numpy_helper.from_array(want)
    made = graph([onnx.helper.make_node("Constant", [], ["y"], value=proto)], inputs="")
    for got in (
        load(made).run({})["y"],
        Passing().execute(made, {})["y"],
        Passing().constant(proto),
    ):
        assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())


def test_results_are_no_views_of_inputs() -> None:
    """Previously failed: a graph that only moves axes handed out the caller's memory, or an initializer's."""
    x, w = np.arange(6.0).reshape(2, 3), np.ones(3)
    helper = onnx.helper
    nodes = [
        helper.make_node("Transpose", ["x"], ["y"]),
        helper.make_node("Identity", ["w"], ["z"]),
    ]
    given = helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, [2, 3])
    outputs = [helper.make_empty_tensor_value_info(name) for name in "yz"]
    model = load(
        helper.make_graph(nodes, "g", [given], outputs, [onnx.numpy_helper.from_array(w, "w")])
    )
    got = model.run({"x": x})
    assert not np.shares_memory(got["y"], x)
    np.testing.assert_array_equal(got["y"], x.T)
    got["z"][:] = 7
    np.testing.assert_array_equal(model.run({"x": x})["z"], w)


def test_tensors_are_shared_between_threads() -> None:
    """One tensor is read by many calls at once, and handed on from the thread that made it, writeable or not,
    in any layout; who writes to a result of his own disturbs nobody."""
    helper = onnx.helper
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Add", ["h", "x"], ["y"]),
        helper.make_node("Transpose", ["x"], ["z"]),
    ]
    rng = np.random.default_rng(3)
    w = rng.integers(-3, 4, (40, 40)).astype("f8")
    given = helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, [40, 40])
    outputs = [helper.make_empty_tensor_value_info(name) for name in "yz"]
    initial = [onnx.numpy_helper.from_array(w, "w")]
    model = load(helper.make_graph(nodes, "g", [given], outputs, initial))
    x = rng.integers(-3, 4, (80, 40)).astype("f8")[::2].T
    x.flags.writeable = False

    def call(tensor: Any) -> tuple[Any, Any]:
        made = model.run({"x": tensor})
        kept = {name: array.copy() for name, array in made.items()}
        for array in made.values():
            array[...] = np.nan
        return kept["y"], kept["z"]

    with ThreadPoolExecutor(8) as pool:
        for y, z in pool.map(call, [x] * 64):
            np.testing.assert_array_equal(y, x @ w + x)
            np.testing.assert_array_equal(z, x.T)
        moved = pool.submit(lambda: model.run({"x": x})["y"]).result()
        y, _ = pool.submit(call, moved).result()
    np.testing.assert_array_equal(y, moved @ w + moved)


def test_thousands_of_nodes() -> None:
    """A walk, not a recursion."""
    names = ["x", *(f"h{k}" for k in range(1999)), "y"]
    nodes = [onnx.helper.make_node("Identity", [a], [b]) for a, b in pairwise(names)]
    assert Passing().execute(graph(nodes), {"x": 7}) == {"y": 7}


def test_attributes_of_a_call_accompany_the_graph() -> None:
    class Attributes(OnnxBackend):
        def execute(self, graph: Any, inputs: Any, attrs: Any = None) -> dict[str, Any]:
            return {"y": attrs}

    given = {"limit": 3}
    assert Attributes().dispatch(graph([]), {}, given, None)["y"] is given  # type: ignore[arg-type]


def test_shapes_and_axes_in_any_form() -> None:
    """Previously failed: the empty shape, and axes as an array, in graphs of one node."""
    assert Noting().reshape(1, ()) == ("Reshape", {"shape": []})
    assert Noting().reduce_sum(1, np.array([0, 2])) == ("ReduceSum", {"axes": [0, 2]})
    assert Noting().reduce_sum(1, (), keepdims=np.int64(0)) == ("ReduceSum", {"keepdims": 0})


def test_split_by_number() -> None:
    """Previously failed: `num_outputs`, and parts that nobody sized."""

    class Splitting(OnnxBackend):
        def split(self, x: Any, axis: int, sizes: Any) -> Any:
            return np.split(x, np.cumsum(sizes)[:-1], axis)

    x = np.arange(5.0)
    for more in ({"num_outputs": 2}, {}):
        nodes = [onnx.helper.make_node("Split", ["x"], ["a", "b"], **more)]
        got = Splitting().execute(graph(nodes, outputs="ab"), {"x": x})
        np.testing.assert_array_equal(got["a"], x[:3])
        np.testing.assert_array_equal(got["b"], x[3:])


def test_the_default_decoder_serves_every_backend() -> None:
    """Bytes and a hash become an array, for a backend that says nothing of wires."""
    want = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(Passing().materialize_from_wire(ARRAY, encode(want)), want)
    np.testing.assert_array_equal(default_decoders().decode(ARRAY, encode(want)), want)


def test_the_array_keeps_the_bytes() -> None:
    """One buffer, of which no second copy is kept: the array holds it, the caller may let go."""
    data = bytearray(encode(np.ones(4)))
    got = decode(data)
    if np.shares_memory(got, np.frombuffer(data, np.uint8)):  # where the bytes happen to be aligned
        with pytest.raises(BufferError):
            data.append(0)  # it is held
    del data
    gc.collect()
    np.testing.assert_array_equal(got, np.ones(4))


def test_arrays_of_a_gpu_name_the_download() -> None:
    """What runs on the CPU alone tells what looks as a CuPy array to come there explicitly."""
    array = type("ndarray", (), {"__module__": "cupy", "shape": (2,), "dtype": np.dtype("f8")})()
    with pytest.raises(ConversionError, match=r"\.get\(\)"):
        compile("i->", (2,))(array)

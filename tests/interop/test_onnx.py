"""Graphs of ONNX: names, sizes, both sides of a backend, malformed graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from einloom import CallError, EinloomError, FileFormatError, OrderError, ProgramError, Unsupported
from einloom.interop.onnx import LATER, Completion, OnnxBackend, load

onnx = pytest.importorskip("onnx", reason="graphs of ONNX need the extra `onnx`")
X, W = np.arange(6, dtype="f4").reshape(2, 3), np.arange(12, dtype="f4").reshape(3, 4)


def graph_of(*nodes: Any, outputs: tuple[str, ...] = ("y",), shape: Any = ("n", 3)) -> Any:
    helper = onnx.helper
    x = helper.make_tensor_value_info("x", 1, shape)
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    fixed = [onnx.numpy_helper.from_array(a, n) for n, a in {"w": W, "axes": np.array([1])}.items()]
    return helper.make_graph([helper.make_node(*node) for node in nodes], "g", [x], results, fixed)


CHAIN = (("MatMul", ["x", "w"], ["h"]), ("ReduceSum", ["h", "axes"], ["y"]))
WANT = (X @ W).sum(1, keepdims=True)


def test_forms_and_names() -> None:
    graph = graph_of(*CHAIN, outputs=("y", "h"))
    proto = onnx.helper.make_model(graph)
    for form in (graph, proto, proto.SerializeToString()):
        got = load(form).run({"x": X})
        assert list(got) == ["y", "h"]
        np.testing.assert_array_equal(got["y"], WANT)
    np.testing.assert_array_equal(load(graph).submit({"x": X}).result()["y"], WANT)


def test_template_has_names_of_sizes() -> None:
    assert load(graph_of(("MatMul", ["x", "w"], ["y"]))).template().names == ("n",)


MALFORMED = {
    "missing input": ([("Neg", ["z"], ["y"])], "reads 'z'"),
    "not in order": ([("Neg", ["h"], ["y"]), ("Neg", ["x"], ["h"])], "reads 'h'"),
    "twice": ([("Neg", ["x"], ["y"]), ("Abs", ["x"], ["y"])], "there already"),
    "unknown op": ([("Conv", ["x", "w"], ["y"])], "no such op"),
    "never made": ([("Neg", ["x"], ["h"])], "made by no node"),
    "too few inputs": ([("Add", ["x"], ["y"])], "inputs or attributes"),
    "too many outputs": ([("Neg", ["x"], ["y", "z"])], "declares 2"),
    "parameter at run time": ([("ReduceSum", ["x", "x"], ["y"])], "make it a constant"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(name: str) -> None:
    nodes, said = MALFORMED[name]
    with pytest.raises(EinloomError, match=said):
        load(graph_of(*nodes)).compile({"x": (2, 3)})


def test_refused_calls_and_bytes() -> None:
    data = onnx.helper.make_model(graph_of(*CHAIN)).SerializeToString()
    for n in range(0, len(data), 7):
        with pytest.raises(EinloomError):
            load(data[:n]).run({"x": X})
    with pytest.raises(FileFormatError):
        load(b"\xff" * 40)
    for inputs in ({}, {"z": X}, {"x": X.astype("f8")}, {"x": X[0]}):
        with pytest.raises(EinloomError, match="onnx: "):
            load(data).run(inputs)


class ByOps(OnnxBackend):
    def matmul(self, a: Any, b: Any) -> Any:
        return a @ b

    def reduce_sum(self, a: Any, axes: Any, keepdims: Any) -> Any:
        return a.sum(tuple(axes), keepdims=bool(keepdims))

    def identity(self, a: Any) -> Any:
        return a


class ByGraphs(OnnxBackend):
    def execute(self, graph: Any, inputs: Any, attrs: Any = None) -> Any:
        return {graph.output[0].name: [graph.node[0].op_type, *inputs.values()]}


def test_each_side_gives_the_other() -> None:
    np.testing.assert_array_equal(ByOps().execute(graph_of(*CHAIN), {"x": X})["y"], WANT)
    one = object()
    assert ByGraphs().neg(one)[1] is one  # no clone
    found = ByOps().execute(graph_of(("Identity", ["x"], ["y"])), {"x": one})
    assert found == {"y": one}
    assert ByGraphs().add(1, 2) == ["Add", 1, 2]


def test_neither_side_is_a_type_error() -> None:
    with pytest.raises(CallError, match="neither"):
        type("Neither", (OnnxBackend,), {})
    assert issubclass(CallError, TypeError)


def test_dispatch_completes_once() -> None:
    completion = Completion()
    found = ByOps().dispatch(graph_of(*CHAIN), {"x": X}, None, completion)
    assert found is not LATER
    completion.complete(found)
    assert completion.future.result() is found
    with pytest.raises(OrderError, match="once"):
        completion.complete(found)


def test_errors_of_a_walk_are_typed() -> None:
    with pytest.raises(ProgramError, match="not given"):
        ByOps().execute(graph_of(*CHAIN), {})
    with pytest.raises(Unsupported, match="no such op"):
        ByOps().execute(graph_of(("Sin", ["x"], ["y"])), {"x": X})

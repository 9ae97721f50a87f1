"""The official node cases of ONNX (the package `onnx`, Apache-2.0), each as a program of the catalogue's ops.

The cases are made in memory. What ONNX hands over as tensors and the program needs when it is made (axes,
shapes, sizes of windows) becomes attributes.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest

from einloom.backend.spec import is_lowprec
from einloom.interop.onnx import OPS, load
from einloom.interop.onnx.ops import FOLDED

onnx = pytest.importorskip("onnx", reason="the official cases come with the extra `test`")

THIRTY = (
    "Add", "Sub", "Mul", "Div", "Neg", "Abs", "Sqrt", "Pow", "Exp", "Log", "MatMul", "ReduceSum",
    "ReduceMean", "ReduceMax", "ReduceMin", "Reshape", "Transpose", "Concat", "Slice", "Split",
    "Squeeze", "Unsqueeze", "Identity", "Cast", "Equal", "Greater", "Less", "Where", "Constant", "Gather",
)  # fmt: skip
NAMED = (
    "Einsum", "GatherElements", "ScatterElements", "GatherND", "ScatterND", "CumSum", "ArgMax",
    "ArgMin", "TopK", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Trilu", "Pad", "Col2Im", "DFT",
)  # fmt: skip
OTHERS = tuple(sorted(set(OPS) - set(THIRTY) - set(NAMED)))

DECLINED = {
    "test_identity_sequence": "a sequence of tensors is no array",
    "test_identity_opt": "an optional value is no array",
}
STRINGS = ("test_equal_string", "test_equal_string_broadcast")  # no numbers: `load` refuses them
"""Cases that are not on dtypes of ours, with the reason."""


def cases_of(ops: tuple[str, ...]) -> list[Any]:
    """Of these ops; they are made when their module is imported, once in a process."""
    package = import_module("onnx.backend.test.case.node")
    modules = {x.name.replace("_", ""): x.name for x in iter_modules(package.__path__)}
    state = np.random.get_state()  # noqa: NPY002 - the cases seed NumPy's global generator
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for op in ops:
            import_module(f"{package.__name__}.{modules[op.lower()]}")
    np.random.set_state(state)  # noqa: NPY002
    cases = package._NodeTestCases
    return [case for case in cases if len(case.model.graph.node) == 1 and of(case) in ops]


def of(case: Any) -> str:
    return str(case.model.graph.node[0].op_type)


def as_array(x: Any) -> Any:
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)


CASES = [
    case for case in cases_of((*THIRTY, *NAMED, *OTHERS)) if case.name not in {*DECLINED, *STRINGS}
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Any) -> None:
    (node,) = case.model.graph.node
    for inputs, outputs in case.data_sets:
        got = run(node, [as_array(x) for x in inputs])
        assert len(got) == len(outputs)
        for one, want in zip(got, map(as_array, outputs), strict=True):
            assert_is(one, want)


def run(node: Any, arrays: list[Any]) -> tuple[Any, ...]:
    """The node as a graph of its own: what it needs to know before it runs is an initializer."""
    names = [name for name in node.input if name]
    given = dict(zip(names, arrays, strict=True))
    folded = {node.input[k] for k in FOLDED.get(node.op_type, ()) if k < len(node.input)}
    helper = onnx.helper
    stated = [stated_as(name, x) for name, x in given.items() if name not in folded]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    fixed = [onnx.numpy_helper.from_array(given[x], x) for x in names if x in folded]
    graph = helper.make_graph([node], "case", stated, outputs, fixed)
    found = load(graph).run({name: x for name, x in given.items() if name not in folded})
    assert list(found) == list(node.output)
    return tuple(found.values())


def stated_as(name: str, x: Any) -> Any:
    number = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    return onnx.helper.make_tensor_value_info(name, number, x.shape)


def assert_is(got: Any, want: Any) -> None:
    """Dtype and shape exactly; numbers too, but for the rounding of what is computed."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    bound = BOUNDS.get(want.dtype.name)
    if bound is None:
        exact = object if want.dtype.kind == "O" else "f8" if is_lowprec(want.dtype) else want.dtype
        np.testing.assert_array_equal(got.astype(exact), want.astype(exact))
    else:
        got, want = got.astype("f8"), want.astype("f8")
        scale = abs(want).max(initial=0, where=np.isfinite(want))
        np.testing.assert_allclose(got, want, rtol=bound, atol=bound / 10 * scale)


BOUNDS = {"bfloat16": 2**-7, "float16": 2**-10, "float32": 1e-5, "float64": 1e-12}


def test_the_thirty_ops_have_263_cases() -> None:
    assert len(THIRTY) == 30
    assert len(cases_of(THIRTY)) == 263
    assert {of(case) for case in cases_of(THIRTY)} == set(THIRTY)
    assert {of(case) for case in cases_of(NAMED)} == set(NAMED)


def test_what_is_declined_is_no_tensor() -> None:
    kinds = {
        case.name: case.model.graph.input[0].type.WhichOneof("value")
        for case in cases_of(THIRTY)
        if case.name in DECLINED
    }
    assert set(kinds) == set(DECLINED)
    assert "tensor_type" not in kinds.values()

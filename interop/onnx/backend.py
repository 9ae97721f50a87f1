"""A backend by single ops or by whole graphs: each side is made of the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from ..._base.errors import CallError, OrderError, ProgramError, Unsupported
from ..wire import default_decoders
from .check import check
from .lower import attribute, check_call, check_outputs, told_of
from .lower import constant_of as constant_of_node
from .model import protobuf
from .ops import FOLDED
from .tensors import array_of

BY_INPUTS = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs",
    "sqrt": "Sqrt", "pow": "Pow", "exp": "Exp", "log": "Log", "matmul": "MatMul",
    "identity": "Identity", "equal": "Equal", "greater": "Greater", "less": "Less",
    "where": "Where",
}  # fmt: skip
WITH_ATTRIBUTES: dict[str, tuple[str, tuple[str, ...]]] = {
    "reduce_sum": ("ReduceSum", ("axes", "keepdims")),
    "reduce_mean": ("ReduceMean", ("axes", "keepdims")),
    "reduce_max": ("ReduceMax", ("axes", "keepdims")),
    "reduce_min": ("ReduceMin", ("axes", "keepdims")),
    "reshape": ("Reshape", ("shape",)),
    "transpose": ("Transpose", ("perm",)),
    "concat": ("Concat", ("axis",)),
    "slice": ("Slice", ("starts", "ends", "axes", "steps")),
    "split": ("Split", ("axis", "split")),
    "squeeze": ("Squeeze", ("axes",)),
    "unsqueeze": ("Unsqueeze", ("axes",)),
    "cast": ("Cast", ("to",)),
    "gather": ("Gather", ("axis",)),
}
DEFAULTS: dict[str, Any] = {
    "axes": (), "keepdims": 1, "perm": (), "axis": 0, "steps": (), "split": (), "to": 1,
}  # fmt: skip
METHODS = {op: (name, ()) for name, op in BY_INPUTS.items()} | {
    op: (name, attrs) for name, (op, attrs) in WITH_ATTRIBUTES.items()
}
"""The method of each op, and the attributes that it takes behind the tensors, in order."""
METHODS_BY_NAME = tuple(name for name, _ in METHODS.values())
OPS_OF_METHODS = frozenset({*METHODS, "Constant"})
UNARY = ("Neg", "Abs", "Sqrt", "Exp", "Log", "Identity")


class Completion:
    """Completed once, with results or an error, from any thread; `future` has them."""

    def __init__(self) -> None:
        self.future: Future[Mapping[str, Any]] = Future()
        self._lock, self._done = Lock(), False

    def complete(self, results: Mapping[str, Any] | BaseException) -> None:
        """Raises OrderError when it was completed before."""
        with self._lock:
            if self._done:
                raise OrderError("completion: it was completed before; complete it once")
            self._done = True
        if not self.future.set_running_or_notify_cancel():
            return  # nobody waits for it any more
        if isinstance(results, BaseException):
            self.future.set_exception(results)
        else:
            self.future.set_result(results)


LATER = object()
"""What `dispatch` answers that keeps the completion and completes it when the results are there."""


class OnnxBackend:
    """The ops of ONNX by method, `execute` for graphs, `dispatch`, and tensors from bytes.

    A subclass defines ops, or `execute`: what it leaves out is made of the other. An op that is not
    defined becomes a graph of one node for `execute`; `execute` that is not defined calls the ops node
    by node. Tensors are passed on as they are, never copied, whatever their type.

    Raises:
        CallError: when a subclass is made that defines neither.

    >>> class Plain(OnnxBackend):
    ...     def add(self, a, b):
    ...         return a + b
    >>> Plain().add(1, 2)
    3
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = [
            name for name in METHODS_BY_NAME if getattr(cls, name) is not getattr(OnnxBackend, name)
        ]
        if not own and cls.execute is OnnxBackend.execute:
            raise CallError(
                f"{cls.__name__} defines neither an op nor execute; each is made of the other"
            )

    def execute(self, graph: Any, inputs: Mapping[str, Any], attrs: Any = None) -> dict[str, Any]:
        """The graph's outputs by name, node by node; checked before the first of them runs."""
        check(graph, OPS_OF_METHODS)
        given = {x.name: x for x in graph.initializer}
        values = dict(inputs)
        for name in [x.name for x in graph.input]:
            if name not in values and name not in given:
                raise ProgramError(f"onnx: input {name!r:.60} is not given")
        known = {name: array_of(x) for name, x in given.items() if name not in values}
        values.update((name, self.constant(x)) for name, x in given.items() if name not in values)
        for number, node in enumerate(graph.node):
            with told_of(node, number):
                call = self._prepared(node, values, known)
            found = call()  # what a method raises is passed on as it is
            made = found if node.op_type == "Split" else (found,)
            with told_of(node, number):
                check_outputs(node, len(made))
            values.update(zip(node.output, made, strict=True))
        return {x.name: values[x.name] for x in graph.output}

    def _prepared(
        self, node: Any, values: Mapping[str, Any], known: dict[str, Any]
    ) -> Callable[[], Any]:
        """The call of the method for a node, on its operands."""
        attributes = {x.name: attribute(x) for x in node.attribute}
        if node.op_type == "Constant":
            known[node.output[0]] = constant_of_node(attributes)
            value = attributes.get("value")
            if value is None:
                value = protobuf().numpy_helper.from_array(known[node.output[0]])
            return partial(self.constant, value)
        folded = FOLDED[node.op_type]
        operands = [values[n] for k, n in enumerate(node.input) if n and k not in folded]
        for position, keyword in folded.items():
            if position < len(node.input) and (name := node.input[position]):
                if name not in known:
                    raise Unsupported(
                        f"{keyword} is {name!r:.60}; make it a constant or an initializer"
                    )
                attributes[keyword] = known[name].reshape(-1).tolist()
        check_call(node.op_type, operands, len(node.output), attributes)
        if node.op_type == "Split" and "split" not in attributes:
            attributes["split"] = _equal_parts(operands[0], attributes, len(node.output))
        name, keywords = METHODS[node.op_type]
        for plain in ("allowzero", "noop_with_empty_axes"):  # 0 is what a method does anyway
            if attributes.get(plain) == 0:
                del attributes[plain]
        if more := attributes.keys() - set(keywords):
            raise Unsupported(f"the method {name} takes no attribute {min(more)!r:.60}")
        given = [attributes.get(key, DEFAULTS.get(key)) for key in keywords]
        tensors = [operands] if node.op_type == "Concat" else operands
        return partial(getattr(self, name), *tensors, *given)

    def dispatch(
        self, graph: Any, inputs: Mapping[str, Any], attrs: Any, completion: Completion
    ) -> Any:
        """A whole subgraph: its results now, or `LATER`, and then by `completion`. By default now."""
        return self.execute(graph, inputs, attrs)

    def materialize_from_wire(self, type_hash: int, data: bytes | bytearray) -> Any:
        """The tensor in these bytes, which are the backend's own from now on."""
        return default_decoders().decode(type_hash, data)

    def constant(self, value: Any) -> Any:
        """The tensor that a TensorProto holds; by default an array."""
        return array_of(value)

    def _one_node(
        self, op: str, tensors: Sequence[Any], attributes: Mapping[str, Any], count: int
    ) -> Any:
        helper = protobuf().helper
        names = [f"in{k}" for k in range(len(tensors))]
        outputs = [f"out{k}" for k in range(count)]
        node = helper.make_node(op, names, outputs)
        node.attribute.extend(
            helper.make_attribute(key, value, attr_type=7 if isinstance(value, list) else 2)
            for key, value in attributes.items()
        )
        infos = [
            [helper.make_empty_tensor_value_info(x) for x in some] for some in (names, outputs)
        ]
        graph = helper.make_graph([node], op, *infos)
        found = self.execute(graph, dict(zip(names, tensors, strict=True)))
        if missing := [name for name in outputs if name not in found]:
            raise ProgramError(f"onnx: execute of {op} gave no output {missing[0]!r}")
        return [found[name] for name in outputs] if op == "Split" else found[outputs[0]]


def _equal_parts(x: Any, attributes: dict[str, Any], outputs: int) -> list[int]:
    """Sizes of `num_outputs` parts, the last of which may be smaller; as many as outputs if not told."""
    count = int(attributes.pop("num_outputs", outputs))
    if not hasattr(x, "shape"):
        raise Unsupported("Split without sizes of a tensor without a shape; give `split`")
    n = int(x.shape[int(attributes.get("axis", 0))])
    size = -(-n // count)
    return [max(0, min(size, n - k * size)) for k in range(count)]


def _method(name: str, op: str, keywords: tuple[str, ...]) -> Callable[..., Any]:
    tensors = {"Where": 3, "Gather": 2}.get(op, 1 if keywords or op in UNARY else 2)

    def method(self: OnnxBackend, *args: Any, **named: Any) -> Any:
        operands = list(args[0]) if op == "Concat" and args else list(args[:tensors])
        if len(args) < tensors or len(args) > tensors + len(keywords):
            raise CallError(
                f"{name}: takes {tensors} tensors and {list(keywords)}; got {len(args)}"
            )
        given = dict(zip(keywords, args[tensors:], strict=False)) | named
        if more := given.keys() - set(keywords):
            raise CallError(f"{name}: there is no argument {min(more)!r}")
        plain = {k: [int(n) for n in v] if np.ndim(v) else int(v) for k, v in given.items()}
        attributes = {k: v for k, v in plain.items() if v != [] or k == "shape"}  # () is a shape
        count = len(plain.get("split", ())) or 1 if op == "Split" else 1  # type: ignore[arg-type]
        return self._one_node(op, operands, attributes, count)

    method.__name__, method.__qualname__ = name, f"OnnxBackend.{name}"
    said = ", ".join(keywords)
    method.__doc__ = (
        f"{op} of ONNX{f', with {said}' if said else ''}; by `execute` unless it is defined."
    )
    return method


for _op, (_name, _keywords) in METHODS.items():
    setattr(OnnxBackend, _name, _method(_name, _op, _keywords))

"""An imported graph: compiled once for each set of shapes, run on arrays by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from os import PathLike, fspath
from threading import Lock
from typing import Any

import numpy as np

from ..._base.errors import CallError, DTypeError, FileFormatError, ShapeError, Unsupported
from ..._base.options import options as with_options
from ...backend.cpu import cpu
from ...backend.dims import dim
from ...backend.door import as_ndarray
from ...backend.protocol import Backend
from ...backend.spec import ArraySpec, dtype_name
from ...program.executable import Executable, unshared
from ...program.passes import optimise
from ...program.template import ProgramTemplate
from .check import check
from .lower import DOMAINS, Array, lower
from .tensors import dtype_of

KEPT = 16  # compiled graphs of one model


def load(model: Any, *, backend: Backend | None = None) -> OnnxModel:
    """Import a graph of ONNX.

    Args:
        model: path of a file, its bytes, or a ModelProto or GraphProto of the package `onnx`.
        backend: of the CPU, with threads of its own for example; default the one that everybody has.

    Returns:
        OnnxModel: `run({name: array})` gives the outputs by name.

    Raises:
        FileFormatError: the bytes are no model, or a tensor in it is damaged.
        ProgramError: the graph is malformed; node and name are told.
        Unsupported: an op is not known here, or the package `onnx` is not installed.

    Source: the ONNX specification, https://onnx.ai/onnx/repo-docs/IR.html
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        model = _parsed(bytes(model))
    elif isinstance(model, (str, PathLike)):
        model = _read(fspath(model))
    graph = getattr(model, "graph", model)
    if not hasattr(graph, "node") or not hasattr(graph, "initializer"):
        raise CallError(
            f"onnx.load: a {type(model).__name__} is no model; give a path, bytes, or a ModelProto"
        )
    return OnnxModel(graph, cpu() if backend is None else backend, _opset(model))


def protobuf() -> Any:
    """The package `onnx`."""
    try:
        import onnx
    except ImportError:
        raise Unsupported(
            "onnx: reading models needs the package onnx; install einloom[onnx]"
        ) from None
    return onnx


def _parsed(data: bytes) -> Any:
    onnx = protobuf()
    from google.protobuf.message import DecodeError

    try:
        model = onnx.ModelProto.FromString(data)
    except (DecodeError, ValueError) as error:
        raise FileFormatError(f"onnx.load: {len(data)} bytes are no model: {error}") from None
    if not model.HasField("graph"):
        raise FileFormatError(f"onnx.load: a model without a graph in {len(data)} bytes")
    return model


def _read(path: Any) -> Any:
    with open(path, "rb") as file:
        return _parsed(file.read())


class OnnxModel:
    """A graph whose inputs and outputs keep their names.

    The graph is checked when the model is made and lowered in one walk for the shapes that it is run on;
    the last sixteen compiled forms are kept, and safe from several threads.

    Attributes:
        inputs: dtype and shape by name; a size that the graph names is a name here too.
        outputs: names of the results.
        opset: version of the ops that the model states; None, for a graph alone, is the newest.
    """

    def __init__(self, graph: Any, backend: Backend, opset: int | None = None) -> None:
        check(graph)
        self.graph, self.backend, self.opset = type(graph)(), backend, opset
        self.graph.CopyFrom(graph)  # the caller's may change
        carried = {x.name for x in graph.initializer}
        own = [x for x in graph.input if x.name not in carried]
        self.inputs: dict[str, ArraySpec] = {x.name: _spec(x) for x in own}
        self.outputs: tuple[str, ...] = tuple(x.name for x in graph.output)
        self._compiled: OrderedDict[Any, CompiledModel] = OrderedDict()
        self._lock = Lock()

    def template(self, sizes: Mapping[str, int] | None = None) -> ProgramTemplate:
        """The program for sizes known later; `sizes` are those that contractions are planned for.

        Inputs are those of the graph, then the arrays that it carries. An op that needs integers raises
        `Unsupported`; `compile(shapes)` lowers with integers.
        """
        return lower(self.graph, self.inputs, sizes or {}, self.opset).template

    def compile(
        self, shapes: Mapping[str, tuple[int, ...]] | None = None, **options: Any
    ) -> CompiledModel:
        """The graph for these shapes; by default those that it states. `options` are einloom's."""
        given = {name: spec.shape for name, spec in self.inputs.items()} | dict(shapes or {})
        if unknown := given.keys() - self.inputs.keys():
            raise CallError(f"onnx: {self._names()}; there is no {min(unknown)!r:.60}")
        specs = self._bound(given)
        key = (tuple((name, spec.shape) for name, spec in specs.items()), repr(options))
        with self._lock:
            found = self._compiled.get(key)
        if found is None:
            with with_options(**options):
                found = CompiledModel(self, specs)
        with self._lock:
            self._compiled[key] = found
            self._compiled.move_to_end(key)
            while len(self._compiled) > KEPT:
                self._compiled.popitem(last=False)
        return found

    def run(self, inputs: Mapping[str, Any], **options: Any) -> dict[str, Array]:
        """The outputs by name; nothing runs before names, dtypes and shapes have been checked."""
        arrays = self._arrays(inputs)
        return self.compile({n: x.shape for n, x in arrays.items()}, **options).run(arrays)

    def submit(self, inputs: Mapping[str, Any], **options: Any) -> Future[dict[str, Array]]:
        """`run` by the thread of the device; the arrays must stay as they are until it is done."""
        arrays = self._arrays(inputs)
        return self.compile({n: x.shape for n, x in arrays.items()}, **options).submit(arrays)

    def _names(self) -> str:
        return f"the inputs are {', '.join(map(repr, self.inputs)) or 'none'}"

    def _arrays(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        if not isinstance(inputs, Mapping) or inputs.keys() != self.inputs.keys():
            got = list(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
            raise CallError(f"onnx: {self._names()}; got {got!r:.200}")
        found = {}
        for number, (name, spec) in enumerate(self.inputs.items()):
            array = as_ndarray(inputs[name], f"onnx: input {name!r:.60}", number)
            if array.dtype != spec.dtype:
                raise DTypeError(
                    f"onnx: input {name!r:.60} is {array.dtype}, the graph says {spec.dtype}; "
                    f"convert it by .astype"
                )
            found[name] = array
        return found

    def _bound(self, shapes: Mapping[str, tuple[Any, ...]]) -> dict[str, ArraySpec]:
        """Integers for every size; one name has one size."""
        sizes: dict[Any, int] = {}
        for name, spec in self.inputs.items():
            shape = shapes[name]
            if len(shape) != len(spec.shape):
                raise ShapeError(f"onnx: input {name!r:.60} has shape {shape}, stated is {spec}")
            for stated, n in zip(spec.shape, shape, strict=True):
                if not isinstance(n, int):
                    raise ShapeError(
                        f"onnx: input {name!r:.60} has the size {n}; give compile its shape"
                    )
                want = stated if isinstance(stated, int) else sizes.setdefault(str(stated), n)
                if n != want or n < 0:
                    raise ShapeError(
                        f"onnx: input {name!r:.60} has shape {tuple(shape)}, stated is {spec}: "
                        f"{stated} is {want}"
                    )
        return {n: ArraySpec(x.dtype, tuple(shapes[n])) for n, x in self.inputs.items()}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}: {spec}" for name, spec in self.inputs.items())
        return f"<onnx ({given}) -> {', '.join(self.outputs)}>"


class _Named(Future[dict[str, Array]]):
    """The results of another future by name; it is cancelled when that is."""

    def __init__(self, inner: Future[Any]) -> None:
        super().__init__()
        self._inner = inner

    def cancel(self) -> bool:
        return self._inner.cancel()

    def give_up(self) -> None:
        super().cancel()
        self.set_running_or_notify_cancel()  # whoever waits is told


class CompiledModel:
    """A graph for one set of shapes: `run`, `submit`; `program` and `peak_bytes` say what runs."""

    def __init__(self, model: OnnxModel, specs: Mapping[str, ArraySpec]) -> None:
        self.inputs, self.outputs = dict(specs), model.outputs
        template, self._carried = lower(model.graph, specs, {}, model.opset)
        shapes = [template.slots[slot].shape for slot in template.inputs]
        self.program = optimise(template.bind(shapes))
        self._executable = Executable(self.program, model.backend)
        self.peak_bytes = self._executable.peak_bytes

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return self._named(self._executable(*self._operands(inputs)))

    def submit(self, inputs: Mapping[str, Array]) -> Future[dict[str, Array]]:
        """`run` by the thread of the device; cancelled until it begins."""
        inner = self._executable.submit(*self._operands(inputs))
        named = _Named(inner)

        def hand_over(done: Future[Any]) -> None:
            if done.cancelled():
                named.give_up()
                return
            named.set_running_or_notify_cancel()
            if (error := done.exception()) is not None:
                named.set_exception(error)
            else:
                named.set_result(self._named(done.result()))

        inner.add_done_callback(hand_over)
        return named

    def _operands(self, inputs: Mapping[str, Array]) -> list[Array]:
        if inputs.keys() != self.inputs.keys():
            raise CallError(f"onnx: the inputs are {list(self.inputs)}; got {list(inputs)}")
        for name, spec in self.inputs.items():
            x = np.asarray(inputs[name])
            if (x.dtype, x.shape) != (spec.dtype, spec.shape):
                raise ShapeError(
                    f"onnx: input {name!r:.60} is {dtype_name(x.dtype)}{list(x.shape)}, compiled "
                    f"for {spec}"
                )
        return [*(np.asarray(inputs[name]) for name in self.inputs), *self._carried]

    def _named(self, found: Any) -> dict[str, Array]:
        results = found if isinstance(found, tuple) else (found,)
        return dict(zip(self.outputs, unshared(results), strict=True))


def _opset(model: Any) -> int | None:
    """The version of the ops of ONNX itself; None where a model states none."""
    stated = [x.version for x in getattr(model, "opset_import", ()) if x.domain in DOMAINS]
    return stated[0] if stated else None


def _spec(value: Any) -> ArraySpec:
    """Dtype and shape that the graph states of an input."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise Unsupported(
            f"onnx: input {value.name!r:.60} is no tensor; give its tensors one by one"
        )
    stated = value.type.tensor_type
    if not stated.HasField("shape"):
        raise Unsupported(f"onnx: input {value.name!r:.60} has no shape; name its axes (dim_param)")
    sizes = [_size(value.name, axis, x) for axis, x in enumerate(stated.shape.dim)]
    return ArraySpec(dtype_of(stated.elem_type), tuple(sizes))


def _size(name: str, axis: int, stated: Any) -> Any:
    """An integer; or a name, which is the axis's own where the graph gives none."""
    if stated.HasField("dim_value"):
        if stated.dim_value < 0:
            raise ShapeError(
                f"onnx: input {name!r:.60} has the size {stated.dim_value} in axis {axis}"
            )
        return stated.dim_value
    text = stated.dim_param or f"{name}.{axis}"
    plain = "".join(c if c.isalnum() else f"_{ord(c):x}_" for c in text)  # other names stay others
    return dim(text if text.isidentifier() else f"d_{plain}")

"""A graph as a template: one walk over its nodes, in their order."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..._base.errors import EinloomError, MemoryLimitError, ProgramError, ShapeError, Unsupported
from ...backend.spec import ArraySpec
from ...program.template import ProgramTemplate
from ...program.trace import Session, Traced
from . import floor, further  # noqa: F401 - they enter their ops
from .ops import FOLDED, NODES
from .tensors import array_of

DOMAINS = ("", "ai.onnx")
# defaults of attributes before a version of the ops changed them
EARLIER: dict[str, tuple[tuple[int, dict[str, Any]], ...]] = {"DFT": ((20, {"axis": 1}),)}

Array = np.ndarray[Any, Any]


class Lowered(NamedTuple):
    """A template, whose inputs are those of the graph and then the arrays that the graph carries."""

    template: ProgramTemplate
    carried: tuple[Array, ...]


def lower(
    graph: Any, inputs: Mapping[str, ArraySpec], sizes: Mapping[str, int], opset: int | None = None
) -> Lowered:
    """The graph for inputs of these dtypes and shapes; a size may be a name.

    Time and space are linear in the number of nodes, but for scatters by max, min and mul, which take their
    indices one by one, and pads by elements. `sizes` are those that contractions are planned for, `opset`
    the version of the ops, None for the newest.
    """
    walk = Walk(graph, Session(dict(sizes)), opset)
    for name, spec in inputs.items():
        walk.values[name] = walk.session.input(spec)
    try:
        for number, node in enumerate(graph.node):
            with told_of(node, number):
                walk.step(node)
        results = [walk.value(x.name) for x in graph.output]
        build = walk.session.build
        own = [x.slot if build.is_fresh(x.slot) else build("copy", x.slot) for x in results]
        template = build.template(*own)  # no result is a view of what the caller may overwrite
    finally:
        walk.session.ended = True
    return Lowered(template, tuple(walk.carried))


class Walk:
    """Values by name: arrays that are known already, and values of the program."""

    def __init__(self, graph: Any, session: Session, opset: int | None) -> None:
        self.session, self.opset = session, opset
        self.known: dict[str, Array] = {x.name: array_of(x) for x in graph.initializer}
        self.values: dict[str, Traced] = {}
        self.carried: list[Array] = []

    def step(self, node: Any) -> None:
        attributes = {x.name: attribute(x) for x in node.attribute}
        if node.op_type == "Constant":
            self.known[node.output[0]] = constant_of(attributes)
            return
        for version, defaults in EARLIER.get(node.op_type, ()):
            if self.opset is not None and self.opset < version:
                attributes = {**defaults, **attributes}
        folded = FOLDED[node.op_type]
        operands = []
        for position, name in enumerate(node.input):
            if position not in folded:
                operands.append(self.value(name) if name else None)
            elif name:
                attributes[folded[position]] = self.parameter(name, folded[position])
        check_call(node.op_type, operands, len(node.output), attributes)
        found = NODES[node.op_type](*operands, count=len(node.output), **attributes)
        made = found if isinstance(found, tuple) else (found,)
        check_outputs(node, len(made))
        self.values.update((n, x) for n, x in zip(node.output, made, strict=False) if n)

    def value(self, name: str) -> Traced:
        """The value of this name; an array that the graph carries becomes an input."""
        if name not in self.values:
            array = self.known[name]
            self.values[name] = self.session.input(ArraySpec(array.dtype, array.shape))
            self.carried.append(array)
        return self.values[name]

    def parameter(self, name: str, keyword: str) -> Array:
        if name not in self.known:
            raise Unsupported(
                f"{keyword} is {name!r:.60}, which is known only when the graph runs; make it a "
                f"constant or an initializer"
            )
        return self.known[name]


def constant_of(attributes: Mapping[str, Any]) -> Array:
    """The value of a Constant: a tensor, or numbers in float32 or int64."""
    if len(attributes) != 1:
        raise ProgramError(f"a constant has one attribute, not {len(attributes)}")
    ((kind, value),) = attributes.items()
    if kind == "value":
        return array_of(value)
    dtypes = {"value_float": "f4", "value_floats": "f4", "value_int": "i8", "value_ints": "i8"}
    if kind not in dtypes:
        raise Unsupported(f"the attribute {kind!r:.60} is no tensor of numbers")
    return np.array(value, dtypes[kind])


def attribute(proto: Any) -> Any:
    """The value of an attribute: a number, bytes, a tensor, or a list of these."""
    fields = {1: "f", 2: "i", 3: "s", 4: "t", 6: "floats", 7: "ints", 8: "strings"}
    if proto.type not in fields:
        raise Unsupported(f"attribute {proto.name!r:.60} is a graph or no value; lower it first")
    value = getattr(proto, fields[proto.type])
    return value if proto.type <= 4 else list(value)


def check_call(op: str, operands: Sequence[Any], count: int, attributes: Mapping[str, Any]) -> None:
    """Refuse a node with too few or too many inputs, or attributes that the op does not have."""
    try:
        found = signature(op).bind(*operands, count=count, **attributes)
    except TypeError as error:
        raise ProgramError(f"inputs or attributes are not those of the op: {error}") from None
    needed = [found.arguments[name] for name in found.arguments if name != "count"]
    if any(x is None for x in needed) or not operands:
        raise ProgramError("an input is left out that the op needs")


@cache
def signature(op: str) -> inspect.Signature:
    return inspect.signature(NODES[op])


def check_outputs(node: Any, made: int) -> None:
    if made != len(node.output):
        raise ProgramError(f"yields {made} outputs, the node declares {len(node.output)}")


@contextmanager
def told_of(node: Any, number: int) -> Iterator[None]:
    """Name the node in every error; what a malformed attribute does to Python is one of ours."""
    call = f"onnx: node {number} ({node.op_type:.40} {node.name!r:.40})"
    try:
        yield
    except EinloomError as error:
        raise type(error)(f"{call}: {error}") from None
    except (TypeError, AttributeError) as error:
        raise Unsupported(
            f"{call}: {error}; sizes by name do not reach every op: give sizes"
        ) from error
    except MemoryError as error:
        raise MemoryLimitError(f"{call}: {error}; make the sizes smaller") from error
    except (ValueError, LookupError, ArithmeticError) as error:
        raise ShapeError(f"{call}: {error}") from error

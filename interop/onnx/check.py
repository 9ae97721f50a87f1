"""What a graph must be before it is lowered."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..._base.errors import ProgramError, Unsupported
from .lower import DOMAINS, attribute, told_of
from .ops import FOLDED, NODES


def check(graph: Any, ops: Collection[str] = (*NODES, "Constant")) -> None:
    """Refuse a malformed graph, or one of other than these ops: every value is made once, before it
    is read, by an op that is known.

    Raises:
        ProgramError: a name is made twice, read before it is made, or returned and never made.
        Unsupported: an op, a domain or a kind of attribute is not known here.
    """
    if graph.sparse_initializer:
        raise Unsupported("onnx: sparse initializers; store them as tensors")
    inputs = [x.name for x in graph.input]
    _distinct("inputs", inputs)
    _distinct("initializers", [x.name for x in graph.initializer])
    _distinct("outputs", [x.name for x in graph.output])
    if "" in inputs or not graph.output:
        raise ProgramError("onnx: an input without a name, or a graph without outputs")
    made = {*inputs, *(x.name for x in graph.initializer)}
    for number, node in enumerate(graph.node):
        with told_of(node, number):
            _check_node(node, made, ops)
        made.update(name for name in node.output if name)
    for output in graph.output:
        if output.name not in made or not output.name:
            raise ProgramError(f"onnx: output {output.name!r:.60} is made by no node")


def _check_node(node: Any, made: set[str], ops: Collection[str]) -> None:
    if node.domain not in DOMAINS or node.op_type not in ops:
        raise Unsupported(
            f"there is no such op here in domain {node.domain or 'ai.onnx'!r:.60}; decompose it "
            f"into ops of einloom.interop.onnx.OPS"
        )
    for name in node.input:
        if name and name not in made:
            raise ProgramError(f"reads {name!r:.60}, which nothing before it makes")
    outputs = [name for name in node.output if name]
    _distinct("outputs", outputs)
    if again := made.intersection(outputs):
        raise ProgramError(f"makes {min(again)!r:.60}, which is there already")
    if not outputs or not node.output[0]:
        raise ProgramError("declares no output")
    if node.op_type == "Constant" and (node.input or len(node.output) != 1):
        raise ProgramError(f"a constant has no input and 1 output, not {len(node.output)}")
    names = [attribute(x) is not None and x.name for x in node.attribute]
    _distinct("attributes", names)
    if twice := {*names} & {FOLDED.get(node.op_type, {}).get(k) for k in range(len(node.input))}:
        raise ProgramError(f"{min(map(str, twice))} is given as an input and as an attribute")


def _distinct(what: str, names: list[Any]) -> None:
    if len(set(names)) != len(names):
        twice = next(x for x in names if names.count(x) > 1)
        raise ProgramError(f"onnx: two {what} have the name {twice!r:.60}")

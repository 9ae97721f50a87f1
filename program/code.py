"""Code: a program, and the nodes that its inputs and outputs are. It belongs to no context and no device.

`inputs` are what it reads of a context, constants left out: nodes that are read only, or read before they
are written; `outputs` all that it writes. A node may be in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from .._base.errors import CallError, MergeError, NodeError, ShapeError
from ..backend.spec import ArraySpec
from .ir import Instruction, Program, Slot
from .nodes import Merged, Node, check_fits
from .template import ProgramTemplate
from .trace import trace
from .verify import verify


class Code:
    """What `Context.link` takes: a program that reads and writes nodes.

    Args:
        source: a Program, a ProgramTemplate, or a function to be traced, of so many arrays.
        reads: for each argument a Node, or `node.merged` for what the merge buffer holds of one.
        writes: for each result the Node that it becomes.
        accumulate: results are added to what the nodes hold; these are read too.
        name: for people.

    Raises:
        CallError, NodeError, MergeError: nodes that do not go together, or that cannot be written.
        ShapeError, DTypeError: a node is not what the program takes or gives.

    >>> a, b, c = (Node(name, (2, 2)) for name in "abc")
    >>> Code(lambda x, y: x @ y, [a, b], [c], name="product")
    <code product: a, b -> c>
    """

    def __init__(
        self,
        source: Program | ProgramTemplate | Callable[..., Any],
        reads: Sequence[Node | Merged],
        writes: Sequence[Node],
        *,
        accumulate: bool = False,
        name: str = "code",
    ) -> None:
        if not isinstance(name, str):
            raise CallError(f"Code(name={name!r:.60}): give a string")
        for what, given in (("reads", reads), ("writes", writes)):
            if not isinstance(given, Sequence):
                raise CallError(f"Code({name}): {what} are a list of nodes, got {given!r:.60}")
        self.name = name
        self.reads, self.writes = tuple(reads), tuple(writes)
        call = f"Code({name})"
        if not all(isinstance(x, (Node, Merged)) for x in self.reads):
            raise CallError(f"{call}: reads are nodes, or node.merged; got {self.reads!r:.120}")
        if not all(isinstance(x, Node) for x in self.writes):
            raise CallError(f"{call}: writes are nodes; got {self.writes!r:.120}")
        nodes = tuple(x.node if isinstance(x, Merged) else x for x in self.reads)
        program = _program(source, [x.spec for x in nodes])
        if accumulate:
            program, self.reads = accumulating(program), (*self.reads, *self.writes)
            nodes = (*nodes, *self.writes)
        self.program = program
        self._check(call, nodes)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Nodes that a context must have: read only, or read before written."""
        own = (x for x in self.reads if isinstance(x, Node) and x.value is None)
        return tuple(dict.fromkeys(own))

    @property
    def constants(self) -> tuple[Node, ...]:
        own = (x for x in self.reads if isinstance(x, Node) and x.value is not None)
        return tuple(dict.fromkeys(own))

    @property
    def outputs(self) -> tuple[Node, ...]:
        return self.writes

    @property
    def merge_input(self) -> Node | None:
        """The node that the merge buffer must hold."""
        return next((x.node for x in self.reads if isinstance(x, Merged)), None)

    def _check(self, call: str, nodes: tuple[Node, ...]) -> None:
        for what, slots, own in (
            ("input", self.program.inputs, nodes),
            ("output", self.program.outputs, self.writes),
        ):
            if len(slots) != len(own):
                raise ShapeError(
                    f"{call}: the program has {len(slots)} {what}s, {len(own)} nodes given"
                )
            for number, (slot, node) in enumerate(zip(slots, own, strict=True)):
                if self.program.slots[slot].bounds:
                    raise ShapeError(
                        f"{call}: the data decide the size of {what} {number}; nodes have fixed ones"
                    )
                spec = self.program.slots[slot].spec
                check_fits(f"{call}: {what} {number}", ArraySpec(spec.dtype, spec.shape), node)
        if len({x.node for x in self.reads if isinstance(x, Merged)}) > 1:
            raise MergeError(f"{call}: the merge buffer holds one node, not several")
        for node in self.writes:
            if node.value is not None:
                raise NodeError(f"{call}: {node!r} cannot be written")
        roots = [node.root for node in self.writes]
        if len(set(roots)) < len(roots):
            raise NodeError(f"{call}: two outputs lie in one node, or are one")

    def __repr__(self) -> str:
        reads = ", ".join(
            f"{x.node.name}.merged" if isinstance(x, Merged) else x.name for x in self.reads
        )
        return f"<code {self.name}: {reads} -> {', '.join(x.name for x in self.writes)}>"


def accumulating(program: Program) -> Program:
    """The program that takes, behind its inputs, an array for each output, and returns their sums.

    >>> from .builder import Builder
    >>> build = Builder()
    >>> x = build.input("float64", (2,))
    >>> print(accumulating(build.finish(build("exp", x))))
    program(%0: float64[2], %2: float64[2])
      %1 = exp(%0)  # float64[2], 16 B
      %3 = add(%2, %1)  # float64[2], 16 B
      return %3
    """
    slots, instructions = list(program.slots), list(program.instructions)
    inputs, outputs = list(program.inputs), []
    for out in program.outputs:
        spec = program.slots[out].spec
        held, total = len(slots), len(slots) + 1
        slots += [Slot(spec), Slot(spec)]
        inputs.append(held)
        instructions.append(Instruction("add", (), (held, out), (total,)))
        outputs.append(total)
    made = replace(
        program,
        slots=tuple(slots),
        instructions=tuple(instructions),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
    )
    return verify(made)


def _program(source: Any, specs: list[ArraySpec]) -> Program:
    if isinstance(source, Program):
        return source
    if isinstance(source, ProgramTemplate):
        return source.bind([x.shape for x in specs], [x.dtype for x in specs])
    if not callable(source):
        raise CallError(f"Code: a {type(source).__name__} is no program, template or function")
    return trace(source, *specs).bind([x.shape for x in specs])

"""Contexts: where nodes lie on a device. A context never changes; what is linked to it gives a new one.

`Context(device)` is empty. `put` and `zeros` give a child that has more nodes, `link` a routine with a child
that has all that the code writes. A child has what its parent has, in the same places; siblings know
nothing of each other. What a context alone owns is freed when it is closed; constants are the device's,
uploaded once for all contexts.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Any

from .._base.errors import CallError, ClosedError, MergeError, NodeError
from .._base.numbers import format_bytes
from .._base.options import options as in_force
from ..backend.devices import Device
from ..backend.devices import device as device_of
from ..backend.door import as_ndarray
from ..backend.pools import BufferLoc
from ..backend.spec import ArraySpec
from .bindings import Bindings
from .code import Code
from .compiling import check_changes, within
from .dispatch import executable_for
from .ledger import Ledger, Mark
from .lifetime import Lifetime
from .memory import Policy
from .nodes import Node, check_fits
from .ordering import Buffer, Work, merge_buffer
from .placement import check_policy, place
from .routine import Filling, Routine, check_merge, runs

MERGE_KEY = "merge buffer"


class Context:
    """Where nodes lie on one device.

    Args:
        device: a name, "cpu:1", or a Device.
        policy: "packed" lays what one link adds side by side into a pool, "separate" gives each node one.
        options: of threads, small, engine, provider and precision those with which code that is linked
            here, or to a child, is compiled and run, whatever is in force elsewhere: {"threads": 1}.

    >>> import numpy as np
    >>> a, b = Node("a", (2,)), Node("b", (2,))
    >>> with Context("cpu:7") as root:
    ...     held = root.put({a: np.array([1.0, 2.0])})
    ...     double = held.link(Code(lambda x: 2 * x, [a], [b]))
    ...     double.run()
    ...     double.context.get(b)
    array([2., 4.])
    """

    def __init__(
        self,
        device: str | Device = "cpu",
        *,
        policy: Policy = "packed",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        check_policy(policy)
        self._changes = check_changes("Context", options)
        found = device_of(device)
        self._fill(found, policy, None, {}, Lifetime(found, (), (), None), Ledger(), None)

    def _fill(
        self,
        device: Device,
        policy: Policy,
        parent: Context | None,
        buffers: Mapping[Node, Buffer],
        life: Lifetime,
        ledger: Ledger,
        filling: Filling | None,
    ) -> None:
        self.device, self.policy, self.parent = device, policy, parent
        self._buffers = MappingProxyType(dict(buffers))
        self._life, self._ledger, self._filling = life, ledger, filling
        weakref.finalize(self, life.abandon).atexit = False

    # ---- what it has -----------------------------------------------------------------------------

    @property
    def locations(self) -> Mapping[Node, BufferLoc]:
        """Where each node lies, its own and inherited ones and constants, in the order of their first use."""
        return _Places({node: buffer.loc for node, buffer in self._buffers.items()})

    @property
    def merge_node(self) -> Node | None:
        """The node that a transfer has put, or will have put, into the device's merge buffer."""
        return None if self._filling is None else self._filling.node

    @property
    def nbytes(self) -> int:
        """Bytes of the pools that this context alone owns."""
        sizes = self.device.pools.sizes
        return sum(sizes.get(pool, 0) for pool in self._life.pools)

    @property
    def is_closed(self) -> bool:
        return self._life.is_closed

    def __contains__(self, node: Node) -> bool:
        return node.root in self._buffers

    @property
    def options(self) -> Mapping[str, Any]:
        """The options with which code is compiled and run here; what it does not name is the caller's."""
        return MappingProxyType(self._changes)

    # ---- contents --------------------------------------------------------------------------------

    def put(self, arrays: Mapping[Node, Any]) -> Context:
        """A child that has these nodes too, with copies of these arrays.

        Raises:
            NodeError: a node is there already (`set` writes to it), is constant or is an alias.
            ShapeError, DTypeError: an array is not what its node says.
            MemoryLimitError: there is no room; nothing is kept.
        """
        if not isinstance(arrays, Mapping):
            raise CallError(
                f"put: give a mapping from nodes to arrays, got {type(arrays).__name__}"
            )
        given = {node: _host_array(node, x) for node, x in arrays.items()}

        def fill(buffer: Buffer) -> None:
            self._assign(buffer.array(buffer.node), given[buffer.node])

        return self._with("put", given, fill)

    def zeros(self, *nodes: Node) -> Context:
        """A child that has these nodes too, zero everywhere."""

        def fill(buffer: Buffer) -> None:
            self.device.pools.memset_zero(*buffer.loc, buffer.node.spec.nbytes)

        return self._with("zeros", dict.fromkeys(nodes), fill)

    def set(self, node: Node, array: Any) -> None:
        """Copy an array to a node that is there; an alias writes to what it is a part of."""
        buffer = self._buffer(node, "set")
        if node.value is not None:
            raise NodeError(f"set: {node!r} cannot be written")
        given = _host_array(node, array)
        whole = () if node.parent is None else (buffer,)  # the rest must have contents
        act = lambda _: self._assign(buffer.array(node), given)  # noqa: E731
        name = f"set {node.name}"
        self._run(Work(name, self._open("set"), act, whole, (buffer,), mark=Mark(name), holds=self))

    def get(self, node: Node) -> Any:
        """A copy of what a node holds, when all is done that was submitted before.

        Raises:
            OrderError: the routine that writes it in this line of contexts has not run, or failed.
        """
        buffer = self._buffer(node, "get")
        backend = self.device.backend
        act = lambda _: backend.to_host(buffer.array(node)).copy()  # noqa: E731
        name, written = f"get {node.name}", self._ledger.writer(node.root)
        return self._run(
            Work(name, self._open("get"), act, (buffer,), depends_on=written, holds=self)
        )

    # ---- code ------------------------------------------------------------------------------------

    def link(self, code: Code, bindings: Mapping[str, int] | None = None) -> Routine:
        """The code bound to buffers: of this context where it has the node, new ones for other outputs.

        Constants are uploaded, unless another context has them on the device. Nothing runs.

        Args:
            bindings: values of static indices, which may be changed before each run; 0 where none is given.

        Raises:
            NodeError: the code reads a node that this context does not have; it is named.
            MergeError: the code expects another node in the merge buffer than this context provides.
            OptionError: there is no such static index, or the value is out of its range.
            MemoryLimitError: there is no room; nothing is kept.
            ClosedError: the context is closed.
        """
        if not isinstance(code, Code):
            raise CallError(
                f"link: a {type(code).__name__} is no Code; give Code(program, reads, writes)"
            )
        call = f"link {code.name}"
        self._life.check_open(call)
        self._check_has(call, code)
        filling = self._check_merge(call, code)
        bound = Bindings(code.program.indices, bindings)
        with in_force(**self._changes):
            executable = executable_for(code.program, self.device)
        used = [x for x in code.reads if isinstance(x, Node)] + list(code.writes)
        mark = Mark(code.name)
        reads = dict.fromkeys(node.root for node in code.inputs)
        # what an alias does not write stays: the whole must have contents
        parts = dict.fromkeys(x.root for x in code.writes if x.parent is not None)
        writes = tuple(node.root for node in code.writes)
        keys = (*reads, *parts) if filling is None else (*reads, *parts, MERGE_KEY)
        depends_on, ledger = self._ledger.followed_by(mark, keys, writes)
        child = self._child([node.root for node in used], ledger, self._filling)
        buffers = child._buffers
        read = [buffers[node] for node in dict.fromkeys((*reads, *parts, *code.constants))]
        if filling is not None:
            read.append(merge_buffer(self.device))
        work = Work(
            code.name,
            child._open(f"run {code.name}"),
            within(self._changes, runs(executable, code, self.device, buffers)),
            tuple(read),
            tuple(buffers[node] for node in writes),
            (),
            depends_on,
            mark,
            child,
            _nothing if filling is None else partial(check_merge, self.device, code.name, filling),
        )
        return Routine(
            child,
            work,
            inputs=code.inputs,
            outputs=code.outputs,
            merge_input=code.merge_input,
            bindings=bound,
            executable=executable,
        )

    def _check_has(self, call: str, code: Code) -> None:
        lacking = [node for node in code.inputs if node not in self]
        lacking += [node for node in code.writes if node.parent is not None and node not in self]
        if lacking:
            raise NodeError(
                f"{call}: the context on {self.device.name} lacks {', '.join(map(repr, lacking))}; put them "
                f"there, or link to the context of a routine that writes them"
            )

    def _check_merge(self, call: str, code: Code) -> Filling | None:
        expected = code.merge_input
        if expected is None:
            return None
        if self._filling is None or self._filling.node is not expected:
            raise MergeError(
                f"{call}: the context provides {self.merge_node or 'nothing'} in the merge buffer, the code "
                f"expects {expected!r}; link to the context of the transfer that brings it"
            )
        return self._filling

    # ---- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Free what this context alone owns, when all work is done that was submitted.

        While children are open, what they have from it stays, and is freed with the last of them. A second
        call is an error, as is whatever else is asked of a closed context.
        """
        self._life.close()

    def __enter__(self) -> Context:
        self._life.check_open("with")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the context and all that were derived from it."""
        failed: BaseException | None = None
        for life in (*self._life.derived(), self._life):
            try:
                life.close()
            except ClosedError:  # before, by its owner
                continue
            except BaseException as other:
                failed = failed or other
        if failed is not None and error is None:
            raise failed

    # ---- inside ----------------------------------------------------------------------------------

    def _with(self, call: str, given: Iterable[Node], fill: Callable[[Buffer], None]) -> Context:
        self._life.check_open(call)
        given = tuple(given)
        for node in given:
            if not isinstance(node, Node):
                raise NodeError(f"{call}: {node!r:.60} is no node")
            if node.value is not None or node.parent is not None:
                kind = "a constant" if node.value is not None else "an alias"
                raise NodeError(f"{call}: {node!r} is {kind}; it has no memory of a context's own")
            if node in self:
                raise NodeError(
                    f"{call}: {node!r} is in the context; set(node, array) writes to it"
                )
        child = self._child(given, self._ledger, self._filling)
        try:
            for node in given:
                buffer = child._buffers[node]
                fill(buffer)
                self.device.runner.settle()
                buffer.is_written(call)
        except BaseException:
            child.close()
            raise
        return child

    def _child(self, nodes: Sequence[Node], ledger: Ledger, filling: Filling | None) -> Context:
        """A context that has these nodes too; those that are there are not made again."""
        device = self.device
        with device.linking:
            self._life.check_open("link")
            known = dict(self._buffers)
            known |= {x: device.constants[x] for x in nodes if x in device.constants}
            new = [node for node in dict.fromkeys(nodes) if node not in known]
            placed = place(device, self.policy, new)
            try:
                buffers = {x: Buffer(device, x, loc) for x, loc in placed.locations.items()}
                for node, buffer in buffers.items():
                    if node.value is not None:
                        self._assign(buffer.array(node), node.value)
                        device.runner.settle()
                        buffer.is_written("upload")
                own = [buffer for node, buffer in buffers.items() if node.value is None]
                life = Lifetime(device, placed.pools, own, self._life)
            except BaseException:
                device.undo_pools([*placed.pools, *placed.shared])
                raise
            device.constants |= {x: y for x, y in buffers.items() if x.value is not None}
        child = object.__new__(Context)
        child._changes = self._changes
        child._fill(device, self.policy, self, known | buffers, life, ledger, filling)
        return child

    def _assign(self, target: Any, source: Any) -> None:
        """From the host, or from an array of the device."""
        backend = self.device.backend
        backend.assign(target, backend.to_device(source))

    def _buffer(self, node: Node, call: str) -> Buffer:
        self._life.check_open(call)
        if not isinstance(node, Node) or node not in self:
            raise NodeError(f"{call}: {node!r:.60} is not in the context on {self.device.name}")
        return self._buffers[node.root]

    def _open(self, call: str) -> Any:
        life = self._life
        return lambda: life.check_open(call)

    def _run(self, work: Work) -> Any:
        return self.device.runner.run(work.prepared())

    def __str__(self) -> str:
        """As text that can be compared line by line, the same in every run and on every machine."""
        return _listing(self)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{len(self._buffers)} nodes"
        return f"<context on {self.device.name}: {state}>"


class _Places(dict[Node, BufferLoc]):
    """Places of nodes, and of aliases by those they are parts of."""

    def __missing__(self, node: Node) -> BufferLoc:
        if node.parent is None:
            raise KeyError(node)
        return self[node.parent].after(node.delta)


def _host_array(node: Node, x: Any) -> Any:
    if not isinstance(node, Node):
        raise NodeError(f"a context: {node!r:.60} is no node")
    array = as_ndarray(x, "a context", 0)
    check_fits("the array", ArraySpec(array.dtype, array.shape), node)
    return array


def _nothing() -> None:
    """Nothing is expected in the merge buffer."""


def _listing(context: Context) -> str:
    sizes = _shown_pools(context)
    count = f"{len(sizes)} pool{'' if len(sizes) == 1 else 's'}"
    total = format_bytes(sum(sizes.values()))
    lines = [f"context on {context.device.name}: {context.policy}, {count}, {total}"]
    for node, loc in context.locations.items():
        kind = ", constant" if node.value is not None else ""
        lines.append(f"  {node.name}: {node.spec}  {loc}, {format_bytes(node.spec.nbytes)}{kind}")
    return "\n".join(lines)


def _shown_pools(context: Context) -> dict[int, int]:
    """Bytes of the pools in which the context's nodes lie; none of one that is freed."""
    sizes: Mapping[int, int] = context.device.pools.sizes
    used: Iterable[int] = sorted({loc.pool_id for loc in context.locations.values()})
    return {pool: sizes.get(pool, 0) for pool in used}

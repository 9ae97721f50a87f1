"""Transfers between contexts, as routines: making one moves nothing.

They run on the device of the target, when the last writer at the source is done; whoever writes there
next waits for them.
"""

from __future__ import annotations

from typing import Any, Literal

from .._base.errors import CallError, NodeError, OptionError
from ..backend.devices import MERGE
from .context import MERGE_KEY, Context
from .ledger import Dependency, Mark
from .nodes import Node, check_fits
from .ordering import Buffer, Work, merge_buffer
from .routine import Filling, Routine


def device_to_device(
    node: Node,
    dst: Context,
    src: Context,
    into: Literal["node", "merge"] = "node",
    *,
    source: Node | None = None,
) -> Routine | None:
    """A routine that copies a node of `src` to `dst`. Nothing is moved until it runs.

    Its context is a child of `dst`. Into "node": the node has the contents there; it gets a place if `dst`
    has none for it. Into "merge": they lie in the merge buffer of the device, where code linked to that
    context finds them as `node.merged`, beside the node's own.

    Args:
        source: the node of `src`, if it is another one, of the same dtype and shape.

    Returns:
        Routine: or None where source and target are the same memory, so that there is nothing to move.

    Raises:
        NodeError: `src` does not have the node, or the target cannot be written.
        ShapeError, DTypeError: `source` is not what `node` is.
        OptionError: `into` is neither.

    >>> import numpy as np
    >>> from .code import Code
    >>> a, b, total = Node("a", (2,)), Node("b", (2,)), Node("total", (2,))
    >>> here, there = Context("cpu:6").put({a: np.ones(2)}), Context("cpu:7").put({a: np.full(2, 4.0)})
    >>> bring = device_to_device(a, here, there, into="merge")
    >>> add = bring.context.link(Code(lambda x, y: x + y, [a, a.merged], [total]))
    >>> bring.run(), add.run()
    (None, None)
    >>> add.context.get(total)
    array([5., 5.])
    """
    given = node if source is None else source
    for what, value in (("dst", dst), ("src", src)):
        if not isinstance(value, Context):
            raise CallError(
                f"device_to_device({what}=...): give a Context, got {type(value).__name__}"
            )
    name = f"{given.name} from {src.device.name} to {dst.device.name}"
    if into not in ("node", "merge"):
        raise OptionError(f'device_to_device(into={into!r:.60}): give "node" or "merge"')
    src._life.check_open(name)
    dst._life.check_open(name)
    check_fits(f"{given!r} on {src.device.name}", given.spec, node)
    if given not in src:
        raise NodeError(
            f"{name}: {given!r} is not in the source; put it there, or run what makes it"
        )
    if into == "node" and node.value is not None:
        raise NodeError(f"{name}: {node!r} cannot be written")
    origin = src._buffers[given.root]
    if into == "merge":
        return _into_merge(name, node, given, origin, dst, src)
    return _into_node(name, node, given, origin, dst, src)


def _into_node(
    name: str, node: Node, given: Node, origin: Buffer, dst: Context, src: Context
) -> Routine | None:
    is_there = dst._buffers.get(node.root)
    if is_there is origin and node.delta == given.delta:
        return None
    if is_there is None and node.parent is not None:
        raise NodeError(f"{name}: the target lacks {node.root!r}, of which {node!r} is a part")
    parts = () if node.parent is None else (node.root,)
    mark = Mark(name)
    local = (given.root,) if dst._buffers.get(given.root) is origin else ()
    depends_on, ledger = dst._ledger.followed_by(mark, (*parts, *local), (node.root,))
    depends_on = _joined(depends_on, src, given)
    child = dst._child([node.root], ledger, dst._filling)
    target = child._buffers[node.root]

    def act(_: Any) -> None:
        to, start = target.loc.after(node.delta), origin.loc.after(given.delta)
        target.device.pools.copy(to, origin.device.pools, start, node.spec.nbytes)

    reads = tuple(child._buffers[root] for root in parts)
    work = Work(
        name,
        _both(child, src, name),
        act,
        reads,
        (target,),
        (origin,),
        depends_on,
        mark,
        (child, src),
    )
    return Routine(child, work, outputs=(node,))


def _into_merge(
    name: str, node: Node, given: Node, origin: Buffer, dst: Context, src: Context
) -> Routine:
    device, mark = dst.device, Mark(name)
    filling = Filling(node, mark)
    depends_on, ledger = dst._ledger.followed_by(mark, (), (MERGE_KEY,))
    depends_on = _joined(depends_on, src, given)
    child = dst._child([], ledger, filling)

    def act(_: Any) -> None:
        size = node.spec.nbytes
        device.merge_tenant = None  # what is half copied is nobody's
        device.reserve_merge(size)
        device.pools.copy(MERGE, origin.device.pools, origin.loc.after(given.delta), size)
        device.merge_tenant = filling

    work = Work(
        name,
        _both(child, src, name),
        act,
        (),
        (merge_buffer(device),),
        (origin,),
        depends_on,
        mark,
        (child, src),
    )
    return Routine(child, work)


def _joined(
    depends_on: tuple[Dependency, ...], src: Context, given: Node
) -> tuple[Dependency, ...]:
    """Whoever writes the node at the source comes before as well."""
    known = {id(one.mark) for one in depends_on}
    written = src._ledger.writer(given.root)
    return (*depends_on, *(one for one in written if id(one.mark) not in known))


def _both(child: Context, src: Context, name: str) -> Any:
    """Both contexts must be open when it is scheduled."""

    def check() -> None:
        child._life.check_open(name)
        src._life.check_open(name)

    return check

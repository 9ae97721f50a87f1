"""Nodes: named arrays that programs on devices read and write, wherever they lie.

A node says what an array is, dtype and shape, and is itself no memory: a context has a place for it, another
context another. Two nodes are never equal, whatever their names; the same rows of one are the same alias.
"""

from __future__ import annotations

import math
import threading
from operator import index
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from .._base.errors import CallError, DTypeError, NodeError, OptionError, ShapeError
from ..backend.spec import ArraySpec


class Node:
    """An array by name: `Node("a", (2, 3))`, of float64 unless a dtype is given.

    Args:
        name: for people; messages and dumps show it.
        shape, dtype: of the array, which lies row-major.

    >>> a = Node("a", (4, 3), "float32")
    >>> a, a.rows(1, 3)
    (<a: float32[4,3]>, <a[1:3]: float32[2,3]>)
    """

    __slots__ = ("__weakref__", "_aliases", "delta", "name", "parent", "spec", "value")

    name: str
    spec: ArraySpec
    value: Any  # of a constant, else None
    parent: Node | None  # of an alias
    delta: int  # bytes from where the parent begins
    _aliases: WeakValueDictionary[Any, Node]

    def __init__(self, name: str, shape: Any, dtype: Any = "float64") -> None:
        try:
            sizes = tuple(index(n) for n in shape)
        except TypeError:
            raise ShapeError(
                f"Node({name!r}): the shape {shape!r:.60} is no tuple of integers"
            ) from None
        if any(n < 0 for n in sizes):
            raise ShapeError(f"Node({name!r}): the shape {sizes} has a negative size")
        self._fill(name, ArraySpec(_plain(name, dtype), sizes))

    def _fill(
        self, name: str, spec: ArraySpec, value: Any = None, parent: Any = None, delta: int = 0
    ) -> None:
        if not isinstance(name, str) or not name:
            raise OptionError(f"Node(name={name!r:.60}): give a string")
        values = (("name", name), ("spec", spec), ("value", value), ("parent", parent))
        for key, one in (*values, ("delta", delta), ("_aliases", WeakValueDictionary())):
            object.__setattr__(self, key, one)

    def __setattr__(self, key: str, value: Any) -> None:
        raise AttributeError(f"{self!r} cannot be changed; make another node")

    @classmethod
    def constant(cls, name: str, value: Any) -> Node:
        """A node that is the same everywhere and always: a copy of `value`, uploaded once to each device.

        >>> Node.constant("two", np.full(3, 2.0))
        <two: float64[3], constant>
        """
        try:
            array = np.array(value, order="C")
        except ValueError as error:
            raise ShapeError(f"Node.constant({name!r}): {error}") from error
        array.flags.writeable = False
        made = object.__new__(cls)
        made._fill(name, ArraySpec(_plain(name, array.dtype), array.shape), array)
        return made

    def rows(self, start: int, stop: int, name: str | None = None) -> Node:
        """An alias of rows start to stop - 1: it owns no memory, and lies wherever this node lies."""
        shape = self.spec.shape
        if not shape or not 0 <= start <= stop <= shape[0]:
            raise ShapeError(f"{self!r}.rows({start}, {stop}): there are no such rows")
        if self.value is not None:
            raise NodeError(f"{self!r}.rows({start}, {stop}): constants have no aliases")
        name = name or f"{self.name}[{start}:{stop}]"
        with _ALIASES:
            found = self._aliases.get((start, stop, name))
            if found is None:
                each = math.prod(shape[1:]) * self.spec.dtype.itemsize
                found = object.__new__(Node)
                spec = ArraySpec(self.spec.dtype, (stop - start, *shape[1:]))
                found._fill(name, spec, None, self.root, self.delta + start * each)
                self._aliases[start, stop, name] = found
        return found

    def __copy__(self) -> Node:
        return self

    def __deepcopy__(self, memo: Any) -> Node:
        return self

    def __reduce__(self) -> Any:
        raise CallError(
            f"{self!r} is itself alone; send its name, shape and dtype, and make another"
        )

    @property
    def root(self) -> Node:
        """The node whose memory this is: itself, unless it is an alias."""
        return self if self.parent is None else self.parent

    @property
    def merged(self) -> Merged:
        """What the merge buffer holds of this node, a foreign version of it, as an input of code."""
        return Merged(self)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.spec}{', constant' if self.value is not None else ''}>"


class Merged:
    """The version of a node that a transfer has put into the merge buffer."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __repr__(self) -> str:
        return f"{self.node!r}.merged"


def check_fits(what: str, spec: ArraySpec, node: Node) -> None:
    """Refuse an array of another dtype or shape than the node's."""
    if spec.shape != node.spec.shape:
        raise ShapeError(f"{what} has shape {spec.shape}, {node!r} has {node.spec.shape}")
    if spec.dtype != node.spec.dtype:
        raise DTypeError(
            f"{what} has dtype {spec.dtype}, {node!r} has {node.spec.dtype}; convert it first"
        )


_ALIASES = threading.Lock()


def _plain(name: str, dtype: Any) -> np.dtype[Any]:
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        raise DTypeError(f"Node({name!r}): {error}") from error
    if found.hasobject or found.kind not in "biufcV" or not found.isnative:
        raise DTypeError(f"Node({name!r}): pools hold numbers of this machine's own, not {found!r}")
    return found

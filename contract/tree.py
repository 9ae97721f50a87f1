"""Contraction trees as flat paths: in SSA form inside, in opt_einsum's linear form outside.

In SSA form tensors 0..n-1 are the inputs and step k makes tensor n+k. In linear form a step names
positions in the list of current tensors; its operands are removed and its result goes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .._base.errors import PathError

Step = tuple[int, ...]
Path = tuple[Step, ...]


@dataclass(frozen=True)
class ContractionTree:
    """n tensors and the steps that contract them to one; a step takes one tensor or more.

    >>> ContractionTree(3, ((0, 2), (1, 3))).path
    ((0, 2), (0, 1))
    """

    n: int
    ssa_path: Path

    def __post_init__(self) -> None:
        used = bytearray(self.n + len(self.ssa_path))
        for index, step in enumerate(self.ssa_path):
            for tensor in step:
                if not 0 <= tensor < self.n + index:
                    raise PathError(
                        f"step {index} {step} of the path names tensor {tensor}; at that point there "
                        f"are tensors 0 to {self.n + index - 1}"
                    )
                if used[tensor]:
                    raise PathError(
                        f"step {index} {step} of the path uses tensor {tensor}, which is already "
                        f"contracted"
                    )
                used[tensor] = 1
            if not step:
                raise PathError(f"step {index} of the path names no tensor")
        if not self.ssa_path:
            raise PathError("the path is empty; the path of a single tensor is [(0,)]")
        left = used.count(0)
        if left != 1:
            raise PathError(
                f"the path is incomplete: {left} tensors are left after {len(self.ssa_path)} steps, "
                f"there must be one"
            )

    @classmethod
    def from_path(cls, n: int, path: Iterable[Sequence[int]]) -> ContractionTree:
        """The tree of a linear path over n tensors."""
        given = _as_steps(path)
        alive = _Positions(n, len(given))
        ssa: list[Step] = []
        for index, step in enumerate(given):
            count = alive.count
            for position in step:
                if not 0 <= position < count:
                    raise PathError(
                        f"step {index} {step} of the path names position {position}; there are "
                        f"{count} tensors at that point"
                    )
            if len(set(step)) != len(step):
                raise PathError(f"step {index} {step} of the path names a position twice")
            ssa.append(tuple(alive.at(position) for position in step))
            for tensor in ssa[-1]:
                alive.remove(tensor)
            alive.append()
        return cls(n, tuple(ssa))

    @cached_property
    def path(self) -> Path:
        """The linear form, that of opt_einsum and NumPy."""
        alive = _Positions(self.n, len(self.ssa_path))
        steps: list[Step] = []
        for step in self.ssa_path:
            steps.append(tuple(sorted(alive.position(tensor) for tensor in step)))
            for tensor in step:
                alive.remove(tensor)
            alive.append()
        return tuple(steps)


def depth_first(n: int, path: Sequence[Step]) -> Path:
    """The steps of the same tree, a subtree finished before the next is begun, so that fewer results wait.

    path: steps over n tensors in SSA form, of two tensors each, or one of one. A step lists first what holds
    the earliest tensor, as an equation does.

    >>> depth_first(5, ((0, 1), (2, 3), (4, 5), (6, 7)))
    ((2, 3), (0, 1), (6, 4), (7, 5))
    """
    order: list[int] = []
    stack = [n + len(path) - 1]
    while stack:
        node = stack.pop()
        if node >= n:
            order.append(node)
            stack.extend(path[node - n])
    names = list(range(n)) + [0] * len(order)
    earliest = list(names)
    steps: list[Step] = []
    for node in reversed(order):
        step = path[node - n]
        if len(step) == 2 and earliest[step[0]] > earliest[step[1]]:
            step = step[::-1]
        names[node], earliest[node] = n + len(steps), earliest[step[0]]
        steps.append(tuple([names[child] for child in step]))
    return tuple(steps)


def _as_steps(path: Iterable[Sequence[int]]) -> list[Step]:
    try:
        return [tuple(_as_index(position) for position in step) for step in path]
    except TypeError:
        raise PathError(
            f"a path is a list of steps, each a tuple of positions, as in [(0, 1), (0, 1)]; got {path!r:.80}"
        ) from None


def _as_index(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError("a position is an integer")
    return int(value.__index__()) if hasattr(value, "__index__") else _not_an_index(value)


def _not_an_index(value: Any) -> int:
    raise TypeError(f"{value!r} is no position")


class _Positions:
    """Which tensors are alive, by position in order of age: a Fenwick tree, O(log n) a query."""

    def __init__(self, n: int, steps: int) -> None:
        self.count = self.next = n
        self._room = 1 << (n + steps + 1).bit_length()
        self._sums = [0] * (self._room + 1)
        for index in range(1, self._room + 1):  # linear-time construction with n leading ones
            self._sums[index] += index <= n
            parent = index + (index & -index)
            if parent <= self._room:
                self._sums[parent] += self._sums[index]

    def position(self, tensor: int) -> int:
        """How many living tensors are older."""
        total, index = 0, tensor
        while index:
            total += self._sums[index]
            index &= index - 1
        return total

    def at(self, position: int) -> int:
        """The living tensor at this position."""
        index, step, rest = 0, self._room, position + 1
        while step:
            if index + step <= self._room and self._sums[index + step] < rest:
                index += step
                rest -= self._sums[index]
            step >>= 1
        return index

    def remove(self, tensor: int) -> None:
        self._add(tensor, -1)

    def append(self) -> None:
        self._add(self.next, 1)
        self.next += 1

    def _add(self, tensor: int, change: int) -> None:
        self.count += change
        index = tensor + 1
        while index <= self._room:
            self._sums[index] += change
            index += index & -index

"""What a program needs of a backend: kernels bound to shapes, and what they will cost in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .catalogue import Attrs
from .spec import ArraySpec, Shape

Kernel = Callable[..., Any]
"""A bound op: `kernel(*arrays, out=None)` trusts shapes and dtypes; it fills and returns `out`."""


class Backend(Protocol):
    """One device's arrays and ops.

    `bind` decides everything that shapes and dtypes decide; the kernel it returns is unchecked and
    safe from several threads. Kernels take arrays of any strides. A view op's kernel takes no `out`.
    Nothing is transferred between devices unless `to_device` or `to_host` is called.
    """

    name: str
    device: str

    def bind(
        self, op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...], output: ArraySpec
    ) -> Kernel:
        """A kernel for `op` on arrays of these dtypes and shapes; `Unsupported` if there is none."""
        ...

    def engine(self, op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> str:
        """The rung of the dispatch ladder that `bind` takes, for people to read."""
        ...

    def scratch_bytes(self, op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...]) -> int:
        """An upper bound of what the kernel allocates besides its output."""
        ...

    def capabilities(self) -> dict[str, frozenset[str]]:
        """Names of the dtypes that each op takes."""
        ...

    def apply(self, op: str, attrs: Attrs, *arrays: Any, out: Any = None) -> Any:
        """Check, bind and run one op."""
        ...

    def empty(self, spec: ArraySpec) -> Any:
        """An array with undefined contents."""
        ...

    def full(self, shape: Shape, value: Any, dtype: Any) -> Any:
        """An array filled with `value`."""
        ...

    def assign(self, target: Any, source: Any, alpha: Any = 1, beta: Any = 0) -> Any:
        """target = alpha * source + beta * target, in place; target is not read when beta is 0."""
        ...

    def to_device(self, array: Any) -> Any:
        """A host array on this device."""
        ...

    def to_host(self, array: Any) -> Any:
        """An array of this device as numpy.ndarray."""
        ...

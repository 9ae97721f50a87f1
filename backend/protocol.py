"""What a program needs of a backend: kernels bound to shapes, and what they will cost in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from .catalogue import Attrs
from .fusion import FusionPlan
from .spec import ArraySpec, Axes, Shape

Kernel = Callable[..., Any]
"""A bound op: `kernel(*arrays, out=None)` trusts shapes and dtypes; it fills and returns `out`."""


class View(NamedTuple):
    """How an array lies in its buffer, in elements: `offset` is that of its first element."""

    shape: Shape
    strides: tuple[int, ...]
    offset: int


class BufferInfo(NamedTuple):
    """Counters of a buffer cache, in buffers and bytes."""

    hits: int
    misses: int
    lent_bytes: int
    kept_bytes: int
    limit_bytes: int


class Clock(Protocol):
    """Times single instructions: when a device begins and ends them, not when they are queued."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def seconds(self) -> list[float]:
        """Between each `start` and the `stop` after it; waits until all of it is done."""
        ...


class Backend(Protocol):
    """One device's arrays and ops.

    `bind` decides everything that shapes and dtypes decide; the kernel it returns is unchecked and
    safe from several threads. Kernels take arrays of any strides. A view op's kernel takes no `out`.
    Nothing is transferred between devices unless `to_device` or `to_host` is called.
    """

    name: str
    device: str

    def bind(
        self,
        op: str,
        attrs: Attrs,
        inputs: tuple[ArraySpec, ...],
        outputs: tuple[ArraySpec, ...],
        own_threads: bool = False,
    ) -> Kernel:
        """A kernel for `op` on arrays of these dtypes and shapes; `Unsupported` if there is none.

        With `own_threads` it leaves no work to the threads of a library, because other kernels of the same
        program use the backend's own: two pools would wait for each other's cores.
        """
        ...

    def uses_threads(
        self, op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...], outputs: tuple[ArraySpec, ...]
    ) -> bool:
        """Whether threads of the backend's own work for the kernel that `bind` makes of the same."""
        ...

    def at_once(self) -> int:
        """How many calls `together` makes at the same time."""
        ...

    def alone(self) -> Backend:
        """The backend whose kernels run on one thread, where the option `threads` is 1."""
        ...

    def together(self, call: Callable[[int], None], n: int) -> None:
        """call(0) to call(n - 1) side by side, kernels and all that they do each on one thread."""
        ...

    def fuse(self, plan: FusionPlan) -> Kernel | None:
        """One kernel for a chain of ops, or None: then they run one by one."""
        ...

    def in_sequence(self, attrs: Attrs, lhs: ArraySpec, rhs: ArraySpec, out: ArraySpec) -> bool:
        """Whether a `dot_general` may be one of many in a plan for `fuse` without lanes."""
        ...

    def engine(
        self,
        op: str,
        attrs: Attrs,
        inputs: tuple[ArraySpec, ...],
        outputs: tuple[ArraySpec, ...] = (),
    ) -> str:
        """The rung of the dispatch ladder that `bind` takes, for people to read."""
        ...

    def scratch_bytes(
        self,
        op: str,
        attrs: Attrs,
        inputs: tuple[ArraySpec, ...],
        outputs: tuple[ArraySpec, ...] = (),
    ) -> int:
        """An upper bound of what the kernel allocates besides its output; of outputs in other layouts than
        row-major, the specs say so."""
        ...

    def fused_scratch_bytes(self, plan: FusionPlan, foreign: Axes = ()) -> int:
        """The same for the kernel of `fuse`. The inputs numbered in `foreign` may lie anywhere, between
        elements too; all others are arrays of this backend or views of them."""
        ...

    def capabilities(self) -> dict[str, frozenset[str]]:
        """Names of the dtypes that each op takes; an op without a kernel is not in it."""
        ...

    def session(self, threads: int | None = None) -> AbstractContextManager[Backend]:
        """A block in which this backend's kernels use so many threads; None leaves its own setting."""
        ...

    def apply(self, op: str, attrs: Attrs, *arrays: Any, out: Any = None) -> Any:
        """Check, bind and run one op."""
        ...

    def empty(self, spec: ArraySpec) -> Any:
        """An array with undefined contents in the spec's layout, 64-byte aligned when it is large."""
        ...

    def array_at(self, buffer: Any, offset: int, spec: ArraySpec) -> Any:
        """The array of this spec, in its layout, that begins so many bytes into a buffer of bytes."""
        ...

    def full(self, shape: Shape, value: Any, dtype: Any) -> Any:
        """A row-major array filled with `value`."""
        ...

    def assign(self, target: Any, source: Any, alpha: Any = 1, beta: Any = 0) -> Any:
        """target = alpha * source + beta * target, in place; target is not read when beta is 0.

        Other dtypes are converted as `ndarray.astype` does, with no check: the fronts know what the
        user allowed.
        """
        ...

    def gemm_batch(
        self,
        pairs: Sequence[tuple[Any, Any]],
        work: Sequence[int],
        out: Sequence[Any] | None = None,
        chains: Sequence[Sequence[int]] = (),
        alpha: Any = 1,
        beta: Any = 0,
    ) -> list[Any]:
        """alpha * a @ b of every pair, matrices of one dtype each; with `out` added to beta times what its
        array held before the first of its pairs. `work` is the number of multiplications of each.

        With `out`, `chains` are sequences of pairs to be done one after another: those with the same target,
        or targets that overlap. Different chains write to different memory; no target overlaps an operand.
        """
        ...

    def view(self, array: Any) -> View:
        """Shape, strides and offset of an array over its buffer."""
        ...

    def placement(self, array: Any) -> str:
        """The device that an array lies on; `ConversionError` for what is no array of a device."""
        ...

    def to_device(self, array: Any) -> Any:
        """A host array on this device."""
        ...

    def to_host(self, array: Any) -> Any:
        """An array of this device as numpy.ndarray."""
        ...

    def clock(self) -> Clock:
        """A clock of what this backend computes."""
        ...

    def buffer_info(self) -> BufferInfo:
        """Counters of the buffer cache."""
        ...

    def reclaim(self) -> int:
        """Give the memory of unused buffers and workspaces back to the system; returns how many bytes."""
        ...

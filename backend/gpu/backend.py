"""The Backend protocol over an array module: cupy, or what stands in for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from ..._base.caches import Quick
from ..._base.errors import (
    CallError,
    ConversionError,
    DeviceError,
    MemoryLimitError,
    ShapeError,
    Unsupported,
)
from ..._base.options import get_options
from ..catalogue import CATALOGUE, Attrs, infer
from ..door import as_ndarray, is_on_host, is_torch
from ..dtypes import NAMES
from ..fusion import FusionPlan
from ..lent import overlap, seen
from ..protocol import BufferInfo, Clock, Kernel, View
from ..rules import check_attrs, freeze, told_apart
from ..spec import ArraySpec, Axes, Shape, compute_dtype, dtype_name
from . import (
    contraction,
    elementwise,
    fft,
    fused,
    grouped,
    indexed,
    lanes,
    order,
    product,
    reduce,
    replay,
    structure,
    uploads,
    windows,
)
from .arrays import Binder, filled
from .graphs import Captured, can_capture
from .memory import address, array_at, memory
from .modules import Module, companion, load
from .move import move
from .streams import EventClock, across

BINDERS: dict[str, Binder] = {
    **{op: elementwise.bind_elementwise(f) for op, f in elementwise.FORMULAS.items()},
    **structure.BINDERS,
    "convert": elementwise.bind_cast,
    "cast": elementwise.bind_cast,
    **reduce.BINDERS,
    **order.BINDERS,
    **indexed.BINDERS,
    **windows.BINDERS,
    **contraction.BINDERS,
    **fft.BINDERS,
}
DTYPES = frozenset(
    name
    for kind in ("bool", "int", "uint", "float", "complex")
    for name in NAMES[kind]
    if name not in ("longdouble", "clongdouble")
)
"""What a device has numbers for; the 8-bit floats and Python's objects stay on the host."""
PRODUCTS = ("dot_general", "dot_general_add", "matmul")
_BOUND: Quick[tuple[Kernel, tuple[ArraySpec, ...]]] = Quick("eager ops on GPUs", 512)


class GpuBackend:
    """Arrays are those of `xp`, of any strides, on the device of this number.

    Work is queued on the stream that is current in `xp`; nothing waits but what must see a value.
    """

    name = "gpu"

    def __init__(self, xp: Module, ordinal: int = 0) -> None:
        self.xp, self.ordinal = xp, ordinal
        self.device = f"gpu:{ordinal}"

    def bind(
        self,
        op: str,
        attrs: Attrs,
        inputs: tuple[ArraySpec, ...],
        outputs: tuple[ArraySpec, ...],
        own_threads: bool = False,
    ) -> Kernel:
        binder = BINDERS.get(op)
        if binder is None:
            raise Unsupported(
                f"op {op!r} has no kernel on the GPU; those that have: {', '.join(BINDERS)}"
            )
        for spec in (*inputs, *outputs):
            self._check_dtype(op, spec)
        row = CATALOGUE[op]
        return self._here(binder(self.xp, {**row.defaults, **attrs}, inputs, outputs[0]))

    def _check_dtype(self, op: str, spec: ArraySpec) -> None:
        name = dtype_name(spec.dtype)
        if name not in DTYPES or not spec.dtype.isnative:
            raise Unsupported(
                f"op {op!r} on {self.device} does not take {spec.dtype.str if name in DTYPES else name}; "
                f"convert the operand on the host before to_device, or run on the CPU after to_host"
            )

    def _here(self, kernel: Kernel) -> Kernel:
        """A kernel that runs on this device, whichever is current."""
        if self.xp.cuda.runtime.getDeviceCount() == 1:  # then there is no other
            return kernel

        def run(*arrays: Any, **keywords: Any) -> Any:
            with self._on():
                return kernel(*arrays, **keywords)

        return run

    @property
    def sole_ordinal(self) -> int | None:
        """The number of this device, or None where there is no other."""
        return None if self.xp.cuda.runtime.getDeviceCount() == 1 else self.ordinal

    def _on(self) -> Any:
        """A block in which this device is the current one."""
        return self.xp.cuda.Device(self.ordinal)

    def uses_threads(
        self, op: str, attrs: Attrs, inputs: tuple[ArraySpec, ...], outputs: tuple[ArraySpec, ...]
    ) -> bool:
        return False

    def at_once(self) -> int:
        return 1

    def alone(self) -> GpuBackend:
        return self

    def together(self, call: Callable[[int], None], n: int) -> None:
        for k in range(n):
            call(k)

    def fuse(self, plan: FusionPlan) -> Kernel | None:
        kernel = fused.bind_fused(self.xp, plan)
        return None if kernel is None else self._here(kernel)

    def in_sequence(self, attrs: Attrs, lhs: ArraySpec, rhs: ArraySpec, out: ArraySpec) -> bool:
        return False  # a graph has all of them in one launch

    def engine(
        self,
        op: str,
        attrs: Attrs,
        inputs: tuple[ArraySpec, ...],
        outputs: tuple[ArraySpec, ...] = (),
    ) -> str:
        if op in PRODUCTS:
            with self._on():  # the rung depends on the card
                return product.engine_of(self.xp, op, attrs, inputs[:2])
        return "view" if CATALOGUE[op].is_view else op

    can_capture = staticmethod(can_capture)

    def scratch_bytes(
        self,
        op: str,
        attrs: Attrs,
        inputs: tuple[ArraySpec, ...],
        outputs: tuple[ArraySpec, ...] = (),
    ) -> int:
        """Temporaries of a chain of whole arrays: operands widened or copied, results before rounding."""
        if CATALOGUE[op].is_view:
            return 0
        return TEMPORARIES * sum(_wide_bytes(spec) for spec in (*inputs, *outputs))

    def fused_scratch_bytes(self, plan: FusionPlan, foreign: Axes = ()) -> int:
        """Scratch of a reduction, and room for copies where an input cannot be read as it lies."""
        return fused.scratch_bytes(plan) + sum(plan.inputs[k].nbytes for k in foreign)

    def capabilities(self) -> dict[str, frozenset[str]]:
        return {
            op: frozenset(name for kind in CATALOGUE[op].dtypes for name in NAMES.get(kind, ()))
            & DTYPES
            for op in BINDERS
        }

    @contextmanager
    def session(self, threads: int | None = None) -> Iterator[GpuBackend]:
        yield self

    def apply(self, op: str, attrs: Attrs, *arrays: Any, out: Any = None) -> Any:
        for position, x in enumerate(arrays):
            if not self._is_here(x):
                self.check_here(x, op, f"operand {position}")
        kernel, outputs = self._bound(op, attrs, arrays)
        if out is not None:
            self._check_out(op, outputs, arrays, out)
        try:
            return kernel(*arrays) if out is None else kernel(*arrays, out=out)
        except MemoryError as error:
            raise MemoryLimitError(
                f"{op}: no memory on {self.device} for the result {', '.join(map(str, outputs))} or "
                f"for what computes it ({error}); make it smaller, or call reclaim()"
            ) from error

    def _bound(
        self, op: str, attrs: Attrs, arrays: tuple[Any, ...]
    ) -> tuple[Kernel, tuple[ArraySpec, ...]]:
        """The kernel for operands like these and the specs of its results, kept for the next call: to find
        them takes as long as to launch several kernels."""
        check_attrs(op, attrs)
        attrs = {name: freeze(value) for name, value in attrs.items()}
        specs = tuple([(x.dtype, x.shape) for x in arrays])
        told = tuple(map(told_apart, attrs.items()))
        key: Any = (self, op, told, specs, get_options().precision)
        try:
            found = _BOUND.get(key)
        except TypeError:  # an attribute that cannot be hashed, which most ops refuse
            key = found = None
        if found is not None:
            return found
        inputs = tuple(ArraySpec(*spec) for spec in specs)
        outputs = infer(op, attrs, inputs)
        made = self.bind(op, attrs, inputs, outputs), outputs
        if key is not None:
            _BOUND.put(key, made)
        return made

    def _is_here(self, x: Any) -> bool:
        return isinstance(x, self.xp.ndarray) and bool(x.device.id == self.ordinal)

    def check_here(self, x: Any, call: str, what: str) -> None:
        """Refuse what is no array of this device; nothing moves by itself.

        Raises:
            Unsupported: it lies on the host, or on another device; the message tells how to move it.
            ConversionError: it is no array.
        """
        place = self.placement(x, f"{call}: {what}")
        if place == "cpu":
            raise Unsupported(
                f"{call}: {what} is a {_kind(x)} on the host, and the call runs on {self.device}; "
                f"upload it first: to_device(x) of einloom.backend.get({self.device!r})"
            )
        if place != self.device:
            raise Unsupported(
                f"{call}: {what} lies on {place}, and the call runs on {self.device}; copy it first: "
                f"to_device(x) of einloom.backend.get({self.device!r})"
            )

    def _check_out(
        self, op: str, outputs: tuple[ArraySpec, ...], arrays: tuple[Any, ...], out: Any
    ) -> None:
        """`out` is written after all operands are read, but for the accumulator of nothing."""
        if CATALOGUE[op].is_view:
            raise CallError(f"{op}(out=...): the result is a view of the operand; use copy")
        if not self._is_here(out):
            self.check_here(out, op, "out")
        wanted = outputs[0]
        if out.dtype != wanted.dtype or out.shape != wanted.shape:
            got = ArraySpec(out.dtype, out.shape)
            raise CallError(f"{op}(out=...): out is {got}, the result is {wanted}")
        overlapping = [k for k, x in enumerate(arrays) if overlap(out, x)]
        if overlapping and not all(CATALOGUE[op].writes_over(k) for k in overlapping):
            raise CallError(
                f"{op}(out=...): out may overlap operand {overlapping[0]}; pass other memory"
            )

    # ---- memory ------------------------------------------------------------------------------------

    def empty(self, spec: ArraySpec) -> Any:
        with self._on():
            return self._in_layout(spec, lambda shape: self.xp.empty(shape, spec.dtype))

    def array_at(self, buffer: Any, offset: int, spec: ArraySpec) -> Any:
        return self._in_layout(
            spec, lambda shape: array_at(self.xp, buffer, offset, shape, spec.dtype)
        )

    def _in_layout(self, spec: ArraySpec, make: Callable[[Shape], Any]) -> Any:
        if spec.layout is None:
            return make(spec.shape)
        made = make(tuple(spec.shape[axis] for axis in spec.layout))
        return made.transpose(tuple(spec.layout.index(axis) for axis in range(len(spec.shape))))

    def full(self, shape: Shape, value: Any, dtype: Any) -> Any:
        with self._on():
            return filled(self.xp, shape, value, np.dtype(dtype))

    def assign(self, target: Any, source: Any, alpha: Any = 1, beta: Any = 0) -> Any:
        if source.shape != target.shape:
            raise ShapeError(
                f"assign: source has shape {source.shape}, target {target.shape}; broadcast it first"
            )
        if target.dtype.kind == "b":
            alpha, beta = bool(alpha), bool(beta)
        with self._on():
            is_added = bool(beta != 0)
            if alpha == 1 and not is_added and self._moves(target, source):
                return move(self.xp, target, source)
            total = source if alpha == 1 else source * alpha
            if is_added:
                total = total + (target if beta == 1 else target * beta)
            if total.dtype.kind == "c" and target.dtype.kind != "c":
                total = total.real
            self.xp.copyto(target, total, casting="unsafe")
        return target

    def _moves(self, target: Any, source: Any) -> bool:
        """Whether an assignment is a copy within this device, from other memory."""
        is_here = self._is_here(target) and self._is_here(source)
        return is_here and bool(target.dtype == source.dtype) and not overlap(target, source)

    def gemm_batch(
        self,
        pairs: Sequence[tuple[Any, Any]],
        work: Sequence[int],
        out: Sequence[Any] | None = None,
        chains: Sequence[Sequence[int]] = (),
        alpha: Any = 1,
        beta: Any = 0,
    ) -> list[Any]:
        if out is None:
            out = [self.empty(ArraySpec(a.dtype, (len(a), b.shape[1]))) for a, b in pairs]
            chains = [(k,) for k in range(len(out))]
        with self._on():
            left = grouped.together(self.xp, pairs, out, chains, alpha, beta)
        for chain in left:
            started: set[int] = set()
            for k in chain:
                key = address(out[k])
                product = self.apply("matmul", {}, *pairs[k])
                self.assign(out[k], product, alpha, 1 if key in started else beta)
                started.add(key)
        return list(out)

    def view(self, array: Any) -> View:
        self.check_here(array, "view", "the argument")
        base = array
        while isinstance(base.base, self.xp.ndarray):
            base = base.base
        size = max(1, array.itemsize)
        start = address(array) - address(base)
        return View(array.shape, tuple(n // size for n in array.strides), start // size)

    def placement(self, array: Any, call: str = "placement: the argument") -> str:
        if isinstance(array, self.xp.ndarray):
            return f"gpu:{array.device.id}"
        if isinstance(array, (np.ndarray, np.generic)):
            return "cpu"
        if is_torch(array) and is_on_host(array):
            return "cpu"
        raise ConversionError(
            f"{call} is a {_kind(array)}; pass an array of CuPy, "
            f"or what to_device makes of one of NumPy"
        )

    def to_device(self, array: Any) -> Any:
        """A host array, or one of another device, on this one; what is here already is returned as it is, and
        of other libraries as an array of CuPy in the same memory.

        CuPy stages pageable memory through pinned buffers of its own.
        """
        xp = self.xp
        array = self._own("to_device", array)
        if isinstance(array, xp.ndarray):
            if array.device.id == self.ordinal:
                return array
            with across(xp, array.device.id, self.ordinal):
                return xp.array(array)
        if isinstance(array, (np.ndarray, np.generic)):
            self._check_dtype("to_device", ArraySpec(array.dtype, array.shape))
        with self._on():
            return xp.array(array)

    def to_host(self, array: Any) -> Any:
        """An array of a device as numpy.ndarray, column-major if it is that there; by way of pinned memory
        where it is large."""
        array = self._own("to_host", array)
        if not isinstance(array, self.xp.ndarray):
            self.placement(array, "to_host: the argument")
            return array
        if array.nbytes < PINNED:
            return array.get(order="A")
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            return self.to_host(array.transpose()).transpose()
        room = companion(self.xp, "").empty_pinned(array.shape, array.dtype)
        return array.get(out=room)

    def _own(self, call: str, array: Any) -> Any:
        """An array of another library as one of CuPy, a tensor of the host as one of NumPy."""
        if not isinstance(array, self.xp.ndarray):
            array = seen(array, call, 0, self.xp)
        return as_ndarray(array, call, 0) if is_torch(array) else array

    def capture(self, run: Callable[..., Any], arrays: Sequence[Any]) -> Captured:
        """`run` on these arrays as a CUDA graph; nobody else may call `run`, which may keep memory."""
        return Captured(self.xp, self.ordinal, run, arrays, getattr(run, "lanes", 1))

    @property
    def most_at_once(self) -> int:
        """Bytes of all that a program computes, up to which it may be there at once."""
        with self._on():
            return memory(self.xp) // replay.MOST

    def uploads(
        self,
        operands: Sequence[Any],
        pieces: Mapping[int, tuple[Any, uploads.Axes]],
        indices: Callable[[int], Sequence[int]],
    ) -> uploads.Uploads:
        """What slices take, of arrays of the host, copied while others are computed."""
        return uploads.Uploads(self.xp, self.ordinal, operands, pieces, indices)

    def in_lanes(
        self,
        pieces: Sequence[tuple[Kernel, tuple[int, ...], tuple[int, ...], bool]],
        inputs: Sequence[int],
        outputs: Sequence[int],
    ) -> Callable[..., Any]:
        """The steps of a program on several streams, to be captured.

        Args:
            pieces: the kernel of each step, the slots that it reads and makes, and whether it is a view.
            inputs, outputs: slots of the program.
        """
        with self._on():
            return lanes.InLanes(self.xp, [lanes.Piece(*one) for one in pieces], inputs, outputs)

    def repeated(
        self,
        plain: Callable[..., Any],
        inside: Callable[[], Callable[..., Any]],
        varying: int,
        steps: int,
        relayed: int,
        nbytes: int,
    ) -> Callable[..., Any]:
        """`plain`, for who calls it again and again: what `inside` makes, as a graph, where that is sooner.

        Args:
            varying: arrays that differ from call to call, before those that do not.
            steps: that queue work.
            relayed: bytes of those arrays and of the result.
            nbytes: these, and what is computed on the way.
        """
        with self._on():
            if not replay.is_worth(self.xp, steps, varying, relayed, nbytes):
                return plain
            return replay.Replay(self.xp, self.ordinal, plain, inside, varying, nbytes)

    def with_room(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """`run`; where there is no memory, `reclaim` and `run` once more."""
        return replay.with_room(self, run)

    def clock(self) -> Clock:
        return EventClock(self.xp, self.ordinal)

    def buffer_info(self) -> BufferInfo:
        with self._on():  # the pool counts for the current device
            pool = self.xp.get_default_memory_pool()
            used = int(pool.used_bytes())
            return BufferInfo(0, 0, used, int(pool.total_bytes()) - used, int(pool.get_limit()))

    def reclaim(self) -> int:
        graphs = replay.KEPT.nbytes
        replay.KEPT.clear()  # what calls left behind, which a pool of its own holds
        with self._on():
            pool = self.xp.get_default_memory_pool()
            before = int(pool.total_bytes())
            pool.free_all_blocks()
            return graphs + before - int(pool.total_bytes())

    def __repr__(self) -> str:
        return f"{self.device} ({self.xp.__name__})"


PINNED = 1 << 20  # bytes from which a buffer in page-locked memory is worth asking for
TEMPORARIES = 8


def _kind(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}"


def _wide_bytes(spec: ArraySpec) -> int:
    return spec.size * max(8, 2 * compute_dtype(spec.dtype).itemsize)


@cache
def gpu(ordinal: int = 0) -> GpuBackend:
    """The backend of a GPU; CuPy is imported here.

    Raises:
        DeviceError: CuPy, a card or a driver is missing, and what to do about it; there are fewer cards.
    """
    xp = load()
    count = xp.cuda.runtime.getDeviceCount()
    if ordinal >= count:
        raise DeviceError(
            f"backend 'gpu:{ordinal}': this process sees {count} GPUs, numbered from 0; look at "
            f"CUDA_VISIBLE_DEVICES"
        )
    return GpuBackend(xp, ordinal)
